"""Similarity of keypoints, pair by pair, with the operations of COCO's own code in the same order.

That order, and NumPy's ``exp`` and sum on CPU, make every similarity, and so every comparison with a threshold, equal
to pycocotools' to the last bit.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.geometry.boxes import PairIoU
from torch_ap.ranking import segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native
from torch_ap.runtime.cached import memoize

# of COCO's nose, eyes, ears, shoulders, elbows, wrists, hips, knees and ankles
SIGMAS = tuple(x / 10 for x in (0.26, *(y for y in (0.25, 0.35, 0.79, 0.72, 0.62, 1.07, 0.87, 0.89) for _ in range(2))))
_SPACING = 2.0**-52  # COCO's numpy.spacing(1), added to areas
_NUMBERS_A_CHUNK = {"cpu": 1 << 15}  # which stay in a processor's cache from step to step
_NUMBERS_A_CHUNK_ON_DEVICE = 1 << 26
_ROUNDED, _SLACK = 1e-14, 1 + 1e-9  # of a mean, and of distances: rounding drops no pair
_SMALLEST = -700.0  # exp of less takes ten times as long, and changes no bit of a mean of at least `_CLEAR`
_CLEAR = 1e-280


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
    return segments.as_float64(keypoints[..., :2].movedim(2, 0).contiguous())


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
            d, g = pose.near(d, g, least)
        value = pose.similarity(d, g, least)
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
        labelled = truths[..., 2] > 0
        count = labelled.sum(1)
        known = count > 0
        self.boxed = native(~known)
        self.counted = native(torch.cat([labelled.new_ones((len(truths), 1)), labelled | ~known[:, None]], 1))
        self.terms = native(count.masked_fill_(~known, len(sigmas)))
        self.size = areas + _SPACING
        self.variances = areas.new_tensor([(sigma * 2) ** 2 for sigma in sigmas])
        found, true = (_planar(side) for side in (detections, truths))
        self.points = [native(found), native(true)]
        start, size = boxes.t()[:2], boxes.t()[2:]
        beyond = labelled.to(areas.dtype).reciprocal_().sub_(1)  # 0 or infinite, faster to add than to choose by
        low, high = _extent(detections, lambda: found)
        self.low = [native(low), native(torch.where(known, (true + beyond).amin(2), start - size))]
        self.high = [native(high), native(torch.where(known, (true - beyond).amax(2), start + size * 2))]
        self._reach: tuple[float, Any, Any] | None = None

    def _reachable(self, least: float) -> tuple[Any, Any]:
        """(2, G) lowest and highest x and y that a point may have for a similarity of ``least``."""
        if self._reach is None or self._reach[0] != least:
            most = float(self.variances.max())
            reach = native((self.size * (2 * (_ROUNDED - math.log(least)) * most)).sqrt() * _SLACK)
            self._reach = least, self.low[1] - reach, self.high[1] + reach
        return self._reach[1:]

    def near(self, d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor]:
        """The pairs whose similarity may reach ``least``: for that, some point has to be as near as that."""
        one, two = native(d), native(g)
        low, high = self._reachable(least)
        for axis in (0, 1):
            inside = arrays.take(self.low[0][axis], one) <= arrays.take(high[axis], two)
            inside &= arrays.take(self.high[0][axis], one) >= arrays.take(low[axis], two)
            kept = arrays.places(inside)
            one, two = arrays.take(one, kept), arrays.take(two, kept)
        return arrays.tensor(one), arrays.tensor(two)

    @arrays.quiet
    def similarity(self, d: Tensor, g: Tensor, least: float) -> Tensor:
        """(P,) float64 of each pair, to the last bit where it is at least ``least``."""
        step = max(1, _NUMBERS_A_CHUNK.get(d.device.type, _NUMBERS_A_CHUNK_ON_DEVICE) // len(self.variances))
        pairs = zip(torch.split(d, step), torch.split(g, step), strict=True)
        parts = [self._of(native(one), native(two), least) for one, two in pairs]
        return torch.cat([self.size[:0], *map(arrays.tensor, parts)])

    def _of(self, d: Any, g: Any, least: float) -> Any:
        """The similarity of pairs."""
        boxed = arrays.places(arrays.take(self.boxed, g))
        e, y = (self._apart(axis, d, g, boxed) for axis in (0, 1))
        e *= e
        y *= y
        e += y
        e /= native(self.variances)
        divisor = arrays.take(native(self.size), g) * -2  # halving is exact
        lowest = _SMALLEST if least >= _CLEAR else -math.inf
        value = _means_of_exp(e, divisor, _rows(self.counted, g), arrays.take(self.terms, g), lowest)
        xp = arrays.namespace(value)
        return xp.where(xp.isnan(value), 0, value)

    def _apart(self, axis: int, d: Any, g: Any, boxed: Any) -> Any:
        """(P, K) how far each point lies from that of the ground truth, or from the box, on one axis."""
        apart = _rows(self.points[0][axis], d)
        apart -= _rows(self.points[1][axis], g)
        if len(boxed):
            low, high = (arrays.take(side[1][axis], g[boxed])[:, None] for side in (self.low, self.high))
            found = _rows(self.points[0][axis], d[boxed])
            apart[boxed] = arrays.at_least(low - found, 0) + arrays.at_least(found - high, 0)
        return apart


def _means_of_exp(e: Any, divisor: Any, counted: Any, terms: Any, lowest: float) -> Any:
    """(P,) the means of exp(e / divisor) over what counts, each summed in the order in which NumPy sums a row.

    NumPy's ``reduceat`` adds the first number of a run to the sum of the others, where a sum of its own begins with 0.

    Args:
        e: (P, K).
        divisor: (P,) that of each row.
        counted: (P, 1 + K) bool, true and then which numbers count.
        terms: (P,) int64, how many count.
        lowest: exponents below it are raised to it.
    """
    if isinstance(e, Tensor):
        e = (e / divisor[:, None]).clamp_(min=lowest).exp_()
        return torch.where(counted[:, 1:], e, 0).sum(1) / terms
    padded = np.empty(counted.shape)
    padded[:, 0] = 0
    np.divide(e, divisor[:, None], out=padded[:, 1:])
    values = padded.reshape(-1).take(counted.reshape(-1).nonzero()[0])  # faster than by flags
    np.exp(np.maximum(values, lowest, out=values), out=values)
    first = (terms + 1).cumsum() - terms - 1
    values[first] = 0
    return np.add.reduceat(values, first) / terms


def _rows(values: Any, places: Any) -> Any:
    """The rows at these places; NumPy's ``take`` is faster than its brackets."""
    return values[places] if isinstance(values, Tensor) else values.take(places, 0)
