"""Costs of the errors of a detector, and their differences between two detectors, by resamples of the images."""

import functools
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.detectors import Scenes
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.detection.errors.outcomes import Outcomes, outcomes_of
from torch_ap.detection.errors.resampled_costs import cost_intervals, error_costs
from torch_ap.detection.errors.tide import KINDS, Fixes
from torch_ap.inference.groups import Groups
from torch_ap.inference.resampling import Resampling

_SIZES = ((5, 50, 1), (5, 200, 1), (5, 100, 10), (5, 200, 4))  # classes, images, and images of a group
_LEVEL, _REPLICATES, _SETS = 0.95, 200, 2000  # sets of images whose mean cost is the truth
_BACKGROUND = 0.1


def outcomes(scenes: Scenes) -> Outcomes:
    """Return the outcomes of a detector at an IoU of 0.5."""
    return outcomes_of(scenes.detected()._matches_at(0.5), _BACKGROUND)


@functools.cache
def truths(classes: int, images: int, together: int) -> Tensor:
    """Return the mean cost of each kind over many sets of as many images, (8,)."""
    generator, rows = torch.Generator().manual_seed(0), []
    for _ in range(_SETS):
        one = outcomes(Scenes(images, classes, generator, together))
        ranked = Fixes(one).rankings()
        rows.append(error_costs(ranked, ranked.unit_weights, one.at.interpolation)[0])
    return torch.stack(rows).mean(0)


def covered(classes: int, images: int, together: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Return how often the intervals contain the mean cost, and those of equally good detectors a difference of 0."""
    found, truth = Tally(), truths(classes, images, together).tolist()
    groups = Groups.from_ids(torch.arange(images) // together) if together > 1 else None
    for _ in range(repetitions):
        scenes = Scenes(images, classes, generator, together)
        resampling = Resampling(_REPLICATES, generator)
        (interval, _), differences, _ = cost_intervals(
            [outcomes(scenes), outcomes(scenes)], confidence_level=_LEVEL, resampling=resampling, groups=groups
        )
        ends = zip(interval.low.tolist(), interval.high.tolist(), differences, strict=True)
        for name, value, (low, high, difference) in zip(KINDS, truth, ends, strict=True):
            tally(found, (name, "exists"), low == low)
            if low == low:
                tally(found, (name,), low <= value <= high, high - low)
            if not difference.low.isnan():
                tally(found, (name, "difference"), difference.low <= 0 <= difference.high)
    return found


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(covered, _SIZES, options.resampled, 100), _lines)]


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    shares = [share for tallies in found.values() for key, share in tallies.items() if len(key) == 1]
    out = [
        "\n## Costs of the errors of a detector, over images, at 95%\n",
        "Detectors and images as in the section on two detectors. The truth is the mean cost over "
        f"{_SETS:,} sets of as many images. Bootstrap of the images, or of groups of equally hard images, with "
        f"{_REPLICATES} resamples, logit and t. Errors in fewer than 5 images, or groups, have no interval; a column "
        "has the share of samples with one. The last column is for two equally good detectors. "
        f"{max(x.trials for x in shares)} repetitions, s.e. up to "
        f"{report.largest_error(shares)}.\n",
    ]
    columns = ("cost", "intervals", "covers", "mean width", "difference covers 0")
    out += report.head("classes", "images", "in a group", "kind", *columns)
    for (classes, images, together), tallies in found.items():
        for name, cost in zip(KINDS, truths(classes, images, together).tolist(), strict=True):
            share, difference = tallies.get((name,), Share()), tallies.get((name, "difference"), Share())
            cells = [str(classes), str(images), str(together), name.replace("_", " "), f"{cost:.3f}"]
            cells.append(f"{tallies[name, 'exists'].value:.3f}")
            cells += [f"{share.value:.3f}", report.width([share])] if share.trials else ["", ""]
            out.append(report.row(*cells, f"{difference.value:.3f}" if difference.trials else ""))
    return out
