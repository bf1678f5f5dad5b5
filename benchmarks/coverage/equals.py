"""Rejection rates for equally good systems: decisions, several systems, and repeated splits."""

import itertools
from typing import Any

import torch
from scipy import stats

from benchmarks.coverage import report
from benchmarks.coverage.rankings import labels
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.functional import retrieval_average_precision
from torch_ap.inference import compare_decisions, compare_splits, compare_systems

_NOMINAL, _REPLICATES = 0.05, 299
_MEASURES: Any = ("precision", "recall", "f_beta")
_ITEMS = (100, 1000)
_SYSTEMS, _SIZES = 4, ((300, 30), (1000, 100))
_SPLITS, _POINTS, _FEATURES = (10, 50), 200, 5


def decisions(items: Any, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Both systems decide by a shared score of each item and their own noise. Three in ten items are hits."""
    found = Tally()
    for _ in range(repetitions):
        target = torch.rand(items, generator=generator) < 0.3
        shared, *own = torch.randn(3, items, generator=generator)
        a, b = (target + shared + 0.5 * x > 1 for x in own)
        for measure in _MEASURES:
            p = compare_decisions(a, b, target, measure=measure).p_value
            tally(found, (measure,), p <= _NOMINAL)
    return found


def several(size: Any, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the samples with any significant pair of four systems."""
    found = Tally()
    for relevant in labels(size[0], size[1], True, repetitions, generator):
        target = relevant.long()
        shared, *own = torch.randn(_SYSTEMS + 1, len(target), generator=generator)
        preds = torch.stack([(shared + x) / 2**0.5 + 1.5 * target for x in own])
        for method in ("holm", "tukey"):
            result = compare_systems(
                preds, target, method=method, design="iid", n_resamples=_REPLICATES, generator=generator
            )
            tally(found, (method,), bool((result.adjusted_p_value <= _NOMINAL).any()))
        tally(found, ("neither",), bool((result.p_value <= _NOMINAL).any()))
    return found


def splits(count: Any, test_share: Any, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Compare two linear scorers, trained on different but equally good features."""
    found = Tally()
    n_test = round(_POINTS * test_share)
    for _ in range(repetitions):
        y = torch.rand(_POINTS, generator=generator) < 0.3
        x = torch.randn(_POINTS, 2 * _FEATURES, generator=generator) + 0.4 * y[:, None]
        order = torch.rand(count, _POINTS, generator=generator).argsort(1)
        train, test = order[:, n_test:], order[:, :n_test]
        hits = y[train][..., None]
        means = [(x[train] * kind).sum(1) / kind.sum(1) for kind in (hits, ~hits)]
        weights = means[0] - means[1]
        values = []
        for own in (slice(_FEATURES), slice(_FEATURES, None)):
            scores = torch.einsum("snf,sf->sn", x[test][..., own], weights[:, own])
            values.append(retrieval_average_precision(scores, y[test].long()).double())
        corrected = compare_splits(values[0], values[1], n_train=_POINTS - n_test, n_test=n_test).p_value
        tally(found, ("corrected resampled t",), corrected <= _NOMINAL)
        tally(found, ("paired t",), float(stats.ttest_rel(*(v.numpy() for v in values)).pvalue) <= _NOMINAL)
    return found


def sections(options: Options) -> list[Section]:
    quick, slow = options.repetitions, options.resampled
    return [
        Section(tasks_of(decisions, [(items,) for items in _ITEMS], quick, 500), _decision_lines),
        Section(tasks_of(several, [(size,) for size in _SIZES], slow, 50), _system_lines),
        Section(tasks_of(splits, itertools.product(_SPLITS, (0.1, 0.5)), quick, 500), _split_lines),
    ]


def _table(found: dict[tuple[Any, ...], Tally], *names: str) -> list[str]:
    """A row for each configuration and method."""
    out = report.head(*names, "method", "repetitions", "rejects", "s.e.")
    for configuration, tallies in found.items():
        for (method,), share in tallies.items():
            cells = [*map(str, configuration), method, str(share.trials), f"{share.value:.3f}", f"{share.error:.4f}"]
            out.append(report.row(*cells))
    return out


def _decision_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    title = "\n## Two equally good systems' decisions, `compare_decisions`: rejections at nominal 5%\n"
    return [title, "p is discrete, so that fewer than 5% may be rejected.\n", *_table(found, "items")]


def _system_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    title = f"\n## {_SYSTEMS} equally good systems, `compare_systems`: any pair rejected at nominal 5%\n"
    said = f'd\' = 1.5, scores correlated by 1/2, m random; {_REPLICATES} permutations. "neither": not adjusted.\n'
    return [title, said, *_table(found, "(n, m)")]


def _split_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    title = "\n## Two equally good learners over repeated splits, `compare_splits`: rejections at nominal 5%\n"
    said = f"AP on test sets with that share of {_POINTS} items; three in ten items are hits.\n"
    return [title, said, *_table(found, "splits", "test share")]
