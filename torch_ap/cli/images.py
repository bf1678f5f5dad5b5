"""What the detection commands have in common: what they say of their numbers, of one list of detections or several."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from torch_ap.cli.notes import end_of, named, note
from torch_ap.cli.progress import of_resamples
from torch_ap.files import entries
from torch_ap.inference.difference import Comparison, GroupComparison, of_groups
from torch_ap.inference.interval import Interval
from torch_ap.inputs.detections import image_of
from torch_ap.metrics.image_sample import UncertainImages
from torch_ap.metrics.images import DetectionMetric
from torch_ap.rules.messages import known_ids, shown

FIRST = ""  # of --compare: the first of the results is the baseline

Numbers: TypeAlias = dict[str, Any]
Columns: TypeAlias = dict[str, list[Any]]

_COMPARED = ("difference", "low", "high", "standard_error", "p_value", "reason")


@dataclass
class Found:
    """What is said of one list of detections, as far as it was asked for.

    Attributes:
        mean: mean average precision.
        values: numbers of the whole by name.
        labels: of the classes.
        classes: a row per class, by name of the column.
        slices: a row per slice.
        interval: ``map_low``, ``map_high`` and ``map_chance``; ``reason``, why there are none.
        compared: what the mean is above the baseline's.
        reasons: why numbers of classes and slices are missing, or were found by another rule.
    """

    mean: float
    values: Numbers
    labels: list[int]
    classes: Columns
    slices: Columns = field(default_factory=dict)
    interval: Numbers = field(default_factory=dict)
    compared: Numbers = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Paths:
    """Lists of detections, and which of them the others are compared with.

    Attributes:
        names: of those whose numbers are given, by path.
        baseline: a path, perhaps another than these; None where nothing is compared.
    """

    names: dict[str, str]
    baseline: str | None

    @property
    def every(self) -> list[str]:
        """Those whose numbers are given, and the baseline."""
        return list(dict.fromkeys([*self.names, *([] if self.baseline is None else [self.baseline])]))

    @property
    def compared(self) -> list[str]:
        """All but the baseline, or the only one."""
        return [path for path in self.names if path != self.baseline or len(self.names) == 1]

    @property
    def baseline_name(self) -> str:
        """What the baseline is called: as it was given, where the results are one."""
        assert self.baseline is not None
        return self.names[self.baseline] if len(self.names) > 1 else self.baseline


def paths_of(args: argparse.Namespace, given: Sequence[str]) -> Paths:
    """What ``--compare`` says of the lists of detections.

    Raises:
        ValueError: for one that is given twice, and for nothing to compare.
    """
    twice = next((path for place, path in enumerate(given) if path in given[:place]), None)
    if twice is not None:
        raise ValueError(f"{twice}: is given twice")
    baseline, shown_too = args.compare, list(given)
    if baseline == FIRST:
        if len(given) < 2:
            raise ValueError("--compare without BASELINE takes at least two lists of detections")
        baseline = given[0]
    elif baseline is not None and baseline not in given and len(given) > 1:
        shown_too.insert(0, baseline)
    if args.report is not None and (len(given) > 2 or (len(given) == 2 and baseline not in given)):
        raise ValueError(f"--report is of one list of detections, or with --compare of two, got {len(given)}")
    _check_of_one(args, len(shown_too))
    return Paths({path: end_of(path, set(shown_too) - {path}) for path in shown_too}, baseline)


def _check_of_one(args: argparse.Namespace, lists: int) -> None:
    for option in ("errors", "operating_points"):
        if getattr(args, option) and lists > 1:
            raise ValueError(f"--{option.replace('_', '-')} is of one list of detections, got {lists}")


def slices_of(args: argparse.Namespace, images: Sequence[Any]) -> dict[str, list[int]] | None:
    """The places of the images of each slice of ``--slices``.

    Args:
        args: of the command.
        images: ids of the images, or names.

    Raises:
        ValueError: for a file that is no object of lists, or names images that are not there, naming file and slice.
    """
    if args.slices is None:
        return None
    found, place = entries.load(args.slices), {image: at for at, image in enumerate(images)}
    if not isinstance(found, dict) or not found or not all(isinstance(x, list) for x in found.values()):
        raise ValueError(f"{args.slices}: must be a JSON object of names to lists of images")
    kind = type(images[0]) if images else int
    for name, listed in found.items():
        unknown = next((x for x in listed if type(x) is not kind or x not in place), None)
        if unknown is not None:
            also = known_ids(unknown, images)
            raise ValueError(f"{args.slices}: {shown(name)}: unknown image {shown(unknown)}{also}")
        if len(set(listed)) < len(listed):
            raise ValueError(f"{args.slices}: {shown(name)}: an image is named twice")
        if not listed:
            note(f"{args.slices}: {shown(name)}: names no image")
    return {name: [place[x] for x in listed] for name, listed in found.items()}


def evaluated(
    args: argparse.Namespace,
    paths: Paths,
    metrics: Mapping[str, DetectionMetric],
    found_of: Callable[[DetectionMetric], Found],
    slices: Mapping[str, list[int]] | None,
) -> dict[str, Found]:
    """What is said of each list of detections, by its name.

    Args:
        args: of the command.
        paths: of the lists.
        metrics: by path; the baseline's too.
        found_of: what the command itself says of one.
        slices: places of images.
    """
    out = {}
    for path, name in paths.names.items():
        metric = metrics[path]
        out[name] = found = found_of(metric)
        if slices is not None:
            found.slices = {x: v if isinstance(v, list) else v.tolist() for x, v in metric.per_slice(slices).items()}
        if args.interval:
            _add_intervals(found, metric, args, slices)
    if paths.baseline is not None:
        _add_comparisons(out, args, paths, metrics, slices)
    return out


def _add_intervals(
    found: Found, metric: UncertainImages, args: argparse.Namespace, slices: Mapping[str, Any] | None
) -> None:
    how = {"n_resamples": args.n_resamples, "progress": of_resamples()}
    mean = metric.confidence_interval(args.confidence_level, **how)
    chance = metric.chance_level(**how).item()
    found.interval = {
        "map_low": mean.low.item(),
        "map_high": mean.high.item(),
        "map_chance": chance,
        "reason": mean.reason,
    }
    if args.per_class:
        each = metric.confidence_interval(args.confidence_level, per_class=True, **how)
        found.classes = _behind(found.classes, "ap", {"ap_low": each.low.tolist(), "ap_high": each.high.tolist()})
        _add_reason(found, "intervals of classes", each)
    if slices is not None:
        each = metric.confidence_interval(args.confidence_level, slices=slices, **how)
        ends = {"map_low": each.low.tolist(), "map_high": each.high.tolist()}
        ends["map_chance"] = metric.chance_level(slices=slices, **how).tolist()
        found.slices = _behind(found.slices, "map", ends)
        _add_reason(found, "intervals of slices", each)


def _add_reason(found: Found, of: str, said: Interval | Comparison) -> None:
    if said.reason:
        found.reasons.append(f"{of}: {said.reason}")


def _behind(table: Columns, name: str, further: Columns) -> Columns:
    """A table with more columns behind one."""
    place = list(table).index(name) + 1
    return dict([*list(table.items())[:place], *further.items(), *list(table.items())[place:]])


def _add_comparisons(
    out: Mapping[str, Found],
    args: argparse.Namespace,
    paths: Paths,
    metrics: Mapping[str, DetectionMetric],
    slices: Mapping[str, Any] | None,
) -> None:
    """Each minus the baseline, of the mean, each class and each slice."""
    assert paths.baseline is not None
    baseline = metrics[paths.baseline]
    how = {"confidence_level": args.confidence_level, "n_resamples": args.n_resamples, "progress": of_resamples()}
    means: dict[str, Comparison] = {}
    for path in paths.compared:
        metric, name = metrics[path], paths.names[path]
        found = out[name]
        means[name] = metric.compare(baseline, **how)
        if args.per_class:
            names = list(map(str, found.labels))
            each = metric.compare(baseline, per_class=True, **how)
            found.classes |= _by_name(each, names)
            _add_reason(found, "comparisons of classes", each)
        if slices is not None:
            each = metric.compare(baseline, slices=slices, **how)
            found.slices |= _by_name(each, found.slices["slice"])
            _add_reason(found, "comparisons of slices", each)
    first = next(iter(means.values()))
    together = of_groups(means, **{x: getattr(first, x) for x in ("confidence_level", "method", "design")})
    for place, (name, mean) in enumerate(means.items()):
        numbers = {x: value for x, value in mean.to_dict().items() if x in _COMPARED}
        adjusted = {"adjusted_p_value": together.adjusted_p_value[place].item()} if len(paths.names) > 1 else {}
        out[name].compared = {"baseline": paths.baseline_name} | {x: numbers[x] for x in _COMPARED} | adjusted


def _by_name(found: Comparison, names: Sequence[str]) -> Columns:
    """The columns of a comparison of each class or slice, NaN for those it leaves out."""
    assert isinstance(found, GroupComparison)
    place = {name: at for at, name in enumerate(found.names)}
    columns = {"difference": found.difference, "difference_low": found.low, "difference_high": found.high}
    columns |= {"p_value": found.p_value, "adjusted_p_value": found.adjusted_p_value}
    return {x: [float(v[place[n]]) if n in place else float("nan") for n in names] for x, v in columns.items()}


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


def note_no_match(metric: DetectionMetric, results: str, similarity: str = "an IoU") -> None:
    """Say so where a mean of 0 means that nothing matches, which has no cause that is known."""
    if metric.compute()["map"] == 0:
        least = f"{min(metric._settings.thresholds):g}"
        limit = f"above {least}" if metric._settings.strict else f"of {least} or more"
        if metric._all_matched(None)[2].matched.any():
            only = "detections match only ground truths that do not count, such as crowds"
            note(f"{results}: at {similarity} {limit}, {only}")
            return
        note(
            f"{results}: no detection matches a ground truth of its image and class at {similarity} {limit}: "
            "are these the right files?"
        )


def note_copies(preds: Any, results: str) -> None:
    """Say so where a tenth of the boxes or more repeat others: of a match, each is a false positive."""
    if "boxes" not in preds:  # nor in a list, of other shapes
        return
    image = image_of(preds["counts"])
    keys = [x.numpy() for x in (*preds["boxes"].t(), preds["scores"], preds["labels"], image)]
    place = np.lexsort(keys)
    copies = np.count_nonzero(np.logical_and.reduce([key[place[1:]] == key[place[:-1]] for key in keys]))
    if copies and 10 * copies >= len(image):
        note(
            f"{results}: {copies:,} of {len(image):,} detections repeat another of their image, with its class, score "
            "and box: is the list joined with itself?"
        )
