"""Bootstrap intervals and comparisons under every tie rule, against resamples that are computed by definition."""

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch

from tests.support.oracles_inference import average_precision_by_definition
from tests.support.tolerances import FEW_TERMS, SINGLE
from torch_ap import BinaryAveragePrecision, Convention, MulticlassAveragePrecision, MultilabelAveragePrecision
from torch_ap.core.measures.convention import TIES
from torch_ap.core.ranking import builders
from torch_ap.functional import binary_average_precision
from torch_ap.inference import average_precision_interval, influence, resampling
from torch_ap.inference.average_precision import BOOTSTRAPS, METHODS
from torch_ap.inference.resampling import Resampling

F = torch.float64
SCORES, TARGET = [-0.657, 2.19, 0.471, -0.0762, -1.22], [0, 1, 0, 0, 1]
TIED_SCORES, TIED_TARGET = [2.0, 2.0, 2.0, 1.0, 1.0], [0, 1, 0, 1, 0]
INTERPOLATIONS = ("11-point", "11-point-trec9", "101-point", "all-points", "nuscenes")


def resampled(scores, target, ties, draws):
    """Return the AP of each resample, whose items each row of ``draws`` contains."""
    cache = {}
    for counts in {tuple(sorted(row)) for row in draws.tolist()}:
        rows = [scores[i] for i in counts], [target[i] for i in counts]
        cache[counts] = average_precision_by_definition(*rows, ties)
    return np.array([cache[tuple(sorted(row))] for row in draws.tolist()])


def untied_sample(n=300, seed=3):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < 0.1).long()
    preds = torch.randn(n, generator=generator, dtype=F) + target
    assert len(preds.unique()) == n
    return preds, target


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(("scores", "target"), [(SCORES, TARGET), (TIED_SCORES, TIED_TARGET)], ids=["untied", "tied"])
def test_replicates_have_the_distribution_of_all_resamples(ties, scores, target):
    preds, flags = torch.tensor(scores, dtype=F), torch.tensor(target)
    draws = np.array(list(itertools.product(range(len(scores)), repeat=len(scores))))
    exact = resampled(scores, target, ties, draws)
    convention = Convention(ties=ties)
    how = Resampling(10_000)
    values = resampling.replicates(builders.from_scores(preds, flags), convention, "iid", how, split_ties=True)
    known = values[~values.isnan()].numpy()
    assert len(known) / len(values) == pytest.approx(np.mean(~np.isnan(exact)), abs=0.01)  # 5 standard errors
    exact = exact[~np.isnan(exact)]
    shares, wanted = (Counter(np.round(x, 9)) for x in (known, exact))
    assert shares.keys() <= wanted.keys()
    for value, count in wanted.items():
        share = count / len(exact)
        allowed = 5 * math.sqrt(share / len(known))  # 5 standard errors
        assert shares[value] / len(known) == pytest.approx(share, abs=allowed), (ties, value)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("split_ties", [True, False])
def test_resampled_items_have_the_average_precision_of_repeated_items(ties, split_ties):
    rng = np.random.default_rng(0)
    for case in range(60):
        scores = rng.permutation(7).astype(float) if case % 2 else rng.integers(0, 3, 7).astype(float)
        target = rng.permutation([0, 0, 0, 1, 1, 1, rng.integers(2)])
        if not split_ties and ties != "grouped" and len(set(scores)) < 7:
            continue
        weights = rng.multinomial(7, np.full(7, 1 / 7))
        preds, flags = torch.tensor(scores), torch.tensor(target)
        items = resampling.group_items(builders.from_scores(preds, flags), preds, flags.bool(), split_ties=split_ties)
        curve = items.curve(torch.tensor(weights)[None])
        repeated = scores.repeat(weights).tolist(), target.repeat(weights).tolist()
        wanted = average_precision_by_definition(*repeated, ties)
        assert float(Convention(ties=ties)(curve)) == pytest.approx(wanted, abs=FEW_TERMS, nan_ok=True)
        if ties == "expected" or not split_ties:
            continue
        for interpolation in INTERPOLATIONS:
            convention = Convention(interpolation=interpolation, ties=ties)
            wanted = convention(builders.from_scores(*map(torch.tensor, repeated)))
            torch.testing.assert_close(convention(curve), wanted, rtol=0, atol=FEW_TERMS, equal_nan=True)


