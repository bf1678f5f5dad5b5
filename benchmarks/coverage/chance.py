"""Random rankings: tails of the laws of AP and MAP, tests against chance, and Su & Zhang's own simulation."""

import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import expected, report
from benchmarks.coverage.rankings import LEVELS
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import chance_test, published
from torch_ap.inference.published import NormalLaw
from torch_ap.inference.random_ranking import RandomHits, random_average_precision
from torch_ap.inference.record import normal_quantile

_LAWS = ((3000, 245), (100, 10))
_NOMINAL = (0.05, 0.01, 0.001)
_TESTS = (
    ("exact", 20, 5, 0),
    ("lognormal", 100, 10, 0),
    ("lognormal", 3000, 245, 0),
    ("permutation", 100, 10, 0),
    ("permutation", 3000, 245, 0),
    ("permutation", 3000, 245, 10),
)
_SLIDES = (3000, 245)
_REPLICATES = 199


def random_curve(n: int, m: int, count: int, generator: torch.Generator) -> HitCurve:
    """``count`` random rankings."""
    places = torch.rand(count, n, generator=generator).topk(m, 1).indices.sort(1).values
    above = torch.arange(m).repeat(count)
    ones = torch.ones(count * m, dtype=torch.int64)
    before = torch.cat([places.new_full((count, 1), -1), places[:, :-1]], 1)
    items = (places - before).flatten()
    offsets, size = torch.arange(count + 1) * m, torch.full((count,), n)
    return HitCurve(
        hits=ones, items=items, hits_above=above, items_above=places.flatten() + 1 - items, score=None,
        offsets=offsets, n=size, m=torch.full((count,), m),
    )  # fmt: skip


