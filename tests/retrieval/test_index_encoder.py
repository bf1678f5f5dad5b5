"""Query names as integers: equal in every process and invertible; other types raise with an alternative."""

import datetime
import enum
import os
import subprocess
import sys
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

import torch_ap
from tests.support.each import each
from torch_ap.inference import average_precision_interval
from torch_ap.retrieval import IndexEncoder, RetrievalMAP, rankings


class Colour(str, enum.Enum):
    RED = "red"
    A = "a"


class Level(enum.IntEnum):
    ONE = 1


class Pair(NamedTuple):
    number: Any
    text: str


NAMES = ["q1", "", "\N{GREEK SMALL LETTER PI}", "\ud800", b"q1", 1, -1, 2**80, 0.5, ("q", 1), uuid.UUID(int=7)]
NAMES += [datetime.date(2026, 1, 2), ("q", None, (0.25, True)), Fraction(1, 3), float("inf")]


def test_every_name_has_an_integer_of_its_own():
    encoder = IndexEncoder()
    indexes = encoder(NAMES)
    assert indexes.dtype == torch.int64
    assert len(indexes.unique()) == len(NAMES)
    assert encoder.decode(indexes) == NAMES
    assert encoder.decode(indexes.flip(0)) == NAMES[::-1]
    assert torch.equal(IndexEncoder()(NAMES[::-1]).flip(0), indexes), "whatever came before"


def test_integers_do_not_change():
    """States and checkpoints contain the integers; Python's hashes would differ in every process."""
    assert IndexEncoder()(["a", "b"]).tolist() == [8322617052064244408, -4641152682338122816]


@each(
    "equal",
    [
        [1, 1.0, True, np.int64(1), np.float32(1), Decimal("1.0"), Fraction(1), 1 + 0j, Level.ONE],
        [0.5, Decimal("0.5"), Fraction(1, 2)],
        [Decimal("0.1"), Fraction(1, 10)],
        [float("inf"), Decimal("Infinity")],
        ["red", Colour.RED, np.str_("red")],
        [0, -0.0, False],
        [(1, "a"), (1.0, "a"), (np.int64(1), np.str_("a")), (True, Colour.A), Pair(Decimal(1), "a")],
        [((1,), "a"), ((1.0,), "a")],
    ],
)
def test_equal_names_are_one(equal):
    assert len({IndexEncoder()([name]).item() for name in equal}) == 1


@pytest.mark.parametrize("form", [list, tuple, pd.Series, np.array, iter, lambda x: pd.Series(x, dtype="category")])
def test_columns(form):
    names = ["b", "a", "b"]
    assert torch.equal(IndexEncoder()(form(names)), IndexEncoder()(names))


def test_names_with_text_that_looks_like_an_address():
    names = ["at 0x7", "meet at 0x7", ("meet at 0x7", b" at 0x7")]
    encoder = IndexEncoder()
    assert encoder.decode(encoder(names)) == names


def test_integers_do_not_depend_on_the_hashes_of_python():
    """Encode in another process, whose random hash seed differs."""
    imports = "import datetime; from fractions import Fraction; from uuid import UUID; inf = float('inf')"
    encoded = f"from torch_ap.retrieval.rankings import IndexEncoder; print(IndexEncoder()({NAMES!r}).tolist())"
    code = f"{imports}; {encoded}"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONHASHSEED": seed}
    found = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert found == f"{IndexEncoder()(NAMES).tolist()}\n".encode()


@pytest.mark.parametrize("shape", [(), (1, 2)])
def test_indexes_of_another_shape(shape):
    with pytest.raises(ValueError, match=r"`indexes` must have shape \(N,\), got \("):
        IndexEncoder().decode(torch.zeros(shape, dtype=torch.int64))


