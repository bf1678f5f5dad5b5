"""Detections of negative size, which COCO's own code accepts: all metrics of boxes give one equal warning."""

import re
import warnings
from functools import partial

import pytest
import torch

from torch_ap import detection, functional
from torch_ap.cli.main import main

FUNCTIONS = {
    "coco": functional.coco_mean_average_precision,
    "lvis": functional.lvis_mean_average_precision,
    "voc": functional.voc_mean_average_precision,
    "kitti": functional.kitti_mean_average_precision,
    "open images": functional.open_images_mean_average_precision,
}
METRICS = {
    "coco": detection.MeanAveragePrecision,
    "coco, matched": partial(detection.MeanAveragePrecision, match="update"),
    "lvis": detection.LVISMeanAveragePrecision,
    "voc": detection.VOCMeanAveragePrecision,
    "voc, matched": partial(detection.VOCMeanAveragePrecision, match="update"),
    "open images": detection.OpenImagesMeanAveragePrecision,
}
GOOD = [10.0, 10, 40, 40]
BAD = {"xyxy": [[9.0, 5, 4, 8], [1.0, 8, 2, 5]], "xywh": [[9.0, 5, -1, 8], [1.0, 8, 2, -5]]}


def scene(form, device):
    """Return three images; the second has two detections of negative size, the third one."""
    bad = BAD["xyxy" if form == "xyxy" else "xywh"]
    nothing = {name: torch.empty(0).long() for name in ("neg_category_ids", "not_exhaustive_category_ids")}
    preds = [
        {"boxes": torch.tensor(x), "scores": torch.rand(len(x)), "labels": torch.zeros(len(x)).long()}
        for x in ([GOOD], [GOOD, *bad], [bad[1]])
    ]
    target = [{"boxes": torch.tensor([GOOD]), "labels": torch.tensor([0]), **nothing}] * 3
    return [[{key: x.to(device) for key, x in image.items()} for image in side] for side in (preds, target)]


def message(form):
    """Return the pattern of the warning: number, image, format and value."""
    first = re.escape(f"`preds[1]['boxes']`: {[float(x) for x in BAD['xyxy' if form == 'xyxy' else 'xywh'][0]]}")
    return f"3 of 5 boxes in `preds` .*`box_format='{form}'`.* {first}"


def function_tells_once(name, form, device):
    preds, target = scene(form, device)
    with pytest.warns(UserWarning, match=message(form)) as told:
        FUNCTIONS[name](preds, target, box_format=form)
    assert len(told) == 1
    FUNCTIONS[name](preds[:1], target[:1], box_format=form)
    FUNCTIONS[name](preds, target, box_format=form, validate_args=False)


def metric_tells_once(name, form, device):
    """Assert that a metric warns once.

    ``update`` warns, except on an accelerator: there ``compute`` warns, so that ``update`` does not wait. Metrics that
    do not store boxes always warn in ``update``.
    """
    preds, target = scene(form, device)
    metric = METRICS[name](box_format=form).to(device)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        metric.update(preds, target)
        at_once = len(told)
        metric.compute()
        metric._columns()  # for another number of the same images
    assert at_once == (device == "cpu" or "matched" in name)
    assert re.search(message(form), str(told[0].message))
    assert len(told) == 1
    metric.reset()
    metric.update(preds[:1], target[:1])
    metric.compute()
    unchecked = METRICS[name](box_format=form, validate_args=False).to(device)
    unchecked.update(preds, target)
    unchecked.compute()


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh"])
def test_each_warns_once(form):
    for name in FUNCTIONS:
        function_tells_once(name, form, "cpu")
    for name in METRICS:
        metric_tells_once(name, form, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_images_stored_on_another_device_cause_one_warning(device):
    metric = detection.MeanAveragePrecision(compute_on_cpu=True).to(device)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        metric.update(*scene("xyxy", device))
        assert metric.detection_boxes[0].is_cpu
        metric.compute()
        metric.per_class()
    assert len(told) == 1
    assert re.search(message("xyxy"), str(told[0].message))


@pytest.mark.gpu
def test_each_warns_once_on_an_accelerator():
    for name in FUNCTIONS:
        function_tells_once(name, "xyxy", "cuda")
    for name in METRICS:
        metric_tells_once(name, "xyxy", "cuda")


def test_a_warning_that_is_an_error_leaves_the_state():
    metric = detection.MeanAveragePrecision()
    with pytest.raises(UserWarning, match=message("xyxy")):
        metric.update(*scene("xyxy", "cpu"))
    assert (metric.update_count, metric.detection_boxes) == (0, [])


def test_the_command_for_voc_warns(tmp_path, capsys):
    for folder, line in (("truths", "cat 10 10 40 40"), ("found", "cat 0.5 10 10 40 40\ncat 0.4 9 5 4 8")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.txt").write_text(line)
    assert main(["voc", str(tmp_path / "truths"), str(tmp_path / "found")]) == 0
    said = capsys.readouterr().err
    assert re.search(r"found: 1 of 2 boxes .* image 'one', .*\[9.0, 5.0, 4.0, 8.0\]", said)
    assert said.count("\n") == 1
