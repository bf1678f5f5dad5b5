"""Comparison of all pairs of several systems, with adjusted p-values, and of two systems on repeated splits.

The values of the splits are not an independent sample, because their training sets overlap. The variance of their mean
is larger than s^2 / J, so a paired t test rejects too often.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, ParamSpec, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import Plain, distinct_reasons, raise_invalid, warn_caller
from torch_ap.core.base.options import Design, allowed_values
from torch_ap.core.metric.samples import SampleIds
from torch_ap.inference import record
from torch_ap.inference.comparison import Method, average_precision_untied, compare_rankings, random_ranks
from torch_ap.inference.groups import validate_groups
from torch_ap.inference.queries import (
    Pairs,
    compare_per_query,
    p_value,
    pair_values,
    student_difference,
    validate_pairs,
)
from torch_ap.inference.record import SAME_VALUE, Comparison, Result
from torch_ap.inference.resampling import Resampling

P = ParamSpec("P")
Correction: TypeAlias = Literal["tukey", "holm"]
PairedTest: TypeAlias = Literal["t", "randomization"]


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseComparison(Result):
    """All pairs of S systems.

    Attributes:
        means: (S,) mean of each system, or its AP if rankings of items are compared.
        difference: (S, S) row system minus column system.
        p_value: (S, S) two-sided p-value of the single pair; 1 on the diagonal.
        adjusted_p_value: (S, S) p-value adjusted for all pairs.
        method: "holm" or "tukey".
        reason: why numbers are NaN or doubtful; "" otherwise.
    """

    means: Tensor
    difference: Tensor
    p_value: Tensor
    adjusted_p_value: Tensor
    method: str
    reason: str = ""


@renamed_keywords(batch="chunk_size")
def compare_systems_per_query(
    values: Tensor,
    *,
    method: Correction = "tukey",
    test: PairedTest = "t",
    groups: SampleIds = None,
    n_resamples: int = 10_000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> PairwiseComparison:
    """Compare all pairs of several systems by their per-query values, with control of the family-wise error.

    The estimands are the mean differences in the population of queries from which the queries were sampled.

    - "tukey": randomized Tukey HSD. The values of each query are permuted among the systems. The p of a pair is the
      share of permutations in which the best and the worst system differ at least as much, (b + 1) / (B + 1). The test
      is paired, unlike Tukey's test for independent samples.
    - "holm": each pairwise p-value times the number of p-values that are not smaller, made monotone (Holm 1979).

    Share of samples in which any pair of five equally good systems is significant, at nominal 5%, with 25 / 50 queries:
    "tukey" 5.3 / 4.9%, "holm" 3.6 / 4.2%, each ± 1, without adjustment 29 / 29% (``benchmarks.coverage``).

    Args:
        values: (S, Q) finite per-query values of at least two systems and one query.
        method: as above.
        test: test of the single pairs, "t" or "randomization", as in
            :func:`torch_ap.inference.compare_per_query`.
        groups: as in ``compare_per_query``; method "holm" with test "t" only.
        n_resamples: number of random permutations, or sign flips, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`PairwiseComparison`. The t test returns NaN, with a reason, for one query and for a pair with equal
        nonzero differences; "holm" then returns NaN for this pair as well. A pair without differences has p = 1.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals ``scipy.stats.ttest_rel`` with ``statsmodels``' ``multipletests(method="holm")`` for "holm" with "t".
    Source: Carterette (2012), Multiple Testing in Statistical Analysis of Systems-Based Information Retrieval
    Experiments, section 4.

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_systems_per_query
        >>> values = torch.tensor([[0.5, 0.6, 0.9, 0.4], [0.4, 0.4, 0.6, 0.3], [0.5, 0.5, 0.8, 0.5]])
        >>> found = compare_systems_per_query(values, method="holm")
        >>> [round(p, 3) for p in found.adjusted_p_value[0].tolist()]
        [1.0, 0.071, 0.638]
    """
    tensors.check_query_values("values", values, ndim=2)
    if len(values) < 2:
        raise_invalid("values", "must contain at least two systems", len(values))
    checks.one_of("method", method, allowed_values(Correction))
    checks.one_of("test", test, allowed_values(PairedTest))
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    ids = validate_groups(groups, values.shape[1:], values.device, "query")
    if ids is not None:
        _check_method_of_groups(method, "queries")
        if test != "t":
            raise_invalid("test", "must be 't' with `groups`", test)
        with distinct_reasons() as doubts:
            found = [compare_per_query(*pair, groups=ids) for pair in combinations(values, 2)]
        means = torch.stack([found[0].value_a, *(x.value_b for x in found[: len(values) - 1])])
        p_values = torch.stack([x.p_value for x in found])
        reason = next((x.reason for x in found if x.p_value.isnan()), "; ".join(doubts))
        return pairwise_comparison(means.cpu(), p_values.cpu(), None, reason).to(values.device)
    pairs = [pair_values(*pair) for pair in combinations(values, 2)]
    p_values = torch.tensor([p_value(test, pair, resampling) for pair in pairs], dtype=torch.float64)
    table = values.detach().to("cpu", torch.float64)
    means, columns = table.mean(1), table.t().numpy()

    def spread(rng: np.random.Generator) -> float:
        permuted = rng.permuted(columns, axis=1).mean(0)
        return float(permuted.max() - permuted.min())

    adjusted = None
    if method == "tukey":
        adjusted = tukey_p_values(means, record.rounding(values), spread, columns.size, resampling)
    return pairwise_comparison(means, p_values, adjusted, _reason(pairs, p_values)).to(values.device)


def pairwise_comparison(values: Tensor, p_values: Tensor, adjusted: Tensor | None, reason: str) -> PairwiseComparison:
    """Return the record of all pairs.

    Args:
        values: (S,) value of each system.
        p_values: (P,) p-values of the pairs (0, 1), (0, 2), and so on.
        adjusted: (P,) p-values of "tukey"; None for "holm".
        reason: why p-values are NaN or doubtful.
    """
    tables = []
    for column in (p_values, record.holm(p_values) if adjusted is None else adjusted):
        table = torch.ones(len(values), len(values), dtype=torch.float64)
        first, second = torch.triu_indices(len(values), len(values), 1)
        table[first, second] = table[second, first] = column
        tables.append(table)
    method = "holm" if adjusted is None else "tukey"
    return PairwiseComparison(values, values[:, None] - values, tables[0], tables[1], method, reason)


def tukey_p_values(
    values: Tensor,
    noise: float,
    spread: "Callable[[np.random.Generator], float]",
    size: int,
    resampling: Resampling,
    seed: int | None = None,
) -> Tensor:
    """Return the share of permutations whose spread reaches the difference of each pair, (b + 1) / (B + 1).

    Args:
        values: (S,) value of each system.
        noise: bound of the rounding error of a difference.
        spread: function of a generator that returns the largest minus the smallest value in a random permutation.
        size: count of numbers that a permutation draws.
        resampling: number of permutations, generator and memory limit.
        seed: seed of the permutations; None to draw one.
    """
    first, second = torch.triu_indices(len(values), len(values), 1)
    spreads = resampling.statistics(spread, 4 * size, size, seed).sort().values
    reached = len(spreads) - torch.searchsorted(spreads, (values[first] - values[second]).abs() - noise)
    return (reached + 1) / torch.tensor(len(spreads) + 1.0, dtype=torch.float64)


def _reason(pairs: list[Pairs], p_values: Tensor) -> str:
    if not p_values.isnan().any():
        return ""
    cause = "one query has" if len(pairs[0].gap) == 1 else "the differences of a pair are all equal and have"
    return f"{cause} no spread: no p by t"


@dataclass(frozen=True, eq=False, repr=False)
class SplitComparison(Comparison):
    """Two systems over the same splits. The fields of Comparison contain the means and the mean difference.

    Attributes:
        splits: J.
    """

    splits: int = field(kw_only=True)


def compare_splits(
    values_a: Tensor,
    values_b: Tensor,
    n_train: float,
    n_test: float,
    *,
    confidence_level: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> SplitComparison:
    r"""Compare two systems over repeated training-test splits by the corrected resampled t test.

    .. math::
        SE^2 = \Big(\frac{1}{J} + \frac{n_{test}}{n_{train}}\Big) s^2, \qquad \bar d \pm t_{J - 1} SE

    with s^2 the variance of the J differences. The second term is due to the overlap of the training sets. Without it,
    any difference becomes significant with enough splits. The estimand is the mean difference, over training sets and
    test items, of systems that learn from ``n_train`` items.

    Rejection rates for two equally good learners, at nominal 5%, with 10 / 50 splits: if a tenth of the items is tested
    5.0 / 4.2% (paired t 15.4 / 42.5%), if half of the items is tested 5.6 / 6.5% (paired t 52.3 / 77.7%), each ± .7
    (``benchmarks.coverage``).

    Args:
        values_a: (J,) finite values of system A, one per split, at least two. For example AP on each test set, from
            ``cross_val_score(..., cv=ShuffleSplit(...))`` with :data:`torch_ap.sklearn.average_precision_scorer`.
        values_b: (J,) values of system B for the same splits in the same order.
        n_train: number of training items of each split, above 0.
        n_test: number of test items of each split, above 0.
        confidence_level: nominal coverage of the interval, in (0, 1).
        bounds: smallest and largest value of the measure, (0, 1) for average precision, to which the interval is
            clipped; None for an unbounded measure.

    Returns:
        :class:`SplitComparison` with method "t". If all differences are zero, p = 1. If all differences are equal
        otherwise, they have no spread: the ends and p are NaN.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals ``scipy.stats.ttest_rel`` with its t divided by sqrt(1 + J n_test / n_train).

    Source: Nadeau & Bengio (2003), Inference for the Generalization Error; Bouckaert & Frank (2004) for r repetitions
    of k folds, where J = r k and n_test / n_train = 1 / (k - 1).

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_splits
        >>> a, b = torch.tensor([0.82, 0.78, 0.85, 0.80, 0.83]), torch.tensor([0.79, 0.77, 0.81, 0.79, 0.78])
        >>> found = compare_splits(a, b, n_train=900, n_test=100)
        >>> round(float(found.difference), 4), round(float(found.p_value), 4)
        (0.028, 0.0485)
    """
    pairs = validate_pairs(values_a, values_b, bounds)
    gap, splits = pairs.gap, len(pairs.gap)
    if splits < 2:
        raise ValueError(f"`values_a` and `values_b` must have at least two splits, got {splits}")
    checks.positive("n_train", n_train)
    checks.positive("n_test", n_test)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    error = float(record.deviation(gap, pairs.noise)) * math.sqrt(1 / splits + n_test / n_train)
    low, high, p, reason = student_difference(gap, error, splits - 1.0, confidence_level, bounds)
    if p != p:
        reason = "all differences are equal, so they have no spread: ends and p are NaN"
    numbers = (pairs.value_a, pairs.value_b, gap.mean(), low, high, error, p)
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": "t", "splits": splits}
    return SplitComparison.from_numbers(*numbers, **settings, reason=reason).to(values_a.device)


def compare_per_query_without_target(function: Callable[P, PairwiseComparison]) -> Callable[P, PairwiseComparison]:
    """Return ``compare_systems`` that passes former calls, with values and without a target, on with a warning."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> PairwiseComparison:
        if "values" in kwargs or (len(args) == 1 and "target" not in kwargs):
            current = "compare_systems_per_query(values)"
            warn_caller(f"`compare_systems(values)` is deprecated: use `{current}`", FutureWarning)
            compare: Callable[..., PairwiseComparison] = compare_systems_per_query
            return compare(*args, **kwargs)
        return function(*args, **kwargs)

    return call


