"""What metrics of embeddings hold: a row of each embedding, its label, and more."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.evaluation.embeddings import EmbeddingBatch, EmbeddingSettings, Side
from torch_ap.inputs import embeddings as inputs
from torch_ap.inputs import samples
from torch_ap.metrics.base import RankingMetric
from torch_ap.metrics.states import AnySize, Form, Held
from torch_ap.rules import tensors, values
from torch_ap.rules.messages import Plain, refuse

_ARGUMENTS = {"query_flags": "is_query", "groups": "groups", samples.STATE: samples.STATE}
COLUMNS = ("embeddings", "labels", *_ARGUMENTS)
_SHAPES = {
    "embeddings": ("preds", "must have the same number of dimensions, (N, d), in every update"),
    "labels": ("target", "must have the same shape behind (N,) in every update"),
}
LABELS = AnySize((), ("L",), ("L", "M"))  # of a function of relevance


class EmbeddingColumns(RankingMetric):
    """Abstract: embeddings and their labels; which are queries, groups and ids of samples where they are given."""

    value_rules = inputs.VALUE_RULES
    settings_of_update = "`similarity`, `ignore_index`, whether there is a `relevance`"

    if TYPE_CHECKING:  # torch.jit would compile what it reads here
        _settings: EmbeddingSettings
        _ignore_index: int | None

    embeddings: list[Tensor]
    labels: list[Tensor]
    query_flags: list[Tensor]
    groups: list[Tensor]
    sample_ids: list[Tensor]

    def _counted(self, held: Mapping[str, Tensor], first_copies: Callable[..., Tensor | None]) -> Tensor | None:
        """Which embeddings count: (N,) bool of the list states that hold anything, None for all of them."""
        labels, flags, ids = held.get("labels"), held.get("query_flags"), held.get(samples.STATE)
        if labels is None:
            return None
        kept = None
        if ids is not None:
            facts = labels.flatten(1) if labels.ndim > 1 else labels[:, None]
            kept = first_copies(ids, facts if flags is None else torch.cat([facts, flags[:, None]], 1))
        if self._ignore_index is not None:
            counted = labels != self._ignore_index
            kept = counted if kept is None else kept & counted
        return kept

    def _batch_of(self, held: Mapping[str, Tensor], kept: Tensor | None) -> EmbeddingBatch:
        """Those that count as queries and gallery."""
        vectors, labels = held.get("embeddings"), held.get("labels")
        if vectors is None or labels is None:
            vectors, labels = torch.empty(0, 1, device=self.device), torch.empty(0, device=self.device).long()
        flags, groups = held.get("query_flags"), held.get("groups")
        if kept is None:
            kept = torch.ones(len(labels), dtype=torch.bool, device=self.device)
        if flags is None:
            side = _rows(kept, vectors, labels, groups)
            return EmbeddingBatch(side, side, torch.arange(len(side.labels), device=self.device))
        queries, gallery = (_rows(kept & (flags == flag), vectors, labels, groups) for flag in (1, 0))
        return EmbeddingBatch(queries, gallery, None)

    def _check_fit(self, held: Held, more: Held, where: str = "in every update or in none") -> None:
        for name, (argument, rule) in _SHAPES.items():
            shapes = {tuple(x.shape[1:]) for side in (held, more) for x in side.get(name, ())}
            if len(shapes) > 1:
                told = (str(x[0]) if name == "embeddings" else str(x) for x in sorted(shapes))
                refuse(argument, rule, Plain(" and ".join(told)))
        dtypes = {x.dtype for side in (held, more) for x in side.get("labels", ())}
        if len(dtypes) > 1:
            refuse("target", "must have the same dtype in every update", Plain(" and ".join(sorted(map(str, dtypes)))))
        super()._check_fit(held, more, where)

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        return next((f"`{_ARGUMENTS[name]}`" for name in sorted(here ^ there)), None)

    def _forms(self) -> dict[str, Form]:
        floats = [dtype for dtype in tensors.SCORES if dtype.is_floating_point]
        found = dict.fromkeys(self._lists, Form([torch.int64]))
        found |= {"embeddings": Form(floats, AnySize(("d",))), "query_flags": Form([torch.uint8])}
        return found | ({} if self._settings.relevance is None else {"labels": Form(inputs.LABELS, LABELS)})

    def _check_held(self, state: dict[str, Any]) -> None:
        held = {name: x for name in self._lists if isinstance(x := state[name], Tensor)}
        if len({len(x) for x in held.values()}) > 1 or ("embeddings" in held) != ("labels" in held):
            raise ValueError(
                f"states must have a row for each embedding, got { ({x: len(y) for x, y in held.items()}) }"
            )
        if (flags := held.get("query_flags")) is not None:
            values.Rule("query_flags", "must hold 0 and 1", low=0, high=1).refuse_first(flags)
        if (vectors := held.get("embeddings")) is not None:
            values.raise_first(self.value_rules, inputs.look_at(vectors, self._settings.similarity))


def _rows(kept: Tensor, vectors: Tensor, labels: Tensor, groups: Tensor | None) -> Side:
    return Side(vectors[kept], labels[kept], None if groups is None else groups[kept])
