"""What the detection commands have in common: what they say of their number, and their tables."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_ap.cli.notes import named
from torch_ap.cli.progress import of_resamples
from torch_ap.cli.tables import number
from torch_ap.matching.coco import ClassNames
from torch_ap.metrics.image_sample import UncertainImages
from torch_ap.reports import report

_COMPARED = ("difference", "low", "high", "standard_error", "p_value", "reason")

Numbers = dict[str, Any]


def interval(metric: UncertainImages, args: argparse.Namespace) -> Numbers:
    """``map_low``, ``map_high`` and ``map_chance``; ``reason``, why there are none; ends of ``classes``."""
    how = {"n_resamples": args.n_resamples, "progress": of_resamples()}
    found = metric.confidence_interval(args.confidence_level, **how)
    chance = metric.chance_level(**how).item()
    numbers: Numbers = {
        "map_low": found.low.item(),
        "map_high": found.high.item(),
        "map_chance": chance,
        "reason": found.reason,
    }
    if args.per_class:
        each = metric.confidence_interval(args.confidence_level, per_class=True, **how)
        numbers["classes"] = {"ap_low": each.low.tolist(), "ap_high": each.high.tolist()}
    return numbers


def with_ends(table: dict[str, Any], ends: Numbers) -> dict[str, Any]:
    """A table of classes with the ends of their intervals behind the AP."""
    place = list(table).index("ap") + 1
    return dict([*list(table.items())[:place], *ends.items(), *list(table.items())[place:]])


def compared(metric: UncertainImages, baseline: UncertainImages, args: argparse.Namespace) -> Numbers:
    """This mean minus the baseline's."""
    how = {"confidence_level": args.confidence_level, "n_resamples": args.n_resamples, "progress": of_resamples()}
    found = metric.compare(baseline, **how).to_dict()
    return {name: found[name] for name in _COMPARED}


def write_page(
    args: argparse.Namespace, run: str, metric: UncertainImages, baseline: UncertainImages | None, names: ClassNames
) -> None:
    """The report, where it is asked for."""
    if args.report is not None:
        report(
            metric,
            args.report,
            other=baseline,
            system_names=system_names(run, args.compare),
            class_names=names,
            confidence_level=args.confidence_level,
            n_resamples=args.n_resamples,
            progress=of_resamples(),
        )


def system_names(run: str, baseline: str | None) -> tuple[str, str]:
    """Two different names for a report: of files without their folders, where these do not tell them apart."""
    names = tuple(named(x) for x in (run, run if baseline is None else baseline))
    short = tuple(Path(x).name or x for x in names)
    one, other = names if short[0] == short[1] and names[0] != names[1] else short
    return one, other if other != one else f"{other} (baseline)"


def refuse_empty(detections: int, path: str, allowed: bool) -> None:
    """No detections at all are an error, unless they are allowed: nothing was detected, or the wrong file was given."""
    if not detections and not allowed:
        raise ValueError(f"{path}: holds no detections (--allow-empty lets it pass)")


def stated(args: argparse.Namespace, run: str, interval: Numbers, compared: Numbers) -> list[str]:
    """Lines on each of the two that there is."""
    level = f"{100 * args.confidence_level:.10g}%"
    lines = []
    if interval:
        low, high, chance = (number(interval[name]) for name in ("map_low", "map_high", "map_chance"))
        lines.append(f"{level} interval of the mean: {low} to {high}{_because(interval)}")
        lines.append(f"Chance level of the mean: {chance} (the same boxes, their scores in random order)")
    if compared:
        difference, low, high = (number(compared[name], "+.4f") for name in ("difference", "low", "high"))
        p_value = number(compared["p_value"], ".4g")
        lines.append(
            f"{run} - {args.compare}: difference of the mean {difference}, {level} interval {low} to {high}, "
            f"p = {p_value}{_because(compared)}"
        )
    return lines


def _because(found: Mapping[str, Any]) -> str:
    """Why numbers are missing, or were found by another rule, behind them."""
    return f" ({found['reason']})" if found["reason"] else ""


def plain(found: Numbers) -> Numbers:
    """For programs: a reason only where there is one."""
    return {name: value for name, value in found.items() if value != ""}


def records(table: Mapping[str, Any] | None, interval: Numbers, compared: Numbers) -> list[Sequence[Any]]:
    """Rows of measure, class and value: those of each class, then what is said of the mean."""
    rows: list[Sequence[Any]] = []
    for measure, column in (table or {}).items():
        if measure not in ("class", "name"):
            rows += zip([measure] * len(column), (table or {})["name"], column, strict=True)
    further = plain(interval) | {f"compared.{name}": value for name, value in plain(compared).items()}
    return [*rows, *((name, "all", value) for name, value in further.items())]
