r"""Precision at recall levels of items in groups, by random weights of the groups.

In a draw every group has a random weight with the exponential distribution, and its items have the weight of their
group: the Bayesian bootstrap (Rubin 1981) of whole groups. The precision where recall reaches a level depends on a
quantile of the scores of hits. The delete-one-group jackknife of :mod:`torch_ap.inference.groups` overestimates its
error. For a mean over K equal groups, the variance of the draws is (K - 1) / (K + 1) times the unbiased one. So the
standard error is

.. math::
    SE^2 = \frac{K + 1}{K - 1} Var(draws)

with the effective number of groups K = min(G, G_+, G_-). The interval is on the logit scale, with Student's t and
K - 1 degrees of freedom. For all levels at once, the level of a single interval comes from the correlations of the
draws, as for "max-t" in :mod:`torch_ap.inference.simultaneous`.

The draws do not contain what the sample does not show:

- Where the precision is 1, the logit scale has no interval. There it is [alpha^(1 / K_r), 1], a heuristic: K_r is the
  effective number of groups of the hits down to this level.
- Down to the first hit the upper end is 1, because a larger sample may have hits above all its misses.
- Below the last hit but one, the lower end is at most that of the share of hits, because a larger sample may have hits
  below all misses.
- At levels that the ranking does not reach, the precision is 0, and the upper end is the 1 - alpha / 2 quantile of the
  draws.

Source: Rubin (1981), The Bayesian Bootstrap. The factor of the variance and the ends above are our own.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.measures.top_share import entries_at_recall, precision_at_recall
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import record
from torch_ap.inference.edge_cases import FEW_GROUPS
from torch_ap.inference.groups import effective_number, few_groups_reason
from torch_ap.inference.groups_at_threshold import NO_GROUP, ItemGroups
from torch_ap.inference.record import Ends, Interval
from torch_ap.inference.resampling import Resampling, curve_from_counts, group_items
from torch_ap.inference.simultaneous import max_t_level

METHOD = "dirichlet"
NO_RETRIEVED = "no hit is retrieved: the ends are NaN"
_HIGH = 0.8  # mean precision; above, bands of all levels at once cover too little (benchmarks.coverage)
_NARROW = "high precision: likely too narrow, 95% of the bands covered all levels in .889 to .965"


def grouped_band(
    curve: HitCurve,
    items: ItemGroups,
    levels: Tensor,
    confidence_level: float,
    resampling: Resampling,
    *,
    simultaneous: bool = False,
) -> Interval:
    """Return the precision at (L,) recall levels, with its intervals: (L,) ends.

    Args:
        curve: one unweighted ranking, with a threshold per tie group.
        items: its items with their groups.
        levels: (L,) recall levels in [0, 1].
        confidence_level: nominal coverage, of each level or of all levels at once.
        resampling: number of draws, generator and memory limit.
        simultaneous: whether the confidence level is that of all levels at once.
    """
    hits, misses = items.group_positives, segments.count(items.ids[~items.relevant], items.count)
    m, n = int(hits.sum()), int((hits + misses).sum())
    nan = torch.full_like(segments.as_float64(levels), torch.nan)
    estimate = nan if not m else precision_at_recall(curve, levels)[0] if len(curve.hits) else torch.zeros_like(nan)
    effective = min(effective_number(segments.as_float64(x)) for x in (hits, misses, hits + misses > 0))
    if m in (0, n):
        reason = f"no {'misses' if m else 'hits'}: the ends are NaN"
    elif not len(curve.hits):
        reason = NO_RETRIEVED
    else:
        reason = NO_GROUP if m != int(curve.m) else FEW_GROUPS if effective < 2 else ""
    if reason:
        return Interval(estimate, nan, nan, nan, confidence_level, METHOD, "iid", reason)
    draws = _draws(curve, items, levels, resampling)
    error = draws.std(0) * ((effective + 1) / (effective - 1)) ** 0.5
    error = torch.where(error > record.SAME_VALUE, error, 0)  # of equal draws, but for rounding
    level = _single_level(draws[:, :-1], error[:-1], confidence_level, resampling) if simultaneous else confidence_level
    center = torch.cat([estimate.cpu(), error.new_tensor([m / n])])
    low, high = record.logit(center, error, record.student_quantile(level, error.new_tensor(effective - 1)))
    low, high = torch.minimum(low, center), torch.maximum(high, center)  # with a spread of 0 they round
    low, high = _ends_of_levels(curve, items, levels, center[:-1], level, (low, high), draws)
    few = few_groups_reason((hits > 0).sum(), "hits" if items.positives is None else "ground truths")
    flat = (
        "the standard error is 0 at some levels: the interval has no width there" if bool((low == high).any()) else ""
    )
    low, high, error = (x.to(nan) for x in (low, high, error[:-1]))
    narrow = _NARROW if simultaneous and bool(estimate.mean() > _HIGH) else ""
    reason = "; ".join(filter(None, [few, flat, narrow]))
    return Interval(estimate, low, high, error, confidence_level, METHOD, "iid", reason)


def _single_level(draws: Tensor, error: Tensor, confidence_level: float, resampling: Resampling) -> float:
    """Return the confidence level of single levels for all at once; levels without a spread count as one."""
    varies = error > 0
    constant = torch.zeros_like(draws[:, : 1 - int(varies.all())])
    return max_t_level(torch.cat([draws[:, varies], constant], 1).T, confidence_level, resampling)


def _draws(curve: HitCurve, items: ItemGroups, levels: Tensor, resampling: Resampling) -> Tensor:
    """Return the precision at each level in each draw, then the share of hits: (B, L + 1) CPU float64."""
    places = group_items(curve, items.scores, items.relevant, split_ties=True)
    width, size = sum(places.sizes), places.sizes[0]  # the last of the hits are the hits never retrieved
    place, ids = places.group.cpu().numpy(), items.ids.cpu().numpy()
    retrieved = segments.count(items.ids[items.relevant], items.count)
    unseen, levels = segments.as_float64(items.group_positives - retrieved).cpu().numpy(), levels.cpu()

    def measures(rngs: "list[np.random.Generator]") -> Tensor:
        weights = np.stack([rng.standard_exponential(items.count) for rng in rngs])
        drawn = np.stack([np.bincount(place, own[ids], minlength=width) for own in weights])
        drawn[:, size - 1] += weights @ unseen
        hits, misses = torch.from_numpy(drawn).tensor_split([size], 1)
        ranking = curve_from_counts(hits, misses)
        return torch.cat([precision_at_recall(ranking, levels), (ranking.m / ranking.n)[:, None]], 1)

    return torch.cat(resampling.map_tasks(measures, len(place) + 8 * width))


def _ends_of_levels(
    curve: HitCurve, items: ItemGroups, levels: Tensor, precision: Tensor, level: float, ends: Ends, draws: Tensor
) -> Ends:
    """Return the (L,) ends with those that the draws do not give, from (L + 1,) ends, the last of the share of hits."""
    wanted = segments.as_float64(levels).cpu() * float(curve.m)
    entry = entries_at_recall(curve, levels)[0][0].cpu()
    (low, share_low), (high, _) = (x.tensor_split([-1]) for x in ends)
    assert curve.score is not None
    scores, thresholds = segments.comparable(items.scores), segments.comparable(curve.score)
    perfect = precision == 1
    for last in torch.unique(entry[perfect]):
        hits = segments.count(items.ids[items.relevant & (scores >= thresholds[last])], items.count)
        bound = (1 - level) ** (1 / effective_number(segments.as_float64(hits)))
        low[perfect & (entry == last)] = bound
    high = torch.where(perfect | (wanted <= 1), 1, high)
    low = torch.where(wanted > float(curve.m) - 1, torch.minimum(low, share_low), low)
    unseen = precision == 0
    return torch.where(unseen, 0, low), torch.where(unseen, torch.quantile(draws[:, :-1], (1 + level) / 2, dim=0), high)
