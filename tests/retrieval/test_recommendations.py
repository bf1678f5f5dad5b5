"""Recommendations, against the measures of queries of the same rows; samples of items against all items."""

import math

import numpy as np
import pytest
import torch

from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import functional
from torch_ap.functional import recommendation_at_k
from torch_ap.retrieval import recommendation as inputs
from torch_ap.retrieval.recommendation import corrected

K = [1, 3, 10]
SIBLINGS = {
    "hit_rate": functional.retrieval_hit_rate,
    "recall": functional.retrieval_recall,
    "ndcg": functional.retrieval_normalized_dcg,
    "map": functional.retrieval_average_precision,
    "mrr": functional.retrieval_reciprocal_rank,
}


def measures_per_row(scores, liked, seen, ties):
    """Return the measures of queries for the rows without the seen items."""
    how = {"ties": ties, "empty_target_action": "nan", "mask": ~seen, "dtype": torch.float64}
    return {
        name: torch.stack([measure(scores, liked.long(), top_k=k, **how) for k in K], 1)
        for name, measure in SIBLINGS.items()
    }


def as_lists(flags):
    return torch.cat([torch.zeros(1).long(), flags.sum(1).cumsum(0)]), flags.nonzero()[:, 1]


def drawn(generator, users=37, items=23):
    scores = torch.randint(-4, 5, (users, items), generator=generator) / 4
    kinds = torch.rand(users, items, generator=generator)
    kinds[3] = 1  # a user who likes nothing
    return scores, kinds < 0.15, (kinds > 0.15) & (kinds < 0.4)


@pytest.mark.parametrize("ties", ["expected", "grouped", "optimistic", "pessimistic"])
@pytest.mark.parametrize("bytes_of_a_tile", [1, 1 << 24])
def test_the_measures_equal_the_measures_of_queries(ties, bytes_of_a_tile, generator, monkeypatch):
    monkeypatch.setattr(inputs, "_BYTES_OF_A_TILE", bytes_of_a_tile)
    scores, liked, seen = drawn(generator)
    found = recommendation_at_k(scores, liked, seen, top_k=K, ties=ties)
    for name, values in measures_per_row(scores, liked, seen, ties).items():
        torch.testing.assert_close(found.per_user[name], values, rtol=0, atol=REORDERED, equal_nan=True, msg=name)
        torch.testing.assert_close(getattr(found, name), values.nanmean(0), rtol=0, atol=REORDERED)
    assert (found.users, found.without_target) == (36, 1)
    assert recommendation_at_k(scores, as_lists(liked), as_lists(seen), top_k=K, ties=ties) == found
    in_part = recommendation_at_k(lambda users: scores[users], liked, seen, top_k=K, ties=ties, items=23)
    assert in_part == found


def test_excluded_items_can_be_scored_minus_infinity(generator):
    scores, liked, seen = drawn(generator)
    scores[5] = -torch.inf
    expected = measures_per_row(scores, liked, seen, "expected")
    found = recommendation_at_k(scores, liked, seen, top_k=K)
    torch.testing.assert_close(found.per_user["ndcg"], expected["ndcg"], rtol=0, atol=REORDERED, equal_nan=True)


def test_leave_one_out_is_a_function_of_the_rank():
    scores = torch.tensor([[5.0, 4, 3, 2, 1]]).repeat(5, 1)
    found = recommendation_at_k(scores, torch.arange(5), top_k=[1, 3])
    assert found.per_user["ndcg"][:, 1].tolist() == pytest.approx([1, 1 / math.log2(3), 0.5, 0, 0], abs=REORDERED)
    assert found.per_user["mrr"][:, 1].tolist() == pytest.approx([1, 1 / 2, 1 / 3, 0, 0], abs=REORDERED)
    assert torch.equal(found.map, found.mrr)
    assert torch.equal(found.hit_rate, found.recall)
    assert found.hit_rate.tolist() == pytest.approx([0.2, 0.6], abs=REORDERED)
    same = recommendation_at_k(torch.zeros(5, 5), torch.arange(5), top_k=[1, 3])
    assert same.hit_rate.tolist() == pytest.approx([0.2, 0.6], abs=REORDERED)  # a constant is no better than chance


# -- samples of items


def test_the_mean_of_ranks_given_a_sample_s_rank():
    """At variance weight 1 the correction is the mean metric over the ranks that explain the sampled rank."""
    n, sampled = 12, 4
    metric = 1 / np.arange(1, n + 1.0)[:, None]
    chance = np.array(
        [
            [
                math.comb(sampled, s) * (r / (n - 1)) ** s * (1 - r / (n - 1)) ** (sampled - s)
                for s in range(sampled + 1)
            ]
            for r in range(n)
        ]
    )
    expected = (chance * metric).sum(0) / chance.sum(0)
    assert corrected(metric, sampled, 1.0)[:, 0] == pytest.approx(expected, abs=REORDERED)


