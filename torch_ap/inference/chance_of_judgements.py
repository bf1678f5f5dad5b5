"""The chance level of measures of runs whose judgements are incomplete: of the retrieved documents in random order.

Of r relevant documents that were retrieved (R there are), v that were judged not relevant, u that were pooled and not
judged, and w others, each relevant one has the same mean, so that a measure is r / R times that of one.

- bpref: how many of the v stand above it is equally likely 0, 1, ..., v.
- infAP: of the t - 1 documents above rank t, s are among the A = r - 1 + v other judged ones with hypergeometric
  probability. Given s, s (r - 1) / A of these are relevant in the mean, and (t - 1 - s) u / (u + w) of the rest pooled,
  both independent. So the mean over all orders takes no more than that of 1 / (s + 2 e), rank by rank.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from torch_ap.curve.judgements import EPSILON, BPref, InferredAP
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


def chance_of_judged(curve: HitCurve, measure: BPref | InferredAP) -> Tensor:
    """The mean of the measure: (S,) float64, NaN where nothing is relevant, of a curve without ties."""
    return _of_bpref(curve, measure) if isinstance(measure, BPref) else _of_inferred(curve, measure)


def _of_bpref(curve: HitCurve, measure: BPref) -> Tensor:
    relevant, nonrelevant = segments.as_float64(curve.m), measure.nonrelevant
    retrieved, judged = (segments.as_float64(x) for x in (nonrelevant.hits_seen, nonrelevant.m))
    least = torch.minimum(retrieved, relevant)
    counted = (least * (least + 1) / 2 + (retrieved - least) * relevant) / (retrieved + 1)
    return curve.hits_seen / relevant * (1 - counted / torch.minimum(judged, relevant).clamp(min=1))


def _of_inferred(curve: HitCurve, measure: InferredAP) -> Tensor:
    hits, n = segments.as_float64(curve.hits_seen), segments.as_float64(curve.n)
    judged = (hits - 1).clamp(min=0) + measure.nonrelevant.hits_seen
    unjudged = measure.unjudged.hits_seen / (n - 1 - judged).clamp(min=1)
    share = (hits - 1).clamp(min=0) / judged.clamp(min=1)
    total = torch.zeros_like(n)
    for rank, inverse in _inverse_counts(n, judged):
        above = rank - 1
        drawn = above * judged / (n - 1).clamp(min=1)
        # of (s + (t - 1 - s) u / (u + w)) times (s (r - 1) / A + e) / (s + 2 e)
        whole = share * (drawn * (1 - unjudged) + above * unjudged)
        rest = (1 - unjudged) * (1 - 2 * EPSILON * inverse) + above * unjudged * inverse
        mean = (1 + whole + EPSILON * (1 - 2 * share) * rest) / rank
        total += torch.where(rank <= n, mean, 0)
    return torch.where(curve.m > 0, hits / curve.m * total / n.clamp(min=1), torch.nan)


def _inverse_counts(n: Tensor, judged: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Of each rank from 1 on, (S,) the mean of 1 / (s + 2 e) over the judged documents s above it, of n - 1 in all."""
    count = torch.arange(int(judged.max()) + 1 if len(judged) else 1, dtype=n.dtype, device=n.device)
    probability = (count == 0).to(n.dtype).expand(len(n), -1)
    for rank in range(1, (int(n.max()) if len(n) else 0) + 1):
        yield rank, (probability / (count + 2 * EPSILON)).sum(1)
        one_more = probability * ((judged[:, None] - count) / (n - rank)[:, None].clamp(min=1)).clamp(0, 1)
        probability = probability - one_more + torch.nn.functional.pad(one_more, (1, -1))
