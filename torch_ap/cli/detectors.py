"""Evaluation of lists of detections, shared by the detection commands: numbers, intervals, comparisons and the page."""

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from torch_ap.cli.best import BestReport
from torch_ap.cli.gates import Estimate, Gate, gates_of
from torch_ap.cli.notes import file_name, is_same_file, note, unique_suffix
from torch_ap.cli.options import exclude_options, option_of
from torch_ap.cli.progress import announced, resampling_options
from torch_ap.core.base.messages import short_repr, suggest_id
from torch_ap.core.base.options import settings_from
from torch_ap.core.metric.state import settings_text
from torch_ap.detection.errors.unmatchable import NO_AREA
from torch_ap.detection.files import entries
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.detection.metrics.coco_analyses import CocoEvaluation
from torch_ap.detection.metrics.voc_analyses import VocEvaluation
from torch_ap.detection.rules.coco_numbers import settings_of
from torch_ap.detection.rules.lvis import lvis_settings_of
from torch_ap.detection.rules.ultralytics import settings_by_convention
from torch_ap.inference import best_of_metrics
from torch_ap.inference.record import Comparison, GroupComparison, group_comparison

_WITHOUT_BEST = (
    "compare", "interval", "report", "per_class", "slices", "errors", "operating_points", "suspicious_labels",
    "fail_below",
)  # fmt: skip
_RULES: dict[str, tuple[Callable[..., Any], type[Any]]] = {
    "MeanAveragePrecision": (settings_of, CocoEvaluation),
    "LVISMeanAveragePrecision": (lvis_settings_of, CocoEvaluation),
    "VOCMeanAveragePrecision": (settings_by_convention, VocEvaluation),
}
_FIRST = ""  # value of --compare without a baseline: the first list is the baseline

Columns: TypeAlias = dict[str, list[Any]]
Groupings: TypeAlias = list[tuple[str, str, dict[str, Any]]]  # kind, measure, arguments of the metric


@dataclass
class Result:
    """Results of one list of detections.

    Attributes:
        values: numbers of all classes by name, the mean as ``map``.
        labels: labels of the classes.
        classes: a table by column name, with a row per class.
        slices: likewise, with a row per slice.
        interval: ``map_low``, ``map_high``, ``map_chance`` and ``reason``, or empty.
        compared: difference from the mean of the baseline, or empty.
        reasons: reasons for missing or doubtful numbers of classes and slices.
        units: numbers of ``images`` and ``clusters``, with ``--cluster``; else empty.
    """

    values: dict[str, Any]
    labels: list[int]
    classes: Columns
    slices: Columns = field(default_factory=dict)
    interval: dict[str, Any] = field(default_factory=dict)
    compared: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    units: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Paths:
    """Lists of detections and their baseline.

    Attributes:
        names: name of each list in results, by path.
        baseline: path of the baseline, which may be missing in ``names``; None without a comparison.
    """

    names: dict[str, str]
    baseline: str | None

    @classmethod
    def from_args(cls, args: argparse.Namespace, paths: Sequence[str]) -> "Paths":
        """Return the lists of a command and the baseline that ``--compare`` selects.

        Raises:
            ValueError: for a repeated path, a missing baseline, and too many lists for an option.
        """
        repeated = next((y for x, y in combinations(paths, 2) if is_same_file(x, y)), None)
        if repeated is not None:
            raise ValueError(f"{repeated}: is listed twice")
        if args.best:
            exclude_options(args, _WITHOUT_BEST, "with --best")
            if len(paths) < 2:
                raise ValueError("--best takes at least two lists of detections")
        baseline, listed = args.compare, list(paths)
        if baseline == _FIRST:
            if len(paths) < 2:
                raise ValueError("--compare without BASELINE takes at least two lists of detections")
            baseline = paths[0]
        elif baseline is not None:
            baseline = next((path for path in paths if is_same_file(path, baseline)), baseline)
            if baseline not in paths and len(paths) > 1:
                listed.insert(0, baseline)
        if args.simultaneous and not args.per_class:
            raise ValueError("--simultaneous needs --interval and --per-class")
        if args.report is not None and len(paths) > 1 and baseline is None:
            raise ValueError(f"--report takes one list of detections, or several with --compare, got {len(paths)}")
        for option in ("errors", "operating_points"):
            if getattr(args, option) and len(listed) > 1:
                raise ValueError(f"{option_of(option)} takes one list of detections, got {len(listed)}")
        return cls({path: unique_suffix(path, set(listed) - {path}) for path in listed}, baseline)

    @property
    def all(self) -> list[str]:
        """All paths, the baseline included."""
        return list(dict.fromkeys([*self.names, *([] if self.baseline is None else [self.baseline])]))

    @property
    def compared(self) -> list[str]:
        """All paths but the baseline, or the only path."""
        return [path for path in self.names if path != self.baseline or len(self.names) == 1]

    @property
    def baseline_name(self) -> str:
        """Name of the baseline in results; its path if there is one list."""
        assert self.baseline is not None
        return self.names[self.baseline] if len(self.names) > 1 else self.baseline


