"""A report of one metric, written as one file."""

import errno
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from torch_ap.inference.resampling import Resampling
from torch_ap.metrics.embeddings import EmbeddingMAP
from torch_ap.metrics.images import DetectionMetric
from torch_ap.metrics.items import ClassificationAveragePrecision
from torch_ap.metrics.queries import QueryMetric
from torch_ap.metrics.uncertainty import UncertainMetric
from torch_ap.reports import as_html, as_markdown, of_embeddings, of_images, of_items, of_queries
from torch_ap.reports.content import Content
from torch_ap.reports.statement import Asked, check_other
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse

_FORMS = {".html": as_html, ".htm": as_html, ".md": as_markdown}
_NAMES = ("this system", "the other")


def report(
    metric: UncertainMetric,
    path: str | os.PathLike[str],
    *,
    other: UncertainMetric | None = None,
    system_names: tuple[str, str] = _NAMES,
    title: str | None = None,
    class_names: Mapping[int, str] | Sequence[str] | None = None,
    query_names: Mapping[int, str] | Sequence[str] | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> Path:
    """One file that says what a metric has found: for a colleague, a paper's appendix, the record of an experiment.

    It has the number with its convention in words, its interval and its chance level; curves and operating points; a
    table of all classes or queries, which a reader can sort; the comparison with a second system; and warnings: tied
    and saturated scores, few positives, classes that are absent, bins too wide.

    Args:
        metric: any metric of this package, which has been updated. On several ranks every one must call this, and the
            first writes.
        path: where to, ".html" (or ".htm") for a page that needs no network, light or dark, and fit to be printed (with
            the extra ``plot``), ".md" for Markdown, without pictures. What is there is replaced.
        other: a second system, whose metric has the same class, settings, and data; see its method ``compare``.
        system_names: of both.
        title: of the page; None for the name of the measure and the system.
        class_names: of classes or labels, as for ``curve``; of :class:`torch_ap.MeanAveragePrecision` in place of its
            own.
        query_names: of query ids: a dict, or a list that begins with the name of query 0.
        confidence_level: nominal coverage of every interval, in (0, 1).
        n_resamples: of intervals that resample, those of detectors and of interpolated AP; at least 2.
        generator: their source of randomness; None for a fresh one with seed 0, so that results repeat.
        batch: how many resamples are computed at once; None for as many as fit the bound on memory.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        The path. Tables have at most 1,000 rows, the highest and the lowest, and say what they leave out.

    Raises:
        OSError: where the file cannot be written.
        ModuleNotFoundError: for HTML without matplotlib (extra: ``plot``).
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``compute()``, ``confidence_interval()``, ``chance_level()``, ``compare()`` and ``curve()`` of the metric.

    Example:
        >>> import tempfile, torch
        >>> from torch_ap import BinaryAveragePrecision, report
        >>> metric = BinaryAveragePrecision()
        >>> metric.update(torch.arange(10.0, 0, -1), torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = report(metric, f"{folder}/model.md", title="A model").read_text()
        >>> text.splitlines()[2]
        '**AP 0.7833**; 95% interval 0.2188 to 0.9790; chance level 0.6072'
    """
    path = Path(path)
    _check(metric, path, other, system_names)
    checks.text("title", title, optional=True)
    level = checks.open_fraction("confidence_level", confidence_level)
    resampling = Resampling(n_resamples, generator, batch, progress)
    queries = isinstance(metric, QueryMetric)
    unused, given = ("class_names", class_names) if queries else ("query_names", query_names)
    if given is not None:
        refuse(unused, f"must be None for a {type(metric).__name__}", given)
    asked = Asked(other, system_names, level, resampling, query_names if queries else class_names)
    content = _content(metric, asked, title)
    if (
        not torch.distributed.is_available()
        or not torch.distributed.is_initialized()
        or not torch.distributed.get_rank()
    ):
        path.write_text(_FORMS[path.suffix.lower()].document(content), encoding="utf-8")
    return path


def _check(metric: object, path: Path, other: object, system_names: Any) -> None:
    """What can be known before anything is computed."""
    if not isinstance(metric, ClassificationAveragePrecision | QueryMetric | EmbeddingMAP | DetectionMetric):
        refuse("metric", "must be a metric of torch_ap that has an interval", type(metric).__name__, TypeError)
    if isinstance(metric, QueryMetric) and isinstance(metric.top_k, list):
        raise ValueError(f"`metric` must have one `top_k` for a report, got {metric.top_k}")
    if path.suffix.lower() not in _FORMS:
        refuse("path", f"must end in {', '.join(_FORMS)}", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder for the report", str(path.parent))
    check_other(metric, other)
    fits = isinstance(system_names, tuple | list) and len(system_names) == 2 and len(set(system_names)) == 2
    if not fits or not all(isinstance(x, str) and x for x in system_names):
        refuse("system_names", "must be two different names", system_names)
    for name, one in (("metric", metric), ("other", other)):
        if isinstance(one, UncertainMetric) and not one.update_called:
            raise ValueError(f"`{name}` must have been updated: it holds nothing to report")


def _content(metric: UncertainMetric, asked: Asked, title: str | None) -> Content:
    """What is said, with the warnings that the metric itself gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(metric, ClassificationAveragePrecision):
            content = of_items.content_of(metric, asked)
        elif isinstance(metric, EmbeddingMAP):
            content = of_embeddings.content_of(metric, asked)
        elif isinstance(metric, QueryMetric):
            content = of_queries.content_of(metric, asked)
        else:
            assert isinstance(metric, DetectionMetric)
            content = of_images.content_of(metric, asked)
    said = dict.fromkeys([*content.warnings, *(str(x.message) for x in caught if issubclass(x.category, UserWarning))])
    name = content.headline.name
    system = "" if asked.systems == _NAMES else f" of {asked.systems[0]}"
    return replace(content, title=title or f"Report: {name}{system}", warnings=list(said))
