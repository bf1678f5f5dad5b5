"""Ends that scores reach, by lookup tables, against a binary search for each."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from torch_ap.core.ranking import adaptive, bins

INF = math.inf
DRAWN = {
    "probabilities": lambda n, g: torch.sigmoid(torch.randn(n, generator=g)),
    "crowded": lambda n, g: torch.sigmoid(6 * torch.randn(n, generator=g) - 12),
    "logits": lambda n, g: torch.randn(n, generator=g),
    "subnormal": lambda n, g: torch.randn(n, generator=g) * 1e-42,
    "beyond float32": lambda n, g: torch.randn(n, generator=g, dtype=torch.float64) * 1e200,
    "alike in float32": lambda n, g: 1 + torch.rand(n, generator=g, dtype=torch.float64) * 1e-9,
    "half": lambda n, g: torch.randn(n, generator=g).half(),
    "bfloat16": lambda n, g: torch.randn(n, generator=g).bfloat16(),
    "whole": lambda n, g: torch.randint(-(2**62), 2**62, (n,), generator=g),
    "bytes": lambda n, g: torch.randint(256, (n,), generator=g).to(torch.uint8),
    "a few": lambda n, g: torch.tensor([-INF, -1.0, -0.0, 0.0, 1.0, INF])[torch.randint(6, (n,), generator=g)],
}


def searched(ends, scores):
    return torch.searchsorted(ends, scores.double(), right=True).to(torch.int32)


@each("ends", [1, 300, 5000])
@each("draw", DRAWN)
def test_a_lookup_is_a_search(draw, ends, generator):
    known = draw(ends, generator).double().unique()
    scores = torch.cat([draw(40_000, generator).double(), known, torch.nextafter(known, torch.tensor(-INF).double())])
    found = bins.build_lookup(known)
    for given_scores in (scores, scores.float(), draw(4000, generator)):
        assert torch.equal(found(given_scores), searched(known, given_scores))


@each("draw", DRAWN)
def test_scores_of_one_dtype_are_counted_by_both(draw, generator):
    ascending = draw(300, generator).unique()
    for count in (10, bins.MIN_SCORES):
        scores = torch.cat([draw(count, generator), ascending])
        wanted = (ascending[:, None] <= scores).sum(0)
        assert torch.equal(bins.count_reached(scores, ascending).long(), wanted)


NUMBERS = st.floats(allow_nan=False) | st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, -0.0, INF, -INF])


@given(st.lists(NUMBERS, min_size=1, max_size=30), st.lists(NUMBERS, min_size=1, max_size=30))
def test_of_any_numbers(ends, scores):
    known = torch.tensor(ends, dtype=torch.float64).unique()
    given_scores = torch.tensor([*scores, *ends], dtype=torch.float64)
    for some in (given_scores, given_scores.float()):
        assert torch.equal(bins.build_lookup(known)(some), searched(known, some))


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("weighted", ["", "items", "scores"])
@pytest.mark.parametrize("columns", [1, 3])
def test_sketches_count_the_same_by_both(columns, weighted, classes, generator, monkeypatch):
    scores = torch.randn(5000, columns, generator=generator)
    target = torch.randint(columns if classes else 2, (5000,) if classes else (5000, columns), generator=generator)
    shape = {"items": (5000,), "scores": (5000, columns)}.get(weighted)
    weight = None if shape is None else torch.rand(shape, generator=generator)
    kept = torch.rand(target.shape, generator=generator) < 0.8
    sketch = adaptive.learn_bins(scores[:1000].double(), 300)
    found = []
    for pays in (1, 10**9):
        monkeypatch.setattr(bins, "MIN_SCORES", pays)
        found.append(adaptive.count_items(sketch, bins.Items(scores, target, weight, kept)))
    assert torch.equal(*found)
    assert found[0].sum() == (kept.sum() * (columns if classes else 1) if weight is None else found[1].sum())
