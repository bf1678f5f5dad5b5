"""Hit rate, reciprocal rank, nDCG and average precision at k of recommendations, from scores of users and items.

Scores are computed for blocks of users, so that the matrix of all scores is never stored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import Plain, raise_invalid, warn_caller
from torch_ap.core.base.options import Correction, Ties, allowed_values
from torch_ap.core.base.progress import progress_bar
from torch_ap.core.base.untraced import plain_result
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.measure import Measure
from torch_ap.core.measures.ties import TIES, check_ties, tie_rule
from torch_ap.core.ranking import hit_curve, order, products, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.core.ranking.products import Pairs
from torch_ap.inference.record import Result
from torch_ap.retrieval.measures.at_rank import AtRank, FirstHit
from torch_ap.retrieval.measures.gain import NormalizedDCG

_BYTES_OF_A_TILE = 1 << 24
_MOST_ROWS = 256
_EXACT = 1 << 53  # float64 represents all integers up to here


class Lists(NamedTuple):
    """Concatenated items of users: the items of user u are ``items[offsets[u] : offsets[u + 1]]``."""

    offsets: Tensor
    items: Tensor

    @property
    def users(self) -> int:
        """Number of users."""
        return len(self.offsets) - 1

    def pairs(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Return the row, from 0, and the item of each pair of a range of users."""
        first, last = (int(x) for x in self.offsets[[rows.start, rows.stop]])
        return segments.ids(self.offsets[rows.start : rows.stop + 1] - first), self.items[first:last]


def validate_lists(name: str, value: Any, columns: int, *, one_each: bool = False) -> Lists:
    """Return the item lists of (U, columns) bool, of (offsets, items) as in CSR, or with ``one_each`` of (U,) items."""
    if isinstance(value, tuple | list) and len(value) == 2:
        offsets, items = value
        for part in (offsets, items):
            tensors.tensor(name, part)
            tensors.integers(name, part)
        rule = "as (offsets, items) must have offsets that rise from 0 to the number of items"
        if offsets.ndim != 1 or items.ndim != 1 or not len(offsets):
            raise_invalid(name, f"{rule}, both 1-D", Plain(f"shapes {tuple(offsets.shape)} and {tuple(items.shape)}"))
        offsets = offsets.long()  # differences of unsigned integers are never negative
        descents = (offsets.diff() < 0).nonzero().flatten().tolist()
        if descents:
            raise_invalid(name, rule, Plain(f"{int(offsets[descents[0]])}, then {int(offsets[descents[0] + 1])}"))
        ends = int(offsets[0]), int(offsets[-1])
        if ends != (0, len(items)):
            raise_invalid(name, rule, Plain(f"offsets from {ends[0]} to {ends[1]}, {len(items)} items"))
        return Lists(offsets, items.long())
    tensors.tensor(name, value, hint=" or a pair (offsets, items)")
    if one_each and value.ndim == 1 and value.dtype != torch.bool:
        tensors.integers(name, value)
        return Lists(torch.arange(len(value) + 1, device=value.device), value.long())
    if value.ndim != 2 or value.dtype != torch.bool:
        forms = "(U,) integers, (U, I) bool" if one_each else "(U, I) bool"
        raise_invalid(
            name, f"must be {forms} or a pair (offsets, items)", Plain(f"shape {tuple(value.shape)}, {value.dtype}")
        )
    if value.shape[1] != columns:
        raise_invalid(name, f"must have a column for each of {columns} items", Plain(f"shape {tuple(value.shape)}"))
    return Lists(segments.from_counts(value.sum(1)), value.nonzero()[:, 1])


