"""Classes and functions have the interface of torchmetrics: attributes, curves, converters, NaN strategies."""

import itertools
import json
import os
import pathlib
import warnings

import numpy as np
import pycocotools.mask
import pytest
import torch
import torchmetrics
import torchmetrics.classification as classes
import torchmetrics.functional.classification as theirs
import torchmetrics.retrieval as retrieval
from lightning.fabric.utilities import move_data_to_device

import torch_ap
from tests.support.cases import CLASSES, by_definition
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap import functional as ours
from torch_ap.detection.shapes import boxes

NAN = float("nan")
EXEMPT = {
    "training",  # an attribute of `nn.Module` instances on both sides
    "allow_non_binary_target",  # replaced by `relevance_level`
}
PAIRS = [
    *((getattr(classes, name), getattr(torch_ap, name)) for name in torch_ap.__all__ if hasattr(classes, name)),
    *((getattr(retrieval, name), getattr(torch_ap, name)) for name in torch_ap.__all__ if hasattr(retrieval, name)),
]
WIDTHS = {"Binary": {}, "Multiclass": {"num_classes": 3}, "Multilabel": {"num_labels": 3}}
LEAST = {"AveragePrecision": {}, "PrecisionAtFixedRecall": {"min_recall": 0.5}}
LEAST["RecallAtFixedPrecision"] = {"min_precision": 0.5}
NEEDED = {task + name: width | least for task, width in WIDTHS.items() for name, least in LEAST.items()}


def public(metric):
    return {name for name in {*dir(metric), *vars(metric)} if not name.startswith("_")}


def is_metric(pair):
    return isinstance(pair[0], type) and pair[0].__name__ != "AveragePrecision"


@pytest.mark.parametrize(("their", "our"), [*filter(is_metric, PAIRS)], ids=lambda kind: kind.__name__)
def test_public_attributes_of_torchmetrics_are_there(their, our):
    words = NEEDED.get(their.__name__, {})
    for extra in ({}, {"thresholds": 5}) if words or "Binary" in their.__name__ else ({},):
        one, two = their(**words, **extra), our(**words, **extra)
        assert public(one) - EXEMPT <= public(two)


def test_settings_of_retrieval_can_be_read():
    metric = torch_ap.RetrievalPrecision("skip", -1, 3, True, "median")
    assert (metric.empty_target_action, metric.ignore_index, metric.top_k) == ("skip", -1, 3)
    assert (metric.adaptive_k, metric.aggregation) == (True, "median")
    assert torch_ap.RetrievalMAP(top_k=4).k == 4
    assert torch_ap.RetrievalRPrecision().top_k is None


@pytest.mark.parametrize("name", ["Binary", "Multiclass", "Multilabel"])
def test_held_items_are_torchmetrics(name, generator):
    words = NEEDED.get(f"{name}AveragePrecision", {})
    shape = (20,) if name == "Binary" else (20, 3)
    preds = torch.rand(shape, generator=generator)
    preds = preds.softmax(1) if name == "Multiclass" else preds
    target = torch.randint(-1, 3 if name == "Multiclass" else 2, (20,) if words.get("num_classes") else shape)
    made = [
        getattr(package, f"{name}AveragePrecision")(**words, ignore_index=-1, **more)
        for package in (classes, torch_ap)
        for more in ({}, {"thresholds": 5})
    ]
    for metric in made:
        metric.update(preds, target)
    exact, binned, our_exact, our_binned = made
    for attribute in ("preds", "target"):
        for one, two in zip(getattr(exact, attribute), getattr(our_exact, attribute), strict=True):
            torch.testing.assert_close(two, one, rtol=0, atol=0)
    torch.testing.assert_close(our_binned.confmat, binned.confmat, rtol=0, atol=0)
    assert our_binned.preds == our_binned.target == []
    with pytest.raises(AttributeError):
        _ = our_exact.confmat


def test_held_items_of_queries():
    preds, target = torch.tensor([0.3, 0.2, 0.9, 0.5]), torch.tensor([1, 0, -1, 1])
    indexes = torch.tensor([4, 4, 4, 7])
    one, two = retrieval.RetrievalMAP(ignore_index=-1), torch_ap.RetrievalMAP(ignore_index=-1)
    for metric in (one, two):
        metric.update(preds, target, indexes)
    for attribute in ("preds", "target", "indexes"):
        assert torch.equal(torch.cat(getattr(two, attribute)), torch.cat(getattr(one, attribute)))
    rows = torch_ap.RetrievalMAP(ignore_index=-1)
    rows.update(preds.reshape(2, 2), target.reshape(2, 2))
    rows.update(preds.reshape(1, 4), target.reshape(1, 4))
    assert [x.tolist() for x in rows.indexes] == [[0, 0, 1], [2, 2, 2]]
    assert [len(x) for x in rows.preds] == [len(x) for x in rows.target] == [3, 3]


