"""The band around a precision-recall curve, recall level by recall level."""

import itertools
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import LEVELS, drawn
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.interpolation import precision_at_levels
from torch_ap.core.ranking import hit_curve
from torch_ap.inference import resampling
from torch_ap.inference.resampling import Resampling

_RECALL = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_CASES = list(itertools.product(((300, 30), (3000, 245)), (1.0, 2.0)))
_REPLICATES = 500


def limits(share: float, distance: float) -> torch.Tensor:
    """Precision in the population at each recall level; it falls with recall, so interpolation changes nothing."""
    recall = torch.tensor(_RECALL, dtype=torch.float64)
    fall_out = torch.special.ndtr(torch.special.ndtri(recall) - distance)
    value = share * recall / (share * recall + (1 - share) * fall_out)
    return torch.where(recall > 0, value, 1.0)


def band(
    size: tuple[int, int], distance: float, random_m: bool, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Both levels from the same replicates, as in `precision_band`."""
    (n, m), found = size, Tally()
    truth, levels = limits(m / n, distance), torch.tensor(_RECALL, dtype=torch.float64)
    tails = torch.tensor([[(1 - level) / 2, (1 + level) / 2] for level in LEVELS], dtype=torch.float64)
    curve = drawn(n, m, distance, random_m, repetitions, generator)
    for one in hit_curve.split(curve):
        values = resampling.replicates(
            one, lambda resample: precision_at_levels(resample, levels), "iid" if random_m else "stratified",
            Resampling(_REPLICATES, generator),
        )  # fmt: skip
        ends = torch.nanquantile(values, tails.flatten(), dim=0).reshape(len(LEVELS), 2, len(_RECALL))
        for level, (low, high) in zip(LEVELS, ends, strict=True):
            inside = (low <= truth) & (truth <= high)
            for place, recall in enumerate(_RECALL):
                tally(found, (recall, level), inside[place], float(high[place] - low[place]))
    return found


def sections(options: Options) -> list[Section]:
    cases = [(*case, random_m) for random_m in (True, False) for case in _CASES]
    return [Section(tasks_of(band, cases, options.resampled, 50), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## Band of precision, `precision_band`: {options.resampled} repetitions of each of {len(_CASES)} "
        "configurations\n",
        f"(n, m) = (300, 30) or (3000, 245), d' of 1 or 2; {_REPLICATES} replicates. Interpolation takes "
        "maxima, so that at the ends of the curve the precision of a sample is above the limit: at recall 0 it is the "
        "highest precision of all, at recall 1 the precision at the last hit.\n",
    ]
    columns = ("covers: least / median / greatest", "s.e. at most", "mean width")
    out += report.head("m", "design", "recall", "level", *columns)
    for random_m, recall, level in itertools.product((True, False), _RECALL, LEVELS):
        shares = [tallies[recall, level] for case, tallies in found.items() if case[-1] == random_m]
        how = ("random", "iid") if random_m else ("fixed", "stratified")
        cells = report.spread(shares), report.largest_error(shares), report.width(shares)
        out.append(report.row(*how, f"{recall:g}", f"{level:.0%}", *cells))
    return out
