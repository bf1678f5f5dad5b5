"""Torchmetrics' methods that read COCO's files and write them."""

from collections.abc import Mapping
from typing import Any, Literal

from torch_ap.files import coco_conversion
from torch_ap.inputs.detections import Kind
from torch_ap.matching.coco import Report
from torch_ap.matching.coco_settings import CocoSettings
from torch_ap.metrics.images import DetectionMetric


class CocoFiles(DetectionMetric):
    """Abstract: a metric of detections whose images can come from COCO's files and go into them."""

    box_format: Any
    iou_type: tuple[Kind, ...]

    _settings: CocoSettings
    _report: Report

    def coco_to_tm(
        self,
        coco_preds: str,
        coco_target: str,
        iou_type: Literal["bbox", "segm", "keypoints"] | tuple[Literal["bbox", "segm"], ...] = ("bbox",),
        backend: str = "pycocotools",  # noqa: ARG002
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """COCO's files as input of ``update``, as torchmetrics' method of this name reads them.

        Args:
            coco_preds: path of the JSON list of detections.
            coco_target: path of the JSON with ``images``, ``annotations`` and ``categories``.
            iou_type: "bbox" for ``boxes``, "segm" for ``masks`` (run-length codes), or both; "keypoints".
            backend: accepted, so that calls need no change, and ignored.

        Returns:
            Predictions and targets, one dict per image, ascending by image id, with the images without annotations,
            which torchmetrics leaves out. Boxes have the metric's ``box_format``; torchmetrics leaves them as the files
            have them, xywh, whatever that is. Numbers are float64.

        Raises:
            ValueError: as :func:`torch_ap.files.coco.read_coco`.
        """
        kinds = (iou_type,) if isinstance(iou_type, str) else tuple(iou_type)
        return coco_conversion.images_of_files(coco_preds, coco_target, kinds, self.box_format)

    def tm_to_coco(self, name: str = "tm_map_input") -> None:
        """Write the images so far, of all ranks, as COCO's files, as torchmetrics' method of this name does.

        Args:
            name: path of the files without ``_preds.json`` and ``_target.json``.

        Raises:
            ValueError: for other shapes than boxes and masks, for an ``iou`` of your own, and with ``match="update"``.
        """
        self._check_shapes_kept("tm_to_coco")
        if self._settings.own_iou is not None or not {"bbox", "segm", "boundary"}.issuperset(self.iou_type):
            raise ValueError(
                "`iou_type` must be 'bbox', 'segm' or 'boundary' for COCO's files, without a function `iou`"
            )
        with self._all_ranks():
            names = self._report.class_names or {}
            named = names if isinstance(names, Mapping) else dict(enumerate(names))
            coco_conversion.write_files(
                name, self._columns(), self.box_format, named, area_as_given=self._settings.area_as_given
            )
