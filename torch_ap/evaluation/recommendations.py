"""From scores of users and items to the values of each user, and to what samples of items say of all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve import first_hit
from torch_ap.curve.convention import TIES, Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.measures import AtRank
from torch_ap.inputs.recommendations import UserScores, lists
from torch_ap.ranking import hit_curve, order, products, segments, tiles
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.rules import checks, tensors
from torch_ap.rules.messages import Plain, refuse, warn_caller
from torch_ap.rules.options import Correction, allowed
from torch_ap.runtime.progress import with_bar

_VARIANCE = 0.1  # how much it counts beside the squared bias, as in the paper
_RANKS_AT_ONCE = 1 << 12
_ROOM = 1 << 27


def measured(
    scores: Any,
    target: Any,
    seen: Any,
    k: Any,
    items: Any,
    ties: Any,
    sampled_from: Any,
    correction: Any,
    progress: Any,
) -> dict[str, Tensor]:
    """The values of each user, (U, K) float64, NaN for one who likes nothing; and (U,) how many items each likes."""
    ranks = checks.ranks("k", k)
    checks.one_of("ties", ties, TIES)
    checks.boolean("progress", progress)
    checks.one_of("correction", correction, allowed(Correction))
    matrix = _matrix(scores, target, seen, items)
    _check_sample(matrix, sampled_from, correction)
    rows = matrix.tile[0]
    threads = order.workers(matrix.shape[0] * matrix.shape[1]) if not callable(scores) and scores.is_cpu else 1
    parts = []
    with products.workers(threads) as pool_map:
        for span in with_bar(order.blocks(slice(0, matrix.shape[0]), rows * max(4, threads)), progress):
            curve = tiles.curve_of(matrix, span, pool_map, _ROOM)
            whole = correction is None
            parts.append(_values(curve, ranks, ties) if whole else _estimates(curve, ranks, ties, sampled_from))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _matrix(scores: Any, target: Any, seen: Any, items: Any) -> UserScores:
    if not callable(scores):
        tensors.scores("scores", scores)
        if scores.ndim != 2:
            refuse("scores", "must be (U, I), or a function of users", Plain(f"shape {tuple(scores.shape)}"))
        if items not in (None, scores.shape[1]):
            refuse("items", f"must be None or the number of columns of `scores`, {scores.shape[1]}", items)
        items = scores.shape[1]
    elif items is None:
        refuse("items", "must be the number of items where `scores` is a function, which does not tell it", items)
    items = checks.positive_int("items", items)
    liked = lists("target", target, items, one_each=True)
    known = None if seen is None else lists("seen", seen, items)
    users = liked.users if callable(scores) else len(scores)
    for name, one in (("target", liked), ("seen", known)):
        if one is not None and one.users != users:
            refuse(name, f"must be of {users} users", one.users)
    if not users:
        refuse("target", "must hold one user at least", Plain("none"))
    if not callable(scores):
        tensors.same_device(scores=scores, target=liked.items, seen=None if known is None else known.items)
    return UserScores(scores, items, liked, known)


def _check_sample(matrix: UserScores, sampled_from: Any, correction: Any) -> None:
    if sampled_from is None:
        if correction is not None:
            refuse("correction", "must be None without `sampled_from`", correction)
        return
    if checks.positive_int("sampled_from", sampled_from) < matrix.shape[1]:
        refuse("sampled_from", f"must be at least the number of columns of `scores`, {matrix.shape[1]}", sampled_from)
    if correction is None:
        warn_caller(
            "These are metrics of sampled items: they rank systems otherwise than metrics of all items do (Krichene & "
            "Rendle 2020). Rank all items, or give `correction='least-squares'`.",
            UserWarning,
        )


def _values(curve: HitCurve, ranks: list[int], ties: str) -> dict[str, Tensor]:
    ones = segments.as_float64(torch.ones(int(curve.m.sum()), device=curve.m.device))
    graded = hit_curve.with_grades(curve, ones, ones)

    def at_each(measure: Callable[[int], Tensor]) -> Tensor:
        return torch.stack([measure(k) for k in ranks], 1)

    return {
        "hit_rate": at_each(lambda k: first_hit.hit_rate(curve, ties=ties, top_k=k)),
        "recall": at_each(lambda k: AtRank("recall", k, ties=ties)(curve)),
        "ndcg": at_each(lambda k: NormalizedDCG(k, ties=ties)(graded)),
        "map": at_each(lambda k: Convention(top_k=k, ties=ties)(curve)),
        "mrr": at_each(lambda k: first_hit.reciprocal_rank(curve, ties=ties, top_k=k)),
        "likes": curve.m,
    }


def _estimates(curve: HitCurve, ranks: list[int], ties: str, items: int) -> dict[str, Tensor]:
    """The same estimated for all items, of curves of one hit each and as many sampled items."""
    if bool((curve.m != 1).any()) or bool((curve.n != curve.n[0]).any()):
        raise ValueError("`correction` needs one item per user in `target`, and as many sampled items for all users")
    sampled = int(curve.n[0]) - 1
    t = np.arange(1, items + 1, dtype=np.float64)
    of_rank = {"hit_rate": np.ones(items), "ndcg": 1 / np.log2(t + 1), "mrr": 1 / t}
    wanted = np.stack([np.where(t <= k, values, 0) for values in of_rank.values() for k in ranks], 1)
    table = torch.from_numpy(corrected(wanted, sampled)).to(curve.m.device)
    above, size = curve.items_above, curve.items
    if ties == "expected":
        running = segments.from_zero(table.t()).t()
        found = (running[above + size] - running[above]) / size[:, None]
    else:
        found = table[above if ties == "optimistic" else above + size - 1]
    named = dict(zip(of_rank, found.reshape(len(found), -1, len(ranks)).unbind(1), strict=True))
    return {**named, "recall": named["hit_rate"], "map": named["mrr"], "likes": curve.m}


def corrected(of_rank: Array, sampled: int, variance: float = _VARIANCE) -> Array:
    """What ranks in a sample should count as, so that the mean estimates that of ranks among all items.

    With p(s | r) the chance that an item of rank r has s - 1 of the sampled ones above it, which is binomial, and all
    ranks equally likely, it minimizes the squared bias plus so many times the variance: the solution f of
    ((1 - v) A'A + v D) f = A' b, with A of p(s | r), D the diagonal of their sums over r, and b the metric of rank r.

    Args:
        of_rank: (n, F) metrics of each rank among n items.
        sampled: how many items are drawn, with replacement, from the n - 1 others.
        variance: v, in (0, 1].

    Returns:
        (sampled + 1, F).
    """
    from scipy.stats import binom

    n, width = len(of_rank), sampled + 1
    squares, right, sums = np.zeros((width, width)), np.zeros((width, of_rank.shape[1])), np.zeros(width)
    for ranks in order.blocks(slice(0, n), _RANKS_AT_ONCE):
        share = np.arange(ranks.start, ranks.stop)[:, None] / max(n - 1, 1)
        chance = binom.pmf(np.arange(width), sampled, share)
        squares += chance.T @ chance
        right += chance.T @ of_rank[ranks]
        sums += chance.sum(0)
    found: Array = np.linalg.solve((1 - variance) * squares + variance * np.diag(sums), right)
    return found
