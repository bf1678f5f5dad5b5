"""The curve of one ranking as a record: what every picture and every choice of a threshold reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from torch_ap.curve.convention import Convention
from torch_ap.curve.counts import Counts
from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.functional.curves import HitCurvePoints
from torch_ap.functional.interpolated import InterpolatedPrecision, interpolated_points
from torch_ap.functional.precision_recall import PrecisionRecallCurve, ended
from torch_ap.inference.band import band_of_curve
from torch_ap.inference.interval import Interval
from torch_ap.inference.operating_point import OperatingPoint, Wanted, operating_point
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.result import Result
from torch_ap.ranking import hit_curve, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import Design


@dataclass(frozen=True, eq=False, repr=False)
class Curve(Result):
    """One ranking: what each threshold retrieves, and the average precision of it all.

    Made by :func:`torch_ap.functional.curve` and by the method ``curve()`` of the metrics.

    Attributes:
        thresholds: (T,) the distinct scores, descending, in their dtype; a metric's own ``thresholds`` where it has
            some. Of detections each score as often as it occurs, since detections are taken one by one.
        hits: (T,) positives that score at least the threshold; int64, or float64 sums of weights.
        items: (T,) items that do.
        n: 0-d, all items.
        m: 0-d, all positives, those never retrieved included.
        average_precision: 0-d, under the convention below; NaN without positives.
        ties: how it counts equal scores.
        interpolation: of the precision-recall curve, as it is integrated.
        name: of the class or system; "" for none.
        top_k: k where it is AP@k; None for all items.
        denominator: what AP@k divides by.
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

    _as_given = ("thresholds",)

    @property
    def precision(self) -> Tensor:
        """(T,) float64, precision at each threshold, hits / items; NaN where nothing is retrieved."""
        return segments.as_float64(self.hits) / segments.as_float64(self.items)

    @property
    def recall(self) -> Tensor:
        """(T,) float64, recall at each threshold, hits / m; NaN without positives."""
        return segments.as_float64(self.hits) / segments.as_float64(self.m)

    @property
    def chance_level(self) -> Tensor:
        """0-d float64, the precision of random selection: m / n, where each positive is one of the n items.

        Those never retrieved, as the objects that a detector misses, are none of them. NaN without items.
        """
        last = slice(-1, None)  # none, where there are no thresholds
        unranked = self.n - self.items[last].sum()
        ranked = torch.minimum(self.m, self.hits[last].sum() + unranked)
        return segments.as_float64(ranked) / segments.as_float64(self.n)

    def f_beta(self, beta: float = 1.0) -> Tensor:
        """(T,) float64, F_beta at each threshold.

        Args:
            beta: at least 0, with a finite square; recall counts beta times as much as precision.
        """
        tp, retrieved, m = (segments.as_float64(x) for x in (self.hits, self.items, self.m))
        return Counts(tp=tp, fp=retrieved - tp, fn=m - tp, tn=torch.zeros_like(tp)).f_beta(beta)

    def precision_recall(self) -> PrecisionRecallCurve:
        """Precision and recall, thresholds ascending and a last point (1, 0), as scikit-learn has them.

        Returns:
            As of :func:`torch_ap.functional.binary_precision_recall_curve`.
        """
        dtype = result_dtype(self.thresholds.dtype)
        precision, recall = (x.flip(0).to(dtype) for x in (self.precision, self.recall))
        return PrecisionRecallCurve(ended(precision, 1.0), ended(recall, 0.0), self.thresholds.flip(0))

    def interpolated(self, recall_levels: str | Tensor | None = None) -> InterpolatedPrecision:
        """The highest precision at each recall or beyond.

        Args:
            recall_levels: "11-point", "101-point", a 1-D tensor of levels in [0, 1], or None for every recall that the
                ranking reaches.

        Returns:
            As of :func:`torch_ap.functional.interpolated_precision`.
        """
        return interpolated_points(self._ranking(), recall_levels, result_dtype(self.thresholds.dtype))

    def hit_curve(self, *, fraction: bool = False) -> HitCurvePoints:
        """The corners of the hit curve, from t = 0 on; between them h is a straight line.

        Inside a tie group it is what ``ties`` says: a straight line for "grouped" and "expected", the hits first for
        "optimistic", last for "pessimistic".

        Args:
            fraction: whether t and h are fractions of n, as in Zhu's paper, instead of numbers of items.

        Returns:
            t, hits, recall, precision, each (V,) float64, as of :func:`torch_ap.functional.hit_curve` at these t.
        """
        t, hits = segments.as_float64(self.items), segments.as_float64(self.hits)
        t, hits = (torch.cat([x.new_zeros(1), x]) for x in (t, hits))
        if self.ties in ("optimistic", "pessimistic"):
            t, hits = _bent(t, hits, first=self.ties == "optimistic")
        return self._points(t, hits, fraction)

    def ideal_hit_curve(self, *, fraction: bool = False) -> HitCurvePoints:
        """The corners of h_P, the hit curve of a perfect ranking of these items: t up to m, and then m.

        Args:
            fraction: as for :meth:`hit_curve`.

        Returns:
            As there; see :func:`torch_ap.functional.ideal_hit_curve`.
        """
        n, m = segments.as_float64(self.n), segments.as_float64(self.m)
        t = torch.stack([torch.zeros_like(n), torch.minimum(n, m), n])
        return self._points(t, t.clamp(max=m), fraction)

    def random_hit_curve(self, *, fraction: bool = False) -> HitCurvePoints:
        """The corners of h_R, the hit curve of random selection among these items: a straight line.

        Args:
            fraction: as for :meth:`hit_curve`.

        Returns:
            As there; see :func:`torch_ap.functional.random_hit_curve`.
        """
        n = segments.as_float64(self.n)
        t = torch.stack([torch.zeros_like(n), n])
        return self._points(t, t * self.chance_level, fraction)

    def operating_point(
        self,
        *,
        beta: float = 1.0,
        precision: float | None = None,
        recall: float | None = None,
        confidence_level: float = 0.95,
        method: str = "posterior",
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> OperatingPoint:
        """The threshold with the best F_beta, or the one that reaches a wanted precision or recall, and what it gives.

        Of equally good thresholds it is the highest; for a wanted recall the lowest, that of the highest recall.
        Of thresholds between which all items have weight 0 it is the highest.

        Args:
            beta: of F, above 0 and with a finite square; recall counts beta times as much as precision.
            precision: the least precision, in [0, 1]: of the thresholds that have it, that of the highest recall.
            recall: the least recall, in [0, 1]: of the thresholds that have it, that of the highest precision.
            confidence_level: nominal coverage of each interval, in (0, 1).
            method: "posterior": central intervals of the posteriors of :mod:`torch_ap.inference.posteriors`, which take
                the threshold as fixed in advance; for one chosen on the same data they are too narrow and too high.
                "bootstrap": each resample chooses its own threshold, and what that promises there beyond what it gives
                in all items is taken off: the intervals are of what the chosen threshold gives in the population. Both
                take items for independent, which detections in one image are not.
            n_resamples: of the bootstrap, at least 2.
            generator: its source of randomness; None for a fresh one with seed 0, so that results repeat.
            batch: how many resamples are computed at once; None for as many as fit the bound on memory.
            progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

        Returns:
            :class:`torch_ap.inference.OperatingPoint`, which has each method's measured coverage; NaN, with a reason,
            where no threshold does what is wanted, and ends of NaN for weights.

        Raises:
            TypeError, ValueError: for an argument that breaks one of these rules.
        """
        wanted, how = Wanted(beta, precision, recall), Resampling(n_resamples, generator, batch, progress)
        ranking = self._ranking(separable=True)
        return operating_point(ranking, wanted, confidence_level=confidence_level, method=method, resampling=how)

    def band(
        self,
        recall_levels: Tensor | None = None,
        *,
        confidence_level: float = 0.95,
        design: Design = "iid",
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Interval:
        """The confidence band of interpolated precision over recall; see :func:`torch_ap.inference.precision_band`.

        Args:
            recall_levels: (R,) floating tensor in [0, 1]; None for the 101 of COCO.
            confidence_level, design, n_resamples, generator, batch, progress: as there.

        Raises:
            TypeError, ValueError: as there, and for weights.
        """
        how = Resampling(n_resamples, generator, batch, progress)
        if self.hits.is_floating_point():
            raise ValueError("`weights` have no confidence band: its resamples count items")
        return band_of_curve(self._ranking(), recall_levels, confidence_level, design, how)

    def _ranking(self, *, separable: bool = False) -> HitCurve:
        """The tie groups that hold a hit; where ``separable``, those of one score as one group."""
        score, ends = self.thresholds, [self.hits, self.items]
        if separable:
            last = torch.ones_like(score, dtype=torch.bool)
            torch.ne(score[1:], score[:-1], out=last[:-1])
            score, ends = score[last], [x[last] for x in ends]
        hits, items = (x.diff(prepend=x.new_zeros(1)) for x in ends)
        groups = HitCurve(
            hits=hits,
            items=items,
            hits_above=ends[0] - hits,
            items_above=ends[1] - items,
            score=score,
            offsets=torch.tensor([0, len(hits)]).to(hits.device),
            n=self.n[None],
            m=self.m[None],
        )
        return hit_curve.of_hits(groups)

    def _points(self, t: Tensor, hits: Tensor, fraction: bool) -> HitCurvePoints:
        """The points at which t grows."""
        checks.boolean("fraction", fraction)
        kept = torch.cat([t.new_ones(1, dtype=torch.bool), t.diff() > 0])
        t, hits = t[kept], hits[kept]
        unit = segments.as_float64(self.n) if fraction else torch.ones_like(t[0])
        return HitCurvePoints(t / unit, hits / unit, hits / segments.as_float64(self.m), hits / t)


def _bent(t: Tensor, hits: Tensor, *, first: bool) -> tuple[Tensor, Tensor]:
    """The corners of tie groups whose hits, or whose misses, come first."""
    found = hits.diff()
    bend = t[:-1] + found if first else t[1:] - found
    level = hits[1:] if first else hits[:-1]
    t, hits = (torch.stack([a, b], 1).flatten() for a, b in ((bend, t[1:]), (level, hits[1:])))
    return torch.cat([t.new_zeros(1), t]), torch.cat([hits.new_zeros(1), hits])


def of_convention(convention: Convention, m: int | None = None) -> dict[str, Any]:
    """The fields that say which AP is meant; of a ranking with m relevant items, which then say k."""
    k = convention.top_k if m is None or not isinstance(convention.top_k, str) else max(m, 1)
    return {**vars(convention), "ties": convention.ties or "grouped", "top_k": k}


def curves_of(
    rankings: HitCurve, convention: Convention, names: Sequence[str], average_precision: Tensor | None = None
) -> list[Curve]:
    """The record of each ranking.

    Args:
        rankings: S of them with scores, an entry for every tie group.
        convention: which AP is meant.
        names: (S,).
        average_precision: (S,) where it is known.
    """
    each = convention(hit_curve.of_hits(rankings)) if average_precision is None else average_precision
    return [
        Curve(
            thresholds=one.score,
            hits=one.cumulative_hits,
            items=one.cumulative_items,
            n=one.n[0],
            m=one.m[0],
            average_precision=value,
            name=name,
            **of_convention(convention, int(one.m)),
        )
        for one, value, name in zip(hit_curve.split(rankings), each, names, strict=True)
        if one.score is not None
    ]
