"""Similarity of keypoints, pair by pair, with the operations of COCO's code in the same order.

This order, and NumPy's ``exp`` and sum on CPU, make every similarity, and so every comparison with a threshold,
bit-identical to pycocotools.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.base.cached import memoize
from torch_ap.core.ranking import segments
from torch_ap.detection.shapes.boxes import PairIoU, pairs_above

# COCO's sigmas of nose, eyes, ears, shoulders, elbows, wrists, hips, knees and ankles
SIGMAS = tuple(x / 10 for x in (0.26, *(y for y in (0.25, 0.35, 0.79, 0.72, 0.62, 1.07, 0.87, 0.89) for _ in range(2))))
_SPACING = 2.0**-52  # COCO's numpy.spacing(1), added to areas
_NUMBERS_A_CHUNK = {"cpu": 1 << 15}  # numbers that stay in a processor's cache from step to step
_NUMBERS_A_CHUNK_ON_DEVICE = 1 << 26
_ROUNDED, _SLACK = 1e-14, 1 + 1e-9  # tolerances of a mean and of distances, so that rounding drops no pair
_SMALLEST = -700.0  # exp of less is ten times slower, and changes no bit of a mean of at least `_CLEAR`
_CLEAR = 1e-280


def area(keypoints: Tensor) -> Tensor:
    """Return the (N,) float64 areas of the boxes around (N, K, 3) keypoints, COCO's areas of detections."""
    low, high = _extent(keypoints, lambda: _planar(keypoints))
    return (high - low).prod(0)


