"""nuScenes' mean average precision as a metric; the function of that name in ``torch_ap.functional`` computes it."""

from types import MappingProxyType
from typing import Any, ClassVar

from torch import Generator, Tensor

from torch_ap.analysis.confusion import ConfusionMatrix
from torch_ap.analysis.operating_points import OperatingPoints
from torch_ap.analysis.score_thresholds import Given
from torch_ap.functional.curve_record import Curve
from torch_ap.inputs.detections import Images
from torch_ap.inputs.samples import SampleIds
from torch_ap.matching.nuscenes import DISTANCES, nuscenes_settings_of
from torch_ap.metrics import representation
from torch_ap.metrics.voc import VocRules
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames, check_names

_OF_OVERLAPS = ("errors", "detections_table", "lrp")


class NuScenesMeanAveragePrecision(VocRules):
    """nuScenes' mean AP; see :func:`torch_ap.functional.nuscenes_mean_average_precision` for formula and arguments.

    Its methods take ``distance_threshold`` where those of other detection metrics take ``iou_threshold``. There is no
    ``errors``, ``detections_table`` and ``lrp``, which are made of overlaps.

    Args:
        distance_threshold: a distance, or several.
        class_metrics: whether the AP of each class is given too.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0, for tables and curves.
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
    _threshold_name: ClassVar[str] = "distance_threshold"

    def __init__(
        self,
        distance_threshold: float | list[float] | None = None,
        *,
        class_metrics: bool = False,
        class_names: ClassNames = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        distances = list(DISTANCES) if distance_threshold is None else distance_threshold
        settings = nuscenes_settings_of(distances, validate_args=validate_args)
        checks.boolean("class_metrics", class_metrics)
        check_names(class_names)
        super().__init__(settings.inputs, **kwargs)
        self.distance_threshold = distances
        self.interpolation, self.class_metrics, self.class_names = settings.interpolation, class_metrics, class_names
        self._settings = settings

    def update(self, preds: Images, target: Images, sample_ids: SampleIds = None) -> None:
        """Add images, or sweeps: as :meth:`torch_ap.MeanAveragePrecision.update`, with ``centers`` (N, 2).

        Raises:
            ValueError: for input that breaks a rule, naming image and key; the state is then as it was.
        """
        self._add(*self._inputs.validate(preds, target), sample_ids)

    def curve(self, distance_threshold: float | None = None, class_names: ClassNames = None) -> list[Curve]:
        """The curve of each class at one distance; see :meth:`torch_ap.VOCMeanAveragePrecision.curve`.

        Args:
            distance_threshold: one of the distances; default 0.5, or the lowest without it.
            class_names: names of the labels, as for the class, whose own are the default.
        """
        return super().curve(distance_threshold, class_names)

    def operating_points(
        self,
        distance_threshold: float | None = None,
        beta: float = 1.0,
        *,
        precision: float | None = None,
        recall: float | None = None,
        score_threshold: Given | None = None,
        per_class: bool = True,
        iou_type: str | None = None,
        class_names: ClassNames = None,
        confidence_level: float = 0.95,
    ) -> OperatingPoints:
        """Where to cut at one distance; see :meth:`torch_ap.MeanAveragePrecision.operating_points`.

        Args:
            distance_threshold: one of the distances; default 0.5, or the lowest without it.
            beta, precision, recall, score_threshold, per_class, class_names, confidence_level: as there.
            iou_type: None, as there is one kind.
        """
        return super().operating_points(
            distance_threshold,
            beta,
            precision=precision,
            recall=recall,
            score_threshold=score_threshold,
            per_class=per_class,
            iou_type=iou_type,
            class_names=class_names,
            confidence_level=confidence_level,
        )

    def confusion_matrix(
        self,
        distance_threshold: float | None = None,
        score_threshold: Given = 0.25,
        *,
        iou_type: str | None = None,
        class_names: ClassNames = None,
    ) -> ConfusionMatrix:
        """What is taken for what at one distance; see :meth:`torch_ap.MeanAveragePrecision.confusion_matrix`.

        Args:
            distance_threshold: one of the distances, below which matches lie; default 0.5, or the lowest without it.
            score_threshold, class_names: as there.
            iou_type: None, as there is one kind.
        """
        return super().confusion_matrix(distance_threshold, score_threshold, iou_type=iou_type, class_names=class_names)

    def per_image(
        self,
        distance_threshold: float | None = None,
        score_threshold: float = float("-inf"),
        iou_type: str | None = None,
    ) -> dict[str, Tensor]:
        """A table with one row per image (sample); see :meth:`torch_ap.MeanAveragePrecision.per_image`.

        Args:
            distance_threshold: one of the distances, at which is counted; default 0.5, or the lowest without it.
            score_threshold: as there.
            iou_type: None, as there is one kind.
        """
        return super().per_image(distance_threshold, score_threshold, iou_type)

    def per_class(
        self,
        distance_threshold: float | None = None,
        score_threshold: float = float("-inf"),
        iou_type: str | None = None,
        *,
        interval: bool = False,
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> dict[str, Any]:
        """A table with one row per class; see :meth:`torch_ap.VOCMeanAveragePrecision.per_class`.

        Args:
            distance_threshold: one of the distances, at which is counted; default 0.5, or the lowest without it.
            score_threshold, interval, confidence_level, n_resamples, generator, batch, progress: as there.
            iou_type: None, as there is one kind.
        """
        return super().per_class(
            distance_threshold,
            score_threshold,
            iou_type,
            interval=interval,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            generator=generator,
            batch=batch,
            progress=progress,
        )

    @property
    def _tells_errors(self) -> bool:
        return False

    def _check_shapes_kept(self, what: str) -> None:
        if what in _OF_OVERLAPS:
            raise ValueError(
                f"`{what}` must be asked of a metric of overlaps; this one has distances, and `per_image`, "
                "`confusion_matrix` and `operating_points` of them"
            )

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
