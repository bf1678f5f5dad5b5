"""Items in groups with random effects: intervals of AP and of P@k, comparisons, tests against chance, and topics."""

import functools
import itertools
import warnings
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.functional import binary_average_precision
from torch_ap.inference import average_precision_interval, compare_rankings

_LEVEL, _NOMINAL = 0.95, 0.05
_LARGE = 20_000  # groups of the population
# groups, mean size, and whether sizes are equal or geometric
_SIZES = (
    (6, 100, "equal"), (10, 100, "equal"), (10, 100, "geometric"), (20, 50, "equal"), (20, 50, "geometric"),
    (50, 20, "equal"), (50, 20, "geometric"), (200, 5, "equal"), (200, 5, "geometric"),
)  # fmt: skip
# standard deviations of the effects of a group on scores and on the logit of its share of hits, and the mean logit
_EFFECTS = ((0.5, 1.0, -2.0), (1.0, 1.0, -1.0))
_METHODS = ("independent items", "jackknife", "influence")
_LABELS, _RARE = 20, (0.5, 1.0, -3.5)  # labels of an average, and the effects on each
_ITEMS = 4_000_000  # of the population of a label
_AVERAGES = ((10, 100), (50, 20), (200, 5), (700, 1), (2000, 1))  # groups, and items of each
_CORRELATIONS = (0.0, 0.8)  # of the two systems' effects of a group


