r"""Values per item of a ranking: influence functions and delete-one values of AP, and the variances that they give.

AP is a functional of the score distributions of hits and misses. With p_i = h_i / t_i at the end of each tie group,

.. math::
    \phi_+(x) = p(x) + \sum_{hits\ i:\ s_i \le x} (1 - p_i) / t_i, \qquad
    \phi_-(x) = -\frac{q}{m} \sum_{hits\ i:\ s_i \le x} p_i / t_i, \qquad
    \theta_\pi = \frac{1}{m} \sum_{hits\ i} \frac{h_i}{m}\, \frac{t_i - h_i}{q} \Big(\frac{n}{t_i}\Big)^2

are the derivatives of AP in the distribution of the hits, in the distribution of the misses, and in the share of hits.
They are exact with ties, and take two cumulative sums over the hits after the sort.

The influence of an item on AP depends on its relevance and on the hits below it. So the hits of a tie group share a
value, and so do all misses between two groups of hits. Each shared value is stored once, and moments over millions of
items take O(hits) operations.

The delete-one jackknife takes O(hits) operations after the sort, too. Deleting a miss moves each hit at or below it up
by one rank. Deleting a hit does the same, lowers h at these ranks by one, and leaves m - 1 hits to average over.

For an average over rankings of the same items, the covariances of the rankings matter: the squares of the items' total
contributions sum to the variance of the average, and the changes of the average by the deletion of each item give its
jackknife variance and its bias.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.items.inputs import Batch, counted_items
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures import averaging
from torch_ap.core.ranking import bins, hit_curve, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference import record


@dataclass(frozen=True, eq=False)
class ItemValues:
    """One value per item of S rankings.

    Attributes:
        curve: the rankings; unweighted.
        hits: (E,) float64, value of each hit of the tie group.
        misses: (E,) value of each miss in the tie group, or between the tie group and the previous one.
        hits_unseen: (S,) value of each relevant item that was never retrieved.
        misses_below: (S,) value of each miss below the last hit.
    """

    curve: HitCurve
    hits: Tensor
    misses: Tensor
    hits_unseen: Tensor
    misses_below: Tensor

    def hit_moments(self) -> "Moments":
        """Return moments over the m hits of each ranking."""
        seen = segments.as_float64(self.curve.hits)
        unseen = segments.as_float64(self.curve.m - self.curve.hits_seen)
        return _moments(self.hits, seen, self.hits_unseen, unseen, self.curve.offsets)

    def miss_moments(self) -> "Moments":
        """Return moments over the q misses of each ranking."""
        between, below = count_misses(self.curve)
        return _moments(
            self.misses, segments.as_float64(between), self.misses_below, segments.as_float64(below), self.curve.offsets
        )

    def values_at(self, scores: Tensor, relevant: Tensor) -> Tensor:
        """Return the value of each item of one ranking: (N,) with the dtype of the values.

        Args:
            scores: (N,) scores from which the curve was made.
            relevant: (N,) bool.
        """
        assert self.curve.score is not None
        entries = len(self.curve.score)
        entry = entries - bins.count_reached(scores, self.curve.score.flip(0))
        table = torch.cat([self.misses, self.misses_below, self.hits, self.hits_unseen])
        return table[entry + relevant * (entries + 1)]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, and sums of squared and cubed deviations from the mean: (S,) float64 each."""

    count: Tensor
    mean: Tensor
    squares: Tensor
    cubes: Tensor

    @property
    def variance_of_mean(self) -> Tensor:
        """var(values) / count with count - 1 degrees of freedom; NaN for fewer than two values."""
        return torch.where(self.count > 1, self.squares / (self.count * (self.count - 1)), torch.nan)


def count_misses(curve: HitCurve) -> tuple[Tensor, Tensor]:
    """Return the misses in each group or between it and the previous group, (E,), and below the last, (S,): int64."""
    cumulative = curve.cumulative_items - curve.cumulative_hits
    before = torch.cat([cumulative.new_zeros(1), cumulative[:-1]])[: len(cumulative)]
    starts, ends = curve.offsets[:-1], curve.offsets[1:]
    nonempty = ends > starts
    before[starts[nonempty]] = 0
    last = torch.zeros_like(curve.n)
    last[nonempty] = cumulative[ends[nonempty] - 1]
    return cumulative - before, curve.n - curve.m - last


