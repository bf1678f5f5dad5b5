r"""Groups of dependent items, such as the images of a patient or the turns of a user: AP without each group.

Items of a group share effects, so an interval that takes items as independent is too narrow. If the groups were drawn
independently, the delete-one-group jackknife gives the variance of an estimate,

.. math::
    SE^2 = \frac{G - 1}{G} \sum_g (AP_{(-g)} - \overline{AP_{(-\cdot)}})^2

with AP_(-g) the AP of all items outside of group g. Student's t has min(G, G_+, G_-) - 1 degrees of freedom, where
G_+ = (sum of m_g)^2 / sum of m_g^2 is the effective number of groups with hits, and G_- of groups with misses. With
groups of one item, both are equal to the delete-one jackknife's. The estimand is the AP of all items of infinitely
many groups, to which large groups contribute more items. It is not a mean of the APs of the groups. Groups without hits
count.

The values AP_(-g) take one sort of all items, then a cumulative sum per group over the hits. Above ``MAX_JACKKNIFE``
groups, the linearized form replaces them: with c_i the contribution of item i to AP by influence functions,

.. math::
    AP_{(-g)} \approx AP - \frac{G}{G - 1} \sum_{i \in g} c_i

so that SE^2 is G / (G - 1) times the sum of squared deviations of the groups' sums. Both kinds of values are used in
the same way, by :func:`standard_error` of the values, of their differences, or of functions of them.

Source: Bell & McCaffrey (2002), Bias Reduction in Standard Errors for Linear Regression with Multi-Stage Samples;
Cameron, Gelbach & Miller (2008), Bootstrap-Based Improvements for Inference with Clustered Errors; Liang & Zeger (1986)
for the linearized form.

Example:
    >>> import torch
    >>> from torch_ap.core.ranking.builders import from_scores
    >>> from torch_ap.inference.groups import Groups, standard_error, without_each_group
    >>> scores, relevant = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), torch.tensor([1, 0, 1, 1, 0, 1]).bool()
    >>> groups = Groups.from_ids(torch.tensor([7, 7, 7, 8, 8, 9]))
    >>> values = without_each_group(from_scores(scores, relevant), scores, relevant, groups)
    >>> values
    tensor([0.8333, 0.8056, 0.8056], dtype=torch.float64)
    >>> standard_error(values), groups.degrees_of_freedom(relevant)
    (tensor(0.0185, dtype=torch.float64), 1.0)
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.messages import Plain, raise_invalid, short_repr, warn_caller
from torch_ap.core.items.inputs import Batch, counted_items
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures import averaging
from torch_ap.core.metric.samples import SampleIds, validate_ids
from torch_ap.core.ranking import hit_curve, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference import influence

METHODS = ("jackknife", "influence")  # of intervals with groups
DEFAULT = ""  # "jackknife" up to MAX_JACKKNIFE groups, else "influence"
NO_SPREAD = "fewer than two groups, or one with most hits or misses, so the spread is unknown"
MAX_JACKKNIFE = 500  # groups; beyond, the linearized form covers as well and takes one pass
MEASURED_FROM = 10  # groups with hits; with fewer, intervals cover the truth less often than they should
_EXACT_ENTRIES = 1 << 11  # of hits from the top; below, the same number of entries at geometric distances
_CELLS_A_BLOCK = 1 << 16  # groups times entries that fit the cache


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
            shifted = ids.numpy() - low
            occurs = np.bincount(shifted, minlength=1) > 0
            return cls(torch.from_numpy((occurs.cumsum() - 1)[shifted]), int(occurs.sum()))
        distinct, dense = torch.unique(ids, return_inverse=True)
        return cls(dense, len(distinct))

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum of (N,) values in each group, (G,)."""
        totals: Tensor = values.new_zeros(self.count).index_add_(0, self.ids, values)
        return totals

    def degrees_of_freedom(self, relevant: Tensor) -> float:
        """Return the degrees of freedom of (N,) bool items: min(G, G_+, G_-) - 1."""
        hits = segments.as_float64(segments.count(self.ids[relevant], self.count))
        misses = segments.as_float64(segments.count(self.ids, self.count)) - hits
        return min(float(self.count), effective_number(hits), effective_number(misses)) - 1


def validate_groups(groups: SampleIds, items: torch.Size, device: torch.device, unit: str = "item") -> Tensor | None:
    """Return the ids of an argument ``groups``, one integer per item, as (N,) int64; None for None."""
    return validate_ids("groups", groups, items, device, unit)


