"""Report of a classifier: one ranking, or one per class or label."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.classification.analyses import ItemAnalyses
from torch_ap.classification.suspicious import labels_of_metric
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.items.inputs import Batch, counted_items
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures.averaging import NO_ITEMS
from torch_ap.core.ranking import segments
from torch_ap.curves import Curve
from torch_ap.inference import GroupComparison, compare_decisions
from torch_ap.inference.metric import paired_samples
from torch_ap.plot.bars import IntervalOptions, class_bars
from torch_ap.reports import cautions
from torch_ap.reports.comparisons import (
    ClassDifferences,
    comparison_sections,
    f1_difference,
    numbers_of,
    reasons_of,
    thresholds_text,
)
from torch_ap.reports.content import (
    DASH,
    FORMS,
    LOSS,
    LOSS_TEXT,
    Cell,
    Content,
    Part,
    Section,
    count_of_groups,
    loss_shares,
    sorted_table,
)
from torch_ap.reports.curves import BEST_F1, best_f1, class_sections, ranking_sections
from torch_ap.reports.estimates import ReportOptions, headline
from torch_ap.reports.labels import LABELS, MAX_LABELS, labels_section
from torch_ap.reports.thresholds import HIGHEST_F1, RULES, curve_of_all, cuts_of_curve
from torch_ap.retrieval.measures import words

_THRESHOLDS = "Each system has its own threshold by each rule."
_TESTED = (
    f"{_THRESHOLDS} Precision, recall and F1 of one ranking are compared by a randomization test, which has no "
    "interval; the highest F1 has one of the delta method."
)
_SWAPPED = "The test swaps the decisions on all items of a group together."
_UNTESTED = f"{_THRESHOLDS} The highest F1 has an interval of the delta method."


def content_of(metric: ItemAnalyses, options: ReportOptions) -> Content:
    """Return the content of the report."""
    curves = _curves(metric, options.names)
    has_classes = metric._settings.inputs.width is not None
    is_single = len(curves) == 1 and not curves[0].name
    units = ("class", "classes") if metric._settings.inputs.classes else ("label", "labels")
    average = metric._settings.average or "none"
    name = f"{'mean ' if has_classes and not is_single else ''}{metric._settings.convention.label}"
    # values of classes have a mean for the headline
    is_mean = average == "none" and not is_single
    settings = replace(metric._settings, average="macro") if is_mean else metric._settings
    changes: dict[str, Any] = {"settings": settings} if is_mean else {}
    head = headline(
        metric, name, lambda x: float(x.compute().double().nanmean()), options, method=_method(metric), **changes
    )
    by_system = options.per_system(curves, lambda: _curves(options.other, options.names))
    classes = _class_differences(metric, by_system, options) if options.other is not None and not is_single else None

    def further() -> tuple[dict[str, dict[str, Any]], list[Part]]:
        rows, remarks = _decision_differences(metric, by_system, options)
        return rows, [*remarks, *(classes.paired(units[1], options) if classes else [])]

    sections = comparison_sections(
        metric,
        head,
        options,
        "items",
        further,
    )
    if is_single:
        sections += ranking_sections({name: x for name, (x,) in by_system.items()}, options)
    else:
        caption = f"Average precision of {units[1]}, chance levels as strokes,"
        cuts = {name: [*map(cuts_of_curve, (curve_of_all(x), *x))] for name, x in by_system.items()}
        metrics = options.per_system(metric, lambda: options.other)
        how = IntervalOptions(options.confidence_level, options.resampling, options.simultaneous)
        bars = {name: class_bars(x, options.names, how, by_system[name]) for name, x in metrics.items()}
        confusions = _confusions(metric)
        sections += class_sections(metric, curves, cuts, bars, units[1], options, caption, confusions=confusions)
        sections.append(_class_table(metric, options, curves, units, classes))
    names = [x.name for x in curves] if has_classes and not is_single else None
    sections += _label_section(metric, settings, names, options)
    return Content(
        head,
        convention=words.describe_over_classes(metric._settings.convention, average, units[1] if has_classes else ""),
        facts=_facts(curves, is_single, units),
        warnings=_warnings(metric, curves, units),
        sections=sections,
    )


def _class_differences(
    metric: ItemAnalyses, by_system: Mapping[str, Sequence[Curve]], options: ReportOptions
) -> ClassDifferences:
    """Return the AP of each class of both systems, with the differences."""
    names = [x.name for x in next(iter(by_system.values()))]
    first, second = (torch.stack([x.average_precision for x in curves]) for curves in by_system.values())

    def compare() -> GroupComparison:
        with metric._all_ranks(), options.other._all_ranks():
            mine, theirs = paired_samples(metric, options.other)
            found: GroupComparison = mine.compare_each(theirs, names, options.confidence_level, options.resampling)
            return found

    return ClassDifferences(names, (first, second), compare, names, options)


def _confusions(metric: ItemAnalyses) -> Callable[[float], Tensor] | None:
    """Return the function from a threshold to the confusion matrix of the class with the highest score, (K + 1, K + 1).

    The last row and column are for no class, as in the matrix of a detector. None for labels, weights and bins.
    """
    with metric._all_ranks():
        try:
            batch: Batch | None = metric._sample().batch
        except ValueError:  # weighted items
            return None
    if batch is None or batch.weights is not None or not metric._settings.inputs.classes:
        return None
    counted = counted_items(batch.target)
    highest, chosen = segments.comparable(batch.scores[counted]).max(1)
    target, size = batch.target[counted].long(), batch.scores.shape[1] + 1

    def matrix(threshold: float) -> Tensor:
        decided = torch.where(highest >= threshold, chosen, size - 1)
        return torch.bincount(target * size + decided, minlength=size * size).view(size, size)

    return matrix


def _decision_differences(
    metric: ItemAnalyses, by_system: Mapping[str, Sequence[Curve]], options: ReportOptions
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the comparisons of precision, recall and F1, each system at its own thresholds, and remarks."""
    curves = [x[0] if len(x) == 1 else curve_of_all(x) for x in by_system.values()]
    with metric._all_ranks(), options.other._all_ranks():
        try:
            batches: list[Any] = [x.batch for x in paired_samples(metric, options.other)]
        except ValueError:  # weighted items, which have no test
            return {}, []
    if None in batches or batches[0].weights is not None:  # counts of bins, weighted items
        return {}, []
    target, rows = batches[0].target, dict[str, dict[str, Any]]()
    is_counted, is_positive = counted_items(target), target == 1
    if metric._settings.inputs.classes:
        is_counted = is_counted[:, None]
        is_positive = target[:, None] == torch.arange(batches[0].scores.shape[1], device=target.device)
    is_positive = is_positive & is_counted
    is_tested = is_positive.ndim == 1  # one ranking
    groups = batches[0].groups
    remarks = [_TESTED if is_tested else _UNTESTED, *[_SWAPPED] * (is_tested and groups is not None)]
    for rule, settings in RULES:
        least = [x.operating_point(**settings).threshold for x in curves]
        if any(bool(x.isnan()) for x in least):
            continue
        first, second = ((segments.comparable(x.scores) >= t) & is_counted for x, t in zip(batches, least, strict=True))
        for name, measure in (("precision", "precision"), ("recall", "recall"), ("F1", "f_beta")) if is_tested else ():
            how: dict[str, Any] = {"measure": measure, **vars(options.resampling)}
            how["groups"] = None if groups is None else groups[is_counted]
            found = compare_decisions(first[is_counted], second[is_counted], is_positive[is_counted].long(), **how)
            rows[f"{rule}: {name}"] = numbers_of(found.to_dict())
        if rule == HIGHEST_F1:
            sides = [(_per_item(x & is_positive), _per_item(x)) for x in (first, second)]
            f1 = f1_difference(sides, _per_item(is_positive), groups, options)
            name = f"{rule}: F1"
            rows[name] = f1 | ({"p_value": rows[name]["p_value"]} if is_tested else {})
            remarks.append(thresholds_text(least, options))
    return rows, remarks


