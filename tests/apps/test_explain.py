"""Named conventions against the programs, steps that add up, reported numbers, and the command."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import pytrec_eval
import torch
import torchmetrics.functional.classification as tm
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.figure import Figure
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.metrics import auc, average_precision_score, precision_recall_curve
from sklearn.preprocessing import label_binarize
from torchmetrics.retrieval import RetrievalMAP

from tests.support.each import each
from tests.support.oracles_detection import random_scene
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap import explain
from torch_ap.cli.main import main
from torch_ap.explanation import record
from torch_ap.explanation.detections import Detections, DetectionSettings
from torch_ap.functional import (
    coco_mean_average_precision,
    lvis_mean_average_precision,
    voc_mean_average_precision,
)

SCORES, TARGET = torch.tensor([0.9, 0.7, 0.7, 0.4, 0.2]), torch.tensor([0, 1, 0, 1, 0])
QRELS = {"q1": {"a": 1, "b": 0, "c": 1}, "q2": {"a": 1}, "q3": {"a": 0}}
RUN = {"q1": {"b": 2.0, "a": 1.0, "q1": 3.0, "c": 1.0}, "q3": {"a": 0.5}}


def value_of(explanation, name):
    return pytest.approx(explanation.values[name], abs=REORDERED)


# -- scores


def drawn_scores(rng, classes=None):
    size = rng.integers(4, 40)
    shape = size if classes is None else (size, classes)
    scores = rng.integers(0, 9, shape) / 8 if rng.random() < 0.5 else 3 * rng.normal(size=shape)
    target = (rng.random(shape) < 0.3).astype(int)
    if classes is None:
        target[:2] = 1, 0
    return scores, target


@pytest.mark.filterwarnings("ignore:No positive:UserWarning")
@each("seed", range(20))
def test_scores(seed):
    scores, target = drawn_scores(np.random.default_rng(seed))
    found = explain(torch.tensor(scores), torch.tensor(target))
    precision, recall, _ = precision_recall_curve(target, scores)
    logits = ((scores < 0) | (scores > 1)).any()
    labels = (scores >= (0 if logits else 0.5)).astype(int)
    assert average_precision_score(target, scores) == value_of(found, "scikit-learn")
    assert average_precision_score(target, labels) == value_of(found, "thresholded")
    assert auc(recall, precision) == value_of(found, "trapezoid")
    theirs = tm.binary_average_precision(torch.tensor(scores), torch.tensor(target)).item()
    assert theirs == pytest.approx(found.values["torchmetrics"], abs=SINGLE)
    assert found.values["XGBoost"] == found.values["PRROC"]


@pytest.mark.filterwarnings("ignore:No positive:UserWarning", "ignore:Average precision score for one:UserWarning")
@each("seed", range(10))
def test_classes(seed):
    rng = np.random.default_rng(seed)
    scores, target = drawn_scores(rng, 4)
    found = explain(torch.tensor(scores), torch.tensor(target))
    assert average_precision_score(target, scores, average="macro") == value_of(found, "scikit-learn")
    theirs = tm.multilabel_average_precision(torch.tensor(scores), torch.tensor(target), 4).item()
    assert theirs == pytest.approx(found.values["torchmetrics"], abs=SINGLE)
    labels = rng.integers(0, 3 + seed % 2, len(scores))
    found = explain(scores, labels)
    wanted = average_precision_score(label_binarize(labels, classes=range(4)), scores)
    assert wanted == value_of(found, "scikit-learn")
    theirs = tm.multiclass_average_precision(torch.tensor(scores), torch.tensor(labels), 4).item()
    assert theirs == pytest.approx(found.values["torchmetrics"], abs=SINGLE)


def test_torcheval():
    functional = pytest.importorskip("torcheval.metrics.functional")
    for seed in range(5):
        scores, target = map(torch.tensor, drawn_scores(np.random.default_rng(seed)))
        theirs = functional.binary_auprc(scores, target).item()
        assert theirs == pytest.approx(explain(scores, target).values["torcheval"], abs=SINGLE)
        scores, target = map(torch.tensor, drawn_scores(np.random.default_rng(seed), 4))
        theirs = functional.multilabel_auprc(scores, target, num_labels=4).item()
        assert theirs == pytest.approx(explain(scores, target).values["torcheval"], abs=SINGLE)


def test_xgboost():
    xgboost = pytest.importorskip("xgboost")
    for seed in range(5):
        scores, target = drawn_scores(np.random.default_rng(seed))
        data = xgboost.DMatrix(np.zeros((len(target), 1)), label=target, base_margin=scores)
        settings = {"objective": "binary:logitraw", "eval_metric": "aucpr", "eta": 0.0, "max_depth": 1}
        theirs = float(xgboost.train(settings, data, num_boost_round=1).eval(data).split(":")[-1])
        assert theirs == pytest.approx(
            explain(torch.tensor(scores), torch.tensor(target)).values["XGBoost"], abs=SINGLE
        )


# -- runs


def drawn_run(rng):
    """Return judgements, and a run with ties and with documents that have the id of the query."""
    qrels, run = {}, {}
    for query in range(rng.integers(1, 6)):
        documents = [f"d{x}" for x in rng.permutation(15)]
        judged = rng.permutation(documents)[: rng.integers(1, 12)]
        size = rng.integers(1, 14)
        name = f"q{query}"
        qrels[name] = {str(x): int(rng.random() < 0.4) for x in judged}
        run[name] = dict(zip(documents[:size], (rng.integers(-1, 4, size) / 4).tolist(), strict=True))
        if rng.random() < 0.5:
            run[name][name] = float(rng.random())
    qrels["missing"] = {"d1": 1}
    return qrels, run


@each("seed", range(20))
def test_trec_eval_and_beir(seed):
    qrels, run = drawn_run(np.random.default_rng(seed))
    found = explain(run, qrels, top_k=4)
    theirs = list(pytrec_eval.RelevanceEvaluator(qrels, {"map", "map_cut.4"}).evaluate(run).values())
    assert np.mean([x["map"] for x in theirs]) == value_of(found, "trec_eval 9")
    assert np.mean([x["map_cut_4"] for x in theirs]) == value_of(found, "trec_eval 9 @4")
    # as `EvaluateRetrieval.evaluate` of BEIR does before it calls pytrec_eval
    others = {query: {d: score for d, score in x.items() if d != query} for query, x in run.items()}
    theirs = list(pytrec_eval.RelevanceEvaluator(qrels, {"map_cut.4"}).evaluate(others).values())
    assert np.mean([x["map_cut_4"] for x in theirs]) == value_of(found, "BEIR @4")


@each("seed", range(10))
def test_metrics_without_judgements(seed):
    """torchmetrics, PyG and haystack, whose formulas are in their published code."""
    qrels, run = drawn_run(np.random.default_rng(seed))
    run = {q: {d: s + i / 1000 for i, (d, s) in enumerate(x.items())} for q, x in run.items()}  # without ties
    found = explain(run, qrels, top_k=4)
    columns = [(i, s, qrels[q].get(d, 0)) for i, (q, x) in enumerate(run.items()) for d, s in x.items()]
    indexes, scores, target = map(torch.tensor, zip(*columns, strict=True))
    for name, top_k in (("torchmetrics", None), ("torchmetrics @4", 4)):
        metric = RetrievalMAP(top_k=top_k)
        metric.update(scores, target, indexes=indexes)
        assert metric.compute().item() == pytest.approx(found.values[name], abs=SINGLE)
    pyg, haystack = [], []
    for query, grades in qrels.items():
        ranked = sorted(run.get(query, {}), key=run.get(query, {}).get, reverse=True)
        hits = np.array([grades.get(d, 0) for d in ranked])
        precision = hits.cumsum() / np.arange(1, len(hits) + 1)
        haystack.append((precision * hits).sum() / max(hits.sum(), 1))
        if sum(grades.values()) and query in run:
            pyg.append((precision * hits)[:4].sum() / min(sum(grades.values()), 4))
    pyg.append(0.0)  # the query without documents
    assert np.mean(pyg) == value_of(found, "PyG @4")
    assert np.mean(haystack) == value_of(found, "haystack")


def test_ranx():
    import ranx

    qrels = {"q": {"a": 1, "b": 1}, "r": {"c": 1}}
    run = {"q": {"x": 2.0, "a": 1.0}, "r": {"y": 3.0, "z": 2.0, "c": 1.0}}
    found = explain(run, qrels, top_k=2)
    for name, measure in (("ranx", "map"), ("ranx @2", "map@2")):
        assert ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), measure) == value_of(found, name)


def test_pytorch_metric_learning():
    rng = np.random.default_rng(0)
    for _ in range(3):
        size = rng.integers(8, 30)
        vectors, labels = torch.tensor(rng.normal(size=(size, 3))), torch.tensor(rng.integers(0, 3, size))
        distance, others = torch.cdist(vectors, vectors), [[j for j in range(size) if j != i] for i in range(size)]
        run = {i: {j: -distance[i, j].item() for j in others[i]} for i in range(size)}
        qrels = {i: {j: int(labels[i] == labels[j]) for j in others[i]} for i in range(size)}
        found = explain(run, qrels, top_k=5)
        for name, measure, k in (
            ("pytorch-metric-learning", "mean_average_precision_at_r", "max_bin_count"),
            ("pytorch-metric-learning @5", "mean_average_precision", 5),
        ):
            search = CustomKNN(LpDistance(normalize_embeddings=False))
            calculator = AccuracyCalculator(include=(measure,), k=k, knn_func=search)
            assert calculator.get_accuracy(vectors, labels)[measure] == value_of(found, name)


# -- detections


def detectron2(preds, target, levels):
    """Return AP50 as ``PascalVOCDetectionEvaluator`` computes it from its text files."""
    aps = []
    for label in sorted({int(x) for image in target for x in image["labels"]}):
        rows, truths = [], []
        for number, (pred, truth) in enumerate(zip(preds, target, strict=True)):
            own, objects = pred["labels"] == label, truth["labels"] == label
            truths.append((truth["boxes"][objects].double().numpy(), truth["difficult"][objects].bool().numpy()))
            rows += [
                (number, round(score, 3), [round(x, 1) for x in box])
                for score, box in zip(pred["scores"][own].tolist(), pred["boxes"][own].tolist(), strict=True)
            ]
        rows.sort(key=lambda row: -row[1])
        used = [np.zeros(len(boxes), bool) for boxes, _ in truths]
        tp, fp = np.zeros(len(rows)), np.zeros(len(rows))
        for place, (number, _, box) in enumerate(rows):
            boxes, difficult = truths[number]
            low, high = np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:])
            inter = np.maximum(high - low + 1, 0).prod(1)
            area = (boxes[:, 2:] - boxes[:, :2] + 1).prod(1) + (box[2] - box[0] + 1) * (box[3] - box[1] + 1)
            iou = inter / (area - inter)
            best = iou.argmax() if len(iou) else -1
            if len(iou) and iou[best] > 0.5:
                if not difficult[best]:
                    (fp if used[number][best] else tp)[place] = 1
                    used[number][best] = True
            else:
                fp[place] = 1
        positives = sum((~difficult).sum() for _, difficult in truths)
        if not positives:
            aps += [0.0] if levels else []
            continue
        recall = tp.cumsum() / positives
        precision = tp.cumsum() / np.maximum(tp.cumsum() + fp.cumsum(), 1e-300)
        if levels:
            aps.append(np.mean([precision[recall >= t].max(initial=0) for t in np.arange(0, 1.1, 0.1)]))
        else:
            highest = np.maximum.accumulate(precision[::-1])[::-1]
            aps.append((np.diff(recall, prepend=0) * highest).sum())
    return np.mean(aps)


@pytest.mark.filterwarnings("ignore:.*boxes in `preds`", "ignore:.*ground truths")
@each("seed", range(8))
def test_detections(seed):
    preds, target = random_scene(seed, images=6, classes=3)
    preds = [{**x, "scores": x["scores"].double() + 1e-6 * torch.rand(len(x["scores"])).double()} for x in preds]
    for side in (preds, target):
        for image in side:
            image["boxes"] = torch.cat([image["boxes"][:, :2], image["boxes"][:, :2] + image["boxes"][:, 2:].abs()], 1)
    numbers = coco_mean_average_precision(preds, target)
    found = explain(preds, target)
    assert numbers["map"].item() == value_of(found, "COCO")
    assert numbers["map_50"].item() == value_of(found, "COCO AP50")
    plain = [{"boxes": x["boxes"], "labels": x["labels"]} for x in target]
    difficult = [{**x, "difficult": y["iscrowd"]} for x, y in zip(plain, target, strict=True)]
    found = explain(preds, difficult)
    for name, interpolation in (("VOC 2007", "11-point"), ("VOC 2010", "all-points")):
        wanted = voc_mean_average_precision(preds, difficult, interpolation=interpolation)["map"].item()
        assert wanted == value_of(found, name)
    assert voc_mean_average_precision(preds, plain)["map"].item() == value_of(found, "Padilla")
    assert detectron2(preds, difficult, levels=True) == value_of(found, "Detectron2 VOC 2007")
    assert detectron2(preds, difficult, levels=False) == value_of(found, "Detectron2 VOC 2012")
    for convention in ("ultralytics", "ultralytics-8.3"):
        numbers = voc_mean_average_precision(preds, difficult, convention=convention)
        assert numbers["map"].item() == value_of(found, f"{convention} mAP50-95")
        assert numbers["map_50"].item() == value_of(found, f"{convention} mAP50")


def test_lvis_limit_and_cocos_limit():
    """300 detections of an image over all classes, or 100 of each class."""
    boxes = torch.arange(400.0)[:, None] * 20 + torch.tensor([0.0, 0, 10, 10])
    target = {"boxes": boxes, "labels": torch.arange(400) % 2}
    preds = [{**target, "scores": torch.linspace(1, 0.1, 400)}]
    nothing = torch.empty(0, dtype=torch.int64)
    lists = {"neg_category_ids": nothing, "not_exhaustive_category_ids": nothing}
    found = explain(preds, [target])
    wanted = lvis_mean_average_precision(preds, [{**target, **lists}], dtype=torch.float64)["map"].item()
    assert wanted == value_of(found, "LVIS")
    assert found.values["COCO"] < wanted < found.values["ultralytics mAP50"]


def test_absent_classes_of_detections():
    box = torch.tensor([[0.0, 0, 10, 10]])
    preds = [{"boxes": box.repeat(2, 1), "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 1])}]
    images = Detections(preds, [{"boxes": box, "labels": torch.tensor([0])}], "xyxy")
    values = [images.evaluate(DetectionSettings(absent_classes=x)) for x in ("left out", "0")]
    assert values == pytest.approx([1.0, 0.5], abs=REORDERED)
    assert images.evaluate(DetectionSettings(rounding="3 decimals")) == pytest.approx(1.0, abs=REORDERED)


# -- steps


def explanations():
    preds, target = random_scene(3, images=6, classes=3)
    yield explain(SCORES, TARGET)
    yield explain(torch.randn(30, 4), torch.arange(30) % 3)
    yield explain(RUN, QRELS, top_k=2)
    yield explain(preds, target, box_format="xywh")


@pytest.mark.filterwarnings("ignore:.*boxes in `preds`", "ignore:.*ground truths")
def test_steps_lead_from_one_value_to_the_other():
    for found in explanations():
        for first in found.values:
            for second in found.values:
                steps = found.steps(first, second)
                stops = [found.values[first], *(x.value_after for x in steps)]
                assert [x.value_before for x in steps] == stops[:-1]
                assert stops[-1] == found.values[second]
                assert all(x.before != x.after for x in steps)
                total = sum(Fraction(x.value_after) - Fraction(x.value_before) for x in steps)
                assert total == Fraction(found.values[second]) - Fraction(found.values[first])


def test_each_step_changes_one_setting():
    found = explain(RUN, QRELS, top_k=2)
    names = [x.setting for x in found.steps("trec_eval 9", "torchmetrics @2")]
    assert names == ["scores up to 0", "ties", "limit", "relevant", "denominator"]
    assert found.steps("trec_eval 9", "trec_eval 9") == ()
    steps = explain(SCORES, TARGET).steps("XGBoost", "expected")
    assert [x.setting for x in steps] == ["interpolation", "ties"]  # no interpolated AP has expected ties
    back = found.steps("torchmetrics @2", "trec_eval 9")
    assert sum(x.share for x in back) == pytest.approx(
        -sum(x.share for x in found.steps("trec_eval 9", "torchmetrics @2")), abs=REORDERED
    )


# -- reported numbers


@pytest.mark.parametrize(
    ("reported", "matches"),
    [
        (0.4167, True),
        ("0.4167", True),
        ("0.42", True),
        (0.4, True),
        (41.67, True),
        ("41.7%", True),
        ("41.70", False),
        ("0.41", False),
        (0.41666, False),
        (0.4166666666, False),
        ("0.41666666666666663", True),
    ],
)
def test_a_number_matches_within_its_digits(reported, matches):
    assert ("scikit-learn" in explain(SCORES, TARGET, reported=reported).matches) == matches


def test_sentences():
    assert explain(SCORES, TARGET, reported=0.325).sentence() == "0.325 is the number of: XGBoost, PRROC"
    assert explain(SCORES, TARGET, reported=0.99).sentence().startswith("0.99 is none of these numbers; the closest is")
    text = str(explain(SCORES, TARGET, reported=0.325))
    assert "* XGBoost" in text
    assert text.endswith("XGBoost, PRROC")
    with pytest.raises(ValueError, match="`reported` must be"):
        explain(SCORES, TARGET).sentence()


@pytest.mark.parametrize("reported", [-0.1, 100.5, "much", math.nan, math.inf, True, ""])
def test_reported_numbers_out_of_range(reported):
    with pytest.raises(ValueError, match="`reported` must be a number in"):
        explain(SCORES, TARGET, reported=reported)


@given(st.decimals(0, 1, places=3))
def test_half_a_unit_of_the_last_digit(number):
    target, half = record.parse_reported(str(number))
    assert (target, half) == (number, Decimal("0.0005"))


def test_without_positives_every_value_is_nan():
    found = explain(SCORES, torch.zeros(5, dtype=torch.int64), reported=0.5)
    assert all(map(math.isnan, found.values.values()))
    assert found.matches == ()
    assert not any(x.has_effect for x in found.steps("scikit-learn", "XGBoost"))


def test_records():
    found = explain(SCORES, TARGET, reported=0.325)
    document = json.loads(json.dumps(found.to_dict()))
    assert document["values"]["scikit-learn"] == pytest.approx(5 / 12, abs=REORDERED)
    assert "XGBoost" in found._repr_html_()


# -- arguments


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64])
def test_dtypes(dtype):
    scores = torch.tensor([3, 1, 1, 2, 0], dtype=dtype)
    expected = average_precision_score(TARGET.numpy(), [3, 1, 1, 2, 0])
    assert explain(scores, TARGET.bool()).values["scikit-learn"] == pytest.approx(expected, abs=REORDERED)


def test_integer_logits_of_classes():
    logits, target = torch.tensor([[3, 1], [0, 2], [1, 0]]), torch.tensor([0, 1, 1])
    values = explain(logits, target).values
    expected = tm.multiclass_average_precision(logits.float(), target, num_classes=2)
    assert values["torchmetrics"] == pytest.approx(float(expected), abs=SINGLE)
    assert values == pytest.approx(explain(logits.float(), target).values, abs=REORDERED)


def test_reversed_arrays():
    scores, target = np.array([0.2, 0.5, 0.1])[::-1], np.array([1, 0, 1])[::-1]
    expected = average_precision_score(target, scores)
    assert explain(scores, target).values["scikit-learn"] == pytest.approx(expected, abs=REORDERED)
    columns = np.stack([scores, 1 - scores], 1)
    assert explain(columns[:, ::-1], target).values["scikit-learn"] == pytest.approx(
        np.mean([average_precision_score(target == c, columns[:, 1 - c]) for c in range(2)]), abs=REORDERED
    )


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        ([0.5], TARGET, "`preds` must be a tensor, an array, a run or images, got list"),
        (SCORES, TARGET[:4], r"`target` must have the shape of `preds`, \(5,\), got \(4,\)"),
        (SCORES, TARGET + 1, r"`target` must contain only 0 and 1, got \[1, 2\]"),
        (SCORES, TARGET.float(), "`target` must contain integers or booleans, got torch.float32"),
        (SCORES.log() * 0 + math.nan, TARGET, "`preds` must not contain NaN, got 5 of them"),
        (SCORES[:0], TARGET[:0], r"`preds` must have shape \(N,\) or \(N, C\), with N and C of at least 1, got \(0,\)"),
        (SCORES.reshape(5, 1)[:, :0], TARGET, r"`preds` must have shape .* N and C of at least 1, got \(5, 0\)"),
        (np.array(["a", "b"]), TARGET[:2], "`preds` must contain numbers, got .*U1"),
        (SCORES[:2], np.array(["a", "b"]), "`target` must contain numbers, got .*U1"),
        (
            torch.ones(5, 2, dtype=torch.uint16),
            TARGET,
            "`preds` must be a floating or integer tensor, got torch.uint16",
        ),
        (torch.rand(5, 2), torch.arange(5), "`target` must contain class indices from 0 to 1, got"),
        ({"q": {"a": math.nan}}, QRELS, "scores that are finite"),
    ],
)
def test_invalid_data(preds, target, message):
    with pytest.raises((TypeError, ValueError), match=message):
        explain(preds, target)


def test_invalid_arguments():
    with pytest.raises(ValueError, match="`top_k` must be"):
        explain(RUN, QRELS, top_k=0)
    with pytest.raises(ValueError, match="`box_format` must be"):
        explain(SCORES, TARGET, box_format="corners")
    with pytest.raises(ValueError, match="`first` must be one of"):
        explain(SCORES, TARGET).steps("sklearn", "XGBoost")


def test_picture():
    found, ax = explain(SCORES, TARGET), Figure().subplots()
    assert found.plot("scikit-learn", "VOC 2007", ax=ax) is ax
    assert [x.get_text() for x in ax.get_yticklabels()][::3][0] == "scikit-learn"
    widths = [x.get_width() for x in ax.patches]
    assert widths[0] + sum(widths[1:-1]) == pytest.approx(widths[-1], abs=REORDERED)


# -- the command


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("score,label\n.9,0\n.7,1\n.7,0\n.4,1\n.2,0\n")
    return [str(path), "--preds", "score", "--target", "label"]


def test_command_on_a_table(table, tmp_path, capsys):
    assert main(["explain", *table, "--reported", "0.325"]) == 0
    text = capsys.readouterr().out
    assert "XGBoost *" in text
    assert "0.325 is the number of: XGBoost, PRROC" in text
    assert "-0.0917" in text
    picture = tmp_path / "steps.png"
    assert main(["explain", *table, "--to", "sort", "--json", "--picture", str(picture)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [x["setting"] for x in document["steps"]] == ["ties"]
    assert picture.stat().st_size > 1000
    assert not pyplot.get_fignums()
    assert main(["explain", *table, "--from", "sort", "--to", "COCO", "--csv"]) == 0
    assert "step,interpolation" in capsys.readouterr().out


def test_command_on_a_run(tmp_path, capsys):
    qrels, run = tmp_path / "qrels.txt", tmp_path / "run.txt"
    qrels.write_text("q1 0 d1 1\nq1 0 d4 1\n")
    run.write_text("q1 Q0 d1 1 0.9 x\nq1 Q0 d2 2 0.5 x\n")
    assert main(["explain", str(qrels), str(run), "--top-k", "2", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert (values["PyG @2"], values["torchmetrics @2"]) == (0.5, 1.0)


def test_command_on_detections(tmp_path, capsys):
    ids = {"image_id": 1, "category_id": 1, "bbox": [0.0, 0.0, 20.0, 20.0]}
    truth = {
        "images": [{"id": 1, "width": 99, "height": 99}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "area": 400.0, "iscrowd": 0, **ids}],
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps([{"score": 0.9, **ids}]))
    arguments = ["explain", str(tmp_path / "truth.json"), str(tmp_path / "results.json")]
    assert main([*arguments, "--to", "ultralytics mAP50", "--markdown"]) == 0
    assert "| interpolation | 101-point | ultralytics | -0.0050 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "sklearn"], "--to must be one of 'scikit-learn'"),
        (["--picture", "x.png"], "--picture has no meaning without two conventions"),
        (["--reported", "-3"], "--reported must be a number in"),
    ],
)
def test_invalid_options(table, arguments, message, capsys):
    assert main(["explain", *table, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_invalid_files(table, capsys):
    assert main(["explain", table[0]]) == 2
    assert "--preds must name a column" in capsys.readouterr().err
    assert main(["explain", table[0], table[0], "--preds", "score"]) == 2
    assert "--preds has no meaning with two files" in capsys.readouterr().err
    assert main(["explain", *[table[0]] * 3]) == 2
    assert "must be one table, or two files" in capsys.readouterr().err
