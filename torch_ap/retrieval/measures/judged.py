"""Measures of runs with incomplete judgements, as in trec_eval, and their chance levels; the share of judged documents.

R is the number of relevant documents, retrieved or not, and N the number of documents that were judged not relevant.
Above the relevant document at rank t, there are

- n documents that were judged not relevant,
- r relevant documents,
- u documents of the pool that were not judged.

| measure | (1 / R) times the sum over the retrieved relevant documents of |
|---|---|
| bpref | 1 - min(n, R) / min(N, R), or 1 where n = 0 |
| infAP | 1 / t + ((t - 1) / t) ((r + n + u) / (t - 1)) (r + e) / (r + n + 2 e), or 1 where t = 1; e = 0.00001 |
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.measures import counts
from torch_ap.core.measures.measure import Measure
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve

_EPSILON = 1e-5


@dataclass(frozen=True, eq=False)
class BPref(Measure):
    """Binary preference (Buckley & Voorhees 2004, Retrieval Evaluation with Incomplete Information).

    Attributes:
        nonrelevant: rankings of the same documents, where a hit is a document that was judged not relevant; no ties.
    """

    nonrelevant: HitCurve

    needs_judgements: ClassVar[bool] = True
    table_name: ClassVar[str] = "bpref"
    is_bounded: ClassVar[bool] = False

    def describe(self) -> str:
        """Return the definition of the measure."""
        return "bpref"

    def chance_level(self, curve: HitCurve, **_: Any) -> Tensor:
        """Return the mean over random orders of the retrieved documents: (S,) float64.

        Each relevant document has the same mean: the number of documents above it that were judged not relevant is 0,
        1, ..., v with equal probability.
        """
        relevant, nonrelevant = segments.as_float64(curve.m), self.nonrelevant
        retrieved, judged = (segments.as_float64(x) for x in (nonrelevant.hits_seen, nonrelevant.m))
        least = torch.minimum(retrieved, relevant)
        counted = (least * (least + 1) / 2 + (retrieved - least) * relevant) / (retrieved + 1)
        return curve.hits_seen / relevant * (1 - counted / torch.minimum(judged, relevant).clamp(min=1))

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking of a curve without ties: (S,) float64; NaN if nothing is relevant."""
        above, m, n = _above(curve, self.nonrelevant), curve.m[curve.segment], self.nonrelevant.m[curve.segment]
        share = torch.minimum(above, m) / torch.minimum(n, m).clamp(min=1).double()
        return segments.total(1 - share, curve.offsets) / segments.as_float64(curve.m)


