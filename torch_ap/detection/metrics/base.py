"""Base of the detection metrics: a state of images, its analyses, and the settings in ``repr``."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch_ap.core.metric import state
from torch_ap.core.metric.samples import SampleIds
from torch_ap.detection.inputs.images import Images
from torch_ap.detection.metrics.images import ImageState
from torch_ap.inference import metric


class DetectionMetric(ImageState):
    """Abstract: a metric of detectors with ``map`` as its value."""

    _summary_name = "map"
    plot_legend_name: str = "Class"
    _shown_arguments: ClassVar[Sequence[str]] = ()  # in every `repr`; the others if they differ from their defaults

    summary = metric.summary

    def update(self, preds: Images, target: Images, sample_ids: SampleIds = None, groups: SampleIds = None) -> None:
        """Add images; see :meth:`torch_ap.MeanAveragePrecision.update`.

        Further keys: ``neg_category_ids`` and ``not_exhaustive_category_ids`` of each target of LVIS, and perhaps its
        ``ignore``; perhaps ``difficult`` in targets of VOC, with a ``convention`` also ``iscrowd``; ``centers`` (N, 2)
        instead of boxes for nuScenes.

        Raises:
            ValueError: for invalid input, with image and key; the state does not change.
        """
        self._add(*self._inputs.validate(preds, target), sample_ids, groups)

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
