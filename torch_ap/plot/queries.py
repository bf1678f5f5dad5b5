"""Plot of the differences of two runs, query by query."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.core.ranking.order import Array
from torch_ap.inference.metric import paired_samples
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, FAINT, GREY, Axes, text_of
from torch_ap.retrieval.metrics.analyses import QueryAnalyses

_MAX_NAMED = 40  # queries whose ids fit
_MAX_LETTERS = 60  # letters of horizontal ids
_MAX_BARS = 400  # more bars would be thinner than a line


def query_differences(
    runs: Mapping[str, QueryAnalyses] | Sequence[QueryAnalyses],
    *,
    ax: "Axes | None" = None,
    query_names: Mapping[int, str] | Sequence[str] | None = None,
    confidence_level: float = 0.95,
) -> "Axes":
    """Draw the difference of two runs for each query as bars, from the best to the worst query of the first run.

    A mean can hide that one run wins by much on few queries; this plot shows all queries. The broken line is the mean
    difference, the band around it its confidence interval.

    Args:
        runs: two metrics over the same queries, such as :class:`torch_ap.RetrievalMAP`, as a list or as a dict by name:
            the run and the baseline.
        ax: the axes to draw on; None for the axes of a new figure.
        query_names: names by query id as a dict, or as a list that begins with the name of query 0; they are written
            for up to 40 queries.
        confidence_level: nominal coverage of the interval of the mean difference, in (0, 1).

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: if ``runs`` are not two metrics over queries; also as ``compare`` of the metrics.
        ValueError: as ``compare`` of the metrics.

    Equals the differences of ``per_query()``; their mean and interval are the values of ``compare()``.

    Source: Voorhees & Harman (2005), TREC: bars of differences by topic.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import RetrievalMAP, plot
        >>> run, baseline, preds = RetrievalMAP(), RetrievalMAP(), torch.tensor([[0.9, 0.5, 0.1]]).repeat(4, 1)
        >>> run.update(preds, torch.eye(3).long()[[0, 0, 1, 0]])
        >>> baseline.update(preds.flip(1), torch.eye(3).long()[[0, 0, 1, 0]])
        >>> ax = plot.query_differences({"run": run, "baseline": baseline}, ax=Figure().subplots())
        >>> [round(float(x.get_height()), 3) for x in ax.patches if x.get_width() < 1]
        [0.667, 0.667, 0.667, 0.0]
    """
    if query_names is not None and (isinstance(query_names, str) or not isinstance(query_names, Mapping | Sequence)):
        raise_invalid(
            "query_names", "must be None, a list of names or a dict of them by query id", query_names, TypeError
        )
    (run_name, run_metric), (baseline_name, baseline_metric) = _named_runs(runs)
    comparison = run_metric.compare(baseline_metric, confidence_level=confidence_level)
    with run_metric._all_ranks(), baseline_metric._all_ranks():
        run, baseline = paired_samples(run_metric, baseline_metric)
    (queries, values), (_, others) = run.values(), baseline.values()
    difference = style.array(values.to(run.dtype) - others.to(run.dtype))
    order = np.argsort(-difference, kind="stable")
    heights = difference[order]
    ax = style.axes_of(ax)
    _draw(ax, heights)
    mean, low, high = (float(x) for x in (comparison.difference, comparison.low, comparison.high))
    line = ax.axhline(mean, color=COLORS[1], linestyle=(0, (5, 1.5)), linewidth=1.6, zorder=4)
    ax.axhspan(low, high, color=COLORS[1], alpha=FAINT, linewidth=0, zorder=1)
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=3)
    better, worse = int((heights > 0).sum()), int((heights < 0).sum())
    counts = f"{better:,} better, {worse:,} worse, {len(heights) - better - worse:,} the same"
    style.frame(ax, xlabel=f"queries ({counts})", ylabel=f"{text_of(run_name)} - {text_of(baseline_name)}")
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.02)
    _write_names(ax, [queries.tolist()[i] for i in order], query_names)
    p_value = float(comparison.p_value)
    p_text = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
    interval = f"{100 * confidence_level:g}% interval {low:+.3f} to {high:+.3f}"
    style.legend(ax, [(line, f"mean difference {mean:+.3f}, {interval}, {p_text}")])
    return ax


def _named_runs(runs: Any) -> list[tuple[str, Any]]:
    """Return the two metrics with their names."""
    is_mapping = isinstance(runs, Mapping | nn.ModuleDict)
    metrics = list(runs.items()) if is_mapping else list(runs) if isinstance(runs, list | tuple) else []
    pairs = metrics if is_mapping else list(zip(("run", "baseline"), metrics, strict=False))
    if len(metrics) != 2 or not all(isinstance(metric, QueryAnalyses) for _, metric in pairs):
        raise TypeError(f"`runs` must be two metrics over queries, the run and the baseline, got {short_repr(runs)}")
    return pairs


def _draw(ax: "Axes", heights: Array) -> None:
    """Draw bars, blue above 0 and orange below; for many queries an area."""
    places = np.arange(len(heights))
    colors = np.where(heights >= 0, COLORS[0], COLORS[4])
    if len(heights) <= _MAX_BARS:
        ax.bar(places, heights, 0.8, color=colors, edgecolor=colors, linewidth=0.5, zorder=2)
        return
    shown = style.decimated(places.astype(float), heights)
    for above, color in ((True, COLORS[0]), (False, COLORS[4])):
        part = np.clip(heights[shown], 0 if above else None, None if above else 0)
        ax.fill_between(places[shown], part, color=color, linewidth=0, step="mid", zorder=2)


def _write_names(ax: "Axes", ids: Sequence[int], names: Mapping[int, str] | Sequence[str] | None) -> None:
    if len(ids) > _MAX_NAMED:
        ax.set_xticks([])
        return
    name_by_id = dict(names) if isinstance(names, Mapping) else dict(enumerate(names or ()))
    labels = [text_of(name_by_id.get(i, i)) for i in ids]
    rotation = 90 if sum(len(x) + 1 for x in labels) > _MAX_LETTERS else 0
    ax.set_xticks(range(len(ids)), labels, rotation=rotation, fontsize="small")
