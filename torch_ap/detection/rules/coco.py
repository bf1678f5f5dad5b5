"""COCO's evaluation: matches, and the dictionary of results that torchmetrics returns."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.base.class_names import ClassNames, check_names, unique_label_names
from torch_ap.core.ranking import order, segments
from torch_ap.detection.inputs.images import Columns, Kind, image_ids, label_flags
from torch_ap.detection.matching import assignment, candidate_pairs, few_boxes, stored
from torch_ap.detection.matching.candidate_pairs import Candidates
from torch_ap.detection.matching.matched import Matches, Partners, Shares
from torch_ap.detection.rules.coco_numbers import Classes, CocoNumbers, CocoSettings, Objects
from torch_ap.detection.shapes.boxes import PairIoU

_MOST_BOXES = 256  # detections and ground truths; above, NumPy's calls take less time than Python
_MOST_PAIRS = 1 << 12  # detections times ground truths


def classes_of(columns: Columns, shares: Shares | None = None) -> Classes:
    """Return the (K,) distinct labels, ascending, and the index of each detection and ground truth into them."""
    detected, true = columns["detection_labels"], columns["ground_truth_labels"]
    others = [columns[stored.OTHERS]] if stored.OTHERS in columns else []
    distinct, index = distinct_labels(torch.cat([detected, true, *others]))
    if shares is not None:
        local, distinct = distinct, shares.labels(distinct)
        index = torch.searchsorted(distinct, local)[index]
    return distinct, index[: len(detected)], index[len(detected) : len(detected) + len(true)]


def distinct_labels(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the labels that occur, ascending, and the index of each label among them."""
    if (occurs := label_flags(labels)) is None:
        distinct, index = torch.unique(labels, return_inverse=True)
        return distinct, index
    index = native(occurs).cumsum(0) - 1
    return segments.flag_places(occurs), arrays.tensor(index[native(labels)])


def match(
    settings: CocoSettings,
    columns: Columns,
    iou_type: Kind,
    *,
    micro: bool = False,
    shares: Shares | None = None,
    kept: Tensor | None = None,
) -> CocoNumbers:
    """Match all detections, in all criteria.

    Args:
        settings: thresholds, area ranges and limits.
        columns: all images, or their stored matches (:mod:`torch_ap.detection.matching.stored`).
        iou_type: one of the ``iou_types`` of the settings.
        micro: whether all labels are one category.
        shares: the exchange with other processes that have the other images; None for one process.
        kept: (D,) bool, the detections that are matched; None for all. The detections of a few boxes are all matched.
    """
    if shares is None and (few := _match_few_boxes(settings, columns, micro=micro)) is not None:
        return CocoNumbers(settings, few[1], few[0])
    classes = classes_of(columns, shares)

    def local_matches() -> Matches:
        if settings.stored is not None and stored.holds(columns):
            return stored.matches_of(columns, settings.criteria(classes[0].device), classes, micro=micro)
        objects = settings.objects(columns, iou_type, classes)
        if kept is not None:
            objects.keep(kept)
        most = settings.limits[-1]
        ranked, candidates, categories = rank_images(columns, classes, micro=micro, most=most, rows=objects.rows)
        rows, truths = ranked.rows.index_select(0, candidates.ranked), candidates.truths
        pair_iou = settings.similarity(columns, iou_type, rows, truths, objects.crowd.index_select(0, truths))
        return _matches(settings, ranked, candidates, objects, pair_iou, categories)

    matches = local_matches() if shares is None else shares.matches(local_matches)
    return CocoNumbers(settings, matches, classes[0], shares)


def _match_few_boxes(settings: CocoSettings, columns: Columns, *, micro: bool) -> tuple[Tensor, Matches] | None:
    """Return the labels and the matches of a few boxes on CPU by COCO's rules; None for other input."""
    has_other_rules = settings.own_iou is not None or type(settings).objects is not CocoSettings.objects
    if has_other_rules or settings.iou_types != ("bbox",) or "ground_truth_boxes" not in columns:
        return None
    found, true = (columns[f"{side}_boxes"].shape[0] for side in ("detection", "ground_truth"))
    are_few = found + true <= _MOST_BOXES and found * true <= _MOST_PAIRS and columns["detection_boxes"].is_cpu
    if not are_few or "detection_area" in columns:
        return None
    criteria = settings.criteria(columns["detection_boxes"].device)
    if criteria.word_count > 1 or criteria.least <= 0:
        return None
    areas, most = tuple(settings.areas.values()), settings.limits[-1]
    options = {"use_given_area": settings.use_given_area, "micro": micro}
    return few_boxes.match(columns, settings.box_format, areas, criteria, most, **options)


