"""Operations on concatenated rankings: a *segment* is one ranking, and offsets store the start and end of each.

``offsets`` has S + 1 entries, the first 0, the last the number of entries; segment s is
``[offsets[s], offsets[s + 1])`` and may be empty.

Sums of weights that do not depend on the order of addition.

A weight is split into slices of 21 bits, each an integer multiple of a small unit common to all items of a ranking. The
sum of one slice over fewer than 2^32 items fits into the 53 bits of a float64, so it is exact in any order (Ogita, Rump
& Oishi 2005, extraction of high-order parts). The sums of the slices are then added, the smallest first.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, cached
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import order
from torch_ap.core.ranking.order import Array, Values

LONG_SUM = 1024  # from this length on, torch's running sum is faster than NumPy's, 5 times for 100,000
_FIRST = np.zeros(1, np.int64)
FEW = 8  # up to this length NumPy adds one by one, the first value last


def as_float64(values: Values, *, copy: bool = False) -> Values:
    """Convert to float64, or to the dtype of :func:`widest`; ``copy`` forces new memory."""
    if not isinstance(values, Tensor):
        return values.astype(np.float64, copy=copy)
    if values.dtype == torch.float64 and not copy:
        return values
    return values.to(widest(values.device), copy=copy)


def widest(device: torch.device) -> torch.dtype:
    """Return float64, or float32 for devices without float64 (MPS)."""
    return torch.float32 if device.type == "mps" else torch.float64


@cached.settings_cache
def constants(values: tuple[Any, ...], device: torch.device) -> Tensor:
    """Return numbers as :func:`as_float64` on a device; the tensor is shared and must not be modified."""
    return as_float64(torch.tensor(values, dtype=torch.float64).to(device))


def comparable(scores: Tensor) -> Tensor:
    """Return scores in the dtype of comparisons with thresholds; thresholds are converted to this dtype.

    Half precisions become float32, because rounding a threshold such as 0.7 to half precision can lower it. Integers
    become float64.
    """
    if scores.dtype in (torch.float32, torch.float64):
        return scores
    if not scores.is_floating_point():
        return as_float64(scores)
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def as_int64(values: Values) -> Values:
    """Convert integers to int64."""
    return values.to(torch.int64) if isinstance(values, Tensor) else values.astype(np.int64, copy=False)


def from_counts(counts: Values) -> Values:
    """Convert (S,) lengths to (S + 1,) offsets."""
    return from_zero(counts)


def from_zero(values: Values) -> Values:
    """Return running sums along the last dimension, preceded by 0, in the dtype of the values."""
    if isinstance(values, Tensor):
        if values.is_cpu:
            return torch.from_numpy(from_zero(values.numpy()))
        zero = values.new_zeros((*values.shape[:-1], 1))
        return torch.cat([zero, values.cumsum(-1, dtype=values.dtype)], -1)
    out = np.zeros((*values.shape[:-1], values.shape[-1] + 1), values.dtype)
    running(values, out[..., 1:])
    return out


def running_counts(flags: Values) -> Values:
    """Return :func:`from_zero` in int32, of flags or small numbers of any dtype, without a separate conversion pass."""
    if not isinstance(flags, Tensor):
        counts = np.zeros((*flags.shape[:-1], flags.shape[-1] + 1), np.int32)
        running(flags, counts[..., 1:])
        return counts
    out = flags.new_zeros((*flags.shape[:-1], flags.shape[-1] + 1), dtype=torch.int32)
    torch.cumsum(flags, -1, dtype=torch.int32, out=out[..., 1:])
    return out


def running(values: Array, out: Array) -> Array:
    """Write running sums along the last dimension to ``out``, in its dtype; ``out`` may be ``values``."""
    if values.size >= LONG_SUM and values.flags.carray:  # the same sums in the same order
        sums = torch.from_numpy(out)
        torch.cumsum(torch.from_numpy(values), -1, dtype=sums.dtype, out=sums)
    else:
        values.cumsum(-1, out.dtype, out)  # the default would add int32 in int64
    return out


def first_reaching(values: Tensor, offsets: Tensor, counts: Tensor) -> Tensor:
    """Return the first entry of each segment at whose end the running sum reaches each count.

    The running sum over all segments never decreases, so one search serves all segments.

    Args:
        values: (E,) int64, the count of each entry.
        offsets: (S + 1,) the start and end of the entries of each segment.
        counts: (S, L) int64; a count of at most 0 is reached by the first entry.

    Returns:
        (S, L) int64; E if a segment never reaches the count.
    """
    first, last, running = offsets[:-1, None], offsets[1:, None], from_zero(values)
    place = torch.searchsorted(running[1:], counts + running[first])
    place = torch.maximum(place, first)
    return torch.where(place < last, place, len(values))


def count(segment: Values, segments: int) -> Values:
    """Count the entries of each segment, (S,) int64, without a device sync (``bincount`` has one)."""
    if not isinstance(segment, Tensor):
        return np.bincount(segment, minlength=segments)
    if segment.is_cpu:
        return torch.from_numpy(count(segment.numpy(), segments))
    return torch.zeros(segments, dtype=torch.int64, device=segment.device).index_add_(
        0, segment, torch.ones_like(segment)
    )


def ids(offsets: Values) -> Values:
    """Return the segment of each entry, (E,) int64, non-decreasing."""
    if not isinstance(offsets, Tensor):
        if len(offsets) == 2:
            return np.zeros(offsets[1], np.int64)
        return np.repeat(np.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])
    lengths = offsets.diff()
    return repeat(torch.arange(len(lengths), device=offsets.device), lengths)


def members(first: Values, ends: Values) -> Values:
    """Return the concatenated integers from each of (S,) ``first`` up to before its end, (E,) int64."""
    lengths = ends - first
    out: Values = arrays.repeat(first - from_zero(lengths)[:-1], lengths)
    out += arrays.arange_like(len(out), out)
    return out


def ids_at(places: Values, offsets: Values) -> Values:
    """Return the segment of the entries at ascending ``flag_places``, (H,) int64."""
    if not isinstance(places, Tensor):
        return offsets.searchsorted(places, "right") - 1
    if places.is_cpu:
        return torch.from_numpy(ids_at(places.numpy(), offsets.numpy()))
    return torch.searchsorted(offsets, places, right=True) - 1


def each_entry(values: Values, offsets: Values) -> Values:
    """Return the value of each entry's segment from (S,) values: (E,), or (1,) for one segment, which broadcasts."""
    return values if len(values) == 1 else values[ids(offsets)]


