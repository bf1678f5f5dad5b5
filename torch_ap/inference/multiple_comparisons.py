"""Several systems over the same queries: every pair, with p-values that allow for the number of pairs."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference.difference import holm
from torch_ap.inference.queries import Pairs, p_value, pairs_of
from torch_ap.inference.resampling import Resampling, generators, rows
from torch_ap.inference.result import Result
from torch_ap.inference.rounding import rounding
from torch_ap.rules import checks
from torch_ap.rules import values as value_rules
from torch_ap.rules.messages import refuse
from torch_ap.rules.options import allowed

Correction: TypeAlias = Literal["tukey", "holm"]
PairedTest: TypeAlias = Literal["t", "randomization"]


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseComparison(Result):
    """All pairs of S systems.

    Attributes:
        means: (S,) mean of each system, or its AP where rankings of items are compared.
        difference: (S, S) that of the row - that of the column.
        p_value: (S, S) two-sided, as if the pair were the only one; 1 on the diagonal.
        adjusted_p_value: (S, S) allowing for all pairs.
        method: "holm" or "tukey".
        reason: why numbers are NaN; "" otherwise.
    """

    means: Tensor
    difference: Tensor
    p_value: Tensor
    adjusted_p_value: Tensor
    method: str
    reason: str = ""


def compare_systems(
    values: Tensor,
    *,
    method: Correction = "tukey",
    test: PairedTest = "t",
    n_resamples: int = 10_000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> PairwiseComparison:
    """Every pair of several systems by their per-query values, the family-wise error held.

    The estimands are the mean differences over the population of queries that these were drawn from.

    - "tukey": the randomized Tukey HSD. Each query's values are permuted among the systems; a pair's p is the share of
      permutations in which the best and the worst system differ at least as much, (b + 1) / (B + 1). Paired, unlike
      the test of that name for independent samples.
    - "holm": the pairwise p-values, each times the number of those not smaller, made monotone (Holm 1979).

    Of five equally good systems, at nominal 5%, any pair is told apart with 25 / 50 queries: "tukey" 6.0 / 4.3%, "holm"
    3.7 / 4.7%, each ± 1, without either 30 / 29% (``benchmarks.coverage``).

    Args:
        values: (S, Q) finite per-query values of at least two systems and one query.
        method: as above.
        test: of the single pairs: "t" or "randomization", as in
            :func:`torch_ap.inference.queries.compare_queries`.
        n_resamples: random permutations, or flips; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`PairwiseComparison`. The t test has no p for one query, nor for a pair whose
        differences are all equal but not zero: NaN, as is what "holm" makes of it, with a reason. A pair whose
        differences are all zero has p = 1.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``scipy.stats.ttest_rel`` with ``statsmodels``' ``multipletests(method="holm")`` for "holm" with "t".
    Source: Carterette (2012), Multiple Testing in Statistical Analysis of Systems-Based Information Retrieval
    Experiments, section 4.

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_systems
        >>> values = torch.tensor([[0.5, 0.6, 0.9, 0.4], [0.4, 0.4, 0.6, 0.3], [0.5, 0.5, 0.8, 0.5]])
        >>> found = compare_systems(values, method="holm")
        >>> [round(p, 3) for p in found.adjusted_p_value[0].tolist()]
        [1.0, 0.071, 0.638]
    """
    value_rules.of_each_query("values", values, ndim=2)
    if len(values) < 2:
        refuse("values", "must hold two systems at least", len(values))
    checks.one_of("method", method, allowed(Correction))
    checks.one_of("test", test, allowed(PairedTest))
    how = Resampling(n_resamples, generator, batch, progress)
    x = values.detach().to("cpu", torch.float64)
    means = x.mean(1)
    difference = means[:, None] - means
    first, second = torch.triu_indices(len(x), len(x), 1)
    pairs = [pairs_of(values[i], values[j]) for i, j in zip(first, second, strict=True)]
    p_values = torch.tensor([p_value(test, pair, how) for pair in pairs], dtype=torch.float64)
    least = difference.abs()[first, second] - rounding(values)
    adjusted = holm(p_values) if method == "holm" else _tukey(x, least, how)
    return PairwiseComparison(
        means=means,
        difference=difference,
        p_value=square(p_values, len(x), first, second),
        adjusted_p_value=square(adjusted, len(x), first, second),
        method=method,
        reason=_reason(pairs, p_values),
    ).to(values.device)


def _reason(pairs: list[Pairs], p_values: Tensor) -> str:
    if not p_values.isnan().any():
        return ""
    if len(pairs[0].gap) == 1:
        return "one query, whose difference has no spread: no p by t"
    return "a pair's differences are all equal, which says nothing of their spread: no p by t"


def _tukey(values: Tensor, least: Tensor, resampling: Resampling) -> Tensor:
    """How often the best and the worst system of a permutation differ by so much at least."""
    table = values.t().numpy()

    def spread(rng: np.random.Generator) -> float:
        means = rng.permuted(table, axis=1).mean(0)
        return float(means.max() - means.min())

    seed = resampling.seed()
    batches = resampling.batches(4 * table.size)
    found = [x for span in batches for x in rows(spread, generators(seed, span), table.size)]
    drawn = torch.tensor(found, dtype=torch.float64).sort().values
    reached = len(drawn) - torch.searchsorted(drawn, least)
    return (reached + 1) / torch.tensor(len(drawn) + 1.0, dtype=torch.float64)


def square(pairs: Tensor, systems: int, first: Tensor, second: Tensor) -> Tensor:
    """(P,) values of pairs of systems as a symmetric (S, S) table, 1 on the diagonal."""
    out = torch.ones(systems, systems, dtype=torch.float64)
    out[first, second] = pairs
    out[second, first] = pairs
    return out
