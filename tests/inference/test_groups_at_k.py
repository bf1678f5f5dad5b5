"""Measures at rank k of items in groups, against explicit deletion of each group."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import special, stats

from tests.inference.test_average_precision_at_k import ranked
from tests.inference.test_comparison_at_k import MEASURES, pair, weighted_value
from tests.inference.test_groups import explicit_count, explicit_error
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import BinaryAveragePrecision, Convention
from torch_ap.core.measures import top_share
from torch_ap.core.ranking.builders import from_scores
from torch_ap.inference import (
    average_precision_at_k_interval,
    chance_test_of_queries,
    compare_rankings_at_k,
    groups,
    groups_at_k,
    precision_at_k_interval,
    recall_at_k_interval,
)
from torch_ap.inference.comparison_at_k import TopSettings
from torch_ap.inference.groups import Groups
from torch_ap.inference.groups_at_k import values_without_groups_at_k
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.inference.resampling import Resampling


def explicit_values(scores, target, ids, k, **options):
    """Return the measure of the items outside of each group, item by item, cut at the share k / n."""
    values = []
    for group in torch.unique(ids):
        kept = ids != group
        hit = target[kept][scores[kept].argsort(descending=True)].bool().numpy()
        values.append(weighted_value(hit, np.ones(len(hit)), k / len(scores), **options))
    return torch.tensor(values, dtype=torch.float64)


INTERVALS = {
    "average_precision": average_precision_at_k_interval,
    "precision": precision_at_k_interval,
    "recall": recall_at_k_interval,
}


def measure_of(measure="average_precision", denominator="min"):
    return TopSettings(0, measure, denominator, 0.95, "jackknife", Resampling()).values


@each("options", MEASURES)
def test_values_without_each_group_equal_explicit_deletion(options):
    for seed, k in ((0, 20), (1, 5), (2, 90)):
        scores, target = ranked(90, 0.3, seed=seed)
        ids = torch.randint(12, (90,), generator=torch.Generator().manual_seed(seed)) * 10**9
        arguments = from_scores(scores, target == 1), scores, target == 1, Groups.from_ids(ids), k
        found = values_without_groups_at_k(*arguments, measure_of(**options))
        torch.testing.assert_close(
            found, explicit_values(scores, target, ids, k, **options), rtol=REORDERED, atol=REORDERED
        )


@each("dtype", (torch.float16, torch.float32, torch.float64, torch.int64))
def test_tied_scores_and_blocks_of_groups(dtype, monkeypatch):
    scores, target = ranked(120, 0.3)
    scores, ids, measure = (2 * scores).round().to(dtype), torch.arange(120) % 9, top_share.recall_in_top_share
    arguments = from_scores(scores, target == 1), scores, target == 1, Groups.from_ids(ids), 30, measure
    wanted = [measure(from_scores(scores[ids != x], target[ids != x] == 1), 0.25) for x in range(9)]
    for block in (1 << 22, 1):
        monkeypatch.setattr(groups_at_k, "_NUMBERS_PER_BLOCK", block)
        torch.testing.assert_close(values_without_groups_at_k(*arguments), torch.cat(wanted))


def explicit_count_at_k(scores, target, ids, k):
    """Return the effective number of groups, with that in the top k among the numbers."""
    sizes = ids[scores >= scores.sort(descending=True).values[k - 1]].bincount().tolist()
    return min(explicit_count(target, ids), sum(sizes) ** 2 / sum(size**2 for size in sizes))


@each("options", MEASURES)
def test_interval_follows_from_explicit_deletion(options):
    scores, target = ranked(200, 0.3)
    ids = torch.arange(200) // 10
    interval = INTERVALS[options.get("measure", "average_precision")]
    own = {key: x for key, x in options.items() if key == "denominator"}
    found = interval(scores, target, 60, **own, groups=ids)
    error = explicit_error(explicit_values(scores, target, ids, 60, **options))
    value = float(interval(scores, target, 60, **own).estimate)
    half = stats.t.ppf(0.975, explicit_count_at_k(scores, target, ids, 60) - 1) * error / (value * (1 - value))
    ends = special.expit(special.logit(value) + np.array([-half, half]))
    assert [float(found.low), float(found.high)] == pytest.approx(list(ends))
    assert float(found.standard_error) == pytest.approx(error)
    assert (float(found.estimate), found.method, found.reason) == (value, "jackknife", "")
    assert interval(scores, target, 60, **own, groups=ids.tolist()) == found


@pytest.mark.filterwarnings("ignore:.*groups with hits")
def test_one_group_in_the_top_has_no_spread():
    """A patient with 20 equal items that fill the top 20 is one observation."""
    patient = torch.arange(1200) // 20
    scores, target = 60.0 - patient, (patient % 3 == 0).long()
    for interval in INTERVALS.values():
        found = interval(scores, target, 20, groups=patient)
        assert bool(found.low.isnan() & found.high.isnan())
        assert "one with most hits, misses or top items" in found.reason
        assert not interval(scores, target, 200, groups=patient).low.isnan()
    test = chance_test_of_queries(scores, target, top_k=20, ties="grouped", groups=patient)
    assert (test.p_value.isnan(), "top items" in test.reason) == (True, True)
    other = scores.roll(20)
    compared = compare_rankings_at_k(scores, other, target, 20, groups=patient)
    assert (compared.p_value.isnan(), "top items" in compared.reason) == (True, True)


def test_reasons_and_warnings_belong_to_the_result(recwarn):
    scores, target, ids = torch.arange(60.0), torch.zeros(60, dtype=torch.long), torch.arange(60) // 4
    found = precision_at_k_interval(scores, target, 10, groups=ids)
    assert (float(found.estimate), found.reason) == (0, "no hits: the ends are NaN")
    recall_at_k_interval(scores, ids % 2, 60, groups=ids // 5)
    assert not recwarn.list
    with pytest.raises(ValueError, match="`groups`"):
        recall_at_k_interval(scores, ids % 2, 60, groups=ids[:5])


def test_many_groups_are_pooled(monkeypatch):
    scores, target = ranked(200, 0.3)
    ids = torch.arange(200) // 5
    monkeypatch.setattr(groups, "MAX_JACKKNIFE", 15)
    found = average_precision_at_k_interval(scores, target, 60, groups=ids)
    pools = Groups.from_ids(ids).pooled()
    assert pools.count == 15
    assert found == average_precision_at_k_interval(scores, target, 60, groups=pools.ids)


def test_edge_cases():
    scores, target = torch.arange(60.0, 0, -1), torch.tensor([1] * 20 + [0] * 40)
    perfect = average_precision_at_k_interval(scores, target, 15, groups=torch.arange(60) % 20)
    assert float(perfect.low) == pytest.approx(0.05 ** (1 / 15))  # 15 groups in the top 15
    assert (float(perfect.high), float(perfect.standard_error)) == (1, 0)
    assert "alpha^(1 / effective groups)" in perfect.reason
    single = average_precision_at_k_interval(scores, target, 30, groups=[0] * 60)
    assert single.low.isnan()
    assert "fewer than two groups" in single.reason
    none = average_precision_at_k_interval(scores, target * 0, 30, groups=torch.arange(60))
    assert none.reason == "no hits: everything is NaN"
    with pytest.warns(UserWarning, match="6 groups with hits"):
        few = average_precision_at_k_interval(scores, target.roll(1), 30, groups=torch.arange(60) % 6)
    assert "6 groups with hits" in few.reason
    with pytest.warns(UserWarning, match="5 hits in the top 6"):
        top = average_precision_at_k_interval(scores, target.roll(1), 6, groups=torch.arange(60) % 20)
    assert "5 hits in the top 6" in top.reason
    with pytest.warns(UserWarning, match="0 hits in the top 3"):
        zero = average_precision_at_k_interval(scores, target.flip(0), 3, groups=torch.arange(60) % 20)
    assert zero.low.isnan()


def test_edge_cases_of_precision_and_recall():
    scores, target, ids = torch.arange(60.0, 0, -1), torch.tensor([1] * 40 + [0] * 20), torch.arange(60) % 20
    for interval, k, effective in (
        (average_precision_at_k_interval, 31, 31**2 / (11 * 2**2 + 9)),
        (precision_at_k_interval, 31, 31**2 / (11 * 2**2 + 9)),
        (recall_at_k_interval, 45, 45**2 / (5 * 3**2 + 15 * 2**2)),
    ):
        found = interval(scores, target, k, groups=ids)  # 31 / 60 * 60 is above 31
        assert [float(x) for x in (found.low, found.high)] == pytest.approx([0.05 ** (1 / effective), 1])
        assert " of 1, where no standard error exists" in found.reason
    for interval in (precision_at_k_interval, recall_at_k_interval):
        found = interval(scores, target.flip(0), 10, groups=ids)
        assert [float(x) for x in (found.low, found.estimate, found.high)] == pytest.approx(
            [0, 0, 1 - 0.05 ** (1 / 10)]  # 10 groups in the top 10
        )
        assert "@k of 0" in found.reason
        for without in (interval(scores, target, 10, groups=[1] * 60), interval(scores, target * 0, 10, groups=ids)):
            assert without.low.isnan()
            assert without.reason
        with pytest.raises(ValueError, match=r"`design` .*'iid' with `groups`"):
            interval(scores, target, 10, groups=ids, design="stratified")
        with pytest.raises(ValueError, match="`method` must be None with `groups`, got 'dirichlet'"):
            interval(scores, target, 10, groups=ids, method="dirichlet")
    every = recall_at_k_interval(scores, target, 60, groups=ids)
    assert (float(every.low), float(every.high)) == (1, 1)
    assert "recall is 1 by definition" in every.reason


@each("options", MEASURES)
def test_comparison_follows_from_explicit_deletion(options):
    a, b, target = pair(240, 0.3)
    ids = torch.arange(240) // 8
    found = compare_rankings_at_k(a, b, target, 60, groups=ids, **options)
    values = [explicit_values(x, target, ids, 60, **options) for x in (a, b)]
    assert float(found.standard_error) == pytest.approx(explicit_error(values[0] - values[1]))
    count = min(explicit_count_at_k(x, target, ids, 60) for x in (a, b))
    df, share = count - 1, count / (count + 1)
    shrunken = [share * float(x) for x in (found.value_a, found.value_b)]
    slopes = [share / (x * (1 - x)) for x in shrunken]
    error = explicit_error(slopes[0] * values[0] - slopes[1] * values[1]) / math.sqrt(share)
    gap = special.logit(shrunken[0]) - special.logit(shrunken[1])
    assert float(found.p_value) == pytest.approx(2 * stats.t.sf(abs(gap) / error, df))
    assert found.low < found.difference < found.high
    assert (found.low > 0 or found.high < 0) == (found.p_value < 0.05)
    back = compare_rankings_at_k(b, a, target, 60, groups=ids, method="jackknife", **options)
    assert float(back.p_value) == pytest.approx(float(found.p_value))


def chance_at_share(n, m, share, denominator):
    """Return the mean of AP at a share of the items, with the sum of precisions on a line between two ranks."""
    sums = [0.0, *(float(random_average_precision(n, m, k, denominator="relevant").mean) * m for k in range(1, n + 1))]
    return float(np.interp(share * n, range(n + 1), sums)) / (min(m, share * n) if denominator == "min" else m)


@each("denominator", ("min", "relevant"))
def test_chance_test_follows_from_explicit_deletion(denominator):
    scores, target = ranked(90, 0.3, 0.4)
    ids = torch.arange(90) // 6
    options = {"top_k": 31, "denominator": denominator}
    found = chance_test_of_queries(scores, target, **options, ties="grouped", groups=ids)
    plain = chance_test_of_queries(scores, target, **options, ties="grouped")
    for name in ("estimate", "chance_level", "standard_deviation", "z", "lift", "corrected"):
        assert getattr(found, name) == getattr(plain, name)
    values = explicit_values(scores, target, ids, 31, denominator=denominator)
    rows = [target[ids != group] for group in torch.unique(ids)]
    chances = [chance_at_share(len(x), int(x.sum()), 31 / 90, denominator) for x in rows]
    df = explicit_count_at_k(scores, target, ids, 31) - 1
    share = (df + 1) / (df + 2)
    ap, expected = (share * float(x) for x in (found.estimate, found.chance_level))
    slopes = [share / (x * (1 - x)) for x in (ap, expected)]
    error = explicit_error(slopes[0] * values - slopes[1] * torch.tensor(chances)) / math.sqrt(share)
    t = (special.logit(ap) - special.logit(expected)) / error
    assert float(found.p_value) == pytest.approx(stats.t.sf(t, df))
    assert (found.method, found.reason) == ("jackknife", "")
    below = chance_test_of_queries(-scores, target, **options, groups=ids)
    assert float(below.p_value) > 0.5
    whole = chance_test_of_queries(scores, target, top_k=500, groups=ids)
    assert whole.p_value == chance_test_of_queries(scores, target, top_k=90, groups=ids).p_value


def expected_at_share(scores, target, share, denominator):
    """Return the mean AP over orders of tied items at a share of the items, on a line between two ranks."""
    curve, n, m = from_scores(scores, target == 1), len(scores), int(target.sum())
    measures = (Convention(k, "relevant", ties="expected") for k in range(1, n + 1))
    sums = [0.0, *(m * float(measure(curve)) for measure in measures)]
    return float(np.interp(share * n, range(n + 1), sums)) / (min(m, share * n) if denominator == "min" else m)


@each("denominator", ("min", "relevant"))
def test_chance_test_with_expected_ties_follows_from_explicit_deletion(denominator):
    scores, target = ranked(90, 0.3, 0.4)
    scores, ids = (2 * scores).round(), torch.arange(90) // 6
    options = {"top_k": 31, "denominator": denominator}
    found = chance_test_of_queries(scores, target, **options, groups=ids)
    assert found.estimate == chance_test_of_queries(scores, target, **options, n_resamples=2).estimate
    rows = [ids != group for group in torch.unique(ids)]
    values = [expected_at_share(scores[x], target[x], 31 / 90, denominator) for x in rows]
    chances = [chance_at_share(int(x.sum()), int(target[x].sum()), 31 / 90, denominator) for x in rows]
    top = scores >= scores.topk(31).values[-1]
    counts = torch.bincount(ids[top], minlength=15).double()
    df = min(explicit_count(target, ids), float(counts.sum() ** 2 / counts.square().sum())) - 1
    share = (df + 1) / (df + 2)
    ap, expected = (share * float(x) for x in (found.estimate, found.chance_level))
    slopes = [share / (x * (1 - x)) for x in (ap, expected)]
    error = explicit_error(slopes[0] * torch.tensor(values) - slopes[1] * torch.tensor(chances)) / math.sqrt(share)
    t = (special.logit(ap) - special.logit(expected)) / error
    assert float(found.p_value) == pytest.approx(stats.t.sf(t, df))


def test_chance_test_edge_cases():
    scores, target, ids = torch.arange(60.0, 0, -1), torch.tensor([1] * 20 + [0] * 40), torch.arange(60) % 15
    assert chance_test_of_queries(scores, target, top_k=10, groups=ids).p_value < 1e-6
    zero = chance_test_of_queries(-scores, target, top_k=10, groups=ids)
    assert (float(zero.estimate), float(zero.p_value)) == (0, 1)
    for labels in (target * 0, target * 0 + 1):
        alike = chance_test_of_queries(scores, labels, top_k=10, groups=ids)
        assert alike == chance_test_of_queries(scores, labels, top_k=10)
    single = chance_test_of_queries(scores, target, top_k=10, groups=[1] * 60)
    assert (single.p_value.isnan(), "fewer than two groups" in single.reason) == (True, True)
    same = torch.arange(4).repeat(15)  # all groups are alike
    equal = chance_test_of_queries(same, same > 2, top_k=20, ties="grouped", groups=torch.arange(60) // 4)
    assert (equal.p_value.isnan(), equal.reason) == (True, "equal values without each group: no p by t")
    with pytest.warns(UserWarning, match="6 groups with hits"):
        chance_test_of_queries(scores, target, top_k=10, groups=torch.arange(60) % 6)
    for options, message in (
        ({"indexes": ids // 2, "top_k": 3}, "`groups` must be equal for all documents of a query, got two"),
        ({}, "`top_k` must be a rank with `groups`"),
        ({"top_k": 3, "method": "gamma"}, "`method` must be 'auto' with `groups`"),
        ({"top_k": 3, "groups": [1, 2]}, "`groups`"),
    ):
        with pytest.raises(ValueError, match=message):
            chance_test_of_queries(scores, target, **{"groups": ids, **options})


def test_comparison_edge_cases():
    a, b, target = pair(240, 0.3)
    ids = torch.arange(240) // 8
    same = compare_rankings_at_k(a, 2 * a, target, 60, groups=ids)
    assert (float(same.p_value), float(same.difference)) == (1, 0)
    single = compare_rankings_at_k(a, b, target, 60, groups=[0] * 240)
    assert single.p_value.isnan()
    assert "fewer than two groups" in single.reason
    worst = torch.where(target == 1, -100.0, b)
    zero = compare_rankings_at_k(a, worst, target, 60, groups=ids, measure="precision")
    assert (float(zero.value_b), zero.p_value < 1e-9) == (0, True)
    none = compare_rankings_at_k(a, b, target * 0, 60, groups=ids)
    assert none.reason == "no hits: everything is NaN"
    with pytest.warns(UserWarning, match="5 groups with hits"):
        few = compare_rankings_at_k(a, b, target, 60, groups=torch.arange(240) % 5)
    assert "5 groups with hits" in few.reason


@each(
    "case",
    (
        ({"groups": torch.arange(9)}, "`groups`"),
        ({"groups": torch.arange(240), "method": "dirichlet"}, "`method` must be 'jackknife'"),
        ({"method": "jackknife"}, "`method` must be 'dirichlet'"),
        ({"method": "logit"}, "`method`"),
    ),
)
def test_invalid_arguments(case):
    options, message = case
    with pytest.raises(ValueError, match=message):
        compare_rankings_at_k(*pair(240), 60, **options)


def test_metrics_with_groups_equal_the_functions():
    a, b, target = pair(240, 0.3)
    ids = torch.arange(240) // 8
    ignored = torch.where(torch.arange(240) % 7 == 0, -1, target)
    kept = ignored >= 0
    make = partial(BinaryAveragePrecision, top_k=50, ignore_index=-1)
    metrics = [make().set_dtype(torch.float64) for _ in range(2)]
    for metric, scores in zip(metrics, (a, b), strict=True):
        for some in torch.arange(240).split(100):
            metric.update(scores[some], ignored[some], groups=ids[some])
    found = metrics[0].confidence_interval()
    assert found == average_precision_at_k_interval(a[kept], target[kept], 50, groups=ids[kept])
    compared = metrics[0].compare(metrics[1])
    assert compared == compare_rankings_at_k(a[kept], b[kept], target[kept], 50, groups=ids[kept])
    assert float(metrics[0].summary()["ap_low"]) == pytest.approx(float(found.low), rel=REORDERED)
    for compute in (
        lambda: metrics[0].confidence_interval(method="dirichlet"),
        lambda: metrics[0].compare(metrics[1], method="permutation"),
    ):
        with pytest.raises(ValueError, match="`method`"):
            compute()
