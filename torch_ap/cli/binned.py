"""The rows of a table as counts in bins: one ranking, or one per group, class or label; of one system or two."""

import argparse
import hashlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli.notes import in_words
from torch_ap.cli.progress import Bar
from torch_ap.evaluation.average_precision import warn_of_logits
from torch_ap.files.table_columns import Columns, Table
from torch_ap.inputs.classification import ClassificationInputs
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.score_bins import ScoreBins


@dataclass
class System:
    """The scores of one system, as far as they have been read.

    Attributes:
        bins: the counts; None before the first rows.
        rows: how many.
        digest: of targets and weights in their order, by which the rows of two files are compared.
    """

    bins: ScoreBins | None = None
    rows: int = 0
    digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    def curve(self, rankings: int) -> tuple[HitCurve, Tensor]:
        """The rankings of bins, and (E,) which entries are of different scores."""
        assert self.bins is not None  # a table without rows is refused
        return self.bins.curve(rankings), self.bins.mixed()


class Rows:
    """From batches of rows to rankings.

    Args:
        args: of the command.

    Attributes:
        classes: how many rankings each row is in; 0 where it is in one.
        labels: whether those have a target each.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._inputs: ClassificationInputs | None = None
        self.classes, self.labels = 0, False

    def read(self, table: Table) -> tuple[System, System | None]:
        """The system of a file, and the baseline that is a column of it."""
        mine, theirs = System(), None if table.baseline is None else System()
        with Bar(str(table.path)) as bar:
            for batch in table.batches(bar):
                self._add(mine, batch, batch.preds)
                if theirs is not None and batch.baseline is not None:
                    self._add(theirs, batch, batch.baseline)
        return mine, theirs

    def _add(self, system: System, batch: Columns, preds: Tensor) -> None:
        system.rows += len(preds)
        for column in (batch.target, batch.weights):
            if column is not None:
                system.digest.update(column.contiguous().numpy())
        if batch.group is not None:
            level = 1 if self._args.relevance_level is None else self._args.relevance_level
            self._count(system, preds, batch.target >= level, None, batch.group)
        elif preds.ndim == 1:
            self._count(system, preds, batch.target, batch.weights, None)
        else:
            self._add_classes(system, batch, preds)

    def _add_classes(self, system: System, batch: Columns, preds: Tensor) -> None:
        if self._inputs is None:
            self.classes, self.labels = preds.shape[1], batch.target.ndim == 2
            self._inputs = ClassificationInputs(self.classes, not self.labels, normalization=self._args.normalization)
        if preds.shape[1] != self.classes:  # of another file
            raise ValueError(
                f"{self._args.baseline}: must have as many scores in a row as {self._args.file}, {self.classes}, "
                f"got {preds.shape[1]}"
            )
        found = self._inputs.validate(preds, batch.target, batch.weights)
        if system.bins is None:
            warn_of_logits(self._inputs, found)
        column, shape = torch.arange(self.classes), found.scores.shape
        hits = found.target if self.labels else found.target[:, None] == column
        weights = None if found.weights is None else found.weights[:, None].expand(shape).flatten()
        self._count(system, found.scores.flatten(), hits.flatten(), weights, column.expand(shape).flatten())

    def _count(
        self, system: System, scores: Tensor, hits: Tensor, weights: Tensor | None, ranking: Tensor | None
    ) -> None:
        """N bins of all groups together, and of each class."""
        if system.bins is None:
            system.bins = ScoreBins(self._args.bins * max(1, self.classes))
        try:
            system.bins.add(scores, hits.to(torch.uint8), weights, ranking)
        except ValueError as error:  # fewer bins than groups
            raise ValueError(f"{self._args.file}: {in_words(str(error)).replace('rankings', 'groups')}") from None
