"""Rows for every public metric class and function, for laws that apply to all metrics.

A new metric, or a new kind of input, is one row in these tables. ``test_every_metric`` fails if a public name has no
row.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator

import torch_ap
from tests.support import cases
from tests.support.oracles_detection import random_intervals, random_poses, random_rotated, random_scene, to_voc
from tests.support.oracles_lvis import frequencies_of, random_federated
from torch_ap import curves, detection, functional, inference
from torch_ap.detection.shapes import rotated
from torch_ap.inference import posteriors, published, random_ranking

Arguments = dict[str, Any]
Draw = Callable[[int, Generator], Arguments]  # arguments: approximate number of items, generator


@dataclass(frozen=True)
class Row:
    """A metric or function with its settings and its random input.

    Attributes:
        call: metric class, or function.
        draw: function that draws the keyword arguments of ``update``, or of the function.
        settings: keyword arguments of the class, or further ones of the function.
        any_scores: whether scores outside [0, 1] are valid.
    """

    call: Callable[..., Any]
    draw: Draw
    settings: Arguments = field(default_factory=dict)
    any_scores: bool = True

    @property
    def kind(self) -> str:
        """Kind of input: "images", "queries", or "items" of one ranking or of classes."""
        name = self.call.__name__
        return "images" if "Mean" in name else "queries" if name.startswith("Retrieval") else "items"

    @property
    def learns(self) -> bool:
        """Whether the metric learns bins from the first items, so that their order matters."""
        return "pilot" in self.settings

    def new(self, **more: Any) -> Any:
        """Return a new metric."""
        return self.call(**self.settings, **more)

    def value(self, drawn: Arguments) -> Any:
        """Return the result of the function."""
        return self.call(**drawn, **self.settings)

    def batches(self, count: int = 2, size: int = 24, seed: int = 0) -> list[Arguments]:
        """Draw random batches, equal in every run."""
        generator = Generator().manual_seed(seed)
        return [self.draw(size, generator) for _ in range(count)]


def pair(make: Callable[[int, Generator], tuple[torch.Tensor, torch.Tensor]], **more: Draw) -> Draw:
    """Draw the scores and targets of the table of cases, with further arguments."""

    def draw(size: int, generator: Generator) -> Arguments:
        preds, target = make(size, generator)
        return {"preds": preds, "target": target, **{name: also(size, generator) for name, also in more.items()}}

    return draw


def weights(size, generator):
    return torch.randint(1, 9, (size,), generator=generator) / 8


def groups(size, generator):
    return torch.randint(12, (size,), generator=generator)


def weights_of_scores(size, generator):
    return torch.randint(1, 9, (size, cases.CLASSES), generator=generator) / 8


# -- queries

QUERIES, DEPTH = 5, 6


def flat(size, generator):
    preds, target = cases.binary(size, generator)
    return {"preds": preds, "target": target, "indexes": torch.randint(QUERIES, (size,), generator=generator) * 10**9}


def rows(size, generator):
    preds, target = cases.binary(size // DEPTH * DEPTH, generator)
    return {"preds": preds.reshape(-1, DEPTH), "target": target.reshape(-1, DEPTH)}


def masked_rows(size, generator):
    drawn = rows(size, generator)
    return {**drawn, "mask": torch.rand(drawn["preds"].shape, generator=generator) < 0.8}


def judged_rows(size, generator):
    drawn = rows(size, generator)
    return {**drawn, "num_relevant": drawn["target"].sum(1) + 1}


def judged_items(size, generator):
    """Draw items with the m of each query, equal in every batch and large enough for all batches."""
    drawn = flat(size, generator)
    return {**drawn, "num_relevant": 1000 + drawn["indexes"] // 10**9}


def judged_queries(size, generator):
    return {**flat(size, generator), "num_relevant": {query * 10**9: 1000 + query for query in range(QUERIES + 1)}}


def grouped_items(size, generator):
    drawn = flat(size, generator)
    return {**drawn, "groups": drawn["indexes"] % 7 - 3}


def grouped_queries(size, generator):
    return {**judged_queries(size, generator), "groups": {query * 10**9: query // 2 for query in range(QUERIES + 1)}}


def grouped_rows(size, generator):
    drawn = rows(size, generator)
    return {**drawn, "groups": torch.randint(3, drawn["preds"].shape[:1], generator=generator)}


def graded_rows(size, generator):
    drawn = rows(size, generator)
    return {**drawn, "target": torch.randint(4, drawn["preds"].shape, generator=generator)}


def graded_flat(size, generator):
    return {**flat(size, generator), "target": torch.randint(4, (size,), generator=generator)}


def retrieved_flat(size, generator):
    drawn = graded_flat(size, generator)
    return {**drawn, "retrieved": torch.rand(size, generator=generator) < 0.7}


def retrieved_rows(size, generator):
    drawn = graded_rows(size, generator)
    return {**drawn, "retrieved": torch.rand(drawn["preds"].shape, generator=generator) < 0.7}


def ignored_flat(size, generator):
    return {**flat(size, generator), "target": torch.randint(-1, 2, (size,), generator=generator)}


# -- embeddings


def vectors(size, generator):
    """Draw whole numbers, whose products are exact and often equal."""
    return {
        "preds": torch.randint(-2, 3, (size, 3), generator=generator).float(),
        "target": torch.randint(4, (size,), generator=generator),
    }


def vectors_of_two_sides(size, generator):
    drawn = {
        "is_query": torch.rand(size, generator=generator) < 0.4,
        "groups": torch.randint(2, (size,), generator=generator),
    }
    return {**vectors(size, generator), **drawn}


def tagged_vectors(size, generator):
    return {**vectors(size, generator), "target": (torch.rand(size, 6, generator=generator) < 0.1).long()}


def share_a_tag(queries, gallery):
    return queries.float() @ gallery.float().T


# -- images


def _scene(size, generator):
    seed = int(torch.randint(2**31, (), generator=generator))
    return random_scene(seed, images=max(1, size // 8), classes=3)


def images(size, generator):
    preds, target = _scene(size, generator)
    return {"preds": preds, "target": target}


def grouped_images(size, generator):
    drawn = images(size, generator)
    return {**drawn, "groups": torch.arange(len(drawn["preds"])) % 2}


def drawn_by(make, voc=False, **settings):
    """Draw images of other shapes; crowds are difficult objects for VOC."""

    def draw(size, generator):
        seed = int(torch.randint(2**31, (), generator=generator))
        preds, target = make(seed, images=max(1, size // 8), classes=3, **settings)
        if voc:
            target = [{"difficult": image.pop("iscrowd"), **image} for image in target]
        return {"preds": preds, "target": target}

    return draw


poses, voc_poses = (drawn_by(random_poses, voc, points=5) for voc in (False, True))
turned_boxes, voc_turned_boxes = (drawn_by(random_rotated, voc) for voc in (False, True))
quadrilaterals = drawn_by(random_rotated, box_format="xyxyxyxy")
intervals, voc_intervals = (drawn_by(random_intervals, voc) for voc in (False, True))


def with_areas(draw):
    def draw_with_areas(size, generator):
        drawn = draw(size, generator)
        areas = {side: [{"area": torch.ones(len(x["labels"]))} for x in images] for side, images in drawn.items()}
        return {side: [a | b for a, b in zip(areas[side], images, strict=True)] for side, images in drawn.items()}

    return draw_with_areas


def packed_images(size, generator):
    preds, target = _scene(size, generator)
    return {"preds": _packed(preds), "target": _packed(target)}


def _packed(side):
    counts = torch.tensor([len(image["labels"]) for image in side])
    return {key: torch.cat([image[key] for image in side]) for key in side[0]} | {"counts": counts}


def voc_images(size, generator):
    preds, target = to_voc(*_scene(size, generator))
    return {"preds": preds, "target": target}


def open_images(size, generator):
    """Draw boxes around groups, and verified classes."""
    preds, target = _scene(size, generator)
    for place, truth in enumerate(target):
        truth["group_of"] = truth.pop("iscrowd")
        if place % 2:
            there = truth["labels"].tolist()
            truth["negative_labels"] = torch.tensor([x for x in (place % 3,) if x not in there], dtype=torch.int64)
    return {"preds": preds, "target": target}


def kitti_images(size, generator):
    """Draw detections below the minimal height, objects beyond the level, and ignored regions."""
    preds, target = _scene(size, generator)
    for p, t in zip(preds, target, strict=True):
        p["ignore"] = torch.arange(len(p["labels"])) % 5 == 0
        t["difficult"] = torch.arange(len(t.pop("area"))) % 4 == 0
    return {"preds": preds, "target": target}


def centres(size, generator):
    """Draw points, many of them at a few places."""
    preds, target = _scene(size, generator)
    for image in (*preds, *target):
        image["centers"] = image.pop("boxes")[:, :2] / 8
    return {"preds": preds, "target": [{key: t[key] for key in ("centers", "labels")} for t in target]}


def packed_centres(size, generator):
    return {side: _packed(images) for side, images in centres(size, generator).items()}


def packed_voc_images(size, generator):
    return {side: _packed(images) for side, images in voc_images(size, generator).items()}


federated_images = drawn_by(random_federated)


def packed_federated(size, generator):
    """Draw two lists of ids per image, concatenated, with their lengths under a separate key."""
    drawn = federated_images(size, generator)
    packed = {side: _packed(images) for side, images in drawn.items()}
    for key in ("neg_category_ids", "not_exhaustive_category_ids"):
        packed["target"][f"{key}_counts"] = torch.tensor([len(image[key]) for image in drawn["target"]])
    return packed


def masked_federated(size, generator):
    return {side: _masked(images) for side, images in federated_images(size, generator).items()}


def masked_images(size, generator):
    """Draw dense masks of the boxes at a quarter of their size."""
    preds, target = _scene(size, generator)
    return {"preds": _masked(preds), "target": _masked(target)}


def _masked(side):
    line = torch.arange(80)

    def draw(boxes):
        x, y, w, h = (boxes.long()[:, j, None] // 4 for j in range(4))
        inside = [(line >= start) & (line < start + extent) for start, extent in ((y, h), (x, w))]
        return inside[0][:, :, None] & inside[1][:, None, :]

    return [{"masks": draw(image["boxes"]), **{key: x for key, x in image.items() if key != "boxes"}} for image in side]


def masked_images_of_voc(size, generator):
    drawn = masked_images(size, generator)
    return {**drawn, "target": [{"difficult": image.pop("iscrowd"), **image} for image in drawn["target"]]}


def coded_images(size, generator):
    """Draw masks as COCO's uncompressed run lengths: down the columns, beginning with the background."""

    def code(mask):
        pixels = mask.t().flatten().int()
        edges = torch.cat([pixels[:1] == 1, pixels[1:] != pixels[:-1]]).nonzero().flatten()
        ends = torch.cat([edges, torch.tensor([len(pixels)])])
        return {"size": list(mask.shape), "counts": ends.diff(prepend=torch.zeros(1, dtype=torch.int64)).tolist()}

    drawn = masked_images(size, generator)
    return {
        side: [{**image, "masks": [code(mask) for mask in image["masks"]]} for image in given]
        for side, given in drawn.items()
    }


