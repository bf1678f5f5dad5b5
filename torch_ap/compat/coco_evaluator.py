"""Evaluation of batches with the interface of ``CocoEvaluator``, from torchvision's references and the DETR family."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, distributed

from torch_ap.compat import mask
from torch_ap.compat.coco import COCO
from torch_ap.compat.coco_eval import COCOeval
from torch_ap.compat.data_sets import Annotation
from torch_ap.core.base import checks
from torch_ap.core.base.messages import Plain, raise_invalid

__all__ = ["CocoEvaluator"]

Prediction = Mapping[str, Tensor]


class CocoEvaluator:
    """COCO's numbers of a detector that is evaluated batch by batch, in one or several processes.

    Same names and results as ``CocoEvaluator`` in torchvision's ``references/detection``, which DETR, RT-DETR and
    D-FINE copy. Only the images of ``update`` count, and the first copy of an image that several processes have. All
    detections are matched in ``accumulate``, and not batch by batch: ``coco_eval`` has its numbers afterwards.

    Args:
        coco_gt: the ground truths: :class:`torch_ap.compat.COCO`, ``pycocotools.coco.COCO``, or a dict in COCO's form.
        iou_types: the kinds of shapes: "bbox", "segm", "boundary" and "keypoints".

    Attributes:
        coco_eval: a :class:`torch_ap.compat.COCOeval` for each kind. Its ``params`` can be changed before
            ``accumulate``; ``stats`` has COCO's numbers after ``summarize``.
        img_ids: the ids of the images.

    Example:
        >>> import torch
        >>> from torch_ap.compat import COCO, CocoEvaluator
        >>> box = {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}
        >>> truth = COCO({"images": [{"id": 7}], "categories": [{"id": 3, "name": "cat"}], "annotations": [box]})
        >>> evaluator = CocoEvaluator(truth, ["bbox"])
        >>> boxes = torch.tensor([[1.0, 2, 31, 42]])
        >>> evaluator.update({7: {"boxes": boxes, "scores": torch.tensor([0.5]), "labels": torch.tensor([3])}})
        >>> evaluator.synchronize_between_processes()
        >>> evaluator.accumulate()
        >>> round(float(evaluator.coco_eval["bbox"].eval["precision"].max()), 3)
        1.0
    """

    def __init__(self, coco_gt: Any, iou_types: Sequence[str]) -> None:
        if not isinstance(iou_types, list | tuple) or not iou_types:
            raise_invalid("iou_types", "must be a list of kinds of shapes", iou_types)
        for iou_type in iou_types:
            checks.one_of("iou_types", iou_type, tuple(_SHAPES))
        is_own = isinstance(coco_gt, COCO)
        self.coco_gt: COCO = coco_gt if is_own else COCO(coco_gt if isinstance(coco_gt, Mapping) else coco_gt.dataset)
        self.iou_types = iou_types
        self.cleanup()

    def cleanup(self) -> None:
        """Remove all images."""
        self.coco_eval = {iou_type: COCOeval(self.coco_gt, COCO(), iou_type) for iou_type in self.iou_types}
        self.img_ids: list[Any] = []
        self._results: dict[str, dict[Any, list[Annotation]]] = {iou_type: {} for iou_type in self.iou_types}

    def update(self, predictions: Mapping[Any, Prediction]) -> None:
        """Add the detections of images.

        Args:
            predictions: for each image id a dict of tensors, which may be empty: ``scores`` (N,), ``labels`` (N,)
                category ids, and ``boxes`` (N, 4) as x1, y1, x2, y2; ``masks`` (N, 1, H, W), pixels above 0.5; or
                ``keypoints`` (N, K, 3).

        Raises:
            ValueError: for an unknown image, and for tensors that are missing, of other shapes or of different lengths;
                nothing is added then.
        """
        if not isinstance(predictions, Mapping):
            raise_invalid("predictions", "must be a dict with ids of images as keys", predictions, TypeError)
        added: dict[str, dict[Any, list[Annotation]]] = {iou_type: {} for iou_type in self.iou_types}
        for image, prediction in predictions.items():
            if image not in self.coco_gt.imgs:
                raise_invalid("predictions", "must have ids of images as keys", image)
            for iou_type, listed in added.items():
                listed[image] = _results_of(image, prediction, iou_type)
        for iou_type, listed in added.items():
            for image, results in listed.items():
                self._results[iou_type].setdefault(image, results)
        self.img_ids.extend(predictions)

    def synchronize_between_processes(self) -> None:
        """Collect the images of all processes of the default group, without copies; nothing to do for one process."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return
        parts: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(parts, (self.img_ids, self._results))
        self.img_ids = [image for ids, _ in parts for image in ids]
        for iou_type, listed in self._results.items():
            listed.clear()
            for _, results in parts:
                for image, entries in results[iou_type].items():
                    listed.setdefault(image, entries)

    def accumulate(self) -> None:
        """Match all detections and compute COCO's arrays."""
        for iou_type, evaluation in self.coco_eval.items():
            listed = self._results[iou_type].values()
            evaluation.cocoDt = self.coco_gt.loadRes([entry for entries in listed for entry in entries])
            evaluation.params.imgIds = list(dict.fromkeys(self.img_ids))
            evaluation.evaluate()
            evaluation.accumulate()

    def summarize(self) -> None:
        """Print COCO's numbers of each kind of shapes."""
        for iou_type, evaluation in self.coco_eval.items():
            print(f"IoU metric: {iou_type}")
            evaluation.summarize()


