"""Judgements in any form, and what to know of them whatever the form."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from torch_ap.files.trec_tables import Qrels
from torch_ap.runs import nested
from torch_ap.runs.given import qrels_of
from torch_ap.runs.nested import Nested


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
    nested: Nested | None
    path: Path | str
    queries: list[Any]

    @cached_property
    def table(self) -> Qrels:
        """The same as columns."""
        return qrels_of(self.given, self.columns)

    def without(self, level: int) -> set[Any]:
        """The queries that have no document of this grade or more."""
        if self.nested is not None:
            return {query for query, judged in self.nested.items() if max(judged.values(), default=-1) < level}
        lacking = torch.ones(len(self.queries), dtype=torch.bool)
        lacking[self.table.query[self.table.relevance >= level]] = False
        return {self.queries[place] for place in lacking.nonzero().squeeze(1).tolist()}

    def negative(self) -> tuple[int, int]:
        """How many grades are negative, and how many there are."""
        if self.nested is None:
            return int((self.table.relevance < 0).sum()), len(self.table.relevance)
        grades = list(chain.from_iterable([judged.values() for judged in self.nested.values()]))
        return sum(grade < 0 for grade in grades) if min(grades) < 0 else 0, len(grades)


def judgements_of(given: Any, columns: Mapping[str, str | None]) -> Judgements:
    """Judgements in any form, as :func:`torch_ap.runs.given.qrels_of` takes them."""
    if nested.are_qrels(given):
        return Judgements(given, columns, given, "`qrels`", list(given))
    table = qrels_of(given, columns)
    return Judgements(table, columns, None, table.path, table.queries)
