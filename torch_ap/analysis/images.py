"""What a detector does in each image."""

from torch import Tensor

from torch_ap.analysis.group_curves import group_curves
from torch_ap.curve.convention import Convention
from torch_ap.inference.images.resampled_rankings import InterpolationRule
from torch_ap.matching.matched import Matches
from torch_ap.ranking import segments
from torch_ap.ranking.distinct import distinct
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native


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
    found, (image, truth_image) = matches.events(0, place), matches.images
    wanted = segments.comparable(matches.ranked.score) >= score_threshold
    right = segments.pick(found.hits, segments.pick(wanted, found.hits))
    counted = wanted.index_fill(0, found.uncounted, False)
    tp, both = (segments.count(segments.pick(image, x), images) for x in (right, counted))
    m = segments.count(segments.pick(truth_image, matches.valid[0]), images)
    f1 = segments.as_float64(2 * tp) / segments.as_float64(both + m)
    return {
        "ap": _average_precision(matches, interpolation, images),
        "f1": f1,
        "tp": tp,
        "fp": both - tp,
        "missed": m - tp,
    }


def _average_precision(matches: Matches, interpolation: InterpolationRule, images: int) -> Tensor:
    """(B,) float64; NaN without ground truths."""
    truths = arrays.take(native(matches.truth_group), arrays.places(native(matches.valid)[0]))
    start, m = segments.runs(truths)
    groups, thresholds = truths[start], len(matches.criteria.thresholds)
    curve, which = distinct(group_curves(matches, groups, m, to_end=interpolation == "nuscenes"))
    values = Convention(interpolation=interpolation)(curve).index_select(0, which).view(thresholds, len(groups))
    classes = segments.count(arrays.tensor(groups // matches.categories), images)
    return segments.total(values.cumsum(0)[-1] / thresholds, segments.from_counts(classes)) / classes
