"""Which detection is which ground truth: COCO's greedy rule and VOC's, for all images and thresholds at once.

Both take candidate pairs (detection, ground truth, IoU) and need nothing else of the geometry.

COCO. By each *criterion*, an (IoU threshold, area range), detections of a group choose in order of score, each the free
ground truth of the highest IoU, the last of equals; a ground truth that the criterion ignores is chosen only if no
other is left, and a crowd is never used up. A criterion is one bit of an int64 word, so one operation decides for 62
criteria, and step s treats the s-th candidate detection of every group together.

VOC. Each detection has one ground truth, that of its highest IoU, the first of equals; the first detection in order of
score to reach it over the threshold gets it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_ap.matching.candidate_pairs import Pairs
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays, cached
from torch_ap.runtime.arrays import native

_BITS = 62
_HIGHEST = 1 - 1e-10  # COCO's bound of a threshold, so that an IoU of 1 but for its last bits reaches it


@dataclass(frozen=True, eq=False)
class Criteria:
    """All (threshold, area range) criteria as bits of words, those of the lowest threshold first.

    Attributes:
        thresholds: (T,) float64, in any order.
        ranges: A, number of area ranges.
    """

    thresholds: Tensor
    ranges: int

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        """(T,) the thresholds that an IoU must reach, ascending, none above COCO's bound; and their places."""
        ordered, places = self.thresholds.clamp(max=_HIGHEST).sort(stable=True)
        return ordered, places

    @property
    def ascending(self) -> Tensor:
        """(T,) the thresholds that an IoU must reach, in ascending order, none above COCO's bound."""
        return self._sorted[0]

    @cached_property
    def least(self) -> float:
        """The lowest of them."""
        return float(self.ascending[0])

    @property
    def words(self) -> int:
        """How many words hold all criteria."""
        return -(-len(self.thresholds) * self.ranges // _BITS)

    def passed(self, iou: Tensor, word: int) -> Tensor:
        """(P,) the criteria of a word whose threshold each IoU reaches."""
        ascending, each = native(self.ascending), native(iou)
        criteria = arrays.namespace(each).searchsorted(ascending, each, side="right") * self.ranges - word * _BITS
        return arrays.tensor((1 << arrays.at_most(arrays.at_least(criteria, 0), _BITS)) - 1)

    def spread(self, flags: Tensor) -> Tensor:
        """(W, X) the criteria whose area range has its flag set; ``flags`` is (A, X) bool."""
        return arrays.tensor((native(flags) * native(self.of_ranges)[:, :, None]).sum(1))

    @cached_property
    def rank(self) -> Tensor:
        """(T,) int64, the place of each threshold in ascending order."""
        return self._sorted[1].argsort()

    def pack(self, flags: Tensor) -> Tensor:
        """(W, P) words of (T, P) flags, where there is one area range."""
        words = torch.zeros((self.words, flags.shape[1]), dtype=torch.int64, device=flags.device)
        return words.index_add_(0, self.rank // _BITS, flags.to(torch.int64) << (self.rank % _BITS)[:, None])

    @cached_property
    def places(self) -> tuple[Tensor, Tensor]:
        """(T, A) int64 each, the word of each threshold and area range, and the bit there."""
        rank = native(self.rank)
        criterion = rank[:, None] * self.ranges + arrays.steps(self.ranges, rank)
        return arrays.tensor(criterion // _BITS), arrays.tensor(1 << criterion % _BITS)

    @cached_property
    def of_ranges(self) -> Tensor:
        """(W, A) int64, all criteria of each area range."""
        word, bit = self.places
        return bit.new_zeros((self.words, self.ranges)).scatter_add_(0, word, bit)

    def of_range(self, words: Tensor, area: int) -> Tensor:
        """(T, P) bool, whether each threshold's criterion of one area range is set; ``words`` is (W, P)."""
        word, bit = (native(x)[:, area] for x in self.places)
        rows = native(words) if self.words == 1 else native(words)[word]
        return arrays.tensor((rows & bit[:, None]) != 0)

    def some_of_range(self, words: Tensor, area: int) -> Any:
        """(P,) bool, native, whether the criterion of any threshold is set in one area range."""
        found = native(words) & native(self.of_ranges)[:, area, None]
        return found[0] != 0 if self.words == 1 else (found != 0).any(0)

    def of_one(self, words: Tensor, area: int, threshold: int) -> Tensor:
        """(P,) bool, the row of :meth:`of_range` of one threshold."""
        criterion = int(native(self.rank)[threshold]) * self.ranges + area
        return arrays.tensor((native(words)[criterion // _BITS] & (1 << criterion % _BITS)) != 0)


@cached.settings_cache
def criteria_of(thresholds: tuple[float, ...], ranges: int, device: torch.device) -> Criteria:
    """Thresholds and so many area ranges as criteria, on a device."""
    return Criteria(segments.constants(thresholds, device), ranges)


def greedy(pairs: Pairs, group: Tensor, skipped: Tensor, crowd: Tensor, criteria: Criteria) -> Tensor:
    """COCO's matches.

    Args:
        pairs: P candidates in order of group and of place, with every IoU at least the lowest threshold.
        group: (G,) int64, the group of each ground truth.
        skipped: (W, G) int64, the criteria that ignore each ground truth; crowds are ignored in all.
        crowd: (G,) bool.
        criteria: thresholds and area ranges.

    Returns:
        (W, P) int64: for each pair the criteria in which the detection is matched to the ground truth.
    """
    plan = _Plan.of(pairs, group)
    chosen, of_truth = native(plan.pairs), native(crowd)
    truth, iou = (arrays.take(native(x), chosen) for x in (pairs.truth, pairs.iou))
    used_up = arrays.take(arrays.namespace(of_truth).where(of_truth, 0, -1), truth)
    out = pairs.truth.new_empty((criteria.words, len(truth)))
    for word in range(criteria.words):
        passed = native(criteria.passed(arrays.tensor(iou), word))
        other = passed & arrays.take(native(skipped)[word], truth)
        taken = native(pairs.truth.new_zeros(len(crowd)))
        native(out)[word, chosen] = _assign(plan, truth, passed ^ other, other, used_up, taken)
    return out


@dataclass(frozen=True)
class _Plan:
    """The order of assignment: pairs by step, then by preference, then by how many candidates their detection has.

    Attributes:
        pairs: (P,) int64, the pairs in this order.
        steps: for each step, where the pairs of its first, second, ... preference end; the first entry is its start.
    """

    pairs: Tensor
    steps: list[list[int]]

    @classmethod
    def of(cls, pairs: Pairs, group: Tensor) -> "_Plan":
        total = len(pairs.iou)
        if not total:
            return cls(pairs.truth, [])
        first, count = segments.runs(native(pairs.detection))
        opening, length = segments.runs(arrays.take(native(group), arrays.take(native(pairs.truth), first)))
        number = arrays.steps(len(first), first)
        detection, step = arrays.repeat(number, count), number - arrays.repeat(opening, length)
        # (step, preference) is one number; inside it, detections with more candidates come first, so that those that
        # have a next preference are the first few of their step
        width, preference = int(count.max()), arrays.steps(total, first) - arrays.take(first, detection)
        key, size = arrays.take(step, detection) * width + preference, (int(step.max()) + 1) * width
        ordered = order.stable_argsort(arrays.tensor(key * width + arrays.take(width - count, detection)), size * width)
        sizes = segments.count(key, size)
        ends, sizes = sizes.cumsum(0).reshape(-1, width).tolist(), sizes.reshape(-1, width)
        steps, last = [], 0
        for row, depth in zip(ends, (sizes > 0).sum(1).tolist(), strict=True):
            steps.append([last, *row[:depth]])
            last = row[-1]
        return cls(arrays.tensor(_by_preference(pairs, detection, count)[native(ordered)]), steps)


def _by_preference(pairs: Pairs, detection: Any, count: Any) -> Any:
    """(P,) the pairs of each detection by descending IoU, the last ground truth first among equals; native."""
    out, several = arrays.steps(len(detection), detection), arrays.places(arrays.take(count > 1, detection))
    if len(several):
        xp = arrays.namespace(out)
        inner = xp.flip(several, (0,))  # later ground truths first
        inner = inner[xp.argsort(-native(pairs.iou)[inner], stable=True)]
        of = arrays.tensor(arrays.take(detection, inner))
        out[several] = inner[native(order.stable_argsort(of, len(count)))]
    return out


def _assign(plan: _Plan, truth: Any, valid: Any, other: Any, used_up: Any, taken: Any) -> Any:
    """One word's matches. ``valid`` and ``other``: the criteria by which a pair's ground truth counts, or is ignored.

    All values are native: the steps are short, and NumPy's start faster.
    """
    xp = arrays.namespace(truth)
    matched, nothing = xp.zeros_like(truth), xp.zeros_like(truth)
    for first, *ends in plan.steps:
        if len(ends) == 1:
            chunk = slice(first, ends[0])
            g = truth[chunk]
            before = taken[g]
            match = (valid[chunk] | other[chunk]) & ~before
            taken[g] = before | (match & used_up[chunk])
            matched[chunk] = match
            continue
        chunks = [slice(low, high) for low, high in zip([first, *ends[:-1]], ends, strict=True)]
        need = ~nothing[: ends[0] - first]
        for criteria in (valid, other):
            for chunk in chunks:
                g = truth[chunk]
                before = taken[g]
                open_ = need[: chunk.stop - chunk.start]
                match = open_ & criteria[chunk] & ~before
                taken[g] = before | (match & used_up[chunk])
                open_ ^= match
                matched[chunk] |= match
    return matched


def best_pairs(pairs: Pairs) -> Pairs:
    """The pair of the highest IoU of each detection that has one, the first of equals.

    Args:
        pairs: P candidates, the pairs of each detection together.
    """
    first = segments.run_starts(pairs.detection)
    offsets = torch.cat([first, first.new_tensor([len(pairs.detection)])])
    best = segments.maximum(pairs.iou, offsets)
    detection = segments.ids(offsets)
    hits = (pairs.iou == best[detection]).nonzero().squeeze(1)
    chosen = hits[segments.run_starts(detection[hits])]
    return Pairs(pairs.detection[chosen], pairs.truth[chosen], pairs.iou[chosen])


def argmax(pairs: Pairs, thresholds: Tensor, *, strict: bool) -> tuple[Pairs, Tensor]:
    """VOC's matches.

    Args:
        pairs: P candidates, with the pairs of each detection together and detections in order of score inside groups.
        thresholds: (T,) float64.
        strict: whether an IoU must exceed the threshold rather than reach it.

    Returns:
        V pairs, that of each detection that has a ground truth; and (T, V) int8: 1 where it is matched, 0 where another
        was before, -1 where its IoU is too low.
    """
    best = best_pairs(pairs)
    truth = best.truth
    over = best.iou > thresholds[:, None] if strict else best.iou >= thresholds[:, None]
    by_truth = torch.argsort(truth, stable=True)
    passed = over[:, by_truth].to(torch.int32)
    start = segments.run_starts(truth[by_truth])
    length = start.diff(append=start.new_tensor([len(truth)]))
    before = passed.cumsum(1) - passed
    before -= before[:, segments.repeat(start, length)]
    state = torch.empty_like(over, dtype=torch.int8)
    state[:, by_truth] = torch.where(passed == 0, -1, (before == 0).to(torch.int8)).to(torch.int8)
    return best, state
