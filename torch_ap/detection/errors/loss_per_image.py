"""The loss 1 - mAP as a sum over false detections and missed objects, and so over images.

The precision at a cut after t detections is 1 minus the sum of 1 / t over the false detections among them. AP is a mean
of precisions at cuts, one per recall level or ground truth, and each cut that is never reached loses 1. Therefore each
false detection loses the mean of 1 / t over the cuts at or below it, and the missed ground truths of a class share the
unreached cuts equally. The sum over all classes and IoU thresholds is exactly 1 - mAP.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.options import InterpolationRule
from torch_ap.detection.errors.matches_at import MatchesAt

Array = np.ndarray[Any, Any]


def loss_per_image(at: MatchesAt) -> Tensor | None:
    """Return the part of 1 - mAP, over all IoU thresholds and classes, that is lost in each image: (B,) float64.

    Args:
        at: the matches of all images; its IoU threshold is not used.

    Returns:
        The losses. None for matches of several processes or stored ones, which lack the ground truths of the pairs, and
        for an interpolation other than recall levels, "all-points" and None.
    """
    matches, images = at.matches, len(at.columns["detections_per_image"])
    rule = at.interpolation
    if matches.partners is None or not (rule is None or isinstance(rule, Tensor) or rule == "all-points"):
        return None
    relevant = matches.relevant[0].cpu().numpy()
    category = matches.ranked.category.cpu().numpy()
    truth_category = matches.truth_category.cpu().numpy()
    image, truth_image = (x.cpu().numpy() for x in matches.images)
    valid, thresholds = matches.valid[0].cpu().numpy(), len(at.settings.thresholds)
    known, loss = np.count_nonzero(relevant) * thresholds, np.zeros(images)
    for place in range(thresholds):
        is_hit, is_miss = (x.cpu().numpy() for x in matches.flags(0, place))
        counted = (is_hit | is_miss).nonzero()[0]
        per_item, unreached = _losses(is_hit[counted], category[counted], relevant, rule)
        per_item = np.where(is_miss[counted], per_item, 0.0)
        loss += np.bincount(image[counted], per_item, minlength=images)
        is_missed = valid.copy()
        pairs = matches.events(0, place).pairs
        is_missed[matches.partners.truth[pairs].cpu().numpy()] = False
        missed = is_missed.nonzero()[0]
        count = np.bincount(truth_category[missed], minlength=len(relevant))
        each = unreached[truth_category[missed]] / count[truth_category[missed]]
        loss += np.bincount(truth_image[missed], each, minlength=images)
    return torch.from_numpy(loss / known if known else loss * np.nan)


def _losses(hit: Array, category: Array, relevant: Array, rule: InterpolationRule) -> tuple[Array, Array]:
    """Return the loss by each detection if it is false, and the loss of each class by unreached cuts.

    Args:
        hit: (N,) bool flags of the true positives, by category and descending score.
        category: (N,) categories, ascending.
        relevant: (K,) ground truths of each category.
        rule: interpolation of AP.
    """
    size = len(relevant)
    offsets = np.searchsorted(category, np.arange(size + 1))
    place = hit.nonzero()[0]
    owner = category[place]
    hit_offsets = np.searchsorted(owner, np.arange(size + 1))
    items, hits = place + 1 - offsets[owner], np.arange(len(place)) + 1 - hit_offsets[owner]
    weight, unreached = _cut_weights(np.diff(hit_offsets), hit_offsets, relevant, rule)
    cut = np.arange(len(place)) if rule is None else _best_later(hits / items, owner)
    lost = np.bincount(place[cut], weight / items[cut], minlength=len(hit))
    from_here = np.append(lost[::-1].cumsum()[::-1], 0.0)  # of all cuts at or below each detection
    return np.where(relevant[category] > 0, from_here[:-1] - from_here[offsets[1:]][category], 0.0), unreached


def _cut_weights(found: Array, offsets: Array, relevant: Array, rule: InterpolationRule) -> tuple[Array, Array]:
    """Return the share of the cuts of its class that each hit reaches first, (H,), and the unreached share, (K,)."""
    m = np.maximum(relevant, 1).astype(np.float64)
    if not isinstance(rule, Tensor):
        return np.repeat(1 / m, found), np.where(relevant > 0, 1 - found / m, 0.0)
    levels = rule.cpu().numpy()
    needed = np.floor(levels * m[:, None])
    needed += needed / m[:, None] < levels
    first = np.maximum(needed, 1).astype(np.int64) - 1
    is_reached = (first < found[:, None]) & (relevant > 0)[:, None]
    places = (offsets[:-1, None] + first)[is_reached]
    weight = np.bincount(places, minlength=offsets[-1]) / len(levels)
    return weight, np.where(relevant > 0, 1 - is_reached.mean(1), 0.0)


def _best_later(precision: Array, owner: Array) -> Array:
    """Return the index of the highest precision at or after each hit in its class."""
    if not len(precision):
        return np.empty(0, np.int64)
    key = precision[::-1] + 2.0 * (owner[-1] - owner[::-1])  # later classes first, so that no class raises another
    highest = np.maximum.accumulate(key)
    place = np.maximum.accumulate(np.where(key >= highest, np.arange(len(key)), 0))
    return (len(key) - 1 - place)[::-1]