def test_repr_shows_the_settings():
    shown = {
        repr(torch_ap.MulticlassAveragePrecision(3, thresholds=100, normalization="softmax")): (
            "MulticlassAveragePrecision(num_classes=3, average='macro', thresholds=<100 from 0 to 1>, "
            "normalization='softmax')"
        ),
        repr(torch_ap.MultilabelAveragePrecision(4, thresholds=[0.1, 0.2], ignore_index=-1)): (
            "MultilabelAveragePrecision(num_labels=4, average='macro', thresholds=[0.1, 0.2], ignore_index=-1, "
            "normalization=None)"
        ),
        repr(torch_ap.RetrievalMAP("skip", aggregation="gm")): (
            "RetrievalMAP(empty_target_action='skip', aggregation='gm')"
        ),
        repr(torch_ap.MeanAveragePrecision(iou_thresholds=[0.5], class_metrics=True)): (
            "MeanAveragePrecision(box_format='xyxy', iou_type='bbox', iou_thresholds=[0.5], class_metrics=True, "
            "average='macro')"
        ),
        repr(torch_ap.VOCMeanAveragePrecision(strict=True)): (
            "VOCMeanAveragePrecision(box_format='xyxy', iou_thresholds=0.5, interpolation='all-points', strict=True)"
        ),
    }
    assert list(shown) == list(shown.values())


@pytest.mark.parametrize("name", ["BinaryAveragePrecision", "RetrievalMAP", "MulticlassAveragePrecision"])
def test_classes_of_one_name_are_distinguished(name):
    words = NEEDED.get(name, {})
    package = retrieval if name.startswith("Retrieval") else classes
    mine, other = getattr(torch_ap, name)(**words), getattr(package, name)(**words)
    for call in (mine.compare, mine.merge_state):
        with pytest.raises(ValueError, match=rf"must be a torch_ap\..*\.{name}, got a torchmetrics\..*\.{name}"):
            call(other)
        with pytest.raises(ValueError, match=rf"must be a {name}, got a SumMetric"):
            call(torchmetrics.SumMetric())


class TestNaN:
    @pytest.mark.parametrize("thresholds", [None, 7])
    @pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
    def test_items_are_left_out(self, task, thresholds, generator):
        shape = (50,) if task == "binary" else (50, CLASSES)
        preds = (torch.rand(shape, generator=generator) * 8).round() / 8
        high = CLASSES if task == "multiclass" else 2
        target = torch.randint(high, (50,) if task == "multiclass" else shape, generator=generator)
        preds[torch.rand(shape, generator=generator) < 0.1] = NAN
        gone = preds.isnan().any(1) if task == "multiclass" else preds.isnan()
        marked = target.masked_fill(gone, -1)
        words = {"binary": {}, "multiclass": {"num_classes": CLASSES}, "multilabel": {"num_labels": CLASSES}}[task]
        if task != "binary":
            words["average"] = None
        levels = None if thresholds is None else torch.linspace(0, 1, thresholds)
        undefined = None if task == "multiclass" else 0.0
        expected = torch.tensor(by_definition(undefined=undefined, thresholds=levels)(preds, marked))
        function = getattr(ours, f"{task}_average_precision")
        metric = getattr(torch_ap, f"{task.capitalize()}AveragePrecision")
        settings = {**words, "thresholds": thresholds}
        for strategy in ("ignore", "warn"):
            found = metric(**settings, nan_strategy=strategy)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for part in range(0, 50, 10):
                    found.update(preds[part : part + 10], target[part : part + 10])
                value = function(preds, target, **settings, nan_strategy=strategy)
            told = [str(one.message) for one in said if "NaN" in str(one.message)]
            assert len(told) == (
                0 if strategy == "ignore" else 1 + sum(gone[p : p + 10].any() for p in range(0, 50, 10))
            )
            assert not told or f"left out: {int(gone.sum())}" in told[-1]
            torch.testing.assert_close(value.reshape(-1), expected.float(), equal_nan=True)
            torch.testing.assert_close(found.compute(), value, rtol=0, atol=0, equal_nan=True)
        with pytest.raises(ValueError, match="`preds` must not contain NaN"):
            function(preds, target, **settings)

    def test_ignored_items_do_not_warn(self):
        preds, target = torch.tensor([0.9, NAN, 0.2]), torch.tensor([1, -1, 0])
        value = ours.binary_average_precision(preds, target, ignore_index=-1, nan_strategy="warn")
        assert value == 1

    def test_all_nan_is_no_item(self):
        with pytest.warns(UserWarning, match="NaN"):
            value = ours.binary_average_precision(torch.tensor([NAN]), torch.tensor([1]), nan_strategy="ignore")
        assert value.isnan()

    def test_bad_strategy(self):
        for bad in ("drop", None, 0):
            with pytest.raises(ValueError, match=rf"`nan_strategy` must .* got {bad!r}"):
                torch_ap.BinaryAveragePrecision(nan_strategy=bad)