def test_a_metric_over_named_queries():
    encoder, metric = IndexEncoder(), RetrievalMAP()
    scores, target, names = torch.tensor([0.3, 0.2, 0.9, 0.1]), torch.tensor([0, 1, 1, 1]), ["x", "x", "y", "y"]
    for batch in torch.arange(4).split(3):
        metric.update(scores[batch], target[batch], encoder([names[i] for i in batch]))
    queries, values = metric.per_query()
    assert dict(zip(encoder.decode(queries), values.tolist(), strict=True)) == {"x": 0.5, "y": 1.0}


def test_two_names_of_one_integer_are_an_error(monkeypatch):
    monkeypatch.setattr(rankings, "_code", len)
    encoder = IndexEncoder()
    encoder(["a", "bb"])
    with pytest.raises(ValueError, match=r"`names` must have different hashes, got one hash for 'a' and 'c'"):
        encoder(["ddd", "c"])
    with pytest.raises(ValueError, match="must be codes of names that this encoder has encoded, got 3"):
        encoder.decode(torch.tensor([1, 3]))


@each(
    "names",
    [
        *["q1", b"q1", 3, [None], [float("nan")], [["q"]], [object()], [lambda: 0], [(1, object())]],
        *[[("q", float("nan"))], [pd.NA], [("q", pd.NA)], pd.Series(["q", pd.NA])],
        *[[frozenset("ab")], [("q", frozenset("ab"))]],
    ],
)
def test_invalid_names_raise(names):
    with pytest.raises(TypeError, match="`names` must be"):
        IndexEncoder()(names)


PREDS, TARGET = torch.tensor([0.3, 0.2]), torch.tensor([1, 0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((PREDS, TARGET, ["a", "b"]), r"`indexes` .* got list; write `torch_ap.IndexEncoder\(\)\(indexes\)`"),
        ((PREDS, TARGET, pd.Series(["a", "b"])), r"got Series; write `torch_ap.IndexEncoder\(\)\(indexes\)`"),
        ((PREDS, TARGET, [1, 2]), r"got list; write `torch.tensor\(indexes\)`"),
        ((PREDS, TARGET, np.arange(2)), r"got ndarray; write `torch.from_numpy\(indexes\)`"),
        ((pd.Series([0.3, 0.2]), TARGET, TARGET), r"got Series; write `torch.from_numpy\(preds.to_numpy\(\)\)`"),
        ((PREDS, [1, 0], TARGET), r"`target` .* got list; write `torch.tensor\(target\)`"),
        (([[1.0], [2.0, 3.0]], TARGET, TARGET), r"`preds` .* got list$"),
        (([PREDS, PREDS], TARGET, TARGET), r"`preds` .* got list; write `torch.stack\(preds\)`$"),
        (((torch.ones(2, requires_grad=True),), TARGET, TARGET), r"got tuple; write `torch.stack\(preds\)`$"),
        (([PREDS, torch.ones(3)], TARGET, TARGET), r"`preds` .* got list$"),
        (([torch.tensor(0.3), 0.2], TARGET, TARGET), r"`preds` .* got list$"),
        (("high", TARGET, TARGET), r"`preds` .* got str$"),
    ],
)
def test_errors_of_other_types_name_an_alternative(given, message):
    with pytest.raises(TypeError, match=message):
        torch_ap.RetrievalMAP().update(*given)


@pytest.mark.parametrize("name", ["groups", "sample_ids"])
@pytest.mark.parametrize("form", [np.array, lambda x: np.array(x, object), pd.Series, list])
def test_errors_of_names_as_ids_name_the_encoder(form, name):
    names = form(["patient 7", "patient 8"])
    for error in (
        lambda: torch_ap.BinaryAveragePrecision().update(PREDS, TARGET, **{name: names}),
        lambda: average_precision_interval(PREDS, TARGET, groups=names),
    ):
        with pytest.raises(TypeError, match=r"^`(groups|sample_ids)(\[0\])?` .*`torch_ap\.IndexEncoder"):
            error()
    encoded = torch_ap.IndexEncoder()(names)
    torch_ap.BinaryAveragePrecision().update(PREDS, TARGET, **{name: encoded})
