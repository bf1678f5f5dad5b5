"""Hit curves by counting: of items that are in order, of bins, and of rows that are all laid out alike."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_ap.ranking import exact_sums, segments
from torch_ap.ranking.hit_curve import HitCurve, Parts


def from_ordered(
    relevant: Tensor,
    last: Tensor,
    offsets: Tensor,
    *,
    score: Tensor | None = None,
    weight: Tensor | None = None,
    m: Tensor | None = None,
    keep_all_groups: bool = False,
    parts: Parts | None = None,
) -> HitCurve:
    """The curve of items that are already in order: rankings end to end, best item first.

    Args:
        relevant: (N,) bool or 0/1 integers.
        last: (N,) bool, true at the last item of each tie group, and so at the last item of each ranking.
        offsets: (S + 1,) int64, where the items of each ranking begin and end.
        score: (N,) the items' scores, for ``HitCurve.score``.
        weight: (N,) float64 item weights.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
        keep_all_groups: keep the tie groups without a hit as well.
        parts: where these are the items of a range of scores, and other processes have the others.
    """
    ends = last.nonzero().squeeze(1)
    ones = [torch.ones_like(relevant, dtype=torch.int64)]
    if weight is not None:
        ones = exact_sums.slices(weight, offsets, *([] if parts is None else [parts.highest]))
    relevant = relevant.bool()
    cumulative, starts, sizes = zip(
        *(_running(x, offsets, parts) for x in ([torch.where(relevant, x, 0) for x in ones], ones)), strict=True
    )
    first = torch.searchsorted(ends, offsets[:-1])[offsets.diff() > 0]
    above = [_before(x[ends], first, y[offsets.diff() > 0]) for x, y in zip(cumulative, starts, strict=True)]
    hits, items = (x[ends] - before for x, before in zip(cumulative, above, strict=True))
    if not keep_all_groups:
        kept = (hits > 0).nonzero().squeeze(1)
        ends, hits, items, *above = (x[kept] for x in (ends, hits, items, *above))
    return HitCurve(
        hits=hits,
        items=items,
        hits_above=above[0],
        items_above=above[1],
        score=None if score is None else score[ends],
        offsets=torch.searchsorted(ends, offsets),
        n=sizes[1],
        m=sizes[0] if m is None else m,
        parts=parts,
    )


def _running(terms: Sequence[Tensor], offsets: Tensor, parts: Parts | None) -> tuple[Tensor, Tensor, Tensor]:
    """The running sum of each ranking over all parts, (N,); what it begins with here, and what it ends with, (S,)."""
    sums = [segments.cumulative(x, offsets) for x in terms]
    whole = torch.stack([_at_end(x, offsets) for x in sums])
    above = torch.zeros_like(whole)
    if parts is not None:
        above, whole = parts.above_and_whole(whole)
        sums = [x + segments.each_entry(y, offsets) for x, y in zip(sums, above, strict=True)]
    return exact_sums.rounded(sums), exact_sums.rounded(above.unbind()), exact_sums.rounded(whole.unbind())


def _at_end(cumulative: Tensor, offsets: Tensor) -> Tensor:
    """The running sum at the end of each ranking, 0 where it is empty."""
    return torch.where(offsets.diff() > 0, torch.cat([cumulative.new_zeros(1), cumulative])[offsets[1:]], 0)


def _before(cumulative: Tensor, first: Tensor, start: Tensor) -> Tensor:
    """The running sum above each group: that of the group before; ``start`` for the ``first`` of each ranking."""
    above = torch.cat([cumulative.new_zeros(1), cumulative])[:-1]
    above[first] = start
    return above


def from_bins(
    hits: Tensor,
    items: Tensor,
    *,
    n: Tensor | None = None,
    m: Tensor | None = None,
    score: Tensor | None = None,
    kept: Tensor | None = None,
) -> HitCurve:
    """The curve of counts per bin; a bin is a tie group.

    Args:
        hits: (S, B) hits in each bin of each ranking, highest scores first; int64, or float64 sums of weights.
        items: (S, B) items in each bin, hits included.
        n: (S,) items of each ranking, where some lie in no bin. Default: those in the bins.
        m: (S,) relevant items of each ranking, likewise.
        score: (B,) or (S, B) for ``HitCurve.score``; all bins are then entries, those without a hit too.
        kept: (S, B) bool, which bins are entries instead.
    """
    filled = kept
    if filled is None:
        filled = hits > 0 if score is None else torch.ones_like(hits, dtype=torch.bool)
    return HitCurve(
        hits=hits[filled],
        items=items[filled],
        hits_above=(hits.cumsum(1) - hits)[filled],
        items_above=(items.cumsum(1) - items)[filled],
        score=None if score is None else score.expand(hits.shape)[filled],
        offsets=segments.from_counts(filled.sum(1)),
        n=items.sum(1) if n is None else n,
        m=hits.sum(1) if m is None else m,
    )


def of_rows(
    hits: Tensor, items: Tensor, hits_above: Tensor, items_above: Tensor, offsets: Tensor, n: Tensor, m: Tensor
) -> HitCurve:
    """The curve of b rows of S rankings each, those of the first row first.

    Args:
        hits, items, hits_above, items_above: (b, E) as of :class:`HitCurve`, all rows laid out alike.
        offsets: (S + 1,) where the entries of each ranking of a row begin and end.
        n: (b, S) items ranked.
        m: (b, S) relevant items.
    """
    rows, width = hits.shape
    starts = torch.arange(rows, device=offsets.device)[:, None] * width + offsets[:-1]
    offsets = torch.cat([starts.flatten(), offsets[:1] + rows * width])
    hits, items, hits_above, items_above, n, m = (x.flatten() for x in (hits, items, hits_above, items_above, n, m))
    return HitCurve(hits, items, hits_above, items_above, None, offsets, n, m)
