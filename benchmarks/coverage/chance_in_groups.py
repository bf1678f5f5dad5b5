"""Rankings without skill of items or queries in groups: the size of the tests against chance."""

import itertools
import warnings
from functools import partial
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.groups import sample
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import chance_test, chance_test_of_queries

_NOMINAL, _REPLICATES = 0.05, 199
# groups, sizes and effects as in `groups`, where half of the variance of scores is between groups
_GROUPED = ((10, 100, "equal"), (20, 50, "geometric"), (50, 20, "equal"), (200, 5, "geometric"))
_EFFECTS, _RANKS = (1.0, 1.0, -1.0), (30, 100)
_PERMUTED = 50  # repetitions of each task with the test of independent items
_TIED = 2  # distinct scores in a standard deviation
# topics, mean number of queries, and whether numbers are equal or geometric
_TOPICS = ((10, 5, "equal"), (10, 5, "geometric"), (30, 3, "geometric"), (100, 3, "equal"))
_DOCUMENTS, _MOST_RELEVANT, _COMMON = 50, 7, 0.8  # the share of a query's labels that its topic determines


def _p_value(call: Any) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p: torch.Tensor = call().p_value
    return p


def tests_of_items(groups: int, size: int, sizes: str, *, repetitions: int, generator: torch.Generator) -> Tally:
    """The size of the tests of items in groups."""
    found = Tally()
    for place in range(repetitions):
        (scores,), target, ids = sample(groups, size, sizes, _EFFECTS, (0.0,), 0.0, generator)
        tied = (_TIED * scores).round()
        calls = {"AP": partial(chance_test, scores, target, groups=ids)}
        for name, preds in (("", scores), (", tied", tied)):
            at_k = partial(chance_test_of_queries, preds, target, groups=ids)
            calls |= {f"AP@{k}{name}": partial(at_k, top_k=k) for k in _RANKS}
        if place < _PERMUTED:
            calls["AP, independent"] = partial(chance_test, scores, target, n_resamples=_REPLICATES)
        for name, call in calls.items():
            if not (p := _p_value(call)).isnan():
                tally(found, (name,), p <= _NOMINAL)
    return found


def tests_of_queries(
    topics: int, size: int, sizes: str, k: int | None, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """The size of the tests of queries in topics, which share relevant documents and the order of the documents."""
    found = Tally()
    for place in range(repetitions):
        counts = torch.full((topics,), size)
        if sizes == "geometric":
            counts = torch.empty(topics).geometric_(1 / size, generator=generator).long()
        ids = torch.repeat_interleave(torch.arange(topics), counts)
        shape = len(ids), _DOCUMENTS
        own, common = torch.rand(shape, generator=generator), torch.rand(topics, _DOCUMENTS, generator=generator)
        is_common = torch.rand(shape, generator=generator) < _COMMON
        relevant = torch.randint(1, _MOST_RELEVANT + 1, (topics, 1), generator=generator)[ids]
        target = (torch.where(is_common, common[ids], own).argsort(1).argsort(1) < relevant).long()
        preds = torch.arange(_DOCUMENTS, 0, -1).expand(shape)
        indexes = torch.arange(len(ids))[:, None].expand(shape)
        call = partial(chance_test_of_queries, preds, target, indexes, top_k=k)
        groups = ids.repeat_interleave(_DOCUMENTS)
        if not (p := _p_value(partial(call, groups=groups))).isnan():
            tally(found, ("t",), p <= _NOMINAL)
        if place < _PERMUTED:
            tally(found, ("permutation",), _p_value(partial(call, n_resamples=_REPLICATES)) <= _NOMINAL)
    return found


def sections(options: Options) -> list[Section]:
    topics = [(*sizes, k) for sizes, k in itertools.product(_TOPICS, (None, 10))]
    return [
        Section(tasks_of(tests_of_items, _GROUPED, options.repetitions, 250), _lines_of_items),
        Section(tasks_of(tests_of_queries, topics, options.repetitions, 250), _lines_of_queries),
    ]


def _lines_of_items(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    names = ("AP", *(f"AP@{k}{x}" for x in ("", ", tied") for k in _RANKS), "AP, independent")
    every = [tallies[name,] for tallies in found.values() for name in names[:-1]]
    out = [
        "\n## Random rankings of items in groups, `chance_test(groups=)`: rejections in %, at nominal 5\n",
        "About 1,000 items. Each group shifts the scores of its items and the logit of its share of hits by "
        f"independent normal effects with standard deviation 1. {max(x.trials for x in every)} repetitions, s.e. up to "
        f"{100 * max(x.error for x in every):.2f}. AP@k: `chance_test_of_queries(groups=)`; tied scores are "
        f"rounded to multiples of {1 / _TIED:g} standard deviations. The last column is the "
        f"test without `groups`, with {_PERMUTED} of 250 repetitions.\n",
    ]
    out += report.head("groups", "size", *names)
    for (groups, size, sizes), shares in found.items():
        out.append(report.row(str(groups), f"{size} {sizes}", *(f"{100 * shares[name,].value:.2f}" for name in names)))
    return out


def _lines_of_queries(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    every = [tallies["t",] for tallies in found.values()]
    out = [
        "\n## Random rankings of queries in topics, `chance_test_of_queries(groups=)`: rejections in %, at nominal 5\n",
        f"Each query has {_DOCUMENTS} documents in an order that all queries share, and its topic determines "
        f"{_COMMON:.0%} of the order from which its 1 to {_MOST_RELEVANT} relevant documents are taken. "
        f"{max(x.trials for x in every)} repetitions, s.e. up to {100 * max(x.error for x in every):.2f}. The last "
        f"column is the test without `groups`, with {_PERMUTED} of 250 repetitions.\n",
    ]
    out += report.head("topics", "queries of a topic", "k", "t", "independent queries")
    for (topics, size, sizes, k), shares in found.items():
        cells = (f"{100 * shares[name,].value:.2f}" for name in ("t", "permutation"))
        out.append(report.row(str(topics), f"{size} {sizes}", str(k or "all"), *cells))
    return out
