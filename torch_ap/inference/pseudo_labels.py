r"""Average precision from pseudo-labels: numbers whose expectation is the label, given the label and the score.

A pseudo-label D corrects a noisy label, or completes a label that few items have. Products of D of different items have
the right expectation, but the square of D has not. With D summed to d, its squares to S and the items to g in each tie
group, and H and t the sums from the top to the end of the group,

.. math::
    AP = \frac{1}{M} \sum_{groups} \frac{d H + d - S}{t}, \qquad M = \sum_i D_i

In a group of one item, the term is D (H_above + 1) / t: the item itself counts as one hit. For labels of 0 and 1, it is
the AP of grouped ties. The terms e of the items, whose sum of squared deviations is the variance, are derivatives:

.. math::
    M e_i = D_i \Big[\frac{H + 1 - D_i}{t} + \sum_{at\ or\ below} \frac{d}{t} - AP\Big]
            - \sum_{at\ or\ below} \frac{d H + d - S}{t^2}

Source: the method of corrected labels is in Menon et al. (2015), Learning from Corrupted Binary Labels via
Class-Probability Estimation; the linearization is that of :mod:`torch_ap.inference.influence`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.core.ranking import order


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """AP of pseudo-labels, with the terms of the items: e = D ``slope`` + ``offset``.

    Attributes:
        value: 0-d AP.
        total: 0-d sum of the pseudo-labels, M.
        slope: (N,) derivative of AP in the pseudo-label of the item.
        offset: (N,) effect of the item on the precision of the items below.
    """

    value: Tensor
    total: Tensor
    slope: Tensor
    offset: Tensor


def average_precision_of_pseudo_labels(scores: Tensor, labels: Tensor) -> PseudoLabels:
    """Return the AP of one ranking.

    Args:
        scores: (N,) no NaN.
        labels: (N,) float64 pseudo-labels, any finite numbers.
    """
    distinct, group = order.dense_ranks(order.keys(scores))
    group = len(distinct) - 1 - group  # the best first
    zero = labels.new_zeros(len(distinct))
    d, squares, items = (zero.index_add(0, group, x) for x in (labels, labels**2, torch.ones_like(labels)))
    hits, t, total = d.cumsum(0), items.cumsum(0), labels.sum()
    terms = (d * hits + d - squares) / t
    value = terms.sum() / total
    below = (d / t).flip(0).cumsum(0).flip(0)
    lost = (terms / t).flip(0).cumsum(0).flip(0)
    slope = (hits[group] + 1 - labels) / t[group] + below[group] - value
    return PseudoLabels(value, total, slope / total, -lost[group] / total)


def sum_of_squared_deviations(terms: Tensor) -> Tensor:
    """Return the variance of the sum of independent terms, by the squared deviations from their mean: 0-d."""
    count = len(terms)
    return (terms - terms.mean()).square().sum() * count / (count - 1) if count > 1 else terms.new_zeros(())
