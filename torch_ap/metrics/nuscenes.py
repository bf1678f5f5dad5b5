"""nuScenes' mean average precision as a metric; the function of that name in ``torch_ap.functional`` computes it."""

from types import MappingProxyType
from typing import Any

from torch import Tensor

from torch_ap.analysis.lrp import OptimalLRP
from torch_ap.functional.curve_record import Curve
from torch_ap.inputs.detections import Images
from torch_ap.matching.coco import ClassNames
from torch_ap.matching.nuscenes import DISTANCES, nuscenes_settings_of
from torch_ap.matching.shape_settings import place_of_threshold
from torch_ap.metrics import representation
from torch_ap.metrics.voc import VocRules
from torch_ap.rules import checks

_NO_OVERLAPS = (
    "`errors`, `detections_table` and `lrp` are made of overlaps; this metric has distances, and `per_image`, "
    "`confusion_matrix` and `operating_points` of them"
)


class NuScenesMeanAveragePrecision(VocRules):
    """nuScenes' mean AP; see :func:`torch_ap.functional.nuscenes_mean_average_precision` for formula and arguments.

    Where a method of all detection metrics takes ``iou_threshold``, it is one of the distances here.

    Args:
        distance_threshold: a distance, or several.
        class_metrics: whether the AP of each class is given too.
        validate_args: whether the values of batches are checked.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.detection import NuScenesMeanAveragePrecision
        >>> metric = NuScenesMeanAveragePrecision()
        >>> found = {"centers": torch.tensor([[10.0, 5.0]]), "scores": torch.tensor([0.9]), "labels": torch.tensor([0])}
        >>> metric.update([found], [{"centers": torch.tensor([[10.0, 6.5]]), "labels": torch.tensor([0])}])
        >>> metric.compute()["map_per_threshold"]
        tensor([0., 0., 1., 1.])
    """

    _argument_names = MappingProxyType({"thresholds": "distance_threshold", "check_values": "validate_args"})

    def __init__(
        self,
        distance_threshold: float | list[float] | None = None,
        *,
        class_metrics: bool = False,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        distances = list(DISTANCES) if distance_threshold is None else distance_threshold
        settings = nuscenes_settings_of(distances, validate_args=validate_args)
        checks.boolean("class_metrics", class_metrics)
        super().__init__(settings.inputs, **kwargs)
        self.iou_threshold = self.distance_threshold = distances
        self.interpolation, self.class_metrics = settings.interpolation, class_metrics
        self._settings = settings

    def update(self, preds: Images, target: Images, sample_ids: Tensor | None = None) -> None:
        """Add images, or sweeps: as :meth:`torch_ap.MeanAveragePrecision.update`, with ``centers`` (N, 2).

        Raises:
            ValueError: for input that breaks a rule, naming image and key; the state is then as it was.
        """
        self._add(*self._inputs.validate(preds, target), sample_ids)

    def curve(self, distance_threshold: float | None = None, class_names: ClassNames = None) -> list[Curve]:
        """The curve of each class at one distance; see :meth:`torch_ap.VOCMeanAveragePrecision.curve`.

        Args:
            distance_threshold: one of the distances; default 0.5, or the lowest without it.
            class_names: names of the labels, a dict, or a list that begins with the name of label 0.
        """
        place = place_of_threshold(distance_threshold, self._settings.thresholds, "distance_threshold")
        return super().curve(self._settings.thresholds[place], class_names)

    def lrp(
        self, iou_threshold: float | None = None, iou_type: str | None = None, class_names: ClassNames = None
    ) -> OptimalLRP:
        """Not here, nor are ``errors`` and ``detections_table``: they are made of overlaps, and here are distances.

        Raises:
            ValueError: in any case.
        """
        del iou_threshold, iou_type, class_names
        raise ValueError(_NO_OVERLAPS)

    @property
    def _tells_errors(self) -> bool:
        return False

    def _thresholds(self, place: int, background: float | None) -> tuple[float, float]:
        del place, background
        raise ValueError(_NO_OVERLAPS)

    @property
    def _can_exchange(self) -> bool:
        return False  # of equal scores the last comes first, on whatever rank it is

    def _settings_text(self) -> str:
        given: dict[str, Any] = {"validate_args": self._settings.check_values}
        given["distance_threshold"] = None if self._settings.thresholds == DISTANCES else self.distance_threshold
        return representation.settings_text(
            representation.defaults_of(type(self)),
            lambda name: given[name] if name in given else getattr(self, name),
            (),
        )
