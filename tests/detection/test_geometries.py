"""Every kind of shape under COCO's and VOC's rules: the same laws apply to all of them."""

import math

import pytest
import torch

from tests.laws.test_accelerator import close, moved
from tests.support.each import each
from tests.support.every_metric import (
    METRICS,
    Row,
    coded_images,
    images_of_own_iou,
    masked_images_of_voc,
    quadrilaterals,
)
from tests.support.modes import same
from tests.support.parts import mapped
from tests.support.threads import Threads
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision, detection, functional
from torch_ap.core.base.options import IoUType, allowed_values
from torch_ap.detection.inputs.images import image_ids


def voc_generator(draw):
    """Return a generator of the same images with VOC's key for crowds and without areas."""

    def drawn(size, generator):
        given = draw(size, generator)
        preds = [{key: x for key, x in image.items() if key != "area"} for image in given["preds"]]
        target = [{("difficult" if key == "iscrowd" else key): x for key, x in t.items()} for t in given["target"]]
        return {"preds": preds, "target": [{key: x for key, x in t.items() if key != "area"} for t in target]}

    return drawn


def voc(draw, **settings):
    return Row(VOCMeanAveragePrecision, draw, settings)


SHAPES = {
    "bbox": (METRICS["coco"], METRICS["voc"]),
    "segm": (METRICS["coco_masks"], METRICS["voc_masks"]),
    "codes": (METRICS["coco_codes"], voc(voc_generator(coded_images), iou_type="segm")),
    "boundary": (METRICS["coco_boundary"], voc(masked_images_of_voc, iou_type="boundary")),
    "keypoints": (METRICS["coco_keypoints"], METRICS["voc_keypoints"]),
    "rotated": (METRICS["coco_rotated"], METRICS["voc_rotated"]),
    "corners": (
        METRICS["coco_quadrilaterals"],
        voc(voc_generator(quadrilaterals), box_format="xyxyxyxy", iou_type="rotated"),
    ),
    "intervals": (METRICS["coco_intervals"], METRICS["voc_intervals"]),
    "precomputed": (METRICS["coco_given_ious"], voc(voc_generator(images_of_own_iou), iou_type="precomputed")),
    "function": (METRICS["coco_function"], METRICS["voc_function"]),
}
FUNCTIONS = {
    MeanAveragePrecision: functional.coco_mean_average_precision,
    VOCMeanAveragePrecision: functional.voc_mean_average_precision,
}
ROWS = {f"{name}, {('coco', 'voc')[place]}": rows[place] for name, rows in SHAPES.items() for place in (0, 1)}
EVERY = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
OTHERS = {name: row for name, row in ROWS.items() if row not in METRICS.values()}
# `test_exchange` and `test_accelerator` run the rows of `METRICS` on ranks and on an accelerator
NOT_ELSEWHERE = pytest.mark.parametrize("row", OTHERS.values(), ids=OTHERS)
FEW = {"n_resamples": 10}


def updated_metric(row, size=160, seed=1):
    drawn = row.draw(size, torch.Generator().manual_seed(seed))
    metric = row.new()
    for part in (slice(0, 3), slice(3, None)):
        metric.update(*(drawn[side][part] for side in ("preds", "target")))
    return metric, drawn


def test_every_shape_has_a_row():
    kinds = [{row.settings.get("iou_type", "bbox") for row in rows} for rows in zip(*SHAPES.values(), strict=True)]
    for found in kinds:
        assert {x for x in found if isinstance(x, str)} == set(allowed_values(IoUType))
        assert sum(map(callable, found)) == 1


@EVERY
def test_values_intervals_and_comparisons(row):
    metric, drawn = updated_metric(row)
    value = metric.compute()
    close(value, FUNCTIONS[row.call](**drawn, **row.settings))
    low, point, high = (float(getattr(metric.confidence_interval(**FEW), x)) for x in ("low", "estimate", "high"))
    assert low <= point <= high
    assert point == pytest.approx(float(value["map"]))
    assert 0 < point < 1
    other = row.new()
    other.update([{**p, "scores": p["scores"].flip(0)} for p in drawn["preds"]], drawn["target"])
    gap = metric.compare(other, **FEW)
    assert float(gap.difference) == pytest.approx(float(value["map"] - other.compute()["map"]))
    assert metric.confidence_interval(per_class=True, **FEW).estimate.shape == value["classes"].shape
    assert metric.chance_level(**FEW) > 0


