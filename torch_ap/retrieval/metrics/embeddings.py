"""Metric of the mean average precision of embeddings: its state, and its queries as a sample."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import Action, Denominator, PointsInterpolation, Similarity, Ties, TopK
from torch_ap.core.measures.chance import chance_of_curve
from torch_ap.core.measures.convention import Convention, query_convention
from torch_ap.core.metric import exchange, samples, state
from torch_ap.core.metric.base import RankingMetric
from torch_ap.core.metric.exchange import Ranks
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.metric.state import AnySize, Form, Held, listed, setting
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import metric
from torch_ap.inference.resampling import Resampling
from torch_ap.retrieval import embedding_inputs as inputs
from torch_ap.retrieval import embeddings as exchanged
from torch_ap.retrieval.embedding_inputs import Relevance
from torch_ap.retrieval.embeddings import (
    EmbeddingBatch,
    EmbeddingMeasures,
    EmbeddingRetrieval,
    EmbeddingSettings,
    OneMeasure,
    Side,
    embedding_retrieval,
)
from torch_ap.retrieval.metrics import query_sample
from torch_ap.retrieval.metrics.analyses import QueryAnalyses
from torch_ap.retrieval.metrics.query_sample import QuerySample
from torch_ap.retrieval.rankings import Rankings
from torch_ap.retrieval.settings import MeasureSettings

_ARGUMENTS = {"query_flags": "is_query", "groups": "groups", samples.STATE: samples.STATE}
COLUMNS = ("embeddings", "labels", *_ARGUMENTS)
_SHAPES = {
    "embeddings": ("preds", "must have the same number of dimensions, (N, d), in every update"),
    "labels": ("target", "must have the same shape behind (N,) in every update"),
}
LABELS = AnySize((), ("L",), ("L", "M"))  # with a function `relevance`


class EmbeddingColumns(RankingMetric):
    """Abstract base: embeddings and their labels; optionally query flags, groups and sample ids."""

    _value_rules = inputs.VALUE_RULES
    _settings_of_update = "`similarity`, `ignore_index`, whether there is a `relevance`"

    if TYPE_CHECKING:  # torch.jit compiles annotations
        _settings: EmbeddingSettings
        _ignore_index: int | None

    embeddings: list[Tensor]
    labels: list[Tensor]
    query_flags: list[Tensor]
    groups: list[Tensor]
    sample_ids: list[Tensor]

    def _count_flags(self, columns: Mapping[str, Tensor], first_copies: Callable[..., Tensor | None]) -> Tensor | None:
        """Return whether each embedding counts, (N,) bool; None if all count."""
        labels, flags, ids = columns.get("labels"), columns.get("query_flags"), columns.get(samples.STATE)
        if labels is None:
            return None
        counted = None
        if ids is not None:
            facts = labels.flatten(1) if labels.ndim > 1 else labels[:, None]
            counted = first_copies(ids, facts if flags is None else torch.cat([facts, flags[:, None]], 1))
        if self._ignore_index is not None:
            labeled = labels != self._ignore_index
            counted = labeled if counted is None else counted & labeled
        return counted

    def _batch_of(self, columns: Mapping[str, Tensor], counted: Tensor | None) -> EmbeddingBatch:
        """Return the embeddings that count as queries and gallery."""
        vectors, labels = columns.get("embeddings"), columns.get("labels")
        if vectors is None or labels is None:
            vectors, labels = torch.empty(0, 1, device=self.device), torch.empty(0, device=self.device).long()
        flags, groups = columns.get("query_flags"), columns.get("groups")
        if counted is None:
            counted = torch.ones(len(labels), dtype=torch.bool, device=self.device)
        if flags is None:
            side = _rows(counted, vectors, labels, groups)
            return EmbeddingBatch(side, side, torch.arange(len(side.labels), device=self.device))
        queries, gallery = (_rows(counted & (flags == flag), vectors, labels, groups) for flag in (1, 0))
        return EmbeddingBatch(queries, gallery, None)

    def _check_fit(self, columns: Held, more: Held, where: str = "in every update or in none") -> None:
        for name, (argument, rule) in _SHAPES.items():
            shapes = {tuple(x.shape[1:]) for side in (columns, more) for x in side.get(name, ())}
            if len(shapes) > 1:
                texts = (str(x[0]) if name == "embeddings" else str(x) for x in sorted(shapes))
                raise_invalid(argument, rule, Plain(" and ".join(texts)))
        dtypes = {x.dtype for side in (columns, more) for x in side.get("labels", ())}
        if len(dtypes) > 1:
            raise_invalid(
                "target", "must have the same dtype in every update", Plain(" and ".join(sorted(map(str, dtypes))))
            )
        super()._check_fit(columns, more, where)

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        return next((f"`{_ARGUMENTS[name]}`" for name in sorted(here ^ there)), None)

    def _forms(self) -> dict[str, Form]:
        floats = [dtype for dtype in tensors.SCORES if dtype.is_floating_point]
        forms = dict.fromkeys(self._lists, Form([torch.int64]))
        forms |= {"embeddings": Form(floats, AnySize(("d",))), "query_flags": Form([torch.uint8])}
        return forms | ({} if self._settings.relevance is None else {"labels": Form(inputs.LABELS, LABELS)})

    def _check_held(self, state: dict[str, Any]) -> None:
        columns = {name: x for name in self._lists if isinstance(x := state[name], Tensor)}
        if len({len(x) for x in columns.values()}) > 1 or ("embeddings" in columns) != ("labels" in columns):
            raise ValueError(
                f"states must have a row for each embedding, got { ({x: len(y) for x, y in columns.items()}) }"
            )
        if (flags := columns.get("query_flags")) is not None:
            tensors.Rule("query_flags", "must contain 0 and 1 only", low=0, high=1).check(flags)
        if (vectors := columns.get("embeddings")) is not None:
            tensors.raise_first(self._value_rules, inputs.broken_rules(vectors, self._settings.similarity))


def _rows(counted: Tensor, vectors: Tensor, labels: Tensor, groups: Tensor | None) -> Side:
    return Side(vectors[counted], labels[counted], None if groups is None else groups[counted])


@dataclass(frozen=True, eq=False)
class EmbeddingSample(QuerySample):
    """Queries with values and sizes of rankings.

    Attributes:
        convention: convention of the values.
    """

    convention: Convention

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return self.convention.has_chance_level

    def chance_level(self, resampling: Resampling) -> Tensor:  # noqa: ARG002 - nothing is drawn
        """Return the mean over queries of the expected AP for items in random order, without ties."""
        values = chance_of_curve(self.rankings.curve, replace(self.convention, ties="expected"))
        return self.settings.value(self._per_query(values), self.dtype, warn=False)


class EmbeddingMAP(EmbeddingColumns):
    """Mean average precision of queries that search a gallery by their embeddings.

    Equals ``map`` of :func:`torch_ap.functional.embedding_average_precision`, and ``map_at_r`` with
    ``top_k="relevant"`` and ``denominator="relevant"``. The state contains embeddings and labels. With
    ``sync="exchange"`` each process keeps its gallery, and queries are exchanged.

    Args:
        similarity: "cosine", "dot" or "euclidean".
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, or None for all ranks.
        denominator, interpolation, ties: settings of average precision; see :class:`torch_ap.RetrievalMAP`.
        convention: these settings and ``top_k`` as one :class:`torch_ap.Convention`, instead of them.
        relevance: a function of labels, as for the function above; labels may then have any form, such as (N, L) of 0
            and 1. It must be a function of a module, not a lambda, if the metric is pickled.
        empty_target_action: value of a query without relevant items: "skip" left out, "neg" 0, "pos" 1, "nan",
            "error".
        ignore_index: label of embeddings to ignore.
        product_dtype: dtype of the similarities, as for the function.
        max_memory: approximate number of bytes that ``compute`` uses in addition to the state. No result depends on it.
        **kwargs: ``sync``, "gather" or "exchange", and the keywords of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown option, or contradicting options.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import EmbeddingMAP
        >>> metric = EmbeddingMAP(similarity="euclidean")
        >>> metric.update(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 0]))
        >>> metric.update(torch.tensor([[0.0, 3.0], [1.0, 1.0]]), torch.tensor([1, 1]))
        >>> metric.compute()
        tensor(0.7708)
    """

    _summary_name = "map"
    _can_exchange = True
    confidence_interval = query_sample.confidence_interval
    compare = query_sample.compare
    chance_level = metric.chance_level
    per_query = QueryAnalyses.per_query
    summary = metric.summary

    def __init__(
        self,
        similarity: Similarity = "cosine",
        top_k: TopK = None,
        *,
        denominator: Denominator = "min",
        interpolation: PointsInterpolation = None,
        ties: Ties | None = None,
        convention: Convention | None = None,
        relevance: Relevance | None = None,
        empty_target_action: Action = "skip",
        ignore_index: int | None = None,
        product_dtype: torch.dtype | None = None,
        max_memory: int = 1 << 28,
        **kwargs: Any,
    ) -> None:
        measure = query_convention(convention, top_k, denominator, interpolation, ties)
        settings = EmbeddingSettings(
            OneMeasure(measure), similarity, empty_target_action, relevance, product_dtype, max_memory
        )
        checks.integer("ignore_index", ignore_index)
        if relevance is not None and ignore_index is not None:
            raise_invalid(
                "ignore_index", "must be None with `relevance`, which defines the pairs that do not count", ignore_index
            )
        labels = ignore_index if relevance is None else "relevance"
        super().__init__(f"embeddings|{similarity == 'cosine'}|{labels}", **kwargs)
        self._settings, self._ignore_index = settings, ignore_index
        self._add_states(*COLUMNS)

    similarity = setting("_settings.similarity", "Similarity that ranks items.")
    convention = setting("_settings.measures.convention", "The computed average precision.")
    relevance = setting("_settings.relevance", "Function of labels that defines relevance, or None.")
    top_k = setting("_settings.measures.convention.top_k", 'K, "relevant", or None for all ranks.')
    empty_target_action = setting("_settings.empty_target_action", "Value of a query without relevant items.")
    ignore_index = setting("_ignore_index", "Label of embeddings to ignore.")

    def update(
        self,
        preds: Tensor,
        target: Tensor,
        is_query: Tensor | bool | None = None,
        *,
        groups: Tensor | None = None,
        sample_ids: SampleIds = None,
    ) -> None:
        """Add a batch of embeddings.

        Args:
            preds: (N, d) floating, finite; the same d in every update.
            target: (N,) integers, the labels; with ``relevance`` (N,), (N, L) or (N, L, M) of one dtype.
            is_query: True for queries, False for items of the gallery: a bool for all, or (N,) bool. In every update or
                in none. Without it all embeddings are both, and a query is not among its own results.
            groups: (N,) integers, in every update or in none: items with the label and group of the query do not count.
                None with ``relevance``.
            sample_ids: (N,) integers, a tensor or a list, in every update or in none. An id counts once over all
                updates and processes, so that a sampler may pad. Queries and gallery must have different ids.

        Raises:
            TypeError, ValueError: for invalid input; the state is unchanged. On an accelerator, invalid values raise in
                ``compute``.
        """
        preds = inputs.embeddings("preds", preds)
        custom = self.relevance is not None
        labels = inputs.label_codes("target", target, "preds", len(preds), any_form=custom).clone()
        if custom and groups is not None:
            raise_invalid("groups", "must be None with `relevance`, which defines the pairs that do not count", groups)
        flags = None if is_query is None else _query_flags(is_query, preds)
        groups = None if groups is None else inputs.label_codes("groups", groups, "preds", len(preds)).clone()
        tensors.same_device(preds=preds, target=labels, is_query=flags, groups=groups)
        self._check_device(preds, "preds")
        broken = None
        if preds.is_cpu:
            inputs.raise_invalid_row("preds", preds, self._settings.similarity)
        else:
            broken = inputs.broken_rules(preds, self._settings.similarity)
        ids = samples.validate_ids(samples.STATE, sample_ids, preds.shape[:1], preds.device, "embedding")
        for name, column in (("embeddings", preds), ("labels", labels)):
            batches = self._accumulated()[name]
            if batches and batches[-1].shape[1:] != column.shape[1:]:
                self._check_fit({name: batches}, {name: [column]})
        self._hold([arrays.copy(preds), labels, flags, groups, ids], broken)

    def compute(self) -> Tensor:
        """Return the mean over the queries that count.

        Returns:
            0-d, in [0, 1]; float32, or float64 for float64 embeddings and after ``set_dtype(torch.float64)``. NaN, with
            a warning, if no query counts.

        Raises:
            ValueError: for a query without relevant items, if the setting is "error"; on an accelerator, for the first
                update that broke a rule about values.
        """
        sample = self._sample()
        return sample.settings.value(sample.settings.per_query(sample.rankings), sample.dtype, warn=self.update_called)

    @renamed_keywords(k="top_k")
    def evaluate(self, top_k: Sequence[int] = (1, 5, 10)) -> EmbeddingRetrieval:
        """Return all measures of the queries so far, of all processes, from one pass.

        Args:
            top_k: different ints of at least 1, the ranks of AP@k, precision, recall and CMC.

        Returns:
            :class:`torch_ap.functional.EmbeddingRetrieval`; its ``map`` uses the whole ranking.

        Raises:
            ValueError: see ``compute()``.
        """
        convention = self.convention
        measures = EmbeddingMeasures.from_arguments(
            top_k, convention.denominator, convention.interpolation, convention.ties
        )
        with self._all_ranks():
            values, itself = self._values(replace(self._settings, measures=measures))
        return embedding_retrieval(self._settings, measures.k, values, without_itself=itself)

    def _shown_settings(self) -> dict[str, Any]:
        values = {**vars(self._settings), **vars(self.convention), "ignore_index": self.ignore_index}
        usual = state.defaults_of(type(self))
        usual["ties"] = query_convention(None, None, "min", self.convention.interpolation, None).ties
        return state.shown_settings(usual, lambda name: values[name])

    # -- from the state to values

    def _sample(self, groups: Mapping[int, Hashable] | None = None) -> "EmbeddingSample":
        values = self._values(self._settings)[0]
        counts, none = values["relevant"], values["relevant"][:0]
        offsets = torch.zeros(len(counts) + 1, dtype=torch.int64, device=counts.device)
        curve = HitCurve(none, none, none, none, None, offsets, values["items"], counts)
        rankings = Rankings(torch.arange(len(counts), device=counts.device), curve, torch.ones_like(counts).bool())
        settings = MeasureSettings(lambda _: values["value"], empty_target_action=self.empty_target_action)
        sample = self._dtype_of_values(), settings, rankings, lambda: curve, self.convention
        return EmbeddingSample(*sample, groups=groups)

    def _values(self, settings: EmbeddingSettings) -> tuple[dict[str, Tensor], bool]:
        """Return the measures of each query, and whether queries are their own gallery."""
        self._raise_first_violation()
        if self._exchanged is not None:
            ranks, batch = self._exchanged
            return exchanged.query_measures(ranks, settings, batch), batch.own is not None
        columns = {name: arrays.concatenate(x) for name in self._lists if (x := listed(getattr(self, name)))}
        batch = self._batch_of(columns, self._count_flags(columns, samples.first_copies))
        return settings.query_values(batch), batch.own is not None

    def _dtype_of_values(self) -> torch.dtype:
        if self._exchanged is not None:  # also for a process without queries
            return self._dtype_of_result(self._exchanged[1].queries.vectors.dtype)
        dtypes = {x.dtype for x in listed(self.embeddings) if len(x)} or {torch.float32}
        return self._dtype_of_result(arrays.common_dtype("preds", dtypes))

    # -- many ranks

    def _exchange(self, ranks: Ranks, columns: Mapping[str, Tensor]) -> tuple[Ranks, EmbeddingBatch]:
        counted = self._count_flags(columns, lambda ids, facts: exchange.flag_first_copies(ranks, ids, facts))
        return ranks, ranks.attempt(self._batch_of, columns, counted)

    def _settings_of_value(self) -> Mapping[str, Any]:
        names = ("similarity", "relevance", "empty_target_action", "ignore_index")
        own = {name: getattr(self, name) for name in names}
        return {**vars(self.convention), **own, "product_dtype": self._settings.product_dtype}


def _query_flags(is_query: Any, preds: Tensor) -> Tensor:
    """Return flags of 0 and 1: (N,) uint8."""
    if isinstance(is_query, bool):
        return torch.full((len(preds),), is_query, dtype=torch.uint8, device=preds.device)
    tensors.tensor("is_query", is_query, hint=", a bool or None")
    if is_query.dtype != torch.bool or is_query.shape != preds.shape[:1]:
        value = Plain(f"{is_query.dtype}, {tuple(is_query.shape)}")
        raise_invalid("is_query", f"must be bool, of shape ({len(preds)},)", value)
    flags: Tensor = is_query.to(torch.uint8)
    return flags
