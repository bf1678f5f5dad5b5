"""``--operating-points`` of the detection commands: where to cut each class, and all classes together.

Nothing here imports torch before it is asked for, so that help appears at once.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch_ap.cli.tables import Report, Table, number

if TYPE_CHECKING:
    from torch import Tensor

    from torch_ap.matching.matched import Matches
    from torch_ap.metrics.images import DetectionMetric
    from torch_ap.rules.class_names import ClassNames

_COLUMNS = ("threshold", "precision", "recall", "f_beta", "tp", "fp", "fn")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options, which have to stand after those of resampling."""
    parser.add_argument(
        "--operating-points",
        action="store_true",
        help="also the score threshold of the best F of each class, and of all together, with precision, recall "
        "and their intervals over images; at --precision or --recall where one of them is given",
    )
    of = "with --operating-points: "
    parser.add_argument("--beta", type=float, metavar="B", help=f"{of}recall counts B times as much as precision")
    parser.add_argument("--precision", type=float, metavar="P", help=f"{of}at least this, with the highest recall")
    parser.add_argument("--recall", type=float, metavar="R", help=f"{of}at least this, with the highest precision")
    needs = dict.fromkeys(("beta", "precision", "recall"), "operating_points")
    parser.set_defaults(also={"confidence_level": ("operating_points",)}, needs=needs)


def with_points(
    report: Report, args: argparse.Namespace, metric: "DetectionMetric", class_names: "ClassNames"
) -> Report:
    """A report with the operating points at the IoU threshold .5, or the lowest, where they are asked for."""
    if not args.operating_points:
        return report
    from torch_ap.matching.shape_settings import place_of_threshold

    thresholds = metric._settings.thresholds
    matches, _, labels = metric._matched(metric._columns(), None)
    place = place_of_threshold(None, thresholds)
    each, together = _points(args, matches, place, labels, class_names)
    table = _table(args, each, together, thresholds[place])
    numbers = {"iou_threshold": thresholds[place], "all": together, "per_class": each}
    return replace(
        report,
        parts=lambda: [*report.parts(), table],
        records=lambda: [*report.records(), *_records(each, together)],
        document=lambda: report.document() | {"operating_points": numbers},
        markdown=None if report.markdown is None else (lambda of=report.markdown: [*of(), table]),  # type: ignore[misc]
    )


def _points(
    args: argparse.Namespace, matches: "Matches", place: int, labels: "Tensor", class_names: "ClassNames"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of each class, as columns, and of all classes together."""
    from torch_ap.analysis.operating_points import operating_points
    from torch_ap.inference.operating_point import Wanted
    from torch_ap.rules.class_names import names_of

    wanted = Wanted(1.0 if args.beta is None else args.beta, args.precision, args.recall)
    settings: dict[str, Any] = {"beta": wanted.beta, "confidence_level": args.confidence_level}
    names = names_of(labels, class_names)
    one, other = (
        operating_points(matches, place, wanted, labels=labels, names=names, per_class=x, **settings).to_dict()
        for x in (True, False)
    )
    each = {"name": one.pop("names"), **one}
    return each, {name: x for name, x in other.items() if name not in ("names", "labels")}


def _table(args: argparse.Namespace, each: dict[str, Any], together: dict[str, Any], iou_threshold: float) -> Table:
    what = "beta" if args.precision is args.recall is None else "precision" if args.recall is None else "recall"
    chosen = f"the best F{together['beta']:g}" if what == "beta" else f"{what} of at least {getattr(args, what):g}"
    level = f"{100 * args.confidence_level:.10g}%"
    head = [x.replace("f_beta", f"F{together['beta']:g}") for x in _COLUMNS]
    for name in ("recall", "precision"):
        head[head.index(name) + 1 : head.index(name) + 1] = [f"{level} low", f"{level} high"]
    columns = {name: x for name, x in each.items() if isinstance(x, list)}
    points = [{name: x[k] for name, x in columns.items()} for k in range(len(each["name"]))]
    rows = [("all", _row(together)), *((one["name"], _row(one)) for one in points)]
    title = f"Operating points of {chosen}, at IoU {iou_threshold:g}: keep scores of at least the threshold"
    title += f" ({each['reason']})" if each["reason"] else ""
    return Table([("class", *head), *((name, *row) for name, row in rows)], title=title)


def _row(point: dict[str, Any]) -> list[str]:
    cells = []
    for name in _COLUMNS:
        value = point[name]
        nowhere = point["threshold"] is None
        cells.append("-" if nowhere else str(value) if isinstance(value, int) else number(value))
        if name in ("precision", "recall"):
            cells += [number(point[f"{name}_{end}"]) for end in ("low", "high")]
    return cells


def _records(each: dict[str, Any], together: dict[str, Any]) -> list[Sequence[Any]]:
    """Rows of measure, class and value."""
    numbers = [name for name in together if isinstance(each.get(name), list)]
    return [
        (f"operating_point.{name}", of, value)
        for name in numbers
        for of, value in zip(("all", *each["name"]), (together[name], *each[name]), strict=True)
    ]
