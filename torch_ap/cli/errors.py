"""``--errors`` of the detection commands: errors of a detector by kind, and the AP that they cost."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.core.base.class_names import ClassNames, label_names
from torch_ap.detection import DETECTION_KINDS
from torch_ap.detection.metrics import diagnosis
from torch_ap.detection.metrics.base import DetectionMetric

_KINDS = (*DETECTION_KINDS[1:6], "missed", "false_positives", "false_negatives")


class ErrorReport(Report):
    """Errors of a detector.

    Args:
        metric: metric of the detector.
        class_names: names of the classes.
        per_class: whether to add the errors of each class.
        ap: name of average precision.
    """

    def __init__(self, metric: DetectionMetric, class_names: ClassNames, *, per_class: bool, ap: str) -> None:
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
