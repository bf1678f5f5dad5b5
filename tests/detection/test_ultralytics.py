"""The numbers of Ultralytics: numbers of the real package, matching and its special cases, and the commands."""

import json

import numpy as np
import pytest
import torch

from tests.support.paths import DATA
from tests.support.tolerances import REORDERED, SINGLE
from tests.support.ultralytics_numbers import COMMITTED, scene
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.cli.main import main
from torch_ap.detection.curves import coco_curve
from torch_ap.functional import coco_mean_average_precision, voc_mean_average_precision

REFERENCE = json.loads((DATA / "ultralytics_reference.json").read_text())
BOX = torch.tensor([[0.0, 0, 10, 10]])
LABEL = torch.tensor([0])


def by_metric(preds, target, dtype, **arguments):
    metric = MeanAveragePrecision(**arguments)
    metric.set_dtype(dtype)
    metric.update(preds, target)
    return metric.compute()


def check_numbers(preds, target, convention, wanted, compute=voc_mean_average_precision):
    numbers = compute(preds, target, convention=convention, class_metrics=True, dtype=torch.float64)
    defined = torch.isin(numbers["classes"].reshape(-1), torch.tensor(wanted["classes"]))
    for name in set(wanted) - {"classes"}:
        each = numbers[name].reshape(-1)
        assert each[defined].tolist() == pytest.approx(wanted[name], abs=REORDERED), name
        assert each[~defined].isnan().all()
        mean = np.mean(wanted[name]) if wanted["classes"] else np.nan
        assert numbers[name.removesuffix("_per_class")].item() == pytest.approx(mean, abs=REORDERED, nan_ok=True)


@pytest.mark.parametrize("convention", REFERENCE)
@pytest.mark.filterwarnings("ignore:.*boxes in `preds`")
def test_equals_the_numbers_of_the_package(convention):
    assert len(REFERENCE[convention]) == COMMITTED
    for seed, wanted in enumerate(REFERENCE[convention]):
        check_numbers(*scene(seed), convention, wanted)


@pytest.mark.parametrize("compute", [coco_mean_average_precision, by_metric])
@pytest.mark.parametrize("convention", REFERENCE)
@pytest.mark.filterwarnings("ignore:.*boxes in `preds`")
def test_function_and_metric_of_coco(convention, compute):
    for seed, wanted in enumerate(REFERENCE[convention][:8]):
        check_numbers(*scene(seed), convention, wanted, compute)


@pytest.mark.parametrize("convention", REFERENCE)
@pytest.mark.filterwarnings("ignore:.*boxes in `preds`")
def test_curve_of_coco(convention):
    for seed, wanted in enumerate(REFERENCE[convention][:8]):
        preds, target = scene(seed)
        curves = {int(curve.name): curve for curve in coco_curve(preds, target, convention=convention)}
        aps = [float(curves[label].average_precision) for label in wanted["classes"]]
        assert aps == pytest.approx(wanted["map_50_per_class"], abs=REORDERED)
        metric = MeanAveragePrecision(convention=convention)
        metric.update(preds, target)
        for threshold in (0.5, 0.75):
            curves = coco_curve(preds, target, iou_threshold=threshold, convention=convention)
            for curve, expected in zip(curves, metric.curve(threshold), strict=True):
                assert curve.name == expected.name
                assert all(map(torch.equal, (curve.thresholds, curve.hits), (expected.thresholds, expected.hits)))
                assert torch.equal(curve.average_precision.nan_to_num(-1), expected.average_precision.nan_to_num(-1))


def test_curve_of_coco_without_a_meaning():
    for name, value in (
        ("rec_thresholds", [0.5]),
        ("max_detections", 100),
        ("area", "small"),
        ("iou_type", "keypoints"),
    ):
        with pytest.raises(ValueError, match=f"^`{name}` "):
            coco_curve([], [], convention="ultralytics", **{name: value})
    with pytest.raises(ValueError, match="`convention` must be one of"):
        coco_curve([], [], convention="yolo")


@pytest.mark.no_cover
def test_equals_the_installed_package():
    pytest.importorskip("ultralytics", reason="requires torchvision; install both with --no-deps")
    from tests.support import ultralytics_numbers

    for seed in range(COMMITTED, COMMITTED + 20):
        images = scene(seed)
        check_numbers(*images, ultralytics_numbers.convention(), ultralytics_numbers.numbers(*images))


def detections(boxes, scores):
    return {"boxes": torch.tensor(boxes), "scores": torch.tensor(scores), "labels": torch.zeros(len(scores)).long()}


def test_a_second_choice_from_8_4_on():
    """The second detection overlaps both objects, the taken one more: it is wrong up to 8.3, right from 8.4 on."""
    target = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [0, 4, 10, 14]]), "labels": torch.zeros(2).long()}]
    preds = [detections([[0.0, 0, 10, 10], [0.0, 1, 10, 11]], [0.9, 0.8])]
    recall = {
        name: voc_mean_average_precision(preds, target, convention=name, iou_thresholds=0.5)["recall"].item()
        for name in ("ultralytics", "ultralytics-8.3")
    }
    assert recall == {"ultralytics": 1.0, "ultralytics-8.3": 0.5}


