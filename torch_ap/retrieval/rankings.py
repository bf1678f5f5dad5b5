"""Hit curves with one ranking per query, from the batches of a state, and codes of queries for these batches."""

import contextlib
import hashlib
import numbers
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.metric import samples
from torch_ap.core.ranking import builders, graded, order, segments
from torch_ap.core.ranking.graded import Relevant
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.inputs import NOT_COUNTED, NOT_RANKED, QueryBatch

_MOST_GAPS = 2  # ids per item in a range of ids that is counted without a sort
_ITEMS_A_RUN = 4  # items are sorted by id if the mean run of equal ids is shorter
_FIRST = np.zeros(1, np.int64)


class Rankings(NamedTuple):
    """A hit curve with one ranking per query.

    Attributes:
        queries: (Q,) int64 ids.
        curve: Q rankings, with grades if the batch has them; m is the known number of relevant items.
        judged: (Q,) bool, whether m was passed, or an item was not ranked.
    """

    queries: Tensor
    curve: HitCurve
    judged: Tensor


def rank_queries(batch: QueryBatch, *, single: bool = False) -> Rankings:
    """Return one ranking per query of the batch, for any order of queries.

    Args:
        batch: result of :meth:`torch_ap.retrieval.inputs.QueryInputs.validate`.
        single: whether the batch is one ranking, which errors then do not name.

    Raises:
        ValueError: for a query with two different numbers of relevant items, or with fewer than its relevant items.
    """
    items, indexes = _Items(batch.scores, batch.relevance, batch.grades), batch.indexes
    offsets = None if batch.lengths is None else segments.from_counts(batch.lengths)
    greatest = _greatest(items.relevance)
    if greatest >= NOT_COUNTED:
        counts = items.relevance != NOT_COUNTED
        items, indexes = items.pick(counts), None if indexes is None else indexes[counts]
        if offsets is not None:
            offsets = segments.from_counts(segments.total(counts.to(torch.int64), offsets))
    if offsets is not None:
        queries = arrays.tensor(arrays.arange_like(len(offsets) - 1, arrays.native(offsets)))
        rankings, relevant = _rank_items(queries, items, greatest, offsets=offsets, m=batch.judged_counts)
    else:
        assert indexes is not None
        runs = _runs(indexes) if len(indexes) and indexes.is_cpu else None
        queries, offsets, segment, lengths = runs or _number_queries(indexes)
        rankings, relevant = _rank_items(queries, items, greatest, offsets=offsets, segment=segment, lengths=lengths)
        rankings = _apply_judgements(rankings, batch)
    if batch.judged_counts is not None:
        curve, kind = rankings.curve, "query" if batch.lengths is None else "row"
        seen = curve.hits_seen if relevant is None else relevant.counts(len(curve.m))
        _check_seen(curve.m, seen, rankings.queries, kind="" if single else kind)
    if relevant is None:
        return rankings
    return rankings._replace(curve=graded.attach_grades(rankings.curve, relevant))


def check_batch(batch: QueryBatch) -> None:
    """Raise ValueError if the judgements of a batch contradict one another or the items of the batch.

    The function does nothing without judgements, and on an accelerator, where it would have to wait.

    Raises:
        ValueError: as :func:`rank_queries`.
    """
    if batch.judged_counts is None or not len(batch.judged_counts) or batch.scores.device.type != "cpu":
        return
    hits = batch.relevance % 2 == 1
    if batch.lengths is not None:
        seen = segments.total(hits.to(torch.int64), segments.from_counts(batch.lengths))
        _check_seen(batch.judged_counts, seen, torch.arange(len(seen)), kind="row")
    elif batch.judged_queries is not None:
        known, counts = _distinct_judgements(batch.judged_queries, batch.judged_counts)
        queries = batch.judged_queries[:0] if batch.indexes is None else batch.indexes[hits]
        place = torch.searchsorted(known, queries).clamp(max=len(known) - 1)
        seen = torch.bincount(place[known[place] == queries], minlength=len(known))
        _check_seen(counts, seen, known)


class _Items(NamedTuple):
    """Columns of a batch, (N,) each, as in :class:`torch_ap.retrieval.inputs.QueryBatch`."""

    scores: Tensor
    relevance: Tensor
    grades: Tensor | None

    def pick(self, flags: Tensor) -> "_Items":
        return _Items(*(x if x is None else x[flags] for x in self))  # type: ignore[arg-type]