def sum_from_below(values: Tensor, offsets: Tensor) -> Tensor:
    """Return, for each entry, the sum of the values from the entry to the end of its ranking."""
    total = values.flip(0).cumsum(0).flip(0)
    if len(offsets) == 2:
        return total
    beyond = torch.cat([total, total.new_zeros(1)])[offsets[1:]]
    return total - beyond[segments.ids(offsets)]


def _moments(values: Tensor, counts: Tensor, rest: Tensor, rest_count: Tensor, offsets: Tensor) -> Moments:
    count = segments.total(counts, offsets) + rest_count
    mean = (segments.total(counts * values, offsets) + rest_count * rest) / count
    deviation = values - (mean if len(offsets) == 2 else mean[segments.ids(offsets)])
    rest_deviation = rest - mean
    square = counts * deviation * deviation
    squares = segments.total(square, offsets) + rest_count * rest_deviation**2
    cubes = segments.total(square * deviation, offsets) + rest_count * rest_deviation**3
    return Moments(count, mean, squares, cubes)


_BLOCK = 1 << 13  # hits; BLAS starts its own threads for longer vectors
_MIN_THREADED = 1 << 20  # hits


def influence(curve: HitCurve) -> ItemValues:
    """Return phi of every item of each ranking (not centered: only differences are meaningful).

    Args:
        curve: S rankings, unweighted, with a threshold per tie group.
    """
    hits, t = segments.as_float64(curve.hits), segments.as_float64(curve.cumulative_items)
    p = segments.as_float64(curve.cumulative_hits) / t
    ratio = segments.as_float64(curve.n - curve.m) / segments.as_float64(curve.m)
    ratio = ratio if len(curve.m) == 1 else ratio[curve.segment]
    share = hits / t
    lost = sum_from_below(share * p, curve.offsets).mul_(-ratio)
    gained = sum_from_below(share.mul_(1 - p), curve.offsets).add_(p)
    zero = torch.zeros_like(segments.as_float64(curve.m))
    return ItemValues(curve, gained, lost, zero, zero)


def prevalence_slope(curve: HitCurve) -> Tensor:
    """Return theta_pi, the derivative of AP in m / n: (S,) float64; NaN without hits or without misses."""
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    hits, h, t = (segments.as_float64(x) for x in (curve.hits, curve.cumulative_hits, curve.cumulative_items))
    total = segments.total(hits * h * (t - h) / (t * t), curve.offsets)
    return total * n * n / (m * m * (n - m))


def variance(curve: HitCurve, design: str) -> Tensor:
    """Return Var(AP) by influence functions: (S,) float64; NaN with fewer than two hits or two misses.

    Args:
        curve: S rankings, unweighted, with a threshold per tie group.
        design: "stratified" (m is fixed): var(phi+) / m + var(phi-) / q. "iid" (m is random) adds
            pi (1 - pi) theta_pi^2 / n.
    """
    if is_blockwise(curve):
        hit_variance, miss_variance, slope = _blockwise_variance(curve)
        return hit_variance + miss_variance + (prevalence_variance(curve, slope) if design == "iid" else 0)
    values = influence(curve)
    fixed = values.hit_moments().variance_of_mean + values.miss_moments().variance_of_mean
    return fixed + prevalence_variance(curve, prevalence_slope(curve)) if design == "iid" else fixed


def prevalence_variance(curve: HitCurve, slope: Tensor) -> Tensor:
    """Return the variance of AP due to the random number of hits in design "iid", given theta_pi: (S,) float64."""
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    share = m / n
    return share * (1 - share) * slope**2 / n


