"""Many rankings end to end: a *segment* is one ranking, and offsets say where each begins and ends.

``offsets`` has S + 1 entries, the first 0, the last the number of entries; segment s is
``[offsets[s], offsets[s + 1])`` and may be empty.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import order
from torch_ap.ranking.order import Array, Values
from torch_ap.runtime import arrays, cached
from torch_ap.runtime.arrays import native

LONG_SUM = 2048  # from so many numbers on, torch's running sum is faster than NumPy's, 5 times for 100,000
_FIRST = np.zeros(1, np.int64)
FEW = 8  # NumPy adds so many one by one, the first at the end


def as_float64(values: Values, *, copy: bool = False) -> Values:
    """``values`` as float64, or as :func:`widest` has it; ``copy`` for new memory."""
    if not isinstance(values, Tensor):
        return values.astype(np.float64, copy=copy)
    if values.dtype == torch.float64 and not copy:
        return values
    return values.to(widest(values.device), copy=copy)


def widest(device: torch.device) -> torch.dtype:
    """float64, or float32 on the devices that have no float64 (MPS)."""
    return torch.float32 if device.type == "mps" else torch.float64


@cached.settings_cache
def constants(values: tuple[Any, ...], device: torch.device) -> Tensor:
    """Numbers as :func:`as_float64` on a device; shared, so not to be written to."""
    return as_float64(torch.tensor(values, dtype=torch.float64).to(device))


def comparable(scores: Tensor) -> Tensor:
    """Scores as they are compared with thresholds that are given, whose dtype these take.

    Half precisions are float32, in which a threshold such as 0.7 is not rounded to a lower score, and integers float64.
    """
    if scores.dtype in (torch.float32, torch.float64):
        return scores
    if not scores.is_floating_point():
        return as_float64(scores)
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def as_int64(values: Values) -> Values:
    """Whole numbers as int64."""
    return values.to(torch.int64) if isinstance(values, Tensor) else values.astype(np.int64, copy=False)


def from_counts(counts: Values) -> Values:
    """(S,) lengths to (S + 1,) offsets."""
    return from_zero(counts)


def from_zero(values: Values) -> Values:
    """Running sums along the last dimension, with a 0 before the first, in the dtype of the values."""
    if isinstance(values, Tensor):
        if values.is_cpu:
            return torch.from_numpy(from_zero(values.numpy()))
        zero = values.new_zeros((*values.shape[:-1], 1))
        return torch.cat([zero, values.cumsum(-1, dtype=values.dtype)], -1)
    out = np.zeros((*values.shape[:-1], values.shape[-1] + 1), values.dtype)
    running(values, out[..., 1:])
    return out


def running_counts(flags: Values) -> Values:
    """:func:`from_zero` in int32, of flags or other small numbers of any dtype, without a pass that converts them."""
    if not isinstance(flags, Tensor):
        counts = np.zeros((*flags.shape[:-1], flags.shape[-1] + 1), np.int32)
        running(flags, counts[..., 1:])
        return counts
    out = flags.new_zeros((*flags.shape[:-1], flags.shape[-1] + 1), dtype=torch.int32)
    torch.cumsum(flags, -1, dtype=torch.int32, out=out[..., 1:])
    return out


def running(values: Array, out: Array) -> Array:
    """Running sums along the last dimension, written to ``out``, in its dtype; it may be the values."""
    if values.size >= LONG_SUM and values.flags.carray:  # the same sums in the same order
        sums = torch.from_numpy(out)
        torch.cumsum(torch.from_numpy(values), -1, dtype=sums.dtype, out=sums)
    else:
        values.cumsum(-1, out.dtype, out)  # by default NumPy would add int32 in int64
    return out


def first_reaching(values: Tensor, offsets: Tensor, counts: Tensor) -> Tensor:
    """The first entry of each segment by whose end so much has been counted, for many counts at once.

    Over all segments end to end a running sum never falls, so one search serves them all.

    Args:
        values: (E,) int64, what each entry counts.
        offsets: (S + 1,) where the entries of each segment begin and end.
        counts: (S, L) int64; the first entry has any count of 0 and below.

    Returns:
        (S, L) int64; E where a segment never counts so much.
    """
    first, last, running = offsets[:-1, None], offsets[1:, None], from_zero(values)
    place = torch.searchsorted(running[1:], counts + running[first])
    place = torch.maximum(place, first)
    return torch.where(place < last, place, len(values))


def count(segment: Values, segments: int) -> Values:
    """How many entries each segment has: (S,) int64, without a device sync (``bincount`` has one)."""
    if not isinstance(segment, Tensor):
        return np.bincount(segment, minlength=segments)
    if segment.is_cpu:
        return torch.from_numpy(count(segment.numpy(), segments))
    return torch.zeros(segments, dtype=torch.int64, device=segment.device).index_add_(
        0, segment, torch.ones_like(segment)
    )


def ids(offsets: Values) -> Values:
    """The segment of each entry: (E,) int64, non-decreasing."""
    if not isinstance(offsets, Tensor):
        if len(offsets) == 2:
            return np.zeros(offsets[1], np.int64)
        return np.repeat(np.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])
    lengths = offsets.diff()
    return repeat(torch.arange(len(lengths), device=offsets.device), lengths)


def members(first: Values, ends: Values) -> Values:
    """The whole numbers from each of ``first`` to before its end, (S,) int64, end to end: (E,)."""
    lengths = ends - first
    out: Values = arrays.repeat(first - from_zero(lengths)[:-1], lengths)
    out += arrays.steps(len(out), out)
    return out


def of_places(places: Values, offsets: Values) -> Values:
    """The segment of entries at some places, ascending: (H,) int64."""
    if not isinstance(places, Tensor):
        return offsets.searchsorted(places, "right") - 1
    if places.is_cpu:
        return torch.from_numpy(of_places(places.numpy(), offsets.numpy()))
    return torch.searchsorted(offsets, places, right=True) - 1


def each_entry(values: Values, offsets: Values) -> Values:
    """The value of each entry's segment, of (S,) values: (E,), or for one segment (1,), which broadcasts."""
    return values if len(values) == 1 else values[ids(offsets)]


