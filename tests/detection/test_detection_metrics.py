"""Detection metrics: values of the functions in any batching, torchmetrics' output, state, ranks, bad input."""

import sys
import types
from importlib.metadata import version

import pytest
import torch
from torchmetrics import MetricCollection

from tests.support.oracles_detection import random_scene, to_voc
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap.detection import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.functional import coco_mean_average_precision, voc_mean_average_precision


def same(one, two):
    assert list(one) == list(two)
    for name, value in one.items():
        torch.testing.assert_close(
            torch.as_tensor(value).flatten(), torch.as_tensor(two[name]).flatten(), equal_nan=True
        )


def makers():
    yield "coco", lambda: MeanAveragePrecision("xywh", class_metrics=True), _coco, lambda scene: scene
    yield "voc", lambda: VOCMeanAveragePrecision(class_metrics=True), _voc, lambda scene: to_voc(*scene)


def _coco(preds, target):
    return coco_mean_average_precision(preds, target, "xywh", class_metrics=True)


def _voc(preds, target):
    return voc_mean_average_precision(preds, target, class_metrics=True)


CASES = pytest.mark.parametrize(("make", "function", "prepare"), [case[1:] for case in makers()], ids=["coco", "voc"])


@CASES
def test_bad_batches_leave_no_trace(make, function, prepare):
    preds, target = prepare(random_scene(9, images=3, classes=2))
    metric = make()
    metric.update(preds, target)
    broken = [dict(image) for image in target]
    broken[2] = {**broken[2], "boxes": broken[2]["boxes"] * torch.nan} if len(broken[2]["boxes"]) else {}
    with pytest.raises(ValueError, match=r"`target\[2\]"):
        metric.update(preds, broken)
    assert metric.update_count == 1
    same(metric.compute(), function(preds, target))


def test_every_key_before_the_first_update():
    metric = MeanAveragePrecision(max_detection_thresholds=[3, 7])
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        found = metric.compute()
    names = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_3", "mar_7"]
    names += ["mar_small", "mar_medium", "mar_large", "map_per_class", "mar_7_per_class", "classes"]
    assert list(found) == names
    assert all(float(found[name]) == -1 for name in names[:-1])


def test_overall_numbers_are_at_the_last_limit():
    preds, target = random_scene(21, images=4, classes=2)
    found = coco_mean_average_precision(preds, target, "xywh", max_detection_thresholds=[2, 4])
    assert found["map"] >= 0
    assert found["mar_4"] >= found["mar_2"]


def test_many_detections_warn_once_an_update_and_can_be_silenced():
    boxes = torch.rand(5, 4)
    preds = [{"boxes": boxes, "scores": torch.rand(5), "labels": torch.arange(5)}] * 2
    target = [{"boxes": boxes, "labels": torch.arange(5)}] * 2
    metric = MeanAveragePrecision("xywh", max_detection_thresholds=[1, 4])
    with pytest.warns(UserWarning, match="of each class only the best 4 count") as caught:
        metric.update(preds, target)
    assert len(caught) == 1
    metric.warn_on_many_detections = False
    metric.update(preds, target)


def test_dtype_of_the_result():
    preds, target = random_scene(4, images=3)
    assert MeanAveragePrecision("xywh")(preds, target)["map"].dtype == torch.float64
    preds = [{**image, "scores": image["scores"].half()} for image in preds]
    assert MeanAveragePrecision("xywh")(preds, target)["map"].dtype == torch.float32
    assert MeanAveragePrecision("xywh").set_dtype(torch.float64)(preds, target)["map"].dtype == torch.float64


def test_the_state_is_a_handful_of_tensors_and_ours():
    preds, target = random_scene(2, images=5)
    metric = MeanAveragePrecision("xywh")
    wanted = metric(preds, target)
    for image in preds + target:
        image["boxes"].zero_()
    same(metric.compute(), wanted)
    parts = {name: len(state) for name, state in metric.metric_state.items() if isinstance(state, list)}
    assert parts.pop("sample_ids") == parts.pop("groups") == 0
    assert set(parts.values()) == {1}
    assert len(metric.metric_state) == 12


def test_curves_and_the_table_agree_with_the_numbers():
    preds, target = random_scene(31, images=8, classes=3)
    metric = MeanAveragePrecision("xywh", class_metrics=True, class_names={0: "ant"})
    found = metric(preds, target)
    table = metric.per_class(iou_threshold=0.5)
    curves = metric.curve()
    assert table["name"] == [one.name for one in curves] == ["ant", "1", "2"]
    torch.testing.assert_close(table["ap"], found["map_per_class"])
    assert table["tp"].tolist() == [int(one.hits[-1]) for one in curves]
    assert table["fp"].tolist() == [int(one.n - one.hits[-1]) for one in curves]
    assert table["ground_truths"].tolist() == [int(one.m) for one in curves]
    labels = torch.cat([image["labels"] for image in preds])
    assert table["detections"].tolist() == torch.bincount(labels, minlength=3).tolist()
    assert [float(one.average_precision.nan_to_num(-1)) for one in curves] == table["ap_50"].tolist()
    # the 101-point precision of the curve is COCO's except for the 2^-52 that COCO adds to its denominator
    ours = [float(one.interpolated("101-point").precision.mean().nan_to_num(-1)) for one in curves]
    assert ours == pytest.approx(table["ap_50"].tolist(), rel=0, abs=REORDERED)
    cut = metric.per_class(score_threshold=0.5)
    high = [sum(int((image["scores"][image["labels"] == label] >= 0.5).sum()) for image in preds) for label in range(3)]
    assert all(tp + fp <= kept for tp, fp, kept in zip(cut["tp"].tolist(), cut["fp"].tolist(), high, strict=True))
    with pytest.raises(ValueError, match="`iou_threshold` must be one of"):
        metric.per_class(iou_threshold=0.51)
    with pytest.raises(ValueError, match="`area` must be one of"):
        metric.curve(area="huge")


