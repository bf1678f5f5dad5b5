"""Base of the detection metrics: a state of images, and methods for uncertainty, tables and operating points."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch_ap.core.metric import state
from torch_ap.detection.metrics import diagnosis, image_sample, tables
from torch_ap.detection.metrics.images import ImageState
from torch_ap.inference import metric


class DetectionMetric(ImageState):
    """Abstract: a metric of detectors with ``map`` as its value.

    ``errors``, ``detections_table`` and ``lrp`` of :mod:`torch_ap.detection.metrics.diagnosis` are methods of the
    classes whose matches have overlaps.
    """

    _summary_name = "map"
    plot_legend_name: str = "Class"
    _shown_arguments: ClassVar[Sequence[str]] = ()  # in every `repr`; the others if they differ from their defaults

    confidence_interval = image_sample.confidence_interval
    compare = image_sample.compare
    chance_level = image_sample.chance_level
    summary = metric.summary

    per_class = tables.per_class
    per_image = tables.per_image
    per_slice = tables.per_slice

    operating_points = diagnosis.operating_points
    confusion_matrix = diagnosis.confusion_matrix

    @property
    def _usual_settings(self) -> Mapping[str, Any]:
        """The values of settings whose arguments are None by default."""
        return {}

    def _shown_settings(self) -> dict[str, Any]:
        defaults, usual = state.defaults_of(type(self)), self._usual_settings
        settings = {**vars(self._settings), "class_names": self._class_names}
        setting_names = {argument: name for name, argument in self._argument_names.items()}

        def value_of(argument: str) -> Any:
            name = setting_names.get(argument, argument)
            if defaults[argument] is None and name in usual and settings[name] == usual[name]:
                return None
            if not hasattr(self, argument):
                value = settings.get(name, defaults[argument])
                return list(value) if isinstance(value, tuple) else value
            value = getattr(self, argument)
            return value[0] if isinstance(value, tuple) and len(value) == 1 else value

        return state.shown_settings(defaults, value_of, self._shown_arguments)