def evaluate_images(metric_name: str, options: Mapping[str, Any], data: Any, groups: Any = None) -> Any:
    """Return images evaluated by the rules of a metric; the metric itself would import torchmetrics, in two seconds.

    Args:
        metric_name: name of the metric class.
        options: arguments of the metric class.
        data: images, ``preds`` and ``target``.
        groups: (B,) integers, the group of each image, or None.
    """
    make_settings, evaluation = _RULES[metric_name]
    given = {name: x for name, x in options.items() if x is not None}
    source = f"{metric_name}({settings_text(given)})"
    return evaluation(settings_from(make_settings, options), data.preds, data.target, groups, source)


def evaluate(
    args: argparse.Namespace,
    paths: Paths,
    evaluate_path: Callable[[str], DetectionAnalyses],
    result_of: Callable[[Any], Result],
    images: Sequence[Any],
    class_names: Mapping[int, str],
    image_files: Sequence[str] | None = None,
) -> tuple[dict[str, DetectionAnalyses], dict[str, Result]]:
    """Evaluate lists of detections and write the page, if requested.

    Args:
        args: arguments of the command.
        paths: paths of the lists.
        evaluate_path: returns the evaluated images of a path.
        result_of: returns the result of evaluated images, without slices, interval and comparison.
        images: ids or names of the images.
        class_names: names of the labels.
        image_files: path of each image for the pictures of the page; None for no files.

    Returns:
        The evaluated images of each list by path, and the result of each list by name.
    """
    known = f"no label in `preds`|{NO_AREA}|An image has"  # the notes contain more
    warnings.filterwarnings("ignore", known, UserWarning)
    slices = _read_slices(args, images)
    metrics: dict[str, Any] = {path: evaluate_path(path) for path in paths.all}
    if args.report is not None:
        from torch_ap.reports import report

        system, *further = paths.compared
        others = [] if paths.baseline is None else [paths.baseline, *further]
        names = [paths.names[x] for x in (system, *others)] if further else system_names(system, paths.baseline)
        with announced(args.report):
            report(
                metrics[system],
                args.report,
                other=[metrics[x] for x in others],
                system_names=names,
                class_names=class_names,
                images=image_files,
                image_names=list(map(str, images)),
                slices=slices,
                simultaneous=args.simultaneous,
                confidence_level=args.confidence_level,
                **resampling_options(args),
            )
    groupings: Groupings = [("classes", class_measure(args), {"per_class": True})] if args.per_class else []
    groupings += [] if slices is None else [("slices", "map", {"slices": slices})]
    results = {}
    for path, name in paths.names.items():
        metric = metrics[path]
        results[name] = result = result_of(metric)
        if args.cluster is not None:
            result.units = {"images": len(images), "clusters": len(metric._known_groups().unique())}
        if slices is not None:
            columns = metric.per_slice(slices).items()
            result.slices = {key: x if isinstance(x, list) else x.tolist() for key, x in columns}
        if args.interval:
            _add_intervals(result, metric, args, groupings)
    if paths.baseline is not None:
        _add_comparisons(results, args, paths, metrics, groupings)
    return metrics, results


def class_measure(args: argparse.Namespace) -> str:
    """Return the name of the AP of a class over all thresholds."""
    return "ap" if getattr(args, "convention", None) is None else "map"


def gates_of_lists(args: argparse.Namespace, paths: Paths, metrics: Mapping[str, Any], name: str) -> list[Gate]:
    """Return the gates of each list but the baseline, for the mean, which has this name."""
    options = resampling_options(args)

    def value(metric: Any) -> Estimate:
        return lambda level: metric.confidence_interval(level, **options)

    def difference(metric: Any, baseline: Any) -> Estimate:
        return lambda level: metric.compare(baseline, confidence_level=level, **options)

    gates: list[Gate] = []
    for path in paths.names if paths.baseline is None else paths.compared:
        differences = {} if paths.baseline is None else {name: difference(metrics[path], metrics[paths.baseline])}
        baseline = "" if paths.baseline is None else paths.baseline_name
        values = {name: value(metrics[path])}
        gates += gates_of(args, paths.names[path], values, differences, baseline, lambda x: name if x == "map" else x)
    return gates


def best_of_lists(
    args: argparse.Namespace, paths: Paths, metrics: Mapping[str, Any], name: str, images: Sequence[Any]
) -> BestReport:
    """Return the best of several lists by the mean, which has this name."""
    systems = {paths.names[path]: metric for path, metric in metrics.items()}
    found = best_of_metrics(systems, confidence_level=args.confidence_level, **resampling_options(args))
    truths = args.ground_truths if args.command == "voc" else args.annotations
    facts = {"file": truths, "lists": len(systems), "images": len(images)}
    if args.cluster is not None:
        facts["clusters"] = len(next(iter(metrics.values()))._known_groups().unique())
    return BestReport(args, {name: found}, facts)


