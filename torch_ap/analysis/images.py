"""What a detector does in each image."""

import torch
from torch import Tensor

from torch_ap.analysis.one_by_one import one_by_one
from torch_ap.curve.convention import Convention
from torch_ap.inference.images.resampled_rankings import InterpolationRule
from torch_ap.matching.matched import Matches
from torch_ap.ranking import segments


def per_image(
    matches: Matches, interpolation: InterpolationRule, images: int, place: int, score_threshold: float
) -> dict[str, Tensor]:
    """A table with one row per image.

    Args:
        matches: of all images.
        interpolation: of AP.
        images: B.
        place: of the IoU threshold of the counts among all.
        score_threshold: the lowest score that counts there.

    Returns:
        (B,) columns: "ap", the mean AP over IoU thresholds and classes of each image alone; "f1"; "tp", "fp" and
        "missed" at one IoU threshold.
    """
    ranked, size = matches.ranked, matches.categories
    wanted = segments.comparable(ranked.score) >= score_threshold
    tp, fp = (segments.count(ranked.group[wanted & each] // size, images) for each in matches.flags(0, place))
    m = segments.count(matches.truth_group[matches.valid[0]] // size, images)
    f1 = segments.as_float64(2 * tp) / segments.as_float64(tp + fp + m)
    return {"ap": _average_precision(matches, interpolation, images), "f1": f1, "tp": tp, "fp": fp, "missed": m - tp}


def _average_precision(matches: Matches, interpolation: InterpolationRule, images: int) -> Tensor:
    """(B,) float64; NaN without ground truths."""
    ranked, groups = matches.ranked, matches.truth_group[matches.valid[0]]
    start = segments.run_starts(groups)
    m = start.diff(append=start.new_tensor([len(groups)]))
    groups = groups[start]
    # the detections of images and classes that have ground truths, by group and score
    place = torch.searchsorted(groups, ranked.group[ranked.by_group])
    kept = (torch.cat([groups, groups.new_tensor([-1])])[place] == ranked.group[ranked.by_group]).nonzero().squeeze(1)
    detections = ranked.by_group[kept]
    offsets = torch.searchsorted(place[kept], torch.arange(len(groups) + 1, device=groups.device))
    convention, thresholds = Convention(interpolation=interpolation), len(matches.criteria.thresholds)
    each = segments.as_float64(torch.zeros_like(groups))
    for threshold in range(thresholds):
        hit, miss = (flags[detections] for flags in matches.flags(0, threshold))
        each += convention(one_by_one(hit, hit | miss, offsets, m))
    classes = segments.count(groups // matches.categories, images)
    return segments.total(each / thresholds, segments.from_counts(classes)) / classes
