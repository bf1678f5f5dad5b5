"""Report of a metric as one file."""

import errno
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator

from torch_ap.classification.analyses import ItemAnalyses
from torch_ap.core.base import checks
from torch_ap.core.base.collection import without_collection
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import escape_unprintable, raise_invalid
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.suspicious import SuspiciousLabels
from torch_ap.reports import cautions, detections, html_page, items, markdown_page, queries
from torch_ap.reports.content import Content
from torch_ap.reports.estimates import ReportOptions
from torch_ap.retrieval.metrics.analyses import QueryAnalyses

if TYPE_CHECKING:
    from torch_ap.core.metric.base import RankingMetric
    from torch_ap.reports.runs import Run

_FORMS = {".html": html_page, ".htm": html_page, ".md": markdown_page}
_CONTENTS: dict[type[Any], Callable[[Any, ReportOptions], Content]] = {
    ItemAnalyses: items.content_of,
    QueryAnalyses: queries.content_of,
    DetectionAnalyses: detections.content_of,
}  # of metrics, and of the evaluations of commands
_NAMES = ("this system", "the other")


@renamed_keywords(batch="chunk_size")
def report(
    metric: "RankingMetric | Run",
    path: str | os.PathLike[str],
    *,
    other: "RankingMetric | Sequence[RankingMetric] | None" = None,
    system_names: Sequence[str] | None = None,
    title: str | None = None,
    class_names: Mapping[int, str] | Sequence[str] | None = None,
    query_names: Mapping[int, str] | Sequence[str] | None = None,
    item_names: Mapping[int, str] | Sequence[str] | None = None,
    images: Sequence[str | os.PathLike[str]] | None = None,
    image_names: Sequence[str] | None = None,
    slices: Mapping[str, Any] | None = None,
    suspicious_labels: SuspiciousLabels | None = None,
    simultaneous: bool = False,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Path:
    """Write the results of a metric as one file: for a colleague, the appendix of a paper, or the record of a run.

    The report has the value with its convention, interval and chance level, curves and operating points with a slider,
    tables of all classes, queries and images to sort and search, the comparison with a second system, and warnings
    about tied and saturated scores, few positives, missing classes and wide bins.

    Args:
        metric: an updated metric of this package. Every process of a group must call this function; the first writes.
            For the epochs of a training: a :class:`torch_ap.BestOf`, or one metric per epoch in a list or in a dict by
            name. The report then has the values of all epochs, and the best one without its optimism.
        path: path of the file: ".html" (or ".htm") for a page that needs no network and can be printed (extra:
            ``plot``), ".md" for Markdown without pictures. An existing file is replaced.
        other: metric of a second system, with the same class, settings and data; see the method ``compare``. For more
            than two systems, a list: the report then compares all of them with the first, and the first two in detail.
        system_names: different names of all systems; None for "this system" and "the other" or numbers.
        title: title of the page; None for the name of the measure and the system.
        class_names: names of classes or labels, as for ``curve``; replaces the names of
            :class:`torch_ap.MeanAveragePrecision`.
        query_names: names of queries: a dict by id, or a list that begins with the name of query 0.
        item_names: names of the items of a classifier, for the labels that may be wrong: a dict by ``sample_ids`` of
            ``update``, or by position without ids; or a list that begins with the name of item 0.
        images: paths of the image files of a detector, in the order of ``update`` (extra: ``plot``). The pictures of a
            page in HTML then show thumbnails, else a plain canvas. A missing or unreadable file is named on the page.
        image_names: names of these images; None for their ``sample_ids`` or positions.
        slices: images of further slices for the table of slices, as for ``per_slice`` of a detector.
        suspicious_labels: result of :func:`torch_ap.retrieval.suspicious_labels` for a measure over queries. The pages
            of classifiers and detectors find their suspicious labels themselves.
        simultaneous: whether the band of the curve of one ranking contains the whole curve, instead of the precision
            at each recall level; only for one system. For several classes, labels or a
            detector, whether the intervals of the classes contain all values at once, as for ``confidence_interval``.
        confidence_level: nominal coverage of every interval, in (0, 1).
        n_resamples: number of resamples of intervals of detectors and of interpolated AP; at least 2.
        generator: source of randomness; None for a new one with seed 0, so that results repeat.
        chunk_size: number of resamples per batch; None for as many as fit the memory bound.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        The path. Tables begin with the worst row. They have at most 1,000 rows, and give the number of omitted rows.

    Raises:
        OSError: if the file cannot be written.
        ModuleNotFoundError: for HTML without matplotlib (extra: ``plot``).
        TypeError: for an argument of another type.
        ValueError: for an argument that breaks one of these rules.

    The numbers equal ``compute()``, ``confidence_interval()``, ``chance_level()``, ``compare()`` and ``curve()`` of the
    metric. Exception: the chance level of a detector is the mean of 25 random orders of its scores.

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
    others = [] if other is None else list(other) if isinstance(other, list | tuple) else [other]
    names_of_systems = _system_names(system_names, max(2, 1 + len(others)))
    _check(metric, path, others)
    checks.text("title", title, optional=True)
    level = checks.open_fraction("confidence_level", confidence_level)
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    evaluated: Any = metric
    has_queries = isinstance(metric, QueryAnalyses)
    unused = {"class_names": class_names, "query_names": query_names, "item_names": item_names}
    if _content_function(metric) is not None:
        unused.pop("query_names" if has_queries else "class_names")
    if isinstance(evaluated, ItemAnalyses):
        unused.pop("item_names")
    for name, names in unused.items():
        if names is not None:
            raise_invalid(name, f"must be None for a {type(metric).__name__}", names)
    if suspicious_labels is not None and not (has_queries and isinstance(suspicious_labels, SuspiciousLabels)):
        rule = "must be a SuspiciousLabels with a measure over queries, or None"
        raise_invalid("suspicious_labels", rule, type(suspicious_labels).__name__)
    checks.boolean("simultaneous", simultaneous)
    if simultaneous and not isinstance(evaluated, DetectionAnalyses):
        is_ranking = isinstance(evaluated, ItemAnalyses) and evaluated._settings.inputs.width is None
        if not isinstance(evaluated, ItemAnalyses) or (is_ranking and others):
            raise ValueError("`simultaneous` requires the curve of one ranking of one system, or classes")
    named_queries, named_items = (
        _names_by_id(name, names) for name, names in (("query_names", query_names), ("item_names", item_names))
    )
    for name, value in (("images", images), ("image_names", image_names)):
        _check_images(metric, name, value)
    if slices is not None:
        _check_slices(metric, slices)
    by_position = None if images is None else dict(enumerate(images))
    is_page = path.suffix.lower() != ".md"
    first, second = names_of_systems[:2]
    options = ReportOptions(
        others[0] if others else None,
        (first, second),
        level,
        resampling,
        named_queries if has_queries else class_names,
        by_position,
        image_names,
        is_page,
        slices,
        dict(zip(names_of_systems, (metric, *others), strict=True)) if len(others) > 1 else {},
        labels=suspicious_labels,
        simultaneous=simultaneous,
        item_names=named_items,
    )
    content = _content(metric, options, title)
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized() or not distributed.get_rank():
        lines = _FORMS[path.suffix.lower()].document(content).split("\n")
        path.write_text(
            "\n".join(map(escape_unprintable, lines)), encoding="utf-8"
        )  # names can contain control characters
    return path


def _names_by_id(argument: str, names: Any) -> Mapping[int, str] | None:
    """Return names of queries or items by id; None for none."""
    if isinstance(names, Sequence) and not isinstance(names, str):
        return dict(enumerate(names))
    if names is not None and not isinstance(names, Mapping):
        raise_invalid(argument, "must be a list of names, a dict of ids to names, or None", names)
    return names


def _system_names(names: Any, count: int) -> tuple[str, ...]:
    """Return the validated names of the systems."""
    if names is None:
        return _NAMES if count == 2 else (_NAMES[0], *(f"system {x}" for x in range(2, count + 1)))
    is_list = isinstance(names, tuple | list) and len(names) == count and all(isinstance(x, str) and x for x in names)
    if not is_list or len(set(names)) < count:
        raise_invalid("system_names", f"must be {'two' if count == 2 else count} different names", names)
    return tuple(names)


def _check(metric: Any, path: Path, others: Sequence[Any]) -> None:
    """Check the arguments that do not depend on a result."""
    metrics, has_epochs = [metric], _content_function(metric) is None
    if has_epochs:
        from torch_ap.reports import runs

        metrics = runs.metrics_of(metric)
    for system in metrics:
        if _content_function(system) is None:
            rule = "must be a metric of torch_ap that has an interval, or several of them, one for each epoch"
            raise_invalid("metric", rule, type(system).__name__, TypeError)
    if others and has_epochs:
        raise_invalid("other", "must be None for several epochs", type(others[0]).__name__)
    top_k = getattr(metric._settings.measure, "top_k", None) if isinstance(metric, QueryAnalyses) else None
    if isinstance(top_k, list):
        raise ValueError(f"`metric` must have one `top_k` for a report, got {top_k}")
    if path.suffix.lower() not in _FORMS:
        raise_invalid("path", f"must end in {', '.join(_FORMS)}", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder for the report", str(path.parent))
    for other in others:
        if not isinstance(other, type(metric)):
            raise_invalid(
                "other", f"must be a {type(metric).__name__}, as `metric` is", type(other).__name__, TypeError
            )
    for name, system in (*(("metric", x) for x in metrics), *(("other", x) for x in others)):
        if not system.update_called:
            raise ValueError(f"`{name}` must have been updated: it contains nothing to report")


def _check_images(metric: Any, name: str, value: Any) -> None:
    """Raise ValueError unless there is one value per image of a detector, or None."""
    if value is None:
        return
    if not isinstance(metric, DetectionAnalyses):
        raise_invalid(name, f"must be None for a {type(metric).__name__}", value)
    with metric._all_ranks():
        count = len(metric._image_ids(metric._columns()))
    allowed = str if name == "image_names" else str | os.PathLike
    if not isinstance(value, list | tuple) or len(value) != count or not all(isinstance(x, allowed) for x in value):
        raise_invalid(name, f"must be a list of {count} texts, one per image", value)


def _check_slices(metric: Any, slices: Mapping[str, Any]) -> None:
    """Raise ValueError for invalid slices, and for a metric without images."""
    if not isinstance(metric, DetectionAnalyses):
        raise_invalid("slices", f"must be None for a {type(metric).__name__}", slices)
    with metric._all_ranks():
        metric._image_flags(slices, metric._columns())


def _content_function(metric: object) -> Callable[[Any, ReportOptions], Content] | None:
    """Return the function from a metric to its content; None for several epochs and for other objects."""
    for kind, content_of in _CONTENTS.items():
        if isinstance(metric, kind):
            return content_of
    if isinstance(metric, Mapping | list | tuple):
        return None
    from torch_ap.reports import embeddings  # imports torchmetrics, as these metrics have done

    return embeddings.content_of if isinstance(metric, embeddings.EmbeddingMAP) else None


def _content_of_epochs(run: Any, options: ReportOptions) -> Content:
    from torch_ap.reports import runs

    return runs.content_of(run, options)


@without_collection()
def _content(metric: Any, options: ReportOptions, title: str | None) -> Content:
    """Return the content with title, names and all warnings, including warnings of the metric."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = (_content_function(metric) or _content_of_epochs)(metric, options)
    texts = [
        *content.warnings,
        *(cautions.chance(content.headline) if getattr(metric, "higher_is_better", True) else []),
    ]
    texts += cautions.unique_reasons([str(x.message) for x in caught if issubclass(x.category, UserWarning)])
    system = "" if options.systems == _NAMES else f" of {options.systems[0]}"
    return replace(
        content,
        title=title or f"Report: {content.headline.name}{system}",
        systems=content.systems or options.systems,
        warnings=list(dict.fromkeys(texts)),
        source=content.source or repr(metric),
    )
