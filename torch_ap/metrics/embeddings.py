"""Mean average precision of embeddings as a metric: the function of embeddings, updated batch by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention, query_convention
from torch_ap.evaluation.embeddings import EmbeddingBatch, EmbeddingMeasures, EmbeddingSettings, OneMeasure
from torch_ap.evaluation.queries import MeasureSettings
from torch_ap.exchange import copies
from torch_ap.exchange import embeddings as exchanged
from torch_ap.exchange.ranks import Ranks
from torch_ap.functional.embeddings import EmbeddingRetrieval, retrieval_of
from torch_ap.inputs import embeddings as inputs
from torch_ap.inputs import samples
from torch_ap.inputs.query_rankings import Rankings
from torch_ap.inputs.relevance import Relevance
from torch_ap.inputs.samples import SampleIds
from torch_ap.metrics import representation
from torch_ap.metrics.embedding_columns import COLUMNS, EmbeddingColumns
from torch_ap.metrics.embedding_sample import EmbeddingSample, Known
from torch_ap.metrics.query_sample import UncertainQueries
from torch_ap.metrics.representation import setting
from torch_ap.metrics.states import listed
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks, tensors
from torch_ap.rules.messages import Plain, refuse
from torch_ap.rules.options import Action, Denominator, PointsInterpolation, Similarity, Ties, TopK
from torch_ap.runtime import memory


class EmbeddingMAP(EmbeddingColumns, UncertainQueries):
    """Mean average precision of queries that search a gallery by their embeddings.

    See :func:`torch_ap.functional.embedding_average_precision`, whose ``map`` it is; with ``top_k="relevant"`` and
    ``denominator="relevant"`` its ``map_at_r``. The state is embeddings and labels. With ``sync="exchange"`` the
    gallery of each rank stays where it is, and queries travel.

    Args:
        similarity: "cosine", "dot" or "euclidean".
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, or None for all ranks.
        denominator, interpolation, ties: of average precision, as for :class:`torch_ap.RetrievalMAP`.
        convention: these and ``top_k`` as one :class:`torch_ap.Convention`, instead of them.
        relevance: a function of labels, as for the function; labels may then have any form, such as (N, L) of 0 and 1.
            Where the metric is pickled it must be a function of a module, no lambda.
        empty_target_action: what a query without relevant items counts as: "skip" left out, "neg" 0, "pos" 1, "nan",
            "error".
        ignore_index: label of embeddings that do not count.
        product_dtype: in which similarities are computed, as for the function.
        max_memory: bytes, about as many as ``compute`` uses beside the state; ignored by every result.
        kwargs: ``sync``, "gather" or "exchange", and those of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown option, or options that contradict one another.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import EmbeddingMAP
        >>> metric = EmbeddingMAP(similarity="euclidean")
        >>> metric.update(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 0]))
        >>> metric.update(torch.tensor([[0.0, 3.0], [1.0, 1.0]]), torch.tensor([1, 1]))
        >>> metric.compute()
        tensor(0.7708)
    """

    summary_name = "map"

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
            refuse("ignore_index", "must be None with `relevance`, which says what does not count", ignore_index)
        labels = ignore_index if relevance is None else "relevance"
        super().__init__(f"embeddings|{similarity == 'cosine'}|{labels}", **kwargs)
        self._settings, self._ignore_index = settings, ignore_index
        self._add_states(*COLUMNS)

    similarity = setting("_settings.similarity", "By which items are ranked.")
    convention = setting("_settings.measures.convention", "Which average precision is computed.")
    relevance = setting("_settings.relevance", "The function of labels that says what is relevant, or None.")
    top_k = setting("_settings.measures.convention.top_k", 'K, "relevant", or None for all ranks.')
    empty_target_action = setting("_settings.empty_target_action", "What a query without relevant items counts as.")
    ignore_index = setting("_ignore_index", "Label of embeddings that do not count.")

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
            target: (N,) integers, the label of each; with ``relevance`` (N,), (N, L) or (N, L, M) of one dtype.
            is_query: whether these are queries, or else items of the gallery: a bool for all, or (N,) bool. In every
                update or in none; without it all are both, and no query finds itself.
            groups: (N,) integers, in every update or in none: items of the query's label and group do not count.
                None with ``relevance``.
            sample_ids: (N,) integers, a tensor or a list, in every update or in none. An id counts once, over all
                updates and ranks, so that a sampler may pad; queries and items of the gallery must have different ids.

        Raises:
            TypeError, ValueError: for input that breaks a rule; the state is then as it was. What can be seen only in
                the values is raised by ``compute`` when the tensors lie on an accelerator.
        """
        preds = inputs.embeddings("preds", preds)
        custom = self.relevance is not None
        labels = inputs.labels("target", target, "preds", len(preds), any_form=custom).clone()
        if custom and groups is not None:
            refuse("groups", "must be None with `relevance`, which says what does not count", groups)
        flags = None if is_query is None else _flags(is_query, preds)
        groups = None if groups is None else inputs.labels("groups", groups, "preds", len(preds)).clone()
        tensors.same_device(preds=preds, target=labels, is_query=flags, groups=groups)
        self._check_device(preds, "preds")
        broken = None
        if preds.is_cpu:
            inputs.refuse_rows("preds", preds, self._settings.similarity)
        else:
            broken = inputs.look_at(preds, self._settings.similarity)
        ids = samples.checked(sample_ids, preds.shape[:1], preds.device, "embedding")
        for name, column in (("embeddings", preds), ("labels", labels)):
            held = self._accumulated()[name]
            if held and held[-1].shape[1:] != column.shape[1:]:
                self._check_fit({name: held}, {name: [column]})
        self._hold([memory.copied(preds), labels, flags, groups, ids])
        self._note(broken)

    def compute(self) -> Tensor:
        """The mean over the queries that have a part in it.

        Returns:
            0-d, in [0, 1]; float32, or float64 for float64 embeddings and after ``set_dtype(torch.float64)``. NaN, with
            a warning, where no query has a part.

        Raises:
            ValueError: where a query has no relevant item and that is an error, and on an accelerator for the first
                update that broke a rule about values.
        """
        sample = self._sample()
        return sample.settings.value(sample.settings.each(sample.rankings), sample.dtype, warn=self.update_called)

    def per_query(self) -> tuple[Tensor, Tensor]:
        """The queries that have a part in the mean, and the value of each; of all ranks.

        Returns:
            (Q,) int64, the places of the queries among all of them, those of the first rank first; and (Q,) values in
            [0, 1], in the dtype of ``compute()``.

        Raises:
            ValueError: as ``compute()``.
        """
        with self._all_ranks():
            sample = self._sample()
        queries, each = sample.values()
        return queries, each.to(sample.dtype)

    def evaluate(self, k: Sequence[int] = (1, 5, 10)) -> EmbeddingRetrieval:
        """All measures of the queries so far, of all ranks, from one pass.

        Args:
            k: different ints of at least 1, the ranks of AP@k, precision, recall and CMC.

        Returns:
            :class:`torch_ap.functional.EmbeddingRetrieval`; its ``map`` is of the whole ranking.

        Raises:
            ValueError: as ``compute()``.
        """
        convention = self.convention
        measures = EmbeddingMeasures.of(k, convention.denominator, convention.interpolation, convention.ties)
        with self._all_ranks():
            values, itself = self._values(replace(self._settings, measures=measures))
        return retrieval_of(self._settings, measures.k, values, without_itself=itself)

    def _settings_text(self) -> str:
        given = {**vars(self._settings), **vars(self.convention), "ignore_index": self.ignore_index}
        usual = representation.defaults_of(type(self))
        usual["ties"] = query_convention(None, None, "min", self.convention.interpolation, None).ties
        return representation.settings_text(usual, lambda name: given[name])

    # -- from the state to values

    def _sample(self) -> "EmbeddingSample":  # type: ignore[override]
        values = self._values(self._settings)[0]
        counts, none = values["relevant"], values["relevant"][:0]
        offsets = torch.zeros(len(counts) + 1, dtype=torch.int64, device=counts.device)
        curve = HitCurve(none, none, none, none, None, offsets, values["items"], counts)
        rankings = Rankings(torch.arange(len(counts), device=counts.device), curve, torch.ones_like(counts).bool())
        settings = MeasureSettings(Known(values["value"]), empty_target_action=self.empty_target_action)
        return EmbeddingSample(self._dtype_of_values(), settings, rankings, lambda: curve, self.convention)

    def _values(self, settings: EmbeddingSettings) -> tuple[dict[str, Tensor], bool]:
        """The measures of each query, and whether they search one another."""
        self._raise_noted()
        if self._exchanged is not None:
            ranks, batch = self._exchanged
            return exchanged.each_of_all(ranks, settings, batch), batch.own is not None
        whole = {name: memory.joined(x) for name in self._lists if (x := listed(getattr(self, name)))}
        batch = self._batch_of(whole, self._counted(whole, samples.first_copies))
        return settings.each(batch), batch.own is not None

    def _dtype_of_values(self) -> torch.dtype:
        if self._exchanged is not None:  # of all ranks, also where this one has no query
            return self._dtype_of_result(self._exchanged[1].queries.vectors.dtype)
        dtypes = {x.dtype for x in listed(self.embeddings) if len(x)} or {torch.float32}
        return self._dtype_of_result(tensors.common_dtype("preds", dtypes))

    # -- many ranks

    @property
    def _can_exchange(self) -> bool:
        return True

    def _exchange(self, ranks: Ranks, held: Mapping[str, Tensor]) -> tuple[Ranks, EmbeddingBatch]:
        kept = self._counted(held, lambda ids, facts: copies.first_copies(ranks, ids, facts))
        return ranks, ranks.attempt(self._batch_of, held, kept)

    def _settings_of_value(self) -> Mapping[str, Any]:
        names = ("similarity", "relevance", "empty_target_action", "ignore_index")
        own = {name: getattr(self, name) for name in names}
        return {**vars(self.convention), **own, "product_dtype": self._settings.product_dtype}


def _flags(is_query: Any, preds: Tensor) -> Tensor:
    """(N,) uint8 of 0 and 1."""
    if isinstance(is_query, bool):
        return torch.full((len(preds),), is_query, dtype=torch.uint8, device=preds.device)
    tensors.tensor("is_query", is_query, hint=", a bool or None")
    if is_query.dtype != torch.bool or is_query.shape != preds.shape[:1]:
        given = Plain(f"{is_query.dtype}, {tuple(is_query.shape)}")
        refuse("is_query", f"must be bool, of shape ({len(preds)},)", given)
    flags: Tensor = is_query.to(torch.uint8)
    return flags