def repeat(values: Values, counts: Values) -> Values:
    """Each value as often as its count says, end to end.

    On CPU by NumPy: torch's ``repeat_interleave`` wakes all threads for a handful of values, and on a busy machine
    waits a thousand times longer for them than the work takes.

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
    """``values[places]``; on CPU by NumPy, for the reason that :func:`repeat` gives.

    Args:
        values: (S, ...).
        places: (E,) int64, or (S,) bool.
    """
    if values.device.type != "cpu":
        return values[places]
    if values.dtype == torch.bfloat16:  # NumPy has none of these
        return pick(values.view(torch.int16), places).view(torch.bfloat16)
    each, at = values.numpy(), places.numpy()
    return torch.from_numpy(each[at] if at.dtype == np.bool_ else each.take(at, 0))


def places(flags: Tensor) -> Tensor:
    """Where (N,) flags are set, ascending: int64; on CPU by NumPy, in a third to a ninth of torch's time."""
    return arrays.tensor(arrays.places(native(flags)))


def total(values: Values, offsets: Values) -> Values:
    """Sum of each segment, in the dtype of ``values``; 0 where the segment is empty.

    On CPU the sums are NumPy's pairwise ones: accurate to a few last bits at any length, and the same for every number
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


def sum_of(values: list[float]) -> float:
    """The sum as :func:`total` has it, to the bit: of a few without arrays."""
    if len(values) > FEW:
        return float(np.add.reduceat(values, _FIRST)[0])
    rest = 0.0
    for value in values[1:]:
        rest += value
    return values[0] + rest if values else 0.0


def product(weights: Values, values: Values) -> Values:
    """Weight times value, elementwise in float64; 0 where the weight is, NaN or not."""
    if isinstance(values, Tensor):
        return torch.where(weights > 0, weights * values, 0)
    return np.where(weights > 0, weights * values, 0)


def cumulative(values: Tensor, offsets: Tensor) -> Tensor:
    """Running sum of each segment, inclusive: (E,), in the dtype of ``values``.

    Whole numbers are summed over all segments and the sum before each segment taken off, which is exact. Floats are
    summed by doubling inside each segment (Hillis & Steele 1986): nothing of one segment ever enters another.
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
    """Integers add up the same in any order; floats take torch's reductions whose order is fixed."""
    segments = len(offsets) - 1
    if not values.is_floating_point():
        return values.new_zeros(segments).index_add_(0, ids(offsets), values)
    if segments == 1:
        return values.sum().reshape(1)
    return torch.segment_reduce(values, "sum", offsets=offsets, initial=0)


def run_starts(values: Tensor) -> Tensor:
    """Where each run of equal numbers, of no half precision on CPU, begins: (R,) int64."""
    return arrays.tensor(runs(native(values))[0])


def runs(values: Any) -> tuple[Any, Any]:
    """The same of native values, and how many numbers each run has: (R,) int64, native."""
    xp = arrays.namespace(values)
    new = xp.ones_like(values, dtype=xp.bool)
    new[1:] = values[1:] != values[:-1]
    starts = arrays.places(new)
    lengths = xp.empty_like(starts)
    lengths[:-1], lengths[-1:] = starts[1:] - starts[:-1], len(values) - starts[-1:]
    return starts, lengths


def maximum(values: Values, offsets: Values, *, least: float = -torch.inf) -> Values:
    """Largest value of each segment, none of which lies below ``least``, that of an empty one: (E,) to (S,)."""
    if isinstance(values, Tensor):
        if not values.is_cpu:
            return torch.segment_reduce(values, "max", offsets=offsets, initial=least)
        return torch.from_numpy(maximum(values.numpy(), offsets.numpy(), least=least))
    starts, out = offsets[:-1], np.full(len(offsets) - 1, least, values.dtype)
    filled = starts < offsets[1:]
    out[filled] = np.maximum.reduceat(values, starts[filled]) if len(values) else least
    return out


def maximum_from_right(values: Tensor, offsets: Tensor) -> Tensor:
    """For each entry, the largest value from it to the end of its segment; exact, without a loop.

    One cumulative maximum from the right serves all segments, since each is lifted above those to its right: on CPU
    by the real part of complex numbers, which NumPy compares first; elsewhere with dense ranks in place of the values.
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
