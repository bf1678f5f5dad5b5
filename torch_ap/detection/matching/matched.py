"""Hit curves from matched detections, one curve for each threshold and category.

A true positive is a hit and a false positive a miss. A detection that is matched to an ignored ground truth, or is
unmatched and outside the area range, is ignored. Detections never tie, because COCO and VOC process them one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.builders import from_ordered
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.detection.matching.assignment import Criteria
from torch_ap.detection.matching.candidate_pairs import Ranked

_SORTING_PAYS = 4  # slices without a common image; from here one sort costs less than a pass for each slice


class Shares(Protocol):
    """The exchange between processes: each has some images, and evaluates a share of the classes in all images."""

    def labels(self, local_labels: Tensor) -> Tensor:
        """Return the (K,) labels of all processes, ascending, from the labels of this process."""
        ...

    def matches(self, match: Callable[[], "Matches"]) -> "Matches":
        """Return the matches of all images in this share of the classes; ``match`` computes the local matches."""
        ...

    def combine(self, values: Tensor) -> Tensor:
        """Combine (T, K, ...) values, valid for this share of the classes, to the values of all classes."""
        ...


class Partners(NamedTuple):
    """The ground truths of the E matched pairs.

    Attributes:
        truth: (E,) int64, indices into ``Matches.truth_group``.
        iou: (E,) float64, the IoU of each pair.
        rows: (G,) int64, the input row of each ground truth.
    """

    truth: Tensor
    iou: Tensor
    rows: Tensor


class Events(NamedTuple):
    """Indices of the true positives, among pairs and detections, and of ignored detections, ascending int64.

    Attributes:
        pairs: (H,) the matched pair of each true positive.
        hits: (H,) the detection of each true positive.
        uncounted: (U,) the detections that are ignored.
    """

    pairs: Tensor
    hits: Tensor
    uncounted: Tensor


@dataclass(frozen=True, eq=False)
class Matches:
    """The matches of all criteria.

    Attributes:
        ranked: the N ranked detections.
        at: (E,) int64, the detection of each matched pair, non-decreasing.
        matched: (W, E) int64, the criteria that match the pair.
        true_positive: (W, E) int64, the criteria that match the pair and do not ignore its ground truth.
        inside: (A, N) bool, whether each detection, if unmatched, is counted in each area range.
        truth_group: (G,) int64, the group of each ground truth, as in ``ranked``.
        valid: (A, G) bool, False for ignored ground truths.
        categories: the number of categories, K.
        criteria: thresholds and area ranges.
        partners: the ground truths of the matched pairs; None for the matches of several processes, of a part of the
            images, and for stored matches.
        relevant_of_all: (A, K) int64, replaces ``relevant`` if the ground truths come from a part of the images and the
            detections from all images.
    """

    ranked: Ranked
    at: Tensor
    matched: Tensor
    true_positive: Tensor
    inside: Tensor
    truth_group: Tensor
    valid: Tensor
    categories: int
    criteria: Criteria
    partners: Partners | None
    relevant_of_all: Tensor | None = None

    @cached_property
    def relevant(self) -> Tensor:
        """The number of ground truths that are not ignored: (A, K) int64."""
        if self.relevant_of_all is not None:
            return self.relevant_of_all
        category, valid = native(self.truth_category), native(self.valid)
        cell = arrays.arange_like(len(valid), category)[:, None] * self.categories + category
        counts = segments.count(cell[valid], len(valid) * self.categories)
        return arrays.tensor(counts.reshape(len(valid), -1))

    @cached_property
    def truth_category(self) -> Tensor:
        """The category of each ground truth: (G,) int64."""
        return arrays.tensor(native(self.truth_group) % self.categories)

    @cached_property
    def edges(self) -> Tensor:
        """The start and end of the detections of each category: (K + 1,) int64."""
        category = native(self.ranked.category)
        return arrays.tensor(arrays.below(category, arrays.arange_like(self.categories + 1, category)))

    @cached_property
    def images(self) -> tuple[Tensor, Tensor]:
        """The image of each detection, (N,) int64, and of each ground truth, (G,) int64."""
        # NumPy divides by a scalar four times as fast as torch
        detected, true = (arrays.tensor(native(x) // self.categories) for x in (self.ranked.group, self.truth_group))
        return detected, true

    def select_images(self, kept: Tensor) -> "Matches":
        """Return the matches of the images with (B,) flags, without ``ranked.by_group``."""
        return self.select_slices(kept[None])

    def select_slices(self, kept: Tensor) -> "Matches":
        """Return the matches of several slices of the images as one data set.

        Args:
            kept: (S, B) bool, the images of each slice.

        Returns:
            Matches with S * K categories, slice by slice, without ``ranked.by_group``. The matches of the categories of
            a slice equal the matches of a data set with only the images of this slice.
        """
        slices, ranked = len(kept), self.ranked
        number = kept.view(-1).cumsum(0) - 1
        image, truth_image = self.images
        row_slice, rows = _slice_members(kept, image)
        pair_slice, pairs = _slice_members(kept, image.index_select(0, self.at))
        truth_slice, truths = _slice_members(kept, truth_image)

        def groups(slice_number: Tensor, image: Tensor, category: Tensor) -> Tensor:
            return number[slice_number * len(kept[0]) + image].mul_(slices * self.categories).add_(category)

        category = ranked.category.index_select(0, rows).add_(row_slice * self.categories)
        truth_category = self.truth_category.index_select(0, truths).add_(truth_slice * self.categories)
        at = self.at.index_select(0, pairs)
        if bool((kept.sum(0) <= 1).all()):  # no image is in two slices
            places = rows.new_empty(len(image)).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
            at = places.index_select(0, at)
        else:
            keys, pair_keys = row_slice * len(image) + rows, at.add_(pair_slice * len(image))
            at = arrays.tensor(arrays.below(native(keys), native(pair_keys)))
        return replace(
            self,
            ranked=Ranked(
                rows=ranked.rows.index_select(0, rows),
                category=category,
                score=ranked.score.index_select(0, rows),
                group=groups(row_slice, image.index_select(0, rows), category),
                place=ranked.place.index_select(0, rows),
                by_group=rows[:0],
            ),
            at=at,
            matched=_take_columns(self.matched, pairs),
            true_positive=_take_columns(self.true_positive, pairs),
            inside=_take_columns(self.inside, rows),
            truth_group=groups(truth_slice, truth_image.index_select(0, truths), truth_category),
            valid=_take_columns(self.valid, truths),
            categories=slices * self.categories,
            partners=None,
        )

    def until(self, most: int) -> "Matches":
        """Return the matches of only the first ``most`` detections of each group."""
        early = self.ranked.place < most
        pairs, partners = early[self.at].nonzero().squeeze(1), self.partners
        return replace(
            self,
            at=self.at[pairs],
            matched=self.matched[:, pairs],
            true_positive=self.true_positive[:, pairs],
            inside=self.inside & early,
            partners=partners and Partners(partners.truth[pairs], partners.iou[pairs], partners.rows),
        )

    def hits(self, area: int, most: int) -> Tensor:
        """Count the true positives in one area range among the first ``most`` detections of each group: (T, K)."""
        at = native(self.at)
        early = arrays.true_indices(arrays.take(native(self.ranked.place), at) < most)
        true_positive = self.criteria.range_flags(arrays.tensor(arrays.take(native(self.true_positive), early)), area)
        category = arrays.take(native(self.ranked.category), arrays.take(at, early))
        edges = arrays.below(category, arrays.arange_like(self.categories + 1, category))
        counts = arrays.take(segments.running_counts(native(true_positive)), edges)
        return arrays.tensor(segments.as_int64(counts[:, 1:] - counts[:, :-1]))

    def curve(self, area: int) -> HitCurve:
        """Return the hit curves of one area range: T * K rankings, by threshold and category."""
        counted = self.inside[area]
        matched, true_positive = (
            self.criteria.range_flags(words, area) for words in (self.matched, self.true_positive)
        )
        size, edges = self.categories, torch.arange(self.categories + 1, device=self.at.device)
        # running counts of counted detections, and of matched ones among them
        counts = segments.running_counts(counted)
        matched = segments.running_counts(matched & counted.index_select(0, self.at))
        category = self.ranked.category.index_select(0, self.at)
        first = counts[self.edges]
        first_matched = matched[:, torch.searchsorted(category, edges)]
        # `index_select` takes a third of the time of brackets
        t, event = true_positive.nonzero(as_tuple=True)
        ranking = t * size + category.index_select(0, event)
        hits = segments.count(ranking, len(true_positive) * size)
        offsets = segments.from_counts(hits)
        hits_above = torch.arange(len(event), device=event.device).sub_(offsets.index_select(0, ranking))
        at = self.at.index_select(0, event)
        misses = counts[1:].index_select(0, at) - matched.flatten().index_select(0, t * matched.shape[1] + event + 1)
        misses -= (first[:-1] - first_matched[:, :-1]).flatten().index_select(0, ranking)
        ones = torch.ones_like(hits_above)
        return HitCurve(
            hits=ones,
            items=ones,
            hits_above=hits_above,
            items_above=hits_above + misses,
            score=self.ranked.score.index_select(0, at),
            offsets=offsets,
            n=(first.diff() - first_matched.diff(dim=1)).flatten() + hits,
            m=self.relevant[area].repeat(len(true_positive)),
        )

    def rankings(self, area: int, threshold: int) -> HitCurve:
        """Return the K rankings of one threshold and area range, with an entry for every counted detection."""
        hit, miss = self.flags(area, threshold)
        counted = (hit | miss).nonzero().squeeze(1)
        edges = torch.arange(self.categories + 1, device=counted.device)
        return from_ordered(
            hit[counted],
            torch.ones_like(hit[counted]),
            torch.searchsorted(self.ranked.category[counted], edges),
            score=self.ranked.score[counted],
            m=self.relevant[area].clone(),
            keep_all_groups=True,
        )

    def flags(self, area: int, threshold: int) -> tuple[Tensor, Tensor]:
        """Whether each detection is a true and a false positive at one threshold and area range: (N,) bool each."""
        _, hits, uncounted = self.events(area, threshold)
        hit = torch.zeros_like(self.inside[area]).index_fill_(0, hits, True)
        return hit, (~hit).index_fill_(0, uncounted, False)

    def events(self, area: int, threshold: int) -> "Events":
        """Return the events at one threshold and area range; the last result is cached and must not be modified."""
        events = self._latest.get((area, threshold))
        if events is None:
            flags = (self.criteria.threshold_flags(x, area, threshold) for x in (self.matched, self.true_positive))
            matched, pairs = (arrays.true_indices(native(x)) for x in flags)
            detections, hits = (arrays.take(native(self.at), x) for x in (matched, pairs))
            uncounted = ~native(self.inside)[area]
            uncounted[detections], uncounted[hits] = True, False
            events = Events(*map(arrays.tensor, (pairs, hits, arrays.true_indices(uncounted))))
            self._latest.clear()
            self._latest[area, threshold] = events
        return events

    @cached_property
    def _latest(self) -> dict[tuple[int, int], "Events"]:
        return {}

    def counts_at(self, area: int, threshold: int, score: float) -> tuple[Tensor, Tensor]:
        """Count true and false positives with at least a score, at one threshold and area range: (K,) each."""
        above, both = segments.comparable(self.ranked.score) >= score, self.flags(area, threshold)
        tp, fp = (segments.count(self.ranked.category[above & flags], self.categories) for flags in both)
        return tp, fp

    def best_score(self) -> Tensor:
        """Return the highest score of each category: (K,) float64, 0 without detections."""
        score = segments.as_float64(self.ranked.score)
        first = torch.cat([score, score.new_zeros(1)])[self.edges[:-1]]
        return torch.where(self.edges.diff() > 0, first, 0)


def _slice_members(kept: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """Return the slice and the index of all items whose image is in a slice: int64, by slice and index.

    Args:
        kept: (S, B) bool, the images of each slice.
        image: (N,) int64, the image of each item.
    """
    slices, times = len(kept), kept.sum(0)
    if slices < _SORTING_PAYS or bool((times > 1).any()):
        places = segments.flag_places(_take_columns(kept, image).view(-1))
        slice_number = arrays.tensor(native(places) // max(1, len(image)))
        return slice_number, places.sub_(slice_number * len(image))
    number = torch.arange(slices, device=kept.device)[:, None]
    image_slice = torch.where(times > 0, (kept * number).sum(0), slices).to(torch.int16)
    keys = segments.pick(image_slice, image)
    places = order.stable_argsort(keys, slices + 1)
    ends = torch.searchsorted(segments.pick(keys, places), number[:, 0].to(torch.int16), right=True)
    slice_number = segments.repeat(number[:, 0], torch.diff(ends, prepend=ends[:1] * 0))
    return slice_number, places[: len(slice_number)]


def _take_columns(values: Tensor, places: Tensor) -> Tensor:
    """Return columns of (R, N) values."""
    return arrays.tensor(arrays.take(native(values), native(places)))
