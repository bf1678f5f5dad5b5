"""COCO's numbers from matched detections, and their settings: thresholds, recall levels, limits, area ranges."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.arrays import native
from torch_ap.core.base.options import with_keywords_of
from torch_ap.core.measures import interpolation
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.detection.inputs.images import Columns, DetectionInputs, Kind
from torch_ap.detection.matching import assignment
from torch_ap.detection.matching.matched import Matches, Shares
from torch_ap.detection.matching.precision_tables import SPACING, PrecisionTable, precision_tables
from torch_ap.detection.matching.shapes import AreaRanges, ShapeSettings, geometry_of, shape_settings_of
from torch_ap.detection.matching.stored import StoredMatches

Result = TypeVar("Result")
Classes: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""(K,) labels, and the index into them of each detection and of each ground truth."""

THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())  # bit-identical to pycocotools, as the levels
_LEVELS = tuple(np.linspace(0, 1, 101).tolist())


class Number(NamedTuple):
    """One of COCO's numbers: a mean over IoU thresholds and classes.

    Attributes:
        name: its name, as in ``compute()``.
        is_recall: whether it is a recall; else an AP.
        area: index of its area range.
        limit: index of its limit on detections.
        iou: its IoU threshold; None for all.
        labels: labels of its classes; None for all.
    """

    name: str
    is_recall: bool
    area: int
    limit: int
    iou: float | None = None
    labels: Tensor | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class CocoSettings(ShapeSettings):
    """Settings of COCO's mean average precision.

    Attributes:
        thresholds: T IoU thresholds.
        levels: R recall levels.
        limits: M limits on the detections per category and image, ascending.
        areas: names and bounds of the A area ranges; the first one is the range of the overall numbers.
        average: "macro" or "micro".
        use_given_area: whether ``area`` is required and used unchanged, including areas of 0 or less.
    """

    thresholds: tuple[float, ...]
    levels: tuple[float, ...]
    limits: tuple[int, ...]
    areas: AreaRanges
    average: str = "macro"
    use_given_area: bool = False

    def _form(self) -> StoredMatches:
        return StoredMatches(
            self.thresholds,
            tuple(self.areas.values()),
            self.limits[-1],
            f"{self._shapes_text}|{self.use_given_area}",
            micro=self.average == "micro",
        )

    data_set: ClassVar[str] = "COCO"
    by_levels: ClassVar[bool] = True  # whether one mean is over levels and categories, bit-identical to pycocotools

    @cached_property
    def inputs(self) -> DetectionInputs:
        """The validation of images."""
        return DetectionInputs(**self._input_options())

    def _input_options(self) -> dict[str, Any]:
        """Return the arguments of :class:`DetectionInputs`.

        Detections have areas if the geometry cannot compute them, and with ``use_given_area`` if COCO's files contain
        them.
        """
        kinds = self.geometries
        has_areas = any(kind.area is None or (self.use_given_area and kind.file_areas) for kind in kinds)
        keys = ("area",) if has_areas else ()
        return input_options(self) | {"of_detections": keys, "areas_required": self.use_given_area}

    @property
    def most(self) -> str:
        """The limit on detections, as text."""
        return f"{self.limits[-1]} detections per image and class"

    @property
    def groups(self) -> Mapping[str, Tensor]:
        """The labels of the groups of classes whose means are reported, by name of the group."""
        return {}

    def objects(self, columns: Columns, iou_type: Kind, classes: "Classes") -> "Objects":  # noqa: ARG002
        """Return the properties of all shapes that the matching rules require."""
        return Objects(self, columns, iou_type)

    @property
    def recall_at(self) -> tuple[float, ...]:
        """The IoU thresholds whose recall is reported in addition to the mean."""
        return self.geometries[0].recall_at

    @cached_property
    def numbers(self) -> list[Number]:
        """The numbers of :meth:`CocoNumbers.summary`; precision first, whose tables or curves contain the recall."""
        last, sizes = len(self.limits) - 1, list(enumerate(self.areas))[1:]
        return [
            Number("map", False, 0, last),
            *(Number(f"map_{100 * iou:.0f}", False, 0, last, iou) for iou in (0.5, 0.75)),
            *(Number(f"map_{name}", False, area, last) for area, name in sizes),
            *(Number(f"map_{name}", False, 0, last, labels=labels) for name, labels in self.groups.items()),
            *(Number(f"mar_{most}", True, 0, limit) for limit, most in enumerate(self.limits)),
            *(Number(f"mar_iou_{100 * iou:.0f}", True, 0, last, iou) for iou in self.recall_at),
            *(Number(f"mar_{name}", True, area, last) for area, name in sizes),
        ]

    def criteria(self, device: torch.device) -> assignment.Criteria:
        """Return the thresholds and area ranges as criteria, on a device."""
        return assignment.criteria_of(self.thresholds, len(self.areas), device)

    def inside(self, area: Tensor) -> Tensor:
        """Whether each area is in each range, bounds included: (A, X) bool."""
        bounds, areas = native(segments.constants(tuple(self.areas.values()), area.device)), native(area)
        return arrays.tensor((areas >= bounds[:, :1]) & (areas <= bounds[:, 1:]))


