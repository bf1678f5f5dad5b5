"""Numbers of Ultralytics for ``torch-ap coco`` and ``torch-ap voc`` with ``--convention``."""

from collections.abc import Mapping

from torch_ap.cli.detectors import Result
from torch_ap.cli.image_tables import Layout, Rows
from torch_ap.cli.tables import Part
from torch_ap.core.base.class_names import label_names
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.detection.metrics.voc_analyses import VocAnalyses

_HEADS = {"precision": "P", "recall": "R", "map_50": "mAP50", "map": "mAP50-95"}


def result_of(evaluation: VocAnalyses, class_names: Mapping[int, str], *, per_class: bool) -> Result:
    """Return the numbers of a convention, and with ``per_class`` the table of classes."""
    numbers = evaluation.compute()
    values = {name: x.item() for name, x in numbers.items() if "_per_" not in name and name != "classes"}
    if not per_class:
        return Result(values, [], {})
    labels = numbers["classes"].reshape(-1)
    columns = {name: numbers[f"{name}_per_class"].reshape(-1).tolist() for name in _HEADS if name in values}
    return Result(values, labels.tolist(), {"name": label_names(labels, class_names), **columns})


class UltralyticsLayout(Layout):
    """The numbers that Ultralytics prints: P and R at the score with the best F1, mAP50 and mAP50-95.

    Args:
        evaluation: evaluated images of one of the lists.
    """

    head = ("number",)

    def __init__(self, evaluation: DetectionAnalyses) -> None:
        self.title = f"Numbers of Ultralytics, by the convention {evaluation._settings.interpolation}"
        self.classes_title = "Each class"

    def rows(self, result: Result) -> Rows:
        """Return the name and the value of each number."""
        return [((_HEADS[name],), value) for name, value in result.values.items() if name in _HEADS]

    def summary(self, result: Result) -> list[Part]:
        """Return the table of the numbers of all classes."""
        columns = {name: [result.values[name]] for name in _HEADS if name in result.values}
        score = f"P and R at score {self.cell(result.values['score'])}, the highest mean F1"
        return [self.table("class", ["all"], columns, f"{self.title}; {score}")]

    def label(self, name: str) -> str:
        """Return the name of a number as Ultralytics prints it."""
        return _HEADS.get(name, name)
