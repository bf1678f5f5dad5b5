"""AP and AP@k of curves against the definitions, over every order of tied items."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support import oracles
from tests.support.strategies import FLOATS, rankings
from tests.support.tolerances import REORDERED, SOLVED
from torch_ap import functional
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.measures.ties import DENOMINATORS, TIES
from torch_ap.core.ranking import builders
from torch_ap.core.ranking.builders import from_bins


def ap(scores, relevant, **settings):
    curve = builders.from_scores(torch.tensor(scores), torch.tensor(relevant, dtype=torch.int64))
    return average_precision(curve, **settings).item()


def agree(value, exact, tolerance=1e-14):
    return math.isnan(value) if exact is None else abs(value - float(exact)) <= tolerance


@pytest.mark.parametrize("ties", TIES)
@given(rankings())
def test_equals_the_definition(ties, ranking):
    assert agree(ap(*ranking, ties=ties), oracles.average_precision(*ranking, ties))


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("ties", TIES)
@given(rankings(), st.integers(1, 8))
def test_at_k_equals_the_definition(ties, denominator, ranking, k):
    value = ap(*ranking, ties=ties, top_k=k, denominator=denominator)
    assert agree(value, oracles.average_precision(*ranking, ties, k, denominator), 1e-13)


def test_expected_ties_at_k_over_found_is_a_mean_of_ratios():
    """A shortcut would return the ratio of the means, here 7/9."""
    scores, relevant = [1.0, 1.0, 1.0, 0.0], [1, 1, 0, 0]
    exact = oracles.average_precision(scores, relevant, "expected", 2, "found")
    assert agree(ap(scores, relevant, ties="expected", top_k=2, denominator="found"), exact)
    found = oracles.mean_over_orders(lambda r: sum(r[:2]), scores, relevant)
    total = oracles.mean_over_orders(lambda r: oracles.ap_of_ranking(r, 1, 2, "relevant"), scores, relevant)
    assert float(exact) != pytest.approx(float(total / found))


@pytest.mark.parametrize(("items", "hits"), [(10**6, 4 * 10**5), (10**9, 1000), (10**12, 4 * 10**11)])
def test_expected_ties_at_k_over_found_in_huge_groups(items, hits):
    """In so large a group the first k places are drawn independently, up to corrections of order 1 / items."""
    k, pi = 10, Fraction(hits, items)
    curve = from_bins(torch.tensor([[hits]]), torch.tensor([[items]]))
    value = average_precision(curve, ties="expected", top_k=k, denominator="found").item()

    def chance(x):
        ways = Fraction(math.comb(k, x))
        for place in range(k):
            ways *= (
                Fraction(hits - place, items - place)
                if place < x
                else Fraction(items - hits - place + x, items - place)
            )
        return ways

    # x hits among k places: with all orders equally likely, the mean of h(t) / t at a hit is [1 + c (t - 1)] / t
    def mean_precision(x):
        c = Fraction(x - 1, k - 1)
        return sum((1 + c * (t - 1)) / t for t in range(1, k + 1)) / k

    exact = sum((chance(x) * mean_precision(x) for x in range(1, k + 1)), Fraction(0))
    assert pi > 0
    assert value == pytest.approx(float(exact), rel=REORDERED)


def test_grouped_is_not_between_pessimistic_and_optimistic():
    """McSherry and Najork's bounds apply to orders of the items, and "grouped" is not an order."""
    scores, relevant = [2.0, 2.0, 2.0, 1.0, 1.0], [0, 0, 0, 1, 1]
    assert agree(ap(scores, relevant), oracles.Fraction(2, 5))
    assert agree(ap(scores, relevant, ties="optimistic"), oracles.Fraction(13, 40))


@given(rankings(min_size=1))
def test_order_of_the_rules(ranking):
    low, mean, high = (ap(*ranking, ties=rule) for rule in ("pessimistic", "expected", "optimistic"))
    assert math.isnan(low) or (low - 1e-14 <= mean <= high + 1e-14 and low >= 0 and high <= 1 + 1e-14)


@given(rankings())
def test_untied_scores_leave_nothing_to_rules(ranking):
    _, relevant = ranking
    scores = [float(-i) for i in range(len(relevant))]
    values = [ap(scores, relevant, ties=ties) for ties in TIES]
    assert all(agree(value, oracles.ap_of_ranking(relevant)) for value in values)


@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
def test_huge_tie_groups_keep_their_digits(ties):
    """With 10^8 misses above a group of 10^6, prefix sums of 1 / t lose a third of the value."""
    above, items, hits = 10**8, 10**6, 10**3
    curve = from_bins(torch.tensor([[0, hits]]), torch.tensor([[above, items]]))
    steps = math.fsum(1 / (above + j) for j in range(1, items + 1))
    chance = (hits - 1) / (items - 1)
    exact = {
        "expected": ((1 - chance * (above + 1)) * steps + chance * items) / items,
        "optimistic": math.fsum(i / (above + i) for i in range(1, hits + 1)) / hits,
        "pessimistic": math.fsum(i / (above + items - hits + i) for i in range(1, hits + 1)) / hits,
    }[ties]
    assert average_precision(curve, ties=ties).item() == pytest.approx(exact, rel=SOLVED)


@pytest.mark.parametrize("dtype", FLOATS)
@given(ranking=rankings(min_size=1))
def test_every_float_ranks_in_its_own_precision(dtype, ranking):
    scores, relevant = ranking
    curve = builders.from_scores(torch.tensor(scores, dtype=dtype), torch.tensor(relevant))
    assert agree(average_precision(curve).item(), oracles.average_precision(scores, relevant))


@given(rankings(min_size=1), st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=7, max_size=7))
def test_weights(ranking, weights):
    scores, relevant = ranking
    weights = weights[: len(scores)]
    curve = builders.from_scores(torch.tensor(scores), torch.tensor(relevant), weight=torch.tensor(weights))
    exact = oracles.weighted_average_precision(scores, relevant, weights)
    assert agree(average_precision(curve).item(), exact, 1e-12)


@pytest.mark.parametrize("scale", [2.0**-970, 2.0**-500, 2.0**950])
def test_only_the_ratios_of_weights_count(scale):
    generator = torch.Generator().manual_seed(0)
    scores, relevant = torch.rand(50, generator=generator).double(), torch.rand(50, generator=generator) < 0.3
    weights = torch.rand(50, generator=generator).double()
    values = [functional.binary_average_precision(scores, relevant, weights=weights * x) for x in (1, scale)]
    assert values[0] == values[1]