def test_optimistic_interval_of_five_items_has_width():
    metric = BinaryAveragePrecision(ties="optimistic")
    metric.update(torch.tensor(SCORES), torch.tensor(TARGET))
    found = metric.confidence_interval(method="bootstrap-percentile")
    draws = np.array(list(itertools.product(range(5), repeat=5)))
    exact = resampled(SCORES, TARGET, "optimistic", draws)
    assert float(found.low) == pytest.approx(np.nanquantile(exact, 0.025), abs=SINGLE)
    assert float(found.high) == pytest.approx(1)
    error = np.nanstd(exact)
    assert float(found.standard_error) == pytest.approx(error, rel=0.05)  # 2 standard errors of 1,000 resamples
    assert found.reason == ""


@pytest.mark.parametrize("method", BOOTSTRAPS)
@pytest.mark.parametrize("ties", TIES)
def test_every_metric_has_the_interval_of_drawn_items(method, ties):
    preds, target = untied_sample()
    values = torch.tensor(_many_resamples(ties))
    one = builders.from_scores(preds, target)
    estimate = torch.tensor(average_precision_by_definition(preds.tolist(), target.tolist(), ties), dtype=F)
    if method == "bootstrap-percentile":
        wanted = np.quantile(values.numpy(), [0.025, 0.975])
    elif method == "bootstrap-bca":
        slope = influence.acceleration(influence.influence(one))[0]
        wanted = [float(x) for x in resampling.bca(values, estimate, slope, 0.95)]
    else:
        wanted = None
    both = torch.stack([-preds, preds], 1)
    multiclass = MulticlassAveragePrecision(2, ties=ties, average="none", normalization="none")
    multilabel = MultilabelAveragePrecision(2, ties=ties, average="none")
    multiclass.update(both, target)
    multilabel.update(both, torch.stack([1 - target, target], 1))
    binary = BinaryAveragePrecision(ties=ties)
    binary.update(preds, target)
    for metric in (binary, multiclass, multilabel):
        found = metric.confidence_interval(method=method, n_resamples=1500)
        low, high, error = (float(x.flatten()[-1]) for x in (found.low, found.high, found.standard_error))
        assert error == pytest.approx(float(values.std()), rel=0.1)  # 5 standard errors of a standard deviation
        if wanted is not None:
            assert [low, high] == pytest.approx(wanted, abs=0.02)  # 4 standard errors of these quantiles


@cache
def _many_resamples(ties):
    preds, target = untied_sample()
    draws = np.random.default_rng(1).integers(0, 300, (2000, 300))
    return [_fast(preds.numpy(), target.numpy(), row, ties) for row in draws]


def _fast(scores, target, draw, ties):
    """Return the AP of one resample of untied items; copies of one item are a tie group of hits or of misses."""
    counts = np.bincount(draw, minlength=len(scores))[np.argsort(-scores)]
    flags = np.repeat(target[np.argsort(-scores)], counts)
    hits, rank = np.cumsum(flags), np.arange(1, len(flags) + 1)
    if ties == "grouped":
        ends = np.cumsum(counts).repeat(counts)
        hits, rank = hits[ends - 1], ends
    return float((flags * hits / rank).sum() / flags.sum()) if flags.any() else math.nan


def test_rules_agree_on_untied_items_except_for_copies():
    preds, target = untied_sample(40)
    drawn = np.random.default_rng(2).integers(0, 40, (20, 40))
    for ties in TIES:
        fast = [_fast(preds.numpy(), target.numpy(), row, ties) for row in drawn]
        assert fast == pytest.approx(
            resampled(preds.tolist(), target.tolist(), ties, drawn), abs=FEW_TERMS, nan_ok=True
        )


