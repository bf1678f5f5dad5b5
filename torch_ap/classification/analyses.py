"""Curves and uncertainty of classifiers: the methods that metrics and evaluations of tables share.

A metric has items or counts in its state (:mod:`torch_ap.classification.state`). :class:`EvaluatedItems` has the items
of one call, and requires no torchmetrics, whose import takes two seconds.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.classification import item_sample, suspicious
from torch_ap.classification.item_sample import ItemSample
from torch_ap.core.base import checks
from torch_ap.core.base.messages import short_repr
from torch_ap.core.base.untraced import disable_tracing_of_methods
from torch_ap.core.items.inputs import Batch
from torch_ap.core.items.settings import APSettings, validate_call
from torch_ap.core.measures.convention import PLAIN, Convention
from torch_ap.core.metric.evaluation import Evaluation
from torch_ap.core.metric.state import settings_text, shown_settings
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.curves.record import Curve, curve_records
from torch_ap.inference import metric
from torch_ap.inference.groups import rankings_in_groups
from torch_ap.inference.groups_at_threshold import ItemGroups


class ItemAnalyses:
    """Abstract: analyses of items with average precision as their value; states and evaluations implement the hooks."""

    if TYPE_CHECKING:  # torch.jit evaluates the annotations of every class, and states come later in the order of bases
        _settings: APSettings
        device: Any
        _all_ranks: Any  # returns a context in which the hooks return the items of all processes
        _dtype_of_result: Any  # returns the dtype of the value for a dtype of scores
        _raise_broken: Any  # raises ValueError if an update was invalid
        _ranked_items: Any  # returns settings, rankings, their items (None for counts) and the dtype of the scores
        _all_bins: Any  # returns the rankings of counts with all items as hits, so that all nonempty bins are entries
        _binned: Any  # returns the (C, B, 2) misses and hits per bin
        _lower_ends: Any  # returns the lowest score of each bin
        _batch: Any  # returns all items as one batch
        _item_ids: Any  # returns (N,) int64 ids of these items, or their positions if updates had no ids

    confidence_interval = item_sample.confidence_interval
    compare = item_sample.compare
    chance_level = metric.chance_level
    suspicious_labels = suspicious.suspicious_labels

    def _curves(self, class_names: Sequence[str] | None = None) -> list[Curve]:
        """Return the curve of each ranking, for all processes."""
        with self._all_ranks():
            self._raise_broken()
            settings, rankings, batch, _ = self._ranked_items(keep_all_groups=True)
            values = None
            if batch is None:
                values = settings.each(rankings)
                rankings = settings.curve_of_bins(self._binned(), score=self._lower_ends())
            if rankings.weighted:
                settings.validate_weights()
        if settings.single and class_names is not None:
            raise ValueError(f"`class_names` must be None for a single curve, got {short_repr(class_names)}")
        names = [""] if settings.single else checks.names_of_classes(class_names, len(rankings.m))
        groups = None
        if batch is not None and batch.groups is not None:
            _, columns = rankings_in_groups(settings, rankings, batch)
            groups = [ItemGroups(scores, relevant, x.ids, x.count) for _, scores, relevant, x in columns]
        rankings = settings.in_population(rankings)
        return curve_records(rankings, settings.convention, names, values, groups=groups)

    def _sample(self, **options: Any) -> ItemSample:
        """Return the items as a sample; the options are fields of :class:`ItemSample`."""
        self._raise_broken()
        settings, curve, batch, scores = self._ranked_items()
        return ItemSample(self._dtype_of_result(scores), settings, curve, batch, self._all_bins, **options)

    def _sample_of_value(self) -> ItemSample:
        """Return the items as a sample for their value, also with weights that have no interval."""
        return self._sample(value_only=True)


class EvaluatedItems(Evaluation, ItemAnalyses):
    """Items of one call, validated and ranked once, with values in float64.

    Args:
        settings: settings of the value, without bins.
        preds, target, weights: items, as for ``update`` of the metrics.
        groups: (N,) integers, the group of each item, or None.
        first_id: id of the first item; the ids of the others follow.
    """

    def __init__(
        self,
        settings: APSettings,
        preds: Tensor,
        target: Tensor,
        weights: Tensor | None = None,
        groups: Tensor | None = None,
        first_id: int = 0,
    ) -> None:
        self._settings, self.device, self._first_id = settings, preds.device, first_id
        self._items = validate_call(settings, preds, target, weights)._replace(groups=groups)
        self._rankings = settings.curve(self._items)

    @property
    def plot_legend_name(self) -> str | None:
        """Kind of the classes in plots; None for one ranking."""
        inputs = self._settings.inputs
        return None if inputs.width is None else "Class" if inputs.classes else "Label"

    def __repr__(self) -> str:
        """Return the repr of a metric with the same settings."""
        settings, inputs = self._settings, self._settings.inputs
        name, shown = "Binary", dict[str, Any]()
        if inputs.width is not None:
            name, columns = ("Multiclass", "num_classes") if inputs.classes else ("Multilabel", "num_labels")
            shown = {columns: inputs.width, "average": settings.average}
        shown |= {"thresholds": None, "normalization": inputs.normalization}
        shown |= shown_settings(vars(PLAIN), vars(settings.convention).__getitem__)
        further = {"empty_target_action": settings.empty_target_action, "prevalence": settings.prevalence}
        shown |= {key: x for key, x in further.items() if x is not None}
        return f"{name}AveragePrecision({settings_text(shown)})"

    def compute(self) -> Tensor:
        """Return the average precision: 0-d, or (C,) without an average."""
        return self._settings.value(self._rankings, torch.float64)

    @property
    def convention(self) -> Convention:
        """The convention of the average precision."""
        return self._settings.convention

    def curve(self, class_names: Sequence[str] | None = None) -> list[Curve]:
        """Return the curve of each ranking, with the class as ``name``."""
        return self._curves(class_names)

    def _settings_of_value(self) -> dict[str, Any]:
        return {field.name: getattr(self._settings, field.name) for field in fields(self._settings)}

    def _raise_broken(self) -> None:
        """Return: invalid values have raised."""

    def _ranked_items(self, *, keep_all_groups: bool = False) -> tuple[APSettings, HitCurve, Batch | None, torch.dtype]:
        rankings = self._settings.curve(self._items, keep_all_groups=True) if keep_all_groups else self._rankings
        return self._settings, rankings, self._items, self._items.scores.dtype

    def _dtype_of_result(self, scores: torch.dtype) -> torch.dtype:
        del scores
        return torch.float64

    def _all_bins(self) -> HitCurve:
        return self._rankings

    def _batch(self) -> Batch:
        return self._items

    def _item_ids(self) -> Tensor:
        return self._first_id + torch.arange(len(self._items.scores), device=self.device)


disable_tracing_of_methods(ItemAnalyses)