def ids_of_groups(members: Sequence[Hashable], groups: Mapping[Any, Hashable], unit: str) -> Tensor:
    """Return the group of each member, (N,) int64, from a mapping such as the topic of each query.

    Raises:
        TypeError: if ``groups`` is no mapping.
        ValueError: if it lacks a member.
    """
    if not isinstance(groups, Mapping):
        raise_invalid("groups", f"must map each {unit} to its group", groups, TypeError)
    numbers: dict[Hashable, int] = {}
    for member in members:
        if member not in groups:
            raise_invalid("groups", f"must contain every {unit}", Plain(f"none for {short_repr(member)}"))
        numbers.setdefault(groups[member], len(numbers))
    return torch.tensor([numbers[groups[member]] for member in members], dtype=torch.int64)


def effective_number(sizes: Tensor) -> float:
    """Return (sum of sizes)^2 / sum of sizes^2, the number of equal groups with the same variance; 0 for no sizes."""
    squares = float(sizes.square().sum())
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


def standard_error(values: Tensor) -> Tensor:
    """Return the jackknife standard error of values without each group, (..., G) to (...); NaN for one group."""
    count = values.shape[-1]
    if count < 2:
        return values.new_full(values.shape[:-1], torch.nan)
    deviations = values - values.mean(-1, keepdim=True)
    error: Tensor = (deviations.square().sum(-1) * ((count - 1) / count)).sqrt()
    return error


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
    if method == DEFAULT:
        return "jackknife" if groups.count <= MAX_JACKKNIFE else "influence"
    if method not in methods:
        names = " or ".join(map(repr, methods))
        raise_invalid("method", f"must be None, {names} with `groups`", method)
    return method


def few_groups_reason(hit_groups: Tensor, members: str = "hits") -> str:
    """Warn if an interval or a test has 2 to 9 groups with hits, and return the reason; "" otherwise.

    Args:
        hit_groups: number of groups with hits, 0-d or of each of S rankings.
        members: what the groups contain, for the message.
    """
    few = hit_groups[(hit_groups >= 2) & (hit_groups < MEASURED_FROM)]
    if not len(few):
        return ""
    where = f"{len(few)} of {len(hit_groups)} rankings: " if hit_groups.numel() > 1 else ""
    reason = f"{where}{int(few.min())} groups with {members}, but coverage is measured from {MEASURED_FROM} on"
    warn_caller(f"`groups`: {reason}", UserWarning)
    return reason