def iou_matrices(
    settings: CocoSettings, columns: Columns, iou_type: Kind, *, micro: bool
) -> dict[tuple[int, int], Tensor]:
    """Return the (D, G) float64 IoU of each image and category with pairs, detections by descending score."""
    classes, most = classes_of(columns), settings.limits[-1]
    objects = settings.objects(columns, iou_type, classes)
    ranked, candidates, categories = rank_images(columns, classes, micro=micro, most=most, rows=objects.rows)
    crowd = objects.crowd[candidates.truths]
    pair_iou = settings.similarity(columns, iou_type, ranked.rows[candidates.ranked], candidates.truths, crowd)
    pairs = candidate_pairs.overlapping(candidates, pair_iou, 0.0)
    group, sizes = torch.unique_consecutive(candidates.group[pairs.truth], return_counts=True)
    widths, matrices = Counter(candidates.group.tolist()), torch.split(pairs.iou, sizes.tolist())
    rows = zip(group.tolist(), matrices, strict=True)
    return {divmod(number, categories): iou.reshape(-1, widths[number]) for number, iou in rows}


def rank_images(
    columns: Columns,
    classes: Classes,
    *,
    micro: bool = False,
    most: int | None = None,
    rows: tuple[Tensor, Tensor] | None = None,
) -> tuple[candidate_pairs.Ranked, Candidates, int]:
    """Return the ranked detections, the candidates and the number of categories.

    Args:
        columns: all images.
        classes: the result of :func:`classes_of`.
        micro: whether all labels are one category.
        most: the maximum number of detections per image and category; None for no limit.
        rows: rows of the evaluated detections and ground truths; None for all.
    """
    labels, detected, true = classes
    if micro:
        detected, true = torch.zeros_like(detected), torch.zeros_like(true)
    categories = 1 if micro else max(1, len(labels))
    image = [image_ids(columns[f"{side}s_per_image"]) for side in ("detection", "ground_truth")]
    images = max(1, len(columns["detections_per_image"]))
    scores = columns["detection_scores"]
    if rows is not None:
        scores, detected, image[0] = (x.index_select(0, rows[0]) for x in (scores, detected, image[0]))
        true, image[1] = (x.index_select(0, rows[1]) for x in (true, image[1]))
    ranked = candidate_pairs.rank(scores, detected, image[0], categories=categories, images=images, most=most)
    candidates = candidate_pairs.find_candidates(ranked, image[1] * categories + true, images * categories)
    if rows is not None:
        ranked = ranked._replace(rows=rows[0].index_select(0, ranked.rows))
        candidates = candidates._replace(truths=rows[1].index_select(0, candidates.truths))
    return ranked, candidates, categories


def _matches(
    settings: CocoSettings,
    ranked: candidate_pairs.Ranked,
    candidates: Candidates,
    objects: Objects,
    pair_iou: PairIoU,
    categories: int,
) -> Matches:
    """Compute the candidate pairs, match them, and keep the matched pairs."""
    per_truth = objects.crowd, objects.ignored, objects.truth_area
    crowd, ignored, area = (_take(x, native(candidates.truths)) for x in per_truth)
    criteria = settings.criteria(crowd.device)
    pairs = candidate_pairs.overlapping(candidates, pair_iou, criteria.least)
    valid = native(settings.inside(area)) & ~native(ignored)
    skipped = criteria.spread(~valid)
    matched = assignment.greedy(pairs, candidates.group, skipped, crowd, criteria)
    matched_pairs = arrays.true_indices((native(matched) != 0).any(0))
    at = _take(candidates.ranked, native(_take(pairs.detection, matched_pairs)))
    by_rank = native(order.stable_argsort(at, len(ranked.rows)))
    at, matched_pairs = _take(at, by_rank), matched_pairs[by_rank]
    truth, matched = _take(pairs.truth, matched_pairs), _take(matched, matched_pairs)
    inside = settings.inside(_take(objects.detection_area, native(ranked.rows)))
    if objects.ignored_if_unmatched is not None:
        inside &= ~objects.ignored_if_unmatched.index_select(0, ranked.rows)
    return Matches(
        ranked=ranked,
        at=at,
        matched=matched,
        true_positive=arrays.tensor(native(matched) & ~arrays.take(native(skipped), native(truth))),
        inside=inside,
        truth_group=candidates.group,
        valid=arrays.tensor(valid),
        categories=categories,
        criteria=criteria,
        partners=Partners(truth, _take(pairs.iou, matched_pairs), candidates.truths),
    )


