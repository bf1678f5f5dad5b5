"""nuScenes' mean average precision as a metric; ``torch_ap.functional`` has the function of this name."""

import functools
from collections.abc import Callable, Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.deprecated import renamed_attributes, renamed_keywords
from torch_ap.detection.metrics import diagnosis, tables
from torch_ap.detection.metrics.voc import VocMetric
from torch_ap.detection.rules.nuscenes import DISTANCES, nuscenes_settings_of

R = TypeVar("R")


def _rename_threshold(method: Callable[..., R]) -> Callable[..., R]:
    """Return a method of other detection metrics with ``distance_threshold`` in place of ``iou_threshold``."""
    names = {"iou_threshold": "distance_threshold"}
    parameters = [x.replace(name=names.get(x.name, x.name)) for x in signature(method).parameters.values()]
    renamed = signature(method).replace(parameters=parameters)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> R:
        bound = renamed.bind(*args, **kwargs)
        return method(*bound.args, **bound.kwargs)

    first, *_ = (method.__doc__ or "").splitlines()
    others = ", ".join(x.name for x in parameters[2:] if x.name != "iou_type")
    only = "\n        iou_type: None, as there is one kind of shape." if "iou_type" in renamed.parameters else ""
    call.__doc__ = f"""{first.replace("IoU threshold", "distance")}

    Args:
        distance_threshold: one of the distances; default 0.5, or the lowest without it.
        {others}: as for :meth:`torch_ap.VOCMeanAveragePrecision.{method.__name__}`.{only}
    """
    call.__annotations__ = {names.get(name, name): kind for name, kind in method.__annotations__.items()}
    call.__signature__ = renamed  # type: ignore[attr-defined]
    return call


@renamed_attributes(distance_threshold="distance_thresholds")
class NuScenesMeanAveragePrecision(VocMetric):
    """nuScenes' mean AP; see :func:`torch_ap.functional.nuscenes_mean_average_precision` for formula and arguments.

    Its methods have ``distance_threshold`` in place of the ``iou_threshold`` of other detection metrics. There is no
    ``errors``, ``detections_table`` and ``lrp``, which need overlaps.

    Args:
        distance_thresholds: a distance, or several.
        class_metrics: whether to return the AP of each class too.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0, for tables and curves.
        validate_args: whether to check the values of batches.
        diagnose: whether ``compute`` warns of the likely cause of a low value, once per metric.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.detection import NuScenesMeanAveragePrecision
        >>> metric = NuScenesMeanAveragePrecision()
        >>> pred = {"centers": torch.tensor([[10.0, 5.0]]), "scores": torch.tensor([0.9]), "labels": torch.tensor([0])}
        >>> metric.update([pred], [{"centers": torch.tensor([[10.0, 6.5]]), "labels": torch.tensor([0])}])
        >>> metric.compute()["map_per_threshold"]
        tensor([0., 0., 1., 1.])
    """

    _argument_names = MappingProxyType({"thresholds": "distance_thresholds", "check_values": "validate_args"})
    _threshold_name: ClassVar[str] = "distance_threshold"

    @renamed_keywords(distance_threshold="distance_thresholds")
    def __init__(
        self,
        distance_thresholds: float | list[float] | None = None,
        *,
        class_metrics: bool = False,
        class_names: ClassNames = None,
        validate_args: bool = True,
        diagnose: bool = True,
        **kwargs: Any,
    ) -> None:
        distances = list(DISTANCES) if distance_thresholds is None else distance_thresholds
        settings = nuscenes_settings_of(distances, validate_args=validate_args)
        super().__init__(settings, class_metrics, class_names, diagnose, **kwargs)
        self.distance_thresholds = distances

    curve = _rename_threshold(VocMetric.curve)
    per_class = renamed_keywords(batch="chunk_size")(_rename_threshold(tables.per_class))
    per_image = _rename_threshold(tables.per_image)
    operating_points = _rename_threshold(diagnosis.operating_points)
    confusion_matrix = _rename_threshold(diagnosis.confusion_matrix)

    @property
    def _can_exchange(self) -> bool:
        return False  # the last of several equal scores comes first, from any process

    @property
    def _usual_settings(self) -> Mapping[str, Any]:
        return {"thresholds": DISTANCES}