def acceleration(values: ItemValues) -> Tensor:
    """Return Efron's acceleration, a sixth of the skewness of the total influence of hits and misses: (S,)."""
    hits, misses = values.hit_moments(), values.miss_moments()
    cubes = hits.cubes / hits.count**3 + misses.cubes / misses.count**3
    squares = hits.squares / hits.count**2 + misses.squares / misses.count**2
    return torch.where(squares > 0, cubes / (6 * squares**1.5), 0)


def is_blockwise(curve: HitCurve) -> bool:
    """Whether the variance is computed in blocks of hits that fit the cache: for one ranking on CPU."""
    return len(curve.m) == 1 and len(curve.hits) > 0 and curve.m.device.type == "cpu"


def _blockwise_variance(curve: HitCurve) -> tuple[Tensor, Tensor, Tensor]:
    """Return var(phi+) / m and var(phi-) / q, with one degree of freedom less, and theta_pi of one ranking: (1,) each.

    The means of phi are sums over the hits from the top, so they are known before the cumulative sums from the bottom.
    The mean of phi+ is the sum of (r / t) h (2 - p), over m. The mean of phi- is minus the sum of (r / t) p (t - h),
    over m. theta_pi is the second sum times n^2 / (m^2 q). A first pass computes these sums, and the part of the
    cumulative sums that each block adds to the blocks above. A second pass sums the squared deviations.
    """
    columns = [x.numpy() for x in (curve.hits, curve.items, curve.hits_above, curve.items_above)]
    n, m = float(curve.n), float(curve.m)
    q = n - m
    size = len(columns[0])
    blocks = [slice(first, min(first + _BLOCK, size)) for first in range(0, size, _BLOCK)]
    threads = order.workers(size) if size >= _MIN_THREADED else 1
    first = np.array(order.run_in_threads(lambda block: _totals(*_block_columns(columns, block)), blocks, threads))
    hits, misses, gained, lost = first.T
    means = hits.sum() / m, -misses.sum() / m
    carried = [np.append(x[::-1].cumsum()[::-1][1:], 0.0) for x in (gained, lost)]

    def squares(task: tuple[slice, float, float]) -> tuple[float, float]:
        block, *carry = task
        above = columns[3][block.start - 1] + columns[1][block.start - 1] if block.start else 0
        above -= columns[2][block.start - 1] + columns[0][block.start - 1] if block.start else 0
        return _squares(*_block_columns(columns, block), float(above), carry[0], carry[1], -q / m, means)

    second = np.array(order.run_in_threads(squares, list(zip(blocks, *carried, strict=True)), threads)).sum(0)
    hits_seen, misses_seen = float(columns[0].sum()), float(curve.cumulative_items[-1] - curve.cumulative_hits[-1])
    hit_squares = second[0] + (m - hits_seen) * means[0] ** 2
    miss_squares = second[1] + (q - misses_seen) * means[1] ** 2
    return (
        _mean_variance(hit_squares, m),
        _mean_variance(miss_squares, q),
        torch.tensor([misses.sum() * n * n / (m * m * q) if q else np.nan], dtype=torch.float64),
    )


def _block_columns(columns: list[Array], block: slice) -> tuple[Array, Array, Array]:
    """Return r, h and t of a block, as floats."""
    r, g, above, items_above = (x[block] for x in columns)
    return r.astype(np.float64), (above + r).astype(np.float64), (items_above + g).astype(np.float64)


def _totals(r: Array, h: Array, t: Array) -> tuple[float, ...]:
    """Return the sums of a block: of phi+, of -phi- m / q, and its share of both cumulative sums."""
    share, p, misses = r / t, h / t, t - h
    lost = share * p
    gained = share - lost
    return float(h @ (share + gained)), float(lost @ misses), gained.sum(), lost.sum()


def _squares(
    r: Array, h: Array, t: Array, above: float, gained: float, lost: float, factor: float, means: tuple[float, float]
) -> tuple[float, float]:
    """Return the squared deviations of a block, of its hits and of the misses that share a value with its groups."""
    share, p, misses = r / t, h / t, t - h
    passed = share * p
    hit_values = (share - passed)[::-1].cumsum()[::-1]
    hit_values += p
    hit_values += gained - means[0]
    miss_values = passed[::-1].cumsum()[::-1]
    miss_values += lost
    miss_values *= factor
    miss_values -= means[1]
    between = np.diff(misses, prepend=above)
    return float(r @ (hit_values * hit_values)), float(between @ (miss_values * miss_values))


