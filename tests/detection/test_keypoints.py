"""Keypoints: COCO's numbers to the last bit, VOC's rule, files and invalid input."""

import contextlib
import io
import json
import re
from functools import partial

import numpy as np
import pytest
import torch

from tests.support.oracles_detection import joined, many, packed, pycocotools_eval, random_poses, voc_ap
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision, detection
from torch_ap.cli.main import main
from torch_ap.cli.notes import to_option_names
from torch_ap.detection.shapes import keypoints
from torch_ap.functional import coco_mean_average_precision, voc_mean_average_precision

NAMES = ("map", "map_50", "map_75", "map_medium", "map_large")
NAMES += ("mar_20", "mar_iou_50", "mar_iou_75", "mar_medium", "mar_large")
FEW = [0.03, 0.05, 0.08, 0.1, 0.2]
POSES = {"box_format": "xywh", "iou_type": "keypoints"}


def test_two_thousand_scenes_equal_pycocotools():
    same_as_pycocotools(*many(random_poses))


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_scenes_alone_and_of_five_points_equal_pycocotools(first):
    sigmas = FEW if first % 20 else None
    for seeds in (range(first, first + 10), [first]):
        same_as_pycocotools(*joined(random_poses, seeds, points=5 if sigmas else 17), sigmas)


def same_as_pycocotools(preds, target, sigmas=None):
    found = coco_mean_average_precision(
        preds, target, **POSES, sigmas=sigmas, extended_summary=True, dtype=torch.float64
    )
    theirs = pycocotools_eval(preds, target, kind="keypoints", sigmas=sigmas)
    for name in ("precision", "recall", "scores"):
        np.testing.assert_array_equal(found[name].reshape(theirs.eval[name].shape), theirs.eval[name])
    for (image, label), ious in theirs.ious.items():
        np.testing.assert_array_equal(np.float32(found["ious"][image, label]), np.float32(ious))
    with contextlib.redirect_stdout(io.StringIO()):
        theirs.summarize()
    assert [float(found[name]) for name in NAMES] == theirs.stats.tolist()


def test_skipped_pairs_do_not_reach_the_threshold():
    preds, target = (packed(side) for side in random_poses(5, images=30))
    for least in (1e-300, 0.1, 0.5, 0.95, 1 - 1e-10):
        pair = keypoints.coco_pairs(
            preds["keypoints"], target["keypoints"], target["area"], target["boxes"], keypoints.SIGMAS
        )
        d, g = (torch.arange(len(x["labels"])) for x in (preds, target))
        d, g = d.repeat_interleave(len(g)), g.repeat(len(d))
        every = pair(d, g, 0.0)[2]
        kept = pair(d, g, least)
        reaching = every >= least
        assert torch.equal(kept[0], d[reaching])
        assert torch.equal(kept[1], g[reaching])
        assert torch.equal(kept[2], every[reaching])


