"""Further reports on one list of detections: ``--errors`` and ``--operating-points``."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch_ap.cli.tables import Part, Report, Table, level_heads, number
from torch_ap.core.base.class_names import ClassNames, label_names
from torch_ap.detection.errors.operating_points import operating_points
from torch_ap.detection.errors.outcomes import DETECTION_KINDS
from torch_ap.detection.metrics import diagnosis
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.inference.operating_point import ThresholdCriterion

_KINDS = (*DETECTION_KINDS[1:6], "missed", "false_positives", "false_negatives")
_POINT_COLUMNS = ("threshold", "precision", "recall", "f_beta", "tp", "fp", "fn")


class ErrorReport(Report):
    """Errors of a detector.

    Args:
        metric: evaluated images of the detector.
        class_names: names of the classes.
        per_class: whether to add the errors of each class.
        ap: name of average precision.
    """

    def __init__(self, metric: DetectionAnalyses, class_names: ClassNames, *, per_class: bool, ap: str) -> None:
        errors = diagnosis.errors(metric, class_names={})  # labels, since two categories may have one name
        errors.per_class["name"] = label_names(errors.per_class["class"], class_names)
        self._errors, self._ap = errors.to_dict(), ap
        self._classes: dict[str, Any] = {}
        if per_class:
            columns = self._errors["per_class"].items()
            self._classes = {ap if name == "ap" else name: x for name, x in columns}

    def parts(self) -> Iterator[Part]:
        """Yield the table of all classes, then the table by class."""
        errors, names = self._errors, (self._ap, *_KINDS[:6])
        rows = [(kind.replace("_", " "), number(errors[kind]), str(errors["counts"][kind])) for kind in _KINDS]
        title = (
            f"Errors at IoU {errors['iou_threshold']:g}, background up to {errors['background_threshold']:g}: AP is "
            f"{number(errors['average_precision'])}, and would be higher by the cost without errors of that kind"
        )
        yield Table([("", "cost", "errors"), *rows], title=title)
        if self._classes:
            columns = [map(number, self._classes[name]) for name in names]
            title = "Cost of the errors of each kind in the AP of each class"
            yield Table([("class", *names), *zip(self._classes["name"], *columns, strict=True)], title=title)

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield rows of measure, class and value."""
        errors, classes = self._errors, self._classes
        yield (f"errors.{self._ap}", "all", errors["average_precision"])
        yield from ((f"errors.{kind}", "all", errors[kind]) for kind in _KINDS)
        yield from ((f"errors.{kind}_count", "all", errors["counts"][kind]) for kind in _KINDS)
        for name in (x for x in classes if x not in ("class", "name")):
            yield from ((f"errors.{name}", *row) for row in zip(classes["name"], classes[name], strict=True))

    def document(self) -> dict[str, Any]:
        """Return the errors, with a table of classes if requested."""
        document = self._errors | {"per_class": self._classes}
        return {name: x for name, x in document.items() if x or name != "per_class"}


class OperatingPointReport(Report):
    """Operating points of a detector at the IoU threshold 0.5, or the lowest if 0.5 is not among the thresholds."""

    def __init__(self, args: argparse.Namespace, metric: DetectionAnalyses, class_names: ClassNames) -> None:
        criterion = ThresholdCriterion(1.0 if args.beta is None else args.beta, args.precision, args.recall)
        at = metric._matches_at(class_names={})
        at = replace(at, names=label_names(at.labels, class_names))  # several categories may have one name
        each, together = (
            operating_points(at, criterion, per_class=per_class, confidence_level=args.confidence_level).to_dict()
            for per_class in (True, False)
        )
        self._args, self._iou_threshold = args, at.iou_threshold
        self._classes = {"name": each.pop("names"), **each}
        self._all = {name: x for name, x in together.items() if name not in ("names", "labels")}

    def parts(self) -> Iterator[Part]:
        """Yield the table of all classes together and each class."""
        args, beta, classes = self._args, f"F{self._all['beta']:g}", self._classes
        limits = {"precision": args.precision, "recall": args.recall}
        rules = [f"{name} of at least {limit:g}" for name, limit in limits.items() if limit is not None]
        head = [x.replace("f_beta", beta) for x in _POINT_COLUMNS]
        for name in ("recall", "precision"):
            head[head.index(name) + 1 : head.index(name) + 1] = level_heads(args.confidence_level)
        columns = {name: x for name, x in classes.items() if isinstance(x, list)}
        points = [{name: x[k] for name, x in columns.items()} for k in range(len(classes["name"]))]
        rows = [("all", *_point_cells(self._all)), *((point["name"], *_point_cells(point)) for point in points)]
        title = (
            f"Operating points of {rules[0] if rules else f'the best {beta}'}, at IoU {self._iou_threshold:g}: keep "
            f"scores of at least the threshold{f' ({reason})' if (reason := classes['reason']) else ''}"
        )
        yield Table([("class", *head), *rows], title=title)

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield rows of measure, class and value."""
        for name in (x for x in self._all if isinstance(self._classes.get(x), list)):
            yield (f"operating_point.{name}", "all", self._all[name])
            values = zip(self._classes["name"], self._classes[name], strict=True)
            yield from ((f"operating_point.{name}", *row) for row in values)

    def document(self) -> dict[str, Any]:
        """Return the points of all classes together and of each class."""
        return {"iou_threshold": self._iou_threshold, "all": self._all, "per_class": self._classes}


def _point_cells(point: dict[str, Any]) -> list[str]:
    """Return the cells of a point; counts without a threshold are "-"."""
    cells = []
    for name in _POINT_COLUMNS:
        cells.append("-" if point["threshold"] is None else number(point[name]))
        if name in ("precision", "recall"):
            cells += [number(point[f"{name}_{end}"]) for end in ("low", "high")]
    return cells
