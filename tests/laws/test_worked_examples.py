"""Worked examples of the sources, repeated to the last printed digit and beyond.

The list has every example that comes with sufficient data. Each row of ``data/worked_examples.json`` contains the
printed and the correct value. If they differ, the row is marked as an erratum and the test expects the correct value.
"""

import json

import torch

from tests.support.each import each
from tests.support.paths import DATA
from tests.support.tolerances import SOLVED
from torch_ap import curves, functional
from torch_ap.functional import Counts

ROWS = json.loads((DATA / "worked_examples.json").read_text())
# What a random ranking does on average is no measure of one ranking; rows without data cannot be repeated.
OTHERS = ("under random ranking", "hypergeometric", "sigma_ap", "?", "none", "erratum")


def ranking(inputs):
    return torch.tensor(inputs["scores"], dtype=torch.float64), torch.tensor(inputs["targets"])


def ap(**settings):
    return lambda inputs: functional.binary_average_precision(*ranking(inputs), **settings)


def curve(name):
    def points(inputs):
        hits = curves.hit_curve(*ranking(inputs))
        if name == "delta recall":
            return hits.recall.diff(prepend=torch.zeros(1))
        if name == "lemma 1":
            n, pi = len(hits.t), hits.hits[-1] / len(hits.t)
            return hits.precision - pi * hits.recall / (hits.t / n)
        return getattr(hits, name)

    return points


def values_at_score(*names, beta=1.0):
    def values(inputs):
        if "pred" in inputs:
            preds, target = torch.tensor(inputs["pred"]).double(), torch.tensor(inputs["truth"])
            at = functional.counts_at_threshold(preds, target, 0.5)
        else:
            at = functional.counts_at_threshold(*ranking(inputs), inputs["threshold"])
        return torch.stack([at.f_beta(beta) if name == "f" else getattr(at, name) for name in names])

    return values


def effectiveness(inputs):
    """Return F_beta and 1 - E from precision and recall, with counts in proportion to 1 / p and 1 / r."""
    precision, recall = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("precision", "recall"))
    one = torch.ones_like(precision)
    counts = Counts(tp=one, fp=1 / precision - 1, fn=1 / recall - 1, tn=one)
    torch.testing.assert_close(
        counts.f_beta(inputs["beta_squared"] ** 0.5), 1 - counts.effectiveness(1 / (inputs["beta_squared"] + 1))
    )
    return counts.f_beta(inputs["beta_squared"] ** 0.5)


def pr_curve(name):
    return lambda inputs: getattr(functional.precision_recall_curve(*ranking(inputs)), name)[
        : len(inputs["scores"])
    ].flip(0)


def random_selection(_):
    """Return the AP of one tie group of all items: in the continuum its precision."""
    return functional.binary_average_precision(torch.zeros(1000, dtype=torch.float64), torch.arange(1000) < 50)


def perfect_detection(inputs):
    n = 1000
    hits = round(inputs["pi"] * n) if "pi" in inputs else 10
    return functional.binary_average_precision(-torch.arange(n).double(), torch.arange(n) < hits)


QUANTITIES = {
    "AP": ap(),
    "AP of the literally printed (scores_A, truths) columns": ap(),
    "AP@3, denominator min(k, m)": ap(top_k=3),
    "AP@3 / m": ap(top_k=3, denominator="relevant"),
    "AP@5": ap(top_k=5),
    "interpolated AP": ap(interpolation="all-points"),
    "interpolated AP (max precision at recall>=r)": ap(interpolation="all-points"),
    "11-point interpolated AP": ap(interpolation="11-point"),
    "trapezoid from (0,p(1))": ap(interpolation="trapezoid"),
    "AP = int pi r r'/t dt": random_selection,
    "p(i), i=1..10": curve("precision"),
    "p(t)": curve("precision"),
    "precision at k=1..8": curve("precision"),
    "precision at k=1..10": curve("precision"),
    "recall at k=1..10": curve("recall"),
    "r(t)": curve("recall"),
    "h(t)": curve("hits"),
    "delta r(i), i=1..10": curve("delta recall"),
    "p(t) - pi r(t)/(t/n), t=1..10": curve("lemma 1"),
    "precision at score>=0": values_at_score("precision"),
    "recall at score>=0": values_at_score("recall"),
    "precision, recall, F1": values_at_score("precision", "recall", "f"),
    "F_0.5": values_at_score("f", beta=0.5),
    "F_1": values_at_score("f"),
    "F_2": values_at_score("f", beta=2.0),
    "F_beta = 1-E": effectiveness,
    "distinct thresholds, descending": pr_curve("thresholds"),
    "precision at each threshold (descending)": pr_curve("precision"),
    "recall at each threshold (descending)": pr_curve("recall"),
    "P@5": lambda inputs: functional.counts_at_k(*ranking(inputs), inputs["k"]).precision,
    "max P@k = n_true/k": lambda inputs: functional.counts_at_k(*ranking(inputs), inputs["k"]).precision,
    "pi": lambda inputs: (
        functional.counts_at_k(torch.zeros(inputs["n"]), torch.arange(inputs["n"]) < inputs["m"], 1).precision
    ),
    "sum": lambda inputs: (
        torch.tensor(inputs["precisions_at_hits"], dtype=torch.float64).sum() * inputs["delta_recall"]
    ),
}


def quantity(row):
    inputs, name = row["inputs"], row["quantity"]
    if name == "AP" and "scores" not in inputs:
        return {"h(t)=pi*t": random_selection}.get(inputs.get("curve"), perfect_detection)
    if name == "AP" and row["name"] == "Table 2 h_R":
        return random_selection
    if name in ("precision", "recall"):
        if "k" in inputs:
            return lambda i: getattr(functional.counts_at_k(*ranking(i), i["k"]), name)
        return values_at_score(name)
    return QUANTITIES[name]


REPEATABLE = [row for row in ROWS if row["exact"] is not None and not any(x in row["quantity"] for x in OTHERS)]


@each("row", {f"{row['name']}: {row['quantity']}": row for row in REPEATABLE})
def test_example(row):
    value = quantity(row)(row["inputs"])
    expected = torch.tensor(row["exact"], dtype=torch.float64).reshape(value.shape)
    torch.testing.assert_close(value.double(), expected, rtol=0, atol=SOLVED)


def test_every_skipped_row_has_a_reason():
    left = [row for row in ROWS if row not in REPEATABLE]
    assert len(REPEATABLE) == 64
    assert all(row["exact"] is None or any(x in row["quantity"] for x in OTHERS) for row in left)