def _extent(keypoints: Tensor, planar: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Return the (2, N) lowest and highest x and y of (N, K, 3) keypoints; cached for matching and areas."""

    def extent() -> tuple[Tensor, Tensor]:
        points = planar()
        return points.amin(2), points.amax(2)

    return memoize(extent, _extent, (keypoints,))


def is_unlabelled(keypoints: Tensor) -> Tensor:
    """Return which of (N, K, 3) keypoints have no point with a visibility above 0, (N,) bool."""
    return ~(keypoints[..., 2] > 0).any(1)


def _planar(keypoints: Tensor) -> Tensor:
    """Return the (2, N, K) float64 x and y of (N, K, 3) keypoints."""
    return segments.as_float64(keypoints[..., :2].movedim(2, 0).contiguous())


def coco_pairs(detections: Tensor, truths: Tensor, areas: Tensor, boxes: Tensor, sigmas: Sequence[float]) -> PairIoU:
    """Return the function of COCO's object keypoint similarity of rows of two sets of keypoints.

    The similarity is the mean of exp(-e) over the labelled points of the ground truth, with
    e = d^2 / (2 sigma)^2 / (area + 2^-52) / 2 and d the distance between the two points. If no point is labelled, it is
    the mean over all points, with d the distance to the box of twice the size; 0 if that box is unknown.

    Args:
        detections: (D, K, 3) x, y and an ignored value.
        truths: (G, K, 3) x, y and visibility, above 0 for labelled points.
        areas: (G,) float64, not negative.
        boxes: (G, 4) float64 (x, y, width, height) of ground truths, NaN if unknown.
        sigmas: K numbers.
    """
    pose = _Poses(detections, truths, areas, boxes, sigmas)

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        if least > 0:
            d, g = pose.near(d, g, least)
        value = pose.similarity(d, g, least)
        return pairs_above(d, g, value, least) if least > 0 else (d, g, value)

    return overlapping


class _Poses:
    """Two sets of keypoints whose rows are compared pair by pair."""

    def __init__(
        self, detections: Tensor, truths: Tensor, areas: Tensor, boxes: Tensor, sigmas: Sequence[float]
    ) -> None:
        labelled = truths[..., 2] > 0
        count = labelled.sum(1)
        has_labels = count > 0
        self.boxed = native(~has_labels)
        self.counted = native(torch.cat([labelled.new_ones((len(truths), 1)), labelled | ~has_labels[:, None]], 1))
        self.terms = native(count.masked_fill_(~has_labels, len(sigmas)))
        self.size = areas + _SPACING
        self.variances = areas.new_tensor([(sigma * 2) ** 2 for sigma in sigmas])
        d_points, g_points = (_planar(side) for side in (detections, truths))
        self.points = [native(d_points), native(g_points)]
        start, size = boxes.t()[:2], boxes.t()[2:]
        beyond = labelled.to(areas.dtype).reciprocal_().sub_(1)  # 0 or infinite; adding is faster than selecting
        low, high = _extent(detections, lambda: d_points)
        self.low = [native(low), native(torch.where(has_labels, (g_points + beyond).amin(2), start - size))]
        self.high = [native(high), native(torch.where(has_labels, (g_points - beyond).amax(2), start + size * 2))]
        self._reach: tuple[float, Any, Any] | None = None

    def _reachable(self, least: float) -> tuple[Any, Any]:
        """Return the (2, G) lowest and highest x and y of points that can reach a similarity of ``least``."""
        if self._reach is None or self._reach[0] != least:
            most = float(self.variances.max())
            reach = native((self.size * (2 * (_ROUNDED - math.log(least)) * most)).sqrt() * _SLACK)
            self._reach = least, self.low[1] - reach, self.high[1] + reach
        return self._reach[1:]

    def near(self, d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor]:
        """Return the pairs whose similarity can reach ``least``: at least one point must be within reach."""
        d_rows, g_rows = native(d), native(g)
        low, high = self._reachable(least)
        for axis in (0, 1):
            inside = arrays.take(self.low[0][axis], d_rows) <= arrays.take(high[axis], g_rows)
            inside &= arrays.take(self.high[0][axis], d_rows) >= arrays.take(low[axis], g_rows)
            places = arrays.true_indices(inside)
            d_rows, g_rows = arrays.take(d_rows, places), arrays.take(g_rows, places)
        return arrays.tensor(d_rows), arrays.tensor(g_rows)

    @arrays.quiet
    def similarity(self, d: Tensor, g: Tensor, least: float) -> Tensor:
        """Return the (P,) float64 similarity of each pair; exact to the last bit for values of at least ``least``."""
        step = max(1, _NUMBERS_A_CHUNK.get(d.device.type, _NUMBERS_A_CHUNK_ON_DEVICE) // len(self.variances))
        pairs = zip(torch.split(d, step), torch.split(g, step), strict=True)
        parts = [self._similarity(native(d_part), native(g_part), least) for d_part, g_part in pairs]
        return torch.cat([self.size[:0], *map(arrays.tensor, parts)])

    def _similarity(self, d: Any, g: Any, least: float) -> Any:
        """Return the similarity of a chunk of pairs."""
        boxed = arrays.true_indices(arrays.take(self.boxed, g))
        e, y = (self._axis_distances(axis, d, g, boxed) for axis in (0, 1))
        e *= e
        y *= y
        e += y
        e /= native(self.variances)
        divisor = arrays.take(native(self.size), g) * -2  # halving is exact
        lowest = _SMALLEST if least >= _CLEAR else -math.inf
        value = _means_of_exp(e, divisor, _select_rows(self.counted, g), arrays.take(self.terms, g), lowest)
        xp = arrays.namespace(value)
        return xp.where(xp.isnan(value), 0, value)

    def _axis_distances(self, axis: int, d: Any, g: Any, boxed: Any) -> Any:
        """Return the (P, K) distances on one axis from each point to the point, or the box, of the ground truth."""
        distances = _select_rows(self.points[0][axis], d)
        distances -= _select_rows(self.points[1][axis], g)
        if len(boxed):
            low, high = (arrays.take(side[1][axis], g[boxed])[:, None] for side in (self.low, self.high))
            points = _select_rows(self.points[0][axis], d[boxed])
            distances[boxed] = arrays.clamp_min(low - points, 0) + arrays.clamp_min(points - high, 0)
        return distances


def _means_of_exp(e: Any, divisor: Any, counts: Any, terms: Any, lowest: float) -> Any:
    """Return the (P,) means of exp(e / divisor) over the counted numbers, summed in NumPy's order of a row.

    NumPy's ``reduceat`` adds the first number of a run to the sum of the others, while its ``sum`` starts with 0; a
    leading 0 makes both equal.

    Args:
        e: (P, K).
        divisor: (P,) the divisor of each row.
        counts: (P, 1 + K) bool: true, then whether each number counts.
        terms: (P,) int64, the number of counted numbers.
        lowest: lower exponents are raised to this value.
    """
    if isinstance(e, Tensor):
        e = (e / divisor[:, None]).clamp_(min=lowest).exp_()
        return torch.where(counts[:, 1:], e, 0).sum(1) / terms
    padded = np.empty(counts.shape)
    padded[:, 0] = 0
    np.divide(e, divisor[:, None], out=padded[:, 1:])
    values = padded.reshape(-1).take(counts.reshape(-1).nonzero()[0])  # faster than by flags
    np.exp(np.maximum(values, lowest, out=values), out=values)
    first = (terms + 1).cumsum() - terms - 1
    values[first] = 0
    return np.add.reduceat(values, first) / terms


def _select_rows(values: Any, places: Any) -> Any:
    """Return the rows at these places; NumPy's ``take`` is faster than indexing."""
    return values[places] if isinstance(values, Tensor) else values.take(places, 0)
