"""The mean curve of many queries as data: precision and recall at each rank, interpolated precision at each recall."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torch_ap.curve import interpolation
from torch_ap.curve.convention import Convention, query_convention
from torch_ap.evaluation.queries import MeasureSettings
from torch_ap.functional.curve_record import of_convention
from torch_ap.inference.result import Result
from torch_ap.inputs.queries import QueryInputs
from torch_ap.inputs.query_rankings import Rankings, rankings_of
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import Action, Denominator, Interpolation, MissingQueries, NumRelevant, Ties, TopK


@dataclass(frozen=True, eq=False, repr=False)
class QueryCurve(Result):
    """The means over queries of what their curves say.

    Attributes:
        k: (D,) int64, the ranks from 1 to the length of the longest ranking.
        precision: (D,) the mean precision at k; of a shorter ranking the missing items count as not relevant.
        recall: (D,) the mean recall at k.
        recall_levels: (11,) 0, .1, ..., 1.
        interpolated_precision: (11,) the mean of the highest precision at each recall or beyond, as TREC reports it.
        average_precision: 0-d, the mean AP, under the convention below.
        queries: how many have a part in the means.
        ties: how equal scores count.
        interpolation: of average precision.
        top_k: k where it is AP@k; None for all items.
        denominator: what AP@k divides by.
        name: of the system; "" for none.
    """

    k: Tensor
    precision: Tensor
    recall: Tensor
    recall_levels: Tensor
    interpolated_precision: Tensor
    average_precision: Tensor
    queries: int
    ties: str
    interpolation: str | Tensor | None = None
    top_k: TopK = None
    denominator: str = "min"
    name: str = ""


def retrieval_curve(
    preds: Tensor,
    target: Tensor,
    top_k: TopK = None,
    *,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties | None = None,
    convention: Convention | None = None,
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    num_relevant: NumRelevant = None,
    ignore_index: int | None = None,
    relevance_level: float | None = None,
    empty_target_action: Action = "neg",
    missing_queries: MissingQueries = "neg",
    name: str = "",
) -> QueryCurve:
    """The means over queries of precision and recall at each rank, and of interpolated precision at 11 recall levels.

    Args:
        preds, target, indexes, mask, num_relevant, ignore_index, relevance_level: as for
            :func:`torch_ap.functional.retrieval_average_precision`.
        top_k, denominator, interpolation, convention: of the average precision, as there.
        ties: as there, also of precision and recall; interpolated precision takes "expected" as "grouped", for it has
            no closed form of the mean.
        empty_target_action: what each value of a query without relevant items counts as: "neg" 0, "pos" 1, "skip" left
            out, "nan", "error".
        missing_queries: what a query counts as that has judgements and no items: "neg" 0, "skip" left out, "error".
        name: of the system, for pictures and tables.

    Returns:
        :class:`QueryCurve`; NaN where no query has a part in it.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals trec_eval's ``P_k``, ``recall_k`` and ``iprec_at_recall_x`` (version 10; with
    ``interpolation="11-point-trec9"`` version 9), where no scores are tied, the means of
    ``torch_ap.functional.retrieval_precision`` and ``retrieval_recall``, and what ``torch_ap.RetrievalMAP.curve``
    gives.

    Source: Buckley & Voorhees (2000), Evaluating Evaluation Measure Stability; Salton & McGill (1983).

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_curve
        >>> found = retrieval_curve(torch.tensor([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]]), torch.eye(3).long()[[0, 2]])
        >>> found.recall, found.precision[-1]
        (tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64), tensor(0.3333, dtype=torch.float64))
    """
    measure = query_convention(convention, top_k, denominator, interpolation, ties)
    checks.text("name", name)
    single = indexes is None and isinstance(preds, Tensor) and preds.ndim == 1
    inputs = QueryInputs(ignore_index, relevance_level, copies=False, single=single)
    settings = MeasureSettings(measure, inputs, empty_target_action, missing_queries)
    batch = inputs.validate(preds, target, indexes, mask, num_relevant)
    inputs.raise_broken(batch)
    return curve_of_queries(rankings_of(batch, single=single), settings, measure, name)


def curve_of_queries(rankings: Rankings, settings: MeasureSettings, convention: Convention, name: str) -> QueryCurve:
    """The means over the queries that have a part in them.

    Args:
        rankings: one per query, without weights.
        settings: which queries have a part, and what those without relevant items count as.
        convention: of average precision, and of ties.
        name: of the system.
    """
    curve, ties = rankings.curve, convention.ties or "grouped"
    zeros = torch.zeros_like(segments.as_float64(curve.m))
    # where all that is defined is 0, the sum over queries is what the undefined count as
    parts = settings.each(rankings, lambda of: torch.where(of.m > 0, zeros, torch.nan))
    filled, count = parts.values[parts.kept].sum(), parts.kept.sum()
    k = torch.arange(1, int(curve.n.max() if len(curve.n) else 0) + 1, device=zeros.device)
    share = 1 / segments.as_float64(curve.m.clamp(min=1))
    levels = interpolation.levels_of("11-point", zeros.device)
    each = replace(settings, aggregation="mean").each(rankings, convention)
    return QueryCurve(
        k=k,
        precision=(_hits(curve, torch.ones_like(share), ties, len(k)) / k + filled) / count,
        recall=(_hits(curve, share, ties, len(k)) + filled) / count,
        recall_levels=levels,
        interpolated_precision=(_interpolated(curve, levels, convention) + filled) / count,
        average_precision=each.values[each.kept].mean(),
        queries=int(count),
        name=name,
        **of_convention(convention),
    )


def _hits(curve: HitCurve, weight: Tensor, ties: str, depth: int) -> Tensor:
    """The sum over rankings of h(k), each times its weight, at each rank: (D,) float64."""
    hits, items, above = curve.hits, curve.items, curve.items_above
    first, last, rise = above, above + items, segments.as_float64(hits) / segments.as_float64(items)
    if ties in ("optimistic", "pessimistic"):
        first, last = (above, above + hits) if ties == "optimistic" else (last - hits, last)
        rise = torch.ones_like(rise)
    rise = rise * weight[curve.segment]
    # how much is added at each rank: where groups lie inside one, it is the same at all its places
    one = last - first == 1
    added = weight.new_zeros(depth + 1).index_add_(0, first, torch.where(one, rise, 0))
    longer = torch.where(one, 0, rise)
    steps = weight.new_zeros(depth + 1).index_add_(0, first, longer).index_add_(0, last, -longer)
    return (added + steps.cumsum(0))[:-1].cumsum(0)


def _interpolated(curve: HitCurve, levels: Tensor, convention: Convention) -> Tensor:
    """The sum over rankings of interpolated precision at each level: (11,) float64."""
    if convention.ties in ("optimistic", "pessimistic"):
        curve = interpolation.untied(curve, convention.ties)
    version = 9 if isinstance(given := convention.interpolation, str) and given.endswith("trec9") else 10
    values = interpolation.at_hits(curve, interpolation.trec_cuts(curve.m, levels, version))
    return torch.where(curve.m[:, None] > 0, values, 0).sum(0)