def _mean_variance(squares: float, count: float) -> Tensor:
    return torch.tensor([squares / (count * (count - 1)) if count > 1 else np.nan], dtype=torch.float64)


def leave_one_out(curve: HitCurve) -> ItemValues:
    """Return the AP of each ranking without each item; NaN without the only hit.

    Args:
        curve: S rankings, unweighted, with a threshold per tie group.
    """
    hits, h, t = (segments.as_float64(x) for x in (curve.hits, curve.cumulative_hits, curve.cumulative_items))
    m = segments.as_float64(curve.m)
    hits_of_ranking = m if len(m) == 1 else m[curve.segment]
    left = (hits_of_ranking - 1).clamp(min=0)
    shorter = (t - 1).clamp(min=1)  # a group that ends at rank 1 has no miss in or above it, and h - 1 = 0
    sums = segments.total(hits * h / t, curve.offsets)
    total = sums if len(m) == 1 else sums[curve.segment]
    below = sum_from_below(hits * h / t, curve.offsets)
    without_hit = sum_from_below(hits * (h - 1) / shorter, curve.offsets)
    gain = sum_from_below(torch.where(t > 1, hits * h / (t * shorter), 0), curve.offsets)
    # r - 1 of the r hits of the group remain
    without_one_hit = (total - below + without_hit - (h - 1) / shorter) / left
    return ItemValues(
        curve,
        torch.where(left > 0, without_one_hit, torch.nan),
        (total + gain) / hits_of_ranking,
        torch.where(m > 1, sums / (m - 1), torch.nan),
        sums / m,
    )


def jackknife_variance(values: ItemValues, design: str) -> Tensor:
    """Return the jackknife variance of AP: (S,) float64; NaN with fewer than two hits or two misses.

    Args:
        values: result of :func:`leave_one_out`.
        design: "stratified": (m - 1) / m times the sum over hits of squared deviations, plus the analogous sum over the
            q misses. "iid": (n - 1) / n times the sum over all items.
    """
    hits, misses = values.hit_moments(), values.miss_moments()
    enough = (hits.count > 1) & (misses.count > 1)
    n = hits.count + misses.count
    if design == "stratified":
        value = hits.squares * (hits.count - 1) / hits.count + misses.squares * (misses.count - 1) / misses.count
    else:
        between = hits.count * misses.count / n * (hits.mean - misses.mean) ** 2
        value = (hits.squares + misses.squares + between) * (n - 1) / n
    return torch.where(enough, value, torch.nan)


_COLUMNS = 8  # rankings per block of a thread


def _weights(settings: APSettings, curve: HitCurve) -> Tensor:
    """Return the weight of each ranking's AP in the average, (S,), and 0 for rankings without hits.

    A ranking that enters the average as a constant reduces the weights of the others.
    """
    if settings.average == "weighted":
        return segments.as_float64(curve.m) / segments.as_float64(curve.m).sum()
    is_averaged = averaging.takes_part(curve.m, curve.n, settings.action_on_empty)
    weights: Tensor = (curve.m > 0) / segments.as_float64(is_averaged).sum()
    return weights


def item_shares(settings: APSettings, validated: Batch, curve: HitCurve, design: str) -> Tensor:
    """Return the contribution of each item to the average, (N,)."""
    ignoring = settings.inputs.ignoring
    if settings.average == "micro":
        return _micro_shares(validated, curve, design, ignoring)
    weights = _weights(settings, curve)
    varying = weights * (curve.m < curve.n)  # without misses AP is 1 for any scores
    shares = _sum_columns(
        validated, curve, lambda ranking: contributions(ranking, design), ignoring=ignoring, weights=varying
    )
    if design == "stratified":
        return _center_by_class(shares, validated.target, len(curve.m)) if settings.inputs.classes else shares
    if settings.average != "weighted":
        return shares
    # the weights m / sum(m) are random, too
    values = settings.convention(curve)
    total, mean = segments.as_float64(curve.m.sum()), (weights * values.nan_to_num()).sum()
    for column in curve.m.nonzero().squeeze(1).tolist():
        flags, rows = select_column(validated.target, column, ignoring)
        expected = curve.m[column] / curve.n[column]
        shares[rows] += (segments.as_float64(flags[rows]) - expected) * (values[column] - mean) / total
    return shares


