"""Mean curve of queries: precision and recall at each rank, interpolated precision at each recall level."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import Action, Denominator, Interpolation, Ties, TopK
from torch_ap.core.measures import interpolation
from torch_ap.core.measures.convention import Convention, query_convention
from torch_ap.core.measures.counts import sum_hits_at_ranks
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.curves.record import convention_fields
from torch_ap.inference.record import Result
from torch_ap.retrieval.rankings import Rankings
from torch_ap.retrieval.settings import MeasureSettings, rank_batch, with_batch_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torch_ap.retrieval.settings import BatchOptions


@dataclass(frozen=True, eq=False, repr=False)
class QueryCurve(Result):
    """Means over queries of points on their curves.

    Attributes:
        k: (D,) int64, the ranks from 1 to the length of the longest ranking.
        precision: (D,) the mean precision at k; missing items of a shorter ranking count as not relevant.
        recall: (D,) the mean recall at k.
        recall_levels: (11,) 0, .1, ..., 1.
        interpolated_precision: (11,) the mean of the highest precision at each recall level or beyond, as in TREC.
        average_precision: 0-d, the mean AP, under the convention below.
        queries: number of queries in the means.
        ties: name of the tie rule.
        interpolation: interpolation of average precision.
        top_k: k of AP@k; None for all items.
        denominator: divisor of AP@k.
        name: name of the system; "" for none.
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


@with_batch_options
def retrieval_curve(
    preds: Tensor,
    target: Tensor,
    top_k: TopK = None,
    *,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties | None = None,
    convention: Convention | None = None,
    empty_target_action: Action = "neg",
    name: str = "",
    **options: "Unpack[BatchOptions]",
) -> QueryCurve:
    """Return the means over queries of precision and recall at each rank, and of precision at 11 recall levels.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        indexes: integers in the shape of ``preds``: the query of each item; None for rows.
        mask: bool, in the shape of ``preds``: True for items that exist.
        num_relevant: number of relevant items of each query, including items that were not retrieved.
        ignore_index: target value of items to ignore.
        relevance_level: the lowest relevant target; None for 1.
        top_k: k of AP@k, "relevant" for m, or None for all items.
        denominator: divisor of AP@k: "min", "relevant" or "found".
        interpolation: interpolation of the average precision: None, a name or recall levels.
        convention: settings of the average precision as one :class:`torch_ap.Convention`, instead of them.
        ties: tie rule of average precision, precision and recall. Interpolated precision uses "grouped" for
            "expected", because the mean over orders has no closed form.
        empty_target_action: values of a query without relevant items: "neg" 0, "pos" 1, "skip" left out, "nan",
            "error".
        missing_queries: values of a query with judgements and without items: "neg" 0, "skip" left out, "error".
        name: name of the system, for plots and tables.

    Returns:
        :class:`QueryCurve`; NaN if no query counts.

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals trec_eval's ``P_k``, ``recall_k`` and ``iprec_at_recall_x`` (version 10; with
    ``interpolation="11-point-trec9"`` version 9), if no scores are tied; the means of
    ``torch_ap.functional.retrieval_precision`` and ``retrieval_recall``; and ``torch_ap.RetrievalMAP.curve``.

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
    rankings, settings, _ = rank_batch(preds, target, empty_target_action=empty_target_action, **options)
    return mean_curve(rankings, settings, measure, name)


def mean_curve(rankings: Rankings, settings: MeasureSettings, convention: Convention, name: str) -> QueryCurve:
    """Return the means over the queries that count.

    Args:
        rankings: one per query, without weights.
        settings: values of queries without items or relevant items.
        convention: settings of average precision, and tie rule of all means.
        name: name of the system.
    """
    curve, ties = rankings.curve, convention.ties or "grouped"
    zeros = torch.zeros_like(segments.as_float64(curve.m))
    # all defined values are 0 here, so that the sum over queries equals the sum of the fill values
    parts = settings.per_query(rankings, lambda x: torch.where(x.m > 0, zeros, torch.nan))
    filled, count = parts.values[parts.counted].sum(), parts.counted.sum()
    k = torch.arange(1, int(curve.n.max() if len(curve.n) else 0) + 1, device=zeros.device)
    share = 1 / segments.as_float64(curve.m.clamp(min=1))
    levels = interpolation.recall_levels("11-point", zeros.device)
    values = replace(settings, aggregation="mean").per_query(rankings, convention)
    return QueryCurve(
        k=k,
        precision=(sum_hits_at_ranks(curve, len(k), ties, torch.ones_like(share))[0] / k + filled) / count,
        recall=(sum_hits_at_ranks(curve, len(k), ties, share)[0] + filled) / count,
        recall_levels=levels,
        interpolated_precision=(interpolated_precision(curve, levels, convention).nan_to_num(0).sum(0) + filled)
        / count,
        average_precision=values.values[values.counted].mean(),
        queries=int(count),
        name=name,
        **convention_fields(convention),
    )


def interpolated_precision(curve: HitCurve, levels: Tensor, convention: Convention) -> Tensor:
    """Return the interpolated precision of each ranking at each level: (S, L) float64, NaN without relevant items."""
    if tie_rule(convention.ties or "grouped").is_ordered:
        curve = interpolation.order_ties(curve, convention.ties or "grouped")
    version = 9 if isinstance(name := convention.interpolation, str) and name.endswith("trec9") else 10
    values = interpolation.precision_at_hits(curve, interpolation.trec_cuts(curve.m, levels, version))
    return torch.where(curve.m[:, None] > 0, values, torch.nan)
