"""Judgements in any form, and what to know of them whatever the form."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from torch_ap.files.trec_tables import Qrels
from torch_ap.ranking.order import Array
from torch_ap.runs import nested
from torch_ap.runs.given import qrels_of
from torch_ap.runs.nested import NestedQrels


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judgements as they were given; nested dicts of text are made a table only where one is asked for.

    Attributes:
        given, columns: as :func:`torch_ap.runs.given.qrels_of` takes them.
        nested: the dicts, where measuring needs no more.
        path: what messages call them.
        queries: Q names, in the order in which they first occur.
    """

    given: Any
    columns: Mapping[str, str | None]
    nested: NestedQrels | None
    path: Path | str
    queries: list[Any]

    @cached_property
    def table(self) -> Qrels:
        """The same as columns."""
        return qrels_of(self.given, self.columns)

    @property
    def _columns(self) -> tuple[Array, Array]:
        """(J,) int64 number of the query, and grade."""
        if self.nested is not None:
            return self.nested.columns
        return self.table.query.numpy(), self.table.relevance.numpy()

    def without(self, level: int) -> set[Any]:
        """The queries that have no document of this grade or more."""
        query, grade = self._columns
        lacking = np.ones(len(self.queries), bool)
        lacking[query[grade >= level]] = False
        return {self.queries[place] for place in lacking.nonzero()[0].tolist()}

    def negative(self) -> tuple[int, int]:
        """How many grades are negative, and how many there are."""
        grade = self._columns[1]
        return int(np.count_nonzero(grade < 0)), len(grade)


def judgements_of(given: Any, columns: Mapping[str, str | None]) -> Judgements:
    """Judgements in any form, as :func:`torch_ap.runs.given.qrels_of` takes them."""
    if (found := nested.qrels_of(given)) is not None:
        return Judgements(given, columns, found, "`qrels`", list(given))
    table = qrels_of(given, columns)
    return Judgements(table, columns, None, table.path, table.queries)