def repeat(values: Values, counts: Values) -> Values:
    """Repeat each value as often as its count.

    On CPU this uses NumPy: torch's ``repeat_interleave`` wakes all threads even for few values. On a busy machine the
    wait for them takes a thousand times longer than the work.

    Args:
        values: (S,).
        counts: (S,) int64, at least 0.
    """
    if not isinstance(values, Tensor):
        return np.repeat(values, counts)
    if values.device.type == "cpu":
        return torch.from_numpy(np.repeat(values.numpy(), counts.numpy()))
    return torch.repeat_interleave(values, counts)


def pick(values: Tensor, places: Tensor) -> Tensor:
    """Return ``values[places]``; on CPU by NumPy, for the same reason as :func:`repeat`.

    Args:
        values: (S, ...).
        places: (E,) int64, or (S,) bool.
    """
    if values.device.type != "cpu":
        return values[places]
    if values.dtype == torch.bfloat16:  # NumPy has no bfloat16
        return pick(values.view(torch.int16), places).view(torch.bfloat16)
    array, indices = values.numpy(), places.numpy()
    return torch.from_numpy(array[indices] if indices.dtype == np.bool_ else array.take(indices, 0))


def flag_places(flags: Tensor) -> Tensor:
    """Return the indices of (N,) flags that are set, ascending int64; NumPy is three to nine times faster."""
    return arrays.tensor(arrays.true_indices(native(flags)))