def _rank_items(
    queries: Tensor,
    items: _Items,
    greatest: int,
    *,
    offsets: Tensor | None = None,
    segment: Tensor | None = None,
    lengths: Tensor | None = None,
    m: Tensor | None = None,
) -> tuple[Rankings, Relevant | None]:
    """Return the rankings of items that count, and with grades all relevant items.

    Args:
        queries: (Q,) ids.
        items: concatenated queries, if ``offsets`` is a tensor; else items in any order, with ``segment``.
        greatest: the greatest ``items.relevance``.
        offsets: (Q + 1,) the start and end of each query.
        segment: (N,) int64 in [0, Q), the query of each item.
        lengths: (Q,) number of items of each query.
        m: (Q,) known numbers of relevant items, including items that were not ranked.
    """
    ranked, judged = None, torch.from_numpy((np.zeros if m is None else np.ones)(queries.shape[0], bool))
    judged = judged if queries.is_cpu else judged.to(queries.device)
    scores, relevance = items.scores, items.relevance
    if offsets is not None and greatest >= NOT_RANKED:
        segment, offsets = segments.ids(offsets), None
    if segment is not None and greatest >= NOT_RANKED:
        ranked = relevance < NOT_RANKED
        judged = judged | (segments.count(segment[~ranked], len(queries)) > 0)
        m = segments.count(segment[relevance % 2 == 1], len(queries)) if m is None else m
        scores, relevance, ranked_segment = scores[ranked], relevance[ranked], segment[ranked]
        lengths = segments.count(ranked_segment, len(queries))
        curve = builders.from_scores(
            scores, relevance, segment=ranked_segment, segments_count=len(queries), lengths=lengths, m=m
        )
    elif offsets is not None:
        curve = builders.from_runs(scores, relevance, offsets, m=m)
    else:
        curve = builders.from_scores(
            scores, relevance, segment=segment, segments_count=len(queries), lengths=lengths, m=m
        )
    rankings = Rankings(queries, curve, judged)
    if items.grades is None:
        return rankings, None
    places = arrays.tensor(arrays.true_indices(arrays.native(items.relevance) & 1))
    if queries.shape[0] == 1:
        owner = None
    elif segment is None:
        assert offsets is not None
        owner = segments.ids_at(places, offsets)
    else:
        owner = segments.pick(segment, places)
    grades, scores = (segments.pick(x, places) for x in (items.grades, items.scores))
    return rankings, Relevant(owner, grades, scores, None if ranked is None else ranked[places])


def _greatest(relevance: Tensor) -> int:
    """Return the greatest relevance, which shows in one pass whether items are ignored or not ranked."""
    if not relevance.shape[0]:
        return 0
    if not relevance.is_cpu:
        return int(relevance.max())
    flags = relevance.numpy()
    return int(flags[flags.argmax()])  # three times as fast as `max`


def _runs(indexes: Tensor) -> tuple[Tensor, Tensor, None, None] | None:
    """Return queries and offsets if the items of each query are adjacent and runs are long, else None; on CPU."""
    ids = indexes.numpy()
    changed = ids[1:] != ids[:-1]
    if np.count_nonzero(changed) > len(ids) // _ITEMS_A_RUN:
        return None
    places = changed.nonzero()[0]
    if not len(places):
        return torch.from_numpy(ids[:1].copy()), torch.from_numpy(np.array([0, len(ids)])), None, None
    starts = np.concatenate([_FIRST, places + 1])
    queries = ids.take(starts)
    if not bool((queries[1:] > queries[:-1]).all()) and len(np.unique(queries)) < len(queries):
        return None
    return torch.from_numpy(queries), torch.from_numpy(np.append(starts, len(ids))), None, None


def _number_queries(indexes: Tensor) -> tuple[Tensor, None, Tensor, Tensor]:
    """Return the distinct queries, ascending, None, the index of each item's query, and the items per query.

    Ids in a narrow range need no sort.
    """
    if len(indexes) and indexes.device.type == "cpu":
        low, high = order.extremes(indexes.numpy())
        if high - low < _MOST_GAPS * len(indexes):
            segment = indexes - low if low else indexes
            lengths = torch.from_numpy(order.bincount(segment.numpy(), high - low + 1))
            present = lengths > 0
            queries = torch.from_numpy(np.flatnonzero(present.numpy()))
            if len(queries) < len(present):
                segment, lengths = segments.pick(present.cumsum(0) - 1, segment), segments.pick(lengths, present)
            return queries + low if low else queries, None, segment, lengths
    queries, segment, lengths = torch.unique(indexes, return_inverse=True, return_counts=True)
    return queries, None, segment, lengths