class TestLogits:
    LOGITS, TARGET = torch.tensor([[2.0, 0.5, -1.0], [0.1, 1.5, 0.3], [1.0, -0.2, 0.4]]), torch.tensor([0, 1, 2])

    def collect_warnings(self, call):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            call()
        return [str(one.message) for one in said if "distributions" in str(one.message)]

    def test_the_function_warns_with_the_argument_to_write(self):
        def multiclass_warnings(preds, **words):
            return self.collect_warnings(lambda: ours.multiclass_average_precision(preds, self.TARGET, 3, **words))

        assert "normalization='softmax'" in multiclass_warnings(self.LOGITS)[0]
        assert multiclass_warnings(self.LOGITS.sigmoid())
        assert multiclass_warnings((self.LOGITS * 4).round().int())
        for probabilities in (self.LOGITS.softmax(1), self.LOGITS.softmax(1).half(), self.LOGITS.softmax(1).bfloat16()):
            assert not multiclass_warnings(probabilities)
        for chosen in ("none", "softmax", "sigmoid"):
            assert not multiclass_warnings(self.LOGITS, normalization=chosen)
        assert not multiclass_warnings(torch.cat([self.LOGITS[:1], self.LOGITS[1:].softmax(1)]), ignore_index=0)
        assert multiclass_warnings(self.LOGITS, thresholds=[0.0, 1.0])

    def test_none_is_none(self):
        value = ours.multiclass_average_precision(self.LOGITS, self.TARGET, 3, normalization="none")
        assert value == ours.multiclass_average_precision(self.LOGITS, self.TARGET, 3)
        assert ours.binary_average_precision(self.LOGITS[:, 0], torch.tensor([1, 0, 0]), normalization="none") == 1

    @pytest.mark.parametrize("thresholds", [None, [0.0, 1.0]])
    def test_a_metric_warns_once(self, thresholds):
        metric = torch_ap.MulticlassAveragePrecision(3, thresholds=thresholds)

        def use():
            for _ in range(3):
                metric.update(self.LOGITS, self.TARGET)
                metric.compute()
            metric.reset()
            metric.update(self.LOGITS, self.TARGET)

        assert len(self.collect_warnings(use)) == 1

    def test_curves_warn_too(self):
        assert self.collect_warnings(lambda: ours.multiclass_precision_recall_curve(self.LOGITS, self.TARGET, 3))


def as_theirs(curve, peer):
    """Above all scores precision is 0 / 0: NaN here and in current torchmetrics, 0 in torchmetrics 1.6."""
    unreached = theirs.binary_precision_recall_curve(torch.zeros(1), torch.ones(1).long(), thresholds=[0.5])[0][0]
    return curve if unreached.isnan() else torch.where(peer.isnan(), curve, curve.nan_to_num(0))