@pytest.mark.parametrize("flag", ["difficult", "iscrowd"])
def test_difficult_objects_and_crowds_are_left_out(flag):
    target = {"boxes": BOX, "labels": LABEL, flag: torch.tensor([1])}
    numbers = voc_mean_average_precision(
        [detections(BOX.tolist(), [0.9])] * 2, [target, {"boxes": BOX, "labels": LABEL}], convention="ultralytics"
    )
    assert numbers["precision"].item() == 0.5  # the detection of the first image is a false positive


def test_float32_thresholds_of_boxes_and_exact_thresholds_of_masks():
    """An IoU of 11/20 reaches the threshold 0.55 in float32, as in the package, and in float64."""
    target = [{"boxes": torch.tensor([[0.0, 0, 1, 20]]), "labels": LABEL}]
    found = [detections([[0.0, 0, 1, 11]], [0.9])]
    assert voc_mean_average_precision(found, target, iou_thresholds=[0.55], convention="ultralytics")["map"] > 0.99
    masks = torch.zeros(2, 1, 20, 1, dtype=torch.bool)
    masks[0], masks[1, :, :11] = True, True
    preds = [{"masks": masks[1], "scores": torch.tensor([0.9]), "labels": LABEL}]
    target = [{"masks": masks[0], "labels": LABEL}]
    numbers = voc_mean_average_precision(
        preds, target, iou_type="segm", iou_thresholds=[0.55], convention="ultralytics"
    )
    assert numbers["map"] > 0.99


def test_without_objects_every_number_is_nan():
    nothing = {"boxes": torch.empty(0, 4), "labels": torch.empty(0, dtype=torch.int64)}
    numbers = voc_mean_average_precision([detections(BOX.tolist(), [0.9])], [nothing], convention="ultralytics")
    assert all(torch.isnan(numbers[name]) for name in ("map", "map_50", "precision", "recall", "f1", "score"))


def test_scores_outside_0_to_1_have_no_best_score():
    target = [{"boxes": BOX, "labels": torch.zeros(1, dtype=torch.int64)}]
    numbers = voc_mean_average_precision([detections(BOX.tolist(), [1.5])], target, convention="ultralytics")
    assert numbers["map"] > 0.99
    assert all(torch.isnan(numbers[name]) for name in ("precision", "recall", "f1", "score"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"convention": "yolo"}, "`convention` must be one of 'ultralytics', 'ultralytics-8.3', None, got 'yolo'"),
        ({"interpolation": "11-point"}, "`interpolation` cannot be combined with `convention`, got '11-point'"),
        ({"inclusive_pixels": False}, "`inclusive_pixels` cannot be combined with `convention`, got False"),
        ({"strict": True}, "`strict` cannot be combined with `convention`, got True"),
        ({"iou_type": "rotated", "box_format": "cxcywhr"}, "`iou_type` must be 'bbox', 'segm', 'precomputed' or a"),
    ],
)
def test_contradictory_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        VOCMeanAveragePrecision(**{"convention": "ultralytics", **arguments})


@pytest.mark.parametrize(
    "arguments",
    [
        {"rec_thresholds": [0.5]},
        {"max_detection_thresholds": [1, 10, 100]},
        {"extended_summary": True},
        {"average": "micro"},
        {"area_ranges": {}},
        {"iou": torch.minimum},
        {"box_width": 5},
        {"use_given_area": True},
        {"iou_type": ("bbox", "segm")},
        {"iou_type": "boundary"},
        {"iou_type": "keypoints"},
        {"convention": "yolo"},
    ],
)
def test_arguments_of_coco_without_a_meaning(arguments):
    name = next(iter(arguments))
    arguments = {"convention": "ultralytics", **arguments}
    with pytest.raises(ValueError, match=f"^`{name}` "):
        MeanAveragePrecision(**arguments)
    with pytest.raises(ValueError, match=f"^`{name}` "):
        coco_mean_average_precision([], [], **arguments)


def test_the_metric_of_coco_by_a_convention():
    with pytest.raises(ValueError, match="`backend` cannot be combined with `convention`, got 'faster_coco_eval'"):
        MeanAveragePrecision(backend="faster_coco_eval", convention="ultralytics")
    with pytest.raises(ValueError, match="`class_names` cannot be combined"):
        coco_mean_average_precision([], [], class_names=["cat"], convention="ultralytics")
    metric = MeanAveragePrecision("xywh", "segm", convention="ultralytics", class_names=["cat"], sync="exchange")
    assert type(metric) is VOCMeanAveragePrecision
    assert repr(metric) == (
        "VOCMeanAveragePrecision(box_format='xywh', iou_thresholds=<10 from 0.5 to 0.95>, class_names=['cat'], "
        "iou_type='segm', convention='ultralytics', sync='exchange')"
    )

    class Own(MeanAveragePrecision):
        pass

    assert type(Own(convention=None)) is Own
    with pytest.raises(ValueError, match="`convention` is an argument of MeanAveragePrecision itself"):
        Own(convention="ultralytics")


