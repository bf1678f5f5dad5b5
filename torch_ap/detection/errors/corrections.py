"""AP after the correction of single ground truths: each changed image is matched again.

A correction concerns one image and at most two classes. All changed images are matched in one call, as a data set of
their own, by the rules of the metric. Only the detections whose outcome differs then change their ranking.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor

from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.detection.inputs.federated import NEGATIVE, NOT_EXHAUSTIVE
from torch_ap.detection.inputs.images import Columns, image_ids
from torch_ap.detection.matching.matched import Matches
from torch_ap.inference.suspicious import best_first

Matching: TypeAlias = Callable[[Columns], tuple[Tensor, Matches]]

_ENTRIES_A_CHUNK = 1 << 21  # hits of the rankings that are computed together
_COMPLETE_VISIBILITY = 2  # of the keypoints of an added ground truth


@dataclass(frozen=True, eq=False)
class Corrections:
    """C corrections, of one ground truth each: it gets another class, is removed, or is added.

    Attributes:
        image: (C,) int64, the positions of the images.
        truth: (C,) int64, the row of the ground truth to change or remove; -1 to add one.
        category: (C,) int64, the category that the ground truth gets; -1 to remove it.
        detection: (C,) int64, the row of the detection whose shape an added ground truth has; -1 for none.
    """

    image: Tensor
    truth: Tensor
    category: Tensor
    detection: Tensor


def corrected_average_precision(
    at: MatchesAt, corrections: Corrections, match: Matching, limit: int | None
) -> tuple[Tensor, Tensor]:
    """Return the mean AP of the classes with ground truths as it is, 0-d, and after each correction alone, (C,).

    Args:
        at: the matches.
        corrections: the corrections.
        match: returns the labels and the matches, in each class, of other columns.
        limit: number of the highest values to compute, None for all; the others are upper bounds below them.
    """
    matches, index, size = at.matches, at.threshold_index, at.matches.categories
    hit, miss = matches.flags(0, index)
    before = RankedOutcomes(at, hit, hit | miss)
    m = matches.relevant[0]
    every = torch.arange(size, device=m.device)
    ap = before.average_precision(every, m, no_changes(every))

    truth_category = _values_by_row(matches.truth_category, at)
    old = pick_or(truth_category, corrections.truth)
    pair = torch.stack([old, torch.where(corrections.category == old, -1, corrections.category)], 1)
    columns, rows, owner = _corrected_columns(at, corrections, pair, truth_category)
    matched = match(columns)
    changes = _changes(at, before, matched, pair, rows, owner)
    used = segments.flag_places((pair >= 0).flatten())
    category = pair.flatten()[used]
    rankings = _BoundedRankings(before, category, _relevant(at, corrections.image, matched, pair)[used], changes)
    removed = pick_or(ap, pair, torch.nan)
    total = ap.nansum() - removed.nansum(1)
    classes = (~ap.isnan()).sum() - _count_defined(removed)
    number = pair.flatten().index_copy(0, used, rankings.number).view_as(pair)  # -1 stays
    while True:
        after = pick_or(rankings.bound, number, torch.nan)
        values = (total + after.nansum(1)) / (classes + _count_defined(after))
        best = number[best_first(values, limit)].flatten()
        if not rankings.compute(torch.unique(best[best >= 0])):
            return ap.nanmean(), values


def _count_defined(values: Tensor) -> Tensor:
    """Return the number of defined values in each row."""
    return (~values.isnan()).sum(1)


@dataclass(frozen=True, eq=False)
class Changes:
    """Changed outcomes of detections in R rankings, by ranking and place.

    Attributes:
        ranking: (X,) int64 in [0, R).
        place: (X,) int64, the indices of the ranked detections.
        hit, counted: (X,) bool, the new outcomes.
    """

    ranking: Tensor
    place: Tensor
    hit: Tensor
    counted: Tensor

    def select(self, rankings: Tensor) -> "Changes":
        """Return the changes of some rankings, which are numbered from 0 then."""
        low, high = (torch.searchsorted(self.ranking, rankings, right=right) for right in (False, True))
        rows = segments.members(low, high)
        ranking = segments.repeat(torch.arange(len(rankings), device=rows.device), high - low)
        return Changes(ranking, self.place[rows], self.hit[rows], self.counted[rows])


def no_changes(like: Tensor) -> Changes:
    """Return no changes, on the device of an int64 tensor."""
    flags = like[:0].bool()
    return Changes(like[:0], like[:0], flags, flags)


class RankedOutcomes:
    """Outcomes of the N ranked detections, and rankings in which few outcomes differ.

    Args:
        at: the matches.
        hit: (N,) bool, the true positives.
        counted: (N,) bool, the true and false positives.
    """

    def __init__(self, at: MatchesAt, hit: Tensor, counted: Tensor) -> None:
        self.hit, self.counted, self.edges = hit, counted, at.matches.edges
        self.convention = Convention(interpolation=at.interpolation)
        self.hits = segments.flag_places(hit)
        self.offsets = torch.searchsorted(self.hits, self.edges)
        self.above = segments.as_int64(segments.running_counts(counted))

    def average_precision(self, categories: Tensor, m: Tensor, changes: Changes) -> Tensor:
        """Return the AP of R rankings of the detections of a category; NaN without ground truths.

        Args:
            categories: (R,) int64.
            m: (R,) int64 numbers of ground truths.
            changes: the outcomes that differ in each ranking.
        """
        entries = (self.offsets.diff()[categories] + 1).cumsum(0)
        starts = segments.run_starts(entries // _ENTRIES_A_CHUNK).tolist()
        parts, number = [], torch.arange(len(categories), device=m.device)
        for first, end in pairwise([*starts, len(categories)]):
            curve = self._curve(categories[first:end], m[first:end], changes.select(number[first:end]))
            parts.append(torch.where(curve.m > 0, self.convention(curve), torch.nan))
        return torch.cat(parts) if parts else segments.as_float64(m)

    def _curve(self, categories: Tensor, m: Tensor, changes: Changes) -> HitCurve:
        """Return the hit curves of R rankings; detections are not tied."""
        size, offsets = len(self.hit) + 1, self.offsets
        starts = torch.arange(len(categories) + 1, device=m.device) * size
        # a key is the ranking and the place of a detection
        low, high = offsets[categories], offsets[categories + 1]
        keys = segments.repeat(starts[:-1], high - low) + self.hits[segments.members(low, high)]
        changed, was_hit = changes.ranking * size + changes.place, self.hit[changes.place]
        kept = torch.ones_like(keys, dtype=torch.bool)
        kept[torch.searchsorted(keys, changed[was_hit & ~changes.hit])] = False
        keys = _merge_sorted(keys[kept], changed[changes.hit & ~was_hit])
        ends = torch.searchsorted(keys, starts)
        ranking = segments.ids(ends)
        # the detections that count above each hit: as before, and the changes above it
        more = segments.from_zero(changes.counted.long() - self.counted[changes.place].long())
        above, first = self.above, self.edges[categories]
        before = torch.searchsorted(changed, starts)
        items_above = above[keys - starts[ranking]] - above[first][ranking]
        items_above += more[torch.searchsorted(changed, keys)] - more[before[:-1]][ranking]
        ones = torch.ones_like(keys)
        return HitCurve(
            hits=ones,
            items=ones,
            hits_above=torch.arange(len(keys), device=keys.device) - ends[:-1][ranking],
            items_above=items_above,
            score=None,
            offsets=ends,
            n=above[self.edges[categories + 1]] - above[first] + more[before].diff(),
            m=m,
        )


class _BoundedRankings:
    """R rankings with few different outcomes, and upper bounds of their AP until it is computed.

    Most rankings differ in one outcome at most. Rankings of a category with equal numbers of ground truths form a chain
    of descending AP: a miss becomes a hit, the highest rank first; no outcome differs; a hit becomes a miss, the lowest
    rank first. A chain is computed from its start, as far as its bounds can be among the highest values.

    Args:
        before: the outcomes without differences.
        category: (R,) int64.
        m: (R,) int64 numbers of ground truths.
        changes: the outcomes that differ in each ranking.

    Attributes:
        number: (R,) int64, the number of each ranking among the D different ones, which are ordered by chain.
        bound: (D,) float64, the AP, or an upper bound; NaN without ground truths.
    """

    def __init__(self, before: RankedOutcomes, category: Tensor, m: Tensor, changes: Changes) -> None:
        self._before, self._category, self._m, self._changes = before, category, m, changes
        size, ranking, place = len(before.hit), changes.ranking, changes.place
        is_complex = changes.counted != before.counted[place]
        differences = segments.count(torch.cat([ranking, ranking[is_complex]]), len(m))
        rows = torch.arange(len(m), device=m.device)
        own = torch.where(differences < 2, -1, rows)  # the others have a chain of their own
        chain = torch.unique(torch.stack([category, m, own]), dim=1, return_inverse=True)[1]
        step = torch.full_like(m, size)
        step[ranking] = torch.where(changes.hit, place, 2 * size - place)
        different, self.number = torch.unique(chain * (2 * size + 1) + step, return_inverse=True)
        self._row = torch.empty_like(different).index_copy_(0, self.number, rows)
        self._is_known = m[self._row] <= 0
        self.bound = torch.where(self._is_known, torch.nan, segments.as_float64(torch.ones_like(different)))
        starts = segments.run_starts(chain[self._row])
        self._start = starts[segments.ids(torch.cat([starts, starts.new_tensor([len(different)])]))]
        self.compute(starts)

    def compute(self, numbers: Tensor) -> bool:
        """Compute the AP of some rankings, ascending; return whether any was not known."""
        numbers = numbers[~self._is_known[numbers]]
        if not len(numbers):
            return False
        rows, by_row = self._row[numbers].sort()
        numbers = numbers[by_row]
        changes = self._changes.select(rows)
        self.bound[numbers] = self._before.average_precision(self._category[rows], self._m[rows], changes)
        self._is_known[numbers] = True
        place = torch.arange(len(self.bound), device=numbers.device)
        last = torch.where(self._is_known, place, -1).cummax(0).values
        self.bound = torch.where(last >= self._start, self.bound[last], self.bound)
        return True


def pick_or(values: Tensor, rows: Tensor, default: float = -1) -> Tensor:
    """Return the values of rows, and a default for rows of -1."""
    return torch.cat([values, values.new_full((1,), default)])[rows]


def _merge_sorted(values: Tensor, further: Tensor) -> Tensor:
    """Return the values of two ascending tensors, ascending; a sort of all takes several times as long."""
    places = torch.searchsorted(values, further) + torch.arange(len(further), device=further.device)
    out = values.new_empty(len(values) + len(further))
    is_old = torch.ones_like(out, dtype=torch.bool).index_fill_(0, places, False)
    out[is_old], out[places] = values, further
    return out


def _values_by_row(values: Tensor, at: MatchesAt) -> Tensor:
    """Return values of the ground truths of the matches by input row; -1 for other ground truths."""
    assert at.matches.partners is not None
    out = values.new_full((len(at.columns["ground_truth_labels"]),), -1)
    out[at.matches.partners.rows] = values
    return out


def _corrected_columns(
    at: MatchesAt, corrections: Corrections, pair: Tensor, truth_category: Tensor
) -> tuple[Columns, Tensor, Tensor]:
    """Return one image per correction, with the shapes of its classes only.

    Returns:
        The columns; and the input row and the correction of each of their detections.
    """
    columns, matches, image = at.columns, at.matches, corrections.image
    category = torch.full_like(columns["detection_labels"], -1)
    category[matches.ranked.rows] = matches.ranked.category  # unranked detections exceed a limit, and stay out
    rows, owner = _rows_of_images(columns["detections_per_image"], image)
    kept = _is_in_pair(category[rows], pair, owner)
    rows, owner = rows[kept], owner[kept]

    truths, truth_owner = _rows_of_images(columns["ground_truths_per_image"], image)
    is_changed = truths == corrections.truth[truth_owner]
    given = torch.where(is_changed, corrections.category[truth_owner], truth_category[truths])
    kept = _is_in_pair(given, pair, truth_owner)
    added = (corrections.detection >= 0).nonzero().squeeze(1)
    total = len(columns["ground_truth_labels"])
    truths = torch.cat([truths[kept], total + torch.arange(len(added), device=added.device)])
    truth_owner = torch.cat([truth_owner[kept], added])
    given = torch.cat([given[kept], corrections.category[added]])
    in_order = truth_owner.argsort(stable=True)  # an added ground truth is the last one of its image
    truths, truth_owner, given = (x[in_order] for x in (truths, truth_owner, given))

    pool = columns | _with_detections(at, corrections.detection[added])
    out = {
        **pick_rows(columns, "detection", rows),
        **pick_rows(pool, "ground_truth", truths),
        "ground_truth_labels": at.labels[given],
    }
    for side, owners in (("detection", owner), ("ground_truth", truth_owner)):
        out[f"{side}s_per_image"] = segments.count(owners, len(image))
    if NEGATIVE in columns:  # LVIS: the classes of a correction stay searched, also without a ground truth
        counts = columns[f"{NOT_EXHAUSTIVE}_per_image"]
        out[NOT_EXHAUSTIVE] = columns[NOT_EXHAUSTIVE][_rows_of_images(counts, image)[0]]
        out |= {NEGATIVE: at.labels[pair[pair >= 0]], f"{NEGATIVE}_per_image": (pair >= 0).sum(1)}
        out[f"{NOT_EXHAUSTIVE}_per_image"] = counts[image]
    if "image_sizes" in columns:
        out["image_sizes"] = columns["image_sizes"][image]
    return {name: out[name] for name in columns}, rows, owner


def _is_in_pair(category: Tensor, pair: Tensor, owner: Tensor) -> Tensor:
    """Return whether each category, -1 for none, is one of the two of its correction."""
    first, second = (x[owner] for x in pair.unbind(1))
    return ((category == first) | (category == second)) & (category >= 0)


def _rows_of_images(counts: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of each of these images, concatenated, and the place of their image in ``image``."""
    offsets = segments.from_counts(counts)
    first, ends = offsets[image], offsets[image + 1]
    return segments.members(first, ends), image_ids(ends - first)


