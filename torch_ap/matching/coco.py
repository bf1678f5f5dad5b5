"""COCO's evaluation: from columns of images to matches, torchmetrics' dictionary, and a table per category."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_ap.geometry.boxes import PairIoU
from torch_ap.inputs.detections import Columns, Kind, distinct_labels, image_of, int32_if_held
from torch_ap.matching import assignment, candidate_pairs, stored
from torch_ap.matching.candidate_pairs import Candidates, Pairs
from torch_ap.matching.coco_numbers import CocoNumbers
from torch_ap.matching.coco_settings import Classes, CocoSettings, Objects
from torch_ap.matching.matched import Matches, Partners, Shares
from torch_ap.ranking import order, segments
from torch_ap.rules.class_names import ClassNames, check_names, different_names_of, names_of
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native


def classes_of(columns: Columns, shares: Shares | None = None) -> Classes:
    """(K,) the labels that occur, ascending; and for each detection and ground truth its place among them."""
    one, two = columns["detection_labels"], columns["ground_truth_labels"]
    others = [columns[stored.OTHERS]] if stored.OTHERS in columns else []
    distinct, place = distinct_labels(torch.cat([one, two, *others]))
    if shares is not None:
        here, distinct = distinct, shares.labels(distinct)
        place = torch.searchsorted(distinct, here)[place]
    return distinct, place[: len(one)], place[len(one) : len(one) + len(two)]


def match(
    settings: CocoSettings, columns: Columns, iou_type: Kind, *, micro: bool = False, shares: Shares | None = None
) -> CocoNumbers:
    """Match every detection, in all criteria.

    Args:
        settings: thresholds, area ranges and limits.
        columns: all images, or what :mod:`torch_ap.matching.stored` has of their matches.
        iou_type: one of the settings' ``iou_types``.
        micro: whether all labels are one category.
        shares: where these are the images of one process of several.
    """
    classes = classes_of(columns, shares)

    def found() -> Matches:
        if settings.stored is not None and stored.holds(columns):
            return stored.matches_of(columns, settings.criteria(classes[0].device), classes, micro=micro)
        objects = settings.objects(columns, iou_type, classes)
        ranked, candidates, categories = _prepare(settings, columns, classes, micro, objects.rows)
        rows, truths = ranked.rows.index_select(0, candidates.ranked), candidates.truths
        pair_iou = settings.similarity(columns, iou_type, rows, truths, objects.crowd.index_select(0, truths))
        return _matches(settings, ranked, candidates, objects, pair_iou, categories)

    return CocoNumbers(settings, found() if shares is None else shares.matches(found), classes[0], shares)


def all_pairs(
    settings: CocoSettings, columns: Columns, iou_type: Kind, *, micro: bool = False
) -> tuple[Candidates, Pairs, int]:
    """Every pair of one image and category with its IoU, whatever that is; and the number of categories."""
    ranked, candidates, categories = _prepare(settings, columns, classes_of(columns), micro)
    crowd = columns["ground_truth_iscrowd"].bool()[candidates.truths]
    pair_iou = settings.similarity(columns, iou_type, ranked.rows[candidates.ranked], candidates.truths, crowd)
    return candidates, candidate_pairs.overlapping(candidates, pair_iou, 0.0), categories


def _prepare(
    settings: CocoSettings, columns: Columns, classes: Classes, micro: bool, rows: tuple[Tensor, Tensor] | None = None
) -> tuple[candidate_pairs.Ranked, Candidates, int]:
    """Ranked detections, those that share a group with ground truths, number of categories.

    Of the detections and ground truths at ``rows``; None for all.
    """
    labels, detected, true = classes
    if micro:
        detected, true = torch.zeros_like(detected), torch.zeros_like(true)
    categories = 1 if micro else max(1, len(labels))
    image = [image_of(columns[f"{side}s_per_image"]) for side in ("detection", "ground_truth")]
    images = max(1, len(columns["detections_per_image"]))
    scores = columns["detection_scores"]
    if rows is not None:
        scores, detected, image[0] = (x.index_select(0, rows[0]) for x in (scores, detected, image[0]))
        true, image[1] = (x.index_select(0, rows[1]) for x in (true, image[1]))
    ranked = candidate_pairs.rank(
        scores, detected, image[0], categories=categories, images=images, most=settings.limits[-1]
    )
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
    """Find the candidate pairs, match them, and keep the pairs that matched."""
    of_truths = objects.crowd, objects.ignored, objects.truth_area
    crowd, ignored, area = (_at(x, native(candidates.truths)) for x in of_truths)
    criteria = settings.criteria(crowd.device)
    pairs = candidate_pairs.overlapping(candidates, pair_iou, criteria.least)
    valid = native(settings.inside(area)) & ~native(ignored)
    skipped = criteria.spread(~valid)
    matched = assignment.greedy(pairs, candidates.group, skipped, crowd, criteria)
    kept = arrays.places((native(matched) != 0).any(0))
    at = _at(candidates.ranked, native(_at(pairs.detection, kept)))
    by_rank = native(order.stable_argsort(at, len(ranked.rows)))
    at, kept = _at(at, by_rank), kept[by_rank]
    truth, matched = _at(pairs.truth, kept), _at(matched, kept)
    inside = settings.inside(_at(objects.detection_area, native(ranked.rows)))
    if objects.forgiven is not None:
        inside &= ~objects.forgiven.index_select(0, ranked.rows)
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
        partners=Partners(truth, _at(pairs.iou, kept), candidates.truths),
    )


def _at(values: Tensor, places: Any) -> Tensor:
    """The values at native places of the last dimension."""
    return arrays.tensor(arrays.take(native(values), places))


@dataclass(frozen=True)
class Report:
    """What is given out.

    Attributes:
        class_metrics: whether AP and AR of each class are.
        extended_summary: whether COCO's arrays and the IoUs are.
        class_names: names of the labels, in place of their numbers.
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
        """The dictionary that torchmetrics gives.

        Args:
            settings: which numbers are meant.
            columns: all images.
            dtype: of the numbers.
            shares: as of :func:`match`; not for an extended summary.
            matched: :func:`match` with these settings, where there is another than that.
        """
        found_in = matched or partial(match, settings)
        out: dict[str, Any] = {}
        for iou_type in settings.iou_types:
            prefix = "" if len(settings.iou_types) == 1 else f"{iou_type}_"
            micro = settings.average == "micro"
            numbers = found_in(columns, iou_type, micro=micro, shares=shares)
            found: dict[str, Any] = {name: value.to(dtype) for name, value in numbers.summary().items()}
            if self.extended_summary:
                found["ious"] = _ious(settings, columns, iou_type, micro)
                found |= {name: numbers.every(name) for name in ("precision", "recall", "scores")}
            if self.class_metrics and micro:
                numbers = found_in(columns, iou_type, shares=shares)
            found |= self.of_classes(numbers, dtype)
            out |= {prefix + name: value for name, value in found.items()}
        return zero_dimensional(out | {"classes": int32_if_held(numbers.labels)})

    def of_classes(self, numbers: CocoNumbers, dtype: torch.dtype) -> dict[str, Tensor]:
        """AP and AR of each class, -1 where they are not given out."""
        labels = numbers.labels
        last = f"mar_{numbers.settings.limits[-1]}"
        if not self.class_metrics:
            undefined = torch.full((1,), -1, dtype=dtype, device=labels.device)
            return {"map_per_class": undefined, f"{last}_per_class": undefined.clone()}
        ap, ar = (values[..., : len(labels)].to(dtype) for values in numbers.of_categories())
        found = {"map_per_class": ap, f"{last}_per_class": ar}
        if self.class_names is not None:
            names = different_names_of(labels, self.class_names)
            for place, name in enumerate(names):
                found |= {f"map_class_{name}": ap[..., place], f"{last}_class_{name}": ar[..., place]}
        return found


