"""Conventions: the settings that distinguish the numbers called average precision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from torch_ap.core.base import cached, checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import TopK
from torch_ap.core.measures import interpolation, lists
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.measures.bounds import ranking_bounds
from torch_ap.core.measures.chance import chance_of_curve
from torch_ap.core.measures.lists import FewHits
from torch_ap.core.measures.measure import Bounds, Measure
from torch_ap.core.measures.ties import DENOMINATORS, TIES
from torch_ap.core.ranking import hit_curve
from torch_ap.core.ranking.hit_curve import HitCurve

_LINE_AREAS: dict[str, Callable[[HitCurve], Tensor]] = {
    "trapezoid": interpolation.trapezoid,
    "trapezoid-anchored": partial(interpolation.trapezoid, anchor=1.0),
    "davis-goadrich": interpolation.davis_goadrich,
    "ultralytics": interpolation.ultralytics,
    "ultralytics-8.3": partial(interpolation.ultralytics, to_end=True),
}
_AREAS = {"all-points": interpolation.area_over_all_points, **_LINE_AREAS}


_TREC_VERSIONS = {"11-point-trec9": 9, "11-point-trec10": 10}


_DIVISOR_TEXTS = {
    "min": "the smaller of {k} and the number of relevant items",
    "relevant": "the number of all relevant items",
    "found": "the number of relevant items found there",
}
_MEAN_OVER = "the mean over {} of the highest precision at that recall or beyond"
_INTERPOLATION_TEXTS = {
    "11-point": _MEAN_OVER.format("the recall levels 0, 0.1, ..., 1"),
    "11-point-arange": _MEAN_OVER.format("the recall levels 0, 0.1, ..., 1 (from NumPy's arange)"),
    "11-point-trec9": _MEAN_OVER.format("the recall levels 0, 0.1, ..., 1 as in trec_eval 9"),
    "11-point-trec10": _MEAN_OVER.format("the recall levels 0, 0.1, ..., 1 as in trec_eval 10"),
    "40-point": _MEAN_OVER.format("the recall levels 1/40, 2/40, ..., 1, as in KITTI"),
    "nuscenes": "the mean over the recall levels 0.11, 0.12, ..., 1 of the precision on straight lines between the "
    "points of the curve, less 0.1 and divided by 0.9, as in nuScenes",
    "101-point": _MEAN_OVER.format("the recall levels 0, 0.01, ..., 1, as in COCO"),
    "all-points": "the area under the interpolated precision-recall curve, as in VOC from 2010 on",
    "trapezoid": "the area under straight lines between the points of the precision-recall curve",
    "trapezoid-anchored": "the area under straight lines between the points of the precision-recall curve from (0, 1), "
    "as in scikit-learn's auc(recall, precision)",
    "davis-goadrich": "the area under the curve on which false positives grow linearly with true positives between "
    "thresholds, as in XGBoost and PRROC",
    "ultralytics": "the area of Ultralytics 8.4.190, straight lines over 101 recall levels",
    "ultralytics-8.3": "the area of Ultralytics up to version 8.3, with a line from the last point to (1, 0)",
}
INTERPOLATIONS = (*_INTERPOLATION_TEXTS, None)


@dataclass(frozen=True, eq=False)
class Convention(Measure):
    """The settings of an average precision as one value: cut, divisor, interpolation and tie rule.

    Functions and metrics accept it as ``convention``, in place of their keywords with the names below.

    Args:
        top_k: k of at least 1 for AP@k; "relevant" for AP@R, where k is the number of relevant items; None for all
            items.
        denominator: divisor of AP@k: "min" for min(k, m), "relevant" for m, "found" for the number of relevant items in
            the top k.
        interpolation: None for the plain sum; "11-point", "11-point-arange", "11-point-trec9", "11-point-trec10",
            "40-point", "101-point", "nuscenes", "all-points", "trapezoid", "trapezoid-anchored", "davis-goadrich",
            "ultralytics", "ultralytics-8.3", or a 1-D tensor of recall levels in [0, 1].
        ties: how equal scores count: "grouped" (they enter together), "expected" (mean over all their orders),
            "optimistic", "pessimistic". None for the default of the function or metric: "expected" for means over
            queries without ``interpolation``, otherwise "grouped".

    Raises:
        TypeError, ValueError: for an unknown option or contradictory options, such as ``top_k`` with ``interpolation``.

    Example:
        >>> import torch
        >>> from torch_ap import Convention
        >>> from torch_ap.functional import binary_average_precision
        >>> trec_eval_at_2 = Convention(top_k=2, denominator="relevant")
        >>> preds, target = torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 1])
        >>> binary_average_precision(preds, target, convention=trec_eval_at_2)
        tensor(0.3333)
    """

    top_k: TopK = None
    denominator: str = "min"
    interpolation: str | Tensor | None = None
    ties: str | None = None

    supported_ties: ClassVar[tuple[str | None, ...]] = (*TIES, None)
    is_average_precision: ClassVar[bool] = True
    table_name: ClassVar[str] = "AP"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("denominator", self.denominator, DENOMINATORS)
        if isinstance(self.interpolation, Tensor):
            tensors.recall_levels("interpolation", self.interpolation)
            object.__setattr__(self, "interpolation", self.interpolation.detach().clone())
        else:
            checks.one_of("interpolation", self.interpolation, INTERPOLATIONS, or_else="a 1-D tensor of recall levels")
        if self.interpolation is not None and self.top_k is not None:
            raise ValueError(f"`top_k` cannot be combined with `interpolation`, got top_k={self.top_k}; drop one")
        if self.interpolation is not None and self.denominator != "min":
            got = f"got denominator={self.denominator!r}"
            raise ValueError(f"`denominator` cannot be combined with `interpolation`, {got}; drop one")
        if self.interpolation is not None and self.rule.is_random:
            raise ValueError(
                "`interpolation` has no closed form for `ties='expected'`; use 'grouped', 'optimistic' or 'pessimistic'"
            )

    def __eq__(self, other: object) -> bool:
        """Return whether all settings are equal; recall levels are compared by value and dtype."""
        return isinstance(other, Convention) and self._settings() == other._settings()

    def __hash__(self) -> int:
        return hash(self._settings())

    def _settings(self) -> tuple[Any, ...]:
        levels = self.interpolation
        interpolation = (levels.dtype, *levels.tolist()) if isinstance(levels, Tensor) else levels
        return self.top_k, self.denominator, interpolation, self.ties

    def with_ties(self, default: str) -> "Convention":
        """Return the convention with a default tie rule in place of ``ties=None``."""
        return replace(self, ties=default) if self.ties is None else self

    @property
    def takes_weights(self) -> bool:
        """Whether sample weights have a meaning; ranks and places inside a tie group have no weight."""
        return self.top_k is None and self.rule.is_threshold

    @property
    def reads_tie_groups(self) -> bool:
        """Whether AP depends on the items of a tie group in addition to the counts at the end of each group."""
        draws_lines = self.is_line_area or (isinstance(self.interpolation, str) and self.interpolation == "nuscenes")
        return not self.rule.is_threshold or self.top_k is not None or draws_lines

    @property
    def is_line_area(self) -> bool:
        """Whether the AP is the area under lines between points, instead of steps or a mean over levels."""
        return isinstance(self.interpolation, str) and self.interpolation in _LINE_AREAS

    @property
    def is_monotone(self) -> bool:
        """Whether a hit that moves up never makes the value worse; among hits in the top k it can lower their mean."""
        return self.top_k is None or self.denominator != "found"

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return self.interpolation is None and self.is_monotone

    @property
    def has_bounds(self) -> bool:
        """Whether the AP of a partly unknown order has bounds."""
        return self.has_chance_level  # both need a sum over hits with a divisor that does not depend on the order

    def describe(self) -> str:
        """Return a description of the measure."""
        levels, k = self.interpolation, str(self.top_k)
        if isinstance(levels, Tensor):
            return f"interpolated average precision: {_MEAN_OVER.format(f'{len(levels)} recall levels')}"
        if levels is not None:
            return f"average precision, interpolated: {_INTERPOLATION_TEXTS[levels]}"
        if self.top_k is None:
            return "average precision: the mean, over all relevant items, of the precision where each is found"
        if k == "relevant":
            k, at = "R", "R, the number of relevant items"
            divisor = _DIVISOR_TEXTS["found" if self.denominator == "found" else "relevant"]
        else:
            at, divisor = k, _DIVISOR_TEXTS[self.denominator].format(k=k)
        total = f"the sum of the precision where each relevant item of the top {k} is found"
        return f"average precision at {at}: {total}, divided by {divisor}"

    def chance_level(
        self,
        curve: HitCurve,
        *,
        groups: HitCurve | None = None,
        undefined: float | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Return the mean over random orders of the labels."""
        return chance_of_curve(curve, self, seen=curve.hits_seen, groups=None if groups is None else [groups])

    def bounds(self, curve: HitCurve, mixed: Tensor | None = None) -> Bounds:
        """Return the bounds of each ranking of bins; ``mixed`` is None if each bin can contain distinct scores."""
        return ranking_bounds(self, curve, mixed)

    def values_of_lists(self, rankings: Sequence[FewHits]) -> list[float] | None:
        """Return the AP of each short ranking; None for interpolated AP."""
        if self.interpolation is not None:
            return None
        return [lists.average_precision(hits, self.top_k, self.denominator) for hits in rankings]

    def values(self, curve: HitCurve) -> Tensor:
        """Return the AP of each ranking: (S,) float64, NaN without relevant items."""
        ties = self.ties or "grouped"
        if self.interpolation is None:
            return average_precision(curve, ties=ties, top_k=self.top_k, denominator=self.denominator)
        curve = curve if isinstance(curve.m, Tensor) else hit_curve.from_native(curve, None)
        if not self.rule.is_threshold:
            curve = interpolation.order_ties(curve, ties)
        if self.has_levels:
            return self.at_levels(curve)[1].mean(1)
        return _AREAS[str(self.interpolation)](curve)

    @property
    def has_levels(self) -> bool:
        """Whether the AP is a mean over recall levels."""
        return isinstance(self.interpolation, Tensor) or self.interpolation not in (None, *_AREAS)

    def at_levels(self, curve: HitCurve) -> tuple[Tensor, Tensor]:
        """Return the (L,) recall levels of this AP, and the (S, L) precision of each ranking there.

        Args:
            curve: S rankings with resolved ties.
        """
        name, device = self.interpolation, curve.m.device
        if isinstance(name, Tensor):
            levels = name.to(device)
            return levels, interpolation.precision_at_levels(curve, levels)
        assert name is not None
        if name == "nuscenes":
            return interpolation.nuscenes_precision(curve)
        levels = interpolation.recall_levels(name.partition("-trec")[0], device)
        if name in _TREC_VERSIONS:
            cuts = interpolation.trec_cuts(curve.m, levels, _TREC_VERSIONS[name])
            return levels, interpolation.precision_at_hits(curve, cuts)
        return levels, interpolation.precision_at_levels(curve, levels)