class TestCurves:
    @pytest.mark.parametrize("thresholds", [None, 6, [0.2, 0.7]])
    @pytest.mark.parametrize("ignore_index", [None, -1])
    def test_equal_torchmetrics(self, thresholds, ignore_index, generator):
        low = 0 if ignore_index is None else -1
        scores = torch.rand(40, CLASSES, generator=generator).softmax(1)
        labels = torch.randint(low, 2, (40, CLASSES), generator=generator)
        kinds = torch.randint(low, CLASSES, (40,), generator=generator)
        calls = [
            ("binary", (scores[:, 0], labels[:, 0]), {}),
            ("multiclass", (scores, kinds, CLASSES), {}),
            ("multiclass", (scores, kinds, CLASSES), {"average": "micro"}),
            ("multilabel", (scores, labels, CLASSES), {}),
        ]
        for task, arguments, words in calls:
            words = {**words, "thresholds": thresholds, "ignore_index": ignore_index}
            one = getattr(ours, f"{task}_precision_recall_curve")(*arguments, **words)
            two = getattr(theirs, f"{task}_precision_recall_curve")(*arguments, **words)
            for mine, yours in zip(one, two, strict=True):
                mine = mine if thresholds is None else as_theirs(mine, yours)
                torch.testing.assert_close(mine, yours, equal_nan=True)
            width = {} if task == "binary" else {"num_classes" if task == "multiclass" else "num_labels": CLASSES}
            named = ours.precision_recall_curve(*arguments[:2], task, **width, **words)
            for mine, yours in zip(named, one, strict=True):
                torch.testing.assert_close(mine, yours, rtol=0, atol=0, equal_nan=True)

    def test_macro_at_distinct_scores_is_macro_at_these_thresholds(self, generator):
        for _ in range(60):
            scores = (torch.rand(8, CLASSES, generator=generator).softmax(1) * 16).round() / 16
            target = torch.randint(CLASSES - 1, (8,), generator=generator)  # the last class never occurs
            exact = ours.multiclass_precision_recall_curve(scores, target, CLASSES, average="macro")
            given = ours.multiclass_precision_recall_curve(scores, target, CLASSES, exact.thresholds, "macro")
            for one, two in zip(exact, given, strict=True):
                torch.testing.assert_close(one, two, equal_nan=True)

    @pytest.mark.parametrize("thresholds", [None, [0.3, 0.1, 0.25]])
    def test_macro_is_the_mean_of_the_classes(self, thresholds, generator):
        scores = (torch.rand(30, CLASSES, generator=generator).softmax(1) * 16).round() / 16
        target = torch.randint(CLASSES - 1, (30,), generator=generator)  # the last class never occurs
        curve = ours.multiclass_precision_recall_curve(scores, target, CLASSES, thresholds, "macro")
        levels = sorted(set(scores.flatten().tolist()) if thresholds is None else thresholds)
        assert curve.thresholds.tolist() == pytest.approx(levels)
        for level, precision, recall in zip(levels, curve.precision.tolist(), curve.recall.tolist(), strict=False):
            above = scores >= level
            hits = above & (target[:, None] == torch.arange(CLASSES))
            p = [int(hits[:, c].sum()) / int(above[:, c].sum()) for c in range(CLASSES) if above[:, c].any()]
            r = [int(hits[:, c].sum()) / int((target == c).sum()) for c in range(CLASSES - 1)]
            assert (precision, recall) == (pytest.approx(np.mean(p)), pytest.approx(np.mean(r)))
        assert (curve.precision[-1], curve.recall[-1]) == (1, 0)

    def test_positions_are_torchmetrics(self, generator):
        scores, target = torch.rand(9, 3, generator=generator).softmax(1), torch.arange(9) % 3
        one = ours.precision_recall_curve(scores, target, "multiclass", 5, 3, None, "micro", 2, False)
        two = theirs.precision_recall_curve(scores, target, "multiclass", 5, 3, None, "micro", 2, False)
        for mine, yours in zip(one, two, strict=True):
            torch.testing.assert_close(as_theirs(mine, yours), yours, equal_nan=True)
        with pytest.raises(ValueError, match=r"`average` .*None, got 'micro'"):
            ours.precision_recall_curve(scores[:, 0], target % 2, average="micro")
        with pytest.raises(ValueError, match=r"`average` .*'micro', 'macro', None, got 'weighted'"):
            ours.multiclass_precision_recall_curve(scores, target, 3, average="weighted")


def test_function_and_class_give_one_shape():
    boxes, labels = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([3])
    preds = [{"boxes": boxes, "scores": torch.tensor([0.9]), "labels": labels}]
    target = [{"boxes": boxes, "labels": labels}]
    pairs = [
        (torch_ap.MeanAveragePrecision, ours.coco_mean_average_precision),
        (torch_ap.VOCMeanAveragePrecision, ours.voc_mean_average_precision),
    ]
    for metric, function in pairs:
        for words in ({}, {"class_metrics": True}):
            made = metric(**words)
            made.update(preds, target)
            one, two = made.compute(), function(preds, target, **words)
            assert {k: v.shape for k, v in one.items()} == {k: v.shape for k, v in two.items()}
            assert all(torch.equal(one[name], two[name]) for name in one)


