"""``--operating-points`` of the detection commands: a score threshold for each class and for all classes together."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch_ap.cli.tables import Part, Report, Table, level_heads, number
from torch_ap.core.base.class_names import ClassNames, label_names
from torch_ap.detection.errors.operating_points import operating_points
from torch_ap.detection.metrics.base import DetectionMetric
from torch_ap.inference.operating_point import ThresholdCriterion

_COLUMNS = ("threshold", "precision", "recall", "f_beta", "tp", "fp", "fn")


class OperatingPointReport(Report):
    """Operating points of a detector at the IoU threshold 0.5, or the lowest if 0.5 is not among the thresholds."""

    def __init__(self, args: argparse.Namespace, metric: DetectionMetric, class_names: ClassNames) -> None:
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
        head = [x.replace("f_beta", beta) for x in _COLUMNS]
        for name in ("recall", "precision"):
            head[head.index(name) + 1 : head.index(name) + 1] = level_heads(args.confidence_level)
        columns = {name: x for name, x in classes.items() if isinstance(x, list)}
        points = [{name: x[k] for name, x in columns.items()} for k in range(len(classes["name"]))]
        rows = [("all", *_row(self._all)), *((point["name"], *_row(point)) for point in points)]
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


def _row(point: dict[str, Any]) -> list[str]:
    """Return the cells of a point; counts without a threshold are "-"."""
    cells = []
    for name in _COLUMNS:
        cells.append("-" if point["threshold"] is None else number(point[name]))
        if name in ("precision", "recall"):
            cells += [number(point[f"{name}_{end}"]) for end in ("low", "high")]
    return cells
