"""Is system A better than system B: two rankings of the same items, compared with what they share."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.curve.average_precision import average_precision
from torch_ap.curve.convention import PLAIN, Convention
from torch_ap.inference import bootstrap, item_bootstrap
from torch_ap.inference.difference import Comparison, described, of_few
from torch_ap.inference.methods import DESIGNS, refuse_comparison
from torch_ap.inference.paired_items import PairedItems, p_of_logits
from torch_ap.inference.rank_swap import swapped_differences
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.result import number
from torch_ap.inference.rounding import SAME_VALUE
from torch_ap.inputs.classification import ClassificationInputs
from torch_ap.ranking import builders, order
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks, tensors
from torch_ap.rules import values as value_rules
from torch_ap.rules.options import Design, allowed

Method: TypeAlias = Literal["logit", "influence", "influence-z", "jackknife", "jackknife-z", "bootstrap", "permutation"]
METHODS = allowed(Method)


def compare_rankings(
    preds_a: Tensor,
    preds_b: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method = "logit",
    design: Design = "iid",
    weights: Tensor | None = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> Comparison:
    r"""The difference of two systems' average precision on the same items, with interval and p-value.

    .. math::
        SE^2(\Delta) = \frac{var(\phi_+^A - \phi_+^B)}{m} + \frac{var(\phi_-^A - \phi_-^B)}{q}

    by influence functions, or the same of the delete-one values; what the systems share cancels item by item. Design
    "iid" adds what the random number of hits does. The estimand is the difference of the limits that the two APs tend
    to as items are added, their values in the population; not that of E(AP) for so many items.

    Of equally good systems the methods reject at nominal 5%, design "iid", least to greatest over 100 and 1,000 items,
    d' of 0 to 3, scores uncorrelated or correlated by .8 (``benchmarks.coverage``, with design "stratified", too):

    ===========  ===========================  ============  ============  ============  ============  ============
    method       what it is                   3 hits        10            30            100, 300      90 of 100
    ===========  ===========================  ============  ============  ============  ============  ============
    logit        logits of k/(k+1) AP, t      .001 to .031  .012 to .059  .018 to .071  .024 to .061  .000 to .033
    influence    influence functions, t       .000 to .028  .000 to .043  .001 to .062  .013 to .058  .000 to .019
    influence-z  influence functions, z       .000 to .123  .001 to .082  .001 to .071  .016 to .060  .000 to .042
    jackknife    delete-one differences, t    .000 to .024  .000 to .028  .002 to .052  .015 to .051  .000 to .015
    jackknife-z  delete-one differences, z    .004 to .077  .002 to .054  .004 to .061  .017 to .056  .000 to .036
    bootstrap    the same resample for both   .000 to .112  .010 to .040  .030 to .070
    permutation  an item's two ranks swapped  .000 to .022  .020 to .060  .030 to .060
    ===========  ===========================  ============  ============  ============  ============  ============

    t has k - 1 degrees of freedom, where k is the number of hits, or of misses where there are fewer. "logit" compares
    as though one more hit in k had not been found, so that an AP of 1 has a logit, and widens the standard error by
    sqrt(1 + 1 / k):

    .. math::
        t = \frac{logit(A') - logit(B')}{SE(logit(A') - logit(B'))} \sqrt{\frac{k}{k + 1}}, \qquad
        A' = \frac{k}{k + 1} AP(A)

    Where A is better they find it, with 10 / 30 hits, in .446 / .574 of samples ("logit"), .267 / .460 ("influence"),
    .199 / .442 ("jackknife") and .315 / .487 ("jackknife-z"). The interval is of the difference
    of APs; "logit" and "permutation" have that of "influence", which with few hits may hold 0 where their p is small.

    "permutation" asks another question, whether the systems are alike: p is (b + 1) / (B + 1), of ranks, with tied
    scores in an order that the generator draws.

    Args:
        preds_a: (N,) scores of system A, no NaN; the scales of A and B need not be alike.
        preds_b: (N,) scores of system B.
        target: (N,) of 0 and 1.
        confidence_level: nominal coverage of the interval, in (0, 1).
        method: as above.
        design: "iid" (items were drawn, and the number of hits with them) or "stratified" (so many hits and so many
            misses were).
        weights: refused: the formulas count items.
        n_resamples: resamples of the bootstrap, or permutations; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`Comparison`. Where no item tells the systems apart, or there are no misses, p = 1. Else, with
        fewer than two hits or two misses, no standard error exists, and where it is 0 no interval: NaN, and ``reason``
        says why. The p of "bootstrap" is no less than 2^(1 - N), that of the two-sided sign test.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals no other package's. Source: as for
    :func:`torch_ap.inference.intervals.average_precision_interval`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_rankings
        >>> a = torch.tensor([0.95, 0.85, 0.73, 0.62, 0.48, 0.39, 0.12, 0.04])
        >>> b = torch.tensor([0.55, 0.59, 0.88, 0.97, 0.20, 0.09, 0.43, 0.32])
        >>> found = compare_rankings(a, b, torch.tensor([1, 1, 0, 0, 1, 1, 0, 0]), method="influence")
        >>> round(float(found.difference), 4), round(float(found.standard_error), 4)
        (0.3762, 0.1035)
    """
    tensors.no_weights(weights, "a comparison")
    how = Resampling(n_resamples, generator, batch, progress)
    tensors.paired(preds_a=preds_a, preds_b=preds_b)
    scores = []
    for name, preds in (("preds_a", preds_a), ("preds_b", preds_b)):
        value_rules.scores_of(name, preds, target)
        scores.append(ClassificationInputs().validate_now(preds, target).scores)
    relevant = target == 1
    return compare_checked(
        [builders.from_scores(preds, relevant) for preds in scores],
        (scores[0], scores[1]),
        relevant,
        PLAIN,
        confidence_level=confidence_level,
        method=method,
        design=design,
        resampling=how,
    ).to(preds_a.device)


def compare_checked(
    curves: Sequence[HitCurve],
    scores: tuple[Tensor, Tensor],
    relevant: Tensor,
    convention: Convention,
    *,
    confidence_level: float,
    method: str,
    design: str,
    resampling: Resampling,
) -> Comparison:
    """:func:`compare_rankings` of validated items and their curves; of plain AP only."""
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    checks.one_of("design", design, DESIGNS)
    for curve in curves:
        refuse_comparison(convention, method, curve)
    values = [float(average_precision(curve)) for curve in curves]
    hits, misses = int(curves[0].m), int(curves[0].n - curves[0].m)
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": design}
    if hits and (not misses or (min(hits, misses) < 2 and _alike(*scores))):
        return described(values[0], values[1], 0.0, reason="", **settings)
    if method == "bootstrap":
        low, high, error, p = _bootstrapped(curves, scores, relevant, confidence_level, design, resampling)
        found = described(values[0], values[1], error, reason=_reason(hits, error), **settings)
        if found.p_value == 1:
            return found
        return of_few(replace(found, low=number(low), high=number(high), p_value=number(p)), len(relevant), "items")
    items = PairedItems(
        curves, scores, relevant, "jackknife" if method.startswith("jackknife") else "influence", design
    )
    least = min(hits, misses)
    df = math.inf if method.endswith("-z") else least - 1
    error = items.error()
    found = described(values[0], values[1], error, df=df, reason=_reason(hits, error), **settings)
    if (math.isnan(found.p_value) and method != "permutation") or found.p_value == 1 or not hits:
        return found
    if method == "logit":
        return replace(found, p_value=number(p_of_logits(values, items, least)))
    if method != "permutation":
        return found
    drawn = swapped_differences(*scores, relevant, resampling).abs()
    p = (int((drawn[1:] >= drawn[0] - SAME_VALUE).sum()) + 1) / len(drawn)
    return replace(found, p_value=number(p), reason=found.reason.replace("neither interval nor p-value", "no interval"))


def _alike(a: Tensor, b: Tensor) -> bool:
    """Whether two systems rank the items alike, ties included."""
    return torch.equal(*(order.dense_ranks(scores)[1] for scores in (a, b)))


def _bootstrapped(
    curves: Sequence[HitCurve],
    scores: tuple[Tensor, Tensor],
    relevant: Tensor,
    confidence_level: float,
    design: str,
    resampling: Resampling,
) -> tuple[float, float, float, float]:
    """Low, high, standard error and p of resamples that both systems share."""
    m, n = int(curves[0].m), len(relevant)
    if min(m, n - m) < 2:
        return (math.nan,) * 4
    convention = PLAIN
    placed = [item_bootstrap.groups_of(curve, s, relevant) for curve, s in zip(curves, scores, strict=True)]
    every = torch.arange(n, device=relevant.device)
    strata = [every] if design == "iid" else [every[relevant], every[~relevant]]

    def gap(weights: Tensor) -> Tensor:
        of = [
            convention(item_bootstrap.curve_of(group, len(curve.hits), weights))
            for group, curve in zip(placed, curves, strict=True)
        ]
        return of[0] - of[1]

    values = item_bootstrap.replicates(gap, strata, n, resampling)
    values = values[~torch.isnan(values)]
    low, high = bootstrap.percentile(values, confidence_level)
    return float(low), float(high), float(values.std()), bootstrap.two_sided(values)


def _reason(hits: int, error: float) -> str:
    if not hits:
        return "no hits, so AP and its difference are NaN"
    return (
        f"fewer than two {'hits' if hits < 2 else 'misses'}, so no standard error exists" if math.isnan(error) else ""
    )
