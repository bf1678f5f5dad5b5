r"""Groups of dependent items, such as the images of a patient or the turns of a user: AP without each group.

Items of a group share effects, so an interval that takes items as independent is too narrow. If the groups were drawn
independently, the delete-one-group jackknife gives the variance of an estimate,

.. math::
    SE^2 = \frac{G - 1}{G} \sum_g (AP_{(-g)} - \overline{AP_{(-\cdot)}})^2

with AP_(-g) the AP of all items outside of group g. With groups of one item, it is the delete-one jackknife's. The
estimand is the AP of all items of infinitely many groups, to which large groups contribute more items. It is not a mean
of the APs of the groups. Groups without hits count.

The effective number of groups is K = min(G, G_+, G_-), where G_+ = (sum of m_g)^2 / sum of m_g^2 is the effective
number of groups with hits, and G_- of groups with misses. SE is too large for groups of unequal sizes, because the
deletion of a group with the share s of the hits changes AP by about 1 / (1 - s) times its contribution. So t with
G - 1 degrees of freedom, which is usual for delete-one-group errors, rejects too often only if a few groups contain
most items: if K equal groups contain all of them, SE has K - 1 degrees of freedom, and its square is K / (K - 1) times
the variance. Therefore

.. math::
    df = min(G - 1, K (K - 1) / 2)

with which t rejects at most 6.8% at 5%, and 2.4% at 1%, in this case, for any K and G. The interval of one AP
multiplies the quantile of t by sqrt(1 + 2 / K), a factor from simulations (``benchmarks.coverage``), because the
estimated error is too small in samples whose AP is too large. The test of two systems needs no such factor. Averages,
measures at rank k, normalized AP and gain, bands of precision, confidence sequences, chance tests, the best of several
systems and detectors have K - 1 degrees of freedom, without it.

The values AP_(-g) take one sort of all items, then a cumulative sum per group over the hits. More than
``MAX_JACKKNIFE`` groups are pooled at random to this number of groups for averages, whose bias the jackknife corrects,
and for measures at rank k: pools of independent groups are independent, too. For the AP of a ranking, the linearized
form replaces the values: with c_i the contribution of item i to AP by influence functions,

.. math::
    AP_{(-g)} \approx AP - \frac{G}{G - 1} \sum_{i \in g} c_i

so that SE^2 is G / (G - 1) times the sum of squared deviations of the groups' sums. This SE is not too large, and its
t has K - 1 degrees of freedom. Both kinds of values are used by :func:`standard_error` of the values, of their
differences, or of functions of them.

Source: Bell & McCaffrey (2002), Bias Reduction in Standard Errors for Linear Regression with Multi-Stage Samples;
MacKinnon, Nielsen & Webb (2023), Fast and Reliable Jackknife and Bootstrap Methods for Cluster-Robust Inference, for
the jackknife with t and G - 1 degrees of freedom (CV3); Liang & Zeger (1986) for the linearized form. The limit for
unequal groups is our own.

Example:
    >>> import torch
    >>> from torch_ap.core.ranking.builders import from_scores
    >>> from torch_ap.inference.groups import Groups, standard_error, without_each_group
    >>> scores, relevant = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), torch.tensor([1, 0, 1, 1, 0, 1]).bool()
    >>> groups = Groups.from_ids(torch.tensor([7, 7, 7, 8, 8, 9]))
    >>> values = without_each_group(from_scores(scores, relevant), scores, relevant, groups)
    >>> values
    tensor([0.8333, 0.8056, 0.8056], dtype=torch.float64)
    >>> standard_error(values), groups.effective_count(groups.hits(relevant))
    (tensor(0.0185, dtype=torch.float64), 2.0)
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.messages import Plain, raise_invalid, short_repr, warn_of_reason
from torch_ap.core.items.inputs import Batch, counted_items
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures import averaging
from torch_ap.core.metric.samples import SampleIds, validate_ids
from torch_ap.core.ranking import bins, hit_curve, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference import influence
from torch_ap.inference.record import student_quantile

METHODS = ("jackknife", "influence")  # of intervals with groups
DEFAULT = ""  # "jackknife" up to MAX_JACKKNIFE groups or pools, else "influence"
NO_SPREAD = "fewer than two groups, or one with most hits, misses or top items, so the spread is unknown"
MAX_JACKKNIFE = 500  # groups; beyond, the linearized form covers as well and takes one pass
MEASURED_FROM = 10  # groups with hits; with fewer, intervals cover the truth less often than they should
SELECTED_FROM = 20  # the same for the best of several systems
# entries of hits from the top, a 64th of all; below, the same number of entries at geometric distances
_FEWEST_EXACT, _MOST_EXACT = 1 << 9, 1 << 11
_CELLS_A_BLOCK = 1 << 16  # groups times entries that fit the cache
_MOST_CELLS = 1 << 23  # groups times entries that are counted at once, in 128 MB


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each of N items.

    Attributes:
        ids: (N,) int64 in [0, G).
        count: G; every group has an item.
    """

    ids: Tensor
    count: int

    @classmethod
    def from_ids(cls, ids: Tensor) -> "Groups":
        """Return the groups of (N,) int64 ids of any values."""
        low, high = (0, -1) if not len(ids) else map(int, ids.aminmax())
        if ids.is_cpu and high - low < max(4 * len(ids), 1):  # a table is faster than a sort
            shifted = ids.numpy() - low if low else ids.numpy()
            occurs = np.bincount(shifted, minlength=1) > 0
            dense = shifted if occurs.all() else (occurs.cumsum() - 1)[shifted]
            return cls(torch.from_numpy(dense), int(occurs.sum()))
        distinct, dense = torch.unique(ids, return_inverse=True)
        return cls(dense, len(distinct))

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum of (N,) values in each group, (G,)."""
        if values.is_cpu and values.dtype == torch.float64:  # several times as fast
            return torch.from_numpy(np.bincount(self.ids.numpy(), values.numpy(), minlength=self.count))
        totals: Tensor = values.new_zeros(self.count).index_add_(0, self.ids, values)
        return totals

    @cached_property
    def sizes(self) -> Tensor:
        """Number of items of each group, (G,)."""
        return segments.as_float64(segments.count(self.ids, self.count))

    def hits(self, relevant: Tensor) -> Tensor:
        """Return the number of hits of each group, (G,), from (N,) bool."""
        return segments.as_float64(segments.count(self.ids[relevant], self.count))

    def effective_count(self, hits: Tensor) -> float:
        """Return K = min(G, G_+, G_-) for (G,) numbers of hits."""
        return min(float(self.count), effective_number(hits), effective_number(self.sizes - hits))

    def pooled(self) -> "Groups":
        """Return these groups, pooled at random to ``MAX_JACKKNIFE`` if they are more.

        The pool of a group depends on the rank of its id only, not on the order of the items.
        """
        if self.count <= MAX_JACKKNIFE:
            return self
        pools = torch.randperm(self.count, generator=torch.Generator().manual_seed(0)) % MAX_JACKKNIFE
        return Groups(pools.to(self.ids.device)[self.ids], MAX_JACKKNIFE)


def validate_groups(groups: SampleIds, items: torch.Size, device: torch.device, unit: str = "item") -> Tensor | None:
    """Return the ids of an argument ``groups``, one integer per item, as (N,) int64; None for None."""
    return validate_ids("groups", groups, items, device, unit)


def ids_of_groups(members: Sequence[Hashable], groups: Mapping[Any, Hashable], unit: str) -> Tensor:
    """Return the group of each member, (N,) int64, from a mapping such as the topic of each query.

    Raises:
        TypeError: if ``groups`` is no mapping, or a group is a tensor or not hashable.
        ValueError: if it lacks a member, or the group of a member is missing: None, NaN or ``pandas.NA``.
    """
    if not isinstance(groups, Mapping):
        raise_invalid("groups", f"must map each {unit} to its group", groups, TypeError)
    numbers: dict[Hashable, int] = {}
    for member in members:
        if member not in groups:
            raise_invalid("groups", f"must contain every {unit}", Plain(f"none for {short_repr(member)}"))
        group = groups[member]
        if isinstance(group, Tensor) or not _is_hashable(group):  # tensors are equal only to themselves
            kind = Plain(f"{type(group).__name__} for {short_repr(member)}")
            raise_invalid("groups", "must have groups that are numbers or text", kind, TypeError)
        if _is_missing(group):
            raise_invalid("groups", f"must have a group for every {unit}", Plain(f"{group} for {short_repr(member)}"))
        numbers.setdefault(group, len(numbers))
    return torch.tensor([numbers[groups[member]] for member in members], dtype=torch.int64)


def _is_hashable(group: object) -> bool:
    try:
        hash(group)
    except TypeError:
        return False
    return True


def _is_missing(group: Any) -> bool:
    try:
        return group is None or bool(group != group)
    except TypeError:  # comparisons of pandas.NA have no truth value
        return True


def effective_number(sizes: Tensor) -> float:
    """Return (sum of sizes)^2 / sum of sizes^2, the number of equal groups with the same variance; 0 for no sizes."""
    squares = float(sizes.square().sum())
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


def degrees_of_freedom(effective: float, count: int, method: str) -> float:
    """Return the degrees of freedom for K effective of G groups, of a jackknife or of linearized values."""
    return effective - 1 if method == "influence" else min(count - 1.0, effective * (effective - 1) / 2)


def quantile(confidence_level: float, effective: Tensor, count: int, method: str) -> Tensor:
    """Return the factor of the standard error of one AP for (S,) effective numbers of G groups; NaN below two."""
    df = [degrees_of_freedom(x, count, method) for x in effective.tolist()]
    value = student_quantile(confidence_level, effective.new_tensor(df))
    return value if method == "influence" else value * (1 + 2 / effective).sqrt()


def standard_error(values: Tensor) -> Tensor:
    """Return the jackknife standard error of values without each group, (..., G) to (...); NaN for one group."""
    count = values.shape[-1]
    if count < 2:
        return values.new_full(values.shape[:-1], torch.nan)
    values = values - values.amin(-1, keepdim=True)  # so that equal values have no deviation by rounding
    deviations = values - values.mean(-1, keepdim=True)
    error: Tensor = (deviations.square().sum(-1) * ((count - 1) / count)).sqrt()
    return error


def jackknife_bias(estimate: Tensor, values: Tensor) -> Tensor:
    """Return the bias of an estimate, from its (G,) values without each group: (G - 1) (mean - estimate), 0-d."""
    return (len(values) - 1) * (values.mean() - estimate)


def linearized_values(value: Any, shares: Tensor, groups: Groups) -> Tensor:
    """Return the linearized values without each group, (G,), from the (N,) contributions of the items."""
    values: Tensor = value - groups.sums(shares) * (groups.count / max(groups.count - 1, 1))
    return values


def check_design(design: str) -> None:
    """Raise ValueError for another design than "iid"."""
    if design != "iid":
        raise_invalid("design", "must be 'iid' with `groups`, whose numbers of hits are random", design)


def resolve_method(method: str, groups: Groups, methods: Sequence[str] = METHODS) -> str:
    """Return a method of ``methods``; "" gives the default of the number of groups, "jackknife" or "influence"."""
    if isinstance(method, str) and method == DEFAULT:
        return "jackknife" if groups.count <= MAX_JACKKNIFE else "influence"
    if not isinstance(method, str) or method not in methods:
        names = " or ".join(map(repr, methods))
        raise_invalid("method", f"must be None, {names} with `groups`", method)
    return method


def few_groups_reason(
    hit_groups: Tensor, members: str = "hits", rankings: str = "rankings", *, of_best: bool = False
) -> str:
    """Warn if an interval or a test has 2 to 9 groups with hits, and return the reason; "" otherwise.

    Args:
        hit_groups: number of groups with hits, 0-d or of each of S rankings.
        members: what the groups contain, for the message.
        rankings: what the rankings are, for the message.
        of_best: whether the interval is of the best of several systems, which covers too little with 2 to 19 groups.
    """
    least, what = (SELECTED_FROM, "the best of several covers") if of_best else (MEASURED_FROM, "coverage is measured")
    few = hit_groups[(hit_groups >= 2) & (hit_groups < least)]
    if not len(few):
        return ""
    where = f"{len(few)} of {len(hit_groups)} {rankings}: " if hit_groups.numel() > 1 else ""
    fewest, most = map(int, few.aminmax())
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    reason = f"{where}{count} groups with {members}, but {what} from {least} on: the interval may be too narrow"
    warn_of_reason("groups", reason)
    return reason


def without_each_group(
    curve: HitCurve, scores: Tensor, relevant: Tensor, groups: Groups, method: str = DEFAULT
) -> Tensor:
    """Return the AP of one ranking without each group: (G,) float64; NaN without the only group that has hits.

    With more than 1,024 distinct scores of hits, the values are exact down to a 64th of these scores, at least 512 and
    at most 2,048. Below, precision is computed at the same number of ranks at geometric distances, and is linear in the
    hits between them. This changed the standard error of 1,000,000 items in 50 or 500 groups, 2% or half of them hits,
    by at most 1.2e-3 of itself.

    Args:
        curve: the unweighted ranking, with a threshold per tie group.
        scores: (N,) scores from which the curve was made.
        relevant: (N,) bool.
        groups: groups of the N items.
        method: "jackknife", "influence" for the linearized form, or "" for the default of the number of groups.
    """
    if resolve_method(method, groups) == "influence":
        shares = influence.contributions(curve, "iid").values_at(scores, relevant)
        value = segments.total(curve.hits * curve.precision, curve.offsets)[0] / curve.m[0]
        return linearized_values(value, shares, groups)
    assert curve.score is not None
    columns = (curve.hits, curve.cumulative_hits, curve.cumulative_items)
    hits, h, t = (x.cpu().numpy() for x in columns)
    nodes = _nodes(len(t))
    node_scores = curve.score[torch.from_numpy(nodes).to(scores.device)]
    cells = len(nodes) - bins.count_reached(scores, node_scores.flip(0)).cpu().numpy()
    ids, is_hit, m = groups.ids.cpu().numpy(), relevant.cpu().numpy(), float(curve.m)
    left, changes = m - groups.hits(relevant).cpu().numpy(), np.empty(groups.count)
    for block in order.blocks(slice(0, groups.count), max(1, _MOST_CELLS // len(nodes)) if len(nodes) else 1):
        inside = slice(None) if block == slice(0, groups.count) else (ids >= block.start) & (ids < block.stop)
        shape = len(nodes), block.stop - block.start
        counts = _count_cells(cells[inside], ids[inside] - block.start, is_hit[inside], shape)
        sums = _precision_sums(h, t, nodes, counts)
        with np.errstate(all="ignore"):
            changes[block] = sums[:-1] / left[block] - sums[-1] / m
    with np.errstate(all="ignore"):
        value = (hits * (h / t)).sum() / m
    return segments.as_float64(torch.from_numpy(value + changes)).to(curve.m.device)


def _nodes(entries: int) -> Array:
    """Return the entries of a curve at which precision without each group is computed, ascending int64."""
    exact = min(max(entries >> 6, _FEWEST_EXACT), _MOST_EXACT)
    if entries <= 2 * exact:
        return np.arange(entries)
    lower = np.geomspace(exact, entries - 1, exact).round().astype(np.int64)
    return np.concatenate([np.arange(exact), np.unique(lower)])


def _precision_sums(h: Array, t: Array, nodes: Array, counts: Array) -> Array:
    """Return the sum of the precision at the hits outside of each group, then at all hits: (G + 1,).

    Args:
        h: (E,) hits down to the end of each tie group that contains a hit.
        t: (E,) items likewise.
        nodes: (K,) result of :func:`_nodes`.
        counts: result of :func:`_count_cells`.
    """
    h, t, single = h[nodes], t[nodes], np.diff(nodes, prepend=-1) == 1
    width = counts.shape[2]  # the last column has no items: nothing is left out
    sums, last_precision = np.zeros(width), np.zeros(width)
    items_out = np.zeros((2, width), np.int64)  # items and hits of each group so far
    rows = max(1, _CELLS_A_BLOCK // width)
    for block in order.blocks(slice(0, len(t)), rows):
        hits_before = int(h[block.start - 1]) if block.start else 0
        all_out, hits_out = counts[:, block].cumsum(1) + items_out[:, None]
        items_out = np.stack([all_out[-1], hits_out[-1]])
        precision = (h[block, None] - hits_out) / np.maximum(t[block, None] - all_out, 1)
        hits_left = np.diff(h[block], prepend=hits_before)[:, None] - counts[1, block]
        above = np.concatenate([last_precision[None], precision[:-1]])
        last_precision = precision[-1]
        mean = np.where(single[block, None], precision, (precision + above) / 2)
        sums += (hits_left * mean).sum(0)
    return sums


def _count_cells(nodes: Array, groups: Array, is_hit: Array, shape: tuple[int, int]) -> Array:
    """Return the number of items and of hits from each node up to the previous one, by group: (2, K, G + 1).

    Args:
        nodes: (N,) the first node at or below each item, K for items below all nodes.
        groups: (N,) the group of each item, from 0.
        is_hit: (N,) bool.
        shape: K and G.
    """
    rows, width = shape[0] + 1, shape[1] + 1
    cells = nodes * np.int64(width) + groups
    counts = np.stack([np.bincount(x, minlength=rows * width) for x in (cells, cells[is_hit])])
    return counts.reshape(2, rows, width)[:, :-1]


@dataclass(frozen=True, eq=False)
class ValuesWithoutGroups:
    """Values of S rankings, or of their average, without each group.

    Attributes:
        values: (S, G), or (G,) for an average.
        effective: (S,) or 0-d effective number of groups.
        method: "jackknife" or "influence".
        hit_groups: (S,) or 0-d number of groups with hits.
        in_one_group: number of averaged rankings whose hits, or misses, are all in one group. The values of the average
            then are NaN, because the contribution of such a ranking to its error is unknown.
    """

    values: Tensor
    effective: Tensor
    method: str
    hit_groups: Tensor
    in_one_group: int = 0


def values_without_groups(
    settings: APSettings, curve: HitCurve, validated: Batch, method: str, methods: Sequence[str] = METHODS
) -> ValuesWithoutGroups:
    """Return the value of an evaluation without each group.

    Args:
        settings: settings of the average precision.
        curve: the rankings.
        validated: the items, with groups.
        method: see :func:`resolve_method`.
        methods: the allowed methods.
    """
    is_mean = settings.averages and settings.average != "micro"
    whole, columns = rankings_in_groups(settings, curve, validated, pools=is_mean and method == DEFAULT)
    method = resolve_method(method, whole, methods)
    hits = torch.stack([groups.hits(relevant) for _, _, relevant, groups in columns])
    if not is_mean:
        values = torch.stack([without_each_group(*column, method) for column in columns])
        effective = hits.new_tensor([column[-1].effective_count(x) for column, x in zip(columns, hits, strict=True)])
        return ValuesWithoutGroups(values, effective, method, (hits > 0).sum(1))
    hit_groups = (hits.sum(0) > 0).sum()
    sizes = torch.stack([groups.sizes for _, _, _, groups in columns])
    is_unknown = ((hits > 0).sum(1) == 1) | ((hits > 0).any(1) & ((sizes > hits).sum(1) == 1))
    unknown = torch.where(is_unknown.any(), torch.nan, 0.0)
    effective = hits.new_tensor(min(float(whole.count), effective_number(hits.sum(0))))
    if method == "influence":
        shares = influence.item_shares(settings, validated, curve, "iid")
        value = settings.value(curve, shares.dtype, warn=False)
        values = linearized_values(value, shares, whole) + unknown
        return ValuesWithoutGroups(values, effective, method, hit_groups, int(is_unknown.sum()))
    values = torch.stack([without_each_group(*column, method) for column in columns])
    m, n = hits.sum(1, keepdim=True) - hits, sizes.sum(1, keepdim=True) - sizes
    action = settings.action_on_empty
    undefined = averaging.UNDEFINED_AS[action].value
    values = torch.where(m > 0, values, torch.where(n > 0, undefined, torch.nan))
    values = averaging.averages_of_samples(values, m, n, settings.average, action) + unknown
    return ValuesWithoutGroups(values, effective, method, hit_groups, int(is_unknown.sum()))


def rankings_in_groups(
    settings: APSettings, curve: HitCurve, validated: Batch, *, pools: bool = False
) -> tuple[Groups, list[tuple[HitCurve, Tensor, Tensor, Groups]]]:
    """Return the groups of all items, and the curve, scores, relevance and groups of each ranking.

    Args:
        settings: settings of the average precision.
        curve: the rankings.
        validated: the items, with groups.
        pools: whether many groups are pooled, see :meth:`Groups.pooled`.
    """
    batch = settings.rankings(validated)
    assert batch.groups is not None
    is_counted = counted_items(batch.target)
    is_counted = is_counted if is_counted.ndim == 1 else is_counted.any(1)
    whole = Groups.from_ids(batch.groups if not settings.inputs.ignoring else batch.groups[is_counted])
    whole = whole.pooled() if pools else whole
    if settings.inputs.ignoring:  # the ids of ignored items are not used
        ids = torch.zeros_like(batch.groups)
        ids[is_counted] = whole.ids
        whole = Groups(ids, whole.count)
    return whole, list(_columns(settings, curve, batch, whole))


def _columns(
    settings: APSettings, curve: HitCurve, batch: Batch, whole: Groups
) -> Iterator[tuple[HitCurve, Tensor, Tensor, Groups]]:
    """Yield the curve, the scores, the relevance and the groups of each ranking."""
    if batch.scores.ndim == 1:
        relevant, rows = influence.select_column(batch.target, 1, settings.inputs.ignoring)
        yield curve, batch.scores[rows], relevant[rows], Groups(whole.ids[rows], whole.count)
        return
    for column, ranking in enumerate(hit_curve.split(curve)):
        relevant, rows = influence.select_column(batch.target, column, settings.inputs.ignoring)
        yield ranking, batch.scores[:, column][rows], relevant[rows], Groups(whole.ids[rows], whole.count)