def total(values: Values, offsets: Values) -> Values:
    """Sum each segment, in the dtype of ``values``; 0 for an empty segment.

    On CPU the sums are NumPy's pairwise sums: accurate to a few last bits at any length, and independent of the number
    of threads.

    Args:
        values: (E,) int64 or float64.
        offsets: (S + 1,) int64.

    Returns:
        (S,) sums.
    """
    if isinstance(values, Tensor):
        if not values.is_cpu:
            return _total_on_device(values, offsets)
        return torch.from_numpy(total(values.numpy(), offsets.numpy()))
    if len(offsets) == 2 and len(values):
        return np.add.reduceat(values, _FIRST)
    out = np.zeros(len(offsets) - 1, dtype=values.dtype)
    filled = (offsets[1:] > offsets[:-1]).nonzero()[0]
    if len(filled):
        out[filled] = np.add.reduceat(values, offsets[filled])
    return out


def sum_of(values: list[float], end: int | None = None) -> float:
    """Return the sum of the first values of a list, bit-identical to :func:`total`; short lists need no array.

    Args:
        values: floats.
        end: number of values to add; the others count 0, and have no effect on the order of the additions.
    """
    if len(values) > FEW:
        kept = values if end is None else values[:end] + [0.0] * (len(values) - end)
        return float(np.add.reduceat(kept, _FIRST)[0])
    rest = 0.0
    for value in values[1:end]:
        rest += value
    return values[0] + rest if values and end != 0 else 0.0


def product(weights: Values, values: Values) -> Values:
    """Multiply weights and values elementwise in float64; a zero weight gives 0, even if the value is NaN."""
    if isinstance(values, Tensor):
        return torch.where(weights > 0, weights * values, 0)
    return np.where(weights > 0, weights * values, 0)


def cumulative(values: Tensor, offsets: Tensor) -> Tensor:
    """Return the inclusive running sum of each segment, (E,), in the dtype of ``values``.

    Integers are summed over all segments, and the sum before each segment is subtracted, which is exact. Floats are
    summed by doubling inside each segment (Hillis & Steele 1986), so values of one segment never affect another.
    """
    if len(offsets) == 2:
        return values.cumsum(0)
    segment = ids(offsets)
    if not values.is_floating_point():
        cumulative = from_zero(values)
        return cumulative[1:] - cumulative[offsets[:-1]][segment]
    place = torch.arange(len(values), device=values.device) - offsets[:-1][segment]
    longest = int(offsets.diff().max()) if len(values) else 0
    step = 1
    while step < longest:
        before = torch.where(place[step:] >= step, values[:-step], 0)
        values = torch.cat([values[:step], values[step:] + before])
        step *= 2
    return values


def _total_on_device(values: Tensor, offsets: Tensor) -> Tensor:
    """Sum each segment on an accelerator.

    Integer sums are the same in any order; floats use torch reductions with a fixed order.
    """
    segments = len(offsets) - 1
    if not values.is_floating_point():
        return values.new_zeros(segments).index_add_(0, ids(offsets), values)
    if segments == 1:
        return values.sum().reshape(1)
    return torch.segment_reduce(values, "sum", offsets=offsets, initial=0)


def run_starts(values: Tensor) -> Tensor:
    """Return the index where each run of equal numbers begins, (R,) int64; half precision on CPU is not supported."""
    return arrays.tensor(runs(native(values))[0])


def runs(values: Any) -> tuple[Any, Any]:
    """Return the start and the length of each run of equal native values, both (R,) int64."""
    xp = arrays.namespace(values)
    new = xp.ones_like(values, dtype=xp.bool)
    new[1:] = values[1:] != values[:-1]
    starts = arrays.true_indices(new)
    lengths = xp.empty_like(starts)
    lengths[:-1], lengths[-1:] = starts[1:] - starts[:-1], len(values) - starts[-1:]
    return starts, lengths


