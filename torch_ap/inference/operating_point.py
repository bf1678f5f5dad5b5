"""The operating point of a ranking: the threshold of the best F_beta, or of a wanted precision or recall."""

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.counts import Counts
from torch_ap.inference import bootstrap, posteriors
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.result import Result
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.runtime import arrays

METHODS = ("posterior", "bootstrap")
_RATIOS = ("precision", "recall", "f_beta")
_ROUNDING = 1e-12  # of sums of weights: a ratio equal to the one wanted must reach it
_ROUNDED_SQUARE = 2.0**-48  # of F_beta where beta^2 is rounded: four operations on each side
_EXACT = 2.0**10  # times beta^2 is whole: products with counts are exact


@dataclass(frozen=True, eq=False, repr=False)
class CutNumbers(Result):
    """Abstract: what thresholds of the score give; :class:`OperatingPoint` says what each is."""

    threshold: Tensor
    precision: Tensor
    precision_low: Tensor
    precision_high: Tensor
    recall: Tensor
    recall_low: Tensor
    recall_high: Tensor
    f_beta: Tensor
    f_beta_low: Tensor
    f_beta_high: Tensor
    tp: Tensor
    fp: Tensor
    fn: Tensor
    n: Tensor

    _as_given = ("threshold",)


@dataclass(frozen=True, eq=False, repr=False)
class OperatingPoint(CutNumbers):
    """What calling everything positive that scores at least a threshold gives, 0-d each.

    For a threshold chosen on the same items the intervals cover at 95%, least / median / greatest over four
    configurations of 100 to 3,000 items (``benchmarks.coverage``):

    =============  =========  ====================  ====================
    wanted         of         "posterior"           "bootstrap"
    =============  =========  ====================  ====================
    best F1        precision  .897 / .917 / .937    .893 / .898 / .933
    best F1        recall     .863 / .885 / .923    .900 / .910 / .947
    best F1        F1         .850 / .873 / .900    .867 / .887 / .937
    precision .7   precision  .941 / .950 / .957    .809 / .849 / .877
    precision .7   recall     .914 / .934 / .950    .910 / .926 / .950
    precision .7   F1         .903 / .929 / .940    .885 / .896 / .917
    recall .8      precision  .927 / .938 / .963    .920 / .933 / .947
    recall .8      recall     .907 / .940 / .943    .897 / .922 / .943
    recall .8      F1         .917 / .932 / .953    .903 / .930 / .950
    =============  =========  ====================  ====================

    The estimand is what the chosen threshold gives in the population. "posterior" takes it as fixed in advance, and so
    promises too much of the best F_beta; the bootstrap comes nearer there, but not for a wanted precision.

    Attributes:
        threshold: the score: ``preds >= threshold`` are called positive; NaN where no threshold does what is wanted.
        precision: tp / (tp + fp).
        precision_low: lower end of its interval; NaN where none exists.
        precision_high: upper end.
        recall: tp / (tp + fn).
        recall_low: lower end.
        recall_high: upper end.
        f_beta: F_beta.
        f_beta_low: lower end.
        f_beta_high: upper end.
        tp: true positives; a sum of weights where items have them, as the others.
        fp: false positives.
        fn: positives that are not called so.
        n: items.
        beta: of F: recall counts beta times as much as precision.
        confidence_level: nominal coverage of each interval.
        method: how they were found.
        reason: why numbers are NaN, or resamples were left out; "" otherwise.
    """

    beta: float
    confidence_level: float
    method: str
    reason: str = ""