def test_thresholds():
    assert VOCMeanAveragePrecision().iou_thresholds == 0.5
    assert VOCMeanAveragePrecision(convention="ultralytics").iou_thresholds == np.linspace(0.5, 0.95, 10).tolist()


@pytest.mark.filterwarnings("ignore:.*boxes in `preds`")
def test_intervals_slices_curves_and_errors():
    preds, target = ([image for seed in range(0, 12, 2) for image in scene(seed)[side]] for side in (0, 1))
    metric = VOCMeanAveragePrecision(convention="ultralytics-8.3", class_metrics=True, diagnose=False)
    metric.update(preds, target, sample_ids=torch.arange(len(preds)))
    numbers = metric.compute()
    interval = metric.confidence_interval(n_resamples=50)
    assert float(interval.estimate) == pytest.approx(numbers["map"].item(), abs=SINGLE)
    assert float(interval.low) < float(interval.estimate) < float(interval.high)
    half = list(range(len(preds) // 2))
    row = metric.per_slice({"half": half, "all": list(range(len(preds)))})
    assert row["precision"][1].item() == pytest.approx(numbers["precision"].item(), abs=SINGLE)
    alone = VOCMeanAveragePrecision(convention="ultralytics-8.3", diagnose=False)
    alone.update(preds[: len(half)], target[: len(half)])
    assert row["recall"][0].item() == pytest.approx(alone.compute()["recall"].item(), abs=SINGLE)
    aps = [float(curve.average_precision) for curve in metric.curve(0.5)]
    assert aps == pytest.approx(numbers["map_50_per_class"].tolist(), abs=SINGLE, nan_ok=True)
    assert 0 < float(metric.errors().average_precision) < 1


@pytest.fixture
def yolo(tmp_path):
    """Write a YOLO folder of labels and predictions, and return its paths and images, boxes in pixels."""
    rng = np.random.default_rng(3)
    lines = {"labels": {}, "predictions": {}}
    for image in range(12):
        true = np.concatenate([rng.uniform(0.3, 0.7, (5, 2)), rng.uniform(0.05, 0.3, (5, 2))], 1).round(4)
        found = (true + rng.normal(scale=0.02, size=true.shape)).clip(0.01, 0.99).round(4)
        labels, scores = rng.integers(0, 3, 5), rng.permutation(np.arange(1, 6) / 8 + image / 1000)
        lines["labels"][image] = [(int(c), *x) for c, x in zip(labels, true, strict=True)]
        lines["predictions"][image] = [(int(c), *x, s) for c, x, s in zip(labels, found, scores, strict=True)]
    for folder, images in lines.items():
        (tmp_path / folder).mkdir()
        for image, rows in images.items():
            text = "\n".join(" ".join(map(str, row)) for row in rows)
            (tmp_path / folder / f"{image}.txt").write_text(text)
    (tmp_path / "sizes.csv").write_text("".join(f"{image} 100 100\n" for image in range(12)))
    return tmp_path, lines


def side_of(rows):
    values = torch.tensor([row[1:5] for row in rows], dtype=torch.float64)
    return {"boxes": values, "labels": torch.tensor([row[0] for row in rows])}


def test_yolo_folder(yolo, capsys):
    folder, lines = yolo
    paths = [str(folder / name) for name in ("labels", "predictions")]
    arguments = ["voc", *paths, "--format", "yolo", "--convention", "ultralytics"]
    arguments += ["--images", str(folder / "sizes.csv")]
    assert main([*arguments, "--json", "--per-class"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    preds = [{**side_of(x), "scores": torch.tensor([row[5] for row in x])} for x in lines["predictions"].values()]
    target = [side_of(x) for x in lines["labels"].values()]
    wanted = voc_mean_average_precision(preds, target, "cxcywh", convention="ultralytics", dtype=torch.float64)
    for name in ("map", "map_50", "precision", "recall", "score"):
        assert numbers[name] == pytest.approx(wanted[name].item(), abs=SINGLE)
    assert numbers["per_class"]["name"] == ["0", "1", "2"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "mAP50-95" in text
    assert "all" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--max-detections", "10"], "--max-detections has no meaning"), (["--iou-type", "keypoints"], "--iou-type must")],
)
def test_coco_command(options, message, tmp_path, capsys):
    ids = {"image_id": 1, "category_id": 1}
    box = {"bbox": [0.0, 0.0, 20.0, 20.0], **ids, "num_keypoints": 1, "keypoints": [1, 1, 2] * 17}
    truth = {
        "images": [{"id": 1, "width": 99, "height": 99}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "area": 400.0, "iscrowd": 0, **box}],
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps([{"score": 0.9, **box}]))
    arguments = ["coco", str(tmp_path / "truth.json"), str(tmp_path / "results.json"), "--convention", "ultralytics"]
    assert main([*arguments, "--per-class", "--csv"]) == 0
    assert "map_50,all,0.995" in capsys.readouterr().out
    assert main([*arguments, *options]) == 2
    assert message in capsys.readouterr().err
