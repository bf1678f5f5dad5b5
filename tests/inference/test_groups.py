"""Intervals and comparisons of items in groups, against explicit deletion of each group."""

import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import special, stats

from tests.support import emulated
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap import BinaryAveragePrecision, MulticlassAveragePrecision, MultilabelAveragePrecision, RetrievalMAP, merge
from torch_ap.core.ranking.builders import from_scores
from torch_ap.functional import (
    binary_average_precision,
    multiclass_average_precision,
    multilabel_average_precision,
)
from torch_ap.inference import (
    average_precision_interval,
    chance_test,
    compare_per_query,
    compare_rankings,
    compare_systems,
    groups,
    mean_interval,
)
from torch_ap.inference.groups import Groups, degrees_of_freedom, quantile, standard_error, without_each_group
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.inference.record import logit

ROUNDING = {"rtol": REORDERED, "atol": REORDERED}
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8)


def draw(seed, n=None, grouping=6, dtype=torch.float32, distinct=8):
    """Return scores with many ties, targets and groups with ids of any size."""
    generator = torch.Generator().manual_seed(seed)
    n = n or int(torch.randint(4, 40, (), generator=generator))
    scores = torch.randint(0, distinct, (n,), generator=generator).to(dtype)
    target = (torch.rand(n, generator=generator) < 0.4).long()
    ids = torch.randint(-3, grouping, (n,), generator=generator) * (10**12 if seed % 2 else 1)
    return scores, target, ids


def explicit_values(scores, target, ids, value):
    """Return the value of the items outside of each group."""
    return torch.stack([value(scores[ids != group], target[ids != group]) for group in torch.unique(ids)])


def explicit_error(values):
    count = len(values)
    return math.sqrt((count - 1) / count * sum((float(x) - float(values.mean())) ** 2 for x in values))


def explicit_count(target, ids):
    """Return K = min(G, G of hits, G of misses) by counting."""
    counts = [len(set(ids.tolist()))]
    for kind in (0, 1):
        sizes = [int(((ids == group) & (target == kind)).sum()) for group in torch.unique(ids)]
        counts.append(sum(sizes) ** 2 / sum(size**2 for size in sizes))
    return min(counts)


def explicit_df(count, groups):
    """Return the degrees of freedom of K of G groups."""
    return min(groups - 1, count * (count - 1) / 2)


def ap(scores, target):
    if not len(scores):
        return torch.tensor(math.nan, dtype=torch.float64)
    return binary_average_precision(scores.double(), target, empty_target_action="nan")


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_without_each_group_equal_explicit_deletion(dtype):
    for seed in range(12):
        scores, target, ids = draw(seed, dtype=dtype, distinct=5 if seed % 3 else 200)
        found = without_each_group(from_scores(scores, target), scores, target == 1, Groups.from_ids(ids), "jackknife")
        torch.testing.assert_close(found, explicit_values(scores, target, ids, ap), equal_nan=True, **ROUNDING)


