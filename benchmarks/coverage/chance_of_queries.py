"""MAP of random rankings: tails of its laws, and the size of the test against chance."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking.builders import from_scores
from torch_ap.inference import chance_test_of_queries
from torch_ap.inference.query_chance import RandomLabels, gamma_tail
from torch_ap.inference.resampling import Resampling

_NOMINAL, _REPLICATES = (0.05, 0.01, 0.001), 199
_QUERIES = [(queries, k) for queries in (3, 10, 30, 100, 300) for k in (None, 10)]
_SINGLE = [(1, None), (1, 10)]  # one ranking
_DOCUMENTS, _MOST_RELEVANT = 100, 7


def labels_of_queries(queries: int, generator: torch.Generator) -> Tensor:
    """Return (Q, D) labels in random order, with 1 to 7 relevant documents per query."""
    relevant = torch.randint(1, _MOST_RELEVANT + 1, (queries, 1), generator=generator)
    return (torch.rand(queries, _DOCUMENTS, generator=generator).argsort(1) < relevant).long()


def laws_of_map(queries: int, k: int | None, *, repetitions: int, generator: torch.Generator) -> Tally:
    """How often the MAP of random rankings beats chance by the gamma law and by the normal law."""
    found, target = Tally(), labels_of_queries(queries, generator)
    segment = torch.arange(queries).repeat_interleave(_DOCUMENTS)
    scores, mark = torch.arange(_DOCUMENTS, 0, -1).repeat(queries), torch.ones(len(segment), dtype=torch.bool)
    groups = replace(from_scores(scores, mark, segment=segment, segments_count=queries), m=target.sum(1))
    weights = torch.full((queries,), 1 / queries, dtype=torch.float64)
    measure = Convention(top_k=k, denominator="min")
    rankings = RandomLabels(groups, groups, groups.m, measure, weights)
    values = rankings.draw(Resampling(repetitions, generator)).tolist()
    mean, variance, least = rankings.moments
    deviation = math.sqrt(2 * variance)
    tails = {
        "gamma": [gamma_tail(value, mean, variance, least) for value in values],
        "normal": [math.erfc((value - mean) / deviation) / 2 for value in values],
    }
    for name, tail in tails.items():
        for size in _NOMINAL:
            tally(found, (name, size), torch.tensor(tail) <= size)
    return found


def tests_of_map(queries: int, k: int | None, *, repetitions: int, generator: torch.Generator) -> Tally:
    """The size of the test of MAP by permutations."""
    found, indexes = Tally(), torch.arange(queries)[:, None].expand(queries, _DOCUMENTS)
    preds = torch.arange(_DOCUMENTS, 0, -1).expand(queries, _DOCUMENTS)
    for _ in range(repetitions):
        target = labels_of_queries(queries, generator)
        options: Any = {"top_k": k, "n_resamples": _REPLICATES, "generator": generator}
        p = chance_test_of_queries(preds, target, indexes, **options).p_value
        for size in _NOMINAL[:2]:
            tally(found, (size,), bool(p <= size))
    return found


def sections(options: Options) -> list[Section]:
    many = options.repetitions
    return [
        Section(tasks_of(laws_of_map, _QUERIES, 10 * many, 10_000), lambda found: _laws(found, 10 * many)),
        Section(tasks_of(tests_of_map, [*_SINGLE, *_QUERIES], many, 500), lambda found: _tests(found, many)),
    ]


def _laws(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Random rankings, laws of MAP: rejections in % of {count}, at nominal 5 / 1 / .1%\n",
        f"Each query has {_DOCUMENTS} documents, 1 to {_MOST_RELEVANT} of them relevant.\n",
    ]
    out += report.head("queries", "k", "law", "rejects", "s.e.")
    for (queries, k), shares in found.items():
        for name in dict.fromkeys(name for name, _ in shares):
            by_size = [shares[name, size] for size in _NOMINAL]
            figures = ([share.value for share in by_size], [share.error for share in by_size])
            values, errors = (" / ".join(f"{100 * x:.2f}" for x in y) for y in figures)
            out.append(report.row(str(queries), str(k or "all"), name, values, errors))
    return out


def _tests(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Random rankings, `chance_test_of_queries`: rejections in % of {count} samples\n",
        f"{_REPLICATES} permutations; queries as above.\n",
    ]
    out += report.head("queries", "k", "at nominal 5", "s.e.", "at nominal 1", "s.e.")
    for (queries, k), shares in found.items():
        cells = [f"{100 * x:.2f}" for size in _NOMINAL[:2] for x in (shares[size,].value, shares[size,].error)]
        out.append(report.row(str(queries), str(k or "all"), *cells))
    return out
