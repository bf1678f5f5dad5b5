"""What metrics over queries hold: a column of scores, of relevance, of the query of each item, and more."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.evaluation.queries import MeasureSettings
from torch_ap.inputs import samples
from torch_ap.inputs.queries import NOT_COUNTED, QueryBatch
from torch_ap.inputs.query_rankings import check_batch
from torch_ap.metrics.base import RankingMetric
from torch_ap.metrics.states import Form, listed
from torch_ap.ranking import segments
from torch_ap.rules import tensors
from torch_ap.runtime import memory

FLAT, ROWS, GRADES = "query_indexes", "row_lengths", "query_grades"
COLUMNS = ("query_scores", "query_relevance", FLAT, ROWS, "judged_queries", "judged_counts", samples.STATE)


class QueryColumns(RankingMetric):
    """Abstract: scores, relevance and the query of each item, or the length of each row."""

    peer_states = peer_arguments = ("preds", "target", "indexes")
    settings_of_update = "`ignore_index`, `relevance_level`"

    if TYPE_CHECKING:  # torch.jit would compile what it reads here
        _settings: MeasureSettings

    query_scores: list[Tensor]
    query_relevance: list[Tensor]
    query_indexes: list[Tensor]
    row_lengths: list[Tensor]
    judged_queries: list[Tensor]
    judged_counts: list[Tensor]
    query_grades: list[Tensor]

    @property
    def preds(self) -> list[Tensor]:
        """The scores of all items that count, flat tensors in the order they came."""
        return [x[kept] for x, kept in zip(listed(self.query_scores), self._counted, strict=True)]

    @property
    def target(self) -> list[Tensor]:
        """Whether each item of ``preds`` is relevant, int64 of 0 and 1; of nDCG its grade, float64, 0 for no gain."""
        relevant = [x[kept].long() for x, kept in zip(listed(self.query_relevance), self._counted, strict=True)]
        if GRADES not in self._lists:
            return relevant
        graded = (x[kept] for x, kept in zip(listed(self.query_grades), self._counted, strict=True))
        return [torch.where(y > 0, x, 0) for x, y in zip(graded, relevant, strict=True)]

    @property
    def indexes(self) -> list[Tensor]:
        """The query of each item of ``preds``: int64; the row, where rows were given."""
        given = listed(self.query_indexes)
        if len(self.row_lengths):
            lengths = memory.joined(listed(self.row_lengths))
            sizes = [len(x) for x in listed(self.query_scores)]
            given = list(
                torch.split(torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths), sizes)
            )
        return [x[kept] for x, kept in zip(given, self._counted, strict=True)]

    @property
    def _counted(self) -> list[Tensor]:
        return [x < NOT_COUNTED for x in listed(self.query_relevance)]

    def _batch_of(self, whole: Mapping[str, Tensor]) -> tuple[QueryBatch, Tensor | None]:
        """The list states that hold anything as one batch, and the ids of its samples."""
        lengths, indexes = whole.get(ROWS), whole.get(FLAT)
        scores, relevance = whole.get("query_scores"), whole.get("query_relevance")
        if scores is None or relevance is None:
            scores, relevance = (
                torch.empty(0, device=self.device),
                torch.empty(0, dtype=torch.uint8, device=self.device),
            )
        if lengths is indexes is None:
            indexes = torch.empty(0, dtype=torch.int64, device=self.device)
        judged = whole.get("judged_queries"), whole.get("judged_counts")
        batch = QueryBatch(scores, relevance, indexes, lengths, *judged, whole.get(GRADES))
        if GRADES in self._lists and batch.grades is None:
            batch = batch._replace(grades=segments.as_float64(batch.relevance))
        return batch, whole.get(samples.STATE)

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        flat = {FLAT, "judged_queries"}
        if (ROWS in here and flat & there) or (flat & here and ROWS in there):
            return "`indexes`"
        if "query_scores" in here & there and samples.STATE in here ^ there:
            return f"`{samples.STATE}`"
        rows = ROWS in here and ROWS in there
        return "`num_relevant` of rows" if rows and ("judged_counts" in here) != ("judged_counts" in there) else None

    def _forms(self) -> dict[str, Form]:
        whole = dict.fromkeys(self._list_states(), Form([torch.int64]))
        whole |= {GRADES: Form([torch.float64, torch.float32])} if GRADES in whole else {}
        return {**whole, "query_scores": Form(tensors.SCORES), "query_relevance": Form([torch.uint8])}

    def _check_held(self, state: dict[str, Any]) -> None:
        empty = torch.empty(0, dtype=torch.uint8, device=self.device)
        columns = [x if isinstance(x := state[name], Tensor) else None for name in self._list_states()]
        ids, rows = columns.pop(6), columns[3] if columns[3] is not None else columns[0]
        if GRADES in self._lists and columns[0] is not None and columns[-1] is None:
            raise ValueError(f"`{GRADES}` must be one per item, got none")
        if ids is not None and len(ids) != (0 if rows is None else len(rows)):
            raise ValueError(f"`{samples.STATE}` must be one per item or row, got {len(ids)}")
        batch = QueryBatch(*(empty if x is None else x for x in columns[:2]), *columns[2:])
        self._settings.inputs.look_at(batch)
        check_batch(batch)
