import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

from tests.support.tolerances import DOZENS_OF_TERMS
from torch_ap import Convention
from torch_ap.core.measures import top_share
from torch_ap.core.measures.counts import counts_at_rank
from torch_ap.core.ranking import builders, hit_curve
from torch_ap.inference import dirichlet
from torch_ap.inference.dirichlet import WeightedItems
from torch_ap.inference.resampling import Resampling, generators

DENOMINATORS = ("min", "relevant", "found")
MEASURES = {
    "AP": Convention(ties="grouped"),
    "P": lambda curve: top_share.precision_in_top_share(curve, 0.3),
    "R": lambda curve: top_share.recall_in_top_share(curve, 0.3),
    **{
        name: lambda curve, name=name: top_share.average_precision_in_top_share(curve, 0.3, name)
        for name in DENOMINATORS
    },
}


def by_definition(scores, relevant, weights, share):
    """Walk down the tie groups of weighted items; the cut takes a part of the group that straddles it."""
    total, m = sum(weights), sum(w for w, y in zip(weights, relevant, strict=True) if y)
    cut, h, t, ap, at_cut, hits_at_cut = share * total, 0.0, 0.0, 0.0, 0.0, 0.0
    for score in sorted(set(scores), reverse=True):
        group = [(w, y) for w, y, s in zip(weights, relevant, scores, strict=True) if s == score]
        items, hits = sum(w for w, _ in group), sum(w for w, y in group if y)
        part = min(1.0, max(0.0, (cut - t) / items))
        if hits * part > 0:
            at_cut += hits * part * (h + hits * part) / (t + items * part)
        hits_at_cut += hits * part
        h, t = h + hits, t + items
        ap += hits * h / t
    found = at_cut / hits_at_cut if hits_at_cut else 0.0
    values = (ap / m, hits_at_cut / cut, hits_at_cut / m, at_cut / min(cut, m), at_cut / m, found)
    return dict(zip(MEASURES, values, strict=True))


def drawn(generator, n, few_scores=True):
    scores = torch.randint(5, (n,), generator=generator).double() if few_scores else torch.randn(n, generator=generator)
    target = (torch.rand(n, generator=generator) < 0.4).long()
    target[torch.randint(n, (), generator=generator)] = 1
    return scores, target


def test_items_of_a_cut_ranking_are_all_items():
    generator = torch.Generator().manual_seed(0)
    scores, relevant = torch.randn(500, generator=generator), torch.rand(500, generator=generator) < 0.3
    cut = hit_curve.top(builders.from_scores(scores, relevant), 40)
    items = WeightedItems.from_curve(cut)
    assert items.entries < int(relevant.sum())
    assert (items.counts.sum(), items.counts[: items.entries + 1].sum()) == (500, int(relevant.sum()))


def test_measures_of_weighted_items_by_definition():
    generator = torch.Generator().manual_seed(1)
    for n in (1, 2, 5, 12, 12, 12):
        scores, target = drawn(generator, n)
        weights = torch.rand(n, generator=generator, dtype=torch.float64) + 0.01
        curve = builders.from_scores(scores, target, weight=weights)
        wanted = by_definition(scores.tolist(), target.tolist(), weights.tolist(), 0.3)
        for name, measure in MEASURES.items():
            assert float(measure(curve)) == pytest.approx(wanted[name], rel=DOZENS_OF_TERMS), name


def test_equal_weights_give_the_measures_at_rank_k():
    generator = torch.Generator().manual_seed(2)
    for n, k in ((1, 1), (8, 3), (8, 8), (20, 7)):
        curve = builders.from_scores(*drawn(generator, n))
        counts = counts_at_rank(curve, k)
        wanted = {"precision": counts.precision, "recall": counts.recall}
        for name, value in wanted.items():
            found = getattr(top_share, f"{name}_in_top_share")(curve, k / n)
            assert float(found) == pytest.approx(float(value), rel=DOZENS_OF_TERMS)
        for name in DENOMINATORS:
            value = Convention(top_k=k, denominator=name, ties="grouped")(curve)
            found = top_share.average_precision_in_top_share(curve, k / n, name)
            assert float(found) == pytest.approx(float(value), rel=DOZENS_OF_TERMS)


def test_measures_without_hits():
    curve = builders.from_scores(torch.arange(3.0), torch.zeros(3, dtype=torch.int64))
    assert float(top_share.precision_in_top_share(curve, 0.5)) == 0
    for name in DENOMINATORS:
        assert math.isnan(top_share.average_precision_in_top_share(curve, 0.5, name))


def resampled_items(scores, target, side, rng):
    """Give each item and each pseudo-item a weight."""
    weights, half = rng.standard_exponential(len(scores)), rng.standard_gamma(0.5, 2)
    more = [(math.inf, 0, half[0]), (-math.inf, 1, half[1])] if side == "low" else [(math.inf, 1, half[0])]
    pseudo = zip(*more, strict=True)
    return [
        [*column, *extra] for column, extra in zip((scores.tolist(), target.tolist(), weights), pseudo, strict=True)
    ]


@pytest.mark.parametrize("few_scores", [True, False])
def test_draws_have_the_distribution_of_weights_per_item(few_scores):
    generator, rng, count = torch.Generator().manual_seed(3), np.random.default_rng(3), 2000
    scores, target = drawn(generator, 12, few_scores)
    items = dirichlet.WeightedItems.from_curve(builders.from_scores(scores, target))
    curves = items.curves(generators(5, range(count)))
    for side, curve in zip(("low", "high"), curves, strict=True):
        wanted = [by_definition(*resampled_items(scores, target, side, rng), 0.3) for _ in range(count)]
        for name, measure in MEASURES.items():
            values = measure(curve).numpy()
            # the probability of a smaller p-value is 1e-4 for each of 24 comparisons
            assert scipy.stats.ks_2samp(values, [x[name] for x in wanted]).pvalue > 1e-4, (side, name)


def test_precision_of_one_hit_is_beta():
    curve = builders.from_scores(torch.arange(5.0, 0, -1), torch.tensor([0, 0, 0, 1, 0]))
    items = replace(dirichlet.WeightedItems.from_curve(curve), pseudo_count=0.0)
    low, high = items.curves(generators(1, range(4000)))
    values = Convention(ties="grouped")(low)
    assert torch.equal(values, Convention(ties="grouped")(high))
    assert scipy.stats.kstest(values.numpy(), scipy.stats.beta(1, 3).cdf).pvalue > 1e-4


@pytest.mark.parametrize("target", [[1], [1, 0], [0, 1], [1, 1, 1, 0], [0, 0, 0, 1]])
def test_ends_exist_for_few_items(target):
    scores = torch.arange(len(target), 0, -1.0)
    items = dirichlet.WeightedItems.from_curve(builders.from_scores(scores, torch.tensor(target)))
    for measure in MEASURES.values():
        low, high = dirichlet.replicate_ends(items, measure, 0.95, Resampling(500))
        assert 0 <= low < high <= 1


def test_ends_do_not_depend_on_chunks_and_repeat():
    generator = torch.Generator().manual_seed(4)
    items = dirichlet.WeightedItems.from_curve(builders.from_scores(*drawn(generator, 50)))
    ends = [
        dirichlet.replicate_ends(items, MEASURES["AP"], 0.9, Resampling(200, chunk_size=size)) for size in (None, 7, 7)
    ]
    assert ends[0] == ends[1] == ends[2]
    other = dirichlet.replicate_ends(items, MEASURES["AP"], 0.9, Resampling(200, torch.Generator().manual_seed(9)))
    assert other != ends[0]