def pick_rows(columns: Columns, side: str, rows: Tensor) -> Columns:
    """Return the columns of a side for some of its rows."""
    edges, counts = f"{side}_mask_edges", f"{side}_edges_per_mask"
    names = [x for x in columns if x.startswith(f"{side}_") and x != edges]
    out = {name: columns[name][rows] for name in names}
    if edges in columns:
        out[edges] = columns[edges][_rows_of_images(columns[counts], rows)[0]]
    return out


def _with_detections(at: MatchesAt, rows: Tensor) -> Columns:
    """Return the columns of the ground truths, followed by some detections as ground truths."""
    columns, out = at.columns, dict[str, Tensor]()
    found = pick_rows(columns, "detection", rows)
    missing = {"boxes": torch.nan}  # optional boxes around keypoints
    for name in (x for x in columns if x.startswith("ground_truth_") and not x.endswith("per_image")):
        key = name.removeprefix("ground_truth_")
        if key == "area":
            values = _areas(at, rows)
        elif (same := f"detection_{key}") in found:
            values = found[same]
        else:
            values = columns[name].new_full((len(rows), *columns[name].shape[1:]), missing.get(key, 0))
        if key == "keypoints":
            values = values.index_fill(2, torch.tensor([2], device=values.device), _COMPLETE_VISIBILITY)
        out[name] = torch.cat([columns[name], values.to(columns[name].dtype)])
    return out