PLAIN = Convention(ties="grouped")
_cached = cached.settings_cache(Convention)


def resolve_convention(
    convention: Convention | None, top_k: TopK, denominator: str, interpolation: str | Tensor | None, ties: str
) -> Convention:
    """Return ``convention``, or the convention of the keywords if it is None.

    Raises:
        TypeError: for another type than Convention.
        ValueError: for a convention together with a keyword that is not at its default.
    """
    if convention is not None:
        _check_alone(convention, top_k, denominator, interpolation, None if ties == "grouped" else ties)
        return convention.with_ties("grouped")
    make = Convention if isinstance(interpolation, Tensor) else _cached
    return make(top_k, denominator, interpolation, ties)


def query_convention(
    convention: Convention | None, top_k: TopK, denominator: str, interpolation: str | Tensor | None, ties: str | None
) -> Convention:
    """Return the convention of a mean over queries: see :func:`resolve_convention`.

    ``ties=None`` is "expected" without interpolation, and "grouped" with interpolation, whose mean has no closed form.
    """
    if convention is not None:
        _check_alone(convention, top_k, denominator, interpolation, ties)
        return convention.with_ties("expected" if convention.interpolation is None else "grouped")
    default = "expected" if interpolation is None else "grouped"
    return resolve_convention(None, top_k, denominator, interpolation, default if ties is None else ties)


def _check_alone(convention: Any, *keywords: Any) -> None:
    """Raise unless the keywords, in the order of the fields, are at their defaults."""
    if not isinstance(convention, Convention):
        raise_invalid(
            "convention", "must be a torch_ap.Convention or None", Plain(type(convention).__name__), TypeError
        )
    for setting, value in zip(fields(Convention), keywords, strict=True):
        if isinstance(value, Tensor) or value != setting.default:
            raise_invalid(setting.name, "cannot be combined with `convention`", value)
