"""Two systems on the same items: rejection rates of each test for equal and different systems."""

import itertools
import math
from typing import Any

import torch

from benchmarks.coverage import many_systems, report
from benchmarks.coverage.rankings import labels
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.inference import compare_rankings
from torch_ap.inference.comparison import METHODS

_SIZES = ((1000, 50), (3000, 245))
_SYSTEMS = list(itertools.product(_SIZES, (1.0, 2.0), (0.0, 0.8)))
_QUICK, _SLOW = ("influence-z", "jackknife-z"), ("bootstrap", "permutation")
_DESIGNS, _DISTANCES, _SHARED = ("iid", "stratified"), (0.0, 1.0, 2.0, 3.0), 0.8
# (n, m) by what a row of the table of sizes and powers is called
_BY_HITS = {
    "3": ((100, 3), (1000, 3)),
    "10": ((100, 10), (1000, 10)),
    "30": ((100, 30), (1000, 30)),
    "100, 300": ((1000, 100), (1000, 300)),
    "90 of 100": ((100, 90),),
}
_RESAMPLED = ("3", "10", "30")
_REPLICATES, _NOMINAL = 299, 0.05


def rejections(
    methods: Any, random_m: bool, size: Any, distance: float, correlation: float,
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    found = Tally()
    for relevant in labels(size[0], size[1], random_m, repetitions, generator):
        target = relevant.long()
        shared, *own = torch.randn(3, len(target), generator=generator)
        a, b = (math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * x + distance * target for x in own)
        for method in methods:
            p = compare_rankings(
                a, b, target, method=method, design="iid" if random_m else "stratified",
                n_resamples=_REPLICATES, generator=generator,
            ).p_value  # fmt: skip
            tally(found, (method, "iid" if random_m else "stratified"), bool(p <= _NOMINAL))
    return found


def pair(
    design: str, size: Any, distance: float, correlation: float, better: bool, rows: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(R, n) scores of A and B and which are hits, at least two of either kind; A has 2.5 / sqrt(m) more in d'."""
    n, m = size
    relevant = labels(n, m, design == "iid", rows, generator)
    relevant = relevant[(relevant.sum(1) > 1) & (relevant.sum(1) < n - 1)]
    shared, *own = torch.randn(3, *relevant.shape, generator=generator, dtype=torch.float64)
    a, b = (math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * x + distance * relevant for x in own)
    return a + (2.5 / math.sqrt(m) * relevant if better else 0), b, relevant


def told_apart(
    design: str, size: Any, distance: float, correlation: float, better: bool,
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    found = Tally()
    drawn = pair(design, size, distance, correlation, better, repetitions, generator)
    for method, p in many_systems.p_values(*drawn, design).items():
        tally(found, (method,), p <= _NOMINAL)
    return found


def resampled_apart(
    design: str, size: Any, distance: float, correlation: float, better: bool,
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    found = Tally()
    for a, b, relevant in zip(*pair(design, size, distance, correlation, better, repetitions, generator), strict=True):
        for method in _SLOW:
            p = compare_rankings(
                a, b, relevant.long(), method=method, design=design,  # type: ignore[arg-type]
                n_resamples=_REPLICATES, generator=generator,
            ).p_value  # fmt: skip
            tally(found, (method,), bool(p <= _NOMINAL))
    return found


def sections(options: Options) -> list[Section]:
    tasks = [
        *tasks_of(rejections, [(_QUICK, False, *x) for x in _SYSTEMS], options.repetitions, 1000),
        *tasks_of(rejections, [(_SLOW, False, *x) for x in _SYSTEMS], options.resampled, 50),
        *tasks_of(rejections, [(_QUICK, True, *x) for x in _SYSTEMS], options.repetitions, 1000),
    ]
    sizes = [size for name in _BY_HITS for size in _BY_HITS[name]]
    small = [_BY_HITS[name][0] for name in _RESAMPLED]
    alike, apart = ((0.0, False), (_SHARED, False)), ((_SHARED, True),)
    quick = [(*x, *y) for x in itertools.product(_DESIGNS, sizes, _DISTANCES) for y in (*alike, *apart)]
    slow = [("iid", *x, _SHARED, better) for x in itertools.product(small, _DISTANCES) for better in (False, True)]
    by_hits = [
        *tasks_of(told_apart, quick, options.repetitions, 500),
        *tasks_of(resampled_apart, slow, options.resampled, 50),
    ]
    return [
        Section(tasks, _lines),
        Section(by_hits, lambda found: _by_hits(found, options.repetitions, options.resampled)),
    ]


def _by_hits(found: dict[tuple[Any, ...], Tally], many: int, few: int) -> list[str]:
    out = [
        "\n## Size and power by the number of hits, `compare_rankings`: rejections at nominal 5%\n",
        f"{many} repetitions of each configuration: d' of 0, 1, 2 or 3; 100 and 1,000 items with 3, 10 and 30 hits, "
        f"1,000 with 100 and 300, and 100 with 90. The methods that resample have {few} repetitions, with 100 items, "
        f"scores that correlate by {_SHARED}, and {_REPLICATES} resamples or swaps. Size: equally good systems with "
        f"uncorrelated scores, or scores that correlate by {_SHARED}. Power: system A has a d' that is 2.5 / sqrt(m) "
        f"higher, and the scores correlate by {_SHARED}; the mean over the configurations. In design "
        '"iid" m is random, and samples with fewer than two hits or two misses are left out; in design "stratified" '
        "m is fixed.\n",
    ]
    out += report.head("method", "design", "hits", "size: least to greatest", "s.e. at most", "power")
    for method, design, name in itertools.product(METHODS, _DESIGNS, _BY_HITS):
        of = {
            configuration: tallies[method,]
            for configuration, tallies in found.items()
            if configuration[0] == design and configuration[1] in _BY_HITS[name] and (method,) in tallies
        }
        if of:
            sizes = [share for configuration, share in of.items() if not configuration[-1]]
            powers = [share.value for configuration, share in of.items() if configuration[-1]]
            power = f"{sum(powers) / len(powers):.3f}"
            out.append(report.row(method, design, name, report.extent(sizes), report.largest_error(sizes), power))
    return out


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [
        "\n## Two equally good systems, `compare_rankings`: rejections at nominal 5%\n",
        f"d' of 1 or 2; the scores of the two systems are uncorrelated or correlate by .8; {_REPLICATES} resamples or "
        'swaps; m is fixed for design "stratified" and random for design "iid".\n',
    ]
    out += report.head("method", "design", "(n, m)", "repetitions", "rejects: least to greatest", "s.e. at most")
    for design, method, size in itertools.product(("stratified", "iid"), METHODS, _SIZES):
        shares = _shares(found, method, design, size)
        if not shares:
            continue
        cells = (str(shares[0].trials), report.extent(shares), report.largest_error(shares))
        out.append(report.row(method, design, str(size), *cells))
    return out


def _shares(found: dict[tuple[Any, ...], Tally], method: str, design: str, size: tuple[int, int]) -> list[Share]:
    return [
        tallies[method, design]
        for configuration, tallies in found.items()
        if configuration[2] == size and (method, design) in tallies
    ]