@renamed_keywords(batch="chunk_size")
@compare_per_query_without_target
def compare_systems(
    preds: Tensor,
    target: Tensor,
    *,
    method: Correction = "holm",
    test: Method | None = None,
    design: Design = "iid",
    groups: SampleIds = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> PairwiseComparison:
    """Compare all pairs of several systems by AP on the same items, with control of the family-wise error.

    For values of queries see :func:`torch_ap.inference.compare_systems_per_query`, which formerly had this name: a call
    with values and without a target works for one release, with a FutureWarning.

    - "holm": each p-value of :func:`torch_ap.inference.compare_rankings` times the number of p-values that are not
      smaller, made monotone (Holm 1979).
    - "tukey": the ranks of each item are permuted among the systems. The p of a pair is the share of permutations in
      which the best and the worst system differ at least as much, (b + 1) / (B + 1). Ties, including ties due to a
      permutation, are broken at random. The unadjusted p-values are the same as for "holm".

    The estimands are the differences of the limits of the APs as items are added.

    Share of samples in which any pair of four equally good systems is significant, at nominal 5%, with (n, m) =
    (300, 30) / (1000, 100): "holm" 2.8 / 4.3%, "tukey" 4.4 / 5.1%, each ± 1, without adjustment 18 / 20%
    (``benchmarks.coverage``).

    Args:
        preds: (S, N) scores, one system per row, at least two; no NaN. The systems may have different scales.
        target: (N,) values 0 and 1.
        method: as above.
        test: test of the single pairs, the ``method`` of ``compare_rankings``; None for its default.
        design: as in ``compare_rankings``.
        groups: as in ``compare_rankings``; method "holm" only.
        n_resamples: number of random permutations, and of resamples of the tests that resample; at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`PairwiseComparison`; its ``means`` are the APs. If a pair has no p-value, "holm" returns NaN for this
        pair and for larger p-values, with a reason.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals, for two systems and "holm", ``compare_rankings``.

    Source: Holm (1979); Carterette (2012), section 4, for "tukey" of queries, here of items.

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_systems
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 1, 0, 0, 0] * 6)
        >>> noise = 3 * torch.linspace(-1, 1, 60).mul(7).sin()
        >>> preds = torch.stack([target + noise, target * 0.9 + noise, noise])
        >>> found = compare_systems(preds, target)
        >>> [round(x, 3) for x in found.means.tolist()]
        [0.59, 0.576, 0.441]
        >>> bool((found.adjusted_p_value[2, :2] < 0.05).all()), bool(found.adjusted_p_value[0, 1] < 0.05)
        (True, False)
    """
    checks.one_of("method", method, allowed_values(Correction))
    checks.one_of("test", test, (None, *allowed_values(Method)))
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    check_systems(preds, target)
    if groups is not None:
        _check_method_of_groups(method, "items")
    settings: dict[str, Any] = {"design": design, "groups": groups} | ({} if test is None else {"method": test})
    settings |= {"n_resamples": n_resamples, "generator": generator, "chunk_size": chunk_size, "progress": progress}
    with distinct_reasons() as doubts:
        pairs = [compare_rankings(a, b, target, **settings) for a, b in combinations(preds, 2)]
    aps = torch.stack([pairs[0].value_a, *(pair.value_b for pair in pairs[: len(preds) - 1])]).cpu()
    p_values = torch.stack([pair.p_value for pair in pairs]).cpu()
    adjusted = _tukey_p_values(preds, target, resampling) if method == "tukey" else None
    reason = next((pair.reason for pair in pairs if pair.p_value.isnan()), "; ".join(doubts))
    return pairwise_comparison(aps, p_values, adjusted, reason).to(preds.device)


def _check_method_of_groups(method: str, units: str) -> None:
    """Raise ValueError for "tukey" of items or queries in groups."""
    if method == "tukey":
        raise_invalid("method", f"must be 'holm' with `groups`, whose {units} cannot be permuted separately", method)


def check_systems(preds: Tensor, target: Tensor) -> None:
    """Raise an error unless ``preds`` are (S, N) scores of at least two systems, and there is a target per item."""
    tensors.scores("preds", preds)
    if preds.ndim != 2 or len(preds) < 2:
        raise_invalid("preds", "must have shape (S, N) with at least two systems", tuple(preds.shape))
    if isinstance(target, Tensor) and target.shape == preds.shape[:1] != preds.shape[1:]:
        got = Plain(f"{tuple(preds.shape)} for `target` of shape {tuple(target.shape)}; write `preds.t()`")
        raise_invalid("preds", "must have shape (S, N), one system per row", got)
    if isinstance(target, Tensor) and target.shape != preds.shape[1:]:
        raise_invalid("target", f"must have shape {tuple(preds.shape[1:])}, one per item", tuple(target.shape))
    bad = torch.isnan(preds).nonzero()
    if len(bad):
        raise ValueError(f"`preds` must not contain NaN, got nan at index {tuple(bad[0].tolist())}")


def _tukey_p_values(preds: Tensor, target: Tensor, resampling: Resampling) -> Tensor:
    """Return the p-values of "tukey" for permutations of each item's ranks."""
    hit = (target == 1).cpu().numpy().astype(np.int64)
    if not hit.any():
        return torch.full((math.comb(len(preds), 2),), torch.nan, dtype=torch.float64)
    seed = resampling.seed()
    start = np.random.Generator(np.random.SFC64([seed]))
    table = np.stack([random_ranks(row.cpu(), start) for row in preds], 1)
    values = torch.tensor([average_precision_untied(column, hit, start) for column in table.T], dtype=torch.float64)

    def spread(rng: np.random.Generator) -> float:
        permuted = rng.permuted(table, axis=1)
        aps = [average_precision_untied(np.ascontiguousarray(column), hit, rng) for column in permuted.T]
        return max(aps) - min(aps)

    return tukey_p_values(values, SAME_VALUE, spread, table.size, resampling, seed)