@pytest.mark.parametrize("ties", TIES)
def test_tied_items_have_an_interval_for_grouped_ties_only(ties):
    preds, target = torch.tensor(TIED_SCORES * 8), torch.tensor(TIED_TARGET * 8)
    for method in METHODS:
        metric = BinaryAveragePrecision(ties=ties)
        metric.update(preds, target)
        if ties == "grouped":
            found = metric.confidence_interval(method=method)
            assert found.low < found.estimate < found.high
        else:
            with pytest.raises(ValueError, match=r"`ties` must be 'grouped'"):
                metric.confidence_interval(method=method)


@pytest.mark.parametrize("tied", [False, True])
def test_nuscenes_interval_equals_drawn_items(tied):
    preds, target = untied_sample(120)
    preds = (preds * 3).round() if tied else preds
    draws = torch.from_numpy(np.random.default_rng(1).integers(0, 120, (800, 120)))
    values = [float(binary_average_precision(preds[d], target[d], interpolation="nuscenes")) for d in draws]
    found = average_precision_interval(
        preds, target, interpolation="nuscenes", method="bootstrap-percentile", n_resamples=3000
    )
    assert float(found.standard_error) == pytest.approx(np.nanstd(values), rel=0.13)  # 5 standard errors
    wanted = np.nanquantile(values, [0.025, 0.975])
    assert [float(found.low), float(found.high)] == pytest.approx(wanted, abs=0.05)  # 4 standard errors


@pytest.mark.parametrize("ties", TIES)
def test_comparison_equals_drawn_items(ties):
    preds, target = untied_sample(120)
    other = preds + torch.randn(120, generator=torch.Generator().manual_seed(9), dtype=F)
    draws = np.random.default_rng(1).integers(0, 120, (1500, 120))
    gaps = [[_fast(x.numpy(), target.numpy(), row, ties) for x in (preds, other)] for row in draws]
    gaps = np.subtract(*np.array(gaps).T)
    first, second = (BinaryAveragePrecision(ties=ties) for _ in range(2))
    first.update(preds, target)
    second.update(other, target)
    found = first.compare(second, method="bootstrap", n_resamples=3000)
    assert float(found.standard_error) == pytest.approx(np.nanstd(gaps), rel=0.1)  # 4 standard errors
    assert float(found.low) == pytest.approx(np.nanquantile(gaps, 0.025), abs=0.03)  # 4 standard errors
    assert float(found.high) == pytest.approx(np.nanquantile(gaps, 0.975), abs=0.03)  # 4 standard errors


def test_shared_resamples_follow_the_rule_of_the_metric():
    """One stream of draws gives each rule its own value: without copies of items all rules would be equal."""
    preds, target = untied_sample(60)
    other = preds.flip(0)
    ends = {}
    for ties in TIES:
        first, second = (BinaryAveragePrecision(ties=ties) for _ in range(2))
        first.update(preds, target)
        second.update(other, target)
        ends[ties] = float(first.compare(second, method="bootstrap").low)
    assert ends["optimistic"] == pytest.approx(ends["expected"], abs=FEW_TERMS)
    assert ends["optimistic"] == pytest.approx(ends["pessimistic"], abs=FEW_TERMS)
    assert ends["optimistic"] != pytest.approx(ends["grouped"], abs=SINGLE)


@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
def test_summary_has_the_interval_of_each_untied_label(ties):
    preds, target = untied_sample(80)
    both = MultilabelAveragePrecision(2, average="none", ties=ties)
    both.update(torch.stack([preds.round(), preds], 1), torch.stack([target, target], 1))
    alone = BinaryAveragePrecision(ties=ties)
    alone.update(preds, target)
    found, wanted = (metric.summary(method="bootstrap-percentile") for metric in (both, alone))
    assert math.isnan(found["ap_0_low"])
    assert math.isnan(found["ap_0_high"])
    for end in ("", "_low", "_high"):
        assert float(found[f"ap_1{end}"]) == pytest.approx(float(wanted[f"ap{end}"]))