def _boxes(boxes: Tensor) -> list[Any]:
    x1, y1, x2, y2 = boxes.unbind(1)
    listed: list[Any] = torch.stack((x1, y1, x2 - x1, y2 - y1), 1).tolist()
    return listed


def _masks(masks: Tensor) -> list[Any]:
    dense = masks[:, 0] > 0.5  # masks of scores
    codes: Any = mask.encode(dense.permute(1, 2, 0).cpu().numpy().astype(np.uint8))
    return list(codes)


class _Shape(NamedTuple):
    """Shapes of a kind: their keys in predictions and in results, their form, and the function of their values."""

    key: str
    result_key: str
    form: tuple[str | int, ...]
    values: Callable[[Tensor], list[Any]]


_SHAPES = {
    "bbox": _Shape("boxes", "bbox", ("N", 4), _boxes),
    "segm": _Shape("masks", "segmentation", ("N", 1, "H", "W"), _masks),
    "boundary": _Shape("masks", "segmentation", ("N", 1, "H", "W"), _masks),
    "keypoints": _Shape("keypoints", "keypoints", ("N", "K", 3), lambda points: points.flatten(1).tolist()),
}


def _results_of(image: Any, prediction: Prediction, iou_type: str) -> list[Annotation]:
    """Return the detections of an image as results in COCO's form."""
    if not len(prediction):
        return []
    shape = _SHAPES[iou_type]
    where = f"predictions[{image!r}]"
    forms: dict[str, tuple[str | int, ...]] = {"labels": ("N",), "scores": ("N",), shape.key: shape.form}
    for key, form in forms.items():
        value = prediction.get(key)
        size = value.shape if isinstance(value, Tensor) else ()
        if len(size) != len(form) or any(isinstance(x, int) and x != y for x, y in zip(form, size, strict=True)):
            rule = f"must have `{key}`, a tensor of shape ({', '.join(map(str, form))})".replace("(N)", "(N,)")
            raise_invalid(where, rule, tuple(size) if isinstance(value, Tensor) else value)
    if len({len(prediction[key]) for key in forms}) > 1:
        sizes = ", ".join(str(len(prediction[key])) for key in forms)
        raise_invalid(where, f"must have equally many {', '.join(forms)}", Plain(sizes))
    labels, scores = prediction["labels"].tolist(), prediction["scores"].tolist()
    shapes = shape.values(prediction[shape.key])
    rows = zip(labels, scores, shapes, strict=True)
    return [{"image_id": image, "category_id": x, "score": score, shape.result_key: value} for x, score, value in rows]