def zero_dimensional(found: dict[str, Any]) -> dict[str, Any]:
    """Tensors of one number as 0-d ones, as every torchmetrics metric gives them."""
    return {
        name: value.squeeze() if isinstance(value, Tensor) and value.numel() == 1 else value
        for name, value in found.items()
    }


def per_class(numbers: CocoNumbers, class_names: ClassNames, place: int, score_threshold: float) -> dict[str, Any]:
    """A table with one row per class, as a dictionary of columns.

    Args:
        numbers: of macro averaging.
        class_names: names of the labels.
        place: which IoU threshold, for ``tp`` and ``fp``.
        score_threshold: the lowest score that counts for ``tp`` and ``fp``.
    """
    ap, ar = numbers.of_categories()
    tp, fp = numbers.matches.counts_at(0, place, score_threshold)
    columns = {
        "ap": ap,
        "ap_50": numbers.of_categories_at(0.5),
        "ap_75": numbers.of_categories_at(0.75),
        "ar": ar,
        "ground_truths": numbers.matches.relevant[0].clone(),
        "detections": segments.count(numbers.matches.ranked.category, numbers.matches.categories),
        "tp": tp,
        "fp": fp,
    }
    known = {"class": numbers.labels.clone(), "name": names_of(numbers.labels, class_names)}
    return known | {name: column[: len(numbers.labels)] for name, column in columns.items()}


def _ious(settings: CocoSettings, columns: Columns, iou_type: Kind, micro: bool) -> dict[tuple[int, int], Any]:
    """The IoU of the detections, best first, with the ground truths of each image and class: (D, G) float32.

    Where an image has no detection or no ground truth of a class it is an empty list, as in pycocotools.
    """
    candidates, pairs, categories = all_pairs(settings, columns, iou_type, micro=micro)
    labels = [0] if micro else classes_of(columns)[0].tolist()
    images = len(columns["detections_per_image"])
    out: dict[tuple[int, int], Any] = {(image, label): [] for image in range(images) for label in labels}
    group, sizes = torch.unique_consecutive(candidates.group[pairs.truth], return_counts=True)
    parts = torch.split(pairs.iou.to(torch.float32), sizes.tolist())
    widths = torch.unique_consecutive(candidates.group, return_counts=True)
    width = dict(zip(widths[0].tolist(), widths[1].tolist(), strict=True))
    for number, part in zip(group.tolist(), parts, strict=True):
        out[number // categories, labels[number % categories]] = part.reshape(-1, width[number])
    return out