def _read_slices(args: argparse.Namespace, images: Sequence[Any]) -> dict[str, list[int]] | None:
    """Return the positions of the images of each slice of ``--slices``.

    Raises:
        ValueError: for a file that is not an object of lists, or contains unknown images; names file and slice.
    """
    if args.slices is None:
        return None
    slices, position = entries.load(args.slices), {image: place for place, image in enumerate(images)}
    if not isinstance(slices, dict) or not slices or not all(isinstance(x, list) for x in slices.values()):
        raise ValueError(f"{args.slices}: must be a JSON object of names to lists of images")
    kind = type(images[0]) if images else int
    for name, listed in slices.items():
        for unknown in (x for x in listed if type(x) is not kind or x not in position):
            hint = suggest_id(unknown, images)
            raise ValueError(f"{args.slices}: {short_repr(name)}: unknown image {short_repr(unknown)}{hint}")
        if len(set(listed)) < len(listed):
            raise ValueError(f"{args.slices}: {short_repr(name)}: an image is named twice")
        if not listed:
            note(f"{args.slices}: {short_repr(name)}: names no image")
    return {name: [position[x] for x in listed] for name, listed in slices.items()}


def _add_intervals(result: Result, metric: Any, args: argparse.Namespace, groupings: Groupings) -> None:
    """Add interval and chance level of the mean, each class and each slice."""
    options = resampling_options(args)
    mean = metric.confidence_interval(args.confidence_level, **options)
    ends = {
        "map_low": mean.low.item(),
        "map_high": mean.high.item(),
        "map_chance": metric.chance_level(**options).item(),
    }
    result.interval = ends | {"reason": mean.reason}
    for kind, measure, selection in groupings:
        at_once = {"simultaneous": True} if args.simultaneous and kind == "classes" else {}
        each = metric.confidence_interval(args.confidence_level, **selection, **at_once, **options)
        columns = {f"{measure}_low": each.low.tolist(), f"{measure}_high": each.high.tolist()}
        if kind == "slices":
            columns["map_chance"] = metric.chance_level(**selection, **options).tolist()
        table = list(getattr(result, kind).items())
        behind = [name for name, _ in table].index(measure) + 1
        setattr(result, kind, dict([*table[:behind], *columns.items(), *table[behind:]]))
        if reason := "; ".join(filter(None, ["they contain all values at once" if at_once else "", each.reason])):
            result.reasons.append(f"intervals of {kind}: {reason}")


def _add_comparisons(
    results: Mapping[str, Result],
    args: argparse.Namespace,
    paths: Paths,
    metrics: Mapping[str, Any],
    groupings: Groupings,
) -> None:
    """Add the comparison of each list with the baseline: of the mean, each class and each slice."""
    baseline = metrics[paths.baseline or ""]
    options = {"confidence_level": args.confidence_level, **resampling_options(args)}
    means: dict[str, Comparison] = {}
    for path in paths.compared:
        result = results[paths.names[path]]
        means[paths.names[path]] = metrics[path].compare(baseline, **options)
        for kind, _, selection in groupings:
            each = metrics[path].compare(baseline, **selection, **options)
            rows = list(map(str, result.labels)) if kind == "classes" else result.slices["slice"]
            getattr(result, kind).update(_comparison_columns(each, rows))
            if each.reason:
                result.reasons.append(f"comparisons of {kind}: {each.reason}")
    first = next(iter(means.values()))
    joint = group_comparison(means, **{name: getattr(first, name) for name in ("confidence_level", "method", "design")})
    for name, mean, adjusted in zip(means, means.values(), joint.adjusted_p_value.tolist(), strict=True):
        numbers = mean.to_dict()
        results[name].compared = {
            "baseline": paths.baseline_name,
            **{x: numbers[x] for x in ("difference", "low", "high", "standard_error", "p_value", "reason")},
            **({"adjusted_p_value": adjusted} if len(paths.names) > 1 else {}),
        }


def _comparison_columns(comparison: GroupComparison, rows: Sequence[str]) -> Columns:
    """Return the columns of a comparison of classes or slices; NaN for rows that it lacks."""
    place = {name: at for at, name in enumerate(comparison.names)}
    columns = {
        "difference": comparison.difference,
        "difference_low": comparison.low,
        "difference_high": comparison.high,
        "p_value": comparison.p_value,
        "adjusted_p_value": comparison.adjusted_p_value,
    }
    return {x: [float(v[place[n]]) if n in place else float("nan") for n in rows] for x, v in columns.items()}


def system_names(system: str, baseline: str | None) -> tuple[str, str]:
    """Return distinct names of two systems for a page: file names, with folders if the file names are equal."""
    names = tuple(file_name(x) for x in (system, system if baseline is None else baseline))
    short = tuple(Path(x).name or x for x in names)
    first, other = names if short[0] == short[1] and names[0] != names[1] else short
    return first, other if other != first else f"{other} (baseline)"