def test_true_and_false_positives_at_a_score():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]])
    preds = [
        {"boxes": boxes[[0, 0, 1, 2]], "scores": torch.tensor([0.9, 0.8, 0.7, 0.3]), "labels": torch.zeros(4).long()}
    ]
    metric = MeanAveragePrecision()
    metric.update(preds, [{"boxes": boxes[:2], "labels": torch.zeros(2).long()}])
    for score, counts in ((0.0, (2, 2)), (0.5, (2, 1)), (0.75, (1, 1)), (0.95, (0, 0))):
        table = metric.per_class(score_threshold=score)
        assert (int(table["tp"]), int(table["fp"])) == counts


def test_voc_curves():
    preds, target = to_voc(*random_scene(8, images=6, classes=2))
    metric = VOCMeanAveragePrecision(iou_thresholds=[0.5, 0.3])
    found = metric(preds, target)
    for place, threshold in enumerate([0.5, 0.3]):
        each = torch.stack([one.average_precision for one in metric.curve(threshold)])
        torch.testing.assert_close(each.nanmean(), found["map_per_threshold"][place])
    assert metric.curve() == metric.curve(0.5)


def test_a_voc_threshold_is_named_by_its_original_number():
    with pytest.raises(ValueError, match=r"`iou_thresholds` .*\[0, 1\], got 2$"):
        VOCMeanAveragePrecision(iou_thresholds=2)
    with pytest.raises(ValueError, match=r"`iou_thresholds` .*\[0, 1\], got \[2\]"):
        VOCMeanAveragePrecision(iou_thresholds=[2])


@pytest.fixture
def theirs(monkeypatch):
    """Return torchmetrics' class with its only torchvision function replaced, as torchvision requires its own torch."""
    from torchmetrics.detection import mean_ap

    def box_convert(boxes, in_fmt, out_fmt):
        assert (in_fmt, out_fmt) == ("xyxy", "xywh")
        return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)

    torchvision, ops = types.ModuleType("torchvision"), types.ModuleType("torchvision.ops")
    ops.box_convert = box_convert
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "torchvision.ops", ops)
    monkeypatch.setattr(mean_ap, "_TORCHVISION_AVAILABLE", True)
    return mean_ap.MeanAveragePrecision


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("iou_type", ["bbox", "segm", ("bbox", "segm")])
def test_output_is_that_of_torchmetrics(average, iou_type, theirs):
    settings = {
        "iou_type": iou_type,
        "iou_thresholds": [0.5, 0.75],
        "rec_thresholds": [x / 100 for x in range(101)],
        # torchmetrics evaluates the second kind by class once it has made class metrics of the first
        "class_metrics": average == "macro" or isinstance(iou_type, str),
        # under "micro" torchmetrics 1.6 gives it by class
        "extended_summary": average == "macro" or version("torchmetrics") >= "1.9",
        "average": average,
    }
    preds, target = random_scene(13, images=12, classes=3)
    # with masks alone, torchmetrics leaves out the false positives of images without ground truths
    kept = [i for i in range(12) if len(target[i]["labels"]) and len(preds[i]["labels"])]
    preds, target = [preds[i] for i in kept], [target[i] for i in kept]
    for image in preds + target:
        image["boxes"] = torch.cat([image["boxes"][:, :2], image["boxes"][:, :2] + image["boxes"][:, 2:]], 1)
        image["boxes"] = image["boxes"].float()
        image["masks"] = masks_of(image["boxes"])
    preds = [{**image, "scores": image["scores"].float()} for image in preds]
    one, two = theirs(**settings), MeanAveragePrecision(**settings)
    one.update(preds, target)
    two.update(preds, target)
    wanted, found = one.compute(), two.compute()
    assert set(wanted) == set(found)
    for name, value in wanted.items():
        if name.endswith("ious"):
            assert {tuple(map(int, key)) for key in value} == set(found[name])
            continue
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype), name
        torch.testing.assert_close(found[name], value, rtol=0, atol=SINGLE, msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        {"iou_thresholds": [0.5, 0.5, 0.75]},
        {"rec_thresholds": [0.0, 0.5, 0.5, 1.0]},
        {"max_detection_thresholds": [1, 1, 100]},
    ],
)
def test_a_repeated_entry_counts_twice_as_in_torchmetrics(settings, theirs):
    preds, target = random_scene(3, images=12, classes=3)
    for image in preds + target:
        corner, size = image["boxes"].float().split(2, 1)
        image["boxes"] = torch.cat([corner, corner + size], 1)
    preds = [{**image, "scores": image["scores"].float()} for image in preds]
    one, two = (kind(class_metrics=True, **settings) for kind in (theirs, MeanAveragePrecision))
    one.update(preds, target)
    two.update(preds, target)
    torch.testing.assert_close(two.compute(), one.compute(), rtol=0, atol=SINGLE)