def input_options(settings: ShapeSettings) -> dict[str, Any]:
    """Return the arguments of :class:`DetectionInputs` that depend on the kinds of shapes only."""
    return {
        "rows": settings.rows,
        "masks": any(kind.masks for kind in settings.geometries),
        "pairs": any(kind.pairs for kind in settings.geometries),
        "similarity": settings.own_similarity,
        "check_values": settings.check_values,
    }


def thresholds_of(
    values: Any, name: str = "iou_thresholds", default: tuple[float, ...] = THRESHOLDS
) -> tuple[float, ...]:
    """Return validated thresholds in [0, 1] as floats; None means the default."""
    if values is None:
        return default
    checks.numbers_in(name, values, low=0, high=1)
    return tuple(map(float, values))


def default_settings(iou_type: Kind | tuple[Kind, ...]) -> CocoSettings:
    """Return COCO's default settings."""
    first = iou_type[0] if isinstance(iou_type, tuple) else iou_type
    return settings_of(box_format=geometry_of(first).formats[0], iou_type=iou_type)


@with_keywords_of(shape_settings_of)
def settings_of(
    *,
    iou_thresholds: list[float] | None = None,
    rec_thresholds: list[float] | None = None,
    max_detection_thresholds: list[int] | None = None,
    average: str = "macro",
    area_ranges: AreaRanges | None = None,
    use_given_area: bool = False,
    **shapes: Any,
) -> CocoSettings:
    """Validate the arguments, and return the settings; ``shapes`` are arguments of :func:`shape_settings_of`."""
    checks.one_of("average", average, ("macro", "micro"))
    checks.boolean("use_given_area", use_given_area)
    settings = shape_settings_of(**shapes)
    default = next((kind for kind in settings.geometries if kind.area is None), settings.geometries[0])
    limits = default.limits if max_detection_thresholds is None else max_detection_thresholds
    limits = checks.positive_ints("max_detection_thresholds", limits)
    areas = default.area_ranges
    if area_ranges is not None:
        checks.ranges("area_ranges", area_ranges)
        areas = {"all": areas["all"]} | {name: (float(low), float(high)) for name, (low, high) in area_ranges.items()}
    return CocoSettings(
        **vars(settings),
        thresholds=thresholds_of(iou_thresholds),
        levels=thresholds_of(rec_thresholds, "rec_thresholds", _LEVELS),
        limits=tuple(sorted(limits)),
        areas=areas,
        average=average,
        use_given_area=use_given_area,
    )


class Objects:
    """Properties of the shapes of one kind in all images that COCO's matching requires.

    Attributes:
        crowd: (G,) bool.
        ignored: (G,) bool, crowds and other ground truths that are ignored in all area ranges.
        detection_area, truth_area: (D,) and (G,) float64.
        rows: int64 rows of the evaluated detections and ground truths; None for all.
        ignored_if_unmatched: (D,) bool, the detections that are ignored if they have no match; None for none.
    """

    rows: tuple[Tensor, Tensor] | None = None
    ignored_if_unmatched: Tensor | None = None

    def __init__(self, settings: CocoSettings, columns: Columns, iou_type: Kind) -> None:
        self._source = settings, columns, iou_type
        self.crowd = self.ignored = columns["ground_truth_iscrowd"].bool()
        others = settings.ignored(columns, iou_type)
        if others is not None:
            self.ignored = self.crowd | others

    def keep(self, flags: Tensor) -> None:
        """Evaluate only the detections with (D,) flags."""
        if self.rows is None:
            self.rows = segments.flag_places(flags), torch.arange(len(self.crowd), device=flags.device)
        else:
            self.rows = self.rows[0][flags[self.rows[0]]], self.rows[1]

    @cached_property
    def detection_area(self) -> Tensor:
        """The area of each detection; computed on first use, because the similarity of masks caches areas."""
        settings, columns, iou_type = self._source
        # results of COCO's evaluation can have areas that differ from their boxes
        given = "detection_area" in columns and len(settings.iou_types) == 1
        from_files = given or (settings.use_given_area and settings.geometry(iou_type).file_areas)
        return columns["detection_area"] if from_files else settings.area(columns, iou_type, "detection")

    @cached_property
    def truth_area(self) -> Tensor:
        """The area of each ground truth; computed on first use."""
        settings, columns, iou_type = self._source
        area = segments.as_float64(columns["ground_truth_area"])
        if settings.use_given_area or "area" in settings.inputs.rows_of("ground_truth"):
            return area
        # as in COCO's files, the area of a ground truth is the area of its mask, if it has a mask
        kind = next((kind for kind in settings.iou_types if settings.geometry(kind).masks), iou_type)
        areas, shapes = native(area), native(settings.area(columns, kind, "ground_truth"))
        return arrays.tensor(arrays.namespace(areas).where(areas > 0, areas, shapes))