def images_of_own_iou(size, generator):
    preds, target = _scene(size, generator)
    for p, t in zip(preds, target, strict=True):
        p["ious"] = torch.rand(len(p.pop("boxes")), len(t.pop("boxes")), generator=generator).double()
        p["area"] = torch.ones(len(p["labels"]))
    return {"preds": preds, "target": target}


def inner_product(preds, target, iscrowd):
    """Return a user-defined similarity; a crowd counts like any other ground truth."""
    return (preds * target).sum(1) / (1 + preds.norm(dim=1) * target.norm(dim=1)) * torch.ones_like(iscrowd)


def of_images(preds, target):
    """Return a user-defined similarity of the detections and ground truths of an image."""
    return detection.pairs.interval_iou(preds["intervals"], target["intervals"]) ** 0.5


# -- the tables

IMAGES = {"box_format": "xywh"}
FEDERATED = {**IMAGES, "use_given_area": True, "frequencies": frequencies_of(3)}
ROTATED = {"box_format": "cxcywhr", "iou_type": "rotated"}
TREE = {**IMAGES, "hierarchy": {0: 10, 1: 10, 10: 11}}
POSES = {"box_format": "xywh", "iou_type": "keypoints", "sigmas": [0.03, 0.05, 0.08, 0.1, 0.2]}