def _per_item(flags: Tensor) -> Tensor:
    """Return the number of flags of each item."""
    return flags.flatten(1).sum(1) if flags.ndim > 1 else flags.long()


def _curves(metric: Any, names: Any) -> list[Curve]:
    """Return the curve of each ranking."""
    if metric._settings.single and names is not None:
        raise_invalid("class_names", "must be None where there is one ranking", names)
    curves: list[Curve] = metric._curves(names)
    return curves


def _method(metric: ItemAnalyses) -> str | None:
    """Return the method of the interval; interpolated precision has no influence function."""
    return None if metric._settings.convention.interpolation is None else "bootstrap-logit"


def _facts(curves: Sequence[Curve], is_single: bool, units: tuple[str, str]) -> Mapping[str, Cell]:
    n, m = max(float(x.n) for x in curves), sum(float(x.m) for x in curves)
    is_weighted = curves[0].hits.is_floating_point()
    facts: dict[str, Cell] = {"weight of items": round(n, 3)} if is_weighted else {"items": int(n)}
    groups = curves[0].groups
    facts |= count_of_groups(None if groups is None else groups.ids)
    if not is_single:
        return facts | {units[1]: len(curves)}
    share = f"{100 * m / n:.3g}%" if n > 0 else DASH
    return facts | {"positives": round(m, 3) if is_weighted else int(m), "share of positives": share}