class CocoNumbers:
    """The numbers that COCO computes from the matches of one data set; each is computed on first use.

    Args:
        settings: thresholds, recall levels, limits and area ranges.
        matches: the matches, in all criteria.
        labels: (K,) the labels of the categories.
        shares: the exchange with other processes, if the matches contain only a share of the categories.
        slices: the number S of slices of the images, if the matches contain several; all numbers are then (S, ...).
    """

    def __init__(
        self,
        settings: CocoSettings,
        matches: Matches,
        labels: Tensor,
        shares: Shares | None = None,
        slices: int | None = None,
    ) -> None:
        self.settings, self.matches, self.labels, self._shares, self._slices = settings, matches, labels, shares, slices
        self._last = len(settings.limits) - 1
        self._results: dict[tuple[str | int, ...], Any] = {}

    def _once(self, key: tuple[str | int, ...], compute: Callable[[], Result]) -> Result:
        """Return the result of a function that is called once for each key."""
        if key not in self._results:
            self._results[key] = compute()
        result: Result = self._results[key]
        return result

    def slice_images(self, slices: Tensor) -> "CocoNumbers":
        """Return the numbers of slices of the images, (S, B) bool; has :meth:`summary` and :meth:`category_means`."""
        return CocoNumbers(self.settings, self.matches.select_slices(slices), self.labels, slices=len(slices))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of thresholds and categories: (T, K)."""
        return len(self.settings.thresholds), self.matches.categories

    def curve(self, area: int, limit: int) -> HitCurve:
        """Return the hit curves of T * K rankings, by threshold and category, in one area range with one limit."""
        return self._once(("curve", area, limit), lambda: self.matches_within(limit).curve(area))

    def rankings(self, area: int, limit: int, threshold: int) -> HitCurve:
        """Return the K rankings of one IoU threshold, with an entry for every counted detection."""
        return self.matches_within(limit).rankings(area, threshold)

    def matches_within(self, limit: int) -> Matches:
        """Return the matches of the detections within a limit."""
        most = self.settings.limits[limit]
        if most == self.settings.limits[-1]:
            return self.matches
        return self._once(("matches", most), lambda: self.matches.until(most))

    def tables(self, areas: Iterable[int], limit: int, *, scores: bool = False) -> list[PrecisionTable]:
        """Return the tables of area ranges; one call for several ranges costs less than several calls."""
        keys = {area: ("table", area, limit) for area in areas}
        held = ((area, self._results.get(key)) for area, key in keys.items())
        if missing := [area for area, table in held if table is None or (scores and table.scores is None)]:
            tables = precision_tables(self.matches_within(limit), self.settings.levels, missing, scores=scores)
            self._results |= {keys[area]: table for area, table in zip(missing, tables, strict=True)}
        return [self._results[key] for key in keys.values()]

    def precision(self, area: int, limit: int) -> Tensor:
        """Return the precision at the recall levels: (T, R, K) float64, -1 for categories without ground truths."""
        key = ("precision", area, limit)
        return self._once(key, lambda: self._with_absent(self.tables([area], limit)[0].precision, area))

    def scores(self, area: int, limit: int) -> Tensor:
        """Return the score of the first hit that reaches each recall level: (T, R, K) float64.

        It is 0 if no hit does, -1 for categories without ground truths, and the highest score at levels of 0, which
        need no hit.
        """

        def all_categories() -> Tensor:
            scores = self.tables([area], limit, scores=True)[0].scores
            assert scores is not None
            scores = scores.masked_fill(scores == -torch.inf, 0)
            scores[:, self.levels <= 0] = self.matches.best_score()[self.matches.relevant[area] > 0]
            return self._with_absent(scores, area)

        return self._once(("scores", area, limit), all_categories)

    def _with_absent(self, values: Tensor, area: int) -> Tensor:
        """Return (T, R, K) values from (T, R, K') of the categories with ground truths; -1 for the others."""
        present = self.matches.relevant[area].nonzero().squeeze(1)
        out = values
        if len(present) < self.matches.categories:
            out = values.new_full((*values.shape[:2], self.matches.categories), -1).index_copy_(2, present, values)
        return out if self._shares is None else self._shares.combine(out.transpose(1, 2)).transpose(1, 2)

    @arrays.quiet
    def recall(self, area: int, limit: int) -> Tensor:
        """Return the recall of all detections: (T, K) float64, -1 for categories without ground truths."""
        if (table := self._results.get(("table", area, limit))) is not None:
            return self._with_absent(table.recall[:, None], area)[:, 0]
        m = native(self.matches.relevant)[area]
        if ("curve", area, limit) in self._results:
            hits = self.curve(area, limit).offsets.diff().reshape(self.shape)
        else:
            hits = self.matches.hits(area, self.settings.limits[limit])
        recall = segments.as_float64(native(self._all_categories(hits))) / segments.as_float64(m)
        return arrays.tensor(arrays.namespace(m).where(m > 0, recall, -1.0))

    def every(self, name: str) -> Tensor:
        """Return "precision", "scores" or "recall" for all area ranges and limits: (T, [R,] K, A, M)."""
        areas, limits = range(len(self.settings.areas)), range(len(self.settings.limits))
        for limit in limits if name != "recall" else ():
            self.tables(areas, limit, scores=name == "scores")
        compute = {"precision": self.precision, "scores": self.scores, "recall": self.recall}[name]
        return torch.stack([torch.stack([compute(a, m) for m in limits], -1) for a in areas], -2)

    @property
    def levels(self) -> Tensor:
        """The recall levels: (R,)."""
        return segments.constants(self.settings.levels, self.labels.device)

    def _all_categories(self, values: Tensor) -> Tensor:
        """Return the (T, K, ...) values of all categories; other processes compute some of them."""
        return values if self._shares is None else self._shares.combine(values)

    def threshold(self, value: float) -> int | None:
        """Return the index of the IoU threshold ``value``; None if it is not among the thresholds."""
        thresholds = self.settings.thresholds
        return thresholds.index(value) if value in thresholds else None

    def mean_precision(self, area: int = 0, threshold: float | None = None) -> Tensor:
        """Return the mean precision over thresholds (or one), levels and categories: 0-d float64, -1 if undefined."""
        mean = self._mean_of(Number("map", False, area, self._last, threshold))
        return mean if isinstance(mean, Tensor) else torch.tensor(mean, dtype=torch.float64, device="cpu")

    def _mean_of(self, number: Number) -> Tensor | float:
        """Return the value of a number, -1 if it is undefined."""
        area, labels = number.area, number.labels
        values = self._recall_values(area, number.limit) if number.is_recall else self._precision_values(area)
        if number.iou is not None:
            index = self.threshold(number.iou)
            values = values[:0] if index is None else values[index]
        return self._mean(values, area, None if labels is None else self.is_among(labels))

    def is_among(self, labels: Tensor) -> Tensor:
        """Return which categories have one of these labels, (K,) bool."""
        return torch.isin(self.labels, labels.to(self.labels.device))

    def _mean(self, values: Tensor, area: int, inside: Tensor | None = None) -> Tensor | float:
        """Return the mean of values of (..., K), or of (..., K') categories with ground truths.

        A tensor on CPU has a float as its mean, unless there are several slices.

        Args:
            values: the values.
            area: the area range.
            inside: bool, the categories of the mean, from the first one on; None for all.
        """
        if self._slices is None:
            values = values if inside is None else values[..., : len(inside)][..., inside]
            are_defined = self.settings.by_levels and self._shares is None
            return _mean_of_array(values.numpy()) if are_defined and values.is_cpu else mean_of_defined(values)
        relevant = self.matches.relevant[area].view(self._slices, -1)
        sizes = relevant > 0 if values.shape[-1] < relevant.numel() else torch.ones_like(relevant)
        values_of_slices = list(torch.split(values, sizes.sum(1).tolist(), -1))
        if inside is not None:
            values_of_slices = [x[..., : len(inside)][..., inside] for x in values_of_slices]
        if values.is_cpu:
            return torch.tensor([mean_of_defined(x) for x in values_of_slices], dtype=torch.float64)
        return torch.stack([torch.as_tensor(mean_of_defined(x)) for x in values_of_slices])

    def _precision_values(self, area: int) -> Tensor:
        """Return the values averaged by :meth:`mean_precision`.

        (T, R, K), or (T, R, K') for the categories with ground truths; means over the levels, (T, K), unless the
        settings require one mean over levels and categories.
        """
        if self.settings.by_levels and self._shares is None:
            table = self._results.get(("table", area, self._last)) or self.tables([area], self._last)[0]
            precision: Tensor = table.precision
            return precision
        if self.settings.by_levels:
            return self.precision(area, self._last)

        def means() -> Tensor:
            curve = self.curve(area, self._last)
            hits = segments.as_float64(curve.cumulative_hits)
            precision = hits / (segments.as_float64(curve.cumulative_items - curve.cumulative_hits) + hits + SPACING)
            values = interpolation.mean_over_levels(curve, precision, self.levels)
            return self._all_categories(torch.where(curve.m > 0, values, -1).reshape(self.shape))

        return self._once(("mean", area), means)

    def _recall_values(self, area: int, limit: int) -> Tensor:
        """Return :meth:`recall`, or (T, K') for the categories with ground truths."""
        if self._shares is not None or not self.settings.by_levels:
            return self.recall(area, limit)
        if limit != self._last and self.settings.limits[limit] > self._last_place:
            limit = self._last
        if (table := self._results.get(("table", area, limit))) is not None:
            recall: Tensor = table.recall
            return recall
        m = native(self.matches.relevant)[area]
        present = m > 0
        hits = native(self.matches.hits(area, self.settings.limits[limit]))[:, present]
        return arrays.tensor(segments.as_float64(hits) / segments.as_float64(m[present]))

    @cached_property
    def _last_place(self) -> int:
        """The highest place of a matched detection in its group."""
        places = arrays.take(native(self.matches.ranked.place), native(self.matches.at))
        return int(places.max()) if len(places) else -1

    def summary(self, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """Return COCO's numbers by torchmetrics' names."""
        if self.settings.by_levels:
            self.tables(range(len(self.settings.areas)), self._last)
        numbers = {number.name: self._mean_of(number) for number in self.settings.numbers}
        if any(isinstance(value, Tensor) for value in numbers.values()):
            return {name: torch.as_tensor(value).to(dtype) for name, value in numbers.items()}
        values = torch.from_numpy(np.array(list(numbers.values()))).to(dtype)
        return dict(zip(numbers, values.unbind(), strict=True))

    def category_means(self) -> tuple[Tensor, Tensor]:
        """Return AP and AR of each category at the last limit: (K,) each, -1 without ground truths."""
        absent = self.matches.relevant[0] == 0
        precision = self.precision(0, self._last) if self.settings.by_levels else self._precision_values(0)
        means = precision.mean(tuple(range(precision.ndim - 1))), self.recall(0, self._last).mean(0)
        ap, ar = (torch.where(absent, -1, mean) for mean in means)
        return (ap, ar) if self._slices is None else (ap.view(self._slices, -1), ar.view(self._slices, -1))

    def category_precision(self, threshold: float) -> Tensor:
        """Return the (K,) AP of each category at one IoU threshold; -1 without ground truths or if it is unknown."""
        index = self.threshold(threshold)
        absent = self.matches.relevant[0] == 0
        if index is None:
            return torch.full(absent.shape, -1.0, dtype=torch.float64, device=absent.device)
        return torch.where(absent, -1, self.ranking_precision(0, self._last, index))

    def ranking_precision(self, area: int, limit: int, threshold: int) -> Tensor:
        """Return the (K,) AP of each of :meth:`rankings`; NaN without ground truths."""
        values = self.precision(area, limit)[threshold].mean(0)
        return torch.where(self.matches.relevant[area] > 0, values, torch.nan)


def mean_of_defined(values: Tensor) -> Tensor | float:
    """Return the mean of the values above -1; -1 if there are none. On CPU a float, in COCO's order of summation."""
    if values.is_cpu:
        array = values.numpy()
        return _mean_of_array(array[array > -1] if array.size and array.min() <= -1 else array)
    defined = values > -1
    count = defined.sum()
    return torch.where(count > 0, torch.where(defined, values, 0).sum() / count.clamp(min=1), -1.0)


def _mean_of_array(values: Array) -> float:
    """Return the mean of an array in COCO's order of summation; -1 without values."""
    return float(np.add.reduce(values.reshape(-1)) / values.size) if values.size else -1.0  # as `mean`, but faster
