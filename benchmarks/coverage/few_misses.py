"""One ranking with few misses: degrees of freedom by the hits, or by the rarer of hits and misses."""

import itertools
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import LEVELS, curve_of, labels, limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.inference import record
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.record import student_quantile
from torch_ap.inference.resampling import InferenceSettings, Resampling

_MISSES, _HITS, _WANTED, _STEEPEST = (2, 3, 5, 10), (10, 100, 1000), (0.5, 0.8, 0.95), 4.0
_QUICK, _SLOW, _DEGREES = ("influence", "jackknife"), ("bootstrap-logit",), ("m - 1", "min(m, q) - 1")
_REPLICATES = 300


def distances(m: int, q: int) -> list[float]:
    """Return d' of 0, 1 and 2, and the d' with each limit of AP in ``_WANTED`` that q misses allow."""
    share = m / (m + q)
    out = [0.0, 1.0, 2.0]
    for wanted in _WANTED:
        low, high = -_STEEPEST, _STEEPEST
        if limit(share, low) < wanted < limit(share, high):
            for _ in range(20):
                middle = (low + high) / 2
                low, high = (middle, high) if limit(share, middle) < wanted else (low, middle)
            out.append(round(low, 3))
    return sorted(set(out))


def few(
    q: int, m: int, distance: float, random_m: bool, methods: tuple[str, ...],
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    """Compare both degrees of freedom on rankings with at least two hits and two misses."""
    target = labels(m + q, m, random_m, repetitions, generator)
    target = target[(target.sum(1) > 1) & (target.sum(1) < m + q - 1)]
    curve = curve_of(torch.randn(target.shape, generator=generator) + distance * target, target)
    truth, found, design = limit(m / (m + q), distance), Tally(), "iid" if random_m else "stratified"
    least = {"m - 1": curve.m, "min(m, q) - 1": torch.minimum(curve.m, curve.n - curve.m)}
    for method in methods:
        how = Resampling(_REPLICATES, torch.Generator().manual_seed(1))
        own = curve_interval(curve, Convention(ties="grouped"), InferenceSettings(LEVELS[0], method, design, how))
        special = own.low.isnan() | ((own.estimate == 1) & (own.standard_error == 0))
        for level in LEVELS:
            # the ends of an AP of 1 do not depend on the resamples
            quick = InferenceSettings(level, method if method in _QUICK else _QUICK[0], design)
            ends = curve_interval(curve, Convention(ties="grouped"), quick)
            for name in _DEGREES:
                quantile = student_quantile(level, least[name].double() - 1)
                low, high = record.logit(own.estimate, own.standard_error, quantile)
                low, high = torch.where(special, ends.low, low), torch.where(special, ends.high, high)
                inside, width = (low <= truth) & (truth <= high), float((high - low).nansum())
                tally(found, (method, name, level), inside, width)
    return found


def sections(options: Options) -> list[Section]:
    cases = [
        (q, m, distance, random_m)
        for random_m, q, m in itertools.product((False, True), _MISSES, _HITS)
        for distance in distances(m, q)
    ]
    tasks = tasks_of(few, [(*case, _QUICK) for case in cases], options.repetitions, 1000)
    tasks += tasks_of(few, [(*case, _SLOW) for case in cases if case[1] < _HITS[-1]], options.resampled, 100)
    return [Section(tasks, lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## AP of few misses: {options.repetitions} repetitions of each configuration, {options.resampled} of the "
        "bootstrap\n",
        "q misses and 10, 100 or 1,000 hits (on average for random m). d' is 0, 1 or 2, or gives the limit "
        f"{_WANTED[0]}, {_WANTED[1]} or {_WANTED[2]}, if a d' from -{_STEEPEST:g} to {_STEEPEST:g} gives it: with "
        "1,000 hits and 2 misses no ranking has less than .986. Samples with fewer than two misses or two hits have no "
        f"standard error and are left out. The bootstrap has {_REPLICATES} replicates, and was not run with 1,000 "
        "hits.\n",
    ]
    columns = ("covers: least / median / greatest", "s.e. at most", "mean width")
    out += report.head("q", "m", "method", "design", "level", "degrees of freedom", *columns)
    rows = itertools.product(_MISSES, (True, False), (*_QUICK, *_SLOW), LEVELS, _DEGREES)
    for q, random_m, method, level, name in rows:
        shares = [
            tallies[method, name, level]
            for (misses, _, _, of_random, methods), tallies in found.items()
            if (misses, of_random) == (q, random_m) and method in methods
        ]
        kind = ("random", "iid") if random_m else ("fixed", "stratified")
        figures = (report.spread(shares), report.largest_error(shares), report.width(shares))
        out.append(report.row(str(q), kind[0], method, kind[1], f"{level:.0%}", name, *figures))
    return out