def test_long_rankings_are_sampled_below_the_first_hits(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(20_000, generator=generator) < 0.5
    ids = torch.randint(0, 40, (20_000,), generator=generator)
    scores = torch.randn(20_000, generator=generator) + target + torch.randn(40, generator=generator)[ids]
    curve, own = from_scores(scores, target), Groups.from_ids(ids)
    sampled = without_each_group(curve, scores, target, own)
    monkeypatch.setattr(groups, "_FEWEST_EXACT", 1 << 20)
    monkeypatch.setattr(groups, "_MOST_EXACT", 1 << 20)
    exact = without_each_group(curve, scores, target, own)
    assert not torch.equal(sampled, exact)
    # the ratio of the standard errors, as documented
    assert abs(float(standard_error(sampled) / standard_error(exact)) - 1) < 1e-3


def test_blocks_of_entries_do_not_change_the_values(monkeypatch):
    scores, target, ids = draw(1, n=300, distinct=100)
    arguments = from_scores(scores, target), scores, target == 1, Groups.from_ids(ids)
    whole = without_each_group(*arguments)
    monkeypatch.setattr(groups, "_CELLS_A_BLOCK", 1)
    monkeypatch.setattr(groups, "_MOST_CELLS", 1)
    torch.testing.assert_close(without_each_group(*arguments), whole, **ROUNDING)


def test_interval_follows_from_explicit_deletion():
    scores, target, ids = draw(2, n=200, grouping=20)
    found = average_precision_interval(scores, target, groups=ids)
    error = explicit_error(explicit_values(scores, target, ids, ap))
    count = explicit_count(target, ids)
    factor = stats.t.ppf(0.975, explicit_df(count, len(set(ids.tolist())))) * math.sqrt(1 + 2 / count)
    low, high = logit(ap(scores, target), torch.tensor(error, dtype=torch.float64), factor)
    expected = torch.stack([low.new_tensor(error), low, high])
    torch.testing.assert_close(torch.stack([found.standard_error, found.low, found.high]), expected, **ROUNDING)
    assert found.method == "jackknife"
    assert average_precision_interval(scores, target, groups=ids.tolist()) == found


def test_groups_of_one_item_have_the_error_of_the_jackknife_of_items():
    scores, target, _ = draw(3, n=80, distinct=30)
    found = average_precision_interval(scores, target, groups=torch.arange(80))
    expected = average_precision_interval(scores, target, method="jackknife")
    torch.testing.assert_close(found.standard_error, expected.standard_error, **ROUNDING)


def test_names_and_order_of_groups_do_not_matter():
    scores, target, ids = draw(4, n=120, grouping=15)
    places = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    found = average_precision_interval(scores, target, groups=ids)
    for other in (-ids, ids * 7 + 3):
        renamed = average_precision_interval(scores, target, groups=other)
        torch.testing.assert_close(renamed.standard_error, found.standard_error, **ROUNDING)
    moved = average_precision_interval(scores[places], target[places], groups=ids[places])
    torch.testing.assert_close(moved.standard_error, found.standard_error, **ROUNDING)


def test_linearized_error_is_the_sum_of_contributions():
    """With groups of one item it is the standard error of the influence functions, up to n / (n - 1)."""
    scores, target, ids = draw(5, n=300, grouping=30, distinct=50)
    items = average_precision_interval(scores, target)
    found = average_precision_interval(scores, target, groups=torch.arange(300), method="influence")
    # the contributions of hits and misses are centered with m - 1 and q - 1, and not with n - 1
    assert float(found.standard_error / items.standard_error) == pytest.approx(1, abs=0.005)
    exact = average_precision_interval(scores, target, groups=ids)
    linearized = average_precision_interval(scores, target, groups=ids, method="influence")
    # two estimators of one error
    assert float(linearized.standard_error / exact.standard_error) == pytest.approx(1, abs=0.1)


def test_clustered_errors_of_statsmodels():
    """The errors of ``statsmodels`` 0.15.0: least squares on a constant with ``cov_type="cluster"``."""
    i = torch.arange(40)
    values, others, ids = i * 37 % 41 / 41, i * 23 % 43 / 43, i * i % 11
    with pytest.warns(UserWarning, match="6 groups with queries"):
        mean, paired = mean_interval(values.double(), groups=ids), compare_per_query(values, others, groups=ids)
    # quotients in float32
    assert float(mean.standard_error) == pytest.approx(0.06254478466852853, rel=1e-6)
    assert float(paired.standard_error) == pytest.approx(0.0951110145668564, rel=1e-6)

    # 2,000 items: n times the derivatives of AP by the weights of the items, as central differences
    i = torch.arange(2000)
    ids, place = i * i % 101, i * 37 % 1999
    scores = (place + 5 * (ids * 7 % 101)).double()
    target = (i * (i + 3) % 13 + place / 250 + ids / 20 > 14).long()
    found = average_precision_interval(scores, target, groups=ids, method="influence")
    # the influence functions are centered with m - 1 and q - 1
    assert float(found.standard_error) == pytest.approx(0.020960812123410104, rel=1e-3)


def test_many_groups_are_linearized():
    scores, target, ids = draw(6, n=2000, grouping=700)
    assert average_precision_interval(scores, target, groups=ids).method == "influence"
    assert average_precision_interval(scores, target, groups=ids // 2).method == "jackknife"


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_many_groups_of_an_average_are_pooled_at_random(average, monkeypatch):
    monkeypatch.setattr(groups, "MAX_JACKKNIFE", 12)
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 40, (400,), generator=generator) * 7 - 100
    preds = torch.randint(0, 30, (400, 3), generator=generator).double()
    target = (torch.rand(400, 3, generator=generator) < 0.3).long()
    pools = Groups.from_ids(ids).pooled()
    pool_of = dict(zip(ids.tolist(), pools.ids.tolist(), strict=True))
    assert [pool_of[x] for x in ids.tolist()] == pools.ids.tolist()  # groups are not divided
    assert sorted({list(pool_of.values()).count(x) for x in range(12)}) == [3, 4]
    assert pools.ids.tolist() != (torch.unique(ids, return_inverse=True)[1] % 12).tolist()
    found = average_precision_interval(preds, target, average=average, groups=ids)
    assert found == average_precision_interval(preds, target, average=average, groups=pools.ids)
    assert (found.method, found.bias is None) == ("jackknife", False)
    order = torch.randperm(400, generator=generator)
    shuffled = average_precision_interval(preds[order], target[order], average=average, groups=ids[order])
    assert shuffled.low == pytest.approx(float(found.low), abs=1e-12)  # sums in another order
    assert average_precision_interval(preds[:, 0], target[:, 0], groups=ids).method == "influence"
    metrics = [MultilabelAveragePrecision(3, average=average) for _ in range(2)]
    metrics[0].update(preds, target, groups=ids)
    for rows in order.split(70):
        metrics[1].update(preds[rows], target[rows], groups=ids[rows])
    for metric in metrics:
        assert metric.confidence_interval().low == pytest.approx(float(found.low), abs=1e-12)  # as above


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_average_of_classes_and_labels(average):
    generator = torch.Generator().manual_seed(7)
    classes, ids = torch.randint(0, 3, (90,), generator=generator), torch.randint(0, 15, (90,), generator=generator)
    preds = torch.randint(0, 9, (90, 3), generator=generator).double()
    labels = (torch.rand(90, 3, generator=generator) < 0.4).long()
    tasks = [
        (classes, lambda s, t: multiclass_average_precision(s, t, 3, average, normalization="none")),
        (labels, lambda s, t: multilabel_average_precision(s, t, 3, average)),
    ]
    for target, value in tasks:
        found = average_precision_interval(preds, target, average=average, groups=ids)
        values = explicit_values(preds, target, ids, value)
        bias = 14 * float(values.mean() - value(preds, target))
        assert float(found.bias) == pytest.approx(bias, abs=1e-10)  # finite differences or roots
        error = math.hypot(explicit_error(values), bias / 2)
        assert float(found.standard_error) == pytest.approx(error, rel=1e-9)  # finite differences or roots
        linearized = average_precision_interval(preds, target, average=average, groups=ids, method="influence")
        # two estimators of one error
        assert float(linearized.standard_error) == pytest.approx(explicit_error(values), rel=0.2)
        assert linearized.bias is None


@pytest.mark.parametrize("average", ["macro", "weighted"])
@pytest.mark.parametrize("method", ["jackknife", "influence"])
def test_a_label_in_one_group_has_no_interval_of_the_average(average, method):
    generator = torch.Generator().manual_seed(4)
    preds, ids = torch.randn(120, 3, generator=generator), torch.arange(120) // 6
    for kind, rows in ((1, [17]), (1, [18, 19, 20]), (0, [30]), (0, [36, 40])):
        target = (torch.rand(120, 3, generator=generator) < 0.4).long()
        target[:, 2] = 1 - kind
        target[rows, 2] = kind
        found = average_precision_interval(preds, target, average=average, groups=ids, method=method)
        assert found.low.isnan()
        assert found.high.isnan()
        assert found.reason.startswith("1 of 3 labels: all hits, or all misses, are in one group")
        assert average_precision_interval(preds, target, groups=ids, method=method).low.isnan().tolist() == [0, 0, 1]
        items = average_precision_interval(preds, target, average=average, method=method)
        assert items.low.isnan() == (len(rows) == 1)
        assert ("1 of 3 labels: one hit, or one miss" in items.reason) == (len(rows) == 1)
        a, b = (MultilabelAveragePrecision(3, average=average) for _ in range(2))
        a.update(preds, target, groups=ids)
        b.update(preds.flip(0), target, groups=ids)
        comparison = a.compare(b, method=method)
        assert comparison.p_value.isnan()
        assert comparison.reason.startswith("1 of 3 labels: all hits, or all misses, are in one group")
    target[:, 2] = 0  # a constant of the average
    with pytest.warns(UserWarning, match="No positive target counts in label 2"):
        assert not average_precision_interval(preds, target, average=average, groups=ids, method=method).low.isnan()


def test_each_class_and_the_micro_average():
    generator = torch.Generator().manual_seed(8)
    ids = torch.arange(120) // 6
    preds = torch.randn(120, 2, generator=generator)
    labels = (torch.rand(120, 2, generator=generator) < 0.4).long()
    found = average_precision_interval(preds, labels, groups=ids)
    for column in range(2):
        single = average_precision_interval(preds[:, column], labels[:, column], groups=ids)
        torch.testing.assert_close(found.low[column], single.low, **ROUNDING)
    micro = average_precision_interval(preds, labels, average="micro", groups=ids)
    flat = average_precision_interval(preds.flatten(), labels.flatten(), groups=ids.repeat_interleave(2))
    assert micro == flat


def test_few_groups_warn_and_too_few_have_no_interval():
    scores, target, _ = draw(9, n=60, distinct=40)
    with pytest.warns(UserWarning, match="groups"):
        found = average_precision_interval(scores, target, groups=torch.arange(60) // 10)
    assert "6 groups with hits" in found.reason
    assert not found.low.isnan()
    single = average_precision_interval(scores, target, groups=torch.zeros(60, dtype=torch.long))
    assert single.low.isnan()
    assert single.high.isnan()
    assert "fewer than two groups" in single.reason
    mostly_one = average_precision_interval(
        torch.cat([scores, scores[:9]]), torch.cat([target, target[:9]]), groups=[0] * 60 + list(range(1, 10))
    )
    assert mostly_one.low.isnan()
    assert "fewer than two groups" in mostly_one.reason


def test_few_groups_warn_by_class_or_label():
    generator = torch.Generator().manual_seed(0)
    scores, classes = torch.rand(60, 3, generator=generator), torch.arange(60) % 3
    for target, noun in ((classes, "classes"), (torch.eye(3, dtype=torch.long)[classes], "labels")):
        with pytest.warns(UserWarning, match=f"^`groups`: 3 of 3 {noun}: 5 groups with hits"):
            average_precision_interval(scores, target, average="none", groups=torch.arange(60) // 12)


def test_summary_does_not_warn_of_few_groups():
    """A logger calls it in every epoch; the record has the reason."""
    scores, target, _ = draw(9, n=60, distinct=40)
    metric = BinaryAveragePrecision()
    metric.update(scores, target, groups=torch.arange(60) // 10)
    found = metric.summary()
    with pytest.warns(UserWarning, match="6 groups with hits"):
        assert found["ap_low"] == metric.confidence_interval().low.float()
    queries = RetrievalMAP()
    queries.update(scores.reshape(20, 3), target.reshape(20, 3), groups=torch.arange(20) // 4)
    low = queries.summary()["map_low"]
    with pytest.warns(UserWarning, match="5 groups with queries"):
        assert low == queries.confidence_interval().low.float()


def test_perfect_ranking_counts_groups():
    with pytest.warns(UserWarning, match="groups"):
        found = average_precision_interval(
            torch.arange(12.0, 0, -1), torch.tensor([1] * 4 + [0] * 8), groups=torch.arange(12) // 2
        )
    assert float(found.low) == pytest.approx(0.05**0.5)
    assert float(found.high) == 1


def test_no_hits_and_no_items():
    found = average_precision_interval(torch.rand(20), torch.zeros(20, dtype=torch.long), groups=torch.arange(20))
    assert found.low.isnan()
    assert "no hits" in found.reason
    found = average_precision_interval(torch.empty(0), torch.empty(0).long(), groups=torch.empty(0).long())
    assert found.low.isnan()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"groups": torch.arange(5)}, ("groups", "(20,)", "(5,)")),
        ({"groups": torch.arange(20.0)}, ("groups", "integer", "float32")),
        ({"groups": ["a"] * 20}, ("groups[0]", "IndexEncoder", "'a'")),
        ({"groups": torch.arange(20), "method": "wald"}, ("method", "'jackknife'", "'wald'")),
        ({"groups": torch.arange(20), "design": "stratified"}, ("design", "'iid'", "'stratified'")),
        ({"groups": torch.arange(20), "interpolation": "11-point"}, ("interpolation", "None", "'11-point'")),
    ],
)
def test_invalid_arguments(arguments, parts):
    with pytest.raises((ValueError, TypeError)) as caught:
        average_precision_interval(torch.arange(20.0), torch.arange(20) % 2, **arguments)
    assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize("method", ["logit", "jackknife", "influence"])
def test_comparison_follows_from_the_values_without_each_group(method):
    scores, target, ids = draw(10, n=150, grouping=20, distinct=60)
    other = scores + 20 * torch.rand(150, generator=torch.Generator().manual_seed(0))
    found = compare_rankings(scores, other, target, groups=ids, method=method)
    values = [explicit_values(x, target, ids, ap) for x in (scores, other)]
    error, count = explicit_error(values[0] - values[1]), explicit_count(target, ids)
    df = explicit_df(count, len(values[0])) if method != "influence" else count - 1
    tolerance = {"rel": 1e-9} if method != "influence" else {"rel": 0.1}
    assert float(found.standard_error) == pytest.approx(error, **tolerance)
    a, b = float(ap(scores, target)), float(ap(other, target))
    share, slopes = (df + 1) / (df + 2), []
    if method == "logit":
        a, b = share * a, share * b
        slopes = [share / (x * (1 - x)) for x in (a, b)]
        error = explicit_error(slopes[0] * values[0] - slopes[1] * values[1])
        a, b = (math.log(x / (1 - x)) for x in (a, b))
    p = 2 * stats.t.sf(abs(a - b) / error, df)
    # solved, or two estimators of one error
    assert float(found.p_value) == pytest.approx(p, rel=1e-9 if method != "influence" else 0.3)


@pytest.mark.parametrize("seed", range(6))
def test_interval_of_the_logits_follows_from_explicit_deletion(seed):
    """Method of variance estimates recovery; the interval contains 0 if the test does not reject."""
    ids = torch.arange(60) // 10
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(60, generator=generator) < 0.4).long()
    scores = [torch.randn(60, generator=generator) + shift * target for shift in (1.2, 0.6)]
    with pytest.warns(UserWarning, match="6 groups"):
        found = compare_rankings(*scores, target, groups=ids, confidence_level=0.7)
    df = explicit_df(explicit_count(target, ids), 6)
    share, quantile = (df + 1) / (df + 2), stats.t.ppf(0.85, df)
    aps = [share * float(ap(x, target)) for x in scores]
    logits = [
        share * explicit_values(x, target, ids, ap) / (value * (1 - value))
        for x, value in zip(scores, aps, strict=True)
    ]
    own, both = [explicit_error(x) for x in logits], explicit_error(logits[0] - logits[1])
    correlation = (own[0] ** 2 + own[1] ** 2 - both**2) / (2 * own[0] * own[1])
    below, above = (
        [abs(float(special.expit(special.logit(x) + sign * quantile * e)) - x) for x, e in zip(aps, own, strict=True)]
        for sign in (-1, 1)
    )
    low, high = (
        aps[0] - aps[1] + sign * math.sqrt(x**2 + y**2 - 2 * correlation * x * y)
        for sign, x, y in ((-1, below[0], above[1]), (1, above[0], below[1]))
    )
    low, high = min(low, float(found.difference)), max(high, float(found.difference))
    if found.p_value > 0.3:
        low, high = min(low, 0), max(high, 0)
    assert [float(found.low), float(found.high)] == pytest.approx([low, high])