def laws(n: int, m: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """How often a random ranking beats chance by each law."""
    chance, found = random_average_precision(n, m), Tally()
    about_share = NormalLaw("AP", torch.tensor(m / n, dtype=torch.float64), chance.standard_deviation)
    tails = {
        "shifted lognormal": chance.lognormal_tail,
        "normal about E(AP)": chance.normal_tail,
        "normal about m / n": about_share.tail,
    }
    for first in range(0, repetitions, 1000):
        values = Convention()(random_curve(n, m, min(1000, repetitions - first), generator)).tolist()
        for name, tail in tails.items():
            p = torch.tensor([float(tail(value)) for value in values])
            for size in _NOMINAL:
                tally(found, (name, size), p <= size)
    return found


def tests(method: Any, n: int, m: int, grades: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """The size of the test; ``grades`` is the number of different scores, or 0 where all differ."""
    found, target = Tally(), (torch.arange(n) < m).long()
    for _ in range(repetitions):
        preds = torch.rand(n, generator=generator, dtype=torch.float64)
        preds = (preds * grades).floor() if grades else preds
        p = chance_test(preds, target, method=method, n_resamples=_REPLICATES, generator=generator).p_value
        for size in _NOMINAL[:2]:
            tally(found, (size,), bool(p <= size))
    return found


def slides(n: int, m: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Su & Zhang's table: sums of values, squares and standard errors, and coverage."""
    found, chance = Tally(), random_average_precision(n, m)
    curve = random_curve(n, m, repetitions, generator)
    places = (curve.items_above + curve.items).reshape(-1, m)
    for t in expected.SLIDES_RECALL:
        r = (places <= t).sum(1) / m
        _estimates(found, (t,), r.double(), torch.sqrt(r * (1 - r) / m).double(), float(RandomHits(n, m, t).mean) / m)
    value = Convention()(curve)
    for name, variance in (("survival", published.survival), ("sigma_ap", published.sigma_ap)):
        for about, truth in (("E(AP)", float(chance.mean)), ("m / (n + 1)", m / (n + 1))):
            _estimates(found, (name, about), value, variance(curve).sqrt(), truth)
    return found


def _estimates(found: Tally, key: tuple[Any, ...], value: Tensor, error: Tensor, truth: float) -> None:
    tally(found, (*key, "value"), value)
    tally(found, (*key, "square"), (value - truth) ** 2)
    tally(found, (*key, "error"), error)
    for level in LEVELS:
        tally(found, (*key, level), (value - truth).abs() <= normal_quantile(level) * error)


def sections(options: Options) -> list[Section]:
    many = options.repetitions
    return [
        Section(tasks_of(laws, _LAWS, 100 * many, 10_000), lambda found: _laws(found, 100 * many)),
        Section(tasks_of(tests, _TESTS, many, 500), lambda found: _tests(found, many)),
        Section(tasks_of(slides, [_SLIDES], 2 * many, 1000), lambda found: _slides(found[_SLIDES], 2 * many)),
    ]


def _laws(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [f"\n## Random rankings, laws of AP: rejections in % of {count}, at nominal 5 / 1 / .1%\n"]
    out += report.head("(n, m)", "law", "rejects", "s.e.")
    for size, shares in found.items():
        for name in dict.fromkeys(name for name, _ in shares):
            found_by_law = [shares[name, nominal] for nominal in _NOMINAL]
            values, errors = (
                " / ".join(f"{100 * x:.3f}" for x in y)
                for y in ([share.value for share in found_by_law], [share.error for share in found_by_law])
            )
            out.append(report.row(str(size), name, values, errors))
    return out


def _tests(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Random rankings, `chance_test`: rejections in % of {count} rankings\n",
        f'"permutation" draws {_REPLICATES} permutations. "10" under scores: ten distinct scores, with many ties.\n',
    ]
    out += report.head("method", "(n, m)", "scores", "at nominal 5", "s.e.", "at nominal 1", "s.e.")
    for (method, n, m, grades), shares in found.items():
        cells = [f"{100 * x:.2f}" for size in _NOMINAL[:2] for x in (shares[size,].value, shares[size,].error)]
        out.append(report.row(method, str((n, m)), str(grades or "all different"), *cells))
    return out


def _slides(found: Tally, count: int) -> list[str]:
    out = [
        f"\n## Su & Zhang's simulation: {count} random rankings of (n, m) = {_SLIDES}\n",
        "In brackets: their printed values, from 10,000 rankings. The intervals are value ± z standard error; for r(t) "
        "the standard error of the survival function, sqrt(r (1 - r) / m). The standard error of a coverage c "
        f"is sqrt(c (1 - c) / {count}): {Share(0.8 * count, count).error:.4f} at 80%, "
        f"{Share(0.95 * count, count).error:.4f} at 95%.\n",
    ]
    out += report.head(
        "what", "about", "mean", "sd about it", "mean s.e.", "covers, 80%", "covers, 95%", "coverage agrees"
    )
    for t, printed in expected.SLIDES_RECALL.items():
        out.append(_slides_row(found, (t,), f"r({t})", f"{t / _SLIDES[0]:.5f}", (printed[0], *printed[1:])))
    first, second = expected.SLIDES_AP
    for name in ("survival", "sigma_ap"):
        rows: dict[str, tuple[float | None, ...]] = {
            "E(AP)": (first[2], first[1], *first[3:]),
            "m / (n + 1)": (None, None, second[1], *second[4:]),
        }
        out += [_slides_row(found, (name, about), f"AP, {name}", about, printed) for about, printed in rows.items()]
    return out


def _slides_row(found: Tally, key: tuple[Any, ...], what: str, about: str, printed: tuple[float | None, ...]) -> str:
    numbers = [found[(*key, name)].value for name in ("value", "square", "error", *LEVELS)]
    numbers[1] = math.sqrt(numbers[1])
    cells = [
        f"{number:.5f}" + ("" if figure is None else f" ({figure:.5f})")
        for number, figure in zip(numbers[:3], printed[:3], strict=True)
    ]
    cells += [f"{number:.4f} ({figure:.4f})" for number, figure in zip(numbers[3:], printed[3:], strict=True)]
    shares = [found[(*key, level)] for level in LEVELS]
    agree = report.all_agree(shares, [float(x or 0) for x in printed[3:]], expected.SLIDES_TRIALS, 4)
    return report.row(what, about, *cells, agree)
