"""Numbers of a detector in each image, from the matches of all images, and named slices of the images."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.base.options import InterpolationRule
from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.distinct import distinct_rankings
from torch_ap.core.ranking.hit_curve import HitCurve, from_native
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.detection.inference.rankings import ENDED
from torch_ap.detection.matching.matched import Matches


def per_image(at: MatchesAt, score_threshold: float) -> dict[str, Tensor]:
    """Return a table with one row per image.

    Args:
        at: the matches of all images, and the IoU threshold of the counts.
        score_threshold: the lowest score for the counts.

    Returns:
        (B,) columns: "ap", the mean AP over IoU thresholds and classes of each image alone; "f1"; "tp", "fp" and
        "missed" at one IoU threshold.
    """
    matches, images = at.matches, len(at.columns["detections_per_image"])
    events, (image, truth_image) = matches.events(0, at.threshold_index), matches.images
    is_counted = segments.comparable(matches.ranked.score) >= score_threshold
    right = segments.pick(events.hits, segments.pick(is_counted, events.hits))
    counted = is_counted.index_fill(0, events.uncounted, False)
    tp, both = (segments.count(segments.pick(image, x), images) for x in (right, counted))
    m = segments.count(segments.pick(truth_image, matches.valid[0]), images)
    f1 = segments.as_float64(2 * tp) / segments.as_float64(both + m)
    return {
        "ap": _average_precision(matches, at.interpolation, images),
        "f1": f1,
        "tp": tp,
        "fp": both - tp,
        "missed": m - tp,
    }


def group_curves(matches: Matches, groups: Any, m: Any, *, to_end: bool) -> HitCurve:
    """Return the T * S rankings of some groups in the first area range, ordered by threshold.

    Only hits are processed one by one. Matching gives the number of detections of the group above each hit; detections
    that are no items, because they match an ignored ground truth or are outside the area range, are subtracted.

    Args:
        matches: the matches of all groups.
        groups: (S,) int64, ascending, native; no other group has true positives.
        m: (S,) int64 numbers of ground truths, native.
        to_end: whether rankings continue after their last hit, which only nuScenes' AP requires.
    """
    ranked, inside = matches.ranked, native(matches.inside)[0]
    group, place, every_pair = map(native, (ranked.group, ranked.place, matches.at))
    width = int(place.max()) + 1 if len(place) else 1
    keys = arrays.take(group, every_pair) * width + arrays.take(place, every_pair)
    pairs = _sort_order(keys)
    keys, at = keys[pairs], every_pair[pairs]
    matched, hit = (
        native(matches.criteria.range_flags(arrays.tensor(arrays.take(native(words), pairs)), 0))
        for words in (matches.matched, matches.true_positive)
    )
    outside = arrays.true_indices(~inside)
    outside = arrays.take(group, outside) * width + arrays.take(place, outside)
    outside = outside[_sort_order(outside)]
    counted = segments.running_counts(matched & arrays.take(inside, at))  # a hit counts also outside

    event = arrays.true_indices(hit.reshape(-1))
    t = event // max(1, len(at))
    pair = event - t * len(at)
    group_of_hit = arrays.take(arrays.below(groups, arrays.take(group, at)), pair)
    ranking = t * len(groups) + group_of_hit
    hits = segments.count(ranking, len(hit) * len(groups))
    offsets = segments.from_counts(hits)
    hits_above = arrays.arange_like(len(pair), pair) - arrays.take(offsets, ranking)
    first, first_outside = (arrays.below(x, groups * width) for x in (keys, outside))
    left_out = arrays.below(outside, arrays.take(keys, pair)) - arrays.take(first_outside, group_of_hit)
    left_out = left_out + counted[t, pair] - counted[t, arrays.take(first, group_of_hit)]
    items_above = arrays.take(arrays.take(place, at), pair) - left_out + hits_above
    if to_end:
        detected = arrays.take(group, native(ranked.by_group))
        n = arrays.below(detected, groups + 1) - arrays.below(detected, groups)
        last, last_outside = (arrays.below(x, (groups + 1) * width) for x in (keys, outside))
        n = (n - last_outside + first_outside - counted[:, last] + counted[:, first]).reshape(-1) + hits
    else:
        n = arrays.full(len(hits), 0, hits)
        arrays.raise_to(n, ranking, items_above + 1)
    xp = arrays.namespace(hits)
    ones, relevant = xp.ones_like(hits_above), xp.tile(m, (len(hit),))
    curve = HitCurve(ones, ones, hits_above, items_above, score=None, offsets=offsets, n=n, m=relevant)
    return curve if isinstance(m, Tensor) else from_native(curve, None)


def _sort_order(keys: Any) -> Any:
    """Return the sort order of whole numbers, native."""
    return native(order.stable_argsort(arrays.tensor(keys), int(keys.max()) + 1 if len(keys) else 1))


def _average_precision(matches: Matches, interpolation: InterpolationRule, images: int) -> Tensor:
    """Return the (B,) float64 AP of each image; NaN without ground truths."""
    truths = arrays.take(native(matches.truth_group), arrays.true_indices(native(matches.valid)[0]))
    start, m = segments.runs(truths)
    groups, thresholds = truths[start], len(matches.criteria.thresholds)
    curve, which = distinct_rankings(
        group_curves(matches, groups, m, to_end=not isinstance(interpolation, Tensor) and interpolation in ENDED)
    )
    values = Convention(interpolation=interpolation)(curve).index_select(0, which).view(thresholds, len(groups))
    classes = segments.count(arrays.tensor(groups // matches.categories), images)
    return segments.total(values.cumsum(0)[-1] / thresholds, segments.from_counts(classes)) / classes


def image_flags(slices: Any, ids: Tensor, rule: str) -> dict[str, Tensor]:
    """Return the images of each slice, (B,) bool by name.

    Args:
        slices: dict from names to image ids, each at most once per slice.
        ids: (B,) int64, distinct.
        rule: rule that an unknown id breaks, for the message.

    Raises:
        TypeError: if ``slices`` is not a dict, or a name is not a str.
        ValueError: without slices, and for ids that are not integers, unknown or repeated.
    """
    if not isinstance(slices, Mapping):
        raise_invalid("slices", "must be a dict of names to images", Plain(type(slices).__name__), TypeError)
    if not slices:
        raise_invalid("slices", "must contain at least one slice", slices)
    for name in slices:
        if not isinstance(name, str):
            raise_invalid("slices", "must have names that are str", name, TypeError)
    known, count = ids.cpu(), len(ids)
    ordered, order = known.sort()
    flags = {}
    for name, values in slices.items():
        images = _validate_ids(name, values)
        place = torch.searchsorted(ordered, images).clamp(max=max(count - 1, 0))
        unknown = images[ordered[place] != images] if count else images
        if len(unknown):
            _raise_invalid_slice(name, rule, int(unknown[0]))
        times = torch.bincount(order[place], minlength=count)
        if len(images) and int(times.max()) > 1:
            _raise_invalid_slice(name, "name each image once", int(known[times.argmax()]))
        flags[name] = times.to(ids.device, torch.bool)
    return flags


def _validate_ids(name: str, ids: Any) -> Tensor:
    """Return the ids of a slice, (n,) int64 on CPU."""
    values = ids.detach().cpu() if isinstance(ids, Tensor) else ids
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        _raise_invalid_slice(name, "be a list, an array or a 1-D tensor of ints", Plain(type(ids).__name__))
    array = np.asarray(list(values) if isinstance(values, set | frozenset | range) else values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        advice = "; convert flags with `flags.nonzero()`" if array.dtype.kind == "b" else ""
        _raise_invalid_slice(name, "be a list, an array or a 1-D tensor of ints", Plain(f"{short_repr(ids)}{advice}"))
    if array.dtype == np.uint64 and (large := array >= 1 << 63).any():
        _raise_invalid_slice(name, "contain ints below 2^63", int(array[large][0]))
    return torch.from_numpy(array.astype(np.int64))


def _raise_invalid_slice(name: str, rule: str, value: object) -> None:
    raise_invalid(f"slices[{short_repr(name)}]", f"must {rule}", value)
