"""``--errors`` of the detection commands: what a detector gets wrong, and what it costs."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.detection import DETECTION_KINDS
from torch_ap.metrics.images import DetectionMetric
from torch_ap.rules.class_names import ClassNames, names_of

_KINDS = (*DETECTION_KINDS[1:6], "missed", "false_positives", "false_negatives")


def with_errors(
    report: Report, args: argparse.Namespace, metric: DetectionMetric, names: ClassNames, ap: str = "ap"
) -> Report:
    """A report with the errors, where they are asked for, and those of each class where these are.

    Args:
        report: what is said beside them.
        args: of the command.
        metric: whose errors they are.
        names: of the classes.
        ap: what average precision is called.
    """
    if not args.errors:
        return report
    told = metric.errors(class_names={})  # two categories of a file may have one name
    told.per_class["name"] = names_of(told.per_class["class"], names)
    found = _Errors(told.to_dict(), per_class=args.per_class, ap=ap)
    markdown = report.markdown
    return replace(
        report,
        parts=lambda: [*report.parts(), *found.parts()],
        records=lambda: [*report.records(), *found.records()],
        document=lambda: {**report.document(), "errors": found.document()},
        markdown=markdown and (lambda: [*markdown(), *found.parts()]),
    )


class _Errors:
    """The parts of a report.

    Args:
        found: the errors, in plain Python.
        per_class: whether those of each class are given too.
        ap: what average precision is called.
    """

    def __init__(self, found: dict[str, Any], *, per_class: bool, ap: str) -> None:
        self.found, self.of_classes, self.ap = found, per_class, ap
        found["per_class"] = {ap if name == "ap" else name: column for name, column in found["per_class"].items()}

    def parts(self) -> list[Part]:
        """Tables for people."""
        found = self.found
        rows = [(kind.replace("_", " "), number(found[kind]), str(found["counts"][kind])) for kind in _KINDS]
        title = (
            f"Errors at IoU {found['iou_threshold']:g}, background up to {found['background_threshold']:g}: AP is "
            f"{number(found['average_precision'])}, and would be higher by the cost without errors of that kind"
        )
        return [Table([("", "cost", "errors"), *rows], title=title), *self._each(found["per_class"])]

    def _each(self, table: dict[str, Any]) -> list[Part]:
        if not self.of_classes:
            return []
        columns = [[number(x) for x in table[name]] for name in (self.ap, *_KINDS[:6])]
        head = ("class", self.ap, *_KINDS[:6])
        title = "What errors of each kind cost in the AP of each class"
        return [Table([head, *zip(table["name"], *columns, strict=True)], title=title)]

    def records(self) -> list[Sequence[Any]]:
        """Rows of measure, class and value."""
        found = self.found
        rows: list[Sequence[Any]] = [(f"errors.{self.ap}", "all", found["average_precision"])]
        rows += [(f"errors.{kind}", "all", found[kind]) for kind in _KINDS]
        rows += [(f"errors.{kind}_count", "all", found["counts"][kind]) for kind in _KINDS]
        table = found["per_class"] if self.of_classes else {}
        for name in [x for x in table if x not in ("class", "name")]:
            rows += [(f"errors.{name}", label, value) for label, value in zip(table["name"], table[name], strict=True)]
        return rows

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {x: value for x, value in self.found.items() if self.of_classes or x != "per_class"}
