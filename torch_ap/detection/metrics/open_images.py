"""Open Images' mean average precision as a metric; ``torch_ap.functional`` has the function of this name."""

from typing import TYPE_CHECKING, Any, Literal

from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.deprecated import renamed_attributes, renamed_keywords
from torch_ap.core.base.options import BoxFormat, GroupOf, settings_from
from torch_ap.core.metric.samples import SampleIds
from torch_ap.detection.inputs.hierarchy import Parents
from torch_ap.detection.inputs.images import Images
from torch_ap.detection.metrics import diagnosis, suspicious
from torch_ap.detection.metrics.voc import VocMetric
from torch_ap.detection.rules.open_images import OpenImagesSettings, open_images_settings_of


@renamed_attributes(iou_threshold="iou_thresholds")
class OpenImagesMeanAveragePrecision(VocMetric):
    """Open Images' mean AP; see :func:`torch_ap.functional.open_images_mean_average_precision`.

    Args:
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_thresholds: a number, or several.
        hierarchy: the parent of each label that has one, or its parents.
        group_of: "count" if a box around a group must be detected once, "ignore" if it need not be detected.
        expand_preds: whether to add detections of the ancestors of each class.
        class_metrics: whether to return the AP of each class too.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0, for tables and curves.
        iou_type: "bbox" or "segm".
        validate_args: whether to check the values of batches.
        diagnose: whether ``compute`` warns of the likely cause of a low value, once per metric.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    With a ``hierarchy`` there is no ``errors``, ``detections_table`` and ``confusion_matrix``, because an object has
    several classes. Use a second metric of the same images without ``hierarchy`` for them.

    Example:
        >>> import torch
        >>> from torch_ap.detection import OpenImagesMeanAveragePrecision
        >>> metric = OpenImagesMeanAveragePrecision(hierarchy={7: 1}, class_metrics=True)  # a 7 is a 1
        >>> box = torch.tensor([[10.0, 10, 50, 50]])
        >>> found = {"boxes": box, "scores": torch.tensor([0.9]), "labels": torch.tensor([7])}
        >>> metric.update([found], [{"boxes": box, "labels": torch.tensor([7])}])
        >>> metric.compute()["map_per_class"]
        tensor([0., 1.])
    """

    errors = diagnosis.errors
    detections_table = diagnosis.detections_table
    lrp = diagnosis.lrp
    suspicious_labels = suspicious.suspicious_labels

    if TYPE_CHECKING:
        _settings: OpenImagesSettings
    _shown_arguments = ("box_format", "iou_thresholds", "group_of")
    _converts_lists = False  # the hierarchy reads the images first

    @renamed_keywords(iou_threshold="iou_thresholds")
    def __init__(
        self,
        box_format: BoxFormat = "xyxy",
        iou_thresholds: float | list[float] = 0.5,
        *,
        hierarchy: Parents | None = None,
        group_of: GroupOf = "count",
        expand_preds: bool = False,
        class_metrics: bool = False,
        class_names: ClassNames = None,
        iou_type: Literal["bbox", "segm"] = "bbox",
        validate_args: bool = True,
        diagnose: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = settings_from(open_images_settings_of, locals())
        super().__init__(settings, class_metrics, class_names, diagnose, **kwargs)
        self.box_format, self.iou_thresholds, self.iou_type = box_format, iou_thresholds, iou_type
        self.hierarchy, self.group_of, self.expand_preds = hierarchy, group_of, expand_preds

    def update(self, preds: Images, target: Images, sample_ids: SampleIds = None, groups: SampleIds = None) -> None:
        """Add images, in lists of dicts; see :func:`torch_ap.functional.open_images_mean_average_precision`.

        With a hierarchy or verified labels this waits for an accelerator.

        Raises:
            ValueError: for invalid input, with image and key; the state does not change.
        """
        preds, target = self._settings.prepared(preds, target)
        self._add(*self._inputs.validate(preds, target), sample_ids, groups)

    @property
    def _has_errors(self) -> bool:
        return not self._settings.hierarchy

    def _check_shapes_kept(self, what: str) -> None:
        if self._settings.hierarchy and what != "lrp":
            raise ValueError(
                f"`{what}` must be called on a second metric of the same images without `hierarchy`: with it an object "
                "has several classes at once, so that a detection as one of them is no confusion with another"
            )
        super()._check_shapes_kept(what)
