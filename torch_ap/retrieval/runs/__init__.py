"""Evaluation of search runs: results, and judgement of runs by qrels."""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.retrieval.runs.judged import judge
    from torch_ap.retrieval.runs.results import Evaluation, RunComparison

__all__ = ["Evaluation", "RunComparison", "judge"]

__getattr__, __dir__ = lazy_exports(__name__, __all__, ("retrieval.runs.results", "retrieval.runs.judged"))