def _center_by_class(shares: Tensor, target: Tensor, classes: int) -> Tensor:
    """Center the contributions by class, because the classes are the strata; ignored items are a stratum of zeros."""
    stratum = target.long().clamp(max=classes)  # the mark of ignored items is up to 2^31 - 1
    sums = shares.new_zeros(classes + 1).index_add_(0, stratum, shares)
    return shares - (sums / segments.count(stratum, classes + 1).clamp(min=1))[stratum]


def _micro_shares(validated: Batch, curve: HitCurve, design: str, ignoring: bool) -> Tensor:
    """Return the contributions to the ranking of all scores, in which an item occurs once per label."""
    scores, target = validated.scores, validated.target
    flags, rows = select_column(target.flatten(), 1, ignoring)
    shares = torch.zeros(scores.numel(), dtype=segments.as_float64(curve.m).dtype, device=scores.device)
    shares[rows] = contributions(curve, design).values_at(scores.flatten()[rows], flags[rows])
    return shares.reshape(scores.shape).sum(1)


def degrees_of_freedom(settings: APSettings, curve: HitCurve, design: str) -> Tensor:
    """Return Satterthwaite's (1946) degrees of freedom, (sum of v)^2 / sum of v^2 / (k - 1), 0-d.

    v are the variances of the weighted APs, and k is the smaller of the numbers of hits and misses of a ranking. An
    average without variance, such as of perfect rankings, has infinite degrees of freedom, so that it does not limit
    those of its difference from another average. Without a ranking that can vary, they are NaN.
    """
    varies = (curve.m > 1) & (curve.m < curve.n)
    v = (_weights(settings, curve) ** 2 * variance(curve, design))[varies]
    if len(v) and not bool(v.any()):
        return v.new_tensor(torch.inf)
    return v.sum() ** 2 / (v**2 / record.degrees_of_freedom(curve)[varies]).sum()


def deletion_changes(settings: APSettings, validated: Batch, curve: HitCurve) -> Tensor:
    """Return the change of the macro or weighted average by the deletion of each item, (N,) float64.

    The change is 0 for items that no ranking counts, and NaN for the only hit of a ranking.
    """
    ignoring = settings.inputs.ignoring
    if settings.average != "weighted":
        return _sum_columns(validated, curve, _changes_of_ap, ignoring=ignoring, weights=_weights(settings, curve))
    ones = segments.as_float64((curve.m > 0).to(torch.int64))
    sums = _sum_columns(validated, curve, _changes_of_sum, ignoring=ignoring, weights=ones)
    target, total = validated.target, segments.as_float64(curve.m.sum())
    hits = segments.as_float64(counted_items(target) if target.ndim == 1 else (target == 1).sum(1))
    value = (_weights(settings, curve) * settings.convention(curve).nan_to_num()).sum()
    return (sums + value * hits) / (total - hits)


def _changes_of_ap(curve: HitCurve) -> ItemValues:
    """Return the change of AP by the deletion of each item."""
    sums = segments.as_float64(curve.hits * curve.cumulative_hits) / curve.cumulative_items
    return _map_values(leave_one_out(curve), lambda x, _: x - segments.total(sums, curve.offsets) / curve.m)


def _changes_of_sum(curve: HitCurve) -> ItemValues:
    """Return the change of the sum of the precisions of the hits, m AP, by the deletion of each item."""
    sums = segments.as_float64(curve.hits * curve.cumulative_hits) / curve.cumulative_items
    total = segments.total(sums, curve.offsets)
    return _map_values(leave_one_out(curve), lambda x, hit: x * (curve.m - hit) - total)