class UserScores:
    """Scores with users in rows and items in columns, see ``tiles.Matrix``; a tile contains all items.

    Args:
        scores: (U, I), or a function that returns (b, I) scores of (b,) users.
        items: I.
        target: the relevant items.
        seen: items to ignore; None for none.
    """

    def __init__(
        self, scores: Tensor | Callable[[Tensor], Tensor], items: int, target: Lists, seen: Lists | None
    ) -> None:
        width = -(-items // products.WIDTH) * products.WIDTH
        self.shape = (target.users, items)
        self.tile = (max(1, min(_MOST_ROWS, _BYTES_OF_A_TILE // (4 * width))), width)
        self._scores, self._target, self._seen = scores, target, seen

    def scores(self, rows: slice, columns: slice) -> Tensor:  # noqa: ARG002 - a tile has all columns
        """Return a tile of validated scores."""
        device = self._target.items.device
        if callable(self._scores):
            block: Tensor = plain_result("preds", self._scores(torch.arange(rows.start, rows.stop, device=device)))
        else:
            block = self._scores[rows]
        tensors.scores("preds", block)
        tensors.shape("preds", block, [torch.Size([rows.stop - rows.start, self.shape[1]])], " for these users")
        if block.dtype == torch.int64 and bool((inexact := (block < -_EXACT) | (block > _EXACT)).any()):
            row, item = inexact.nonzero()[0].tolist()
            value = Plain(f"{int(block[row, item])} of user {rows.start + row}, item {item}")
            raise_invalid("preds", "of int64 must be in [-2^53, 2^53], which float64 represents exactly", value)
        wide = block.dtype if block.dtype in (torch.float32, torch.float64) else torch.float32
        block = block.detach().to(torch.float64 if block.dtype in (torch.int32, torch.int64) else wide)
        if bool((nan := torch.isnan(block)).any()):
            row, item = nan.nonzero()[0].tolist()
            raise_invalid("preds", "must not contain NaN", Plain(f"NaN of user {rows.start + row}, item {item}"))
        tile = block.new_full((len(block), self.tile[1]), -torch.inf)
        tile[:, : self.shape[1]] = block
        return tile

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:  # noqa: ARG002 - a tile has all columns
        """Return the pairs of users and their relevant or seen items."""
        parts = [self._target.pairs(rows)] + ([] if self._seen is None else [self._seen.pairs(rows)])
        row, item = (torch.cat(x) for x in zip(*parts, strict=True))
        relevant = torch.arange(len(row), device=row.device) < len(parts[0][0])
        self._check(rows, row, item, relevant)
        return Pairs(row, item, relevant) if len(row) else None

    def _check(self, rows: slice, row: Tensor, item: Tensor, relevant: Tensor) -> None:
        """Raise ValueError for an unknown or repeated item of a user."""
        bad = (item < 0) | (item >= self.shape[1])
        if bool(bad.any()):
            first = int(bad.nonzero()[0])
            name = "target" if bool(relevant[first]) else "seen"
            value = Plain(f"{int(item[first])} of user {rows.start + int(row[first])}")
            raise_invalid(name, f"must contain items from 0 to {self.shape[1] - 1}", value)
        key = row * self.shape[1] + item
        distinct, index, counts = torch.unique(key, return_inverse=True, return_counts=True)
        if len(distinct) < len(key):
            first = int((counts[index] > 1).nonzero()[0])
            value = Plain(f"item {int(item[first])} of user {rows.start + int(row[first])}")
            copies = relevant[key == key[first]]
            in_both = bool(copies.any()) and not bool(copies.all())
            rule = "must not contain items of `target`" if in_both else "must contain each item of a user once"
            raise_invalid("seen" if in_both or not bool(relevant[first]) else "target", rule, value)


_VARIANCE = 0.1  # weight of the variance relative to the squared bias, as in the paper
_RANKS_AT_ONCE = 1 << 12
_MEMORY_OF_A_BLOCK = 1 << 27  # bytes


def _matrix(scores: Any, target: Any, seen: Any, items: Any) -> UserScores:
    if not callable(scores):
        tensors.scores("preds", scores)
        if scores.ndim != 2:
            raise_invalid("preds", "must be (U, I), or a function of users", Plain(f"shape {tuple(scores.shape)}"))
        if items not in (None, scores.shape[1]):
            raise_invalid("items", f"must be None or the number of columns of `preds`, {scores.shape[1]}", items)
        items = scores.shape[1]
    elif items is None:
        raise_invalid("items", "must be the number of items if `preds` is a function", items)
    items = checks.positive_int("items", items)
    relevant_items = validate_lists("target", target, items, one_each=True)
    seen_items = None if seen is None else validate_lists("seen", seen, items)
    users = relevant_items.users if callable(scores) else len(scores)
    for name, table in (("target", relevant_items), ("seen", seen_items)):
        if table is not None and table.users != users:
            raise_invalid(name, f"must have {users} users", table.users)
    if not users:
        raise_invalid("target", "must contain at least one user", Plain("none"))
    if not callable(scores):
        tensors.same_device(
            preds=scores, target=relevant_items.items, seen=None if seen_items is None else seen_items.items
        )
    return UserScores(scores, items, relevant_items, seen_items)


def _check_sample(matrix: UserScores, sampled_from: Any, correction: Any) -> None:
    if sampled_from is None:
        if correction is not None:
            raise_invalid("correction", "must be None without `sampled_from`", correction)
        return
    if checks.positive_int("sampled_from", sampled_from) < matrix.shape[1]:
        raise_invalid(
            "sampled_from", f"must be at least the number of columns of `preds`, {matrix.shape[1]}", sampled_from
        )
    if correction is None:
        warn_caller(
            "These are metrics of sampled items, which rank systems differently from metrics of all items (Krichene & "
            "Rendle 2020). Rank all items, or set `correction='least-squares'`.",
            UserWarning,
        )


def _values(curve: HitCurve, ranks: list[int], ties: str) -> dict[str, Tensor]:
    """Return the values of each user, (U, K) float64, NaN without relevant items, and the number of items, (U,)."""
    ones = segments.as_float64(torch.ones(int(curve.m.sum()), device=curve.m.device))
    graded = hit_curve.attach_grades(curve, ones, ones)
    measures: dict[str, Callable[[int], Measure]] = {
        "hit_rate": lambda k: FirstHit("hit_rate", k, ties),
        "recall": lambda k: AtRank("recall", k, ties=ties),
        "ndcg": lambda k: NormalizedDCG(k, ties=ties),
        "map": lambda k: Convention(top_k=k, ties=ties),
        "mrr": lambda k: FirstHit("reciprocal_rank", k, ties),
    }
    values = {
        name: torch.stack([measure(k)(graded if name == "ndcg" else curve) for k in ranks], 1)
        for name, measure in measures.items()
    }
    return {**values, "relevant": curve.m}


def _estimates(curve: HitCurve, ranks: list[int], ties: str, items: int) -> dict[str, Tensor]:
    """Return estimates for all items from curves with one hit and equal numbers of sampled items."""
    if bool((curve.m != 1).any()) or bool((curve.n != curve.n[0]).any()):
        raise ValueError(
            "`correction` needs one item per user in `target`, and an equal number of sampled items for all users"
        )
    sampled = int(curve.n[0]) - 1
    t = np.arange(1, items + 1, dtype=np.float64)
    by_rank = {"hit_rate": np.ones(items), "ndcg": 1 / np.log2(t + 1), "mrr": 1 / t}
    cut = np.stack([np.where(t <= k, values, 0) for values in by_rank.values() for k in ranks], 1)
    table = torch.from_numpy(corrected(cut, sampled)).to(curve.m.device)
    above, size = curve.items_above, curve.items
    first_place = tie_rule(ties).first_place
    if first_place is None:
        running = segments.from_zero(table.t()).t()
        estimates = (running[above + size] - running[above]) / size[:, None]
    else:
        estimates = table[above + first_place(1, size) - 1]
    named = dict(zip(by_rank, estimates.reshape(len(estimates), -1, len(ranks)).unbind(1), strict=True))
    return {**named, "recall": named["hit_rate"], "map": named["mrr"], "relevant": curve.m}


def corrected(by_rank: Array, sampled: int, variance: float = _VARIANCE) -> Array:
    """Return the values of ranks in a sample whose mean estimates the mean metric of ranks among all items.

    p(s | r) is the binomial probability that s - 1 of the sampled items are above an item of rank r. For equally likely
    ranks, the values f minimize the squared bias plus v times the variance: ((1 - v) A'A + v D) f = A' b, with A of
    p(s | r), D the diagonal of its sums over r, and b the metric of rank r.

    Args:
        by_rank: (n, F) metrics of each rank among n items.
        sampled: number of items that are drawn, with replacement, from the n - 1 others.
        variance: v, in (0, 1].

    Returns:
        (sampled + 1, F).
    """
    from scipy.stats import binom

    n, width = len(by_rank), sampled + 1
    squares, right, sums = np.zeros((width, width)), np.zeros((width, by_rank.shape[1])), np.zeros(width)
    for ranks in order.blocks(slice(0, n), _RANKS_AT_ONCE):
        share = np.arange(ranks.start, ranks.stop)[:, None] / max(n - 1, 1)
        chance = binom.pmf(np.arange(width), sampled, share)
        squares += chance.T @ chance
        right += chance.T @ by_rank[ranks]
        sums += chance.sum(0)
    values: Array = np.linalg.solve((1 - variance) * squares + variance * np.diag(sums), right)
    return values


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation(Result):
    """Measures of recommendations at k: means over the users with relevant items.

    Attributes:
        k: (K,) int64.
        hit_rate: (K,) the share of users with a relevant item among the first k.
        recall: (K,) the mean share of a user's relevant items among the first k; with one item per user the hit rate.
        ndcg: (K,) the mean nDCG at k; with one item per user 1 / log2(rank + 1), or 0 below rank k.
        map: (K,) the mean AP@k, divided by min(k, m); with one item per user 1 / rank, or 0 below rank k.
        mrr: (K,) the mean of one over the rank of the first relevant item, or 0 below rank k.
        users: number of users in the means.
        without_target: number of users without relevant items, who are left out.
        per_user: the values of each user, by the same names: (U, K), NaN for users left out.
        sampled_from: number of all items, including the relevant one; None if all items were ranked.
        correction: correction of sampled ranks.
    """

    k: Tensor
    hit_rate: Tensor
    recall: Tensor
    ndcg: Tensor
    map: Tensor
    mrr: Tensor
    users: int
    without_target: int
    per_user: dict[str, Tensor] = field(repr=False)
    sampled_from: int | None
    correction: str | None


@renamed_keywords(scores="preds", k="top_k")
def recommendation_at_k(
    preds: Tensor | Callable[[Tensor], Tensor],
    target: Tensor | tuple[Tensor, Tensor],
    seen: Tensor | tuple[Tensor, Tensor] | None = None,
    *,
    top_k: Sequence[int] = (5, 10, 20),
    items: int | None = None,
    ties: Ties = "expected",
    sampled_from: int | None = None,
    correction: Correction = None,
    progress: bool = False,
) -> Recommendation:
    r"""Return hit rate, recall, nDCG, AP and reciprocal rank at k of recommendations, ranked among all items.

    With one item per user (leave-one-out), at rank t <= k: hit rate 1, AP and reciprocal rank 1 / t, and

    .. math::
        nDCG = \frac{1}{\log_2(t + 1)}

    Args:
        preds: (U, I) floating or integer scores, no NaN; or a function of (b,) int64 users that returns (b, I) scores.
            The function is called for some users at a time, so that the whole matrix is never stored.
        target: relevant items of each user: (U,) integers, one item per user; (U, I) bool; or a pair (offsets, items)
            as in a sparse matrix by rows, (U + 1,) and (N,) integers.
        seen: items to leave out, such as items of the training set: (U, I) bool, or a pair as above. None for no item.
        top_k: different ints of at least 1, the ranks k.
        items: I, required with a function of users; None for a matrix.
        ties: how equal scores count: "expected" (mean over all their orders), "grouped", "optimistic", "pessimistic".
            Equal scores for all items give the mean of a random order, not rank 1.
        sampled_from: number of all items, including the relevant one, if the columns are one relevant item and a sample
            of the other items, drawn with equal probability. Metrics of samples rank systems differently from metrics
            of all items (Krichene & Rendle 2020), which causes a warning.
        correction: with ``sampled_from`` and one item per user: None for the metric of the sample, or "least-squares"
            for the estimate of the metric among all items with the least squared bias plus a tenth of the variance.
            Values may then be negative, also means of few users.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`Recommendation`.

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals the means of ``torch_ap.functional.retrieval_hit_rate``, ``retrieval_recall``,
    ``retrieval_normalized_dcg``, ``retrieval_average_precision`` and ``retrieval_reciprocal_rank`` of the rows.

    Source: nDCG: Järvelin & Kekäläinen (2002). Samples and their correction: Krichene & Rendle (2020), On Sampled
    Metrics for Item Recommendation, section 5. Ties: McSherry & Najork (2008).

    Example:
        >>> import torch
        >>> from torch_ap.functional import recommendation_at_k
        >>> preds = torch.tensor([[0.9, 0.8, 0.1, 0.3], [0.2, 0.7, 0.6, 0.5]])
        >>> seen = torch.tensor([[True, False, False, False], [False, True, False, False]])
        >>> recommendation_at_k(preds, torch.tensor([1, 3]), seen, top_k=[1, 2]).ndcg
        tensor([0.5000, 0.8155], dtype=torch.float64)
    """
    ranks = checks.ranks("top_k", top_k)
    check_ties(ties, TIES)
    checks.boolean("progress", progress)
    checks.one_of("correction", correction, allowed_values(Correction))
    matrix = _matrix(preds, target, seen, items)
    _check_sample(matrix, sampled_from, correction)
    threads = 1 if callable(preds) or not preds.is_cpu else order.workers(matrix.shape[0] * matrix.shape[1])
    parts = []
    with order.torch_thread_pool(threads) as pool_map:
        blocks = order.blocks(slice(0, matrix.shape[0]), matrix.tile[0] * max(4, threads))
        for block in progress_bar(blocks, progress):
            curve = products.curve_from_tiles(matrix, block, pool_map, _MEMORY_OF_A_BLOCK)
            if sampled_from is None or correction is None:
                parts.append(_values(curve, ranks, ties))
            else:
                parts.append(_estimates(curve, ranks, ties, sampled_from))
    values = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    has_target = values.pop("relevant") > 0
    if not bool(has_target.any()):
        warn_caller("No user has an item in `target`: all values are NaN.", UserWarning)
    return Recommendation(
        k=torch.tensor(list(top_k), device=has_target.device),
        **{name: column[has_target].mean(0) for name, column in values.items()},
        users=int(has_target.sum()),
        without_target=int((~has_target).sum()),
        per_user=values,
        sampled_from=sampled_from,
        correction=correction,
    )
