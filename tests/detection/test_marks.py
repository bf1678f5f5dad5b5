"""Keys that only one detection metric reads: the other metrics warn that they ignore them."""

import warnings

import pytest
import torch

from tests.support.each import each
from torch_ap import detection, functional

LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
READ = {
    "coco": (functional.coco_mean_average_precision, {"iscrowd"}),
    "lvis": (functional.lvis_mean_average_precision, {"ignore", *LISTS}),
    "voc": (functional.voc_mean_average_precision, {"difficult"}),
    "kitti": (functional.kitti_mean_average_precision, {"difficult", "iscrowd"}),
    "open images": (functional.open_images_mean_average_precision, {"difficult", "group_of"}),
    "nuscenes": (functional.nuscenes_mean_average_precision, set()),
}
KEYS = ("iscrowd", "difficult", "ignore", "group_of", *LISTS)
NAMED = {"iscrowd": "COCO", "difficult": "VOC", "ignore": "LVIS", "group_of": "Open Images"} | dict.fromkeys(
    LISTS, "LVIS"
)


def scene(key, value, side="target"):
    """Return two images; the second has the key."""
    boxes = {"boxes": torch.tensor([[1.0, 1, 9, 9]]), "centers": torch.tensor([[1.0, 2]]), "labels": torch.tensor([1])}
    nothing = {name: torch.empty(0).long() for name in LISTS}
    sides = {"preds": [boxes | {"scores": torch.ones(1)}] * 2, "target": [boxes | nothing] * 2}
    sides[side] = [sides[side][0], sides[side][1] | {key: value}]
    return sides


def recorded_warnings(name, sides, **settings):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        READ[name][0](**sides, **settings)
    return [str(one.message) for one in told]


@each("key", KEYS)
@each("name", [*READ])
def test_keys_of_other_rules_cause_a_warning_where_set(name, key):
    ids = key in LISTS
    for mark in [torch.tensor([7]), torch.tensor([0])] if ids else [torch.tensor([1]), torch.tensor([True])]:
        told = recorded_warnings(name, scene(key, mark))
        if key in READ[name][1]:
            assert told == []
        else:
            assert len(told) == 1
            assert told[0].startswith(f"`target[1]['{key}']` {'lists categories' if ids else 'marks objects'} by ")
            assert NAMED[key] in told[0]
        assert recorded_warnings(name, scene(key, mark), validate_args=False) == []
    assert recorded_warnings(name, scene(key, torch.tensor([], dtype=torch.int64) if ids else torch.tensor([0]))) == []


def test_warnings_name_the_marks_that_are_read():
    one = torch.tensor([1])
    assert "it reads `difficult`" in recorded_warnings("voc", scene("iscrowd", one))[0]
    assert "it reads `iscrowd`" in recorded_warnings("coco", scene("difficult", one))[0]
    assert "it reads" not in recorded_warnings("nuscenes", scene("iscrowd", one))[0]


def test_images_marked_for_several_rules_are_for_several_metrics():
    sides = scene("iscrowd", torch.tensor([1]))
    sides["target"][0] = sides["target"][0] | {"difficult": torch.tensor([0])}
    assert recorded_warnings("voc", sides) == recorded_warnings("coco", sides) == []
    sides["target"][0] = sides["target"][0] | {"neg_category_ids": torch.tensor([3])}
    assert recorded_warnings("voc", sides)[0].startswith("`target[0]['neg_category_ids']` lists categories")


def test_detections_and_the_packed_form_may_have_them_too():
    assert recorded_warnings("kitti", scene("ignore", torch.tensor([1]), "preds")) == []
    assert recorded_warnings("voc", scene("ignore", torch.tensor([1]), "preds"))[0].startswith(
        "`preds[1]['ignore']` marks objects"
    )
    packed = {
        side: {key: torch.cat([one[key] for one in images]) for key in images[0] if key not in LISTS}
        for side, images in scene("labels", torch.tensor([1])).items()
    }
    for side in packed.values():
        side["counts"] = torch.tensor([1, 1])
    packed["target"]["iscrowd"] = torch.tensor([0, 1])
    assert recorded_warnings("voc", packed)[0].startswith("`target['iscrowd']` marks objects")
    assert recorded_warnings("coco", packed) == []


def test_marks_of_any_dtype_are_read():
    sides = scene("iscrowd", torch.tensor([1], dtype=torch.uint16))
    sides["target"][0] = sides["target"][0] | {"iscrowd": torch.zeros(1)}
    assert recorded_warnings("voc", sides)[0].startswith("`target[1]['iscrowd']`")
    assert recorded_warnings("voc", scene("iscrowd", torch.tensor([[1]])))[0].startswith("`target[1]['iscrowd']`")
    assert recorded_warnings("voc", scene("iscrowd", "no tensor")) == []


def test_a_warning_that_is_an_error_leaves_the_state():
    metric = detection.VOCMeanAveragePrecision()
    with pytest.raises(UserWarning, match="it reads `difficult`"):
        metric.update(**scene("iscrowd", torch.tensor([1])))
    assert (metric.update_count, metric.detection_boxes) == (0, [])
