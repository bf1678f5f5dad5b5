r"""Measures at rank k of items in groups: their values without each group, and the interval from them.

Without group g, the ranking of the n - n_g other items is cut at the share k / n, see
:mod:`torch_ap.core.measures.top_share`. The delete-one-group jackknife of :mod:`torch_ap.inference.groups` gives the
standard error. The interval is on the logit scale, with Student's t. Its degrees of freedom are min(G, G_+, G_-, G_k)
- 1, with G_k the effective number of groups of the items in the top k: a group that fills the top k has no spread. More
than 500 groups are pooled to this number of groups.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking import hit_curve, order
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import record
from torch_ap.inference.edge_cases import resolve_edge_cases
from torch_ap.inference.groups import Groups, effective_number, few_groups_reason, standard_error
from torch_ap.inference.record import Interval, first_interval
from torch_ap.inference.resampling import curve_from_counts, group_items

METHOD = "jackknife"
_NUMBERS_PER_BLOCK = 1 << 22  # counts of the items of some groups, by place


def values_without_groups_at_k(
    curve: HitCurve,
    scores: Tensor,
    relevant: Tensor,
    groups: Groups,
    k: int,
    measure: Callable[[HitCurve, float], Tensor],
) -> Tensor:
    """Return a measure at rank k of one ranking without each group: (G,) float64; NaN without hits outside the group.

    Args:
        curve: the unweighted ranking, with a threshold per tie group.
        scores: (N,) scores of the items of the curve.
        relevant: (N,) bool.
        groups: groups of the N items.
        k: rank of the cut.
        measure: function of a curve of b rankings and of the share k / n that returns (b,) values.
    """
    top = hit_curve.top(curve, k + int(groups.sizes.max()))  # no deletion brings further items into the top
    places = group_items(top, scores, relevant, split_ties=True)
    width, entries = sum(places.sizes), places.sizes[0]
    place, ids = places.group.cpu().numpy(), groups.ids.cpu().numpy()
    by_group = order.argsort(groups.ids).cpu().numpy()
    ends = np.bincount(ids, minlength=groups.count).cumsum()
    total, values = np.bincount(place, minlength=width), []
    for block in order.blocks(slice(0, groups.count), max(1, _NUMBERS_PER_BLOCK // width)):
        rows = by_group[ends[block.start - 1] if block.start else 0 : ends[block.stop - 1]]
        cells = (ids[rows] - block.start) * width + place[rows]
        own = np.bincount(cells, minlength=(block.stop - block.start) * width).reshape(-1, width)
        counts = torch.from_numpy(total - own)
        values.append(measure(curve_from_counts(counts[:, :entries], counts[:, entries:]), k / len(scores)))
    return torch.cat(values).to(curve.m.device)


def grouped_interval_at_k(
    estimate: Tensor,
    curve: HitCurve,
    scores: Tensor,
    relevant: Tensor,
    ids: Tensor,
    k: int,
    measure: Callable[[HitCurve, float], Tensor],
    confidence_level: float,
    name: str = "AP",
) -> Interval:
    """Return the interval of a measure at rank k of one ranking of items in groups.

    Args:
        estimate: value of the measure, 0-d; a share k / n of n items is not always k.
        curve: the unweighted ranking, with a threshold per tie group.
        scores: (N,) scores of the items of the curve.
        relevant: (N,) bool.
        ids: (N,) int64 group of each item.
        k: rank of the cut.
        measure: as for :func:`values_without_groups_at_k`.
        confidence_level: nominal coverage.
        name: name of the measure in reasons.
    """
    groups = Groups.from_ids(ids).pooled()
    values = values_without_groups_at_k(curve, scores, relevant, groups, k, measure)
    hits = groups.hits(relevant)
    df = hits.new_tensor([min(groups.effective_count(hits), effective_count_in_top(groups, scores, k)) - 1])
    estimate = estimate[None]
    error = torch.where(estimate < 1, standard_error(values), 0)
    low, high = record.logit(estimate, error, record.student_quantile(confidence_level, df))
    interval = Interval(estimate, low, high, error, confidence_level, METHOD, "iid")
    interval = first_interval(resolve_edge_cases(interval, curve, df, name))
    if bool(estimate == 0) and name != "AP" and bool(df >= 1):  # AP@k of 0 remains without an interval
        zero, high = torch.zeros_like(interval.low), 1 - (1 - confidence_level) ** (1 / (df[0] + 1))
        reason = f"{name} of 0, where no standard error exists: the upper end is 1 - alpha^(1 / effective groups)"
        interval = replace(interval, low=zero, high=high, reason=reason)
    if bool(interval.low.isnan()):
        return interval
    return replace(interval, reason="; ".join(filter(None, [interval.reason, few_groups_reason((hits > 0).sum())])))


def effective_count_in_top(groups: Groups, scores: Tensor, k: int) -> float:
    """Return G_k, the effective number of groups of the (N,) items whose scores reach rank k."""
    return effective_number(groups.hits(scores >= scores.topk(k).values[-1]))
