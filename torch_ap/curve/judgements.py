"""Measures of runs whose judgements are incomplete: of the documents that were judged alone, as in trec_eval.

With R relevant documents, retrieved or not, N that were judged not relevant, and for the relevant document at rank t

- n, how many that were judged not relevant lie above it,
- r, how many relevant ones do,
- u, how many do that were pooled and not judged,

| measure | (1 / R) times the sum over the retrieved relevant documents of |
|---|---|
| bpref | 1 - min(n, R) / min(N, R), or 1 where n = 0 |
| infAP | 1 / t + ((t - 1) / t) ((r + n + u) / (t - 1)) (r + e) / (r + n + 2 e), or 1 where t = 1; e = 0.00001 |
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve

EPSILON = 1e-5


@dataclass(frozen=True, eq=False)
class BPref:
    """Binary preference (Buckley & Voorhees 2004, Retrieval Evaluation with Incomplete Information).

    Attributes:
        nonrelevant: the same rankings with the documents as hits that were judged not relevant, N of each; no ties.
    """

    nonrelevant: HitCurve

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64 of a curve without ties; NaN where nothing is relevant."""
        above, m, n = _above(curve, self.nonrelevant), curve.m[curve.segment], self.nonrelevant.m[curve.segment]
        share = torch.minimum(above, m) / torch.minimum(n, m).clamp(min=1).double()
        return segments.total(1 - share, curve.offsets) / segments.as_float64(curve.m)


@dataclass(frozen=True, eq=False)
class InferredAP:
    """Inferred average precision (Yilmaz & Aslam 2006), of a pool of which a sample was judged.

    Attributes:
        nonrelevant: the same rankings with the documents as hits that were judged not relevant; no ties.
        unjudged: the same with those that were pooled and not judged.
    """

    nonrelevant: HitCurve
    unjudged: HitCurve

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64 of a curve without ties; NaN where nothing is relevant."""
        above, relevant = segments.as_float64(curve.items_above), segments.as_float64(curve.hits_above)
        nonrelevant, unjudged = (segments.as_float64(_above(curve, x)) for x in (self.nonrelevant, self.unjudged))
        pooled = (relevant + nonrelevant + unjudged) / above.clamp(min=1)
        precision = (relevant + EPSILON) / (relevant + nonrelevant + 2 * EPSILON)
        each = 1 / (above + 1) + (above / (above + 1)) * pooled * precision
        return segments.total(each, curve.offsets) / segments.as_float64(curve.m)


def _above(curve: HitCurve, other: HitCurve) -> Tensor:
    """How many hits of the same rankings of another curve lie above each hit: (E,) int64."""
    wide = int(curve.n.max()) + 1 if len(curve.n) else 1
    places = other.segment * wide + other.items_above
    found = torch.searchsorted(places, curve.segment * wide + curve.items_above)
    return found - other.offsets[curve.segment]
