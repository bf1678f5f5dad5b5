"""Two equally good systems on the same items: how often each test tells them apart."""

import itertools
import math
from typing import Any

import torch

from benchmarks.coverage import expected, report
from benchmarks.coverage.rankings import labels
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.inference import Resampling, compare_rankings
from torch_ap.inference.comparison import METHODS

_SIZES = ((1000, 50), (3000, 245))
_SYSTEMS = list(itertools.product(_SIZES, (1.0, 2.0), (0.0, 0.8)))
_QUICK, _SLOW = ("influence", "jackknife"), ("bootstrap", "permutation")
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
                resampling=Resampling(_REPLICATES, generator),
            ).p_value  # fmt: skip
            tally(found, (method, "iid" if random_m else "stratified"), p <= _NOMINAL)
    return found


def sections(options: Options) -> list[Section]:
    tasks = [
        *tasks_of(rejections, [(_QUICK, False, *x) for x in _SYSTEMS], options.repetitions, 1000),
        *tasks_of(rejections, [(_SLOW, False, *x) for x in _SYSTEMS], options.resampled, 50),
        *tasks_of(rejections, [(_QUICK, True, *x) for x in _SYSTEMS], options.repetitions, 1000),
    ]
    return [Section(tasks, _lines)]


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [
        "\n## Two equally good systems, `compare_rankings`: rejections at nominal 5%\n",
        f"d' of 1 or 2, scores of the two systems uncorrelated or correlated by .8; {_REPLICATES} resamples or swaps; "
        "m fixed for the stratified design, random for the iid one. The independent simulation does not name its "
        "configurations: ours should lie inside its range.\n",
    ]
    out += report.head(
        "method", "design", "(n, m)", "repetitions", "rejects: least to greatest", "s.e. at most",
        "independent simulation", "inside it",
    )  # fmt: skip
    for design, method, size in itertools.product(("stratified", "iid"), METHODS, _SIZES):
        shares = _shares(found, method, design, size)
        if not shares:
            continue
        figures = expected.SYSTEMS[method][_SIZES.index(size)] if design == "stratified" else None
        count = shares[0].trials
        out.append(
            report.row(
                method,
                design,
                str(size),
                str(count),
                report.extent(shares),
                report.largest_error(shares),
                report.figures(figures, " to ") if figures else "",
                report.within(shares, figures, expected.TRIALS) if figures else "",
            )
        )
    return out


def _shares(found: dict[tuple[Any, ...], Tally], method: str, design: str, size: tuple[int, int]) -> list[Share]:
    return [
        tallies[method, design]
        for configuration, tallies in found.items()
        if configuration[2] == size and (method, design) in tallies
    ]
