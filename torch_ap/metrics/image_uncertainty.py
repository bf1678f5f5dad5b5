"""What a mean average precision of detections says about its own value: its interval, by the bootstrap over images.

It is computed from the state, over all ranks where there are several, so every rank must call it.
"""

from typing import Literal

from torch_ap.core.detection_input import Columns
from torch_ap.functional.coco_numbers import CocoNumbers
from torch_ap.inference.interval import Interval
from torch_ap.inference.of_detections import ranked_images
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.unit_bootstrap import unit_interval
from torch_ap.metrics.images import DetectionMetric


class UncertainImages(DetectionMetric):
    """Abstract: a detection metric whose numbers are COCO's."""

    average: str

    def _numbers(self, columns: Columns, iou_type: str | None, *, micro: bool = False) -> CocoNumbers:
        """The numbers of these images; ``micro`` if all labels are one class."""
        raise NotImplementedError

    def confidence_interval(
        self,
        level: float = 0.95,
        method: Literal["bootstrap-percentile", "bootstrap-logit"] = "bootstrap-percentile",
        *,
        resampling: Resampling | None = None,
        iou_type: str | None = None,
    ) -> Interval:
        """How far ``map`` can be trusted, by the bootstrap over images: all IoU thresholds, the first area, last limit.

        Images are drawn with all that they hold. Nothing is matched or sorted again: a resample is how often each image
        occurs, and its mAP that of a data set in which the images are written out so often, where no two detections of
        one class and image have the same score. Classes that have no ground truth in a resample have no part in it.

        Either covers less than it says, "bootstrap-percentile" more so; measured figures are in
        :func:`torch_ap.inference.unit_bootstrap.unit_interval`.

        Args:
            level: nominal coverage, in (0, 1).
            method: "bootstrap-percentile", or "bootstrap-logit" from the replicates' standard deviation.
            resampling: None for 1,000 replicates that repeat.
            iou_type: which one, where there are several; default the first.

        Returns:
            :class:`torch_ap.inference.Interval` in the dtype of ``compute()``; NaN, with a reason, where ``compute()``
            says -1, and for one image.

        Raises:
            ValueError: for an argument that breaks one of these rules.

        Example:
            >>> import torch
            >>> from torch_ap.inference import Resampling
            >>> from torch_ap.metrics.detection import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 30), (0.7, 4), (0.6, 2)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> found = metric.confidence_interval(resampling=Resampling(200))
            >>> bool(found.low < found.estimate < found.high)
            True
        """
        with self._synced_columns() as columns:
            numbers = self._numbers(columns, iou_type, micro=self.average == "micro")
            dtype = self._dtype_of_result(columns["detection_scores"].dtype)
            ranked = ranked_images(numbers.matches, len(columns["detections_per_image"]))
        return unit_interval(ranked, level=level, method=method, levels=numbers.levels, resampling=resampling).to(dtype)
