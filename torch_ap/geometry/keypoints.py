"""Similarity of keypoints, pair by pair, with the operations of COCO's own code in the same order.

That order, and NumPy's ``exp`` and sum on CPU, make every similarity, and so every comparison with a threshold, equal
to pycocotools' to the last bit.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.geometry.boxes import PairIoU
from torch_ap.ranking import segments
from torch_ap.ranking.order import stable_argsort
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native
from torch_ap.runtime.cached import memoize

# of COCO's nose, eyes, ears, shoulders, elbows, wrists, hips, knees and ankles
SIGMAS = tuple(x / 10 for x in (0.26, *(y for y in (0.25, 0.35, 0.79, 0.72, 0.62, 1.07, 0.87, 0.89) for _ in range(2))))
_SPACING = 2.0**-52  # COCO's numpy.spacing(1), added to areas
_NUMBERS_A_CHUNK = {"cpu": 1 << 15}  # which stay in a processor's cache from step to step
_NUMBERS_A_CHUNK_ON_DEVICE = 1 << 26
_SLACK = 1 + 1e-9  # rounding drops no pair


def area(keypoints: Tensor) -> Tensor:
    """(N,) float64, the area of the box around all points of (N, K, 3) keypoints, as COCO gives it to detections."""
    low, high = _extent(keypoints, lambda: _planar(keypoints))
    return (high - low).prod(0)


def _extent(keypoints: Tensor, planar: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """(2, N) lowest and highest x and y of (N, K, 3) keypoints; both matching and areas ask for them."""

    def of_planar() -> tuple[Tensor, Tensor]:
        points = planar()
        return points.amin(2), points.amax(2)

    return memoize(of_planar, _extent, (keypoints,))


def unlabelled(keypoints: Tensor) -> Tensor:
    """(N,) bool, which of (N, K, 3) keypoints have no point whose visibility is above 0."""
    return ~(keypoints[..., 2] > 0).any(1)


def _planar(keypoints: Tensor) -> Tensor:
    """(2, N, K) float64 x and y of (N, K, 3) keypoints."""
    points = native(keypoints)
    if isinstance(points, Tensor):
        return segments.as_float64(points[..., :2].movedim(2, 0).contiguous())
    return segments.as_float64(torch.from_numpy(np.moveaxis(points[..., :2], 2, 0).copy("C")))


def coco_pairs(detections: Tensor, truths: Tensor, areas: Tensor, boxes: Tensor, sigmas: Sequence[float]) -> PairIoU:
    """COCO's object keypoint similarity of rows of two sets of keypoints.

    The mean of exp(-e) over the labelled points of the ground truth, e = d^2 / (2 sigma)^2 / (area + 2^-52) / 2 with d
    the distance of a point to that of the ground truth; over all points, with d the distance to the box of twice the
    size, where none is labelled. 0 where such a box is not known.

    Args:
        detections: (D, K, 3) x, y and anything.
        truths: (G, K, 3) x, y and visibility, above 0 where a point is labelled.
        areas: (G,) float64, not negative.
        boxes: (G, 4) float64 (x, y, width, height) of ground truths, NaN where not known.
        sigmas: K numbers.
    """
    pose = _Poses(detections, truths, areas, boxes, sigmas)

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        if least > 0:
            kept = pose.near(d, g, least).nonzero().squeeze(1)
            d, g = d.index_select(0, kept), g.index_select(0, kept)
        value = pose.similarity(d, g)
        if least <= 0:
            return d, g, value
        kept = (value >= least).nonzero().squeeze(1)
        return d.index_select(0, kept), g.index_select(0, kept), value.index_select(0, kept)

    return overlapping


class _Poses:
    """Two sets of keypoints, of which pairs of rows are compared."""

    def __init__(
        self, detections: Tensor, truths: Tensor, areas: Tensor, boxes: Tensor, sigmas: Sequence[float]
    ) -> None:
        self.labelled = truths[..., 2] > 0
        self.count = self.labelled.sum(1)
        self.size = areas + _SPACING
        self.variances = areas.new_tensor([(sigma * 2) ** 2 for sigma in sigmas])
        found, true = (_planar(side) for side in (detections, truths))
        self.points = [native(found), native(true)]
        start, size = boxes.t()[:2], boxes.t()[2:]
        beyond = torch.where(self.labelled, 0, areas.new_full((), math.inf))  # faster to add than to choose by
        known = self.count > 0
        low, high = _extent(detections, lambda: found)
        self.low = [native(low), native(torch.where(known, (true + beyond).amin(2), start - size))]
        self.high = [native(high), native(torch.where(known, (true - beyond).amax(2), start + size * 2))]

    def near(self, d: Tensor, g: Tensor, least: float) -> Tensor:
        """Whether the similarity may reach ``least``: no two points are nearer than the boxes around all of them."""
        bound = self.size * (-2 * math.log(least) * max(self.variances.tolist()) * _SLACK)
        one, two = native(d), native(g)
        xp, square = arrays.namespace(one), 0
        for axis in (0, 1):
            low, high = (arrays.take(side[0][axis], one) for side in (self.low, self.high))
            true_low, true_high = (arrays.take(side[1][axis], two) for side in (self.low, self.high))
            apart = arrays.at_least(xp.maximum(true_low - high, low - true_high), 0)
            square = square + apart * apart
        return arrays.tensor(square <= arrays.take(native(bound), two))

    @arrays.quiet
    def similarity(self, d: Tensor, g: Tensor) -> Tensor:
        """(P,) float64 of each pair; those of as many labelled points together, whose sums have one order."""
        count = self.count.index_select(0, g)
        order = stable_argsort(count, len(self.variances) + 1)
        ends = torch.bincount(count, minlength=1).cumsum(0).tolist()
        step = max(1, _NUMBERS_A_CHUNK.get(d.device.type, _NUMBERS_A_CHUNK_ON_DEVICE) // len(self.variances))
        parts = [
            self._of(native(d.index_select(0, part)), native(g.index_select(0, part)), labelled)
            for labelled, (start, end) in enumerate(itertools.pairwise([0, *ends]))
            for part in torch.split(order[start:end], step)
        ]
        every = torch.cat([self.size[:0], *map(arrays.tensor, parts)])
        return torch.empty_like(every).scatter_(0, order, every)

    def _of(self, d: Any, g: Any, labelled: int) -> Any:
        """The similarity of pairs whose ground truths have so many labelled points."""
        variances, size = native(self.variances), native(self.size)
        xp, width = arrays.namespace(size), len(variances)
        e, y = (self._apart(axis, d, g, labelled) for axis in (0, 1))
        e *= e
        y *= y
        e += y
        e /= variances
        e /= (arrays.take(size, g) * -2)[:, None]  # halving is exact
        if 0 < labelled < width:
            chosen = arrays.places(_rows(native(self.labelled), g).reshape(-1))  # faster than by flags
            e = arrays.take(e.reshape(-1), chosen).reshape(len(d), labelled)
        value = xp.exp(e).sum(1) / e.shape[1]
        return xp.where(xp.isnan(value), 0, value)

    def _apart(self, axis: int, d: Any, g: Any, labelled: int) -> Any:
        """(P, K) how far each point lies from that of the ground truth, or from the box, on one axis."""
        found = _rows(self.points[0][axis], d)
        if labelled:
            found -= _rows(self.points[1][axis], g)
            return found
        low, high = (arrays.take(side[1][axis], g)[:, None] for side in (self.low, self.high))
        return arrays.at_least(low - found, 0) + arrays.at_least(found - high, 0)


def _rows(values: Any, places: Any) -> Any:
    """The rows at these places; NumPy's ``take`` is faster than its brackets."""
    return values[places] if isinstance(values, Tensor) else values.take(places, 0)
