"""The curve of one ranking as a record, used by plots and operating points."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import Design
from torch_ap.core.items.settings import result_dtype
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.counts import Counts
from torch_ap.core.measures.relative import gain, precision_recall_gain_area
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking import hit_curve, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.curves.hit_curves import HitCurvePoints
from torch_ap.curves.points import InterpolatedPrecision, interpolated_points
from torch_ap.curves.precision_recall import PrecisionRecallCurve, append_point
from torch_ap.inference.groups_at_threshold import ItemGroups
from torch_ap.inference.operating_point import OperatingPoint, ThresholdCriterion, operating_point
from torch_ap.inference.precision_recall import band_of_curve
from torch_ap.inference.record import Interval, Result
from torch_ap.inference.resampling import Resampling


@dataclass(frozen=True, eq=False, repr=False)
class PrecisionRecallGain(Result):
    """Precision gain and recall gain of one ranking (Flach & Kull 2015).

    Attributes:
        precision_gain: (T,) float64, (p - pi) / ((1 - pi) p) for the share pi of positives; at most 1.
        recall_gain: (T,) float64, likewise for recall.
        thresholds: (T,) of the curve, descending.
        area: 0-d, area under precision gain over recall gain from 0 to 1; may be negative.
    """

    precision_gain: Tensor
    recall_gain: Tensor
    thresholds: Tensor
    area: Tensor

    _keep_dtype = ("thresholds",)


@dataclass(frozen=True, eq=False, repr=False)
class Curve(Result):
    """Counts of one ranking at each threshold, and its average precision.

    It is returned by :func:`torch_ap.functional.binary_curve` and by the method ``curve()`` of the metrics.

    Attributes:
        thresholds: (T,) the distinct scores, descending, in their dtype; or the ``thresholds`` of the metric. Curves of
            detections contain equal scores repeatedly, because detections enter one by one.
        hits: (T,) number of positives with at least the threshold as score; int64, or float64 sums of weights.
        items: (T,) number of items with at least the threshold as score.
        n: 0-d, number of all items.
        m: 0-d, number of all positives, including positives that are never retrieved.
        average_precision: 0-d, under the convention of the fields below; NaN without positives.
        ties: tie rule.
        interpolation: interpolation of the precision-recall curve.
        name: name of the class or system; "" without a name.
        top_k: k of AP@k; None for all items.
        denominator: divisor of AP@k.
        groups: the items with their groups, for intervals, if ``update(..., groups=)`` had groups.
    """

    thresholds: Tensor
    hits: Tensor
    items: Tensor
    n: Tensor
    m: Tensor
    average_precision: Tensor
    ties: str = "grouped"
    interpolation: str | Tensor | None = None
    name: str = ""
    top_k: int | None = None
    denominator: str = "min"
    groups: ItemGroups | None = field(default=None, repr=False)

    _keep_dtype = ("thresholds",)

    @property
    def precision(self) -> Tensor:
        """Precision at each threshold, hits / items: (T,) float64, NaN without retrieved items."""
        return segments.as_float64(self.hits) / segments.as_float64(self.items)

    @property
    def recall(self) -> Tensor:
        """Recall at each threshold, hits / m: (T,) float64, NaN without positives."""
        return segments.as_float64(self.hits) / segments.as_float64(self.m)

    @property
    def chance_level(self) -> Tensor:
        """The precision of random selection: 0-d float64, m / n if every positive is an item; NaN without items.

        Positives that are not items, such as the objects that a detector misses, are subtracted from m.
        """
        last = slice(-1, None)  # empty without thresholds
        unranked = self.n - self.items[last].sum()
        ranked = torch.minimum(self.m, self.hits[last].sum() + unranked)
        return segments.as_float64(ranked) / segments.as_float64(self.n)

    @property
    def normalized_average_precision(self) -> Tensor:
        """AP relative to the chance level, (AP - m / n) / (1 - m / n): 0-d float64.

        See :func:`torch_ap.inference.normalized_average_precision_interval`.
        """
        value = segments.as_float64(self.average_precision)
        return (value - self.chance_level) / (1 - self.chance_level)

    def precision_recall_gain(self) -> PrecisionRecallGain:
        """Return precision gain and recall gain at each threshold, and the area under their curve.

        Returns:
            :class:`torch_ap.curves.PrecisionRecallGain`; the gains at thresholds without hits are -inf, and the area is
            NaN without positives or without negatives.

        Source: Flach & Kull (2015), section 4.
        """
        tp, items, m, n = (segments.as_float64(x) for x in (self.hits, self.items, self.m, self.n))
        gains = (gain(wrong, tp, m, n) for wrong in (items - tp, m - tp))
        precision, recall = (torch.where(tp > 0, x, -torch.inf) for x in gains)
        return PrecisionRecallGain(precision, recall, self.thresholds, precision_recall_gain_area(self._ranking())[0])

    def f_beta(self, beta: float = 1.0) -> Tensor:
        """Return F_beta at each threshold, (T,) float64.

        Args:
            beta: at least 0, with a finite square; recall counts beta times as much as precision.
        """
        tp, retrieved, m = (segments.as_float64(x) for x in (self.hits, self.items, self.m))
        return Counts(tp=tp, fp=retrieved - tp, fn=m - tp, tn=torch.zeros_like(tp)).f_beta(beta)

    def precision_recall(self) -> PrecisionRecallCurve:
        """Return precision and recall by ascending threshold, with a last point (1, 0), as in scikit-learn.

        Returns:
            The result of :func:`torch_ap.functional.binary_precision_recall_curve`.
        """
        dtype = result_dtype(self.thresholds.dtype)
        precision, recall = (x.flip(0).to(dtype) for x in (self.precision, self.recall))
        return PrecisionRecallCurve(append_point(precision, 1.0), append_point(recall, 0.0), self.thresholds.flip(0))

    def interpolated(self, recall_levels: str | Tensor | None = None) -> InterpolatedPrecision:
        """Return the highest precision at or above each recall.

        Args:
            recall_levels: "11-point", "101-point", a 1-D tensor of levels in [0, 1], or None for every recall that the
                ranking reaches.

        Returns:
            The result of :func:`torch_ap.functional.interpolated_precision`.
        """
        return interpolated_points(self._ranking(), recall_levels, result_dtype(self.thresholds.dtype))

    def hit_curve(self, *, fraction: bool = False) -> HitCurvePoints:
        """Return the corners of the hit curve from t = 0 on; h is linear between them.

        Inside a tie group, h follows ``ties``: linear for "grouped" and "expected", the hits first for "optimistic",
        the hits last for "pessimistic".

        Args:
            fraction: whether t and h are fractions of n, as in Zhu's paper, instead of numbers of items.

        Returns:
            t, hits, recall, precision, each (V,) float64: :func:`torch_ap.curves.hit_curve` at these t.
        """
        t, hits = segments.as_float64(self.items), segments.as_float64(self.hits)
        t, hits = (torch.cat([x.new_zeros(1), x]) for x in (t, hits))
        rule = tie_rule(self.ties)
        if rule.is_ordered:
            t, hits = _ordered_corners(t, hits, hits_first=bool(rule.hits_first))
        return self._points(t, hits, fraction)

    def ideal_hit_curve(self, *, fraction: bool = False) -> HitCurvePoints:
        """Return the corners of h_P = min(t, m), the hit curve of a perfect ranking of these items.

        Args:
            fraction: see :meth:`hit_curve`.

        Returns:
            Like :meth:`hit_curve`: t = 0, m and n.

        Source: Zhu (2004), example 2.
        """
        n, m = segments.as_float64(self.n), segments.as_float64(self.m)
        t = torch.stack([torch.zeros_like(n), torch.minimum(n, m), n])
        return self._points(t, t.clamp(max=m), fraction)

    def random_hit_curve(self, *, fraction: bool = False) -> HitCurvePoints:
        """Return the two ends of h_R, the linear hit curve of random selection among these items.

        Args:
            fraction: see :meth:`hit_curve`.

        Returns:
            Like :meth:`hit_curve`: t = 0 and n, with h = t m / n.

        Source: Zhu (2004), example 1.
        """
        n = segments.as_float64(self.n)
        t = torch.stack([torch.zeros_like(n), n])
        return self._points(t, t * self.chance_level, fraction)

    @renamed_keywords(batch="chunk_size")
    def operating_point(
        self,
        *,
        beta: float = 1.0,
        precision: float | None = None,
        recall: float | None = None,
        threshold: float | None = None,
        confidence_level: float = 0.95,
        method: str | None = None,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        chunk_size: int | None = None,
        progress: bool = False,
    ) -> OperatingPoint:
        """Return the threshold with the best F_beta, or with a minimum precision or recall, or a given threshold.

        Among equally good thresholds the result is the highest one; for a minimum recall it is the lowest one, with the
        highest recall. If all items between two thresholds have weight 0, the result is the higher threshold.

        Args:
            beta: weight of recall relative to precision in F; above 0 and with a finite square.
            precision: minimum precision, in [0, 1]; the result is the threshold with the highest recall.
            recall: minimum recall, in [0, 1]; the result is the threshold with the highest precision.
            threshold: a threshold that was fixed in advance, a number other than NaN; cannot be combined with
                ``precision`` and ``recall``.
            confidence_level: nominal coverage of each interval, in (0, 1).
            method: None for "posterior", or for items in groups for "jackknife", which is the only method there.
                "posterior" for central intervals of the posteriors of :mod:`torch_ap.inference.posteriors`. They
                assume a threshold that is fixed in advance; for a threshold chosen on the same data they are too narrow
                and too high. "bootstrap" chooses a threshold in each resample, and subtracts the optimism: the excess
                of its performance in the resample over its performance in all items. These intervals are for the
                performance of the chosen threshold in the population, so ``threshold`` cannot be combined with them.
                Both methods assume independent items; detections in one image are dependent. "jackknife" leaves out
                each group, see :mod:`torch_ap.inference.groups_at_threshold`, and assumes a fixed threshold.
            n_resamples: number of bootstrap resamples, at least 2.
            generator: random number generator; None for a new one with seed 0, so that results repeat.
            chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per
                step.
            progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

        Returns:
            :class:`torch_ap.inference.OperatingPoint`, which documents the measured coverage of each method. If no
            threshold satisfies the minimum, its values are NaN, with a reason. With weights the ends are NaN, with a
            reason.

        Raises:
            TypeError, ValueError: for an invalid argument.
        """
        criterion = ThresholdCriterion(beta, precision, recall)
        resampling = Resampling(n_resamples, generator, chunk_size, progress)
        settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "resampling": resampling}
        if threshold is None:
            return operating_point(self._ranking(separable=True), criterion, groups=self.groups, **settings)
        if precision is not None or recall is not None or method == "bootstrap":
            other = "precision" if precision is not None else "recall" if recall is not None else "method='bootstrap'"
            raise ValueError(f"`threshold` cannot be combined with `{other}`, which chooses a threshold")
        cut = self._cut(checks.number("threshold", threshold))
        return operating_point(cut, criterion, groups=self.groups, is_fixed=True, **settings)

    @renamed_keywords(batch="chunk_size")
    def band(
        self,
        recall_levels: Tensor | None = None,
        *,
        confidence_level: float = 0.95,
        design: Design = "iid",
        simultaneous: bool = False,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        chunk_size: int | None = None,
        progress: bool = False,
    ) -> Interval:
        """Return the confidence band of precision: see :func:`torch_ap.inference.precision_band`.

        For items in groups, it is the band with these groups.

        Args:
            recall_levels: (R,) floating tensor in [0, 1]; None for the 101 levels of COCO.
            confidence_level: see :func:`torch_ap.inference.precision_band`.
            design: see :func:`torch_ap.inference.precision_band`.
            simultaneous: see :func:`torch_ap.inference.precision_band`.
            n_resamples: see :func:`torch_ap.inference.precision_band`.
            generator: see :func:`torch_ap.inference.precision_band`.
            chunk_size: see :func:`torch_ap.inference.precision_band`.
            progress: see :func:`torch_ap.inference.precision_band`.

        Raises:
            TypeError, ValueError: for an invalid argument, and for a curve with weights.
        """
        resampling = Resampling(n_resamples, generator, chunk_size, progress)
        if self.hits.is_floating_point():
            raise ValueError("`weights` cannot be combined with a confidence band, whose resamples count items")
        options = (recall_levels, confidence_level, design, resampling)
        ranking = self._ranking(separable=self.groups is not None)
        return band_of_curve(ranking, *options, simultaneous=simultaneous, groups=self.groups)

    def _ranking(self, *, separable: bool = False) -> HitCurve:
        """Return the tie groups with hits; ``separable`` merges groups with equal scores."""
        score, ends = self.thresholds, [self.hits, self.items]
        if separable:
            last = torch.ones_like(score, dtype=torch.bool)
            torch.ne(score[1:], score[:-1], out=last[:-1])
            score, ends = score[last], [x[last] for x in ends]
        hits, items = (x.diff(prepend=x.new_zeros(1)) for x in ends)
        offsets, above = torch.tensor([0, len(hits)]).to(hits.device), (ends[0] - hits, ends[1] - items)
        groups = HitCurve(hits, items, *above, score, offsets, self.n[None], self.m[None])
        return hit_curve.drop_groups_without_hits(groups)

    def _cut(self, threshold: float) -> HitCurve:
        """Return the items with at least a threshold as the only entry."""
        scores = segments.comparable(self.thresholds)
        score = scores.new_tensor([threshold])
        count = (scores >= score).sum()
        hits, items = (torch.cat([x.new_zeros(1), x])[count][None] for x in (self.hits, self.items))
        none = hits.new_zeros(1)
        return HitCurve(
            hits, items, none, none, score, torch.tensor([0, 1]).to(hits.device), self.n[None], self.m[None]
        )

    def _points(self, t: Tensor, hits: Tensor, fraction: bool) -> HitCurvePoints:
        """Return the points, without repeated values of t."""
        checks.boolean("fraction", fraction)
        grows = torch.cat([t.new_ones(1, dtype=torch.bool), t.diff() > 0])
        t, hits = t[grows], hits[grows]
        unit = segments.as_float64(self.n) if fraction else torch.ones_like(t[0])
        return HitCurvePoints(t / unit, hits / unit, hits / segments.as_float64(self.m), hits / t)


def _ordered_corners(t: Tensor, hits: Tensor, *, hits_first: bool) -> tuple[Tensor, Tensor]:
    """Return the corners of tie groups with the hits, or the misses, first."""
    group_hits = hits.diff()
    bend = t[:-1] + group_hits if hits_first else t[1:] - group_hits
    level = hits[1:] if hits_first else hits[:-1]
    t, hits = (torch.stack([a, b], 1).flatten() for a, b in ((bend, t[1:]), (level, hits[1:])))
    return torch.cat([t.new_zeros(1), t]), torch.cat([hits.new_zeros(1), hits])


def convention_fields(convention: Convention, m: int | None = None) -> dict[str, Any]:
    """Return the convention as fields of a curve; with m, ``top_k="relevant"`` becomes the number m."""
    k = convention.top_k if m is None or not isinstance(convention.top_k, str) else max(m, 1)
    return {**vars(convention), "ties": convention.ties or "grouped", "top_k": k}


def curve_records(
    rankings: HitCurve,
    convention: Convention,
    names: Sequence[str],
    average_precision: Tensor | None = None,
    *,
    groups: Sequence[ItemGroups | None] | None = None,
) -> list[Curve]:
    """Return the record of each ranking.

    Args:
        rankings: S rankings with scores, with an entry for every tie group.
        convention: convention of the AP.
        names: (S,) names.
        average_precision: (S,) values; None to compute them.
        groups: (S,) items of the rankings with their groups; None without groups.
    """
    if average_precision is None:
        average_precision = convention(hit_curve.drop_groups_without_hits(rankings))
    return [
        Curve(
            thresholds=ranking.score,
            hits=ranking.cumulative_hits,
            items=ranking.cumulative_items,
            n=ranking.n[0],
            m=ranking.m[0],
            average_precision=value,
            name=name,
            groups=items,
            **convention_fields(convention, int(ranking.m)),
        )
        for ranking, value, name, items in zip(
            hit_curve.split(rankings), average_precision, names, groups or [None] * len(names), strict=True
        )
        if ranking.score is not None
    ]