METRICS: dict[str, Row] = {
    **{name: Row(case.metric, pair(case.make), case.settings, case.logits) for name, case in cases.CASES.items()},
    "binary_weighted": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary, weights=weights)),
    "binary_groups": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary, groups=groups)),
    "binary_prevalence": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary), {"prevalence": 0.05}),
    "binary_num_relevant": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary), {"num_relevant": 10_000}),
    "binary_sigmoid": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary), {"normalization": "sigmoid"}, False),
    "binary_weighted_101_point": Row(
        torch_ap.BinaryAveragePrecision, pair(cases.binary, weights=weights), {"interpolation": "101-point"}
    ),
    "binary_weighted_thresholds": Row(
        torch_ap.BinaryAveragePrecision, pair(cases.binary, weights=weights), {"thresholds": 5}, False
    ),
    "binary_weighted_adaptive": Row(
        torch_ap.BinaryAveragePrecision, pair(cases.binary, weights=weights), {"bins": "adaptive"}
    ),
    "binary_weighted_learnt": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary, weights=weights), cases.LEARNT),
    "multilabel_scores_weighted_thresholds": Row(
        torch_ap.MultilabelAveragePrecision,
        pair(cases.multilabel, weights=weights_of_scores),
        {**cases.L, "thresholds": 5},
        False,
    ),
    "binary_own_thresholds": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary), {"thresholds": cases.OWN}, False),
    "binary_unchecked": Row(torch_ap.BinaryAveragePrecision, pair(cases.binary), {"validate_args": False}),
    "multiclass_softmax": Row(
        torch_ap.MulticlassAveragePrecision, pair(cases.multiclass), {**cases.C, "normalization": "softmax"}, False
    ),
    "multiclass_items_weighted": Row(
        torch_ap.MulticlassAveragePrecision, pair(cases.multiclass, weights=weights), cases.C
    ),
    "multiclass_pessimistic": Row(
        torch_ap.MulticlassAveragePrecision, pair(cases.multiclass), {**cases.C, "ties": "pessimistic"}
    ),
    "multilabel_expected_at_3": Row(
        torch_ap.MultilabelAveragePrecision, pair(cases.multilabel), {**cases.L, "ties": "expected", "top_k": 3}
    ),
    "multilabel_items_weighted": Row(
        torch_ap.MultilabelAveragePrecision, pair(cases.multilabel, weights=weights), cases.L
    ),
    "multilabel_scores_weighted": Row(
        torch_ap.MultilabelAveragePrecision, pair(cases.multilabel, weights=weights_of_scores), cases.L
    ),
    "multilabel_micro_scores_weighted": Row(
        torch_ap.MultilabelAveragePrecision,
        pair(cases.multilabel, weights=weights_of_scores),
        {**cases.L, "average": "micro"},
    ),
    "task_binary": Row(torch_ap.AveragePrecision, pair(cases.binary), {"task": "binary"}),
    "binary_precision_at_recall": Row(
        torch_ap.BinaryPrecisionAtFixedRecall, pair(cases.binary, weights=weights), {"min_recall": 0.5}
    ),
    "binary_recall_at_precision": Row(
        torch_ap.BinaryRecallAtFixedPrecision, pair(cases.binary), {"min_precision": 0.4, "thresholds": 5}, False
    ),
    "multiclass_precision_at_recall": Row(
        torch_ap.MulticlassPrecisionAtFixedRecall, pair(cases.multiclass), {**cases.C, "min_recall": 0.6}
    ),
    "multiclass_recall_at_precision": Row(
        torch_ap.MulticlassRecallAtFixedPrecision, pair(cases.multiclass), {**cases.C, "min_precision": 0.3}
    ),
    "multilabel_precision_at_recall": Row(
        torch_ap.MultilabelPrecisionAtFixedRecall, pair(cases.multilabel), {**cases.L, "min_recall": 0.3}
    ),
    "multilabel_recall_at_precision": Row(
        torch_ap.MultilabelRecallAtFixedPrecision,
        pair(cases.multilabel, weights=weights_of_scores),
        {**cases.L, "min_precision": 0.5},
    ),
    "query_map": Row(torch_ap.RetrievalMAP, flat),
    "query_map_rows": Row(torch_ap.RetrievalMAP, rows),
    "query_map_mask": Row(torch_ap.RetrievalMAP, masked_rows),
    "query_map_judged_rows": Row(torch_ap.RetrievalMAP, judged_rows),
    "query_map_judged_items": Row(torch_ap.RetrievalMAP, judged_items),
    "query_map_judged_queries": Row(torch_ap.RetrievalMAP, judged_queries, {"missing_queries": "skip"}),
    "query_map_groups": Row(torch_ap.RetrievalMAP, grouped_items),
    "query_map_groups_of_queries": Row(torch_ap.RetrievalMAP, grouped_queries, {"missing_queries": "skip"}),
    "query_map_groups_of_rows": Row(torch_ap.RetrievalMAP, grouped_rows),
    "query_map_graded": Row(torch_ap.RetrievalMAP, graded_rows, {"relevance_level": 2}),
    "query_map_ignored": Row(torch_ap.RetrievalMAP, ignored_flat, {"ignore_index": -1}),
    "query_map_grouped_at_3": Row(
        torch_ap.RetrievalMAP, flat, {"top_k": 3, "ties": "grouped", "denominator": "found", "aggregation": "gm"}
    ),
    "query_map_11_point": Row(torch_ap.RetrievalMAP, flat, {"interpolation": "11-point-trec9"}),
    "query_map_101_point": Row(torch_ap.RetrievalMAP, flat, {"interpolation": "101-point", "relevance_level": 1}),
    "query_map_own_levels": Row(torch_ap.RetrievalMAP, rows, {"interpolation": torch.tensor([0.0, 0.3, 0.75])}),
    "query_map_at_r": Row(torch_ap.RetrievalMAP, judged_rows, {"top_k": "relevant"}),
    "query_precision": Row(torch_ap.RetrievalPrecision, flat, {"top_k": 3, "adaptive_k": True}),
    "query_precision_at_several": Row(torch_ap.RetrievalPrecision, judged_rows, {"top_k": [1, 4, "relevant"]}),
    "query_recall": Row(torch_ap.RetrievalRecall, flat, {"top_k": 2, "aggregation": "median"}),
    "query_f_beta": Row(torch_ap.RetrievalFBeta, flat, {"top_k": 3, "beta": 2.0}),
    "query_fall_out": Row(torch_ap.RetrievalFallOut, flat, {"top_k": 2, "ties": "pessimistic"}),
    "query_hit_rate": Row(torch_ap.RetrievalHitRate, flat, {"top_k": 2, "ties": "optimistic"}),
    "query_mrr": Row(torch_ap.RetrievalMRR, flat, {"empty_target_action": "skip"}),
    "query_r_precision": Row(torch_ap.RetrievalRPrecision, rows),
    "query_auroc": Row(torch_ap.RetrievalAUROC, flat),
    "query_auroc_at_4": Row(torch_ap.RetrievalAUROC, judged_rows, {"top_k": 4, "max_fpr": 0.7}),
    "query_ranks": Row(torch_ap.RetrievalPrecisionRecallCurve, flat, {"max_k": 4, "adaptive_k": True}),
    "query_ranks_judged": Row(torch_ap.RetrievalPrecisionRecallCurve, judged_rows, {"ties": "optimistic"}),
    "query_recall_at_precision": Row(torch_ap.RetrievalRecallAtFixedPrecision, rows, {"min_precision": 0.4}),
    "query_ndcg": Row(torch_ap.RetrievalNormalizedDCG, graded_flat),
    "query_ndcg_rows": Row(torch_ap.RetrievalNormalizedDCG, graded_rows, {"top_k": 3, "gains": "exponential"}),
    "query_ndcg_retrieved": Row(torch_ap.RetrievalNormalizedDCG, retrieved_flat, {"ties": "optimistic"}),
    "query_ndcg_retrieved_rows": Row(torch_ap.RetrievalNormalizedDCG, retrieved_rows, {"ties": "grouped"}),
    "query_ndcg_judged": Row(torch_ap.RetrievalNormalizedDCG, judged_items, {"top_k": 4, "ties": "pessimistic"}),
    "query_ndcg_ignored": Row(
        torch_ap.RetrievalNormalizedDCG, ignored_flat, {"ignore_index": -1, "relevance_level": 1}
    ),
    "query_rbp": Row(torch_ap.RetrievalRankBiasedPrecision, flat, {"top_k": 5, "p": 0.6}),
    "embeddings": Row(torch_ap.EmbeddingMAP, vectors, {"similarity": "dot"}, False),
    "embeddings_gallery": Row(
        torch_ap.EmbeddingMAP, vectors_of_two_sides, {"similarity": "euclidean", "top_k": 3, "ties": "grouped"}, False
    ),
    "embeddings_tags": Row(
        torch_ap.EmbeddingMAP, tagged_vectors, {"similarity": "dot", "relevance": share_a_tag}, False
    ),
    "coco": Row(torch_ap.MeanAveragePrecision, images, {**IMAGES, "class_metrics": True}),
    "coco_packed": Row(torch_ap.MeanAveragePrecision, packed_images, IMAGES),
    "coco_micro": Row(torch_ap.MeanAveragePrecision, images, {**IMAGES, "average": "micro"}),
    "coco_extended": Row(torch_ap.MeanAveragePrecision, images, {**IMAGES, "extended_summary": True}),
    "coco_own_levels": Row(
        torch_ap.MeanAveragePrecision,
        images,
        {
            **IMAGES,
            "rec_thresholds": [0.1, 0.5, 0.9],
            "iou_thresholds": [0.3, 0.5],
            "max_detection_thresholds": [2, 20],
        },
    ),
    "coco_masks": Row(torch_ap.MeanAveragePrecision, masked_images, {"iou_type": "segm"}),
    "coco_boundary": Row(torch_ap.MeanAveragePrecision, masked_images, {"iou_type": "boundary"}),
    "coco_codes": Row(torch_ap.MeanAveragePrecision, coded_images, {"iou_type": "segm"}),
    "coco_groups": Row(torch_ap.MeanAveragePrecision, grouped_images, IMAGES),
    "coco_matched": Row(torch_ap.MeanAveragePrecision, images, {**IMAGES, "match": "update", "class_metrics": True}),
    "coco_keypoints": Row(torch_ap.MeanAveragePrecision, poses, POSES),
    "coco_rotated": Row(torch_ap.MeanAveragePrecision, turned_boxes, ROTATED),
    "coco_quadrilaterals": Row(
        torch_ap.MeanAveragePrecision, quadrilaterals, {"box_format": "xyxyxyxy", "iou_type": "rotated"}
    ),
    "coco_intervals": Row(torch_ap.MeanAveragePrecision, intervals, {"iou_type": "intervals"}),
    "coco_function": Row(torch_ap.MeanAveragePrecision, with_areas(intervals), {"iou_type": of_images}),
    "coco_given_ious": Row(torch_ap.MeanAveragePrecision, images_of_own_iou, {"iou_type": "precomputed"}),
    "coco_own_iou": Row(torch_ap.MeanAveragePrecision, images, {"iou": inner_product}),
    "coco_ultralytics": Row(
        torch_ap.MeanAveragePrecision, images, {**IMAGES, "convention": "ultralytics"}, any_scores=False
    ),
    "lvis": Row(torch_ap.LVISMeanAveragePrecision, federated_images, {**FEDERATED, "class_metrics": True}),
    "lvis_packed": Row(torch_ap.LVISMeanAveragePrecision, packed_federated, FEDERATED),
    "lvis_of_8": Row(torch_ap.LVISMeanAveragePrecision, federated_images, {**IMAGES, "max_detections": 8}),
    "lvis_fixed": Row(
        torch_ap.LVISMeanAveragePrecision, federated_images, {**IMAGES, "ap_fixed": True, "max_detections": 8}
    ),
    "lvis_matched": Row(
        torch_ap.LVISMeanAveragePrecision, federated_images, {**FEDERATED, "match": "update", "class_metrics": True}
    ),
    "lvis_masks": Row(torch_ap.LVISMeanAveragePrecision, masked_federated, {"iou_type": "segm"}),
    "voc": Row(torch_ap.VOCMeanAveragePrecision, voc_images, {"class_metrics": True}),
    "voc_packed": Row(torch_ap.VOCMeanAveragePrecision, packed_voc_images),
    "voc_matched": Row(torch_ap.VOCMeanAveragePrecision, voc_images, {"match": "update", "class_metrics": True}),
    "voc_masks": Row(torch_ap.VOCMeanAveragePrecision, masked_images_of_voc, {"iou_type": "segm"}),
    "voc_rotated": Row(
        torch_ap.VOCMeanAveragePrecision, voc_turned_boxes, {**ROTATED, "interpolation": "11-point-arange"}
    ),
    "voc_intervals": Row(torch_ap.VOCMeanAveragePrecision, voc_intervals, {"iou_type": "intervals"}),
    "voc_function": Row(torch_ap.VOCMeanAveragePrecision, voc_intervals, {"iou_type": of_images}),
    "voc_keypoints": Row(torch_ap.VOCMeanAveragePrecision, voc_poses, POSES),
    "open_images": Row(torch_ap.OpenImagesMeanAveragePrecision, open_images, {**TREE, "class_metrics": True}),
    "open_images_ignored": Row(
        torch_ap.OpenImagesMeanAveragePrecision,
        open_images,
        {**IMAGES, "group_of": "ignore", "iou_thresholds": [0.3, 0.5]},
    ),
    "nuscenes": Row(torch_ap.NuScenesMeanAveragePrecision, centres, {"class_metrics": True}),
    "nuscenes_packed": Row(torch_ap.NuScenesMeanAveragePrecision, packed_centres, {"distance_thresholds": 1.5}),
    "ultralytics": Row(
        torch_ap.VOCMeanAveragePrecision,
        voc_images,
        {"convention": "ultralytics", "class_metrics": True},
        any_scores=False,
    ),
    "ultralytics_matched": Row(
        torch_ap.VOCMeanAveragePrecision,
        voc_images,
        {"convention": "ultralytics-8.3", "match": "update"},
        any_scores=False,
    ),
    "voc_40_point": Row(torch_ap.VOCMeanAveragePrecision, voc_images, {"interpolation": "40-point"}),
    "voc_101_point": Row(torch_ap.VOCMeanAveragePrecision, voc_images, {"interpolation": "101-point"}),
    "voc_11_point": Row(
        torch_ap.VOCMeanAveragePrecision,
        voc_images,
        {"interpolation": "11-point", "iou_thresholds": [0.5, 0.75], "strict": True},
    ),
}


