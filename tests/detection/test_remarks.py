"""Warnings and notes about data that limit the numbers, or whose order of names decides them."""

import json
import warnings

import pytest
import torch

import torch_ap
from torch_ap import LVISMeanAveragePrecision, MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.cli import main

BOXES = torch.tensor([[10.0, 10, 30, 30], [50, 50, 50, 70]])  # the second has no width
MASKS = torch.zeros(2, 40, 40, dtype=torch.bool)
MASKS[0, 5:20, 5:20] = True
INTERVALS = torch.tensor([[1.0, 3.0], [5.0, 5.0]])
NO_AREA = r"1 of 2 ground truths has no {}: no detection can match it, so that AP and recall stay below 1"
METRICS = {
    "boxes": (MeanAveragePrecision, {}, {"boxes": BOXES}, "area"),
    "matched": (MeanAveragePrecision, {"match": "update"}, {"boxes": BOXES}, "area"),
    "masks": (MeanAveragePrecision, {"iou_type": "segm"}, {"masks": MASKS}, "pixel"),
    "LVIS": (LVISMeanAveragePrecision, {}, {"boxes": BOXES}, "area"),
    "VOC": (VOCMeanAveragePrecision, {"inclusive_pixels": False}, {"boxes": BOXES}, "area"),
    "intervals": (VOCMeanAveragePrecision, {"iou_type": "intervals"}, {"intervals": INTERVALS}, "length"),
}


AREAS = {"LVIS": {"area": torch.tensor([400.0, 9.0])}}  # LVIS excludes the second without it


def perfect(cls, settings, shapes, **further):
    """Return a metric whose detections are its ground truths, each in its own class."""
    labels = torch.tensor([0, 0])
    more = {"frequencies": {0: "f"}} if cls is LVISMeanAveragePrecision else {}
    metric = cls(**settings, **more)
    lists = {"neg_category_ids": labels[:0], "not_exhaustive_category_ids": labels[:0]} if more else {}
    target = {**shapes, "labels": labels, **lists, **further}
    metric.update([{**shapes, "labels": labels, "scores": torch.tensor([0.9, 0.8])}], [target])
    return metric


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.filterwarnings("error")
def test_ground_truths_without_a_possible_match_cause_a_warning(kind):
    cls, settings, shapes, unit = METRICS[kind]
    with pytest.warns(UserWarning, match=NO_AREA.format(unit)):
        value = perfect(cls, settings, shapes, **AREAS.get(kind, {})).compute()["map"]
    assert 0.4 < value < 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = {key: x[:1].expand(2, *x.shape[1:]) for key, x in shapes.items()}
        perfect(cls, settings, first).compute()
        perfect(cls, {**settings, "validate_args": False}, shapes).compute()


@pytest.mark.filterwarnings("error")
def test_data_that_do_not_limit_ap_cause_no_warning():
    """Crowds, difficult objects, VOC's boxes that include both ends, and boxes that LVIS excludes."""
    flag = torch.tensor([0, 1])
    perfect(MeanAveragePrecision, {}, {"boxes": BOXES}, iscrowd=flag).compute()
    perfect(VOCMeanAveragePrecision, {"inclusive_pixels": False}, {"boxes": BOXES}, difficult=flag).compute()
    perfect(VOCMeanAveragePrecision, {}, {"boxes": BOXES}).compute()
    assert perfect(LVISMeanAveragePrecision, {}, {"boxes": BOXES}).compute()["map"] == 1


@pytest.mark.parametrize("command", ["coco", "lvis"])
@pytest.mark.parametrize(("kind", "unit"), [("bbox", "area"), ("segm", "pixel")])
def test_the_commands_note_ground_truths_without_a_possible_match(command, kind, unit, tmp_path, capsys):
    image = {"id": 1, "width": 9, "height": 9, "neg_category_ids": [], "not_exhaustive_category_ids": []}
    image = image if command == "lvis" else {key: image[key] for key in ("id", "width", "height")}
    shapes = [
        {"bbox": [1, 2, 3, 4], "segmentation": {"size": [9, 9], "counts": [10, 30, 41]}},
        {"bbox": [5, 5, 0, 4], "segmentation": {"size": [9, 9], "counts": [81]}},
    ]
    entries = [{"id": place + 1, "image_id": 1, "category_id": 1, **x, "area": 12} for place, x in enumerate(shapes)]
    truth = {"images": [image], "categories": [{"id": 1, "name": "cat", "frequency": "f"}], "annotations": entries}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps([{**one, "score": 0.5} for one in entries]))
    arguments = [command, str(tmp_path / "truth.json"), str(tmp_path / "found.json"), "--iou-type", kind, "--json"]
    assert main.main(arguments) == 0
    message = capsys.readouterr().err
    assert f"truth.json: {NO_AREA.format(unit)}" in message
    assert message.count("ground truths has no") == 1


