"""The matching rules of COCO and VOC, vectorized over images and thresholds.

The input of both rules is a list of candidate pairs (detection, ground truth, IoU), independent of the geometry.

COCO: a *criterion* is a pair of IoU threshold and area range. In each criterion the detections of a group choose by
descending score. Each detection chooses the free ground truth with the highest IoU, the last one among equals. It
chooses a ground truth that the criterion ignores only if there is no other, and a crowd can be matched any number of
times. A criterion is one bit of an int64 word, so one operation decides 62 criteria. Step s processes the s-th
candidate detection of every group. The candidates of a detection are a row by descending preference. The choice is the
first candidate where the running OR of the row contains the bit. So the time depends only on the number of pairs.

VOC: each detection has one ground truth, the one with the highest IoU, the first one among equals. A ground truth is
matched to the first detection by descending score whose IoU passes the threshold.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, cached
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import order, segments
from torch_ap.detection.matching.candidate_pairs import Pairs

_BITS = 62
_PAIRS_A_PART = 1 << 19
_PAIRS_A_PART_ON_DEVICE = 1 << 25
_WIDE = 16  # candidates; from here the bounds of the blocks double, below they grow by a factor of 4
_NARROW = 8  # columns; up to here a few passes over all rows take less time than a pass over each row
_COMPARISONS_PAY = 1 << 13  # values; from here the branches of a binary search are mispredicted
_MOST_COMPARISONS = 32
_HIGHEST = 1 - 1e-10  # COCO's upper bound of a threshold; an IoU of 1 with rounding errors reaches it


@dataclass(frozen=True, eq=False)
class Criteria:
    """The (threshold, area range) criteria as bits of words, by ascending threshold.

    Attributes:
        thresholds: (T,) float64, in any order.
        ranges: the number of area ranges, A.
    """

    thresholds: Tensor
    ranges: int

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        """The bounded thresholds in ascending order, and their indices: (T,) each."""
        values, indices = self.thresholds.clamp(max=_HIGHEST).sort(stable=True)
        return values, indices

    @property
    def ascending(self) -> Tensor:
        """The thresholds in ascending order, bounded by 1 - 1e-10 as in COCO: (T,)."""
        return self._sorted[0]

    @cached_property
    def least(self) -> float:
        """The lowest threshold."""
        return float(self.ascending[0])

    @property
    def word_count(self) -> int:
        """The number of words, W."""
        return -(-len(self.thresholds) * self.ranges // _BITS)

    @cached_property
    def _prefixes(self) -> Tensor:
        """The criteria of the 0, 1, ..., T lowest thresholds: (W, T + 1) int64."""
        reached = arrays.arange_like(len(self.thresholds) + 1, native(self.rank)) * self.ranges
        words = arrays.arange_like(self.word_count, reached)[:, None] * _BITS
        return arrays.tensor((1 << arrays.clamp_max(arrays.clamp_min(reached - words, 0), _BITS)) - 1)

    def passed(self, iou: Tensor, word: int) -> Tensor:
        """Return the criteria of a word whose threshold each IoU reaches, (P,) int64."""
        reached = _count_at_most(native(self.ascending), native(iou))
        return arrays.tensor(arrays.take(native(self._prefixes)[word], reached))

    def spread(self, flags: Tensor) -> Tensor:
        """Convert (A, X) flags of area ranges to (W, X) words of all criteria of these ranges."""
        return arrays.tensor((native(flags) * native(self._range_words)[:, :, None]).sum(1))

    @cached_property
    def rank(self) -> Tensor:
        """The rank of each threshold in ascending order: (T,) int64."""
        return self._sorted[1].argsort()

    def pack(self, flags: Tensor) -> Tensor:
        """Convert (T, P) flags to (W, P) words; requires one area range."""
        words = torch.zeros((self.word_count, flags.shape[1]), dtype=torch.int64, device=flags.device)
        return words.index_add_(0, self.rank // _BITS, flags.to(torch.int64) << (self.rank % _BITS)[:, None])

    @cached_property
    def _word_bits(self) -> tuple[Tensor, Tensor]:
        """The word index and the bit of each threshold and area range: (T, A) int64 each."""
        rank = native(self.rank)
        criterion = rank[:, None] * self.ranges + arrays.arange_like(self.ranges, rank)
        return arrays.tensor(criterion // _BITS), arrays.tensor(1 << criterion % _BITS)

    def word_bits(self, areas: Sequence[int]) -> Any:
        """Return the bit of each threshold in area ranges, native (T, A', 1) int64; requires one word."""
        return native(self._word_bits[1])[:, areas, None]

    @cached_property
    def _range_words(self) -> Tensor:
        """The criteria of each area range: (W, A) int64."""
        word, bit = self._word_bits
        return bit.new_zeros((self.word_count, self.ranges)).scatter_add_(0, word, bit)

    @cached_property
    def plain_values(self) -> tuple[list[float], list[int], list[int]]:
        """The thresholds in ascending order, the criteria of the 0, 1, ..., T lowest, and the criteria of each range.

        Requires one word.
        """
        return self.ascending.tolist(), self._prefixes[0].tolist(), self._range_words[0].tolist()

    def range_flags(self, words: Tensor, area: int) -> Tensor:
        """Return the flags of one area range, (T, P) bool, from (W, P) words."""
        word, bit = (native(x)[:, area] for x in self._word_bits)
        rows = native(words) if self.word_count == 1 else native(words)[word]
        return arrays.tensor((rows & bit[:, None]) != 0)

    def has_range(self, words: Any, area: int) -> Any:
        """Whether native (W, P) words contain any criterion of one area range: (P,) bool."""
        selected = words & native(self._range_words)[:, area, None]
        return selected[0] != 0 if self.word_count == 1 else (selected != 0).any(0)

    def threshold_flags(self, words: Tensor, area: int, threshold: int) -> Tensor:
        """Return one row of :meth:`range_flags`, the flags of one threshold: (P,) bool."""
        criterion = int(native(self.rank)[threshold]) * self.ranges + area
        return arrays.tensor((native(words)[criterion // _BITS] & (1 << criterion % _BITS)) != 0)


def _count_at_most(ascending: Any, values: Any) -> Any:
    """Count the ascending numbers that are at most each value, (P,)."""
    if isinstance(values, Tensor) or len(values) < _COMPARISONS_PAY or len(ascending) > _MOST_COMPARISONS:
        return arrays.namespace(values).searchsorted(ascending, values, side="right")
    out, flags = np.zeros(len(values), np.int8), np.empty(len(values), np.bool_)
    for number in ascending:
        out += np.greater_equal(values, number, out=flags).view(np.int8)
    return out


@cached.settings_cache
def criteria_of(thresholds: tuple[float, ...], ranges: int, device: torch.device) -> Criteria:
    """Return the criteria of thresholds and a number of area ranges, on a device."""
    return Criteria(segments.constants(thresholds, device), ranges)


def greedy(pairs: Pairs, group: Tensor, skipped: Tensor, crowd: Tensor, criteria: Criteria) -> Tensor:
    """Match detections by COCO's rule.

    Args:
        pairs: P candidates by group and place; every IoU is at least the lowest threshold.
        group: (G,) int64, the group of each ground truth.
        skipped: (W, G) int64, the criteria that ignore each ground truth; all criteria ignore crowds.
        crowd: (G,) bool.
        criteria: thresholds and area ranges.

    Returns:
        (W, P) int64, the criteria that match each pair.
    """
    matched = pairs.truth.new_zeros((criteria.word_count, len(pairs.truth)))
    for part in _parts(native(group), native(pairs.truth)):
        _assign(pairs.select(part), group, skipped, crowd, criteria, matched[:, part])
    return matched


def _parts(group: Any, truth: Any) -> list[slice]:
    """Cut the pairs between groups into slices of about ``_PAIRS_A_PART`` pairs, to bound the memory."""
    size = _PAIRS_A_PART_ON_DEVICE if isinstance(truth, Tensor) else _PAIRS_A_PART
    if len(truth) <= size:
        return [slice(None)] if len(truth) else []
    starts = segments.runs(arrays.take(group, truth))[0].tolist()
    cuts = [0]
    for start, end in itertools.pairwise([*starts, len(truth)]):
        if end - cuts[-1] > size and start > cuts[-1]:
            cuts.append(start)
    return [slice(low, high) for low, high in itertools.pairwise([*cuts, len(truth)])]


@dataclass(frozen=True)
class _Block:
    """Detections with similar numbers of candidates, by step, with their candidates by preference.

    Attributes:
        pairs: (n, w) int64, the pair of each candidate; any pair after the last candidate.
        truth: (n, w) int64, the ground truth of each candidate, G after the last candidate.
        inside: (n, w) bool, False after the last candidate; None if all detections have w candidates.
    """

    pairs: Any
    truth: Any
    inside: Any

    @classmethod
    def from_rows(cls, first: Any, count: Any, truth: Any, iou: Any, dummy: int) -> "_Block":
        """Build the block of some detections.

        Args:
            first: (n,) int64, the first pair of each detection.
            count: (n,) int64, the number of pairs of each detection.
            truth: (P,) int64, the ground truth of each pair.
            iou: (P,) float64.
            dummy: the ground truth after the last candidate.
        """
        width = int(count.max())
        if width == 1:
            return cls(first[:, None], arrays.take(truth, first)[:, None], None)
        column = arrays.arange_like(width, first)
        inside = None if width == int(count.min()) else column < count[:, None]
        pairs = _clear_missing(first[:, None] + column, inside)
        columns = preferred_columns(arrays.take(iou, pairs), inside)
        pairs = _clear_missing(first[:, None] + columns, inside)
        truths = arrays.take(truth, pairs)
        if inside is not None:
            truths[~inside] = dummy
        return cls(pairs, truths, inside)

    def choices(self, passed: Any, skipped: Any) -> Any:
        """Return the criteria that can choose each candidate, (n, k, w), k = 1 or 2.

        Row 0 contains the criteria that count the ground truth, row 1 (if any) the criteria that ignore it. Detections
        with one candidate need no such order: for them the result is (n, 1) with all criteria.

        Args:
            passed: (P,) int64, the criteria whose threshold each pair reaches.
            skipped: (G + 1,) int64, the criteria that ignore each ground truth.
        """
        reached = _clear_missing(arrays.take(passed, self.pairs), self.inside)
        if self.truth.shape[1] == 1:
            return reached
        xp = arrays.namespace(reached)
        ignored = reached & arrays.take(skipped, self.truth)
        return xp.stack([reached ^ ignored, ignored], 1) if arrays.any_true(ignored != 0) else reached[:, None]


def _schedule(count: Any, group: Any) -> tuple[list[Any], list[tuple[int, int, int]]]:
    """Sort detections into blocks and steps.

    Args:
        count: (C,) int64, the number of pairs of each detection.
        group: (C,) int64, the group of each detection.

    Returns:
        The indices of the detections of each block; block 0 contains the detections with one candidate. And the steps
        in order: number of the block, first and end of the step's detections in it.
    """
    opening, length = segments.runs(group)
    step = arrays.arange_like(len(group), group) - arrays.repeat(opening, length)
    steps, bounds = int(step.max()) + 1, _bounds_of_blocks(int(count.max()), count)
    block = arrays.below(bounds, count)
    key, size = block * steps + step, len(bounds) * steps
    rows = native(order.stable_argsort(arrays.tensor(key), size))
    sizes = segments.count(arrays.tensor(key), size).reshape(-1, steps)
    ends = sizes.cumsum(1)
    blocks = torch.split(arrays.tensor(rows), ends[:, -1].tolist())
    number, at = sizes.t().nonzero(as_tuple=True)[::-1]
    end = ends[number, at]
    return [native(x) for x in blocks], list(
        zip(number.tolist(), (end - sizes[number, at]).tolist(), end.tolist(), strict=True)
    )


def _bounds_of_blocks(most: int, like: Any) -> Any:
    """Return the highest number of candidates of each block: 1, 4, 16, then powers of 2, until at least ``most``."""
    bounds = [1]
    while bounds[-1] < most:
        bounds.append(bounds[-1] * (4 if bounds[-1] < _WIDE else 2))
    return like.new_tensor(bounds) if isinstance(like, Tensor) else np.array(bounds, like.dtype)


def _clear_missing(values: Any, inside: Any) -> Any:
    """Set the values after the last candidates to 0, in place."""
    if inside is not None:
        values *= inside
    return values


def preferred_columns(iou: Any, inside: Any) -> Any:
    """Return the columns of each row by descending IoU, the last first among equals.

    On CPU a key of 64 bits contains the IoU, without its last bits where they do not fit, and the column. Rows that
    the missing bits leave in a wrong order are sorted again.

    Args:
        iou: (n, w) float64.
        inside: (n, w) bool, False after the last candidate; None if all rows are full. Missing candidates come last.

    Returns:
        (n, w) int64; any numbers after the last candidates.
    """
    width = iou.shape[1]
    if isinstance(iou, Tensor):
        values = iou if inside is None else iou.masked_fill(~inside, -torch.inf)
        return width - 1 - values.flip(1).argsort(dim=1, descending=True, stable=True)
    keys = order.array_keys(iou)
    keys = (keys.max() - keys).view(np.uint64)
    bits = width.bit_length()
    lost = max(int(keys.max()).bit_length() + bits - 64, 0)
    keys >>= np.uint64(lost)
    keys <<= np.uint64(bits)
    keys |= np.arange(width - 1, -1, -1, dtype=np.uint64)
    if inside is not None:
        keys[~inside] = np.iinfo(np.uint64).max
    keys.sort(axis=1)
    keys &= np.uint64((1 << bits) - 1)
    columns = width - 1 - keys.view(np.int64)
    if lost:
        if inside is not None:
            iou = np.where(inside, iou, -np.inf)
        ordered = np.take_along_axis(iou, np.maximum(columns, 0), 1)
        wrong = arrays.true_indices((ordered[:, 1:] > ordered[:, :-1]).any(1))
        columns[wrong] = width - 1 - (-iou[wrong, ::-1]).argsort(axis=1, kind="stable")
    return columns


def _assign(pairs: Pairs, group: Tensor, skipped: Tensor, crowd: Tensor, criteria: Criteria, matched: Tensor) -> None:
    """Write the matches of some groups to ``matched``; the other arguments are as in :func:`greedy`."""
    detection, truth, iou = map(native, pairs)
    first, count = segments.runs(detection)
    rows, steps = _schedule(count, arrays.take(native(group), arrays.take(truth, first)))
    blocks = {
        number: _Block.from_rows(first[x], count[x], truth, iou, len(crowd)) for number, x in enumerate(rows) if len(x)
    }
    used_up = None
    if arrays.any_true(native(crowd)):  # the criteria whose matches use up each ground truth: none for crowds
        used_up = arrays.full(len(crowd) + 1, -1, truth)
        used_up[: len(crowd)][native(crowd)] = 0
    for word in range(criteria.word_count):
        passed = native(criteria.passed(pairs.iou, word))
        ignored = native(skipped)[word]
        ignored = arrays.join(ignored, ignored[:1])  # any value for the dummy ground truth
        choices = {number: block.choices(passed, ignored) for number, block in blocks.items()}
        free = arrays.full(len(ignored), -1, truth)
        for number, low, high in steps:
            match, truths = choices[number][low:high], blocks[number].truth[low:high]
            before = arrays.take(free, truths)
            if number:
                match = _first_choices(match, before)
            else:
                match &= before
            free[truths] = before ^ (match if used_up is None else match & arrays.take(used_up, truths))
        for number, block in blocks.items():
            match = (choices[number][:, 0] if number else choices[number]).reshape(-1)
            places = arrays.true_indices(match)
            native(matched)[word, arrays.take(block.pairs.reshape(-1), places)] = arrays.take(match, places)


def _first_choices(choices: Any, free: Any) -> Any:
    """Return the criteria whose first free choice is each ground truth, (n, w), in the memory of ``choices``.

    Args:
        choices: (n, k, w) from :meth:`_Block.choices`; overwritten.
        free: (n, w) int64, the criteria without a match of each ground truth.
    """
    rows, kinds, width = choices.shape
    choices &= free[:, None]
    words = choices.reshape(rows, kinds * width)
    if kinds * width > _NARROW and type(words) is np.ndarray:
        seen = np.bitwise_or.accumulate(words, 1)
        np.bitwise_xor(seen[:, 1:], seen[:, :-1], out=words[:, 1:])
    else:
        seen, shift = words + 0, 1
        while shift < kinds * width:
            seen[:, shift:] = seen[:, shift:] | seen[:, :-shift]
            shift *= 2
        words[:, 1:] = seen[:, 1:] ^ seen[:, :-1]
    if kinds == 1:
        return words
    match = choices[:, 0]
    match |= choices[:, 1]
    return match


def best_pairs(pairs: Pairs) -> Pairs:
    """Return the pair with the highest IoU of each detection that has a pair, the first one among equals.

    Args:
        pairs: P candidates; the pairs of each detection are consecutive.
    """
    first = segments.run_starts(pairs.detection)
    offsets = torch.cat([first, first.new_tensor([len(pairs.detection)])])
    best = segments.maximum(pairs.iou, offsets)
    detection = segments.ids(offsets)
    hits = (pairs.iou == best[detection]).nonzero().squeeze(1)
    chosen = hits[segments.run_starts(detection[hits])]
    return pairs.select(chosen)


def argmax(pairs: Pairs, thresholds: Tensor, *, strict: bool) -> tuple[Pairs, Tensor]:
    """Match detections by VOC's rule.

    Args:
        pairs: P candidates; the pairs of each detection are consecutive, the detections of a group by descending score.
        thresholds: (T,) float64.
        strict: whether an IoU must exceed the threshold instead of reaching it.

    Returns:
        The best pair of each of V detections that have a pair; and (T, V) int8: 1 if it is matched, 0 if the ground
        truth is already matched, -1 if its IoU is too low.
    """
    best = best_pairs(pairs)
    over = best.iou > thresholds[:, None] if strict else best.iou >= thresholds[:, None]
    return best, torch.where(over, first_of_truths(over, best.truth).to(torch.int8), -1)


def first_of_truths(passed: Tensor, truth: Tensor) -> Tensor:
    """Return which of the passed pairs are the first ones of their ground truths.

    Args:
        passed: (T, P) bool.
        truth: (P,) int64, the ground truth of each pair.
    """
    by_truth = torch.argsort(truth, stable=True)
    ordered = passed[:, by_truth]
    before = ordered.cumsum(1, dtype=torch.int32) - ordered.to(torch.int32)
    before -= before[:, segments.repeat(*map(arrays.tensor, segments.runs(native(truth[by_truth]))))]
    first = torch.empty_like(passed)
    first[:, by_truth] = ordered & (before == 0)
    return first
