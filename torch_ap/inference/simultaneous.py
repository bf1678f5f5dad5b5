r"""Simultaneous statements: intervals that contain all values at once, with the probability of the confidence level.

A band for the whole precision-recall curve uses the draws of :mod:`torch_ap.inference.dirichlet`. For each draw, its
most extreme tail probability over all recall levels is computed; the alpha / 2 quantile g of these numbers is the tail
of the pointwise intervals that form the band. So the band accounts for the correlation of the levels, and the number
of levels hardly matters.

Intervals of several values, such as the APs of classes, use the correlation matrix C of the values: from the
contributions of the items, the values without each group of items or images, or the values in resamples of the images
of a detector. With Z from N(0, C), the critical value c is the 1 - alpha quantile of max |Z|, and each value has the
interval of its own method and degrees of freedom at the level P(|Z| <= c).

Looks at a growing sample use an asymptotic confidence sequence on the logit scale. At all looks from n_0 items on, and
not only at one, the interval contains the limit. With the standard deviation s of an item's influence,

.. math::
    logit(AP) \pm s \sqrt{\frac{2 (n \rho^2 + 1)}{n^2 \rho^2} \log \frac{\sqrt{n \rho^2 + 1}}{\alpha}}
    \cdot \frac{t_{k-1}}{z}, \qquad
    \rho^2 = \frac{-2 \log \alpha + \log(1 - 2 \log \alpha)}{2 n_0}

which is narrowest at 2 n_0 items; t / z is the correction of a single look for few hits or misses. The factor of the
standard error of a single look, s / sqrt(n), depends on n / n_0 only. So it also holds for items in groups that arrive
as a whole, with the standard error and the degrees of freedom of :mod:`torch_ap.inference.groups`.

Source: Montiel Olea & Plagborg-Møller (2019), Simultaneous Confidence Bands: Theory, Implementation, and an Application
to SVARs, for calibrated bands from draws; Westfall & Young (1993) for the maximum of correlated statistics;
Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024), Time-Uniform Central Limit Theory and Asymptotic Confidence
Sequences, for looks.
"""

import math
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.items.inputs import Batch
from torch_ap.core.items.settings import APSettings
from torch_ap.core.ranking import hit_curve, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference import influence
from torch_ap.inference.record import Ends, normal_quantile
from torch_ap.inference.resampling import Resampling

_NORMAL_DRAWS = 20_000  # the error of the quantile of the maximum is about 1%


def band_ends(low: Tensor, high: Tensor, confidence_level: float) -> Ends:
    """Return the ends of a band from the values of draws.

    Args:
        low: (B, L) values of the draws of the lower ends.
        high: (B, L) values of the draws of the upper ends.
        confidence_level: nominal probability that the band contains all L values.

    Returns:
        Two (L,) tensors.
    """
    tail = (1 - confidence_level) / 2
    return _calibrated_ends(low, tail), -_calibrated_ends(-high, tail)


def _calibrated_ends(values: Tensor, tail: float) -> Tensor:
    """Return (L,) lower ends, below which a share ``tail`` of the draws is at some level."""
    ordered = values.sort(0).values
    draws = len(values)
    # the share of draws at or below each value
    ranks = torch.searchsorted(ordered.t().contiguous(), values.t().contiguous(), right=True)
    extreme = (ranks.to(values.dtype) / draws).amin(0)
    share = torch.quantile(extreme, tail)
    return torch.quantile(values, float(share - 1 / draws), dim=0)


def sequence_factor(n: Tensor, first_look: int, confidence_level: float) -> Tensor:
    """Return the half width of a confidence sequence after n items, relative to the interval of a single look.

    Args:
        n: (S,) numbers of items.
        first_look: number of items at the first look.
        confidence_level: nominal probability that the intervals of all looks contain the limit.
    """
    alpha = 1 - confidence_level
    scale = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / (2 * first_look)
    n = segments.as_float64(n)
    root: Tensor = torch.sqrt(2 * (n * scale + 1) / (n * scale) * torch.log(torch.sqrt(n * scale + 1) / alpha))
    return root / normal_quantile(confidence_level)


def max_t_level(rows: Tensor, confidence_level: float, resampling: Resampling) -> float:
    """Return the confidence level of single values at which all intervals contain their values at once.

    Args:
        rows: (C, U) contributions of the units to each value, or values without each unit, or in each resample; NaN
            counts as the mean. A row without deviations is correlated with no other.
        confidence_level: nominal probability that all intervals contain their values.
        resampling: source of the random numbers.
    """
    rows = rows.to("cpu", torch.float64)
    deviations = (rows - rows.nanmean(1, keepdim=True)).nan_to_num().numpy()
    covariance = deviations @ deviations.T
    errors = np.sqrt(covariance.diagonal())
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation: Array = np.nan_to_num(covariance / np.outer(errors, errors))
    np.fill_diagonal(correlation, 1.0)
    rng = np.random.default_rng(resampling.seed())
    eigenvalues, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0))
    maxima = abs(rng.standard_normal((_NORMAL_DRAWS, len(root))) @ root.T).max(1)
    return 1 - 2 * NormalDist().cdf(-float(np.quantile(maxima, confidence_level)))


def class_contributions(settings: APSettings, curve: HitCurve, validated: Batch, design: str) -> Tensor:
    """Return the contributions of the N items to the AP of each class, (C, N)."""
    dtype, device = segments.as_float64(curve.m).dtype, curve.m.device
    rows = torch.zeros(len(curve.m), len(validated.scores), dtype=dtype, device=device)
    for column, ranking in enumerate(hit_curve.split(curve)):
        flags, kept = influence.select_column(validated.target, column, settings.inputs.ignoring)
        contributions = influence.contributions(ranking, design)
        rows[column, kept] = contributions.values_at(validated.scores[:, column][kept], flags[kept])
    return rows
