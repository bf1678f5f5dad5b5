"""Base of the detection metrics: a state of images, and methods for uncertainty, tables and operating points."""

from collections.abc import Collection
from typing import Any

from torch_ap.core.metric import state
from torch_ap.detection.metrics import cuts, image_sample, tables
from torch_ap.detection.metrics.images import ImageState
from torch_ap.inference import metric


class DetectionMetric(ImageState):
    """Abstract: a metric of detectors with ``map`` as its value.

    ``errors``, ``detections_table`` and ``lrp`` of :mod:`torch_ap.detection.metrics.diagnosis` are methods of the
    classes whose matches have overlaps.
    """

    _summary_name = "map"
    plot_legend_name: str = "Class"

    confidence_interval = image_sample.confidence_interval
    compare = image_sample.compare
    chance_level = image_sample.chance_level
    summary = metric.summary

    per_class = tables.per_class
    per_image = tables.per_image
    per_slice = tables.per_slice

    operating_points = cuts.operating_points
    confusion_matrix = cuts.confusion_matrix

    def _text_of(self, always: Collection[str], **values: Any) -> str:
        """Return the settings for ``repr``: settings that differ from their defaults, and some settings always.

        Args:
            always: names of the settings that are always shown.
            values: settings by name that are no attributes, or None for the usual value.
        """
        defaults = state.defaults_of(type(self))
        return state.settings_text(
            defaults, lambda name: values[name] if name in values else getattr(self, name), always
        )
