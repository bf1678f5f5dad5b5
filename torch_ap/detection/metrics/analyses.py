"""Numbers, tables and uncertainty of matched images: the methods that metrics and evaluations of files share.

A metric has images in its state (:mod:`torch_ap.detection.metrics.images`). :class:`EvaluatedImages` has the images of
one call, and requires no torchmetrics, whose import takes two seconds.
"""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base.class_names import unique_label_names
from torch_ap.core.base.untraced import disable_tracing_of_methods
from torch_ap.core.items.settings import result_dtype
from torch_ap.core.metric import samples
from torch_ap.core.metric.evaluation import Evaluation
from torch_ap.core.metric.samples import SampleIds
from torch_ap.detection.functions import validate_images
from torch_ap.detection.inference.rankings import ranked_images
from torch_ap.detection.inputs.images import Columns, Images
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.matching.shapes import ShapeSettings
from torch_ap.detection.metrics import diagnosis, image_sample, tables
from torch_ap.detection.metrics.image_sample import ImageSample, SlicedSample
from torch_ap.detection.metrics.matched_images import Made, MatchedImages
from torch_ap.inference.groups import ids_of_groups


class DetectionAnalyses(MatchedImages):
    """Abstract: analyses of a detector with ``map`` as its value.

    ``errors``, ``detections_table`` and ``lrp`` of :mod:`torch_ap.detection.metrics.diagnosis` are methods of the
    classes whose matches have overlaps.
    """

    confidence_interval = image_sample.confidence_interval
    compare = image_sample.compare
    chance_level = image_sample.chance_level

    per_class = tables.per_class
    per_image = tables.per_image
    per_slice = tables.per_slice

    operating_points = diagnosis.operating_points
    confusion_matrix = diagnosis.confusion_matrix

    def _sample(
        self,
        iou_type: str | None = None,
        per_class: bool = False,
        slices: Any = None,
        groups: Any = None,
        simultaneous: bool = False,
    ) -> Any:
        """Return the images as an :class:`ImageSample`, with ``slices`` as a :class:`SlicedSample`."""
        columns = self._columns()
        members = None if slices is None else self._image_flags(slices, columns)
        matches, interpolation, classes = self._matched(columns, iou_type, per_class)
        dtype = self._dtype_of_result(columns["detection_scores"].dtype)
        labels = classes if per_class else None
        names = [] if labels is None else unique_label_names(labels, self._class_names)

        ids, known_ids, group = self._image_ids(columns), self._known_image_ids(), self._known_groups()
        if groups is not None:
            group = ids_of_groups(ids.tolist(), groups, "image").to(ids.device)

        def sample(chosen: Matches, images: int, group: Tensor | None) -> ImageSample:
            ranked = ranked_images(chosen, images)
            return ImageSample(dtype, columns, ranked, interpolation, labels, names, known_ids, group, simultaneous)

        if members is None:
            return sample(matches, len(ids), group)
        each = {
            name: sample(matches.select_images(flags), int(flags.sum()), None if group is None else group[flags])
            for name, flags in members.items()
        }
        return SlicedSample(dtype, each, members)


class EvaluatedImages(Evaluation, DetectionAnalyses):
    """Abstract: the images of one process, validated and matched once.

    Args:
        settings: settings of the value.
        preds, target: images, as for ``update`` of the metric.
        groups: (B,) integers, the group of each image, or None.
        source: repr of a metric with the same settings.
    """

    def __init__(
        self, settings: ShapeSettings, preds: Images, target: Images, groups: SampleIds = None, source: str = ""
    ) -> None:
        columns = validate_images(settings, preds, target)
        counts = columns["detections_per_image"]
        self._settings, self._images, self.device, self._source = settings, columns, counts.device, source
        self._groups = samples.validate_ids(samples.GROUPS, groups, counts.shape, counts.device, "image")
        self._results: dict[Hashable, Any] = {}

    plot_legend_name = "Class"

    def __repr__(self) -> str:
        """Return the repr of a metric with the same settings."""
        return self._source

    def _columns(self) -> Columns:
        return self._images

    def _once(self, make: Callable[[], Made], *what: Hashable) -> Made:
        if what not in self._results:
            self._results[what] = make()
        result: Made = self._results[what]
        return result

    def _is_cached(self, *what: Hashable) -> bool:
        return what in self._results

    def _known_groups(self) -> Tensor | None:
        return self._groups

    def _dtype_of_result(self, scores: torch.dtype) -> torch.dtype:
        return result_dtype(scores)


disable_tracing_of_methods(DetectionAnalyses)