@dataclass(frozen=True, eq=False)
class InferredAP(Measure):
    """Inferred average precision (Yilmaz & Aslam 2006) of a pool with a judged sample.

    Attributes:
        nonrelevant: rankings of the same documents, where a hit is a document that was judged not relevant; no ties.
        unjudged: rankings of the same documents, where a hit is a document of the pool that was not judged.
    """

    nonrelevant: HitCurve
    unjudged: HitCurve

    needs_judgements: ClassVar[bool] = True
    table_name: ClassVar[str] = "inferred AP"
    is_bounded: ClassVar[bool] = False

    def describe(self) -> str:
        """Return the definition of the measure."""
        return "inferred average precision"

    def chance_level(self, curve: HitCurve, **_: Any) -> Tensor:
        """Return the mean over random orders of the retrieved documents: (S,) float64.

        The t - 1 documents above rank t contain s of the A = r - 1 + v other judged documents, with hypergeometric
        probability. Given s, on average s (r - 1) / A of them are relevant, and (t - 1 - s) u / (u + w) of the other
        documents are pooled. The two numbers are independent, so only the mean of 1 / (s + 2 e) is needed.
        """
        hits, n = segments.as_float64(curve.hits_seen), segments.as_float64(curve.n)
        judged = (hits - 1).clamp(min=0) + self.nonrelevant.hits_seen
        unjudged = self.unjudged.hits_seen / (n - 1 - judged).clamp(min=1)
        share = (hits - 1).clamp(min=0) / judged.clamp(min=1)
        total = torch.zeros_like(n)
        for rank, inverse in _inverse_counts(n, judged):
            above = rank - 1
            drawn = above * judged / (n - 1).clamp(min=1)
            # mean of (s + (t - 1 - s) u / (u + w)) (s (r - 1) / A + e) / (s + 2 e)
            whole = share * (drawn * (1 - unjudged) + above * unjudged)
            rest = (1 - unjudged) * (1 - 2 * _EPSILON * inverse) + above * unjudged * inverse
            mean = (1 + whole + _EPSILON * (1 - 2 * share) * rest) / rank
            total += torch.where(rank <= n, mean, 0)
        return torch.where(curve.m > 0, hits / curve.m * total / n.clamp(min=1), torch.nan)

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking of a curve without ties: (S,) float64; NaN if nothing is relevant."""
        above, relevant = segments.as_float64(curve.items_above), segments.as_float64(curve.hits_above)
        nonrelevant, unjudged = (segments.as_float64(_above(curve, x)) for x in (self.nonrelevant, self.unjudged))
        pooled = (relevant + nonrelevant + unjudged) / above.clamp(min=1)
        precision = (relevant + _EPSILON) / (relevant + nonrelevant + 2 * _EPSILON)
        added = 1 / (above + 1) + (above / (above + 1)) * pooled * precision
        return segments.total(added, curve.offsets) / segments.as_float64(curve.m)


@dataclass(frozen=True, eq=False)
class JudgedShare(Measure):
    """Share of the retrieved documents that have a judgement, as Judged@k in ir_measures.

    Attributes:
        judged: rankings of the same documents, where a hit is a document with a judgement.
        top_k: k, or None for all documents; fewer retrieved documents are the divisor. Of a tie group that straddles k,
            the mean over its orders counts.
    """

    judged: HitCurve
    top_k: int | None = None

    needs_judgements: ClassVar[bool] = True
    table_name: ClassVar[str] = "judged"
    is_bounded: ClassVar[bool] = False

    def describe(self) -> str:
        """Return the definition of the measure."""
        return f"the share of documents with a judgement in {self.top}"

    def chance_level(self, curve: HitCurve, **_: Any) -> Tensor:  # noqa: ARG002
        """Return the share of the documents of any rank: (S,) float64; NaN without documents."""
        return segments.as_float64(self.judged.hits_seen) / segments.as_float64(self.judged.n)

    @arrays.quiet
    def values(self, curve: HitCurve) -> Tensor:  # noqa: ARG002 - relevance does not matter
        """Return the value of each ranking: (S,) float64; NaN without documents."""
        native = self.judged.native
        k = segments.as_float64(native.n if self.top_k is None else arrays.clamp_max(native.n, self.top_k))
        return arrays.tensor(counts.hits_in_top(native, k, "expected") / k)


def _above(curve: HitCurve, other: HitCurve) -> Tensor:
    """Return the number of hits of another curve of the same rankings above each hit: (E,) int64."""
    wide = int(curve.n.max()) + 1 if len(curve.n) else 1
    places = other.segment * wide + other.items_above
    position = torch.searchsorted(places, curve.segment * wide + curve.items_above)
    return position - other.offsets[curve.segment]


def _inverse_counts(n: Tensor, judged: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield each rank from 1 on and the mean of 1 / (s + 2 e), (S,), for s judged documents among the items above."""
    count = torch.arange(int(judged.max()) + 1 if len(judged) else 1, dtype=n.dtype, device=n.device)
    probability = (count == 0).to(n.dtype).expand(len(n), -1)
    for rank in range(1, (int(n.max()) if len(n) else 0) + 1):
        yield rank, (probability / (count + 2 * _EPSILON)).sum(1)
        one_more = probability * ((judged[:, None] - count) / (n - rank)[:, None].clamp(min=1)).clamp(0, 1)
        probability = probability - one_more + torch.nn.functional.pad(one_more, (1, -1))