def test_pairs_at_the_edge_of_the_highest_threshold_are_not_skipped():
    """For single points, only rounding separates the distance bound from the similarity."""
    draw = partial(torch.rand, 20000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    least, area, sigma = 1 - 1e-10, 1 + 1e4 * draw(), 0.05
    exponent = 1e-10 * (1 + 4e-5 * (draw() - 0.5))
    truths = torch.tensor([0.0, 0, 2], dtype=torch.float64).repeat(len(area), 1, 1)
    found = truths.clone()
    found[:, 0, 0] = 2 * sigma * (2 * area * exponent).sqrt()
    pair = keypoints.coco_pairs(found, truths, area, torch.full((len(area), 4), torch.nan), [sigma])
    every = torch.arange(len(area))
    reaching = pair(every, every, 0.0)[2] >= least
    assert 0.4 < reaching.double().mean() < 0.6
    assert torch.equal(pair(every, every, least)[0], every[reaching])


def test_similarities_near_the_least_float_are_their_definition():
    apart = np.sqrt(2 * np.linspace(690, 750, 100))
    found, truths = np.zeros((100, 1, 3)), np.full((100, 1, 3), [0.0, 0, 2])
    found[:, 0, 0] = apart
    images = torch.from_numpy(found), torch.from_numpy(truths), torch.ones(100).double(), torch.zeros((100, 4)).double()
    every = torch.arange(100)
    similarity = keypoints.coco_pairs(*images, [0.5])(every, every, 0.0)[2]
    np.testing.assert_array_equal(similarity, np.exp(-(apart**2 / (1 + np.spacing(1)) / 2)))


def test_voc_of_two_thousand_scenes_is_the_rule_on_the_similarity():
    preds, target = many(random_poses)
    target = [{"difficult": t.pop("iscrowd").bool(), **t} for t in target]
    found = voc_mean_average_precision(preds, target, **POSES, class_metrics=True, dtype=torch.float64)
    given, true = [], []
    for p, t in zip(preds, target, strict=True):
        similarity = detection.pairs.keypoint_similarity(p["keypoints"], t["keypoints"], t["area"], t["boxes"], "xywh")
        given.append({**p, "ious": similarity})
        true.append({**t, "difficult": t["difficult"] | ~(t["keypoints"][..., 2] > 0).any(1)})
    settings = {"pixel": 0, "strict": False, "eleven": False}
    expected = [voc_ap(given, true, label, 0.5, **settings) for label in found["classes"].tolist()]
    np.testing.assert_allclose(found["map_per_class"], expected, rtol=0, atol=REORDERED)


def test_boxes_matter_only_without_labelled_keypoints():
    preds, target = random_poses(3, images=20)
    whole = coco_mean_average_precision(preds, target, **POSES)
    unlabelled = [{**t, "keypoints": t["keypoints"] * torch.tensor([1.0, 1, 0])} for t in target]
    labelled = [{**t, "keypoints": t["keypoints"].clone()} for t in target]
    for image in labelled:
        image["keypoints"][:, 0, 2] = 2
    without = [{key: x for key, x in t.items() if key != "boxes"} for t in labelled]
    same = [coco_mean_average_precision(preds, truths, **POSES)["map"] for truths in (labelled, without)]
    assert same[0] == same[1]
    assert whole["map"] > 0
    assert coco_mean_average_precision(preds, unlabelled, **POSES)["map"] == -1
    metric, other = (MeanAveragePrecision(**POSES) for _ in range(2))
    metric.update(preds, without)
    other.update(preds[::-1], without)
    metric.compare(other, n_resamples=9)  # NaN for unknown boxes do not make ground truths differ


def image(**change):
    points = torch.ones(2, 5, 3)
    one = {"keypoints": points, "labels": torch.tensor([0, 1]), "area": torch.ones(2), "boxes": torch.ones(2, 4)}
    return {**one, **change}


@pytest.mark.parametrize(
    ("side", "change", "message"),
    [
        (
            "preds",
            {"keypoints": torch.ones(2, 6, 3)},
            r"must have shape \(N, 5, 3\), a point for each of `sigmas`, got \(2, 6, 3\)",
        ),
        ("target", {"keypoints": torch.ones(2, 15)}, r"must have shape \(N, 5, 3\)"),
        ("target", {"keypoints": torch.full((2, 5, 3), 3.0)}, r"must have 0, 1 or 2 .*, got \[3.0, 3.0, 3.0\]"),
        ("target", {"keypoints": torch.full((2, 5, 3), 0.5)}, "must have 0, 1 or 2"),
        ("preds", {"keypoints": torch.full((2, 5, 3), torch.nan)}, r"must be finite, got \[nan"),
        ("target", {"area": -torch.ones(2)}, "must be a finite number of at least 0, got -1"),
        ("target", {"boxes": torch.tensor([[0.0, 0, -1, 1]] * 2)}, "must have no negative width"),
        ("target", {"boxes": torch.tensor([[0.0, 0, torch.nan, 1]] * 2)}, "must be finite, or entirely NaN"),
    ],
)
def test_bad_input(side, change, message):
    given = {"preds": [image(scores=torch.ones(2))] * 2, "target": [image()] * 2}
    given[side] = [given[side][0], given[side][0] | change]
    for make in (MeanAveragePrecision, VOCMeanAveragePrecision):
        metric = make(**POSES, sigmas=FEW)
        (key,) = change
        with pytest.raises(ValueError, match=rf"`{side}\[1\]\['{key}'\]` {message}"):
            metric.update(**given)
        assert not metric.detection_scores


def test_areas_of_ground_truths_are_required():
    truth = image()
    del truth["area"]
    with pytest.raises(ValueError, match=r"`target\[0\]` must have the key 'area'"):
        coco_mean_average_precision([image(scores=torch.ones(2))], [truth], **POSES, sigmas=FEW)
    with pytest.raises(ValueError, match="must be one kind"):
        VOCMeanAveragePrecision(iou_type=("bbox", "segm"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preds": torch.ones(2, 5, 2)}, r"`preds` must have shape \(N, 5, 3\), got \(2, 5, 2\)"),
        ({"area": torch.ones(2)}, r"`area` must have shape \(3,\), got \(2,\)"),
        ({"target": torch.full((3, 5, 3), 7)}, "`target` must have 0, 1 or 2"),
        ({"area": torch.full((3,), -1.0)}, "`area` must be a finite number of at least 0"),
        ({"sigmas": [0.0] * 5}, "`sigmas` must be None or a list"),
        ({"boxes": torch.tensor([[1.0, 0, 0, 1]] * 3)}, "`boxes` must have x1 <= x2"),
    ],
)
def test_bad_input_of_the_function(change, message):
    given = {"preds": torch.ones(2, 5, 3), "target": torch.ones(3, 5, 3), "area": torch.ones(3), "sigmas": FEW}
    with pytest.raises(ValueError, match=message):
        detection.pairs.keypoint_similarity(**{**given, **change})


@pytest.fixture
def files(tmp_path):
    """Write COCO's files of one scene and return the lines that pycocotools prints for them."""

    def write(with_boxes=False, **change):
        preds, target = random_poses(4, images=40, classes=2)
        theirs = pycocotools_eval(preds, target, kind="keypoints")
        truth, found = theirs.cocoGt.dataset, theirs.cocoDt.dataset["annotations"]
        keys = ("image_id", "category_id", "keypoints", "score", *(["bbox"] if with_boxes else []))
        found = [{key: one[key] for key in keys} for one in found]
        if change:
            truth["annotations"][3] |= change
        for name, content in (("truth", truth), ("found", found)):
            (tmp_path / name).write_text(json.dumps(content, default=float))
        return theirs

    write.paths = [str(tmp_path / name) for name in ("truth", "found")]
    return write


def test_command_prints_the_lines_of_pycocotools(files, capsys):
    theirs = files()
    capsys.readouterr()
    theirs.summarize()
    lines = capsys.readouterr().out
    command = ["coco", *files.paths, "--iou-type", "keypoints"]
    assert main(command) == 0
    assert capsys.readouterr().out == lines
    assert main([*command, "--json", "--interval", "--n-resamples", "9"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[name] for name in NAMES] == theirs.stats.tolist()
    few = ",".join(["0.1"] * 16)
    assert main([*command, "--sigmas", few]) == 2
    assert "truth: has 17 keypoints per object and needs as many --sigmas, got 16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keypoints": [1, 2]}, r"annotations\[3\]: 'keypoints' must contain x, y and a third number of each keypoint"),
        ({"keypoints": [1, 2, 2]}, r"annotations\[\d+\]: 'keypoints' must contain \d+ numbers, as th(at|ose) of"),
        (
            {"keypoints": [1, 2, 3] * 17},
            r"annotations\[3\]: 'keypoints' must contain 0, 1 or 2 .* got 3",
        ),
        ({"keypoints": ["1", 2, 2] * 17}, r"annotations\[3\]: 'keypoints' must contain finite numbers"),
        ({"keypoints": [0] * 51, "num_keypoints": 3}, r"annotations\[3\]: 'num_keypoints' must fit: no keypoint is"),
    ],
)
def test_faults_of_files(files, change, message, capsys):
    files(**change)
    assert main(["coco", *files.paths, "--iou-type", "keypoints"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_metric_reads_files(files):
    theirs = files(with_boxes=True)
    metric = MeanAveragePrecision(**POSES)
    preds, target = metric.coco_to_tm(*reversed(files.paths), iou_type="keypoints")
    metric.update(preds, target)
    theirs.summarize()
    assert float(metric.compute()["map"]) == theirs.stats[0]
    with pytest.raises(ValueError, match="must be 'bbox', 'segm' or 'boundary'"):
        metric.tm_to_coco("never")


@pytest.mark.parametrize("made", [np.array, torch.tensor, tuple])
def test_sigmas_may_be_an_array_or_a_tensor(made):
    metric = MeanAveragePrecision(iou_type="keypoints", sigmas=made([0.5, 0.25]))
    assert metric._settings.sigmas == (0.5, 0.25)
    for wrong in ([[0.5]], [], [0.0], [True], [float("nan")]):
        with pytest.raises(ValueError, match="`sigmas` must be"):
            MeanAveragePrecision(iou_type="keypoints", sigmas=made(wrong))


def test_sigmas_follow_the_tensor():
    sigmas = torch.tensor([0.5, 0.25])
    before = MeanAveragePrecision(iou_type="keypoints", sigmas=sigmas)
    sigmas[0] = 0.125
    after = MeanAveragePrecision(iou_type="keypoints", sigmas=sigmas)
    assert [metric._settings.sigmas[0] for metric in (before, after)] == [0.5, 0.125]


def test_the_command_names_its_own_option_for_sigmas():
    message = "`sigmas` must be None or a list of numbers in [1e-09, 1e+09], got [0.0]"
    assert to_option_names(message, {"sigmas"}) == "--sigmas must be numbers in [1e-09, 1e+09], got [0.0]"