@each("row", ROWS)
def test_functions_neither_keep_nor_change_their_arguments(row):
    drawn = row.draw(40, torch.Generator().manual_seed(2))
    one = {**drawn, **{side: drawn[side][:1] for side in ("preds", "target")}}
    for given in (drawn, one):  # a packed input of one image can contain the tensors themselves
        before = mapped(given, torch.clone)
        found = FUNCTIONS[row.call](**given, **row.settings)
        same(given, before)
        mapped(given, torch.Tensor.zero_)
        same(found, FUNCTIONS[row.call](**before, **row.settings))


@each("row", ROWS)
def test_functions_take_views_of_negated_numbers(row):
    drawn = row.draw(40, torch.Generator().manual_seed(2))
    drawn |= {side: drawn[side][:1] for side in ("preds", "target")}
    views = mapped(drawn, lambda x: torch._neg_view(-x) if x.is_floating_point() else x)
    same(FUNCTIONS[row.call](**views, **row.settings), FUNCTIONS[row.call](**drawn, **row.settings))


@each("dtype", [torch.float16, torch.bfloat16])
@each("row", ROWS)
def test_half_precision_equals_its_values_in_double(row, dtype):
    drawn = row.draw(40, torch.Generator().manual_seed(2))
    narrow = mapped(drawn, lambda x: x.to(dtype) if x.is_floating_point() else x)
    wide = mapped(narrow, lambda x: x.double() if x.is_floating_point() else x)
    found, expected = (FUNCTIONS[row.call](**x, **row.settings, dtype=torch.float64) for x in (narrow, wide))
    same(found, expected)


@EVERY
def test_matches_equal_the_matching_functions(row):
    """Match all pairs of one image and class by the matching functions, given the similarities."""
    coco, thresholds = row.call is MeanAveragePrecision, [0.3, 0.5, 0.75]
    name = "iou_thresholds"
    metric, _ = updated_metric(Row(row.call, row.draw, row.settings | {name: thresholds}))
    settings, columns, kind = metric._settings, metric._columns(), metric._settings.iou_types[0]
    group, truths = (
        image_ids(columns[f"{x}s_per_image"]) * 100 + columns[f"{x}_labels"] for x in ("detection", "ground_truth")
    )
    ignored = columns["ground_truth_iscrowd" if coco else "ground_truth_difficult"].bool()
    crowd = ignored if coco else torch.zeros_like(ignored)
    if (others := settings.ignored(columns, kind)) is not None:
        ignored = ignored | others
    similarity = settings.similarity(columns, kind, torch.arange(len(group)), torch.arange(len(truths)), crowd)
    pairs = similarity(*(group[:, None] == truths).nonzero(as_tuple=True), 0.0)
    given = columns["detection_scores"], pairs, len(truths), thresholds
    if coco:
        found = detection.pairs.match_coco(*given, iscrowd=crowd, ignored=ignored, group=group)
    else:
        match = detection.pairs.match_voc(*given)
        found = torch.where(match.state == 1, match.ground_truth, -1)
    hits = ((found >= 0) & ~ignored[found.clamp(min=0)]).sum(1)
    curves = [metric.curve(x) for x in thresholds]
    assert [sum(int(x.hits[-1]) if len(x.hits) else 0 for x in one) for one in curves] == hits.tolist()
    assert hits[0] > 3


@NOT_ELSEWHERE
@pytest.mark.parametrize("sync", ["gather", "exchange"])
def test_ranks(row, sync):
    drawn = row.draw(80, torch.Generator().manual_seed(2))
    alone = row.new()
    alone.update(**drawn)
    threads = Threads(2)
    gather = {"dist_sync_fn": threads.gather} if sync == "gather" else {}
    ranks = [row.new(sync=sync, distributed_available_fn=lambda: True, **gather) for _ in range(2)]
    middle = math.ceil(len(drawn["preds"]) / 2)
    for rank, part in zip(ranks, (slice(0, middle), slice(middle, None)), strict=True):
        rank.update(*(drawn[side][part] for side in ("preds", "target")))
    for value in threads(lambda rank: ranks[rank].compute()):
        close(value, alone.compute())


@pytest.mark.gpu
@NOT_ELSEWHERE
def test_on_an_accelerator(row):
    metric, drawn = updated_metric(row, 80)
    there = row.new().to("cuda")
    there.update(**moved(drawn))
    found = there.compute()
    assert found["map"].is_cuda
    close(found, metric.compute())
    close(there.confidence_interval(**FEW).estimate, metric.confidence_interval(**FEW).estimate)
