"""The hit curves of images and classes taken each alone, from matches of all, at all IoU thresholds at once."""

from typing import Any

from torch import Tensor

from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.ranking.hit_curve import HitCurve, with_tensors
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native


def group_curves(matches: Matches, groups: Any, m: Any, *, to_end: bool) -> HitCurve:
    """The rankings of some groups in the first area range: T * S, those of the first threshold first.

    Only hits are looked at one by one: how many detections of its group stand above each is known from matching, and
    what is no item among these, matched to an ignored ground truth or outside the area range, is counted and taken off.

    Args:
        matches: of all groups.
        groups: (S,) int64, ascending, native; no other has true positives.
        m: (S,) int64, native, their ground truths.
        to_end: whether rankings go on after their last hit, where no AP but nuScenes' looks.
    """
    ranked, inside = matches.ranked, native(matches.inside)[0]
    group, place, every_pair = map(native, (ranked.group, ranked.place, matches.at))
    width = int(place.max()) + 1 if len(place) else 1
    keys = arrays.take(group, every_pair) * width + arrays.take(place, every_pair)
    pairs = _by(keys)
    keys, at = keys[pairs], every_pair[pairs]
    matched, hit = (
        native(matches.criteria.of_range(arrays.tensor(arrays.take(native(words), pairs)), 0))
        for words in (matches.matched, matches.true_positive)
    )
    outside = arrays.places(~inside)
    outside = arrays.take(group, outside) * width + arrays.take(place, outside)
    outside = outside[_by(outside)]
    counted = segments.running_counts(matched & arrays.take(inside, at))  # beside ``inside``: a hit counts anyway

    event = arrays.places(hit.reshape(-1))
    t = event // max(1, len(at))
    pair = event - t * len(at)
    of = arrays.take(arrays.below(groups, arrays.take(group, at)), pair)
    ranking = t * len(groups) + of
    hits = segments.count(ranking, len(hit) * len(groups))
    offsets = segments.from_counts(hits)
    hits_above = arrays.steps(len(pair), pair) - arrays.take(offsets, ranking)
    first, first_outside = (arrays.below(x, groups * width) for x in (keys, outside))
    left_out = arrays.below(outside, arrays.take(keys, pair)) - arrays.take(first_outside, of)
    left_out = left_out + counted[t, pair] - counted[t, arrays.take(first, of)]
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
    return curve if isinstance(m, Tensor) else with_tensors(curve, None)


def _by(keys: Any) -> Any:
    """How whole numbers are sorted, native."""
    return native(order.stable_argsort(arrays.tensor(keys), int(keys.max()) + 1 if len(keys) else 1))