def _take(values: Tensor, places: Any) -> Tensor:
    """Return the values at native indices of the last dimension."""
    return arrays.tensor(arrays.take(native(values), places))


@dataclass(frozen=True)
class Report:
    """Contents of the dictionary of results.

    Attributes:
        class_metrics: whether it contains AP and AR of each class.
        extended_summary: whether it contains COCO's arrays and the IoUs.
        class_names: names of the labels, which replace their numbers.
    """

    class_metrics: bool = False
    extended_summary: bool = False
    class_names: ClassNames = None

    def __post_init__(self) -> None:
        check_names(self.class_names)

    def __call__(
        self,
        settings: CocoSettings,
        columns: Columns,
        dtype: torch.dtype,
        shares: Shares | None = None,
        matched: Callable[..., CocoNumbers] | None = None,
    ) -> dict[str, Any]:
        """Return the dictionary of results, as torchmetrics does.

        Args:
            settings: thresholds, recall levels, limits and area ranges.
            columns: all images.
            dtype: the dtype of the numbers.
            shares: as in :func:`match`; cannot be combined with an extended summary.
            matched: replaces :func:`match` with these settings, for instance by cached matches.
        """
        matched = matched or partial(match, settings)
        out: dict[str, Any] = {}
        for iou_type in settings.iou_types:
            prefix = "" if len(settings.iou_types) == 1 else f"{iou_type}_"
            micro = settings.average == "micro"
            numbers = matched(columns, iou_type, micro=micro, shares=shares)
            results: dict[str, Any] = {**numbers.summary(dtype)}
            if self.extended_summary:
                results["ious"] = _ious(settings, columns, iou_type, micro)
                results |= {name: numbers.every(name) for name in ("precision", "recall", "scores")}
            if self.class_metrics and micro:
                numbers = matched(columns, iou_type, shares=shares)
            results |= self.class_results(numbers, dtype)
            out |= {prefix + name: value for name, value in results.items()}
        return zero_dimensional(out | {"classes": narrow_to_int32(numbers.labels)})

    def class_results(self, numbers: CocoNumbers, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return AP and AR of each class; without ``class_metrics`` one entry of -1, as in torchmetrics."""
        labels = numbers.labels
        last = f"mar_{numbers.settings.limits[-1]}"
        if not self.class_metrics:
            undefined = torch.full((1,), -1, dtype=dtype, device=labels.device)
            return {"map_per_class": undefined, f"{last}_per_class": undefined.clone()}
        ap, ar = (values[..., : len(labels)].to(dtype) for values in numbers.category_means())
        results = {"map_per_class": ap, f"{last}_per_class": ar}
        if self.class_names is not None:
            names = unique_label_names(labels, self.class_names)
            for index, name in enumerate(names):
                results |= {f"map_class_{name}": ap[..., index], f"{last}_class_{name}": ar[..., index]}
        return results


def narrow_to_int32(labels: Tensor) -> Tensor:
    """Return labels as int32, torchmetrics' dtype, if int32 represents all of them; else unchanged."""
    narrow = labels.to(torch.int32)
    return labels if arrays.any_true(native(narrow) != native(labels)) else narrow


def zero_dimensional(results: dict[str, Any]) -> dict[str, Any]:
    """Convert tensors with one element to 0-d tensors, as torchmetrics does."""
    return {
        name: value.squeeze() if isinstance(value, Tensor) and value.ndim and value.numel() == 1 else value
        for name, value in results.items()
    }


def _ious(settings: CocoSettings, columns: Columns, iou_type: Kind, micro: bool) -> dict[tuple[int, int], Any]:
    """Return the IoU matrix of each image and class: (D, G) float32, detections by descending score.

    If an image has no detections or no ground truths of a class, the entry is an empty list, as in pycocotools.
    """
    matrices = iou_matrices(settings, columns, iou_type, micro=micro)
    labels = [0] if micro else classes_of(columns)[0].tolist()
    images = range(len(columns["detections_per_image"]))
    out: dict[tuple[int, int], Any] = {(image, label): [] for image in images for label in labels}
    return out | {(image, labels[place]): iou.to(torch.float32) for (image, place), iou in matrices.items()}