def test_voc_notes_ground_truths_without_a_possible_match(tmp_path, capsys):
    for name, score in (("truth", ""), ("found", "0.9 ")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.txt").write_text(f"cat {score}10 10 30 30\ncat {score}50 50 50 70\n")
    assert main.main(["voc", str(tmp_path / "truth"), str(tmp_path / "found"), "--exclusive-pixels"]) == 0
    message = capsys.readouterr().err
    assert f"truth: {NO_AREA.format('area')}" in message
    assert message.count("ground truths has no") == 1


# -- names that decide


QRELS = {"q1": {"d9": 1, "d10": 0}, "q2": {"d1": 1}, "q3": {"d9": 2, "d10": 1}}
RUN = {"q1": {"d9": 0.5, "d10": 0.5}, "q2": {"d1": 0.5, "d2": 0.4}, "q3": {"d9": 0.5, "d10": 0.5}}


def forms(run, folder):
    """Yield a run as nested dicts, as a file, and as dicts of too many queries for the code that reads lists."""
    (folder / "run").write_text("".join(f"{q} Q0 {d} 1 {s!r} t\n" for q, one in run.items() for d, s in one.items()))
    yield run, QRELS
    yield str(folder / "run"), QRELS
    many = {f"{query} {place}": one for place in range(20) for query, one in run.items()}
    yield many, {f"{query} {place}": one for place in range(20) for query, one in QRELS.items()}


@pytest.mark.parametrize("ties", ["trec9", "trec10", "expected"])
def test_the_notes_name_ties_that_the_names_of_documents_decide(ties, tmp_path):
    """A tie of documents that are both relevant is none; in single precision more scores tie."""
    near = {**RUN, "q1": {"d9": 0.5, "d10": 0.5 + 1e-12}}
    for run, in_double in ((RUN, True), (near, False)):
        for given, qrels in forms(run, tmp_path):
            notes = [x for x in torch_ap.evaluate(qrels, given, ["AP"], ties=ties).notes if "tied scores" in x]
            wanted = ties == "trec9" or (ties == "trec10" and in_double)
            assert len(notes) == wanted
            if wanted:
                queries = "1 query" if len(qrels) == 3 else "20 queries"
                assert notes[0].startswith(
                    f"`run` has tied scores in {queries}, where the order of the documents' names"
                )


def test_levels_and_the_command(tmp_path, capsys):
    """With grade 2 as the lowest relevant one, the third query is decided by names too."""
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {g}\n" for q, one in QRELS.items() for d, g in one.items()))
    run = next(path for path, _ in forms(RUN, tmp_path) if isinstance(path, str))
    assert main.main(["trec", str(tmp_path / "qrels"), run, "-m", "map"]) == 0
    assert f"torch-ap: {run} has tied scores in 1 query, where the order" in capsys.readouterr().err
    assert main.main(["trec", str(tmp_path / "qrels"), run, "-m", "map", "--convention", "expected"]) == 0
    assert "tied scores" not in capsys.readouterr().err
    notes = torch_ap.evaluate(QRELS, RUN, ["AP"], relevance_level=2).notes
    assert any("tied scores in 1 query" in x for x in notes)


# -- IoUs that are not numbers


@pytest.mark.parametrize("kind", ["given", "packed", "function of images", "function of boxes"])
def test_ious_must_be_numbers(kind):
    one = {"scores": torch.tensor([0.5]), "labels": torch.tensor([0])}
    true, value = {"labels": torch.tensor([0])}, torch.tensor([[True]])
    boxes = {"boxes": BOXES[:1]}
    calls = {
        "given": lambda: MeanAveragePrecision(iou_type="precomputed").update([{**one, "ious": value}], [true]),
        "packed": lambda: MeanAveragePrecision(iou_type="precomputed").update(
            {**one, "ious": value[0], "counts": torch.tensor([1])}, {**true, "counts": torch.tensor([1])}
        ),
        "function of images": lambda: MeanAveragePrecision(iou_type=lambda *_: value).update([one], [true]),
        "function of boxes": lambda: MeanAveragePrecision(iou=lambda *_: value[0], match="update").update(
            [{**one, **boxes}], [{**true, **boxes}]
        ),
    }
    with pytest.raises(ValueError, match=r"(ious'\]|iou_type|iou)` must .*got .*torch\.bool"):
        calls[kind]()


@pytest.mark.parametrize(("images", "covered"), [(15, ".57 to .89 with 20"), (40, ".57 to .92 with 20 to 50")])
def test_few_images_have_the_coverage_of_similar_numbers(images, covered):
    metric, boxes = MeanAveragePrecision(), torch.tensor([[10.0, 10, 30, 30]])
    for image in range(images):
        target = {"boxes": boxes, "labels": torch.tensor([0])}
        found = {**target, "boxes": boxes + 3 * (image % 2), "scores": torch.tensor([0.9 - 0.01 * image])}
        metric.update([found], [target])
    reason = metric.confidence_interval(n_resamples=20).reason
    assert reason == f"{images} images: likely too narrow, 95% covered {covered} images"
