"""How far an average precision can be trusted: a confidence interval for one ranking, for each of many, and for their
mean.
"""

from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention, convention_of
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference.average_interval import average_interval
from torch_ap.inference.interval import Interval, of_first
from torch_ap.inference.methods import DESIGNS, METHODS, Method, curve_interval, refuse_convention
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.classification import Batch, ClassificationInputs
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks, tensors
from torch_ap.rules.options import Average, Design, Interpolation


def average_precision_interval(
    preds: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method = "influence",
    design: Design = "iid",
    average: Average = "none",
    interpolation: Interpolation = None,
    convention: Convention | None = None,
    weights: Tensor | None = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> Interval:
    r"""A confidence interval for average precision, by default from its influence functions, at the cost of AP itself.

    .. math::
        SE^2 = \frac{\widehat{var}(\phi_+)}{m} + \frac{\widehat{var}(\phi_-)}{q} + \frac{\pi (1 - \pi) \theta_\pi^2}{n},
        \qquad logit(AP) \pm t_{k-1} \frac{SE}{AP (1 - AP)}

    with m hits, q misses, k the smaller of the two, pi = m / n, and the influence functions phi of
    :mod:`torch_ap.inference.influence`. The last term of SE belongs to ``design="iid"``: items were drawn, and the
    number of hits with them. In ``design="stratified"`` so many hits and so many misses were drawn. The estimand is the
    limit that AP tends to as items are added, its value in the population; not E(AP) for n items, which lies above it.

    =====================  =================================================  ==================  ==================
    method                 what it is                                         covers, at 80%      covers, at 95%
    =====================  =================================================  ==================  ==================
    influence              influence functions, logit, t with k - 1           .757 / .800 / .848  .927 / .950 / .976
    wald                   influence functions, AP ± z SE                     .778 / .800 / .889  .930 / .947 / .977
    jackknife              delete one, logit, t with k - 1                    .693 / .795 / .813  .899 / .949 / .959
    bootstrap-percentile   quantiles of the replicates                        .662 / .783 / .825  .870 / .936 / .962
    bootstrap-bca          bias-corrected and accelerated                     .710 / .792 / .820  .898 / .938 / .962
    bootstrap-logit        bootstrap SE, logit, t with k - 1                  .745 / .806 / .903  .917 / .955 / .982
    =====================  =================================================  ==================  ==================

    Coverage: least, median and greatest over 3,000 and 10,000 items, 50 to 1,000 hits, d' of 0 to 3, m held fixed and
    ``design="stratified"``, of 5,000 repetitions each (bootstraps 600), by ``benchmarks.coverage``. Where m is random
    the stratified interval of method "influence" covers .631 / .763 / .790 and .825 / .927 / .948, the iid one .760 /
    .797 / .827 and .928 / .950 / .969; used where m is fixed, the iid one covers .785 / .827 / .944 and .944 / .964 /
    .997. For the macro mean of five labels, m random, the iid one covers .764 to .803 and .932 to .951.

    Of few misses (10 to 1,000 hits, m random, 5,000 repetitions) method "influence" covers, at 95%, .988 / .993 / .997
    with 2 misses, .981 / .990 / .997 with 3, .951 / .988 / 1 with 5 and .901 / .968 / .994 with 10; with m - 1 degrees
    of freedom it would cover .815, .793, .805 and .842 at least.

    Where it is a matter of definition: where AP = 1 and the method finds no spread, the lower end is alpha^(1 / m),
    one-sided because the upper end is 1 whatever the data, and a heuristic; an average of 1 has NaN ends. With fewer
    than two hits, or no miss, the ends are NaN; with one miss those of "influence", "wald" and "jackknife" are, unless
    AP = 1. ``reason`` of the result says so. The ends of "wald" may leave [0, 1].

    Args:
        preds: (N,) scores of one ranking, or (N, C), one ranking per class or label.
        target: (N,) of 0 and 1; for (N, C) scores (N,) class ids or (N, C) of 0 and 1.
        confidence_level: nominal coverage, in (0, 1).
        method: one of those above.
        design: "iid" or "stratified".
        average: for (N, C) scores: "none" for an interval each, "macro", "weighted" or, of labels, "micro" for one of
            the average. All rankings rank the same items, so their covariances count: an item contributes its total.
            Method "influence", "wald" or a bootstrap; degrees of freedom after Welch & Satterthwaite. A ranking without
            hits counts as in :func:`torch_ap.functional.multilabel_average_precision`, as a constant.
        interpolation: as for :func:`torch_ap.functional.binary_average_precision`, except "trapezoid"; methods
            "bootstrap-percentile" and "bootstrap-logit" only.
        convention: what AP means, instead of ``interpolation``; without ``top_k``, and with tied scores only where they
            are "grouped".
        weights: refused: the formulas count items.
        n_resamples: resamples of a bootstrap; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors, or of (C,) for no average.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals no other package's. Source: influence functions: Hampel (1974), those of AP in
    :mod:`torch_ap.inference.influence`; "bca": Efron (1987). What others published is in
    :mod:`torch_ap.inference.published`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import average_precision_interval
        >>> preds = torch.tensor([10.0, 9, 8, 7, 6, 5, 4, 3, 2, 1])
        >>> target = torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1])
        >>> found = average_precision_interval(preds, target, confidence_level=0.8)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.468, 0.783, 0.937]
    """
    tensors.no_weights(weights, "an interval")
    meant = convention_of(convention, None, "min", interpolation, "grouped")
    settings, curve, validated = read(preds, target, meant, average)
    how = Resampling(n_resamples, generator, batch, progress)
    return interval_of_curve(
        settings, curve, validated, confidence_level=confidence_level, method=method, design=design, resampling=how
    )


def read(
    preds: Tensor,
    target: Tensor,
    convention: Convention,
    average: Average,
    empty_target_action: str | None = None,
) -> tuple[APSettings, HitCurve, Batch]:
    """The rankings of (N,) or (N, C) scores, what kind they are being seen from the shapes, and their items."""
    wide = isinstance(preds, Tensor) and preds.ndim == 2
    classes = wide and isinstance(target, Tensor) and target.ndim == 1
    inputs = ClassificationInputs(width=preds.shape[1] if wide else None, classes=classes)
    settings = APSettings(inputs, convention, average=average, empty_target_action=empty_target_action)
    validated = inputs.validate_now(preds, target)
    return settings, settings.curve(validated), validated


def interval_of_curve(
    settings: APSettings,
    curve: HitCurve,
    validated: Batch | None,
    *,
    confidence_level: float = 0.95,
    method: str = "influence",
    design: str = "iid",
    resampling: Resampling | None = None,
) -> Interval:
    """The interval of rankings, or of their average, under all settings of an evaluation.

    Args:
        settings: the settings.
        curve: its rankings.
        validated: the items, which the interval of an average needs; None where only counts per threshold were kept.
        confidence_level, method, design: as for :func:`average_precision_interval`.
        resampling: of the bootstraps.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    checks.one_of("design", design, DESIGNS)
    how: dict[str, Any] = {
        "confidence_level": confidence_level,
        "method": method,
        "design": design,
        "resampling": resampling or Resampling(),
    }
    if settings.inputs.width is not None and settings.average not in ("none", None):
        refuse_convention(settings.convention, method, None)
        return average_interval(settings, curve, validated, **how)
    found = curve_interval(curve, settings.convention, **how)
    return of_first(found) if settings.inputs.width is None else found
