"""``torch-ap explain``: which average precision a number is, and why two programs differ."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from torch_ap.cli.notes import save_picture
from torch_ap.cli.options import exclude_options, option_of
from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.core.base.messages import short_repr
from torch_ap.core.columns import tables
from torch_ap.detection.files.coco import read_coco
from torch_ap.explanation import Explanation, explain
from torch_ap.retrieval.runs import trec

_JSON = (".json", ".json.gz")


def run(args: argparse.Namespace) -> int:
    """Explain and print."""
    explanation = _explanation(args)
    pair = _pair(args, explanation)
    if args.picture is not None:
        if pair is None:
            raise ValueError("--picture has no meaning without two conventions: --from and --to")
        save_picture(explanation.plot(*pair), args.picture)
    ExplanationReport(explanation, pair).write(args.form)
    return 0


def _explanation(args: argparse.Namespace) -> Explanation:
    """Return the explanation of a table, of judgements and a run, or of COCO's files."""
    how = {"reported": args.reported, "top_k": args.top_k, "relevance_level": args.relevance_level}
    if len(args.data) == 1:
        for name in ("preds", "target"):
            if getattr(args, name) is None:
                raise ValueError(f"{option_of(name)} must name a column of {short_repr(args.data[0])}")
        columns = tables.Table(args.data[0], args.preds, args.target).read()
        return explain(columns.preds, columns.target, **how)
    if len(args.data) > 2:
        raise ValueError(f"DATA must be one table, or two files, got {len(args.data)}")
    exclude_options(args, ("preds", "target"), "with two files")
    first, second = args.data
    if first.endswith(_JSON):
        data = read_coco(first, second)
        return explain(data.preds, data.target, box_format="xywh", **how)
    qrels, retrieved = trec.read_qrels(first), trec.read_run(second)
    return explain(_nested(retrieved, retrieved.scores), _nested(qrels, qrels.relevance), **how)


def _nested(table: trec.Table, values: Tensor) -> dict[str, dict[str, Any]]:
    """Return the value of each document by query."""
    nested: dict[str, dict[str, Any]] = {query: {} for query in map(str, table.queries)}
    names, documents = list(nested), trec.document_names(table.documents)
    for query, document, value in zip(table.query.tolist(), documents, values.tolist(), strict=True):
        nested[names[query]][document] = value
    return nested


def _pair(args: argparse.Namespace, explanation: Explanation) -> tuple[str, str] | None:
    """Return the two conventions to compare: the options, else the first one and the first match."""
    chosen = {"from": args.first, "to": args.second}
    for option, name in chosen.items():
        if name is not None and name not in explanation.values:
            known = ", ".join(map(repr, explanation.values))
            raise ValueError(f"--{option} must be one of {known}, got {short_repr(name)}")
    first = args.first or next(iter(explanation.values))
    second = args.second or next(iter(explanation.matches), None)
    return None if second is None else (first, second)


class ExplanationReport(Report):
    """The values, and the steps between two conventions.

    Args:
        explanation: the values.
        pair: the two conventions, or None.
    """

    def __init__(self, explanation: Explanation, pair: tuple[str, str] | None) -> None:
        self._explanation, self._pair = explanation, pair

    def parts(self) -> Iterator[Part]:
        """Yield the values, the reported number and the steps."""
        found = self._explanation
        rows = [
            (f"{name}{' *' if name in found.matches else ''}", number(value, ".4f"), found.programs[name])
            for name, value in found.values.items()
        ]
        yield Table([("convention", "value", "program"), *rows])
        if found.reported is not None:
            yield found.sentence()
        if self._pair is not None:
            steps = found.steps(*self._pair)
            changes = [(x.setting, x.before, x.after, number(x.share, "+.4f")) for x in steps if x.has_effect]
            total = found.values[self._pair[1]] - found.values[self._pair[0]]
            last = ("all", *self._pair, number(total, "+.4f"))
            yield Table([("setting", "from", "to", "share"), *changes, last], title="Steps")

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield a row per convention, and a row per step."""
        found = self._explanation
        yield ("kind", "name", "value", "matches", "from", "to")
        for name, value in found.values.items():
            yield ("convention", name, value, name in found.matches, None, None)
        for x in found.steps(*self._pair) if self._pair is not None else ():
            yield ("step", x.setting, x.share, None, x.before, x.after)

    def document(self) -> dict[str, Any]:
        """Return the values, the matches and the steps."""
        steps = [] if self._pair is None else [x.to_dict() for x in self._explanation.steps(*self._pair)]
        return {**self._explanation.to_dict(), "steps": steps}
