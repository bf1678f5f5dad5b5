"""Hypothesis strategies for rankings, with few distinct scores so that ties are common."""

import torch
from hypothesis import strategies as st

SCORES = [-float("inf"), -2.5, -1.0, -0.0, 0.0, 0.25, 0.5, 1.0, 3.0, float("inf")]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@st.composite
def rankings(draw, min_size=0, max_size=7):
    """Draw (scores, relevant) as lists."""
    size = draw(st.integers(min_size, max_size))
    scores = draw(st.lists(st.sampled_from(SCORES), min_size=size, max_size=size))
    relevant = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    return scores, relevant


@st.composite
def tables(draw, columns=3, min_size=1, max_size=12):
    """Draw (scores, relevant) as (N, C) tensors."""
    size = draw(st.integers(min_size, max_size))
    cells = size * columns
    scores = draw(st.lists(st.sampled_from(SCORES), min_size=cells, max_size=cells))
    relevant = draw(st.lists(st.integers(0, 1), min_size=cells, max_size=cells))
    return torch.tensor(scores).reshape(size, columns), torch.tensor(relevant).reshape(size, columns)
