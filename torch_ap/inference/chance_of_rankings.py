"""The chance level of rankings under a convention: E(AP) or E(AP@k) where the same labels stand in random order.

Where ties are grouped, the groups stay and the labels change places. With g items in a group, t0 above it and L of its
places among the first k (all g without a cut), and with one item relevant with probability p1 and two with p2,

    E(AP) = (p1 sum of L^2 / (g (t0 + L)) + p2 sum of L (t0 + L (g - 1) / g) / (t0 + L)) / norm

over all groups: the expectation of r L / g (h0 + r L / g) / (t0 + L), with r hits in a group and h0 above it. Groups of
one item have closed sums, H(k) and k - H(k) with harmonic numbers H, so where only the ties are known, what these add
replaces what their places would.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve import first_hit
from torch_ap.curve.average_precision import places_within
from torch_ap.curve.convention import Convention
from torch_ap.curve.discounted_gain import NormalizedDCG, total_discount
from torch_ap.curve.harmonic import harmonic_difference
from torch_ap.curve.measures import FirstHit
from torch_ap.curve.roc import AUROC
from torch_ap.curve.top_k import at_entries, rank_of
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference.random_ranking import expected_average_precision
from torch_ap.inputs import classification
from torch_ap.inputs.classification import Batch, counted
from torch_ap.ranking import builders, order, segments, tied
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.tied import Ties
from torch_ap.rules.messages import refuse
from torch_ap.runtime import arrays


def chance_of_curve(
    curve: HitCurve,
    convention: Convention,
    *,
    seen: Tensor | None = None,
    groups: Iterable[HitCurve | Ties] | None = None,
) -> Tensor:
    """E(AP) of each ranking: (S,) float64, NaN where nothing is relevant.

    Args:
        curve: S unweighted rankings of n items.
        convention: what AP means.
        seen: (S,) int64 relevant items among the n, where more exist that were never retrieved; None for m.
        groups: ties, or curves in which every tie group is an entry, of the same rankings in turn (the last ones may be
            left out if they have no items); used where ties are grouped. Without them, and by the other rules for ties,
            the random rankings have no ties.

    Raises:
        ValueError: for interpolated AP or ``denominator="found"``, which have no closed form.
    """
    if convention.interpolation is not None:
        refuse("interpolation", "has no closed form of its chance level", convention.interpolation)
    k, denominator = rank_of(convention.top_k, curve), convention.denominator
    if k is not None and denominator == "found":
        raise ValueError("`denominator='found'` has no closed form of its chance level; use 'min' or 'relevant'")
    hits = curve.m if seen is None else seen
    if groups is not None and convention.ties == "grouped":
        total = _total_of_groups(groups, segments.as_float64(curve.n), segments.as_float64(hits), k)
    elif seen is None:
        return expected_average_precision(curve.n, curve.m, k, denominator=denominator)
    else:
        total = expected_average_precision(curve.n.clamp(min=1), seen, k, denominator="relevant") * seen
    norm = curve.m if k is None or denominator == "relevant" else curve.m.clamp(max=k)
    return torch.where(curve.m > 0, torch.where(hits > 0, total, 0) / norm, torch.nan)


def chance_of_gain(curve: HitCurve, measure: NormalizedDCG, groups: HitCurve | None = None) -> Tensor:
    """E(nDCG) of each ranking: (S,) float64, NaN where nothing has a gain.

    Each of the n places holds the mean gain of the ranked items.

    Args:
        curve: S rankings with grades.
        measure: what nDCG means.
        groups: the same rankings (the last may be left out if they have no items) with all items as hits, so that every
            tie group is an entry, and stays one; used where ties are grouped.
    """
    n, grades = segments.as_float64(curve.n), curve.grades
    assert grades is not None
    gain = segments.total(measure.gains_of(grades), segments.from_zero(curve.hits)[curve.offsets])
    if groups is None:
        k = rank_of(measure.top_k, curve)
        worth = total_discount(curve.n if k is None else segments.as_int64(segments.as_float64(curve.n).clamp(max=k)))
    else:
        ones = torch.ones(int(groups.hits.sum()), dtype=n.dtype, device=n.device)
        each = arrays.tensor(measure.dcg(groups, arrays.native(ones)))
        worth = torch.cat([each, n.new_zeros(len(n) - len(each))])
    found: Tensor = gain / n.clamp(min=1) * worth / arrays.tensor(measure.ideal(curve))
    return found


def chance_of_ratio(curve: HitCurve, measure: Any, groups: HitCurve | None = None) -> Tensor:
    """The mean of a measure of :mod:`torch_ap.curve.measures`: float64, in its shape, NaN where it is undefined.

    A random ranking is one tie group whose ties count as expected. Groups that stay change only when the first hit
    comes: with none of r hits in the top t of n items with probability C(n - t, r) / C(n, r), it lies in a group from
    t0 to t with the difference of two of these.

    Args:
        curve: S rankings of n items.
        measure: precision, recall, F_beta or fall-out at k, precision or recall at every rank, R-precision, or the
            first hit; see :func:`chance_of_auroc`, too.
        groups: as of :func:`chance_of_gain`.
    """
    if groups is not None and isinstance(measure, FirstHit):
        return _first_hit_in_groups(curve, measure, groups)
    mean: Callable[[HitCurve], Tensor] = replace(measure, ties="expected")
    return mean(_one_group(curve, curve.hits_seen))


def chance_of_auroc(curve: HitCurve, measure: AUROC, undefined: float | None) -> Tensor:
    """The mean of AUROC: (S,) float64, NaN where it is undefined in any order.

    In the top k it is undefined in those orders, too, in which all items there are relevant.

    Args:
        curve: as of :func:`chance_of_ratio`.
        measure: AUROC, by ties that are not grouped, or of all items.
        undefined: what it counts there; None for what has no mean.

    Raises:
        ValueError: where it is grouped in the top k, or up to a fall-out: the share that a group has there is no count
            of hits; and where there are such orders, but no value for them.
    """
    if not measure.has_chance_level:
        refuse("ties", "has no closed form of the chance level of AUROC with `top_k` or `max_fpr`", measure.ties)
    values, rare = chance_of_ratio(curve, measure), measure.is_sometimes_undefined(curve)
    if undefined is None and rare:
        raise ValueError(
            "`empty_target_action` must be 'neg' or 'pos' for the chance level of AUROC in the top k where all of them "
            "can be relevant: it is undefined in some orders, and the mean over the queries that have one has no "
            "closed form"
        )
    if undefined is None or not rare:
        return values
    misses = curve.n - curve.hits_seen
    defined = first_hit.hit_rate(_one_group(curve, misses), ties="expected", top_k=measure.top_k)
    defined = torch.where(misses > 0, defined, 1)
    return values * defined + undefined * (1 - defined)


def _one_group(curve: HitCurve, hits: Tensor) -> HitCurve:
    """The same rankings with all items of each in one tie group, of so many hits: (S,)."""
    kept = hits > 0
    items = curve.n[kept]
    none, offsets = torch.zeros_like(items), segments.from_counts(segments.as_int64(kept))
    return HitCurve(hits[kept], items, none, none, None, offsets, curve.n, curve.m)


def _first_hit_in_groups(curve: HitCurve, measure: FirstHit, groups: HitCurve) -> Tensor:
    offsets = segments.from_counts(groups.n)
    owner = segments.ids(offsets)
    left = segments.as_float64(offsets[1:][owner] - torch.arange(len(owner), device=owner.device))
    share = (segments.as_float64(curve.hits_seen[: len(groups.n)])[owner] / left).clamp(max=1)
    missed = torch.cat([left.new_ones(1), segments.cumulative(torch.log1p(-share), offsets).exp()])
    end = offsets[groups.segment] + groups.cumulative_items
    first = torch.where(groups.items_above > 0, missed[end - groups.items], 1) - missed[end]
    k = arrays.tensor(rank_of(measure.top_k, curve)) if isinstance(measure.top_k, str) else measure.top_k
    rank = segments.as_float64(groups.cumulative_items)
    if k is not None:
        first = torch.where(rank <= at_entries(k, groups.offsets), first, 0)
    found = segments.total(first if measure.what == "hit_rate" else first / rank, groups.offsets)
    found = torch.cat([found, found.new_zeros(len(curve.m) - len(found))])
    return torch.where(curve.m > 0, found, torch.nan)


def tie_groups(settings: APSettings, validated: Batch) -> Iterator[HitCurve | Ties]:
    """The tie groups of the rankings of an evaluation, some columns at a time."""
    scores, kept = validated.scores, counted(validated.target)
    if settings.inputs.ignoring and not bool(kept.all()):
        scores, kept = (scores[kept], kept[kept]) if kept.ndim == 1 else (scores, kept)
        if settings.average == "micro" and kept.ndim == 2:
            scores, kept = scores[kept], kept[kept]
    if scores.ndim == 1 or settings.average == "micro":
        yield tied.ties_of(scores.flatten())
        return
    width = max(1, builders.ITEMS_A_BLOCK // max(len(scores), 1))
    for span in order.blocks(slice(0, scores.shape[1]), width):
        if kept.ndim == 1 or bool(kept[:, span].all()):
            yield tied.ties_of(scores[:, span])
        else:  # all items are hits, so that every group is an entry
            mark = torch.where(kept[:, span], 1, torch.iinfo(torch.uint8).max).to(torch.uint8)
            yield classification.curve_of(Batch(scores[:, span], mark), ignoring=True)


def _total_of_groups(groups: Iterable[HitCurve | Ties], n: Tensor, hits: Tensor, k: Any) -> Tensor:
    """E of the sum of precisions at the hits: (S,)."""
    if not len(n):
        return segments.as_float64(n)
    parts, first = [], 0
    for part in groups:
        count = len(part.offsets) - 1
        rank = k if k is None or isinstance(k, int) else k[first : first + count]
        parts.append(_sums_with_ties(part, rank) if isinstance(part, Ties) else _sums_over_groups(part, rank))
        first += count
    alone, pairs = (torch.cat([*sums, n.new_zeros(len(n) - sum(map(len, sums)))]) for sums in zip(*parts, strict=True))
    one = hits / n.clamp(min=1)
    return one * alone + one * (hits - 1) / (n - 1).clamp(min=1) * pairs


def _sums_with_ties(ties: Ties, k: Any) -> tuple[Tensor, Tensor]:
    """:func:`_sums_over_groups` where only the ties are known."""
    n = segments.as_float64(ties.n)
    every = n if k is None else n.clamp(max=k)
    harmonic = harmonic_difference(torch.zeros_like(n), every)
    above = segments.as_float64(ties.items_above)
    places = segments.as_float64(ties.items)
    if k is not None:
        places = places_within(ties.items, above, at_entries(k, ties.offsets))
    steps = harmonic_difference(above, places)
    alone, pairs = _sums_over_groups(ties, k)
    return (
        harmonic + (alone - segments.total(steps, ties.offsets)),
        every - harmonic + (pairs - segments.total(places - steps, ties.offsets)),
    )


def _sums_over_groups(curve: HitCurve | Ties, k: Any) -> tuple[Tensor, Tensor]:
    """The two sums of each ranking over the groups given: what p1 weighs, and what p2 does."""
    g, above = segments.as_float64(curve.items), segments.as_float64(curve.items_above)
    places = g if k is None else places_within(g, above, at_entries(k, curve.offsets))
    share, end = places / g, (above + places).clamp(min=1)
    alone = segments.total(share * places / end, curve.offsets)
    return alone, segments.total(places * (above + share * (g - 1)) / end, curve.offsets)
