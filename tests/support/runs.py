"""Evaluation of judged runs by the names of measures."""

from collections.abc import Iterable

from torch_ap.retrieval.runs import names
from torch_ap.retrieval.runs.judged import Judged


def evaluate_by_name(judged: Judged, measures: Iterable[str]) -> dict[str, names.Result]:
    return names.evaluate(judged, names.bind({name: name for name in measures}, judged.convention))