def _apply_judgements(rankings: Rankings, batch: QueryBatch) -> Rankings:
    """Replace m of the judged queries by `num_relevant`; judged queries without items are appended."""
    queries, curve, before = rankings
    if batch.judged_queries is None or batch.judged_counts is None or not len(batch.judged_queries):
        return rankings
    known, counts = _distinct_judgements(batch.judged_queries, batch.judged_counts)
    place = torch.searchsorted(known, queries).clamp(max=len(known) - 1)
    judged = known[place] == queries
    missing = torch.ones_like(known, dtype=torch.bool)
    missing[place[judged]] = False
    added = known[missing]
    curve = replace(
        curve,
        offsets=torch.cat([curve.offsets, curve.offsets[-1:].expand(len(added))]),
        n=torch.cat([curve.n, torch.zeros_like(added)]),
        m=torch.cat([torch.where(judged, counts[place], curve.m), counts[missing]]),
    )
    judged = torch.cat([judged | before, torch.ones_like(added, dtype=torch.bool)])
    return Rankings(torch.cat([queries, added]), curve, judged)


def _distinct_judgements(queries: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return each judged query once, ascending, with its number of relevant items.

    Raises:
        ValueError: for a query with two different numbers.
    """
    known, place = torch.unique(queries, return_inverse=True)
    lowest, highest = (
        torch.zeros_like(known).scatter_reduce_(0, place, counts, how, include_self=False) for how in ("amin", "amax")
    )
    differ = lowest != highest
    if bool(differ.any()):
        first = int(differ.nonzero()[0])
        raise ValueError(
            f"`num_relevant` must be equal for all items of a query, got {int(lowest[first])} and "
            f"{int(highest[first])} for query {int(known[first])}"
        )
    return known, highest


def _check_seen(counts: Tensor, seen: Tensor, names: Tensor, *, kind: str = "query") -> None:
    """Raise ValueError if a ranking has fewer relevant items than were seen.

    Args:
        counts: (Q,) int64, the stated number of relevant items.
        seen: (Q,) int64, the number of relevant items seen.
        names: (Q,) int64 names of the rankings for the message.
        kind: "query" or "row" for the message; "" for a single ranking.
    """
    short = seen > counts
    if bool(short.any()):
        first = int(short.nonzero()[0])
        owner = f" for {kind} {int(names[first])}" if kind else ""
        raise ValueError(
            f"`num_relevant` must be at least the number of relevant ranked items, got {int(counts[first])}{owner}, "
            f"where there are {int(seen[first])}"
        )


def indexes_from_sizes(sizes: Tensor | Sequence[int] | np.ndarray[Any, Any], first: int = 0) -> Tensor:
    """Return the query of each item from the sizes of groups of consecutive items.

    Args:
        sizes: (G,) integers of at least 0, the number of items of each query, in the order of the items. A query of
            size 0 has no item; use ``num_relevant`` if it counts.
        first: the query of the first group; the next groups are the next integers. For several batches, pass the
            number of groups of all earlier batches.

    Returns:
        (N,) int64 for N items, on the device of ``sizes``: ``indexes`` of the metrics and functions over queries.

    Raises:
        TypeError, ValueError: for an invalid argument.

    The sizes are ``group`` of ``lightgbm.Dataset`` and of ``xgboost.DMatrix.set_group``.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_average_precision
        >>> from torch_ap.retrieval import indexes_from_sizes
        >>> indexes = indexes_from_sizes([2, 3])
        >>> indexes
        tensor([0, 0, 1, 1, 1])
        >>> preds, target = torch.tensor([0.2, 0.7, 0.9, 0.5, 0.3]), torch.tensor([1, 0, 1, 0, 0])
        >>> retrieval_average_precision(preds, target, indexes=indexes)
        tensor([0.5000, 1.0000])
    """
    if isinstance(sizes, np.ndarray):
        sizes = sizes.tolist()
    if not isinstance(sizes, Tensor | list | tuple):
        raise_invalid("sizes", "must be a tensor, an array or a list of integers", sizes, TypeError)
    first = checks.positive_int("first", first, least=0)
    device = sizes.device if isinstance(sizes, Tensor) else torch.device("cpu")
    groups = sizes.numel() if isinstance(sizes, Tensor) else len(sizes)
    counts = samples.validate_ids("sizes", sizes, torch.Size([groups]), device, "group")
    assert counts is not None
    if bool((counts < 0).any()):
        raise_invalid("sizes", "must contain integers of at least 0", int(counts.min()))
    return torch.arange(first, first + groups, device=device).repeat_interleave(counts)


_UNSTABLE_TEXTS = (" at 0x", "frozenset({")  # addresses and the order of sets differ among processes


class IndexEncoder:
    """Encoder of query names, text or other hashable values, as int64 for ``indexes``.

    The integer is the 64-bit BLAKE2b hash of a name's type and text. Every process and run computes the same
    integer, so that the items of a query may be in several batches and processes. Equal numbers, such as 1, 1.0 and
    True, are one name, also in tuples. An encoder stores its names for :meth:`decode`. Among a million names, two have
    the same integer with a probability of 1 in 37 million; an encoder that receives both raises an error.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import IndexEncoder, RetrievalMAP
        >>> encoder, metric = IndexEncoder(), RetrievalMAP()
        >>> indexes = encoder(["query 1", "query 1", "query 2"])
        >>> metric.update(torch.tensor([0.2, 0.7, 0.9]), torch.tensor([1, 0, 1]), indexes)
        >>> queries, values = metric.per_query()
        >>> sorted(zip(encoder.decode(queries), values.tolist()))
        [('query 1', 0.5), ('query 2', 1.0)]
    """

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._names: dict[int, Hashable] = {}

    def __call__(self, names: Iterable[Hashable]) -> Tensor:
        """Return the (N,) int64 codes of N names.

        Args:
            names: name of the query of each item: a list, an array, or a column of a table. Names are text, bytes,
                numbers, or other hashable values with a unique ``repr``, such as tuples, dates and UUIDs. Sets are
                invalid, because their order differs among processes.

        Raises:
            TypeError: for a single text, None, NaN, pandas' NA, sets, and values without a hash or a unique ``repr``.
            ValueError: for two names with the same integer.
        """
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise_invalid("names", "must be a list or column of names", Plain(type(names).__name__), TypeError)
        listed: list[Any] = names.tolist() if hasattr(names, "tolist") else list(names)
        try:
            new = [name for name in dict.fromkeys(listed) if name not in self._codes]
        except TypeError as error:
            raise TypeError(f"`names` must be hashable: {error}") from None
        coded = {name: _code(name) for name in new}
        known = dict(self._names)
        for name, code in coded.items():
            if (other := known.setdefault(code, name)) != name:
                raise ValueError(
                    f"`names` must have different hashes, got one hash for {short_repr(other)} and {short_repr(name)}"
                )
        self._names = known
        self._codes |= coded  # last: names without a code here are added anew after an interrupt
        return torch.from_numpy(np.fromiter(map(self._codes.__getitem__, listed), np.int64, len(listed)))

    def decode(self, indexes: Tensor) -> list[Any]:
        """Return the names of (N,) integers, such as the queries of ``per_query()``.

        Raises:
            ValueError: for another shape, and for an integer without a name in this encoder.
        """
        tensors.tensor("indexes", indexes)
        if indexes.ndim != 1:
            raise_invalid("indexes", "must have shape (N,)", Plain(tuple(indexes.shape)))
        codes = indexes.tolist()
        for code in codes:
            if code not in self._names:
                raise_invalid("indexes", "must be codes of names that this encoder has encoded", code)
        return [self._names[code] for code in codes]


def _code(name: Any) -> int:
    if name is None:
        _raise_for_name(name)
    plain = _plain(name)
    kind = type(plain).__name__
    text = f"{kind} {plain if isinstance(plain, str) else repr(plain)}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)


def _plain(name: Any) -> Any:
    """Return the value to hash: the name, in one form for equal names."""
    name = name.item() if isinstance(name, np.generic) else name
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, bytes):
        return bytes(name)
    if isinstance(name, tuple):
        return tuple(map(_plain, name))
    try:
        undefined = bool(name != name)
    except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor not
        undefined = True
    if undefined or isinstance(name, Set) or any(mark in repr(name) for mark in _UNSTABLE_TEXTS):
        _raise_for_name(name)
    return _number(name) if isinstance(name, numbers.Number) else name


def _number(name: Any) -> Any:
    """Return an equal int, else an equal float, else the number itself."""
    name = name.real if isinstance(name, complex) and not name.imag else name
    for kind in (int, float):
        with contextlib.suppress(OverflowError, TypeError):  # infinite, too great, or complex
            if (equal := kind(name)) == name:
                return equal
    return Fraction(name) if isinstance(name, Decimal) else name


def _raise_for_name(name: Any) -> NoReturn:
    raise_invalid("names", "must be names with a unique text that is equal in every process", name, TypeError)