@dataclass(frozen=True)
class Wanted:
    """What the threshold is chosen for: the best F_beta, or the best of one ratio where the other is as wanted.

    Attributes:
        beta: of F.
        precision: the least precision; of the thresholds that have it, the one of the highest recall is chosen.
        recall: the least recall; likewise with the highest precision.
    """

    beta: float = 1.0
    precision: float | None = None
    recall: float | None = None

    def __post_init__(self) -> None:
        checks.beta("beta", self.beta)
        object.__setattr__(self, "beta", float(self.beta))
        if self.precision is not None and self.recall is not None:
            raise ValueError(
                f"`precision` and `recall` cannot both be wanted, got {self.precision!r} and {self.recall!r}; give one"
            )
        for name in ("precision", "recall"):
            if (value := getattr(self, name)) is not None:
                checks.fraction(name, value)

    def value(self, counts: Counts, *, weighted: bool) -> tuple[Any, float]:
        """What is to be highest, -inf where the counts do not do what is wanted; equal are those up to this factor."""
        slack = 1 + (_ROUNDING if weighted else 0)
        if self.precision is not None:
            value, fits = counts.tp, counts.precision * slack >= self.precision
        elif self.recall is not None:
            value, fits = counts.precision, counts.recall * slack >= self.recall
        else:
            value, fits = self._f_beta_scaled(counts), counts.tp > 0
            slack = max(slack, 1 + (0 if (self.beta**2 * _EXACT).is_integer() else _ROUNDED_SQUARE))
        return arrays.namespace(value).where(fits & (counts.tp > 0), value, -torch.inf), slack

    def place(self, counts: Counts, *, weighted: bool) -> Tensor:
        """Where along the last dimension, highest threshold first, the best one stands: (...,) int64, -1 for nowhere.

        Of equally good ones it is the highest threshold for F and a wanted precision, the lowest for a wanted recall.
        """
        value, slack = self.value(counts, weighted=weighted)
        if not value.shape[-1]:
            return torch.full(value.shape[:-1], -1, dtype=torch.int64, device=value.device)
        best = value.amax(-1, keepdim=True)
        equal = (value * slack >= best).to(torch.int8)
        place = equal.argmax(-1) if self.recall is None else value.shape[-1] - 1 - equal.flip(-1).argmax(-1)
        return torch.where(best[..., 0] > -torch.inf, place, -1)

    def _f_beta_scaled(self, counts: Counts) -> Tensor:
        """F_beta times a constant: tp / (beta^2 m + items), the same bits where it is the same number.

        Only the division rounds, where beta^2 has few digits. A power of 2 keeps large beta^2 from overflowing.
        """
        exponent = max(0, math.frexp(self.beta**2)[1])
        relevant, retrieved = counts.tp + counts.fn, counts.tp + counts.fp
        scaled: Tensor = counts.tp / (
            math.ldexp(self.beta**2, -exponent) * relevant + math.ldexp(1.0, -exponent) * retrieved
        )
        return scaled

    @property
    def unreached(self) -> str:
        """Why there is no such threshold, where there are positives."""
        for name in ("precision", "recall"):
            if (value := getattr(self, name)) is not None:
                return f"no threshold has a {name} of {value:g}: everything is NaN"
        return "no threshold retrieves a positive: everything is NaN"


