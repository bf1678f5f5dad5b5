"""Two systems' yes-or-no decisions on the same items: does one have the higher precision, recall or F?

Yeh (2000) swaps the two systems' decisions item by item at random. Items on which they agree change nothing, and of the
others only the number of hits and of misses that each system then retrieves counts. Both are binomial, so that few
items need no random numbers.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.counts import Counts
from torch_ap.inference.enumeration import MOST_LISTED
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.result import Result, number
from torch_ap.inference.rounding import SAME_VALUE
from torch_ap.inputs.classification import ClassificationInputs
from torch_ap.ranking.order import Array
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, refuse
from torch_ap.rules.options import allowed

Measure: TypeAlias = Literal["precision", "recall", "f_beta", "accuracy"]
Method: TypeAlias = Literal["auto", "exact", "randomization"]


@dataclass(frozen=True, eq=False, repr=False)
class DecisionComparison(Result):
    """Two systems' decisions.

    Attributes:
        value_a: the measure of system A.
        value_b: of system B.
        difference: A - B.
        p_value: two-sided, of no difference.
        right_a: items that A decides rightly and B wrongly.
        right_b: the reverse; for :func:`torch_ap.inference.posteriors.probability_better`.
        measure: its name.
        method: "exact", or "randomization" where that many swaps were drawn.
        reason: why numbers are NaN, or p is 1 by definition; "" otherwise.
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