def without_each_group(
    curve: HitCurve, scores: Tensor, relevant: Tensor, groups: Groups, method: str = DEFAULT
) -> Tensor:
    """Return the AP of one ranking without each group: (G,) float64; NaN without the only group that has hits.

    With more than 4,096 distinct scores of hits, the values are exact down to the 2,048th. Below, precision is computed
    at 2,048 ranks at geometric distances, and is linear in the hits between them. This changed the standard error of
    1,000,000 items, half of them hits, by 6e-4 of itself.

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
    columns = (curve.hits, curve.cumulative_hits, curve.cumulative_items)
    hits, h, t = (x.cpu().numpy() for x in columns)
    code = _ranked_codes(scores, relevant, groups)
    m = np.append(np.bincount(code[code & 1 == 1] >> 1, minlength=groups.count), 0)
    m = float(curve.m) - m
    with np.errstate(all="ignore"):
        means = _precision_sums(h, t, code, groups.count) / m
        value = (hits * (h / t)).sum() / m[-1]
    return segments.as_float64(torch.from_numpy(value + (means[:-1] - means[-1]))).to(curve.m.device)


def _ranked_codes(scores: Tensor, relevant: Tensor, groups: Groups) -> Array:
    """Return twice the group of each item, plus 1 for a hit, by descending score: (N,) int64."""
    code = groups.ids * 2 + relevant
    bits = (2 * groups.count).bit_length()
    keys = order.keys(scores)
    if not scores.is_cpu or keys.itemsize > order.KEYED_BYTES or bits > 31:
        places = order.argsort(keys)
        return np.ascontiguousarray(code[places].cpu().numpy()[::-1])
    packed: Array = np.left_shift(-keys.numpy().astype(np.int64), bits)
    packed |= code.numpy()
    order.sort_in_place(packed)
    packed &= (1 << bits) - 1
    return packed


def _precision_sums(h: Array, t: Array, code: Array, groups: int) -> Array:
    """Return the sum of the precision at the hits outside of each group, then at all hits: (G + 1,).

    Args:
        h: (E,) hits down to the end of each tie group that contains a hit.
        t: (E,) items likewise.
        code: result of :func:`_ranked_codes`.
        groups: G.
    """
    nodes = np.arange(len(t))
    if len(t) > 2 * _EXACT_ENTRIES:
        lower = np.geomspace(_EXACT_ENTRIES, len(t) - 1, _EXACT_ENTRIES).round().astype(np.int64)
        nodes = np.concatenate([nodes[:_EXACT_ENTRIES], np.unique(lower)])
    h, t, single = h[nodes], t[nodes], np.diff(nodes, prepend=-1) == 1
    width = groups + 1  # the last column has no items: nothing is left out
    sums, last_precision = np.zeros(width), np.zeros(width)
    items_out = np.zeros((2, width), np.int64)  # misses and hits of each group so far
    rows = max(1, _CELLS_A_BLOCK // width)
    for block in order.blocks(slice(0, len(t)), rows):
        ends = t[block]
        start = int(t[block.start - 1]) if block.start else 0
        hits_before = int(h[block.start - 1]) if block.start else 0
        inside = code[start : int(ends[-1])]
        node = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=start))
        cell, is_hit = node * width + (inside >> 1), (inside & 1).astype(bool)
        size = len(ends) * width
        own_hits = np.bincount(cell[is_hit], minlength=size).reshape(-1, width)
        own_items = np.bincount(cell, minlength=size).reshape(-1, width)
        hits_out = own_hits.cumsum(0)
        hits_out += items_out[1]
        all_out = own_items.cumsum(0)
        all_out += items_out[0]
        items_out = np.stack([all_out[-1], hits_out[-1]])
        precision = (h[block, None] - hits_out) / np.maximum(t[block, None] - all_out, 1)
        hits_left = np.diff(h[block], prepend=hits_before)[:, None] - own_hits
        above = np.concatenate([last_precision[None], precision[:-1]])
        last_precision = precision[-1]
        mean = np.where(single[block, None], precision, (precision + above) / 2)
        sums += (hits_left * mean).sum(0)
    return sums


@dataclass(frozen=True, eq=False)
class ValuesWithoutGroups:
    """Values of S rankings, or of their average, without each group.

    Attributes:
        values: (S, G), or (G,) for an average.
        df: (S,) or 0-d degrees of freedom.
        method: "jackknife" or "influence".
        hit_groups: (S,) or 0-d number of groups with hits.
    """

    values: Tensor
    df: Tensor
    method: str
    hit_groups: Tensor


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
    batch = settings.rankings(validated)
    assert batch.groups is not None
    is_counted = counted_items(batch.target)
    is_counted = is_counted if is_counted.ndim == 1 else is_counted.any(1)
    whole = Groups.from_ids(batch.groups if not settings.inputs.ignoring else batch.groups[is_counted])
    if settings.inputs.ignoring:  # the ids of ignored items are not used
        ids = torch.zeros_like(batch.groups)
        ids[is_counted] = whole.ids
        whole = Groups(ids, whole.count)
    method = resolve_method(method, whole, methods)
    columns = list(_columns(settings, curve, batch, whole))
    hits = torch.stack([groups.sums(segments.as_float64(relevant)) for _, _, relevant, groups in columns])
    if not settings.averages or settings.average == "micro":
        values = torch.stack([without_each_group(*column, method) for column in columns])
        df = hits.new_tensor([groups.degrees_of_freedom(relevant) for _, _, relevant, groups in columns])
        return ValuesWithoutGroups(values, df, method, (hits > 0).sum(1))
    hit_groups = (hits.sum(0) > 0).sum()
    df = hits.new_tensor(min(float(whole.count), effective_number(hits.sum(0))) - 1)
    if method == "influence":
        shares = influence.item_shares(settings, validated, curve, "iid")
        value = settings.value(curve, shares.dtype, warn=False)
        return ValuesWithoutGroups(linearized_values(value, shares, whole), df, method, hit_groups)
    values = torch.stack([without_each_group(*column, method) for column in columns])
    sizes = torch.stack([groups.sums(torch.ones_like(hits[0, 0]).expand(len(x))) for _, x, _, groups in columns])
    m, n = hits.sum(1, keepdim=True) - hits, sizes.sum(1, keepdim=True) - sizes
    action = settings.action_on_empty
    undefined = averaging.UNDEFINED_AS[action].value
    values = torch.where(m > 0, values, torch.where(n > 0, undefined, torch.nan))
    values = averaging.averages_of_samples(values, m, n, settings.average, action)
    return ValuesWithoutGroups(values, df, method, hit_groups)


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
