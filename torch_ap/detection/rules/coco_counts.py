"""True positives, false positives and missed ground truths of COCO's matching at one score and one IoU threshold.

A small batch is matched pair by pair in Python, which takes less time than the calls of the matching of all criteria.
"""

from dataclasses import replace

import numpy as np
import torch

from torch_ap.core.base import cached
from torch_ap.core.measures.counts import Counts
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching.candidate_pairs import descending
from torch_ap.detection.rules import coco
from torch_ap.detection.rules.coco_numbers import CocoSettings, settings_of
from torch_ap.detection.shapes import boxes

_MOST_PAIRS = 1 << 16  # pairs in images; from here the matching of all groups in parallel costs less


@cached.settings_cache
def settings_of_counts(box_format: str, iou_threshold: float, validate_args: bool) -> CocoSettings:
    """Return COCO's settings of boxes with one IoU threshold, limit and area range."""
    settings = settings_of(
        iou_type="bbox", box_format=box_format, iou_thresholds=[iou_threshold], validate_args=validate_args
    )
    return replace(settings, areas={"all": settings.areas["all"]}, limits=settings.limits[-1:])


def counts_of_boxes(settings: CocoSettings, columns: Columns, score_threshold: float) -> Counts:
    """Return the counts of all classes, 0-d.

    Args:
        settings: the result of :func:`settings_of_counts`.
        columns: all images.
        score_threshold: the least score, converted to the dtype of ``segments.comparable``.
    """
    scores = segments.comparable(columns["detection_scores"])
    chosen = scores >= torch.tensor(score_threshold, dtype=scores.dtype, device="cpu")
    counts = _counts_of_small_batch(settings, columns, chosen.numpy()) if scores.is_cpu else None
    if counts is not None:
        tp, fp, m = (torch.tensor(x, dtype=torch.float64, device="cpu") for x in counts)
    else:
        matches = coco.match(settings, columns, "bbox").matches
        above = chosen.index_select(0, matches.ranked.rows)
        tp, fp = (segments.as_float64((above & flags).sum()) for flags in matches.flags(0, 0))
        m = segments.as_float64(matches.relevant.sum())
    return Counts(tp=tp, fp=fp, fn=m - tp, tn=torch.full_like(tp, torch.nan))


def _counts_of_small_batch(settings: CocoSettings, columns: Columns, chosen: Array) -> tuple[int, int, int] | None:
    """Return the numbers of true positives, false positives and ground truths.

    None for large batches, and if an image has more chosen detections than the limit of a class.
    """
    rows, truths = chosen.nonzero()[0], columns["ground_truths_per_image"].numpy()
    sizes = np.diff(rows.searchsorted(columns["detections_per_image"].numpy().cumsum()), prepend=0)
    if sizes.max(initial=0) > settings.limits[-1] or sizes @ truths > _MOST_PAIRS:
        return None
    kept = torch.from_numpy(rows)
    found = boxes.to_xywh(segments.pick(columns["detection_boxes"], kept), settings.box_format)
    true = boxes.to_xywh(columns["ground_truth_boxes"], settings.box_format)
    crowd, area = columns["ground_truth_iscrowd"].bool(), columns["ground_truth_area"]
    area = torch.where(area > 0, area, boxes.area(true))
    ignored = ~settings.inside(area)[0].numpy() | crowd.numpy()
    is_false = settings.inside(boxes.area(found))[0].numpy()  # unmatched detections outside the range do not count
    width = truths.repeat(sizes)
    d = np.arange(len(rows)).repeat(width)
    g = np.arange(len(d)) + ((truths.cumsum() - truths).repeat(sizes) - (width.cumsum() - width)).take(d)
    detected, true_labels = (columns[f"{side}_labels"].numpy() for side in ("detection", "ground_truth"))
    same = (detected.take(rows).take(d) == true_labels.take(g)).nonzero()[0]
    pair_iou, least = boxes.coco_pairs(found, true, crowd), settings.criteria(area.device).least
    pairs = pair_iou(torch.from_numpy(d.take(same)), torch.from_numpy(g.take(same)), least)
    score_key = descending(segments.pick(columns["detection_scores"], kept)).numpy()
    d, g, iou = (x.numpy() for x in pairs)
    matched, partners = _match(score_key, d, g, iou, ignored, crowd.tolist())
    is_false[matched] = False
    tp = len(partners) - int(np.count_nonzero(ignored[partners]))
    return tp, int(np.count_nonzero(is_false)), len(ignored) - int(np.count_nonzero(ignored))


def _match(
    score_key: Array, d: Array, g: Array, iou: Array, ignored: Array, crowd: list[bool]
) -> tuple[list[int], list[int]]:
    """Return the matched detections and their ground truths by COCO's rule.

    By descending score, each detection takes the free ground truth of the highest IoU, the last of equal ones. Ignored
    ground truths come after all others. A crowd is never used up.

    Args:
        score_key: (N,) numbers that ascend as the scores descend.
        d, g, iou: (P,) the pairs that reach the IoU threshold, by detection and ground truth.
        ignored: (G,) bool.
        crowd: (G,) flags.
    """
    d, g, iou = d[::-1], g[::-1], iou[::-1]
    preferred = np.lexsort((-iou, ignored.take(g), d, score_key.take(d)))
    matches: tuple[list[int], list[int]] = ([], [])
    free, last = [True] * len(crowd), -1
    for detection, truth in zip(d.take(preferred).tolist(), g.take(preferred).tolist(), strict=True):
        if detection != last and free[truth]:
            last, free[truth] = detection, crowd[truth]
            matches[0].append(detection)
            matches[1].append(truth)
    return matches