def compare_decisions(
    preds_a: Tensor,
    preds_b: Tensor,
    target: Tensor,
    *,
    measure: Measure = "f_beta",
    beta: float = 1.0,
    method: Method = "auto",
    n_resamples: int = 10_000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> DecisionComparison:
    """Whether two systems' decisions differ in precision, recall, F_beta or accuracy: the randomization test.

    p is the share of all ways to swap the two systems' decisions, item by item, in which the measure differs at least
    as much as it does. Precision and F are ratios of two random numbers, to which paired t, Wilcoxon and sign tests do
    not apply; tests that take the systems for independent find too little. For recall it is the exact McNemar test on
    the relevant items, for accuracy that on all. Items are taken for independent: decisions on the words of one text
    are not, and need one item per text, compared by :func:`torch_ap.inference.compare_queries`. The estimand is the
    difference of the measure in the population that the items were drawn from.

    Two equally good systems are told apart, at nominal 5%, with 100 / 1,000 items by precision 4.2 / 5.2%, by recall
    1.2 / 3.7% (its law is discrete), and by F1 3.6 / 5.4% of the time, each ± .3 (``benchmarks.coverage``).

    Args:
        preds_a: (N, ...) bool decisions of system A; of scores, ``scores >= threshold``.
        preds_b: of system B, for the same items.
        target: (N, ...) integers or bool, 0 or 1.
        measure: as above.
        beta: of "f_beta": recall counts beta times as much as precision; at least 0, with a finite square.
        method: "exact", possible where (d + 1) (e + 1) is at most 3,000,000, with d hits and e misses on which the
            systems differ; "randomization", (b + 1) / (B + 1) of B random swaps; or "auto": exact where possible.
        n_resamples: random swaps; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`DecisionComparison`. Where the measure of a system is NaN (the precision of one that retrieves
        nothing), so is p, and ``reason`` says it; a swap that makes one NaN counts as a difference at least as large.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

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
    checks.one_of("measure", measure, allowed(Measure))
    checks.one_of("method", method, allowed(Method))
    checks.beta("beta", beta, zero=True)
    how = Resampling(n_resamples, generator, batch, progress)
    for name, preds in (("preds_a", preds_a), ("preds_b", preds_b)):
        _check_decisions(name, preds, target)
    ClassificationInputs().validate_now(preds_a.to(torch.uint8), target)
    chosen_by = preds_a & preds_b, preds_a & ~preds_b, preds_b & ~preds_a
    both, only_a, only_b = (_hits_and_misses(x, target) for x in chosen_by)
    swaps = _Swaps(
        both=both,
        discordant=(only_a[0] + only_b[0], only_a[1] + only_b[1]),
        totals=(int((target == 1).sum()), int((target != 1).sum())),
        measure=measure,
        beta=beta,
    )
    value_a, value_b = swaps.value(*only_a), swaps.value(*only_b)
    chosen = _choose(method, swaps.discordant)
    difference = value_a - value_b
    p, reason = math.nan, f"`{measure}` of a system is a ratio of nothing: it and p are NaN"
    if not math.isnan(difference):
        p = swaps.exact(abs(difference)) if chosen == "exact" else swaps.drawn(abs(difference), how)
        reason = "" if difference else "no difference: p = 1 by definition"
    return DecisionComparison(
        value_a=number(value_a),
        value_b=number(value_b),
        difference=number(difference),
        p_value=number(p),
        right_a=number(only_a[0] + only_b[1]),
        right_b=number(only_b[0] + only_a[1]),
        measure=measure,
        method=chosen,
        reason=reason,
    ).to(preds_a.device)


def _choose(method: str, discordant: tuple[int, int]) -> str:
    feasible = (discordant[0] + 1) * (discordant[1] + 1) <= MOST_LISTED
    if method == "exact" and not feasible:
        raise ValueError(
            f"`method='exact'` lists at most {MOST_LISTED:,} cases, got {discordant[0]} hits and {discordant[1]} "
            "misses on which the systems differ; use 'randomization'"
        )
    return "exact" if feasible and method == "auto" else "randomization" if method == "auto" else method


@dataclass(frozen=True)
class _Swaps:
    """The measure's difference where the items that tell the systems apart are swapped at random.

    Attributes:
        both: hits and misses that both retrieve.
        discordant: hits and misses that one of them retrieves.
        totals: hits and misses in all.
        measure: its name.
        beta: of F.
    """

    both: tuple[int, int]
    discordant: tuple[int, int]
    totals: tuple[int, int]
    measure: str
    beta: float

    def value(self, hits: int, misses: int) -> float:
        """The measure of a system that alone retrieves so many of the discordant hits and misses."""
        return float(_measure(self._counts(hits, misses), self.measure, self.beta))

    def reaches(self, hits: Array, misses: Array, observed: float) -> Array:
        """Whether the difference is so large where system A gets so many of the discordant hits and misses."""
        of_a = _measure(self._counts(hits, misses), self.measure, self.beta)
        of_b = _measure(self._counts(self.discordant[0] - hits, self.discordant[1] - misses), self.measure, self.beta)
        gap: Array = (of_a - of_b).abs().numpy()
        return ~(gap < observed - SAME_VALUE)

    def _counts(self, hits: Any, misses: Any) -> Counts:
        tp, fp = (torch.from_numpy(np.asarray(x + self.both[kind], float)) for kind, x in enumerate((hits, misses)))
        return Counts(tp=tp, fp=fp, fn=self.totals[0] - tp, tn=self.totals[1] - fp)

    def exact(self, observed: float) -> float:
        """The share of all swaps."""
        from scipy.special import gammaln

        chances = []
        for size in self.discordant:
            drawn = np.arange(size + 1)
            logs = gammaln(size + 1) - gammaln(drawn + 1) - gammaln(size - drawn + 1) - size * math.log(2)
            chances.append(np.exp(logs))
        hits, misses = (x.ravel() for x in np.indices((self.discordant[0] + 1, self.discordant[1] + 1)))
        reached = self.reaches(hits, misses, observed).reshape(self.discordant[0] + 1, self.discordant[1] + 1)
        return min(1.0, float(chances[0] @ reached @ chances[1]))

    def drawn(self, observed: float, resampling: Resampling) -> float:
        """(b + 1) / (B + 1) of random swaps."""
        rng, count = np.random.Generator(np.random.SFC64([resampling.seed()])), resampling.n_resamples
        hits, misses = (rng.binomial(size, 0.5, count) for size in self.discordant)
        spans = (slice(span.start, span.stop) for span in resampling.batches(16))  # numbers that a swap takes
        return (sum(int(self.reaches(hits[x], misses[x], observed).sum()) for x in spans) + 1) / (count + 1)


def _measure(counts: Counts, measure: str, beta: float) -> Tensor:
    found: Tensor = counts.f_beta(beta) if measure == "f_beta" else getattr(counts, measure)
    return found


def _hits_and_misses(chosen: Tensor, target: Tensor) -> tuple[int, int]:
    return int((chosen & (target == 1)).sum()), int((chosen & (target != 1)).sum())


def _check_decisions(name: str, preds: Any, target: Any) -> None:
    if not isinstance(preds, Tensor):
        refuse(name, "must be a tensor (see `torch.as_tensor`)", Plain(type(preds).__name__), TypeError)
    if preds.dtype != torch.bool:
        refuse(name, "must be bool decisions (of scores, `scores >= threshold`)", preds.dtype)
    if isinstance(target, Tensor) and preds.shape != target.shape:
        raise ValueError(
            f"`{name}` and `target` must have the same shape, got {tuple(preds.shape)} and {tuple(target.shape)}"
        )