def operating_point(
    curve: HitCurve, wanted: Wanted, *, confidence_level: float, method: str, resampling: Resampling
) -> OperatingPoint:
    """The operating point of one ranking, with its intervals.

    Args:
        curve: one ranking with scores, a tie group for each, as only these can be told apart by a threshold.
        wanted: what the threshold is chosen for.
        confidence_level: nominal coverage.
        method: "posterior" or "bootstrap".
        resampling: of the bootstrap.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    assert curve.score is not None
    hits, items = curve.cumulative_hits, curve.cumulative_items
    counts = _counts(hits, items, curve.m)
    ratios, place = _ratios(counts, wanted.beta), int(wanted.place(counts, weighted=curve.weighted))
    settings: dict[str, Any] = {"beta": wanted.beta, "confidence_level": confidence_level, "method": method}
    if place < 0:
        nan = ratios.new_full((), torch.nan)
        missing: dict[str, Any] = {field.name: nan for field in fields(OperatingPoint) if field.type is Tensor}
        reason = wanted.unreached if bool(curve.m > 0) else "no positives: everything is NaN"
        return OperatingPoint(**{**missing, **settings, "n": curve.n[0]}, reason=reason)
    at = ratios[:, place]
    if curve.weighted:
        ends, reason = at.new_full((3, 2), torch.nan), "weights have no interval: its formulas count items"
    elif method == "posterior":
        ends, reason = _posterior_ends(counts.map(lambda x: x[place]), at, wanted.beta, confidence_level), ""
    else:
        ends, reason = _bootstrap_ends(_optimism(curve, ratios, wanted, resampling), at, confidence_level)
    found = _named(at, ends) | {"tp": hits[place], "fp": items[place] - hits[place], "fn": curve.m[0] - hits[place]}
    return OperatingPoint(threshold=curve.score[place], n=curve.n[0], **found, **settings, reason=reason)


def _named(estimate: Tensor, ends: Tensor) -> dict[str, Any]:
    """The three ratios and the ends of their intervals, by the names of their fields."""
    rows = zip(_RATIOS, torch.column_stack([estimate, ends]), strict=True)
    return {f"{name}{end}": x for name, row in rows for end, x in zip(("", "_low", "_high"), row, strict=True)}


def _counts(hits: Tensor, items: Tensor, m: Tensor) -> Counts:
    """The counts at thresholds that retrieve so many hits and items; tn is not asked for."""
    tp, retrieved, m = (segments.as_float64(x) for x in (hits, items, m))
    return Counts(tp=tp, fp=retrieved - tp, fn=m - tp, tn=torch.zeros_like(tp))


def _ratios(counts: Counts, beta: float) -> Tensor:
    """(3, ...) precision, recall and F_beta."""
    return torch.stack([counts.precision, counts.recall, counts.f_beta(beta)])


def _posterior_ends(at: Counts, estimate: Tensor, beta: float, confidence_level: float) -> Tensor:
    """(3, 2) central intervals of the posteriors, which reach an estimate of 0 or 1."""
    tp, fp, fn = float(at.tp), float(at.fp), float(at.fn)
    laws: tuple[posteriors.BetaPosterior | posteriors.FBetaPosterior, ...] = (
        posteriors.precision_posterior(tp, fp),
        posteriors.recall_posterior(tp, fn),
        posteriors.f_beta_posterior(tp, fp, fn, beta=beta),
    )
    low, high = torch.stack([torch.stack(law.interval(confidence_level)) for law in laws]).to(estimate).unbind(1)
    return torch.stack([torch.minimum(low, estimate), torch.maximum(high, estimate)], 1)


def _bootstrap_ends(optimism: Tensor, estimate: Tensor, confidence_level: float) -> tuple[Tensor, str]:
    """(3, 2) ends, from (B, 3) of :func:`_optimism`, and how many resamples have no part in them."""
    tails = estimate.new_tensor([(1 + confidence_level) / 2, (1 - confidence_level) / 2])
    ends = (estimate - torch.nanquantile(optimism, tails, dim=0)).t().clamp(0, 1)
    lost = int(torch.isnan(optimism[:, 0]).sum())
    reasons = [f"{lost} of {len(optimism)} resamples have no such threshold and are left out"] if lost else []
    flat = [name for name, (low, high) in zip(_RATIOS, ends.tolist(), strict=True) if low == high]
    if flat:
        reasons.append(f"resamples show no spread of {' and '.join(flat)}, whose interval has no width")
    return ends, "; ".join(reasons)


def _optimism(curve: HitCurve, ratios: Tensor, wanted: Wanted, how: Resampling) -> Tensor:
    """(B, 3): what each resample's own threshold gives there, minus what it gives in all items; NaN where none is fit.

    It stands for what the threshold chosen from all items gives there, minus what it gives in the population: for the
    spread of that, and for the optimism of the choice.
    """

    def gap(drawn: HitCurve) -> Tensor:
        shape = (len(drawn.m), len(curve.hits))
        hits, items = drawn.cumulative_hits.reshape(shape), drawn.cumulative_items.reshape(shape)
        counts = _counts(hits, items, drawn.m[:, None])
        place = wanted.place(counts, weighted=False)
        at = place.clamp(min=0)
        there = _ratios(counts.map(lambda x: x.gather(1, at[:, None])[:, 0]), wanted.beta)
        return torch.where(place >= 0, there - ratios[:, at], torch.nan).t()

    return bootstrap.replicates(curve, gap, "iid", how)
