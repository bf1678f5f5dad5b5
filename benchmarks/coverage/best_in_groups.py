"""The best of several equally good or different systems on items in groups, and on queries in topics."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.groups import sample
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.functional import binary_average_precision
from torch_ap.inference import BestSystem, best_of, best_of_per_query

_NOMINAL, _LARGE = 0.05, 20_000  # groups of the population
_EFFECTS = (0.7, 1.0, -1.5)  # as in the section on two systems in groups
_SYSTEMS: dict[str, tuple[float, ...]] = {"5 equal": (1.5,) * 5, "5 rising": (1.1, 1.2, 1.3, 1.4, 1.5)}
_CASES = (
    (10, 100, "equal", "5 equal"), (20, 50, "geometric", "5 equal"), (50, 20, "equal", "5 rising"),
    (200, 5, "geometric", "5 equal"),
)  # fmt: skip
_TOPICS = ((10, 10, "5 equal"), (20, 5, "5 equal"), (50, 4, "5 rising"))  # topics, and queries of each


@functools.cache
def average_precisions(size: int, sizes: str, systems: str) -> Tensor:
    """Return the AP of each system for the items of many groups."""
    distances, generator = _SYSTEMS[systems], torch.Generator().manual_seed(0)
    each = {}
    for distance in dict.fromkeys(distances):
        (scores,), target, _ = sample(_LARGE, size, sizes, _EFFECTS, (distance,), 0.0, generator)
        each[distance] = float(binary_average_precision(scores.double(), target))
    return torch.tensor([each[x] for x in distances], dtype=torch.float64)


def items(groups: int, size: int, sizes: str, systems: str, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Compare with the AP of the items of many groups."""
    truths, found = average_precisions(size, sizes, systems), Tally()
    for _ in range(repetitions):
        scores, target, ids = sample(groups, size, sizes, _EFFECTS, _SYSTEMS[systems], 0.5, generator)
        _tally(found, functools.partial(best_of, torch.stack(scores), target), truths, ids)
    return found


def values_in_topics(means: Tensor, topics: int, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the (S, Q) values of systems with these means, and the topic of each query."""
    ids = torch.arange(topics).repeat_interleave(size)
    shared, own = (torch.rand(x, topics, generator=generator) - 0.5 for x in (1, len(means)))
    noise = torch.rand(len(means), topics * size, generator=generator) - 0.5
    return means[:, None] + (0.4 * shared + 0.2 * own)[:, ids] + 0.3 * noise, ids  # inside [0, 1]


def queries(topics: int, size: int, systems: str, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Compare with the means of values whose topics have effects on all systems and on each."""
    means, found = torch.tensor(_SYSTEMS[systems], dtype=torch.float64) / 4 + 0.175, Tally()
    for _ in range(repetitions):
        values, ids = values_in_topics(means, topics, size, generator)
        _tally(found, functools.partial(best_of_per_query, values), means, ids)
    return found


def _tally(found: Tally, select: Callable[..., BestSystem], truths: Tensor, ids: Tensor) -> None:
    """Count the intervals that contain the truth, and the samples with a significant pair of equal systems."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = {"groups": select(groups=ids), "independent": select()}
    for method, one in every.items():
        count(found, method, one, truths)


def count(found: Tally, method: str, one: BestSystem, truths: Tensor) -> None:
    """Count whether the intervals contain the truths, and whether a pair of equal systems is significant."""
    if one.low.isnan():
        return
    tally(found, (method,), bool(one.low <= truths[one.best] <= one.high), float(one.high - one.low))
    inside = (one.simultaneous_low <= truths) & (truths <= one.simultaneous_high)
    tally(found, (method, "all"), bool(inside.all()))
    equal = (truths[:, None] == truths) & ~torch.eye(len(truths), dtype=torch.bool)
    if equal.any():
        tally(found, (method, "error"), bool((one.adjusted_p_value[equal] <= _NOMINAL).any()))


def sections(options: Options) -> list[Section]:
    many = options.repetitions
    parts: list[tuple[Callable[..., Tally], Any, str, str]] = [
        (items, _CASES, "items in groups, `best_of(groups=)`", "items"),
        (queries, _TOPICS, "queries in topics, `best_of_per_query(groups=)`", "queries"),
    ]
    return [
        Section(tasks_of(run, cases, many, 250), functools.partial(_lines, title, unit))
        for run, cases, title, unit in parts
    ]


def _lines(title: str, unit: str, found: dict[tuple[Any, ...], Tally]) -> list[str]:
    shares: Sequence[Any] = [x for tallies in found.values() for x in tallies.values()]
    out = [
        f"\n## The best of five systems on {title}, at 95%\n",
        f"Effects of the groups on all systems and on each. {max(x.trials for x in shares)} repetitions, s.e. up to "
        f"{report.largest_error(shares)}. Rejections of any pair are for equal systems, at 5%. The last two columns "
        f"take the {unit} as independent.\n",
    ]
    columns = ("covers", "mean width", "all at once", "any pair", "independent: covers", "any pair")
    out += report.head("groups", "size", "systems", *columns)
    for (groups, *sizes, systems), tallies in found.items():
        cells = [str(groups), " ".join(map(str, sizes)), systems]
        cells += [f"{tallies['groups',].value:.3f}", report.width([tallies["groups",]])]
        cells.append(f"{tallies['groups', 'all'].value:.3f}")
        for keys in ((("groups", "error"),), (("independent",), ("independent", "error"))):
            cells += [f"{tallies[key].value:.3f}" if key in tallies else "-" for key in keys]
        out.append(report.row(*cells))
    return out
