"""Several systems that rank the same items: every pair's AP, with p-values that allow for the number of pairs."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference.comparison import Method, compare_rankings
from torch_ap.inference.difference import holm
from torch_ap.inference.multiple_comparisons import Correction, PairwiseComparison, square
from torch_ap.inference.rank_swap import average_precision_untied, random_ranks
from torch_ap.inference.resampling import Resampling, generators, rows
from torch_ap.inference.rounding import SAME_VALUE
from torch_ap.rules import checks, tensors
from torch_ap.rules.messages import refuse
from torch_ap.rules.options import Design, allowed


def compare_several_rankings(
    preds: Tensor,
    target: Tensor,
    *,
    method: Correction = "holm",
    test: Method | None = None,
    design: Design = "iid",
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> PairwiseComparison:
    """Every pair of several systems by their average precision on the same items, the family-wise error held.

    - "holm": the p-values of :func:`torch_ap.inference.compare_rankings`, each times the number of those not smaller,
      made monotone (Holm 1979).
    - "tukey": each item's ranks are permuted among the systems; a pair's p is the share of permutations in which the
      best and the worst system differ at least as much, (b + 1) / (B + 1). Ties, also those that a permutation makes,
      are broken at random. The p-values of single pairs are those of "holm".

    The estimands are the differences of the limits that the APs tend to as items are added.

    Of four equally good systems, at nominal 5%, any pair is told apart with (n, m) = (300, 30) / (1000, 100): "holm"
    3.5 / 3.7%, "tukey" 5.0 / 4.2%, each ± 1, without either 19 / 20% (``benchmarks.coverage``).

    Args:
        preds: (S, N) scores, one system per row, at least two; no NaN. The scales of the systems need not be alike.
        target: (N,) of 0 and 1.
        method: as above.
        test: of the single pairs, the ``method`` of ``compare_rankings``; None for its default.
        design: as there.
        n_resamples: random permutations, and resamples of the tests that resample; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`PairwiseComparison`, ``means`` being the APs. Where a pair has no p, "holm" gives NaN
        for it and those above it, with a reason.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals, for two systems and "holm", ``compare_rankings``.

    Source: Holm (1979); Carterette (2012), section 4, for "tukey" of queries, here of items.

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_several_rankings
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 1, 0, 0, 0] * 6)
        >>> noise = 3 * torch.linspace(-1, 1, 60).mul(7).sin()
        >>> preds = torch.stack([target + noise, target * 0.9 + noise, noise])
        >>> found = compare_several_rankings(preds, target)
        >>> [round(x, 3) for x in found.means.tolist()]
        [0.59, 0.576, 0.441]
        >>> bool((found.adjusted_p_value[2, :2] < 0.05).all()), bool(found.adjusted_p_value[0, 1] < 0.05)
        (True, False)
    """
    checks.one_of("method", method, allowed(Correction))
    checks.one_of("test", test, (None, *allowed(Method)))
    how = Resampling(n_resamples, generator, batch, progress)
    tensors.scores("preds", preds)
    if preds.ndim != 2 or len(preds) < 2:
        refuse("preds", "must have shape (S, N), two systems at least", tuple(preds.shape))
    if isinstance(target, Tensor) and target.shape != preds.shape[1:]:
        refuse("target", f"must have shape {tuple(preds.shape[1:])}, one per item", tuple(target.shape))
    bad = torch.isnan(preds).nonzero()
    if len(bad):
        raise ValueError(f"`preds` must not hold NaN; got nan at index {tuple(bad[0].tolist())}")
    drawn: dict[str, Any] = {"n_resamples": n_resamples, "generator": generator, "batch": batch, "progress": progress}
    settings = drawn | {"design": design} | ({} if test is None else {"method": test})
    first, second = torch.triu_indices(len(preds), len(preds), 1)
    pairs = [compare_rankings(preds[i], preds[j], target, **settings) for i, j in zip(first, second, strict=True)]
    aps = torch.stack([pairs[0].value_a, *(pair.value_b for pair in pairs[: len(preds) - 1])]).cpu()
    difference = aps[:, None] - aps
    p_values = torch.stack([pair.p_value for pair in pairs]).cpu()
    adjusted = holm(p_values) if method == "holm" else _tukey(preds, target, first, second, how)
    return PairwiseComparison(
        means=aps,
        difference=difference,
        p_value=square(p_values, len(preds), first, second),
        adjusted_p_value=square(adjusted, len(preds), first, second),
        method=method,
        reason=next((pair.reason for pair in pairs if pair.p_value.isnan()), ""),
    ).to(preds.device)


def _tukey(preds: Tensor, target: Tensor, first: Tensor, second: Tensor, resampling: Resampling) -> Tensor:
    """How often the best and the worst system of a permutation of each item's ranks differ by so much at least."""
    hit = (target == 1).cpu().numpy().astype(np.int64)
    if not hit.any():
        return torch.full((len(first),), torch.nan, dtype=torch.float64)
    seed = resampling.seed()
    start = np.random.Generator(np.random.SFC64([seed]))
    table = np.stack([random_ranks(row.cpu(), start) for row in preds], 1)
    values = torch.tensor([average_precision_untied(column, hit, start) for column in table.T], dtype=torch.float64)

    def spread(rng: np.random.Generator) -> float:
        permuted = rng.permuted(table, axis=1)
        drawn = [average_precision_untied(np.ascontiguousarray(column), hit, rng) for column in permuted.T]
        return max(drawn) - min(drawn)

    batches = resampling.batches(4 * table.size)
    found = [x for span in batches for x in rows(spread, generators(seed, span), table.size)]
    ordered = torch.tensor(found, dtype=torch.float64).sort().values
    least = (values[first] - values[second]).abs() - SAME_VALUE
    reached = len(ordered) - torch.searchsorted(ordered, least)
    return (reached + 1) / torch.tensor(len(ordered) + 1.0, dtype=torch.float64)
