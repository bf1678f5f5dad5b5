"""Matched detections to hit curves, one a (threshold, category).

A true positive is a hit; a false positive is a miss; what is matched to an ignored ground truth, or is unmatched and
outside the area range, is no item at all. No two detections tie: COCO and VOC take them one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from torch_ap.matching.assignment import Criteria
from torch_ap.matching.candidate_pairs import Ranked
from torch_ap.ranking import order, segments
from torch_ap.ranking.counting import from_ordered
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_SORTING_PAYS = 4  # so many slices without a common image, against a look at all images for each


class Shares(Protocol):
    """What makes one data set of the images of several processes, each of which has a share of the classes."""

    def labels(self, here: Tensor) -> Tensor:
        """The labels of the images here to (K,) those of all, ascending."""
        ...

    def matches(self, found: Callable[[], "Matches"]) -> "Matches":
        """The matches of all images in the classes of the share; ``found`` gives those of the images here."""
        ...

    def whole(self, values: Tensor) -> Tensor:
        """(T, K, ...) values, which are right for the classes of the share, to those of all classes."""
        ...


class Partners(NamedTuple):
    """Which ground truths the E matched pairs have.

    Attributes:
        truth: (E,) int64, a place among ``Matches.truth_group``.
        iou: (E,) float64, that of the pair.
        rows: (G,) int64, the row that each ground truth had in the input.
    """

    truth: Tensor
    iou: Tensor
    rows: Tensor

    def of_pairs(self, kept: Tensor) -> "Partners":
        """Those of some of the pairs."""
        return Partners(self.truth[kept], self.iou[kept], self.rows)


class Events(NamedTuple):
    """The true positives as matched pairs and as detections, (H,) int64; what does not count, (U,): all ascending."""

    pairs: Tensor
    hits: Tensor
    uncounted: Tensor


@dataclass(frozen=True, eq=False)
class Matches:
    """What matching found, for all criteria.

    Attributes:
        ranked: the detections, N of them.
        at: (E,) int64, non-decreasing: the detection of each matched pair.
        matched: (W, E) int64, the criteria in which the pair is matched.
        true_positive: (W, E) int64, those of them in which the ground truth is not ignored.
        inside: (A, N) bool, whether each detection, if unmatched, counts in each area range.
        truth_group: (G,) int64, the group of each ground truth, as of ``ranked``.
        valid: (A, G) bool, whether each ground truth is not ignored.
        categories: K.
        criteria: thresholds and area ranges.
        partners: the ground truths of the matched pairs; None where the pairs are those of several processes,
            of some of the images, or stored.
        relevant_of_all: (A, K) int64, ``relevant`` where ground truths are those of some images, detections of all.
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
        """(A, K) int64, ground truths that are not ignored."""
        if self.relevant_of_all is not None:
            return self.relevant_of_all
        each = [self.truth_category.index_select(0, segments.places(flags)) for flags in self.valid]
        return torch.stack([segments.count(category, self.categories) for category in each])

    @cached_property
    def truth_category(self) -> Tensor:
        """(G,) int64, the category of each ground truth."""
        return arrays.tensor(native(self.truth_group) % self.categories)

    @cached_property
    def edges(self) -> Tensor:
        """(K + 1,) int64, where the detections of each category begin and end."""
        category = native(self.ranked.category)
        return arrays.tensor(arrays.below(category, arrays.steps(self.categories + 1, category)))

    @cached_property
    def images(self) -> tuple[Tensor, Tensor]:
        """(N,) and (G,) int64, the image of each detection and of each ground truth."""
        one, two = (arrays.tensor(native(x) // self.categories) for x in (self.ranked.group, self.truth_group))
        return one, two  # NumPy divides by one number four times as fast

    def of_images(self, kept: Tensor) -> "Matches":
        """The same of some of the images alone, as if there were no others: (B,) bool. Without ``ranked.by_group``."""
        return self.of_slices(kept[None])

    def of_slices(self, kept: Tensor) -> "Matches":
        """Those of some of the images, side by side as one data set: the images and categories of each have their own.

        Args:
            kept: (S, B) bool, the images of each slice.

        Returns:
            Of S * K categories, those of the first slice first, without ``ranked.by_group``; a slice has in its own
            what a metric has found that has seen its images alone.
        """
        slices, ranked = len(kept), self.ranked
        number = kept.view(-1).cumsum(0) - 1
        image, truth_image = self.images
        of_rows, rows = _places_in(kept, image)
        of_pairs, pairs = _places_in(kept, image.index_select(0, self.at))
        of_truths, truths = _places_in(kept, truth_image)

        def groups(of: Tensor, image: Tensor, category: Tensor) -> Tensor:
            return number[of * len(kept[0]) + image].mul_(slices * self.categories).add_(category)

        category = ranked.category.index_select(0, rows).add_(of_rows * self.categories)
        truth_category = self.truth_category.index_select(0, truths).add_(of_truths * self.categories)
        at = self.at.index_select(0, pairs)
        if bool((kept.sum(0) <= 1).all()):  # no image is in two
            places = rows.new_empty(len(image)).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
            at = places.index_select(0, at)
        else:
            keys, wanted = of_rows * len(image) + rows, at.add_(of_pairs * len(image))
            at = arrays.tensor(arrays.below(native(keys), native(wanted)))
        return replace(
            self,
            ranked=Ranked(
                rows=ranked.rows.index_select(0, rows),
                category=category,
                score=ranked.score.index_select(0, rows),
                group=groups(of_rows, image.index_select(0, rows), category),
                place=ranked.place.index_select(0, rows),
                by_group=rows[:0],
            ),
            at=at,
            matched=_columns(self.matched, pairs),
            true_positive=_columns(self.true_positive, pairs),
            inside=_columns(self.inside, rows),
            truth_group=groups(of_truths, truth_image.index_select(0, truths), truth_category),
            valid=_columns(self.valid, truths),
            categories=slices * self.categories,
            partners=None,
        )

    def until(self, most: int) -> "Matches":
        """The same of only the first ``most`` detections of each group, as if there were no others."""
        early = self.ranked.place < most
        kept = early[self.at].nonzero().squeeze(1)
        return replace(
            self,
            at=self.at[kept],
            matched=self.matched[:, kept],
            true_positive=self.true_positive[:, kept],
            inside=self.inside & early,
            partners=self.partners and self.partners.of_pairs(kept),
        )

    def hits(self, area: int, most: int) -> Tensor:
        """(T, K) int64, true positives in one area range among the first ``most`` detections of each group."""
        early = segments.places(self.ranked.place.index_select(0, self.at) < most)
        found = self.criteria.of_range(_columns(self.true_positive, early), area)
        category = self.ranked.category.index_select(0, self.at.index_select(0, early))
        edges = torch.searchsorted(category, torch.arange(self.categories + 1, device=category.device))
        return segments.running_counts(found).index_select(1, edges).diff().to(torch.int64)

    def curve(self, area: int) -> HitCurve:
        """The hit curves of one area range: T * K rankings, those of the first threshold first."""
        counted = self.inside[area]
        found, true_positive = (self.criteria.of_range(words, area) for words in (self.matched, self.true_positive))
        size, edges = self.categories, torch.arange(self.categories + 1, device=self.at.device)
        # detections that count, and matched ones of them, up to any place; both start anew with each category
        counts = segments.running_counts(counted)
        matched = segments.running_counts(found & counted.index_select(0, self.at))
        category = self.ranked.category.index_select(0, self.at)
        first = counts[torch.searchsorted(self.ranked.category, edges)]
        first_matched = matched[:, torch.searchsorted(category, edges)]
        # taken by `index_select`, in a third of the time of brackets
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
        """The K rankings of one threshold and area range, where every detection that counts is an entry."""
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
        """(N,) bool, the true and the false positives at one threshold in one area range; others do not count."""
        _, hits, uncounted = self.events(area, threshold)
        hit = torch.zeros_like(self.inside[area]).index_fill_(0, hits, True)
        return hit, (~hit).index_fill_(0, uncounted, False)

    def events(self, area: int, threshold: int) -> "Events":
        """What counts at one threshold in one area range; what was asked for last is kept, and not to be changed."""
        found = self._latest.get((area, threshold))
        if found is None:
            both = (self.criteria.of_one(x, area, threshold) for x in (self.matched, self.true_positive))
            matched, right = (arrays.places(native(x)) for x in both)
            taken, hits = (arrays.take(native(self.at), x) for x in (matched, right))
            uncounted = ~native(self.inside)[area]
            uncounted[taken], uncounted[hits] = True, False
            found = Events(*map(arrays.tensor, (right, hits, arrays.places(uncounted))))
            self._latest.clear()
            self._latest[area, threshold] = found
        return found

    @cached_property
    def _latest(self) -> dict[tuple[int, int], "Events"]:
        return {}

    def counts_at(self, area: int, threshold: int, score: float) -> tuple[Tensor, Tensor]:
        """(K,) true and (K,) false positives of at least a score, at one threshold in one area range."""
        kept, (hit, miss) = segments.comparable(self.ranked.score) >= score, self.flags(area, threshold)
        tp, fp = (segments.count(self.ranked.category[kept & each], self.categories) for each in (hit, miss))
        return tp, fp

    def best_score(self) -> Tensor:
        """(K,) float64, the score of each category's first detection; 0 where it has none."""
        category = self.ranked.category
        edges = torch.searchsorted(category, torch.arange(self.categories, device=category.device))
        score = torch.zeros(self.categories, dtype=torch.float64, device=category.device)
        if len(category):
            at = edges.clamp(max=len(category) - 1)
            found = category[at] == torch.arange(self.categories, device=category.device)
            score = torch.where(found, self.ranked.score[at].to(torch.float64), score)
        return score


def _places_in(kept: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """The slice, and the place among N, of what is in the images of each slice: int64, in order of both.

    Args:
        kept: (S, B) bool.
        image: (N,) int64.
    """
    slices, times = len(kept), kept.sum(0)
    if slices < _SORTING_PAYS or bool((times > 1).any()):
        found = segments.places(_columns(kept, image).view(-1))
        of = arrays.tensor(native(found) // max(1, len(image)))
        return of, found.sub_(of * len(image))
    number = torch.arange(slices, device=kept.device)[:, None]
    of_image = torch.where(times > 0, (kept * number).sum(0), slices).to(torch.int16)
    keys = segments.pick(of_image, image)
    places = order.stable_argsort(keys, slices + 1)
    ends = torch.searchsorted(segments.pick(keys, places), number[:, 0].to(torch.int16), right=True)
    of = segments.repeat(number[:, 0], torch.diff(ends, prepend=ends[:1] * 0))
    return of, places[: len(of)]


def _columns(values: Tensor, places: Tensor) -> Tensor:
    """The columns of (R, N) values at these places."""
    return arrays.tensor(arrays.take(native(values), native(places)))