def codes_of(masks):
    """Return dense masks in the storage format of torchmetrics."""
    codes = [pycocotools.mask.encode(np.asfortranarray(mask.numpy())) for mask in masks]
    return tuple((tuple(code["size"]), code["counts"]) for code in codes)


class TestConverters:
    @pytest.fixture
    def folder(self):
        folder = os.environ.get("TORCH_AP_TEST_DATA")
        if folder is None:
            pytest.skip("TORCH_AP_TEST_DATA names no folder of test data")
        return pathlib.Path(folder) / "coco_val2014_100"

    @pytest.mark.parametrize(
        ("kind", "box_format"), [("bbox", "xywh"), ("bbox", "xyxy"), ("bbox", "cxcywh"), ("segm", "xyxy")]
    )
    def test_there_and_back(self, kind, box_format, folder, tmp_path):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        def read(results, annotations):
            metric = torch_ap.MeanAveragePrecision(box_format, kind, class_metrics=True).set_dtype("float64")
            sides = metric.coco_to_tm(str(results), str(annotations), kind)
            for image in itertools.chain(*sides):
                if "boxes" in image:
                    image["boxes"] = boxes.from_xywh(image["boxes"], box_format)
            metric.update(*sides)
            return metric

        files = (folder / f"instances_val2014_fake{kind}100_results.json", folder / "instances_val2014_100.json")
        metric = read(*files)
        metric.tm_to_coco(str(tmp_path / "held"))
        written = (tmp_path / "held_preds.json", tmp_path / "held_target.json")
        again, first = read(*written).compute(), metric.compute()
        for name, value in first.items():
            torch.testing.assert_close(again[name], value, rtol=0, atol=REORDERED)
        truth = COCO(written[1])
        peer = COCOeval(truth, truth.loadRes(str(written[0])), kind)
        peer.evaluate(), peer.accumulate(), peer.summarize()
        assert first["map"].item() == pytest.approx(peer.stats[0], abs=REORDERED)
        assert first["mar_100"].item() == pytest.approx(peer.stats[8], abs=REORDERED)

    def test_names_and_both_kinds(self, tmp_path):
        square = torch.zeros(1, 8, 8, dtype=torch.bool)
        square[:, 2:5, 1:7] = True
        box, label = torch.tensor([[1.0, 2.0, 7.0, 5.0]]), torch.tensor([5])
        metric = torch_ap.MeanAveragePrecision(iou_type=("bbox", "segm"), class_names={5: "cat"})
        scored = {"boxes": box, "masks": square, "scores": torch.tensor([0.5]), "labels": label}
        metric.update(
            [scored, {k: v[:0] for k, v in scored.items()}], [{"boxes": box, "masks": square, "labels": label}] * 2
        )
        metric.tm_to_coco(str(tmp_path / "x"))
        truth = json.loads((tmp_path / "x_target.json").read_text())
        assert truth["categories"] == [{"id": 5, "name": "cat"}]
        assert [image["height"] for image in truth["images"]] == [8, 8]
        assert truth["annotations"][0]["bbox"] == [1, 2, 6, 3]
        assert truth["annotations"][0]["area"] == 18
        paths = [str(tmp_path / f"x_{side}.json") for side in ("preds", "target")]
        again = torch_ap.MeanAveragePrecision("xywh", iou_type=("bbox", "segm"))
        again.update(*again.coco_to_tm(*paths, ("bbox", "segm")))
        one, two = metric.compute(), again.compute()
        assert {k: v.tolist() for k, v in two.items()} == pytest.approx({k: one[k].tolist() for k in two}, abs=SINGLE)

    @pytest.fixture
    def peer(self):
        return pytest.importorskip("torchmetrics.detection.helpers").CocoBackend("pycocotools")

    @pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # by pycocotools
    @pytest.mark.parametrize("kinds", ["bbox", "segm", ("bbox", "segm")], ids=str)
    def test_fields_of_torchmetrics(self, kinds, folder, peer, tmp_path):
        """Compare every field of ``coco_to_tm`` and ``tm_to_coco`` on real data."""
        annotations = folder / "instances_val2014_100.json"
        results = folder / f"instances_val2014_fake{kinds if isinstance(kinds, str) else 'segm'}100_results.json"
        if not isinstance(kinds, str):  # the published results have one kind each
            known = [x for x in json.loads(annotations.read_text())["annotations"] if not x["iscrowd"]]
            rows = [{key: x[key] for key in ("image_id", "category_id", "bbox", "segmentation")} for x in known]
            results = tmp_path / "both.json"
            results.write_text(json.dumps([row | {"score": place % 7 / 7} for place, row in enumerate(rows)]))
        names = (kinds,) if isinstance(kinds, str) else kinds
        metric = torch_ap.MeanAveragePrecision("xywh", kinds)
        ours = metric.coco_to_tm(str(results), str(annotations), kinds)
        theirs = peer.coco_to_tm(str(results), str(annotations), kinds, "pycocotools")
        for side, images in zip(ours, theirs, strict=True):
            for image, wanted in zip(side, images, strict=True):
                assert image.keys() == wanted.keys()
                for key, x in wanted.items():
                    shape = x.shape if len(x) else image[key].shape  # empty ones have shape (0,) there
                    torch.testing.assert_close(image[key], x.reshape(shape), rtol=0, atol=0)
        assert move_data_to_device(ours, "cpu")[0][0].keys() == ours[0][0].keys()

        metric.update(*ours)
        metric.tm_to_coco(str(tmp_path / "ours"))
        preds, target = theirs
        listed = [[x["boxes"].reshape(-1, 4) for x in side] if "bbox" in names else [] for side in (target, preds)]
        codes = [[codes_of(x["masks"]) for x in side] if "segm" in names else [] for side in (target, preds)]
        column = {key: [x[key] for x in target] for key in ("labels", "iscrowd", "area")}
        peer.tm_to_coco(
            *(column["labels"], listed[0], codes[0], column["iscrowd"], column["area"]),
            *([x["labels"] for x in preds], listed[1], codes[1], [x["scores"] for x in preds]),
            *(str(tmp_path / "theirs"), names, "macro"),
        )
        for side in ("preds", "target"):
            one, two = (json.loads((tmp_path / f"{who}_{side}.json").read_text()) for who in ("ours", "theirs"))
            if side == "target":
                assert (one["images"], one["categories"]) == (two["images"], two["categories"])
                one, two = one["annotations"], two["annotations"]
            assert one == [{k: x for k, x in row.items() if not k.startswith("area_")} for row in two]

    def test_documented_pattern_of_torchmetrics(self, folder):
        paths = [str(folder / f"instances_val2014_{x}.json") for x in ("fakebbox100_results", "100")]
        metric = torch_ap.MeanAveragePrecision(box_format="xywh")
        metric.update(*torch_ap.MeanAveragePrecision().coco_to_tm(*paths))
        assert metric.compute()["map"].item() == pytest.approx(0.5045806987249628, abs=2e-5)  # because of float32 boxes

    def test_images_without_annotations_come_last(self, tmp_path):
        truth = {
            "images": [{"id": x, "height": 4, "width": 5} for x in (1, 2, 3)],
            "annotations": [{"id": 1, "image_id": 3, "category_id": 1, "bbox": [0, 0, 2, 2], "area": 4, "iscrowd": 0}],
            "categories": [{"id": 1, "name": "cat"}],
        }
        found = [{"image_id": x, "category_id": 1, "bbox": [0, 0, 2, 2], "score": x / 4} for x in (2, 3)]
        paths = [tmp_path / "found.json", tmp_path / "truth.json"]
        for path, content in zip(paths, (found, truth), strict=True):
            path.write_text(json.dumps(content))
        preds, target = torch_ap.MeanAveragePrecision().coco_to_tm(*map(str, paths))
        assert [x["scores"].tolist() for x in preds] == [[0.75], [], [0.5]]
        assert [x["boxes"].shape for x in target] == [(1, 4), (0, 4), (0, 4)]
        for kinds in ((), ("boxes",), "boxes"):
            with pytest.raises(ValueError, match="`iou_type` must"):
                torch_ap.MeanAveragePrecision().coco_to_tm(*map(str, paths), kinds)

    def test_own_geometry_has_no_place_in_the_files(self, tmp_path):
        with pytest.raises(ValueError, match="`iou_type` must be 'bbox', 'segm' or 'boundary'"):
            torch_ap.MeanAveragePrecision(iou_type="precomputed").tm_to_coco(str(tmp_path / "x"))
