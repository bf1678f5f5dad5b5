"""Per-query values of queries in topics: the mean of one system, two systems, and all pairs of five."""

import warnings
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.best_in_groups import values_in_topics
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import compare_per_query, compare_systems_per_query, mean_interval

_TOPICS = ((5, 20), (10, 10), (20, 5), (50, 4), (200, 2))  # topics, and queries of each
_MEANS = torch.full((5,), 0.5, dtype=torch.float64)
_NOMINAL = 0.05


def covered(topics: int, size: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Return how often the interval of the mean contains it, and how often tests reject for equal systems."""
    found = Tally()
    for _ in range(repetitions):
        values, ids = values_in_topics(_MEANS, topics, size, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for method, groups in (("groups", ids), ("independent", None)):
                one = mean_interval(values[0], groups=groups)
                tally(found, (method, "covers"), bool(one.low <= _MEANS[0] <= one.high), float(one.high - one.low))
                p = compare_per_query(*values[:2], method="t", groups=groups).p_value
                tally(found, (method, "two"), bool(p <= _NOMINAL))
            five = compare_systems_per_query(values, method="holm", groups=ids)
        tally(found, ("groups", "any"), bool((five.adjusted_p_value <= _NOMINAL).any()))
    return found


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(covered, _TOPICS, options.repetitions, 250), _lines)]


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    shares = [share for tallies in found.values() for share in tallies.values()]
    out = [
        "\n## Mean over queries in topics (`groups=`), at 95%\n",
        "Values in [0, 1] with effects of the topics on all systems and on each. `mean_interval`, `compare_per_query` "
        "for two equal systems, and any pair of five equal systems by `compare_systems_per_query`. The last two "
        f"columns take the queries as independent. {max(x.trials for x in shares)} repetitions, s.e. up to "
        f"{report.largest_error(shares)}.\n",
    ]
    columns = ("covers", "mean width", "two: rejects", "any pair", "independent: covers", "two: rejects")
    out += report.head("topics", "queries of each", *columns)
    for (topics, size), tallies in found.items():
        covers = tallies["groups", "covers"]
        cells = [str(topics), str(size), f"{covers.value:.3f}", report.width([covers])]
        keys = (("groups", "two"), ("groups", "any"), ("independent", "covers"), ("independent", "two"))
        out.append(report.row(*cells, *(f"{tallies[key].value:.3f}" for key in keys)))
    return out
