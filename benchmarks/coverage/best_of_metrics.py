"""The best of several metrics: detectors, averages over labels, and epochs of which few sums are stored."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import best, report
from benchmarks.coverage.best_in_groups import count
from benchmarks.coverage.detectors import Scenes
from benchmarks.coverage.detectors import limit as limit_of_detectors
from benchmarks.coverage.rankings import limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap import BestOf, BinaryAveragePrecision, MultilabelAveragePrecision
from torch_ap.inference import BestSystem, best_of_metrics

_REPLICATES, _ITEMS = 200, 500
_DETECTORS = ((5, 50, 1), (5, 200, 1), (5, 200, 4))  # classes, images, and images of a group
_LABELS = ((10, 25), (40, 20))  # labels, and hits of each on average
_EPOCHS = (("10 equal, close", 100), ("30 epochs", 200))  # systems, and stored sums


def detectors(classes: int, images: int, together: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Compare five equally good detectors."""
    truths, found = torch.full((5,), limit_of_detectors(classes), dtype=torch.float64), Tally()
    for _ in range(repetitions):
        scenes = Scenes(images, classes, generator, together)
        metrics = [scenes.detected(in_groups=together > 1) for _ in truths]
        select = partial(best_of_metrics, metrics, n_resamples=_REPLICATES, generator=generator)
        _tally(found, select, truths)
    return found


def averages(labels: int, hits: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Compare the macro averages of three equally good systems, whose scores correlate by .5."""
    share, found = hits / _ITEMS, Tally()
    truths = torch.full((3,), limit(share, 1.0), dtype=torch.float64)
    for _ in range(repetitions):
        target = (torch.rand(_ITEMS, labels, generator=generator) < share).long()
        common, *own = torch.randn(1 + len(truths), _ITEMS, labels, generator=generator)
        metrics = [MultilabelAveragePrecision(labels) for _ in own]
        for metric, noise in zip(metrics, own, strict=True):
            metric.update((common + noise) / 2**0.5 + target, target)
        _tally(found, partial(best_of_metrics, metrics), truths)
    return found


def epochs(name: str, max_units: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Compare the epochs of :class:`torch_ap.BestOf` with few stored sums of contributions."""
    truths, found = best.truths_of(name), Tally()
    for scores, relevant in best.samples(name, repetitions, generator):
        metric = BestOf(BinaryAveragePrecision(), max_units)
        for row in scores:
            metric.update(row, relevant.long())
            metric.compute()
            metric.reset()
        _tally(found, metric.best, truths)
    return found


def _tally(found: Tally, select: Callable[[], BestSystem], truths: Tensor) -> None:
    """Count the intervals and tests of a sample, and sum the errors of the values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = select()
    count(found, "covers", one, truths)
    for name in ("value", "corrected"):
        tally(found, ("bias", name), (getattr(one, name).cpu().double() - truths[one.best]).nan_to_num())


def sections(options: Options) -> list[Section]:
    tasks = [
        *tasks_of(detectors, _DETECTORS, options.repetitions, 25),
        *tasks_of(averages, _LABELS, options.repetitions, 50),
        *tasks_of(epochs, _EPOCHS, options.repetitions, 100),
    ]
    return [Section(tasks, _lines)]


def _name(configuration: tuple[Any, ...]) -> str:
    first, second, *together = configuration
    if isinstance(first, str):
        return f"{first}, `BestOf(max_units={second})`"
    if together:
        of_groups = f" in groups of {together[0]}" if together[0] > 1 else ""
        return f"5 equal detectors of {first} classes, {second} images{of_groups}"
    return f"3 equal systems, macro average of {first} labels of {second} hits, {_ITEMS} items"


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    keys = (("covers",), ("covers", "all"), ("covers", "error"))
    shares = [tallies[key] for tallies in found.values() for key in keys if key in tallies]
    repetitions, error = max(x.trials for x in shares), report.largest_error(shares)
    out = [
        f"\n## The best of several metrics, `best_of_metrics` and `BestOf`: {repetitions} repetitions\n",
        f'Method "hybrid" at 95%; the detectors of the section on two detectors, with {_REPLICATES} resamples. The '
        f"epochs are those systems of the section on `best_of`, with 2,000 items. s.e. up to {error}. "
        "Rejections of any pair are for equal systems, at 5%. Bias of the best value, and of its corrected value.\n",
    ]
    out += report.head("systems", "covers", "mean width", "all at once", "any pair", "bias: value", "corrected")
    for configuration, tallies in found.items():
        cells = [_name(configuration), f"{tallies['covers',].value:.3f}", report.width([tallies["covers",]])]
        cells += [f"{tallies[key].value:.3f}" if key in tallies else "-" for key in keys[1:]]
        cells += [f"{tallies['bias', x].value:+.4f}" for x in ("value", "corrected")]
        out.append(report.row(*cells))
    return out
