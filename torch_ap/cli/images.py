"""What the detection commands say of their number beside it: interval, chance, difference to a baseline."""

import argparse
import math
from collections.abc import Mapping

from torch_ap.metrics.image_sample import UncertainImages

_COMPARED = ("difference", "low", "high", "standard_error", "p_value")

Numbers = dict[str, float]


def interval(metric: UncertainImages, args: argparse.Namespace) -> Numbers:
    """``map_low``, ``map_high`` and ``map_chance``."""
    summary = metric.summary(args.confidence_level, n_resamples=args.n_resamples)
    return {name: summary[name].item() for name in ("map_low", "map_high", "map_chance")}


def compared(metric: UncertainImages, baseline: UncertainImages, args: argparse.Namespace) -> Numbers:
    """This mean minus the baseline's."""
    found = metric.compare(baseline, confidence_level=args.confidence_level, n_resamples=args.n_resamples).to_dict()
    return {name: found[name] for name in _COMPARED}


def refuse_empty(detections: int, path: str, allowed: bool) -> None:
    """No detections at all are an error, unless they are allowed: nothing was detected, or the wrong file was given."""
    if not detections and not allowed:
        raise ValueError(f"{path}: holds no detections (--allow-empty lets it pass)")


def interval_line(found: Mapping[str, float], level: float) -> str:
    """The interval and the chance level, as a line."""
    return (
        f"{100 * level:.10g}% interval of the mean {found['map_low']:.4f} to {found['map_high']:.4f}; "
        f"chance, the scores shuffled, {found['map_chance']:.4f}"
    )


def compared_line(run: str, baseline: str, found: Mapping[str, float], level: float) -> str:
    """The difference, as a line."""
    return (
        f"{run} - {baseline}: difference of the mean {found['difference']:+.4f}, {100 * level:.10g}% interval "
        f"{found['low']:+.4f} to {found['high']:+.4f}, p = {found['p_value']:.4g}"
    )


def plain(found: Numbers) -> dict[str, float | None]:
    """The same for JSON, which has no NaN: null."""
    return {name: None if math.isnan(value) else value for name, value in found.items()}
