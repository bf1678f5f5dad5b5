"""Results of single images in pycocotools' form, from matches, and numbers from such results."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from torch_ap.core.ranking.order import Array
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching.precision_tables import SPACING
from torch_ap.detection.rules.coco import iou_matrices
from torch_ap.detection.rules.coco_numbers import CocoNumbers


def images_of_matches(
    numbers: CocoNumbers, params: Any, truth_ids: Array, detection_ids: Array
) -> list[dict[str, Any] | None]:
    """Return the result of each category, area range and image, in this order of loops.

    Args:
        numbers: the numbers whose matches are listed.
        params: the parameters of the evaluation.
        truth_ids: the ids of all ground truths, in the order of the input rows.
        detection_ids: the ids of all detections.
    """
    matches, categories = numbers.matches, numbers.matches.categories
    partners = matches.partners
    assert partners is not None
    labels = _labels(numbers, params)
    by_group = matches.ranked.by_group.numpy()
    place = np.empty_like(by_group)  # of each ranked detection among the detections by group
    place[by_group] = np.arange(len(by_group))
    detected = matches.ranked.rows.numpy()[by_group]
    group, truth_group = matches.ranked.group.numpy()[by_group], matches.truth_group.numpy()
    at, truth = place[matches.at.numpy()], partners.truth.numpy()
    order = np.argsort(at, kind="stable")
    at, truth = at[order], truth[order]
    truth_ids, detection_ids = truth_ids[partners.rows.numpy()], detection_ids[detected]
    scores = matches.ranked.score.numpy()[by_group]
    edges = np.arange(len(params.imgIds) * categories + 1)
    starts, truth_starts = np.searchsorted(group, edges), np.searchsorted(truth_group, edges)
    out: dict[tuple[Any, int, int], dict[str, Any]] = {}
    for number, area in enumerate(params.areaRng):
        flags = matches.criteria.range_flags(matches.matched, number).numpy()[:, order]
        ignored = ~matches.valid[number].numpy()
        found = np.zeros((len(flags), len(by_group)))
        matched_by = np.zeros((len(flags), len(ignored)))
        forgiven, is_matched = np.zeros((2, *found.shape), bool)
        for row, pairs in enumerate(flags):
            found[row, at[pairs]] = truth_ids[truth[pairs]]
            forgiven[row, at[pairs]] = ignored[truth[pairs]]
            matched_by[row, truth[pairs]] = detection_ids[at[pairs]]
            is_matched[row, at[pairs]] = True
        forgiven |= ~is_matched & ~matches.inside[number].numpy()[by_group]
        last = np.lexsort((ignored, truth_group))  # ignored ground truths last in each group
        for cell in np.flatnonzero((np.diff(starts) > 0) | (np.diff(truth_starts) > 0)).tolist():
            image, category = divmod(cell, categories)
            mine, true = slice(starts[cell], starts[cell + 1]), last[truth_starts[cell] : truth_starts[cell + 1]]
            out[labels[category], number, image] = {
                "image_id": params.imgIds[image],
                "category_id": labels[category],
                "aRng": area,
                "maxDet": params.maxDets[-1],
                "dtIds": detection_ids[mine].tolist(),
                "gtIds": truth_ids[true].tolist(),
                "dtMatches": found[:, mine],
                "gtMatches": matched_by[:, true],
                "dtScores": scores[mine].tolist(),
                "gtIgnore": ignored[true].astype(np.int64),
                "dtIgnore": forgiven[:, mine],
            }
    return [
        out.get((label, number, image))
        for label in (params.catIds if params.useCats else [-1])
        for number in range(len(params.areaRng))
        for image in range(len(params.imgIds))
    ]


def _labels(numbers: CocoNumbers, params: Any) -> list[Any]:
    """Return the id of each category of the numbers."""
    return [params.catIds[index] for index in numbers.labels.tolist()] if params.useCats else [-1]


def ious_of_images(numbers: CocoNumbers, columns: Columns, params: Any) -> dict[tuple[Any, Any], Any]:
    """Return the (D, G) IoU of each image and category; an empty list without detections or ground truths."""
    matrices = iou_matrices(numbers.settings, columns, params.iouType, micro=not params.useCats)
    labels = _labels(numbers, params)
    names = params.catIds if params.useCats else [-1]
    out: dict[tuple[Any, Any], Any] = {(image, label): [] for image in params.imgIds for label in names}
    return out | {(params.imgIds[image], labels[place]): iou.numpy() for (image, place), iou in matrices.items()}


def all_categories(numbers: CocoNumbers, params: Any, names: Sequence[str]) -> dict[str, Array]:
    """Return arrays of all categories of the parameters, -1 for categories without any object.

    Args:
        numbers: the numbers of the categories with objects.
        params: the parameters.
        names: "precision", "recall" or "scores".
    """
    out = {name: numbers.every(name).numpy() for name in sorted(names, reverse=True)}  # tables of scores have the rest
    present = numbers.labels.numpy()
    for name, values in out.items() if params.useCats else ():
        out[name] = np.full((*values.shape[:-3], len(params.catIds), *values.shape[-2:]), -1.0)
        out[name][..., present, :, :] = values[..., : len(present), :, :]
    return out


def accumulate_images(images: Sequence[Any], params: Any, evaluated: Any) -> dict[str, Array]:
    """Return precision, recall and scores from the results of single images.

    Args:
        images: the result of each category, area range and image of ``evaluated``, or None.
        params: the parameters whose categories, area ranges, images and limits are accumulated.
        evaluated: the parameters of the evaluation.
    """
    categories = evaluated.catIds if evaluated.useCats else [-1]
    wanted = params.catIds if params.useCats else [-1]
    results = np.empty(len(images), object)
    results[:] = images
    table = results.reshape(len(categories), len(evaluated.areaRng), len(evaluated.imgIds))
    rows = [place for place, label in enumerate(categories) if label in set(wanted)]
    ranges = {tuple(x) for x in params.areaRng}
    areas = [place for place, area in enumerate(map(tuple, evaluated.areaRng)) if area in ranges]
    limits = [most for most in evaluated.maxDets if most in set(params.maxDets)]
    selected = [place for place, image in enumerate(evaluated.imgIds) if image in set(params.imgIds)]
    shape = (len(params.iouThrs), len(params.recThrs), len(wanted), len(params.areaRng), len(params.maxDets))
    precision, scores = np.full(shape, -1.0), np.full(shape, -1.0)
    recall = np.full((shape[0], *shape[2:]), -1.0)
    for k, row in enumerate(rows):
        for a, area in enumerate(areas):
            cell = [x for x in table[row, area, selected] if x is not None]
            total = sum(int(np.count_nonzero(np.asarray(x["gtIgnore"]) == 0)) for x in cell)
            if not cell or not total:
                continue
            for m, most in enumerate(limits):
                values = _accumulate_cell(cell, most, total, np.asarray(params.recThrs))
                precision[:, :, k, a, m], scores[:, :, k, a, m], recall[:, k, a, m] = values
    return {"precision": precision, "recall": recall, "scores": scores}


def _accumulate_cell(cell: Sequence[Any], most: int, total: int, levels: Array) -> tuple[Array, Array, Array]:
    """Return precision and score at recall levels, (T, R) each, and recall, (T,), of one category and area range."""
    score = np.concatenate([np.asarray(x["dtScores"][:most], np.float64) for x in cell])
    order = np.argsort(-score, kind="stable")
    matched, ignored = (
        np.concatenate([np.asarray(x[key])[:, :most] for x in cell], 1)[:, order] for key in ("dtMatches", "dtIgnore")
    )
    ignored, hit = ignored != 0, matched != 0
    tp = (hit & ~ignored).cumsum(1).astype(np.float64)
    fp = (~hit & ~ignored).cumsum(1).astype(np.float64)
    recall, precision = tp / total, tp / (fp + tp + SPACING)
    precision = np.maximum.accumulate(precision[:, ::-1], 1)[:, ::-1]
    at_level, score_at_level = np.zeros((len(tp), len(levels))), np.zeros((len(tp), len(levels)))
    for row, values in enumerate(recall):
        place = np.searchsorted(values, levels)
        reached = np.logical_and.accumulate(place < len(values))
        at_level[row, reached] = precision[row, place[reached]]
        score_at_level[row, reached] = score[order][place[reached]]
    return at_level, score_at_level, recall[:, -1] if score.size else np.zeros(len(tp))