def _map_values(values: ItemValues, change: Callable[[Tensor, int], Tensor]) -> ItemValues:
    """Return ``change(value, hit)`` of the values of one ranking, where ``hit`` is 1 for hits and 0 for misses."""
    return replace(
        values,
        hits=change(values.hits, 1),
        misses=change(values.misses, 0),
        hits_unseen=change(values.hits_unseen, 1),
        misses_below=change(values.misses_below, 0),
    )


def jackknife_of_changes(changes: Tensor, strata: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the delete-one jackknife variance and bias of a statistic (Quenouille 1956; Tukey 1958): 0-d each.

    With the mean change c of the n items of a stratum, its share of the variance is (n - 1) / n times the sum of the
    squared deviations from c, and its share of the bias is (n - 1) c.

    Args:
        changes: (N,) change of the statistic by the deletion of each item.
        strata: indices of the items of each stratum.
    """
    variance, bias = torch.zeros_like(changes[:0].sum()), torch.zeros_like(changes[:0].sum())
    for indices in strata:
        if count := len(indices):
            values = changes[indices]
            variance = variance + (count - 1) / count * (values - values.mean()).square().sum()
            bias = bias + (count - 1) * values.mean()
    return variance, bias


def _sum_columns(
    validated: Batch, curve: HitCurve, item_values: Callable[[HitCurve], ItemValues], *, ignoring: bool, weights: Tensor
) -> Tensor:
    """Return the weighted sum over the rankings of each item's values, (N,) float64.

    Args:
        validated: (N, C) scores.
        curve: the C rankings.
        item_values: function of one ranking that returns the values of its items.
        ignoring: whether single items or scores may be marked as ignored.
        weights: (C,) weight of each ranking; rankings with weight 0 are skipped.
    """
    scores, target = validated.scores, validated.target
    singles = hit_curve.split(curve)

    def sum_columns(columns: list[int]) -> Tensor:
        sums = torch.zeros(len(scores), dtype=weights.dtype, device=scores.device)
        for column in columns:
            flags, rows = select_column(target, column, ignoring)
            values = item_values(singles[column]).values_at(scores[:, column][rows], flags[rows])
            sums[rows] += weights[column] * values
        return sums

    weighted = weights.nonzero().squeeze(1).tolist()
    threads = order.workers(scores.numel()) if scores.device.type == "cpu" else 1
    # blocks of a fixed size, so that the sum does not depend on the number of threads
    blocks = [weighted[first : first + _COLUMNS] for first in range(0, max(len(weighted), 1), _COLUMNS)]
    return torch.stack(order.run_in_threads(sum_columns, blocks, threads)).sum(0)


def select_column(target: Tensor, column: int, ignoring: bool) -> tuple[Tensor, Tensor | slice]:
    """Return which items are hits of a column's ranking, (N,) bool, and the index of the items that it ranks."""
    flags = target == column if target.ndim == 1 else target[:, column] == 1
    if not ignoring:
        return flags, slice(None)
    return flags, counted_items(target if target.ndim == 1 else target[:, column])


def contributions(curve: HitCurve, design: str) -> ItemValues:
    """Return each item's contribution to the AP of one ranking; the squares sum to its variance.

    The influence functions are centered and scaled as in :func:`torch_ap.inference.comparison.scaled_deviations`. For
    "iid", the contributions include the random share of hits.
    """
    values = influence(curve)
    moments = values.miss_moments(), values.hit_moments()
    shares = [torch.zeros_like(moments[0].mean)] * 2
    if design == "iid":
        n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
        slope = prevalence_slope(curve) / n
        shares = [-m / n * slope, (1 - m / n) * slope]

    def scaled(x: Tensor, hit: int) -> Tensor:
        count = moments[hit].count
        return (x - moments[hit].mean) / torch.sqrt(count * (count - 1)) + shares[hit]

    return _map_values(values, scaled)