def test_comparison_of_equal_systems_and_of_few_groups():
    scores, target, ids = draw(11, n=80, grouping=20)
    assert float(compare_rankings(scores, scores, target, groups=ids).p_value) == 1
    other = torch.rand(80, generator=torch.Generator().manual_seed(0))
    single = compare_rankings(scores, other, target, groups=[3] * 80)
    assert single.p_value.isnan()
    assert "fewer than two groups" in single.reason
    with pytest.warns(UserWarning, match="5 groups with hits"):
        few = compare_rankings(scores, other, target, groups=torch.arange(80) // 16)
    assert "5 groups with hits" in few.reason
    for wrong in ({"method": "bootstrap"}, {"method": "permutation"}, {"design": "stratified"}):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` .*`groups`"):
            compare_rankings(scores, other, target, groups=ids, **wrong)


def test_several_systems():
    scores, target, ids = draw(12, n=120, grouping=20)
    preds = torch.stack([scores, scores + torch.rand(120), torch.rand(120)])
    found = compare_systems(preds, target, groups=ids)
    pair = compare_rankings(preds[0], preds[2], target, groups=ids)
    assert float(found.p_value[0, 2]) == float(pair.p_value)
    with pytest.raises(ValueError, match=r"`method` .*'holm' with `groups`"):
        compare_systems(preds, target, groups=ids, method="tukey")


TASKS = {
    "binary": (BinaryAveragePrecision, {}),
    "multiclass": (MulticlassAveragePrecision, {"num_classes": 3, "normalization": "none"}),
    "multilabel": (MultilabelAveragePrecision, {"num_labels": 3}),
    "ignored": (BinaryAveragePrecision, {"ignore_index": -1}),
    "classes": (MulticlassAveragePrecision, {"num_classes": 3, "normalization": "none", "average": None}),
    "ignored labels": (MultilabelAveragePrecision, {"num_labels": 3, "ignore_index": -1, "average": "micro"}),
}


def draw_task(task, seed=0):
    """Return scores, targets and groups for a metric."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 15, (90,), generator=generator)
    preds = torch.rand(90, 3, generator=generator)
    target = torch.randint(0, 3, (90,), generator=generator)
    if "label" in task:
        target = (torch.rand(90, 3, generator=generator) < 0.4).long()
        target[::7, 1] = -1 if "ignored" in task else 1
    elif task in ("binary", "ignored"):
        preds, target = preds[:, 0], (target == 0).long()
        target[::7] = -1 if task == "ignored" else 1
    return preds, target, ids


@pytest.mark.parametrize("task", TASKS)
def test_metrics_store_groups(task):
    kind, arguments = TASKS[task]
    preds, target, ids = draw_task(task)
    whole, first, second = (kind(**arguments) for _ in range(3))
    whole.update(preds, target, groups=ids)
    first.update(preds[:40], target[:40], groups=ids[:40])
    second.update(preds[40:], target[40:], groups=ids[40:].tolist())
    expected = whole.confidence_interval()
    plain = kind(**arguments)
    plain.update(preds, target)
    assert torch.equal(whole.compute(), plain.compute())
    assert not torch.equal(expected.low, plain.confidence_interval().low)
    loaded = kind(**arguments).from_bytes(first.to_bytes())
    assert merge([loaded, second]).confidence_interval() == expected
    assert pickle.loads(pickle.dumps(whole)).confidence_interval() == expected
    if arguments.get("ignore_index") is None and task != "classes":
        average = "none" if task == "binary" else "macro"
        assert average_precision_interval(preds, target, average=average, groups=ids) == expected
        summary = whole.summary()
        assert float(summary["ap_low"]) == pytest.approx(float(expected.low), rel=SINGLE)
    if task == "ignored":
        kept = target >= 0
        assert average_precision_interval(preds[kept], target[kept], groups=ids[kept]) == expected
    if task != "classes":
        other = kind(**arguments)
        other.update(preds.flip(0).sqrt(), target, groups=ids)
        assert not whole.compare(other).p_value.isnan()
        with pytest.raises(ValueError, match=r"`other` .*`groups`"):
            whole.compare(plain)


def test_groups_of_pixels_and_repeated_samples():
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.rand(12, 2, 3, generator=generator), torch.rand(12, 2, 3, generator=generator) < 0.4
    metric = BinaryAveragePrecision()
    metric.update(preds, target, groups=torch.arange(12))
    expected = average_precision_interval(
        preds.flatten(), target.flatten().long(), groups=torch.arange(12).repeat_interleave(6)
    )
    assert metric.confidence_interval() == expected
    repeated = BinaryAveragePrecision()
    places = torch.tensor([*range(70), 3, 5])
    preds, target, ids = draw_task("binary")
    repeated.update(preds[places], target[places], sample_ids=places, groups=ids[places])
    expected = average_precision_interval(preds[:70], target[:70], groups=ids[:70])
    assert repeated.confidence_interval() == expected


def test_metrics_reject_invalid_groups():
    metric = BinaryAveragePrecision()
    preds, target, ids = draw_task("binary")
    for wrong, text in ((ids[:5], r"`groups` must be one per item, \(90,\)"), (ids + 0.5, "`groups` .*integer")):
        with pytest.raises(ValueError, match=text):
            metric.update(preds, target, groups=wrong)
    metric.update(preds, target, groups=ids)
    with pytest.raises(ValueError, match="`groups` must be given in every update or in none"):
        metric.update(preds, target)
    for more in ({"bins": 10}, {"thresholds": 10}):
        with pytest.raises(ValueError, match="`groups` cannot be combined with `thresholds` or `bins`"):
            BinaryAveragePrecision(**more).update(preds, target, groups=ids)
    older = metric.state_dict() | {}
    assert not older
    metric.persistent(True)
    saved = metric.state_dict()
    del saved["groups"]
    plain = BinaryAveragePrecision()
    plain.load_state_dict(saved, strict=False)
    assert plain.confidence_interval() == average_precision_interval(preds, target)


def check_two_processes(rank):
    preds, target, ids = draw_task("binary")
    for sync in ("gather", "exchange"):
        metric = BinaryAveragePrecision(sync=sync)
        part = slice(0, 60) if rank == 0 else slice(60, 90)
        metric.update(preds[part], target[part], groups=ids[part])
        expected = average_precision_interval(preds, target, groups=ids)
        assert metric.confidence_interval() == expected, sync
        assert math.isclose(float(metric.compute()), float(expected.estimate), rel_tol=1e-6), sync


def test_two_processes(ranks):
    ranks(check_two_processes)


def test_accelerator():
    preds, target, ids = draw_task("multilabel")
    with emulated.device():
        metric = MultilabelAveragePrecision(num_labels=3).to("cuda")
        metric.update(preds.to("cuda"), target.to("cuda"), groups=ids.to("cuda"))
        found = metric.confidence_interval().to("cpu")
        with pytest.raises(ValueError, match="`groups` must be on the device of the batch"):
            metric.update(preds.to("cuda"), target.to("cuda"), groups=ids)
    expected = average_precision_interval(preds, target, average="macro", groups=ids)
    torch.testing.assert_close(found.low, expected.low, **ROUNDING)
    torch.testing.assert_close(found.high, expected.high, **ROUNDING)


def draw_queries(seed, n=60):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=generator).double(), torch.randint(0, 14, (n,), generator=generator)


def test_mean_of_queries_in_groups():
    values, ids = draw_queries(0)
    found = mean_interval(values, groups=ids)
    mean, parts = float(values.mean()), [values[ids == group] for group in torch.unique(ids)]
    square = len(parts) / (len(parts) - 1) * sum(float((x - mean).sum()) ** 2 for x in parts) / 60**2
    df = 60**2 / sum(len(x) ** 2 for x in parts) - 1
    half = stats.t.isf(0.025, df) * math.sqrt(square) / (mean * (1 - mean))
    center = math.log(mean / (1 - mean))
    assert float(found.standard_error) == pytest.approx(math.sqrt(square))
    assert float(found.low) == pytest.approx(1 / (1 + math.exp(half - center)))
    outside = mean_interval(values * 3, groups=ids)
    assert float(outside.high) == pytest.approx(3 * mean + 3 * stats.t.isf(0.025, df) * math.sqrt(square))
    single = mean_interval(values, groups=torch.arange(60))
    assert float(single.standard_error) == pytest.approx(float(mean_interval(values, method="t").standard_error))


def test_paired_queries_in_groups():
    values, ids = draw_queries(1)
    others = draw_queries(2)[0]
    found = compare_per_query(values, others, groups=ids)
    gap = values - others
    interval = mean_interval(gap, method="t", groups=ids)
    assert float(found.standard_error) == pytest.approx(float(interval.standard_error))
    df = 60**2 / sum(int((ids == group).sum()) ** 2 for group in torch.unique(ids)) - 1
    assert float(found.p_value) == pytest.approx(2 * stats.t.sf(abs(float(gap.mean() / found.standard_error)), df))
    items = compare_per_query(values, others, groups=torch.arange(60))
    assert float(items.p_value) == pytest.approx(float(compare_per_query(values, others).p_value))
    assert float(compare_per_query(values, values, groups=ids).p_value) == 1
    assert compare_per_query(values, others, groups=[0] * 60).p_value.isnan()
    with pytest.raises(ValueError, match="`method`"):
        compare_per_query(values, others, groups=ids, method="randomization")
    with pytest.raises(ValueError, match="`method`"):
        mean_interval(values, groups=ids, method="dirichlet")
    with pytest.raises(ValueError, match="`groups` must be one per query"):
        mean_interval(values, groups=ids[:3])
    with pytest.warns(UserWarning, match="4 groups with queries"):
        mean_interval(values, groups=torch.arange(60) % 4)
    assert mean_interval(values, groups=[0] * 60).low.isnan()
    assert mean_interval(torch.ones(60), groups=ids).low.isnan()


def test_metrics_of_queries_in_groups():
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.rand(2, 40, 5, generator=generator), torch.rand(40, 5, generator=generator) < 0.5
    metric, other = RetrievalMAP(empty_target_action="skip"), RetrievalMAP(empty_target_action="skip")
    metric.update(preds[0], target)
    other.update(preds[1], target)
    topics = {query: f"topic {query % 12}" for query in range(40)}
    queries, values = metric.per_query()
    ids = queries % 12
    found = metric.confidence_interval(groups=topics)
    # results in float32
    torch.testing.assert_close(found.low, mean_interval(values, groups=ids).low, rtol=1e-6, atol=0)
    compared = metric.compare(other, groups=topics)
    expected = compare_per_query(values, other.per_query()[1], groups=ids)
    assert float(compared.p_value) == pytest.approx(float(expected.p_value), rel=1e-5)  # results in float32
    with pytest.raises(ValueError, match="`groups` must contain every query, got none for"):
        metric.confidence_interval(groups={0: 1})
    with pytest.raises(TypeError, match="`groups` must map each query to its group"):
        metric.confidence_interval(groups=[1, 2])


def test_chance_in_the_population_of_groups():
    scores, target, ids = draw(15, n=150, grouping=20, distinct=1000)
    found = chance_test(scores, target, groups=ids)
    lifts = []
    for group in torch.unique(ids):
        kept = ids != group
        value, level = (
            ap(scores[kept], target[kept]),
            random_average_precision(int(kept.sum()), int(target[kept].sum())),
        )
        lifts.append(torch.logit(value) - torch.logit(level.mean))
    t = float(torch.logit(found.estimate) - torch.logit(found.chance_level)) / explicit_error(torch.stack(lifts))
    assert found.method == "jackknife"
    # finite differences or roots
    assert float(found.p_value) == pytest.approx(stats.t.sf(t, explicit_count(target, ids) - 1), rel=1e-9)
    assert chance_test(scores, target, groups=[0] * 150).p_value.isnan()


def test_chance_within_groups():
    """The distribution of permutations within groups, against all of them."""
    scores, target = torch.tensor([6.0, 5, 5, 3, 2, 1]), torch.tensor([1, 0, 1, 0, 1, 0])
    ids = torch.tensor([0, 0, 0, 1, 1, 1])
    reached = [
        float(ap(scores, torch.tensor([*first, *second]))) >= float(ap(scores, target)) - 1e-12
        for first in set(itertools.permutations([1, 0, 1]))
        for second in set(itertools.permutations([0, 1, 0]))
    ]
    found = chance_test(scores, target, groups=ids, method="permutation", n_resamples=4000)
    # four standard errors of a share of 4,000 draws
    assert float(found.p_value) == pytest.approx(sum(reached) / len(reached), abs=0.032)
    constant = chance_test(scores, torch.tensor([1, 1, 1, 0, 0, 0]), groups=ids, method="permutation", n_resamples=10)
    assert float(constant.p_value) == 1
    for wrong in ({"method": "exact", "groups": ids}, {"method": "jackknife"}):
        with pytest.raises(ValueError, match="`method`"):
            chance_test(scores, target, **wrong)


@pytest.mark.parametrize("hits", [[9, 9, 9, 1, 1, 1], [6, 6, 6, 6, 6, 6], [30, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0]])
def test_degrees_of_freedom_are_limited_by_few_large_groups(hits):
    """Between those of K equal groups and of G; below 1 with fewer than two effective groups."""
    ids = torch.arange(6).repeat_interleave(60)
    target = torch.cat([torch.arange(60) < count for count in hits])
    own = Groups.from_ids(ids)
    count = own.effective_count(own.hits(target))
    assert count == pytest.approx(explicit_count(target.long(), ids))
    for method, df in (("jackknife", explicit_df(count, 6)), ("influence", count - 1)):
        assert degrees_of_freedom(count, 6, method) == pytest.approx(df)
        assert (df >= 1) == (count >= 2)
    assert quantile(0.9, torch.tensor([count]), 6, "jackknife").isnan() == (count < 2)


@pytest.mark.parametrize("large", range(2, 12))
def test_few_equal_groups_beside_empty_ones_keep_the_size_of_the_docs(large):
    """The squared error of K equal groups is K / (K - 1) times the variance, with K - 1 degrees of freedom."""
    df = degrees_of_freedom(large, 10**6, "jackknife")
    for level, most in ((0.05, 0.0675), (0.01, 0.0245)):
        assert 2 * stats.t.sf(stats.t.isf(level / 2, df) * math.sqrt(large / (large - 1)), large - 1) < most


def test_tied_scores_are_not_above_chance():
    _, target, ids = draw(3, n=60, grouping=12)
    found = chance_test(torch.zeros(60), target, groups=ids)
    assert (float(found.p_value), found.reason) == (1, "all scores are tied: AP is the same in any order")


@pytest.mark.parametrize("method", [np.array(["jackknife", "influence"]), torch.tensor([]), 3])
def test_methods_that_are_no_text(method):
    scores, target, ids = draw(16, n=60, grouping=20)
    curve = BinaryAveragePrecision()
    curve.update(scores, target, groups=ids)
    for call in (
        lambda: average_precision_interval(scores, target, groups=ids, method=method),
        lambda: average_precision_interval(scores, target, prevalence=0.1, method=method),
        lambda: curve.curve().operating_point(method=method),
    ):
        with pytest.raises((ValueError, TypeError), match="`method` must be"):
            call()


def test_interpolated_ap_has_no_interval_with_groups():
    target = torch.tensor([1, 0] * 20)
    for method in (None, "bootstrap-logit"):
        with pytest.raises(
            ValueError, match="`interpolation` must be None for an interval with `groups`, got '101-point'"
        ):
            average_precision_interval(
                torch.rand(40), target, interpolation="101-point", groups=torch.arange(40) // 2, method=method
            )
