"""Zhu's lemmas (2004), as laws of every ranking."""

import pytest
import torch
from hypothesis import assume, given

from tests.support.strategies import rankings
from torch_ap.core.measures.ties import TIES
from torch_ap.curves import hit_curve
from torch_ap.functional import binary_average_precision


def tensors(ranking):
    return torch.tensor(ranking[0], dtype=torch.float64), torch.tensor(ranking[1])


def with_hit(ranking):
    scores, relevant = ranking
    return [*scores, 0.25], [*relevant, 1]


@pytest.mark.parametrize("ties", TIES)
@given(rankings())
def test_lemma_1_precision_is_pi_times_recall_over_t(ties, ranking):
    scores, relevant = tensors(with_hit(ranking))
    points = hit_curve(scores, relevant, fraction=True, ties=ties)
    pi = relevant.double().mean()
    torch.testing.assert_close(points.precision, pi * points.recall / points.t)
    torch.testing.assert_close(points.recall, points.hits / pi)
    assert ((points.hits >= 0) & (points.hits <= points.t + 1e-15)).all()


@pytest.mark.parametrize("ties", TIES)
@given(rankings())
def test_lemmas_2_and_5_recall_rises_from_0_to_1_by_at_most_1_over_m_a_rank(ties, ranking):
    scores, relevant = tensors(with_hit(ranking))
    ends = torch.tensor([0.0, 1.0])
    assert hit_curve(scores, relevant, ends, fraction=True, ties=ties).recall.tolist() == pytest.approx([0, 1])
    steps = hit_curve(scores, relevant, torch.arange(len(scores) + 1), ties=ties).recall.diff()
    assert (steps >= -1e-15).all()
    assert (steps <= 1 / relevant.sum() + 1e-15).all()


@given(rankings())
def test_example_2_a_perfect_ranking_has_ap_1(ranking):
    _, relevant = with_hit(ranking)
    ordered = torch.tensor(sorted(relevant, reverse=True))
    scores = -torch.arange(len(ordered)).double()
    assert binary_average_precision(scores, ordered).item() == 1
    assert all(binary_average_precision(ordered.double(), ordered, ties=rule).item() == 1 for rule in TIES)


@given(rankings())
def test_lemma_4_misses_below_the_last_hit_change_nothing(ranking):
    scores, relevant = with_hit(ranking)
    more = [*scores, -torch.inf, -torch.inf], [*relevant, 0, 0]
    assume(-torch.inf not in scores)
    for rule in TIES:
        before, after = (binary_average_precision(*tensors(x), ties=rule) for x in ((scores, relevant), more))
        assert before == after


@given(rankings(min_size=1))
def test_example_1_one_tie_group_is_random_selection(ranking):
    _, relevant = tensors(ranking)
    value = binary_average_precision(torch.zeros(len(relevant)).double(), relevant, empty_target_action="neg")
    assert value.item() == pytest.approx(relevant.double().mean().item())


@pytest.mark.parametrize(("c", "printed"), [(5 / 42, 0.26), (1 / 6, 0.20)])
def test_hyperbolic_recall_has_its_area(c, printed):
    """For r(t) = t (1 + c) / (t + c) the AP of a long ranking approaches pi (1 + 1 / (2 c))."""
    n, pi = 200_000, 0.05
    t = torch.arange(n + 1, dtype=torch.float64) / n
    hits = (n * pi * t * (1 + c) / (t + c)).round()
    relevant = (hits.diff() > 0).long()
    value = binary_average_precision(-torch.arange(n).double(), relevant).item()
    # the tolerance covers rounding of the smooth curve to whole hits
    assert value == pytest.approx(pi * (1 + 1 / (2 * c)), abs=2e-4)
    assert round(value, 2) == printed