def test_a_correction_comes_closer_to_all_items_than_the_sample_does():
    generator = torch.Generator().manual_seed(4)
    users, items, sampled = 3000, 400, 50
    scores, liked = torch.randn(users, items, generator=generator), torch.randint(items, (users,), generator=generator)
    scores[torch.arange(users), liked] += 1.5
    every = recommendation_at_k(scores, liked)
    others = torch.randint(items - 1, (users, sampled), generator=generator)
    others += others >= liked[:, None]
    columns = torch.cat([liked[:, None], others], 1)
    part = scores.gather(1, columns)
    first = torch.zeros(users, dtype=torch.int64)
    with pytest.warns(UserWarning, match="sampled items"):
        as_sampled = recommendation_at_k(part, first, sampled_from=items)
    estimate = recommendation_at_k(part, first, sampled_from=items, correction="least-squares")
    for name in SIBLINGS:
        wanted, naive, better = (getattr(x, name) for x in (every, as_sampled, estimate))
        assert ((better - wanted).abs() < (naive - wanted).abs() / 4).all(), name
    assert (estimate.sampled_from, estimate.correction) == (400, "least-squares")
    assert as_sampled.hit_rate[1] > every.hit_rate[1] + 0.2


# -- invalid input


SCORES, LIKED = torch.eye(3), torch.tensor([0, 1, 2])


@each(
    "changed, message",
    [
        ({"preds": [[1.0]]}, r"`preds` must be a tensor"),
        ({"preds": SCORES[0]}, r"`preds` must be \(U, I\), or a function of users, got shape \(3,\)"),
        ({"preds": SCORES * torch.nan}, r"`preds` must not contain NaN, got NaN of user 0, item 0"),
        (
            {"preds": SCORES.long() + (1 << 53)},
            r"`preds` of int64 must be in .*2\^53.* got 9007199254740993 of user 0",
        ),
        ({"preds": SCORES.long() - (1 << 63)}, r"`preds` of int64 .* got -9223372036854775807 of user 0, item 0"),
        ({"preds": lambda users: SCORES[users][:, :2], "items": 3}, r"`preds` must have shape \(3, 3\)"),
        ({"preds": lambda users: SCORES[users]}, r"`items` must be the number of items if `preds` is a function"),
        ({"items": 4}, r"`items` must be None or the number of columns of `preds`, 3, got 4"),
        ({"target": LIKED[:2]}, r"`target` must have 3 users, got 2"),
        ({"target": LIKED + 1}, r"`target` must contain items from 0 to 2, got 3 of user 2"),
        ({"target": LIKED - 1}, r"`target` must contain items from 0 to 2, got -1 of user 0"),
        ({"target": LIKED.float()}, r"`target` must be an integer tensor"),
        ({"target": torch.eye(3)}, r"`target` must be \(U,\) integers, \(U, I\) bool or a pair .* torch.float32"),
        ({"target": torch.eye(3, 5).bool()}, r"`target` must have a column for each of 3 items, got shape \(3, 5\)"),
        ({"seen": torch.eye(3).bool()[:, :0]}, r"`seen` must have a column for each of 3 items, got shape \(3, 0\)"),
        ({"target": (torch.tensor([0, 2]), LIKED)}, r"`target` as \(offsets, items\) .* got offsets .* to 2, 3 items"),
        (
            {"target": (torch.tensor(0), LIKED)},
            r"`target` as \(offsets, items\) .* both 1-D, got shapes \(\) and \(3,\)",
        ),
        ({"target": (LIKED[:0], LIKED)}, r"`target` as \(offsets, items\) .* both 1-D, got shapes \(0,\) and \(3,\)"),
        (
            {"target": (torch.tensor([0, 2, 1, 3], dtype=torch.uint8), LIKED)},
            r"`target` as \(offsets, items\) must have offsets that rise .* got 2, then 1",
        ),
        (
            {"target": (torch.tensor([0, 2, 3, 3]), LIKED * 0)},
            r"`target` must contain each item of a user once, got item 0 of",
        ),
        ({"seen": torch.eye(3).bool()}, r"`seen` must not contain items of `target`, got item 0 of user 0"),
        ({"seen": LIKED}, r"`seen` must be \(U, I\) bool or a pair"),
        ({"top_k": 5}, r"`top_k` must be a list of different ints of at least 1, got 5"),
        ({"top_k": [1, 1]}, r"`top_k` must be a list of different ints of at least 1, got \[1, 1\]"),
        ({"ties": "first"}, r"`ties` .* got 'first'"),
        ({"sampled_from": 2}, r"`sampled_from` must be at least the number of columns of `preds`, 3, got 2"),
        ({"correction": "least-squares"}, r"`correction` must be None without `sampled_from`"),
        ({"correction": "linear"}, r"`correction` must be one of 'least-squares', None"),
        (
            {"sampled_from": 9, "correction": "least-squares", "target": torch.ones(3, 3).bool()},
            r"`correction` needs one item per user",
        ),
    ],
)
def test_invalid_input_raises(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        recommendation_at_k(**({"preds": SCORES, "target": LIKED, "top_k": [1]} | changed))


def test_users_without_liked_items_cause_a_warning():
    with pytest.warns(UserWarning, match="No user has an item"):
        found = recommendation_at_k(SCORES, torch.zeros(3, 3).bool())
    assert math.isnan(found.ndcg[0])
    assert (found.users, found.without_target) == (0, 3)