def masks_of(boxes):
    masks = torch.zeros(len(boxes), 64, 80, dtype=torch.bool)
    for mask, (x1, y1, x2, y2) in zip(masks, (boxes / 6).long().tolist(), strict=True):
        mask[y1:y2, x1:x2] = True
        mask[y1, x1] = False
    return masks


@pytest.mark.gpu
def test_accelerator_raises_for_values_in_compute():
    image = {"boxes": torch.ones(1, 4).cuda(), "labels": torch.zeros(1, dtype=torch.int64).cuda()}
    metric = MeanAveragePrecision().cuda()
    metric.update([{**image, "scores": torch.tensor([torch.nan]).cuda()}], [image])
    with pytest.raises(ValueError, match=r"`scores` .*NaN.* update 1"):
        metric.compute()
    metric.reset()
    backwards = {**image, "boxes": torch.tensor([[5.0, 5, 1, 1]]).cuda()}
    metric.update([{**backwards, "scores": torch.ones(1).cuda()}], [image])
    metric.update([{**image, "scores": torch.ones(1).cuda()}], [backwards])
    with pytest.raises(ValueError, match=r"`boxes` in `target` .*x1 <= x2 .* update 2"):
        metric.compute()


def test_metrics_that_check_otherwise_share_no_state():
    """One metric may refuse a state that another accepted, because of its box format or its value checks."""
    box = {"boxes": torch.tensor([[100.0, 50, 20, 30]]), "labels": torch.tensor([0])}
    preds, target = [{**box, "scores": torch.tensor([0.5])}], [box]
    sizes = MeanAveragePrecision("xywh")
    sizes.update(preds, target)
    for other in (MeanAveragePrecision("xyxy"), MeanAveragePrecision("xywh", validate_args=False)):
        with pytest.raises(ValueError, match="`incoming_state`"):
            other.merge_state(sizes)
        together = MetricCollection({"one": MeanAveragePrecision("xywh"), "other": other})
        fine = [{**box, "boxes": torch.tensor([[1.0, 1, 5, 5]])}]
        together.update([{**fine[0], "scores": torch.tensor([0.5])}], fine)
        assert len(together.compute_groups) == 2
    mixed = MetricCollection({"sizes": MeanAveragePrecision("xywh"), "corners": MeanAveragePrecision("xyxy")})
    mixed.update([{**fine[0], "scores": torch.tensor([0.5])}], fine)
    with pytest.raises(ValueError, match=r"`target\[0\]\['boxes'\]` .*x1 <= x2 .*got \["):
        mixed.update(preds, target)


def test_a_threshold_is_found_by_its_decimal_number():
    """COCO's own 0.9 is 0.8999999999999999."""
    preds, target = random_scene(3)
    metric = MeanAveragePrecision("xywh", class_metrics=True)
    metric.update(preds, target)
    exact = metric.iou_thresholds[8]
    assert exact != 0.9
    assert metric.per_class(0.9)["tp"].tolist() == metric.per_class(exact)["tp"].tolist()
    assert metric.curve(0.9) == metric.curve(exact)
    voc = VOCMeanAveragePrecision("xywh", iou_thresholds=[0.5, 0.1 * 7])
    voc.update(preds, [{key: one[key] for key in ("boxes", "labels")} for one in target])
    assert voc.curve(0.7) == voc.curve(0.1 * 7)
    for wrong in (0.91, True, "0.5", float("nan")):
        with pytest.raises(ValueError, match=r"`iou_threshold` .*0.5, 0.55, .*0.9, 0.95, got"):
            metric.curve(wrong)


def test_boxes_next_to_precomputed_ious_are_checked():
    preds = [
        {"boxes": torch.ones(1, 4), "ious": torch.ones(1, 1), "scores": torch.ones(1), "labels": torch.tensor([0])}
    ]
    preds[0]["area"] = torch.ones(1)
    target = [{"boxes": torch.tensor([[9.0, 5, 4, 8]]), "labels": torch.tensor([0]), "area": torch.ones(1)}]
    with pytest.raises(ValueError, match=r"`target\[0\]\['boxes'\]` .*x1 <= x2 .*got \[9"):
        MeanAveragePrecision(iou_type=("bbox", "precomputed")).update(preds, target)
    MeanAveragePrecision(iou_type="precomputed").update(preds, target)


def test_a_table_of_no_classes_has_no_rows():
    table = MeanAveragePrecision().per_class()
    assert {len(column) for column in table.values()} == {0}