def _areas(at: MatchesAt, rows: Tensor) -> Tensor:
    """Return the areas of detections as the rules of the metric compute them; 0, the area of the shape, if they do."""
    if "detection_area" in at.columns:
        return at.columns["detection_area"][rows]
    if at.settings.geometry(at.iou_type).area is None:
        return torch.zeros_like(rows)
    areas: Tensor = at.settings.area(at.columns, at.iou_type, "detection")
    return areas[rows]


def _changes(
    at: MatchesAt, before: RankedOutcomes, matched: tuple[Tensor, Matches], pair: Tensor, rows: Tensor, owner: Tensor
) -> Changes:
    """Return the changed outcomes; rankings are the categories of ``pair`` other than -1, numbered in this order.

    Args:
        at: the matches before.
        before: their outcomes.
        matched: labels and matches of the corrected images.
        pair: (C, 2) the categories of each correction; -1 for none.
        rows, owner: input row and correction of each detection of the corrected images.
    """
    new, ranked = matched[1], at.matches.ranked
    hit, miss = new.flags(0, at.threshold_index)
    flags = torch.zeros((2, len(rows)), dtype=torch.bool, device=rows.device)
    flags[:, new.ranked.rows] = torch.stack([hit, hit | miss])
    place = torch.empty_like(at.columns["detection_labels"])
    place[ranked.rows] = torch.arange(len(ranked.rows), device=place.device)
    place = place[rows]
    is_changed = (flags[0] != before.hit[place]) | (flags[1] != before.counted[place])
    place, owner, flags = place[is_changed], owner[is_changed], flags[:, is_changed]
    number = segments.from_counts((pair >= 0).flatten().long())
    ranking = number[2 * owner + (ranked.category[place] == pair[owner, 1])]
    in_order = (ranking * (len(before.hit) + 1) + place).argsort()
    return Changes(ranking[in_order], place[in_order], *flags[:, in_order])


def _relevant(at: MatchesAt, image: Tensor, matched: tuple[Tensor, Matches], pair: Tensor) -> Tensor:
    """Return the (2C,) numbers of ground truths that count in both classes after each correction."""
    labels, new = matched
    old, size, pair = at.matches, at.matches.categories, pair.clamp(min=0)
    groups = new.truth_group[new.valid[0]]
    category = torch.searchsorted(at.labels, labels)[groups % new.categories]
    owner = torch.arange(len(image), device=image.device)[:, None]
    before = _count_equal(old.truth_group[old.valid[0]], image[:, None] * size + pair)
    now = _count_equal(groups // new.categories * size + category, owner * size + pair)
    return (old.relevant[0][pair] - before + now).flatten()


def _count_equal(ascending: Tensor, values: Tensor) -> Tensor:
    return torch.searchsorted(ascending, values, right=True) - torch.searchsorted(ascending, values)