def _warnings(metric: ItemAnalyses, curves: Sequence[Curve], units: tuple[str, str]) -> list[str]:
    if len(curves) == 1 and curves[0].n == 0:
        return [NO_ITEMS.format("the ranking")]
    texts = cautions.few_positives({x.name: round(float(x.m)) for x in curves}, units)
    texts += cautions.no_negatives([x.name for x in curves if bool((x.m > 0) & x.n.isnan())], units)
    if curves[0].hits.is_floating_point():
        return texts  # sums of weights lack the number of tied items
    low, high = cautions.mean_range(curves)
    thresholds = metric._settings.thresholds
    if thresholds is not None:
        return texts + cautions.wide_bins(len(thresholds) + 1, low, high)
    groups = torch.cat([x.items.diff(prepend=x.items.new_zeros(1)) for x in curves])
    scores = torch.cat([x.thresholds for x in curves])
    return [*texts, *cautions.ties(groups, low, high), *cautions.saturation(scores, groups)]


def _class_table(
    metric: ItemAnalyses,
    options: ReportOptions,
    curves: Sequence[Curve],
    units: tuple[str, str],
    differences: ClassDifferences | None,
) -> Section:
    """Return the table of all classes."""
    columns = _intervals(metric, options)
    ends = f" low and high are the {options.class_level} interval." if "low" in columns else ""
    head = [units[0], "AP", *columns, "positives", *BEST_F1]
    rows: list[list[Cell]] = []
    for place, curve in enumerate(curves):
        row: list[Cell] = [curve.name, float(curve.average_precision), *(x[place] for x in columns.values())]
        rows.append([*row, round(float(curve.m)), *best_f1(curve)])
    if differences is not None:
        head[2:2] = differences.columns
        for row, *numbers in zip(rows, *differences.columns.values(), strict=True):
            row[2:2] = numbers
    if metric._settings.average in ("macro", "none", None):
        head.insert(2, LOSS)
        for row, share in zip(rows, loss_shares([float(row[1]) for row in rows]), strict=True):
            row.insert(2, share)
    table, omitted = sorted_table(head, rows, units[1], FORMS, opens="thresholds")
    text = f"Each has its own ranking.{ends} best F1 is the highest F1, with its threshold, precision and recall."
    text = f"{text} {LOSS_TEXT}" if LOSS in head else text
    return Section(f"All {units[1]}", [f"{text} {omitted}".strip(), *reasons_of(differences), table])


def _label_section(
    metric: Any, settings: APSettings, names: Sequence[str] | None, options: ReportOptions
) -> list[Section]:
    """Return the targets that may be wrong by the value of these settings, or why there are none."""
    try:
        labels = labels_of_metric(metric, settings, MAX_LABELS, names)
    except ValueError as error:
        return [Section(LABELS, [f"Not available: {error}."])]
    return labels_section(labels, options.one_of_several, options.item_names)


def _intervals(metric: ItemAnalyses, options: ReportOptions) -> dict[str, list[float]]:
    """Return interval and chance level of each class, if they exist."""
    with metric._all_ranks():
        try:
            settings = replace(metric._settings, average="none")
            sample = replace(metric._sample(), settings=settings, simultaneous=options.simultaneous)
            interval = sample.interval_of_value(options.confidence_level, _method(metric), options.resampling)
            chance = [sample.chance_level(options.resampling)] if sample.has_chance_level else []
        except ValueError:
            if options.simultaneous:
                raise
            return {}
    columns = zip(("low", "high", "chance"), (interval.low, interval.high, *chance), strict=False)
    return {name: x.double().tolist() for name, x in columns}
