"""Validation of embeddings and labels, and how embeddings become vectors whose inner products rank items."""

from typing import Any

import torch
from torch import Tensor

from torch_ap.rules import checks, tensors
from torch_ap.rules.messages import Plain, refuse
from torch_ap.rules.options import Similarity, allowed

SIMILARITIES = allowed(Similarity)
VALUE_RULES = (
    "`preds` must hold finite numbers, no NaN",
    "`preds` must hold no row of zeros with similarity='cosine', which is undefined there",
)
LABELS = (*tensors.SCORES, torch.bool)  # dtypes that a function of relevance may be given
_MOST_DIMENSIONS = 3
_ROWS_OF_CENTRE = 1 << 10


def embeddings(name: str, value: Any) -> Tensor:
    """A floating (N, d) tensor, d at least 1, as it is but for gradients."""
    tensors.tensor(name, value)
    if value.ndim != 2 or not value.shape[1] or not value.is_floating_point():
        got = Plain(f"shape {tuple(value.shape)}, {value.dtype}")
        refuse(name, "must be a floating tensor of shape (N, d), an embedding per row", got)
    detached: Tensor = value.detach()
    return detached


def labels(name: str, value: Any, of: str, rows: int, *, any_form: bool = False) -> Tensor:
    """(N,) int64 labels, one per embedding; with ``any_form`` of any form, N rows, as they are."""
    tensors.tensor(name, value, hint=", of integers (number names by `numpy.unique(names, return_inverse=True)`)")
    if not value.ndim or len(value) != rows or (value.ndim != 1 and not any_form):
        known = f"one label per row of `{of}`, shape ({rows},{' ...' if any_form else ''})"
        also = "" if any_form or value.ndim != 2 else "; for several labels a row give `relevance`"
        refuse(name, f"must have {known}{also}", Plain(f"shape {tuple(value.shape)}"))
    if any_form:
        if value.dtype not in LABELS or value.ndim > _MOST_DIMENSIONS:
            got = Plain(f"{value.dtype}, {value.ndim} dimensions")
            refuse(name, f"must be a tensor of bool or real numbers, of at most {_MOST_DIMENSIONS} dimensions", got)
        detached: Tensor = value.detach()
        return detached
    tensors.integers(name, value)
    whole: Tensor = value.to(torch.int64)
    return whole


def look_at(value: Tensor, similarity: str) -> Tensor:
    """Which of ``VALUE_RULES`` are broken: (2,) bool on the device."""
    finite, zero = torch.isfinite(value).all(), (value == 0).all(1).any()
    return torch.stack([~finite, zero & (similarity == "cosine")])


def check_values(name: str, value: Tensor, similarity: str) -> None:
    """One row at least, of finite numbers, and under "cosine" no row of zeros."""
    if not len(value):
        refuse(name, "must hold one embedding at least", Plain(f"shape {tuple(value.shape)}"))
    refuse_rows(name, value, similarity)


def refuse_rows(name: str, value: Tensor, similarity: str) -> None:
    """Raise for the first row that breaks a rule about values, if any does."""
    broken = look_at(value, similarity).tolist()
    finite = torch.isfinite(value)
    for rule, bad, found in zip(VALUE_RULES, (~finite.all(1), ~value.any(1)), broken, strict=True):
        if found:
            row = int(bad.nonzero()[0])
            odd = value[row][~finite[row]].tolist()
            refuse(name, rule.partition("` ")[2], Plain(f"{odd[0] if odd else 'zeros'} in row {row}"))


def spacing(queries: int) -> int:
    """Of how many queries one has a say in their centre."""
    return -(-queries // _ROWS_OF_CENTRE) or 1


def centre(queries: Tensor) -> Tensor:
    """(d,) the median of each column, which is a number of that column: where all are whole, differences are exact."""
    if not len(queries):
        return queries.new_zeros(queries.shape[1])
    return queries.sort(0).values[(len(queries) - 1) // 2]


def vectors(value: Tensor, similarity: str, dtype: torch.dtype, centre: Tensor) -> Tensor:
    """The vectors whose products are taken, of that dtype: under "cosine" of length 1, under "euclidean" from
    ``centre``, since squares of numbers far from 0 would leave few digits for distances.
    """
    if similarity == "dot":
        return value.to(dtype)
    wide = value.to(torch.promote_types(torch.promote_types(value.dtype, dtype), torch.float32))
    if similarity == "euclidean":
        return (wide - centre).to(dtype)
    wide = wide / wide.abs().amax(1, keepdim=True)  # so that no square overflows or vanishes
    wide /= torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return wide.to(dtype)


def check_range(queries: Tensor, gallery: Tensor, similarity: str) -> None:
    """Products of these vectors must be finite in their dtype."""
    longest = [_longest(x) for x in (queries, gallery)]
    bound = longest[1] * (longest[0] + (longest[1] if similarity == "euclidean" else 0))
    most = torch.finfo(queries.dtype).max
    if not bound <= most:
        advice = "scale them" if queries.dtype == torch.float64 else "scale them or give float64"
        rule = f"must have products within {most:.3g}, which {queries.dtype} holds; {advice}"
        refuse("queries` and `gallery", rule, Plain(f"norms up to {longest[0]:.3g} and {longest[1]:.3g}"))


def _longest(vectors: Tensor) -> float:
    wide = torch.float32 if vectors.device.type == "mps" else torch.float64
    return float(torch.linalg.vector_norm(vectors, dim=1, dtype=wide).max()) if len(vectors) else 0.0


def product_dtype(given: torch.dtype | None, *dtypes: torch.dtype) -> torch.dtype:
    """Of products: what is asked for; else float64 where an embedding is, and float32."""
    checks.floating_dtype("product_dtype", given)
    return given or (torch.float64 if torch.float64 in dtypes else torch.float32)
