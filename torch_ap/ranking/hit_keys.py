"""A score and its relevance in one integer, so that a value sort orders the scores and carries the relevance along.

A *hit key* is twice the distance of a score below some highest one, counted in representable scores, plus one for a
hit: ascending, it puts the best score first and the hits of a tie group last in the group. Where the keys of a ranking
are sorted, the places of its hits are their ranks.

| scores | bits of a key |
|---|---|
| of 16 bits and fewer | 32 |
| of 32 bits: not negative, or within (-2, 2), or integers that span fewer than 2^31 | 32 |
| other floats, such as logits, within 2^79 of 0, or -inf and below 2^31, if none but 0 is within 2^-48 of it | 32 |
| else | 64 |
"""

from typing import NamedTuple

import numpy as np

from torch_ap.ranking import order
from torch_ap.ranking.order import Array

_SPAN = 1 << 31
_TINY = 79 << 23  # the key of 2^-48 as float32: what a narrow key passes over on either side of 0 is smaller


class HitKeys(NamedTuple):
    """Hit keys, and how to read them.

    Attributes:
        packed: integers of any shape.
        highest: the score key, with the gap closed, that is packed as 0 or 1.
        gap: how many score keys were passed over on either side of 0.
    """

    packed: Array
    highest: int
    gap: int

    def score_keys(self, packed: Array) -> Array:
        """The keys of the scores, as ``order.keys`` gives them, in ``packed`` ones: int64."""
        keys: Array = self.highest - (packed >> 1).astype(np.int64)
        return keys + np.sign(keys) * self.gap if self.gap else keys


def wide(scores: Array, relevant: Array) -> Array:
    """Hit keys in twice the bits of the scores; for any scores, the highest is 0.

    Args:
        scores: values that NumPy sorts, of 32 bits at most.
        relevant: bool, of the same shape.
    """
    keys = order.array_keys(scores)
    packed: Array = np.multiply(keys, -2, dtype=np.int64 if keys.dtype.itemsize == 4 else np.int32)
    packed |= relevant
    return packed


def narrowest(scores: Array, relevant: Array) -> HitKeys:
    """Hit keys in 32 bits where they fit.

    Args:
        scores, relevant: as of :func:`wide`.
    """
    found = _narrow(scores) if scores.dtype.itemsize == 4 and scores.size else None
    if found is None:
        return HitKeys(wide(scores, relevant), 0, 0)
    np.bitwise_or(found.packed, relevant, out=found.packed)
    return found


def _narrow(scores: Array) -> HitKeys | None:
    """The keys of 32-bit scores before relevance is added; None where 32 bits do not hold them."""
    if scores.dtype.kind == "f" and scores.min() >= 0:
        doubled = scores.view(np.uint32) << np.uint32(1)  # which drops the sign of -0.0
        highest = int(scores.max().view(np.uint32)) & (_SPAN - 1)
        return HitKeys(np.subtract(np.uint32(2 * highest), doubled, out=doubled), highest, 0)
    keys, gap = order.array_keys(scores), 0
    lowest, highest = int(keys.min()), int(keys.max())
    if highest - lowest >= _SPAN and scores.dtype.kind == "f":
        gap = _TINY - 1
        closer = keys - keys.clip(-gap, gap)
        if np.count_nonzero(closer) != np.count_nonzero(keys):
            return None
        keys, lowest, highest = closer, int(closer.min()), int(closer.max())
    if highest - lowest >= _SPAN:
        return None
    packed = np.subtract(np.int32(highest), keys, dtype=np.int32).view(np.uint32)  # modulo 2^32, which is exact
    packed <<= np.uint32(1)
    return HitKeys(packed, highest, gap)