def sample(
    groups: int, size: int, sizes: str, effects: Any, distances: tuple[float, ...], correlation: float, generator: Any
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Return the scores of each system, the targets and the groups.

    The scores of hits are shifted by d'. Two systems share half of the variance of the items' noise.
    """
    counts = torch.full((groups,), size)
    if sizes == "geometric":
        counts = torch.empty(groups).geometric_(1 / size, generator=generator).long()
    ids = torch.repeat_interleave(torch.arange(groups), counts)
    spread, prevalence, mean = effects
    share = torch.sigmoid(mean + prevalence * torch.randn(groups, generator=generator))
    target = (torch.rand(len(ids), generator=generator) < share[ids]).long()
    common = torch.randn(groups, generator=generator), torch.randn(len(ids), generator=generator)
    scores = []
    for distance in distances:
        own = torch.randn(groups, generator=generator), torch.randn(len(ids), generator=generator)
        effect = correlation**0.5 * common[0] + (1 - correlation) ** 0.5 * own[0]
        noise = 0.5**0.5 * (common[1] + own[1])
        scores.append(noise + distance * target + spread * effect[ids])
    return scores, target, ids


@functools.cache
def population(size: int, sizes: str, effects: Any, groups: int = _LARGE) -> float:
    """Return the AP of the items of many groups, of one system."""
    generator = torch.Generator().manual_seed(0)
    (scores,), target, _ = sample(groups, size, sizes, effects, (1.5,), 0.0, generator)
    return float(binary_average_precision(scores.double(), target))


def intervals(groups: int, size: int, sizes: str, effects: Any, *, repetitions: int, generator: Any) -> Tally:
    """Return how often each interval contains the AP of the population."""
    truth, found = population(size, sizes, effects), Tally()
    for _ in range(repetitions):
        (scores,), target, ids = sample(groups, size, sizes, effects, (1.5,), 0.0, generator)
        for method in _METHODS:
            own: dict[str, Any] = {} if method == _METHODS[0] else {"groups": ids, "method": method}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                interval = average_precision_interval(scores, target, confidence_level=_LEVEL, **own)
            if not interval.low.isnan():
                inside = interval.low <= truth <= interval.high
                tally(found, (method,), inside, float(interval.high - interval.low))
    return found


def averages(groups: int, size: int, *, repetitions: int, generator: Any) -> Tally:
    """Return how often the interval of a macro average over labels contains the AP of the population of each."""
    # of equal groups, the AP of all items does not depend on the size
    truth, found = population(1, "equal", _RARE, _ITEMS), Tally()
    for _ in range(repetitions):
        each = [sample(groups, size, "equal", _RARE, (1.5,), 0.0, generator) for _ in range(_LABELS)]
        preds, target = torch.stack([x[0][0] for x in each], 1), torch.stack([x[1] for x in each], 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interval = average_precision_interval(preds, target, average="macro", groups=each[0][2])
        tally(found, ("exists",), not interval.low.isnan())
        if not interval.low.isnan():
            tally(found, ("covers",), interval.low <= truth <= interval.high, float(interval.high - interval.low))
            tally(found, ("hits",), True, float(target.sum()) / _LABELS)
    return found


def comparisons(groups: int, size: int, sizes: str, correlation: float, *, repetitions: int, generator: Any) -> Tally:
    """Return how often each test rejects for two equally good systems."""
    found = Tally()
    for _ in range(repetitions):
        scores, target, ids = sample(groups, size, sizes, (0.7, 1.0, -1.5), (1.5, 1.5), correlation, generator)
        for method in ("independent items", "logit", "jackknife", "influence"):
            own: dict[str, Any] = {} if method == _METHODS[0] else {"groups": ids, "method": method}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                comparison = compare_rankings(scores[0], scores[1], target, confidence_level=_LEVEL, **own)
            if not comparison.p_value.isnan():
                tally(found, (method,), comparison.p_value <= _NOMINAL)
                tally(found, (method, "interval"), comparison.low <= 0 <= comparison.high)
    return found


def sections(options: Options) -> list[Section]:
    quick = options.repetitions
    one = [(*sizes, effects) for sizes, effects in itertools.product(_SIZES, _EFFECTS)]
    two = [(*sizes, correlation) for sizes, correlation in itertools.product(_SIZES, _CORRELATIONS)]
    return [
        Section(tasks_of(intervals, one, quick, 250), _interval_lines),
        Section(tasks_of(comparisons, two, quick, 250), _comparison_lines),
        Section(tasks_of(averages, _AVERAGES, quick, 100), _average_lines),
    ]


def _average_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    shares = [tallies[key,] for tallies in found.values() for key in ("exists", "covers")]
    out = [
        "\n## Macro average over labels of items in groups: coverage of 95%\n",
        f"{_LABELS} labels with the effects of the section on AP in groups, independent of each other, and their AP "
        f"of {_ITEMS:,} items; the default method. Some samples have no interval, such as those in which a "
        f"label has one hit. {max(x.trials for x in shares)} repetitions, s.e. up to {report.largest_error(shares)}.\n",
    ]
    out += report.head("groups", "items of each", "hits per label", "intervals", "covers", "mean width")
    for (groups, size), tallies in found.items():
        covers, hits = tallies["covers",], tallies["hits",]
        cells = (str(groups), str(size), f"{hits.width / hits.trials:.0f}", f"{tallies['exists',].value:.3f}")
        out.append(report.row(*cells, f"{covers.value:.3f}", report.width([covers])))
    return out


def _interval_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [
        "\n## AP of items in groups, `average_precision_interval(groups=)`: coverage of 95%\n",
        "Each group shifts the scores of its items and the logit of its share of hits by normal effects with these "
        f"standard deviations. d' = 1.5, and the truth is the AP of the items of {_LARGE:,} groups. Samples without an "
        "interval are left out.\n",
    ]
    out += report.head("groups", "size", "effects", "AP", "method", "repetitions", "covers", "s.e.", "mean width")
    for (groups, size, sizes, effects), tallies in found.items():
        truth = f"{population(size, sizes, effects):.2f}"
        for (method,), share in tallies.items():
            cells = [str(groups), f"{size} {sizes}", f"{effects[0]:g}, {effects[1]:g}", truth, method]
            figures = [
                str(share.trials),
                f"{share.value:.3f}",
                f"{share.error:.4f}",
                f"{share.width / share.trials:.3f}",
            ]
            out.append(report.row(*cells, *figures))
    return out


def _comparison_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [
        "\n## Two equally good systems on items in groups, `compare_rankings(groups=)`: rejections at nominal 5%\n",
        "Effects on scores with standard deviation .7, correlated between the systems as given, and on the logit of "
        "the share of hits with standard deviation 1. d' = 1.5.\n",
    ]
    out += report.head("groups", "size", "correlation", "method", "repetitions", "rejects", "s.e.", "interval covers")
    for (groups, size, sizes, correlation), tallies in found.items():
        for key, share in tallies.items():
            if len(key) == 1:
                cells = [str(groups), f"{size} {sizes}", f"{correlation:g}", key[0], str(share.trials)]
                covers = tallies[key[0], "interval"].value
                out.append(report.row(*cells, f"{share.value:.3f}", f"{share.error:.4f}", f"{covers:.3f}"))
    return out
