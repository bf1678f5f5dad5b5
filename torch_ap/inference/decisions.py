"""Comparison of the precision, recall, F or accuracy of two systems' binary decisions on the same items.

The test of Yeh (2000) swaps the two systems' decisions item by item at random. Items with equal decisions have no
influence. For the other items, the measure depends only on the numbers of hits and of misses that each system retrieves
after the swap. Both numbers are binomial, so the distribution can be listed if few items have different decisions.

Items of a group, such as the words of a text, depend on each other. With groups, the decisions on all items of a group
are swapped together, which requires independent groups.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import allowed_values
from torch_ap.core.items.inputs import ClassificationInputs
from torch_ap.core.measures.counts import Counts
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking.order import Array
from torch_ap.inference.enumeration import MOST_LISTED
from torch_ap.inference.groups import Groups, validate_groups
from torch_ap.inference.record import SAME_VALUE, Result
from torch_ap.inference.resampling import Resampling

_FEWEST_GROUPS = 6  # with different decisions, so that p can be below 5%

Measure: TypeAlias = Literal["precision", "recall", "f_beta", "accuracy"]
Method: TypeAlias = Literal["auto", "exact", "randomization"]


@dataclass(frozen=True, eq=False, repr=False)
class DecisionComparison(Result):
    """Comparison of two systems' decisions.

    Attributes:
        value_a: the measure of system A.
        value_b: the measure of system B.
        difference: A - B.
        p_value: two-sided p-value of the hypothesis of no difference.
        right_a: number of items that A classifies correctly and B incorrectly.
        right_b: number of items that B classifies correctly and A incorrectly; both are arguments of
            :func:`torch_ap.inference.posteriors.probability_better`.
        measure: name of the measure.
        method: "exact", or "randomization" for random swaps.
        reason: why numbers are NaN, p is 1 by definition, or p is limited by few groups; "" otherwise.
    """

    value_a: Tensor
    value_b: Tensor
    difference: Tensor
    p_value: Tensor
    right_a: Tensor
    right_b: Tensor
    measure: str
    method: str
    reason: str = ""


@renamed_keywords(batch="chunk_size")
def compare_decisions(
    preds_a: Tensor,
    preds_b: Tensor,
    target: Tensor,
    *,
    measure: Measure = "f_beta",
    beta: float = 1.0,
    method: Method = "auto",
    groups: SampleIds = None,
    n_resamples: int = 10_000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> DecisionComparison:
    """Compare the precision, recall, F_beta or accuracy of two systems' decisions by a randomization test.

    p is the share of all ways to swap the two systems' decisions, item by item, in which the absolute difference of the
    measure is at least the observed one. Precision and F are ratios of two random numbers, so paired t, Wilcoxon and
    sign tests do not apply; tests for independent systems have less power. For recall, the test is the exact McNemar
    test on the relevant items, for accuracy on all items. The items must be independent, or the ``groups`` of items,
    which are swapped as a whole. The estimand is the difference of the measure in the population from which the items
    or groups were sampled.

    Rejection rates for two equally good systems, at nominal 5%, with 100 / 1,000 items: precision 4.2 / 5.2%, recall
    1.2 / 3.7% (its distribution is discrete), F1 3.6 / 5.4%, each ± .3 (``benchmarks.coverage``).
    With items in 10 to 200 groups: 2.3 to 6.9% with ``groups``, 3.6 to 49.3% without.

    Args:
        preds_a: (N, ...) bool decisions of system A, such as ``scores >= threshold``.
        preds_b: (N, ...) bool decisions of system B for the same items.
        target: (N, ...) integers or bool, 0 or 1.
        measure: as above.
        beta: weight of recall relative to precision in "f_beta"; at least 0, with a finite square.
        method: "exact", which requires (d + 1) (e + 1) <= 3,000,000 for d hits and e misses with different decisions,
            or at most 21 groups with different decisions; "randomization", (b + 1) / (B + 1) of B random swaps; or
            "auto", which is exact if possible.
        groups: (N, ...) integers, a tensor or a list, the group of each item, such as its text or patient; None for
            independent items. With G groups with different decisions, p is at least 2^(1 - G) where A - B and B - A
            have different values, so five groups or fewer do not reach 5%: ``reason`` reports them.
        n_resamples: number of random swaps, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`DecisionComparison`. If the measure of a system is NaN (the precision of a system that retrieves
        nothing), p is NaN, with a reason. A swap for which the measure is NaN counts as a difference at least as large
        as the observed one.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals ``scipy.stats.permutation_test(..., permutation_type="samples")`` of the decisions, and
    ``scipy.stats.binomtest`` of the discordant items for recall and accuracy.

    Source: Yeh (2000), More Accurate Tests for the Statistical Significance of Result Differences;
    Noreen (1989) for (b + 1) / (B + 1).

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_decisions
        >>> target = torch.tensor([1, 1, 1, 1, 1, 1, 0, 0, 0, 0])
        >>> a = torch.tensor([1, 1, 1, 1, 1, 0, 0, 0, 0, 0]).bool()
        >>> b = torch.tensor([1, 0, 0, 0, 0, 0, 1, 1, 0, 0]).bool()
        >>> found = compare_decisions(a, b, target)
        >>> round(float(found.difference), 4), float(found.p_value), found.method
        (0.6869, 0.03125, 'exact')
    """
    checks.one_of("measure", measure, allowed_values(Measure))
    checks.one_of("method", method, allowed_values(Method))
    checks.beta("beta", beta, zero=True)
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    for name, preds in (("preds_a", preds_a), ("preds_b", preds_b)):
        _validate_decisions(name, preds, target)
    ClassificationInputs().validate_now(preds_a.to(torch.uint8), target)
    ids = validate_groups(groups, target.shape, target.device)
    kinds = preds_a & preds_b, preds_a & ~preds_b, preds_b & ~preds_a, torch.ones_like(preds_a)
    both, only_a, only_b, totals = (
        (int((kind & (target == 1)).sum()), int((kind & (target != 1)).sum())) for kind in kinds
    )
    swaps = _Swaps(both, (only_a[0] + only_b[0], only_a[1] + only_b[1]), totals, measure, beta)
    if ids is not None:
        swaps = _GroupSwaps(**vars(swaps), per_group=_per_group(ids, kinds[1:3], target == 1))
    value_a, value_b = swaps.value(*only_a), swaps.value(*only_b)
    chosen = swaps.choose_method(method)
    difference = value_a - value_b
    p, reason = math.nan, f"`{measure}` of a system is 0 / 0: the measure and p are NaN"
    if not math.isnan(difference):
        p = swaps.exact(abs(difference)) if chosen == "exact" else swaps.randomized(abs(difference), resampling)
        reason = swaps.reason if difference else "no difference: p = 1 by definition"
    numbers = (value_a, value_b, difference, p, only_a[0] + only_b[1], only_b[0] + only_a[1])
    return DecisionComparison.from_numbers(*numbers, measure=measure, method=chosen, reason=reason).to(preds_a.device)


@dataclass(frozen=True)
class _Swaps:
    """The difference of the measure under random swaps of the decisions.

    Attributes:
        both: numbers of hits and misses that both systems retrieve.
        discordant: numbers of hits and misses that exactly one system retrieves.
        totals: numbers of all hits and misses.
        measure: name of the measure.
        beta: weight of recall in F.
    """

    both: tuple[int, int]
    discordant: tuple[int, int]
    totals: tuple[int, int]
    measure: str
    beta: float

    reason = ""  # why p is limited

    def choose_method(self, method: str) -> str:
        """Return "exact" or "randomization"."""
        cases, units = self._cases()
        if method == "exact" and cases > MOST_LISTED:
            raise ValueError(
                f"`method='exact'` lists at most {MOST_LISTED:,} cases, got {units} with different decisions; use "
                "'randomization'"
            )
        return method if method != "auto" else "exact" if cases <= MOST_LISTED else "randomization"

    def _cases(self) -> tuple[int, str]:
        """Return the number of cases to list, and what is swapped."""
        hits, misses = self.discordant
        return (hits + 1) * (misses + 1), f"{hits} hits and {misses} misses"

    def value(self, hits: int, misses: int) -> float:
        """Return the measure of a system that retrieves these numbers of the discordant hits and misses."""
        return float(self._values(hits, misses))

    def reaches(self, hits: Array, misses: Array, observed: float) -> Array:
        """Whether the difference reaches the observed one if system A retrieves these discordant hits and misses."""
        value_b = self._values(self.discordant[0] - hits, self.discordant[1] - misses)
        gap: Array = (self._values(hits, misses) - value_b).abs().numpy()
        return ~(gap < observed - SAME_VALUE)

    def _values(self, hits: Any, misses: Any) -> Tensor:
        tp, fp = (torch.from_numpy(np.asarray(x + self.both[kind], float)) for kind, x in enumerate((hits, misses)))
        counts = Counts(tp=tp, fp=fp, fn=self.totals[0] - tp, tn=self.totals[1] - fp)
        values: Tensor = counts.f_beta(self.beta) if self.measure == "f_beta" else getattr(counts, self.measure)
        return values

    def exact(self, observed: float) -> float:
        """Return the share of all swaps that reach the observed difference."""
        from scipy.special import gammaln

        probabilities = []
        for size in self.discordant:
            count = np.arange(size + 1)
            logs = gammaln(size + 1) - gammaln(count + 1) - gammaln(size - count + 1) - size * math.log(2)
            probabilities.append(np.exp(logs))
        hits, misses = (x.ravel() for x in np.indices((self.discordant[0] + 1, self.discordant[1] + 1)))
        reached = self.reaches(hits, misses, observed).reshape(len(probabilities[0]), len(probabilities[1]))
        return min(1.0, float(probabilities[0] @ reached @ probabilities[1]))

    def randomized(self, observed: float, resampling: Resampling) -> float:
        """Return (b + 1) / (B + 1) of B random swaps."""
        rng, count = np.random.Generator(np.random.SFC64([resampling.seed()])), resampling.n_resamples
        hits, misses = (rng.binomial(size, 0.5, count) for size in self.discordant)
        spans = (slice(span.start, span.stop) for span in resampling.batches(16))  # 16 numbers per swap
        return (sum(int(self.reaches(hits[x], misses[x], observed).sum()) for x in spans) + 1) / (count + 1)


@dataclass(frozen=True)
class _GroupSwaps(_Swaps):
    """The difference of the measure if the decisions of all items of a group are swapped together.

    Attributes:
        per_group: (2, 2, G) int64, hits and misses that only A or only B retrieves, in the G groups with any of them.
    """

    per_group: Array

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why p cannot reach 5%; "" otherwise."""
        count = self.per_group.shape[2]
        few = f"{count} group{'s' * (count > 1)} with different decisions, so that p is at least {2.0 ** (1 - count):g}"
        return few if count < _FEWEST_GROUPS else ""

    def _cases(self) -> tuple[int, str]:
        count = self.per_group.shape[2]
        return 2**count, f"{count} groups"

    def exact(self, observed: float) -> float:
        """Return the share of all swaps that reach the observed difference."""
        found = np.zeros((2, 1), np.int64)
        for only_a, only_b in np.moveaxis(self.per_group, 2, 0):
            found = np.concatenate([found + only_a[:, None], found + only_b[:, None]], 1)
        return float(self.reaches(found[0], found[1], observed).mean())

    def randomized(self, observed: float, resampling: Resampling) -> float:
        """Return (b + 1) / (B + 1) of B random swaps."""
        rng, reached = np.random.Generator(np.random.SFC64([resampling.seed()])), 0
        only_a, only_b = self.per_group
        changes, groups = np.unique(only_b - only_a, axis=1, return_counts=True)
        for span in resampling.batches(2 * len(groups) + 16):
            swapped = rng.binomial(groups, 0.5, (len(span), len(groups)))
            hits, misses = only_a.sum(1)[:, None] + changes @ swapped.T
            reached += int(self.reaches(hits, misses, observed).sum())
        return (reached + 1) / (resampling.n_resamples + 1)


def _per_group(ids: Tensor, only: Sequence[Tensor], relevant: Tensor) -> Array:
    """Return the hits and misses that only A or only B retrieves in each group with any of them, (2, 2, G)."""
    groups = Groups.from_ids(ids)
    counts = torch.stack([torch.stack([groups.hits((x & y).flatten()) for y in (relevant, ~relevant)]) for x in only])
    kept = counts.sum((0, 1)) > 0
    found: Array = counts[:, :, kept].to(torch.int64).cpu().numpy()
    return found


def _validate_decisions(name: str, preds: Any, target: Any) -> None:
    if not isinstance(preds, Tensor):
        raise_invalid(name, "must be a tensor (see `torch.as_tensor`)", Plain(type(preds).__name__), TypeError)
    if preds.dtype != torch.bool:
        raise_invalid(name, "must be bool decisions, such as `scores >= threshold`", preds.dtype)
    if isinstance(target, Tensor) and preds.shape != target.shape:
        raise ValueError(
            f"`{name}` and `target` must have the same shape, got {tuple(preds.shape)} and {tuple(target.shape)}"
        )
