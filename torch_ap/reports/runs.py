"""Report of a training: the values of all epochs, and the best epoch without its optimism."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch_ap import plot
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.inference.selection import BestSystem, best_of_metrics
from torch_ap.reports.content import NAN, Content, Headline, Picture, Section, shortened, sorted_table
from torch_ap.reports.estimates import ReportOptions
from torch_ap.retrieval.metrics.analyses import QueryAnalyses

if TYPE_CHECKING:
    from torch_ap.core.metric.base import RankingMetric
    from torch_ap.inference.best_epoch import BestOf

    Run = BestOf | Sequence[RankingMetric] | Mapping[str, RankingMetric]


def metrics_of(run: Any) -> list[Any]:
    """Return the metrics of a list or dict, or a single metric as a list; none of a BestOf."""
    if isinstance(run, Mapping | list | tuple):
        return list(run.values() if isinstance(run, Mapping) else run)
    from torch_ap.inference.best_epoch import BestOf  # imports torchmetrics

    return [] if isinstance(run, BestOf) else [run]


def content_of(run: Any, options: ReportOptions) -> Content:
    """Return the content of the report."""
    level = options.confidence_level
    if isinstance(run, Mapping | list | tuple):
        found = best_of_metrics(run, confidence_level=level, **vars(options.resampling))
        first = metrics_of(run)[0]
    else:
        found, first = run.best(confidence_level=level), run.metric
    measure, has_interval = _measure_name(first), float(found.low) == float(found.low)
    name = f"{'' if isinstance(run, Mapping) else 'epoch '}{found.names[found.best]}"
    value, corrected, low, high = (float(x) for x in (found.value, found.corrected, found.low, found.high))
    head = Headline(
        f"{measure} of {name}",
        corrected if has_interval else value,
        low,
        high,
        options.level,
        other=value if has_interval else NAN,
        remarks=[f"No interval: {found.reason}."] if found.reason and not has_interval else [],
    )
    return Content(
        head,
        convention=(
            f"The best of {len(found.names):,} epochs by {measure}. The highest of several values is too high on "
            "average, because its errors are favorable. The value is corrected for this optimism, and the interval "
            f"allows for the selection (method {found.method!r})."
        ),
        facts={"epochs": len(found.names), "as measured": f"{value:.4f}", "optimism": f"{value - head.value:.4f}"},
        warnings=_warnings(found, has_interval=has_interval),
        sections=[_section(found, measure, options.level)],
        systems=("corrected", "as measured"),
        source=repr(first),
    )


def _measure_name(metric: Any) -> str:
    """Return the name of the value of a metric."""
    if isinstance(metric, DetectionAnalyses):
        return "mean AP"
    measure: Any = metric._settings.measure if isinstance(metric, QueryAnalyses) else metric.convention
    return str(measure.label)


def _warnings(found: BestSystem, *, has_interval: bool) -> list[str]:
    """Return reasons for doubt."""
    texts = [f"{found.reason[0].upper()}{found.reason[1:]}."] if found.reason and has_interval else []
    if found.best == len(found.names) - 1:
        texts.append("The last epoch is the best: a longer training may be better.")
    return texts


def _section(found: BestSystem, measure: str, level: str) -> Section:
    """Return picture and table of the epochs."""
    values, low, high = (x.tolist() for x in (found.values, found.simultaneous_low, found.simultaneous_high))
    marks = [{"x": found.best, "y": float(found.corrected)}]
    series: dict[str, Any] = {"name": "", "x": list(range(len(values))), "y": values, "low": low, "high": high}
    picture = Picture(
        f"{measure} of each epoch, with {level} intervals for all epochs at once; the mark is the corrected value.",
        lambda ax: plot.epochs(found, ax=ax),
        chart={
            "x": "epoch",
            "y": measure,
            "series": [series],
            "marks": marks,
            "names": [shortened(str(x)) for x in found.names],
        },
    )
    p_values = found.adjusted_p_value[found.best].tolist()
    p_values[found.best] = NAN
    head = ["epoch", measure, f"{level} low", f"{level} high", "p against the best"]
    rows = list(map(list, zip(found.names, values, low, high, p_values, strict=True)))
    table, left_out = sorted_table(head, rows, "epochs", {head[-1]: ".2g"}, order=(measure, "descending"))
    text = "p-values are adjusted for all comparisons: an epoch with a high one may be as good as the best."
    return Section("Epochs", [picture, text, table, *([left_out] if left_out else [])])