def curve_at(size, generator):
    return {**pair(cases.binary)(size, generator), "t": torch.tensor([0.0, 0.25, 1.0])}


def with_graded(size, generator):
    return {"preds": rows(size, generator)["preds"], "target": graded_rows(size, generator)["target"]}


def embeddings(size, generator):
    """Draw whole numbers, whose products are exact and often equal."""
    sizes = {"query": size // 2, "gallery": size}
    vectors = {name: torch.randint(-2, 3, (n, 3), generator=generator).float() for name, n in sizes.items()}
    labels = {f"{name}_labels": torch.randint(4, (n,), generator=generator) for name, n in sizes.items()}
    return {"queries": vectors["query"], "gallery": vectors["gallery"], **labels}


def recommendations(size, generator):
    drawn = {
        "preds": cases.scores((size // 2, 9), generator),
        "target": torch.randint(9, (size // 2,), generator=generator),
    }
    return {**drawn, "seen": torch.arange(9) == (drawn["target"][:, None] + 2) % 9}


def hits(size, generator):
    return {"hits": cases.binary(size, generator)[1].cumsum(0)}


def points(size, generator):
    recall = torch.rand(size, generator=generator).sort().values
    return {"precision": torch.rand(size, generator=generator), "recall": recall}


def decisions(size, generator):
    return {name: torch.rand(size, generator=generator) < 0.5 for name in ("preds_a", "preds_b", "target")}


def several_systems(size, generator):
    preds, target = cases.binary(size, generator)
    return {"preds": torch.stack([preds, cases.scores((size,), generator), preds + target]), "target": target}


def pilot_interval(_size, generator):
    return {"interval": inference.mean_interval(torch.rand(30, generator=generator))}


def pilot_comparison(_size, generator):
    return {"comparison": inference.compare_per_query(*torch.rand(2, 30, generator=generator))}


def several_metrics(size, generator):
    metrics = [torch_ap.MeanAveragePrecision(box_format="xywh") for _ in range(3)]
    batch = images(size, generator)
    for quality, metric in enumerate(metrics):
        preds = [
            {**x, "boxes": x["boxes"] + quality * torch.rand(x["boxes"].shape, generator=generator)}
            for x in batch["preds"]
        ]
        metric.update(preds, batch["target"])
    return {"metrics": metrics}


def relevant_on_top(size, generator):
    """Return a ranking with at least ten hits in its top twelve, if it has twelve items."""
    preds = cases.scores((size,), generator)
    return {"preds": preds, "target": (preds.argsort(descending=True).argsort() % 13 < 10).long()}


def items_of_queries(size, generator):
    preds, target = cases.binary(size, generator)
    return {"preds": preds, "target": target, "indexes": torch.arange(size) % 5}


def several_values(size, generator):
    return {"values": torch.rand(3, size, generator=generator)}


def two_sets_of_boxes(size, generator):
    return {
        name: torch.cat([torch.rand(n, 2, generator=generator), 1 + torch.rand(n, 2, generator=generator)], 1)
        for name, n in (("preds", size), ("target", size // 2))
    }


def two_sets_of_rotated_boxes(size, generator):
    return {
        name: torch.rand(n, 5, generator=generator) * torch.tensor([2, 2, 3, 3, 360.0])
        for name, n in (("preds", size), ("target", size // 2))
    }


def two_sets_of_quadrilaterals(size, generator):
    boxes = two_sets_of_rotated_boxes(size, generator)
    return {name: rotated.corners(x, "cxcywhr").flatten(1) for name, x in boxes.items()}


def two_sets_of_intervals(size, generator):
    return {
        name: torch.rand(n, 2, generator=generator).cumsum(1) for name, n in (("preds", size), ("target", size // 2))
    }


def two_sets_of_keypoints(size, generator):
    points = {
        name: torch.cat(
            [10 * torch.rand(n, 17, 2, generator=generator), torch.randint(3, (n, 17, 1), generator=generator)], 2
        )
        for name, n in (("preds", size), ("target", size // 2))
    }
    return {**points, "area": 90 + torch.rand(size // 2, generator=generator)}


def ragged_boxes(size, generator):
    boxes = two_sets_of_boxes(size, generator)
    counts = {f"{name}_counts": torch.tensor([1, len(x) - 1]) for name, x in boxes.items()}
    return {**boxes, **counts}


def pairs_to_match(size, generator):
    pair_of = torch.randperm(size * 3, generator=generator)[:size]
    triples = (pair_of // 3, pair_of % 3, torch.rand(size, generator=generator))
    return {"scores": cases.scores((size,), generator), "pairs": triples, "ground_truths": 3}


def two_systems(size, generator):
    first, target = cases.binary(size, generator)
    return {"preds_a": first, "preds_b": cases.scores((size,), generator), "target": target}


def values(size, generator):
    return {"values": torch.rand(size, generator=generator)}


def two_values(size, generator):
    return {name: torch.rand(size, generator=generator) for name in ("values_a", "values_b")}


def judged_scores(size, generator):
    preds, target = cases.binary(size, generator)
    labeled = torch.rand(size, generator=generator) < 0.6
    return {
        "preds": preds,
        "target": torch.where(labeled, target, -1),
        "judge": torch.where(torch.rand(size, generator=generator) < 0.1, 1 - target, target),
    }


def judged_values(size, generator):
    judge = torch.rand(size, generator=generator)
    return {"values": torch.where(torch.arange(size) % 2 == 0, judge**2, torch.nan), "judge_values": judge}


def systems(size, generator):
    return {"values": torch.rand(size, 3, generator=generator)}


def nothing(_size, _generator):
    return {}


few = {"n_resamples": 20}

FUNCTIONS: dict[str, Row] = {
    **{name: Row(case.function, pair(case.make), case.settings) for name, case in cases.CASES.items()},
    "binary_weighted": Row(functional.binary_average_precision, pair(cases.binary, weights=weights)),
    "binary_expected": Row(functional.binary_average_precision, pair(cases.binary), {"ties": "expected"}),
    "task": Row(functional.average_precision, pair(cases.binary), {"task": "binary"}),
    "counts_at_k_rows": Row(functional.counts_at_k, rows, {"top_k": 5}),
    "counts_at_k": Row(functional.counts_at_k, pair(cases.binary), {"top_k": 5}),
    "counts_at_threshold": Row(functional.counts_at_threshold, pair(cases.binary), {"threshold": 0.5}),
    "binary_curve": Row(functional.binary_curve, pair(cases.binary)),
    "binary_curve_weighted": Row(
        functional.binary_curve, pair(cases.binary, weights=weights), {"interpolation": "101-point", "name": "weighted"}
    ),
    "binary_curve_optimistic": Row(functional.binary_curve, pair(cases.binary), {"ties": "optimistic"}),
    "binary_curve_at_3": Row(functional.binary_curve, pair(cases.binary), {"top_k": 3, "denominator": "relevant"}),
    "multiclass_curve": Row(functional.multiclass_curve, pair(cases.multiclass), cases.C),
    "multilabel_curve": Row(functional.multilabel_curve, pair(cases.multilabel), cases.L),
    "hit_curve": Row(curves.hit_curve, pair(cases.binary)),
    "hit_curve_at": Row(curves.hit_curve, curve_at, {"fraction": True, "ties": "optimistic"}),
    "precision_recall_curve": Row(functional.precision_recall_curve, pair(cases.binary)),
    "precision_recall_curve_classes": Row(
        functional.precision_recall_curve, pair(cases.multiclass), {"task": "multiclass", **cases.C, "thresholds": 5}
    ),
    "binary_precision_recall_curve": Row(functional.binary_precision_recall_curve, pair(cases.binary)),
    "multiclass_precision_recall_curve": Row(
        functional.multiclass_precision_recall_curve, pair(cases.multiclass), {**cases.C, "average": "macro"}
    ),
    "multilabel_precision_recall_curve": Row(
        functional.multilabel_precision_recall_curve, pair(cases.multilabel), cases.L
    ),
    "interpolated_precision": Row(functional.interpolated_precision, pair(cases.binary)),
    "binary_precision_at_fixed_recall": Row(
        functional.binary_precision_at_fixed_recall, pair(cases.binary), {"min_recall": 0.5}
    ),
    "survival_function": Row(curves.survival_function, pair(cases.binary)),
    "area_under_hit_curve": Row(curves.area_under_hit_curve, pair(cases.binary)),
    "average_precision_from_hit_curve": Row(curves.average_precision_from_hit_curve, hits),
    "average_precision_from_precision_recall": Row(curves.average_precision_from_precision_recall, points),
    "compare_hit_curves": Row(curves.compare_hit_curves, two_systems),
    "hit_curve_hull": Row(curves.hit_curve_hull, pair(cases.binary)),
    "retrieval_auroc": Row(functional.retrieval_auroc, flat, {"top_k": 3}),
    "retrieval_average_precision": Row(functional.retrieval_average_precision, flat),
    "retrieval_average_precision_at_several": Row(
        functional.retrieval_average_precision, judged_rows, {"top_k": [1, 4, "relevant"]}
    ),
    "retrieval_average_precision_rows": Row(functional.retrieval_average_precision, judged_rows, {"top_k": 3}),
    "retrieval_curve": Row(functional.retrieval_curve, flat),
    "retrieval_curve_rows": Row(functional.retrieval_curve, judged_rows, {"interpolation": "11-point-trec9"}),
    "retrieval_precision": Row(functional.retrieval_precision, flat, {"top_k": 3}),
    "retrieval_rank_biased_precision": Row(functional.retrieval_rank_biased_precision, flat, {"p": 0.6}),
    "retrieval_recall": Row(functional.retrieval_recall, masked_rows, {"top_k": 3}),
    "retrieval_f_beta": Row(functional.retrieval_f_beta, flat, {"top_k": 3}),
    "retrieval_fall_out": Row(functional.retrieval_fall_out, flat, {"top_k": 3}),
    "retrieval_hit_rate": Row(functional.retrieval_hit_rate, flat, {"top_k": 3}),
    "retrieval_normalized_dcg": Row(functional.retrieval_normalized_dcg, graded_flat, {"top_k": 3}),
    "retrieval_normalized_dcg_rows": Row(functional.retrieval_normalized_dcg, retrieved_rows),
    "retrieval_precision_recall_curve": Row(functional.retrieval_precision_recall_curve, flat, {"max_k": 3}),
    "retrieval_r_precision": Row(functional.retrieval_r_precision, flat),
    "retrieval_reciprocal_rank": Row(functional.retrieval_reciprocal_rank, graded_rows, {"relevance_level": 2}),
    "recommendation_at_k": Row(functional.recommendation_at_k, recommendations, {"top_k": [1, 3]}),
    "embedding_average_precision": Row(functional.embedding_average_precision, embeddings, {"similarity": "dot"}),
    "coco": Row(functional.coco_mean_average_precision, images, IMAGES),
    "lvis": Row(functional.lvis_mean_average_precision, federated_images, FEDERATED),
    "voc": Row(functional.voc_mean_average_precision, voc_images),
    "open_images": Row(functional.open_images_mean_average_precision, open_images, TREE),
    "kitti": Row(functional.kitti_mean_average_precision, kitti_images, {**IMAGES, "iou_threshold": 0.3}),
    "nuscenes": Row(functional.nuscenes_mean_average_precision, centres),
    "coco_counts": Row(detection.curves.coco_counts, images, {"box_format": "xywh"}),
    "coco_curve": Row(detection.curves.coco_curve, images, {"box_format": "xywh"}),
    "lvis_curve": Row(detection.curves.lvis_curve, federated_images, {"box_format": "xywh"}),
    "voc_curve": Row(detection.curves.voc_curve, voc_images),
    "box_iou": Row(detection.pairs.box_iou, two_sets_of_boxes),
    "rotated_box_iou": Row(detection.pairs.rotated_box_iou, two_sets_of_rotated_boxes),
    "rotated_box_iou_corners": Row(
        detection.pairs.rotated_box_iou, two_sets_of_quadrilaterals, {"box_format": "xyxyxyxy"}
    ),
    "interval_iou": Row(detection.pairs.interval_iou, two_sets_of_intervals),
    "keypoint_similarity": Row(detection.pairs.keypoint_similarity, two_sets_of_keypoints),
    "ragged_box_iou": Row(detection.pairs.ragged_box_iou, ragged_boxes),
    "match_coco": Row(detection.pairs.match_coco, pairs_to_match),
    "match_voc": Row(detection.pairs.match_voc, pairs_to_match),
}

INFERENCE: dict[str, Row] = {
    "average_precision_interval": Row(inference.average_precision_interval, pair(cases.binary)),
    "average_precision_interval_classes": Row(
        inference.average_precision_interval,
        pair(cases.multilabel),
        {"method": "bootstrap-logit", **few, "average": "macro"},
    ),
    "average_precision_at_k_interval": Row(
        inference.average_precision_at_k_interval, relevant_on_top, {"top_k": 12, **few}
    ),
    "best_of": Row(inference.best_of, several_systems),
    "best_of_metrics": Row(inference.best_of_metrics, several_metrics, few),
    "best_of_per_query": Row(inference.best_of_per_query, several_values),
    "chance_level": Row(inference.chance_level, pair(cases.multilabel), {"average": "macro"}),
    "chance_test": Row(inference.chance_test, pair(cases.binary), few),
    "chance_test_of_queries": Row(inference.chance_test_of_queries, items_of_queries, few),
    "compare_decisions": Row(inference.compare_decisions, decisions, few),
    "compare_systems": Row(inference.compare_systems, several_systems),
    "compare_splits": Row(inference.compare_splits, two_values, {"n_train": 90, "n_test": 10}),
    "reported_average_precision_interval": Row(
        inference.reported_average_precision_interval, nothing, {"average_precision": 0.3, "m": 40}
    ),
    "compare_per_query": Row(inference.compare_per_query, two_values, few),
    "compare_rankings": Row(inference.compare_rankings, two_systems),
    "compare_rankings_above_chance": Row(inference.compare_rankings_above_chance, two_systems, few),
    "compare_rankings_at_k": Row(
        inference.compare_rankings_at_k, two_systems, {"top_k": 5, "measure": "precision", **few}
    ),
    "compare_systems_per_query": Row(inference.compare_systems_per_query, systems, few),
    "f_beta_posterior": Row(posteriors.f_beta_posterior, nothing, {"tp": 3, "fp": 2, "fn": 1}),
    "joint_rank_probability": Row(
        random_ranking.joint_rank_probability, nothing, {"n": 8, "m": 3, "first": (1, 2), "second": (2, 4)}
    ),
    "mean_interval": Row(inference.mean_interval, values),
    "noisy_average_precision_interval": Row(
        inference.noisy_average_precision_interval, pair(cases.binary), {"false_negative_rate": 0.1}
    ),
    "prediction_powered_average_precision_interval": Row(
        inference.prediction_powered_average_precision_interval, judged_scores
    ),
    "prediction_powered_mean_interval": Row(inference.prediction_powered_mean_interval, judged_values),
    "normalized_average_precision_interval": Row(inference.normalized_average_precision_interval, pair(cases.binary)),
    "precision_recall_gain_interval": Row(inference.precision_recall_gain_interval, pair(cases.binary), few),
    "normal_average_precision": Row(published.normal_average_precision, pair(cases.binary)),
    "normal_precision": Row(published.normal_precision, nothing, {"n": 20, "m": 5, "t": 4}),
    "normal_recall": Row(published.normal_recall, nothing, {"n": 20, "m": 5, "t": 4}),
    "published_interval": Row(published.published_interval, pair(cases.binary)),
    "plan_comparison": Row(inference.plan_comparison, pilot_comparison, {"units": 30, "difference": 0.1}),
    "plan_interval": Row(inference.plan_interval, pilot_interval, {"units": 30, "half_width": [0.1, 0.05]}),
    "precision_at_k_interval": Row(inference.precision_at_k_interval, pair(cases.binary), {"top_k": 5}),
    "precision_band": Row(inference.precision_band, pair(cases.binary), few),
    "precision_posterior": Row(posteriors.precision_posterior, nothing, {"tp": 3, "fp": 2}),
    "probability_better": Row(posteriors.probability_better, nothing, {"wins": 5, "losses": 2}),
    "proportion_interval": Row(inference.proportion_interval, nothing, {"successes": 3, "trials": 9}),
    "random_average_precision": Row(random_ranking.random_average_precision, nothing, {"n": 20, "m": 5}),
    "rank_probability": Row(random_ranking.rank_probability, nothing, {"n": 8, "m": 3, "hit": 1, "rank": 2}),
    "recall_at_k_interval": Row(inference.recall_at_k_interval, pair(cases.binary), {"top_k": 5}),
    "recall_posterior": Row(posteriors.recall_posterior, nothing, {"tp": 3, "fn": 1}),
}


OF_INPUT = {"ignore_index", "validate_args", "nan_strategy", "thresholds", "bins", "pilot", "normalization"}
OF_INPUT |= {"relevance_level", "similarity", "iou_type", "box_format"}


def one_by(rows: dict[str, Row], *what: Callable[[Row], Any]) -> list[str]:
    """Return the name of the first row of each kind, where these functions return the kind."""
    return list({tuple(of(row) for of in what): name for name, row in reversed(rows.items())}.values())[::-1]


def one_each(rows: dict[str, Row]) -> list[str]:
    """Return the name of the first row of each class or function."""
    return one_by(rows, lambda row: row.call)


def updated(row: Row) -> str:
    """Return the module whose ``update`` a metric has, enough for callers that do not inspect it, such as compilers."""
    return inspect.unwrap(row.call.update).__module__


def kinds(value: Any) -> Any:
    """Return names, types and dimensions of arguments."""
    if isinstance(value, dict):
        return tuple((str(key), kinds(x)) for key, x in value.items() if isinstance(key, str))
    if isinstance(value, list) and value:
        return kinds(value[0])
    return type(value).__name__, getattr(value, "ndim", None)


def one_of_each_kind(rows: dict[str, Row], of: Callable[[Row], Any] = lambda row: row.call) -> list[str]:
    """Return the first row of each class or function (or of each value of ``of``) and kind of arguments."""
    return one_by(rows, of, lambda row: kinds(row.batches(1)[0]))


@functools.cache
def one_of_each_state() -> dict[str, Row]:
    """Return the rows of metrics with distinct states: one per class, input settings and kind of input.

    These rows are enough for laws about the state, which do not depend on the computed value.
    """
    found: dict[Any, tuple[str, Row]] = {}
    for name, row in METRICS.items():
        metric, (batch,) = row.new(), row.batches(1)
        metric.update(**batch)
        filled = tuple((name, *x[0].shape[1:]) for name, x in metric.metric_state.items() if isinstance(x, list) and x)
        settings = [(key, str(row.settings[key])) for key in sorted(row.settings.keys() & OF_INPUT)]
        found.setdefault((row.call, filled, *settings, kinds(batch)), (name, row))
    return dict(found.values())
