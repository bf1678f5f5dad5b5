"""Validation of embeddings and labels, vectors whose inner products rank items, and relevance from labels.

The relevance of items to queries is computed for one tile of pairs at a time.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import Similarity, allowed_values
from torch_ap.core.base.untraced import plain_result
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.products import Pairs

SIMILARITIES = allowed_values(Similarity)
VALUE_RULES = (
    "`preds` must contain finite numbers only",
    "`preds` must not contain a row of zeros with similarity='cosine', which is undefined for it",
)
LABELS = (*tensors.SCORES, torch.bool)  # dtypes of labels for a function of relevance
NO_MAGNITUDE = -(1 << 20)  # exponent of zeros, below the exponent of any number
_MOST_DIMENSIONS = 3
_ROWS_OF_CENTRE = 1 << 10


def embeddings(name: str, value: Any) -> Tensor:
    """Validate a floating (N, d) tensor, d at least 1, and return it detached."""
    tensors.tensor(name, value)
    if value.ndim != 2 or not value.shape[1] or not value.is_floating_point():
        got = Plain(f"shape {tuple(value.shape)}, {value.dtype}")
        raise_invalid(name, "must be a floating tensor of shape (N, d), an embedding per row", got)
    detached: Tensor = value.detach()
    return detached


def label_codes(name: str, value: Any, owner: str, rows: int, *, any_form: bool = False) -> Tensor:
    """Validate (N,) labels, one per embedding, and return them as int64.

    With ``any_form`` the labels may have further dimensions and any real or bool dtype, and are returned unchanged.
    """
    tensors.tensor(name, value, hint=", of integers (number names by `numpy.unique(names, return_inverse=True)`)")
    if not value.ndim or len(value) != rows or (value.ndim != 1 and not any_form):
        rule = f"must have one label per row of `{owner}`, shape ({rows},{' ...' if any_form else ''})"
        advice = "" if any_form or value.ndim != 2 else "; for several labels per row use `relevance`"
        raise_invalid(name, f"{rule}{advice}", Plain(f"shape {tuple(value.shape)}"))
    if any_form:
        if value.dtype not in LABELS or value.ndim > _MOST_DIMENSIONS:
            got = Plain(f"{value.dtype}, {value.ndim} dimensions")
            raise_invalid(
                name, f"must be a tensor of bool or real numbers, of at most {_MOST_DIMENSIONS} dimensions", got
            )
        detached: Tensor = value.detach()
        return detached
    tensors.integers(name, value)
    codes: Tensor = value.to(torch.int64)
    return codes


def broken_rules(value: Tensor, similarity: str) -> Tensor:
    """Return which of ``VALUE_RULES`` are broken: (2,) bool on the device."""
    finite, zero = torch.isfinite(value).all(), (value == 0).all(1).any()
    return torch.stack([~finite, zero & (similarity == "cosine")])


def check_values(name: str, value: Tensor, similarity: str) -> None:
    """Raise ValueError if there are no rows, non-finite numbers, or under "cosine" a row of zeros."""
    if not len(value):
        raise_invalid(name, "must contain at least one embedding", Plain(f"shape {tuple(value.shape)}"))
    raise_invalid_row(name, value, similarity)


def raise_invalid_row(name: str, value: Tensor, similarity: str) -> None:
    """Raise ValueError for the first row that breaks a rule, if any."""
    broken = broken_rules(value, similarity).tolist()
    finite = torch.isfinite(value)
    for rule, bad, is_broken in zip(VALUE_RULES, (~finite.all(1), ~value.any(1)), broken, strict=True):
        if is_broken:
            row = int(bad.nonzero()[0])
            odd = value[row][~finite[row]].tolist()
            raise_invalid(name, rule.partition("` ")[2], Plain(f"{odd[0] if odd else 'zeros'} in row {row}"))


def centre_stride(queries: int) -> int:
    """Return the stride of the queries sampled for the centre."""
    return -(-queries // _ROWS_OF_CENTRE) or 1


def mean_vector(queries: Tensor) -> Tensor:
    """Return the (d,) lower medians of the columns; differences to elements of integer columns are exact."""
    if not len(queries):
        return queries.new_zeros(queries.shape[1])
    return queries.sort(0).values[(len(queries) - 1) // 2]


def vectors(value: Tensor, similarity: str, dtype: torch.dtype, centre: Tensor) -> Tensor:
    """Return the vectors whose products rank items, of at least the precision of ``dtype`` except under "dot".

    Under "cosine" they have length 1. Under "euclidean" they are differences from ``mean_vector``, since squares of
    numbers far from 0 would leave few digits for distances.
    """
    if similarity == "dot":
        return value
    wide = value.to(torch.promote_types(torch.promote_types(value.dtype, dtype), torch.float32))
    if similarity == "euclidean":
        return wide - centre
    wide = wide / wide.abs().amax(1, keepdim=True)  # so that no square overflows or vanishes
    wide /= torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return wide


def magnitudes(vectors: Tensor) -> Tensor:
    """Return the greatest and the least magnitude of vectors that are not zero, as a range of exponents.

    Returns:
        (2,) int64, [high, -low]: the largest number of each vector is at least 2^(low - 1) and below 2^high;
        ``NO_MAGNITUDE`` twice without such a vector. The maximum of several ranges is the range of all their vectors.
    """
    largest = _largest(vectors)
    if not bool(torch.isfinite(largest).all()):
        rule = f"must have differences that are finite in {vectors.dtype}; scale them"
        raise_invalid("queries` and `gallery", rule, Plain("an infinite difference"))
    exponents = _mantissa_and_exponent(largest[largest > 0])[1].to(torch.int64)
    if not len(exponents):
        return torch.full((2,), NO_MAGNITUDE, device=vectors.device)
    return torch.stack([exponents.max(), -exponents.min()])


def scale(
    queries: Tensor, gallery: Tensor, similarity: str, dtype: torch.dtype, gallery_range: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the vectors as ``dtype``, scaled so that their products neither overflow nor underflow.

    If products could leave the range of ``dtype``, vectors are multiplied by powers of two, which is exact and keeps
    the order: under "dot" each query by its own power and the gallery by one, under "euclidean" all vectors by one.

    Args:
        queries: vectors of :func:`vectors`.
        gallery: vectors of :func:`vectors`.
        similarity: one of ``SIMILARITIES``.
        dtype: the dtype of the products.
        gallery_range: :func:`magnitudes` of the gallery, or of the galleries of all processes.

    Raises:
        ValueError: if no scale suits both the shortest and the longest vector of the gallery.
    """
    g_high, g_low = int(gallery_range[0]), -int(gallery_range[1])
    if similarity == "cosine" or g_high == NO_MAGNITUDE:
        return queries.to(dtype), gallery.to(dtype)
    limits = torch.finfo(dtype)
    top = math.frexp(limits.max)[1]
    # float16 rounds so coarsely that numbers down to its least one lose little more
    bottom = math.frexp(limits.tiny * (limits.eps if dtype == torch.float16 else 1))[1]
    spread = math.ceil(math.log2(queries.shape[1]) / 2)  # a norm is below the largest number times 2^spread
    q_range = magnitudes(queries)
    q_high, q_low = int(q_range[0]), -int(q_range[1])
    if q_high == NO_MAGNITUDE:
        q_high = q_low = g_high
    if similarity == "dot":
        room = top - 2 - 2 * spread
        fits = q_high + g_high <= room and q_low + g_low - 2 >= bottom - 1
        if fits and max(q_high, g_high) < top and min(q_low, g_low) > bottom:
            return queries.to(dtype), gallery.to(dtype)
        shift = room - 1 - g_high
        shortest = g_low + shift - 2
        queries = _times_power(queries, 0, dtype)
        largest = _largest(queries)[:, None]
        power = largest / (2 * _mantissa_and_exponent(largest)[0])
        queries = queries / torch.where(largest > 0, power, 1)
    else:
        longest = max(q_high, g_high)
        room = top - 3 - 2 * spread - g_high - longest
        shortest = 2 * (g_low - 1)
        if room >= 0 and longest < top and shortest >= bottom - 1:
            return queries.to(dtype), gallery.to(dtype)
        shift = min(room // 2, top - 1 - longest)
        shortest += 2 * shift
        queries = _times_power(queries, shift, dtype)
    if shortest < bottom - 1:
        advice = "" if dtype == torch.float64 else "; use `product_dtype=torch.float64`"
        rule = f"must have products that {dtype} represents, without zeros from underflow{advice}"
        raise_invalid("queries` and `gallery", rule, Plain(f"items with numbers of 2^{g_low - 1} and of 2^{g_high}"))
    return queries.to(dtype), _times_power(gallery, shift, dtype).to(dtype)


def _times_power(values: Tensor, exponent: int, dtype: torch.dtype) -> Tensor:
    """Return the values times 2^exponent, exactly, in a dtype that contains both."""
    wide = values.to(torch.promote_types(torch.promote_types(values.dtype, dtype), torch.float32))
    most = math.frexp(torch.finfo(wide.dtype).max)[1] - 2
    while exponent:
        step = max(-most, min(most, exponent))
        wide, exponent = wide * 2.0**step, exponent - step
    return wide


def _largest(vectors: Tensor) -> Tensor:
    """Return the largest magnitude in each vector, (N,), of at least float32."""
    largest = torch.maximum(vectors.amax(1), -vectors.amin(1))
    return largest.to(torch.promote_types(largest.dtype, torch.float32))


def _mantissa_and_exponent(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``torch.frexp`` of the values, which MPS does not have."""
    parts = torch.frexp(values.cpu() if values.device.type == "mps" else values)
    return parts.mantissa.to(values.device), parts.exponent.to(values.device)


def product_dtype(requested: torch.dtype | None, *dtypes: torch.dtype) -> torch.dtype:
    """Return the dtype of products: ``requested``, else float64 if an embedding is float64, else float32."""
    checks.floating_dtype("product_dtype", requested)
    return requested or (torch.float64 if torch.float64 in dtypes else torch.float32)


Relevance = Callable[[Tensor, Tensor], Tensor]


class LabelRelevance:
    """Relevance of the items with the query's label.

    Items that have the query's label and its group are ignored, and so is the query itself. In the item order of this
    object, the items with a query's label are contiguous, and so are those items that also have its group.

    Args:
        queries: (Q,) int64 labels, and (Q,) int64 groups or None.
        gallery: (G,) int64 labels, and (G,) int64 groups or None.
        own: (Q,) int64, the item that is the query itself, or -1; None if no query is an item.
        query_order: (Q,) int64, the order of the queries; None to sort by label, rare labels first.

    Attributes:
        query_order: (Q,) indices of the queries, in order.
        item_order: (G,) indices of the items, in order.
        most: the largest number of items with a query's label.
    """

    def __init__(
        self,
        queries: tuple[Tensor, Tensor | None],
        gallery: tuple[Tensor, Tensor | None],
        own: Tensor | None = None,
        query_order: Tensor | None = None,
    ) -> None:
        label, item_key = _frequency_ranks(queries[0], gallery[0])
        query_key, count = label, 1
        if queries[1] is not None and gallery[1] is not None:
            names, group = torch.unique(torch.cat([queries[1], gallery[1]]), return_inverse=True)
            count = len(names)
            query_key, item_key = query_key * count + group[: len(label)], item_key * count + group[len(label) :]
        self.query_order = torch.argsort(query_key, stable=True) if query_order is None else query_order
        self.item_order = torch.argsort(item_key, stable=True)
        ordered, keys, label = item_key[self.item_order], query_key[self.query_order], label[self.query_order]
        first, last = (torch.searchsorted(ordered, (label + end) * count) for end in (0, 1))
        self._first, self._last = (x.masked_fill(label < 0, 0) for x in (first, last))
        ends = (torch.searchsorted(ordered, keys, right=right) for right in (False, True))
        self._junk = None if queries[1] is None else tuple(ends)
        self._own = None if own is None else _positions(own[self.query_order], self.item_order)
        self.most = int((self._last - self._first).max()) if len(label) else 0

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """Return the pairs with equal labels in a tile."""
        first = self._first[rows].clamp(min=columns.start, max=columns.stop)
        counts = self._last[rows].clamp(min=columns.start, max=columns.stop) - first
        total = int(counts.sum())
        if not total:
            return None
        row = segments.repeat(torch.arange(len(counts), device=counts.device), counts)
        column = torch.arange(total, device=row.device) - (segments.from_counts(counts)[:-1] - first)[row]
        relevant = torch.ones_like(row, dtype=torch.bool)
        if self._junk is not None:
            relevant &= (column < self._junk[0][rows][row]) | (column >= self._junk[1][rows][row])
        if self._own is not None:
            relevant &= column != self._own[rows][row]
        return Pairs(row, column - columns.start, relevant)


def _frequency_ranks(queries: Tensor, gallery: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rank of each label among the gallery's labels, rare labels first; -1 for labels not in the gallery."""
    labels, item, sizes = torch.unique(gallery, return_inverse=True, return_counts=True)
    rank = torch.argsort(torch.argsort(sizes, stable=True))
    if not len(labels):
        return torch.full_like(queries, -1), item
    index = torch.searchsorted(labels, queries).clamp(max=len(labels) - 1)
    return torch.where(labels[index] == queries, rank[index], -1), rank[item]


def _positions(items: Tensor, order: Tensor) -> Tensor:
    """Return the positions of items in an order; -1 is unchanged."""
    positions = torch.argsort(order)
    return torch.where(items >= 0, positions[items], -1) if len(order) else items


class FunctionRelevance:
    """Relevance by a user's function of the labels of queries and items.

    Args:
        function: maps (b, ...) and (g, ...) labels to (b, g) bool, or to numbers: above 0 relevant, below 0 ignored.
        queries: (Q, ...) labels.
        gallery: (G, ...) labels.
        own: see :class:`LabelRelevance`.
    """

    def __init__(self, function: Relevance, queries: Tensor, gallery: Tensor, own: Tensor | None = None) -> None:
        self._function, self._queries, self._gallery, self._own = function, queries, gallery, own
        self.query_order, self.item_order = (torch.arange(len(x), device=x.device) for x in (queries, gallery))
        self.most = len(gallery)

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """Return the pairs of a tile that are relevant or ignored."""
        queries, gallery = self._queries[rows], self._gallery[columns]
        if not len(queries):
            return None
        values = plain_result("relevance", self._function(queries, gallery))
        shape = (len(queries), len(gallery))
        rule = f"must return a tensor of shape {shape} for labels of {shape[0]} queries and {shape[1]} items"
        tensors.check_returned("relevance", rule, values, shape, allow_bool=True)
        if values.is_floating_point() and bool(torch.isnan(values).any()):
            raise_invalid("relevance", "must return no NaN", values)
        is_pair = values != 0
        if self._own is not None:
            own = self._own[rows]
            inside = ((own >= columns.start) & (own < columns.stop)).nonzero().squeeze(1)
            values, is_pair = values.clone(), is_pair.clone()
            values[inside, own[inside] - columns.start] = 0
            is_pair[inside, own[inside] - columns.start] = True
        row, column = is_pair.nonzero().unbind(1)
        return Pairs(row, column, values[row, column] > 0) if len(row) else None
