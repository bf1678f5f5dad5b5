"""Open Images' mean average precision as a metric; the function of that name in ``torch_ap.functional`` computes it."""

from types import MappingProxyType
from typing import Any, Literal

from torch_ap.inputs.detections import Images
from torch_ap.inputs.hierarchy import Parents
from torch_ap.inputs.samples import SampleIds
from torch_ap.matching.open_images import OpenImagesSettings, open_images_settings_of
from torch_ap.metrics import representation
from torch_ap.metrics.voc import VocRules
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames, check_names
from torch_ap.rules.options import BoxFormat, GroupOf


class OpenImagesMeanAveragePrecision(VocRules):
    """Open Images' mean AP; see :func:`torch_ap.functional.open_images_mean_average_precision`.

    Args:
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_threshold: a number, or several.
        hierarchy: the parent of each label that has one, or its parents.
        group_of: "count" where a box around a group is to be found once, "ignore" where it need not be found.
        expand_preds: whether detections are made those of the ancestors of their classes too.
        class_metrics: whether the AP of each class is given too.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0, for tables and curves.
        iou_type: "bbox" or "segm".
        validate_args: whether the values of batches are checked.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.

    With a ``hierarchy`` there is no ``errors``, ``detections_table`` and ``confusion_matrix``: an object is of several
    classes at once then. A second metric without it, of the same images, has them by the classes as given.

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

    _argument_names = MappingProxyType(
        {"iou_types": "iou_type", "thresholds": "iou_threshold", "check_values": "validate_args"}
    )

    def __init__(
        self,
        box_format: BoxFormat = "xyxy",
        iou_threshold: float | list[float] = 0.5,
        *,
        hierarchy: Parents | None = None,
        group_of: GroupOf = "count",
        expand_preds: bool = False,
        class_metrics: bool = False,
        class_names: ClassNames = None,
        iou_type: Literal["bbox", "segm"] = "bbox",
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = open_images_settings_of(
            box_format=box_format,
            iou_threshold=iou_threshold,
            iou_type=iou_type,
            group_of=group_of,
            hierarchy=hierarchy,
            expand_preds=expand_preds,
            validate_args=validate_args,
        )
        checks.boolean("class_metrics", class_metrics)
        check_names(class_names)
        super().__init__(settings.inputs, **kwargs)
        self.box_format, self.iou_threshold, self.iou_type = box_format, iou_threshold, iou_type
        self.hierarchy, self.group_of, self.expand_preds = hierarchy, group_of, expand_preds
        self.interpolation, self.class_metrics, self.class_names = settings.interpolation, class_metrics, class_names
        self._settings: OpenImagesSettings = settings

    def update(self, preds: Images, target: Images, sample_ids: SampleIds = None) -> None:
        """Add images, in lists of dicts; see :func:`torch_ap.functional.open_images_mean_average_precision`.

        On an accelerator this waits for the device where there is a hierarchy or verified labels.

        Raises:
            ValueError: for input that breaks a rule, naming image and key; the state is then as it was.
        """
        preds, target = self._settings.prepared(preds, target)
        self._add(*self._inputs.validate(preds, target), sample_ids)

    @property
    def _tells_errors(self) -> bool:
        return not self._settings.hierarchy

    def _check_shapes_kept(self, what: str) -> None:
        if self._settings.hierarchy and what != "lrp":
            raise ValueError(
                f"`{what}` must be asked of a second metric without `hierarchy`, of the same images: with it an object "
                "is of several classes at once, and what is found as one of them was not taken for another"
            )
        super()._check_shapes_kept(what)

    def _settings_text(self) -> str:
        given = {"validate_args": self._settings.check_values}
        return representation.settings_text(
            representation.defaults_of(type(self)),
            lambda name: given[name] if name in given else getattr(self, name),
            ("box_format", "iou_threshold", "group_of"),
        )
