"""The band around a precision-recall curve, recall level by recall level; of items in groups also at once."""

import functools
import itertools
import warnings
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.groups import sample
from benchmarks.coverage.rankings import LEVELS, drawn
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.interpolation import precision_at_levels, recall_levels
from torch_ap.core.measures.top_share import precision_at_recall
from torch_ap.core.ranking import builders, hit_curve
from torch_ap.inference import precision_band, resampling
from torch_ap.inference.resampling import Resampling

_RECALL = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_CASES = list(itertools.product(((300, 30), (3000, 245)), (1.0, 2.0)))
_REPLICATES = 500
# groups, mean size, whether sizes are equal or geometric, effects as for the intervals of AP, and d'
_WEAK = (0.5, 1.0, -2.0)
_GROUPS: tuple[Any, ...] = (
    (10, 100, "equal", _WEAK, 1.5), (20, 50, "geometric", _WEAK, 1.5), (50, 20, "equal", _WEAK, 1.5),
    (200, 5, "geometric", _WEAK, 1.5), (50, 20, "equal", (1.0, 1.0, -1.0), 1.5), (20, 50, "geometric", _WEAK, 3.0),
    (50, 20, "equal", (0.5, 1.0, -1.0), 3.0), (200, 5, "geometric", _WEAK, 3.0),
)  # fmt: skip
_ITEMS, _DRAWS = 2_000_000, 200  # of the population, and of weights


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


@functools.cache
def population(effects: Any, distance: float) -> torch.Tensor:
    """Precision at 101 recall levels of many items in groups of one; the limit at recall 0 is 1."""
    generator = torch.Generator().manual_seed(0)
    (scores,), target, _ = sample(_ITEMS, 1, "equal", effects, (distance,), 0.0, generator)
    levels = recall_levels("101-point", target.device)
    precision = precision_at_recall(builders.from_scores(scores.double(), target), levels)[0]
    return torch.where(levels > 0, precision, 1.0)


def bands_of_groups(
    groups: int, size: int, sizes: str, effects: Any, distance: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Bands with groups, at each level and at once, and the band of independent items."""
    truth, found = population(effects, distance), Tally()
    for _ in range(repetitions):
        (scores,), target, ids = sample(groups, size, sizes, effects, (distance,), 0.0, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pointwise, at_once = (
                precision_band(scores, target, groups=ids, n_resamples=_DRAWS, simultaneous=x) for x in (False, True)
            )
        independent = precision_band(scores, target, n_resamples=_DRAWS)
        for name, one in (("groups", pointwise), ("independent", independent)):
            inside, width = (one.low <= truth) & (truth <= one.high), one.high - one.low
            for recall in _RECALL:
                place = round(100 * recall)
                tally(found, (name, recall), inside[place], float(width[place]))
        inside = (at_once.low <= truth) & (truth <= at_once.high)
        tally(found, ("whole curve",), inside.all())
        tally(found, ("0.1 to 0.9",), inside[10:91].all())
    return found


def sections(options: Options) -> list[Section]:
    cases = [(*case, random_m) for random_m in (True, False) for case in _CASES]
    return [
        Section(tasks_of(band, cases, options.resampled, 50), lambda found: _lines(found, options)),
        Section(tasks_of(bands_of_groups, _GROUPS, options.resampled, 50), lambda found: _group_lines(found, options)),
    ]


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


def _group_lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    shares = [share for tallies in found.values() for key, share in tallies.items() if key[0] != "independent"]
    out = [
        f"\n## Band of precision of items in groups, `precision_band(groups=)`, at 95%: {options.resampled} "
        "repetitions of each configuration\n",
        "About 1,000 items, random effects of the groups: standard deviations of scores and of the logit of the share "
        f"of hits, and its mean. {_DRAWS} draws of weights, 101 recall levels. The first columns are single levels, "
        "the next two are the levels from 0.1 to 0.9 and all levels of the band with `simultaneous=True`. The last one "
        "is the least coverage at the levels 0.1 to 0.9 of the band without `groups`. s.e. up to "
        f"{report.largest_error(shares)}.\n",
    ]  # fmt: skip
    levels = [f"{x:g}" for x in _RECALL]
    out += report.head("groups", "size", "effects", "d'", *levels, "0.1 to 0.9", "whole curve", "independent")
    for (groups, size, sizes, effects, distance), tallies in found.items():
        covers = [tallies["groups", recall].value for recall in _RECALL]
        covers += [tallies[name,].value for name in ("0.1 to 0.9", "whole curve")]
        covers.append(min(tallies["independent", recall].value for recall in _RECALL[1:6]))
        spread = ", ".join(f"{x:g}" for x in effects)
        cells = str(groups), f"{size} {sizes}", spread, f"{distance:g}"
        out.append(report.row(*cells, *(f"{x:.3f}" for x in covers)))
    return out