def maximum(values: Values, offsets: Values, *, least: float = -torch.inf) -> Values:
    """Return the maximum of each segment and ``least``, (E,) to (S,); empty segments give ``least``."""
    if isinstance(values, Tensor):
        if not values.is_cpu:
            return torch.segment_reduce(values, "max", offsets=offsets, initial=least)
        return torch.from_numpy(maximum(values.numpy(), offsets.numpy(), least=least))
    starts, out = offsets[:-1], np.full(len(offsets) - 1, least, values.dtype)
    filled = starts < offsets[1:]
    out[filled] = np.maximum.reduceat(values, starts[filled]) if len(values) else least
    return out


def maximum_from_right(values: Tensor, offsets: Tensor) -> Tensor:
    """Return for each entry the exact maximum from it to the end of its segment, without a loop.

    One cumulative maximum from the right serves all segments, because the values of each segment are lifted above the
    segments to its right. On CPU the lift is the real part of complex numbers, which NumPy compares first; on other
    devices it is added to dense ranks.
    """
    if len(offsets) == 2:
        return values.flip(0).cummax(0).values.flip(0) if len(values) else values
    if values.is_cpu:
        return torch.from_numpy(_maximum_from_right(values.numpy(), offsets.numpy()))
    distinct, ranks = order.dense_ranks(values)
    lift = (len(offsets) - 2 - ids(offsets)) * len(distinct)
    return distinct[(lift + ranks).flip(0).cummax(0).values.flip(0) - lift] if len(values) else values


def _maximum_from_right(values: Array, offsets: Array) -> Array:
    lifted = np.empty(len(values), np.complex128)
    lifted.real = -ids(offsets)[::-1]
    lifted.imag = values[::-1]
    out: Array = np.maximum.accumulate(lifted).imag[::-1].copy()
    return out


_ITEMS_BITS, _LEAST, _GREATEST = 32, -1022, 1023


def slices(weight: Values, offsets: Values, highest: Callable[[Any], Any] | None = None) -> list[Values]:
    """Return terms that add up to the weights; the sum of each term over items of one ranking is exact.

    Args:
        weight: (N,) float64 of at least 0, native; on devices without float64 the weights are not split.
        offsets: (S + 1,) the start and end of the items of each ranking.
        highest: returns the elementwise maximum of tensors over all processes, if each has a part of the items.
    """
    xp = arrays.namespace(weight)
    if weight.dtype != xp.float64:
        return [weight]
    greatest = maximum(weight, offsets, least=0.0)
    exponent = arrays.cast(xp.frexp(highest(greatest) if highest else greatest)[1], offsets)
    terms, rest = [], weight
    while True:
        exponent = exponent + _ITEMS_BITS
        bounded = arrays.clamp_max(arrays.clamp_min(exponent, _LEAST), _GREATEST)
        power = ((bounded - _LEAST + 1) << 52).view(xp.float64)  # a power of 2, exactly
        unit = each_entry(power, offsets)
        high = (rest + unit) - unit
        terms.append(high)
        rest = rest - high
        left = arrays.any_true(abs(rest) > 0)  # false for NaN
        if not (highest(torch.tensor([int(left)])) if highest else left):
            return terms
        exponent = exponent - 53


def slices_of_one(weight: Array) -> list[Array]:
    """Return :func:`slices` of one ranking; the weights themselves if all their sums are exact without slices.

    The sums of N weights below 2^e that are multiples of 2^(e - 52) N need at most 52 bits.
    """
    size = len(weight)
    greatest = weight.item(weight.argmax()) if size else 0.0  # NaN if there is a NaN
    exponent = math.frexp(greatest)[1] + size.bit_length() if 0 < greatest < math.inf else _GREATEST
    if exponent < _GREATEST:
        unit = math.ldexp(1.0, exponent)
        if not np.count_nonzero((weight + unit) - unit != weight):
            return [weight]
    return slices(weight, np.array([0, size]))


def rounded_sum(sums: Sequence[Values]) -> Values:
    """Return the sum of the sums of the slices."""
    total = sums[-1]
    for part in reversed(sums[:-1]):
        total = part + total
    return total
