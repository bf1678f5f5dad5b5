"""Every public result record exports plain values and shows a table in notebooks; public modules list their names."""

import dataclasses
import importlib
import inspect
import json
import re
import warnings
from html.parser import HTMLParser

import pytest
import torch

import torch_ap
from tests.support.each import each
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS
from torch_ap import detection, inference, retrieval
from torch_ap.core.base.record import Record

MODULES = [
    "torch_ap",
    *(f"torch_ap.{name}" for name in ("classification", "cli", "curves", "files", "functional", "plot", "reports")),
    *(f"torch_ap.{name}" for name in ("retrieval", "retrieval.runs", "sklearn")),
    *(f"torch_ap.detection{name}" for name in ("", ".curves", ".pairs")),
    *(f"torch_ap.inference{name}" for name in ("", ".posteriors", ".published", ".random_ranking")),
]
ARGUMENTS = {torch_ap.Convention, torch_ap.IndexEncoder}  # values that users make, no results


def is_record(value):
    """Whether a public class is a record: a dataclass or a named tuple."""
    return inspect.isclass(value) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))


def public_records():
    """Return the public records by their name."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    public = {f"{name}.{x}": getattr(module, x) for name, module in modules.items() for x in module.__all__}
    return {name: value for name, value in public.items() if is_record(value) and value not in ARGUMENTS}


RECORDS = public_records()


def from_rows(rows):
    for row in rows.values():
        value = row.value(row.batches(1)[0])
        yield from value if isinstance(value, list) else [value]


def from_metrics():
    """Yield the results of methods that no function returns."""
    detectors = []
    for seed in (0, 1):
        detectors.append(METRICS["coco"].new())
        for batch in METRICS["coco"].batches(4, seed=seed):
            detectors[-1].update(batch["preds"], METRICS["coco"].batches(1)[0]["target"])
    first, second = detectors
    yield first.compare(second, n_resamples=5)
    yield first.compare(second, n_resamples=5, per_class=True)
    yield from (first.operating_points(), first.confusion_matrix(), first.errors(), first.lrp())
    yield first.suspicious_labels()
    binary = torch_ap.BinaryAveragePrecision(bins=8)
    binary.update(torch.rand(20, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2)
    yield from (binary.bounds(), binary.curve().operating_point(), binary.curve().precision_recall_gain())
    qrels, run = {"q": {"a": 1}, "r": {"b": 1}}, {"q": {"a": 0.5, "b": 0.7}, "r": {"b": 0.3}}
    yield torch_ap.evaluate(qrels, run, ["AP"])
    yield torch_ap.evaluate(qrels, measures=["AP", "P@1"], runs={"first": run, "second": run})
    yield inference.random_ranking.RandomHits(9, 3, 2)


@pytest.fixture(scope="module")
def records():
    """Return one object of each public record."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return {type(value): value for rows in (FUNCTIONS, INFERENCE) for value in from_rows(rows)} | {
            type(value): value for value in from_metrics()
        }


class Cells(HTMLParser):
    """The texts of an HTML table; every opened tag must be closed."""

    def __init__(self, text):
        super().__init__()
        self.opened, self.texts = [], []
        self.feed(text)
        assert self.opened == []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the signature of the base
        self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def is_plain(value):
    if isinstance(value, dict):
        return all(isinstance(name, str | int) and is_plain(x) for name, x in value.items())
    return all(map(is_plain, value)) if isinstance(value, list) else isinstance(value, str | int | float | None)


def test_records_are_found():
    assert len({*RECORDS.values()}) > 25
    assert {inference.Interval, detection.ConfusionMatrix, retrieval.PrecisionRecallAtK} <= {*RECORDS.values()}


@each("name", RECORDS.keys())
def test_every_record_has_the_one_base(name):
    kind = RECORDS[name]
    assert issubclass(kind, Record)
    assert inspect.getdoc(kind.to_dict)


def test_every_record_exports_plain_values(records):
    for kind in {*RECORDS.values()}:
        value = records[kind]
        plain = value.to_dict()
        assert is_plain(plain), kind
        assert json.loads(json.dumps(plain)).keys() == {str(name) for name in plain}
        if isinstance(value, tuple):
            assert list(plain) == list(value._fields)
            assert kind(*value)._asdict().keys() == plain.keys()


def test_every_record_is_a_table_in_notebooks(records):
    for kind in {*RECORDS.values()}:
        html = records[kind]._repr_html_()
        cells = Cells(html).texts
        assert html.startswith("<table>")
        assert "tensor(" not in html
        assert len(cells) > 2, kind
        if kind not in (retrieval.runs.Evaluation, retrieval.runs.RunComparison, inference.SuspiciousLabels):
            assert cells[0] == kind.__name__
            assert set(cells[1::2]) <= set(records[kind].to_dict())


def test_text_of_a_table_is_escaped():
    found = inference.Interval(0.5, 0.4, 0.6, 0.05, 0.95, "a<b>&c")
    assert "a&lt;b&gt;&amp;c" in found._repr_html_()


@each("name", MODULES)
def test_public_modules_list_their_names(name):
    module = importlib.import_module(name)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    assert all(hasattr(module, x) for x in module.__all__)
    assert set(module.__all__) <= set(dir(module))
    assert not [x for x in module.__all__ if re.match("_(?!_)", x)]
