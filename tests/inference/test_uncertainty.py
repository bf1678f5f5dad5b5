import itertools
import math

import pytest
import torch
from torchmetrics import MetricCollection

from tests.support.each import each
from tests.support.tolerances import FEW_TERMS, REORDERED, SINGLE
from torch_ap import (
    BinaryAveragePrecision,
    Convention,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
    functional,
)
from torch_ap.core.items import inputs
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures.chance import chance_of_curve
from torch_ap.core.ranking import builders, tie_groups
from torch_ap.inference import (
    average_precision_interval,
    compare_rankings,
)
from torch_ap.inference.influence import item_shares
from torch_ap.inference.random_ranking import random_average_precision

KEYS = {"ap", "ap_low", "ap_high", "ap_chance"}


def data(n=300, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(classes, (n,), generator=generator)
    preds = torch.randn(n, classes, generator=generator)
    return preds + 1.2 * torch.nn.functional.one_hot(target, classes), target


def fed(metric, preds, target):
    for some, labels in zip(preds.split(70), target.split(70), strict=True):
        metric.update(some, labels)
    return metric


def binary(**settings):
    preds, target = data()
    return fed(BinaryAveragePrecision(**settings), preds[:, 0], (target == 0).long())


def test_binary_equals_the_functions():
    preds, target = data()
    preds, target = preds[:, 0], (target == 0).long()
    metric = binary().set_dtype(torch.float64)
    value = metric.compute()
    for method in ("influence", "jackknife", "wald", "bootstrap-bca"):
        found = metric.confidence_interval(0.9, method)
        wanted = average_precision_interval(preds, target, confidence_level=0.9, method=method)
        assert (found.low, found.high) == (wanted.low, wanted.high)
        assert found.estimate == value
    chance = random_average_precision(len(target), int(target.sum()))
    assert float(metric.chance_level()) == pytest.approx(float(chance.mean), rel=FEW_TERMS)
    summary = metric.summary()
    assert set(summary) == KEYS
    assert summary["ap"] == value
    assert summary["ap_low"] == average_precision_interval(preds, target).low
    assert metric.compute() == value


def test_numbers_are_loggable():
    for metric in (binary(), fed(MulticlassAveragePrecision(4), *data())):
        summary = metric.summary()
        assert all(x.ndim == 0 and x.dtype == torch.float32 for x in summary.values())
        assert summary["ap"] == metric.compute()
        assert summary["ap_low"] < summary["ap"] < summary["ap_high"]
        assert summary["ap_chance"] < summary["ap_low"]


@pytest.mark.parametrize("average", ["macro", "weighted", "none"])
def test_multiclass_equals_the_functions(average):
    preds, target = data()
    metric = fed(MulticlassAveragePrecision(4, average), preds, target).set_dtype(torch.float64)
    found, wanted = metric.confidence_interval(), average_precision_interval(preds, target, average=average)
    assert torch.equal(found.low, wanted.low)
    torch.testing.assert_close(found.estimate, metric.compute())
    each = [float(random_average_precision(300, int((target == c).sum())).mean) for c in range(4)]
    chance = metric.chance_level()
    if average == "none":
        assert chance.tolist() == pytest.approx(each)
    elif average == "macro":
        assert float(chance) == pytest.approx(sum(each) / 4)


def test_interpolated_ap_has_a_summary_by_bootstrap():
    metric = fed(BinaryAveragePrecision(interpolation="11-point"), torch.rand(20), torch.arange(20) % 2)
    with pytest.raises(
        ValueError, match=r"`interpolation` must be None for an interval by method 'influence'.*use 'bootstrap"
    ):
        metric.summary()
    assert set(metric.summary(method="bootstrap-logit", n_resamples=20)) == KEYS - {"ap_chance"}


@each(
    "metric, further, message",
    [
        (BinaryAveragePrecision(prevalence=0.02), "groups", "`groups` cannot be combined with `prevalence`"),
        (BinaryAveragePrecision(), "weights", "`weights` cannot be combined with"),
        (BinaryAveragePrecision(thresholds=9), "weights", "`weights` cannot be combined with"),
        (BinaryAveragePrecision(bins="adaptive"), "weights", "`weights` cannot be combined with"),
        (MulticlassAveragePrecision(4, "none"), "weights", "`weights` cannot be combined with"),
        (MulticlassAveragePrecision(4, "macro"), "weights", "`weights` cannot be combined with"),
    ],
)
def test_a_summary_without_an_interval_has_the_value(metric, further, message):
    preds, target = data()
    classes = isinstance(metric, MulticlassAveragePrecision)
    preds, target = (preds, target) if classes else (preds[:, 0].sigmoid(), (target == 0).long())
    column = {"groups": torch.arange(len(target)) // 3, "weights": torch.rand(len(target)) + 0.5}[further]
    metric.update(preds, target, **{further: column})
    values, found = metric.compute(), metric.summary()
    names = [""] if values.ndim == 0 else [f"_{k}" for k in range(4)]
    assert list(found) == [f"ap{name}{end}" for name in names for end in ("", "_low", "_high")]
    assert torch.equal(torch.stack([found[f"ap{name}"] for name in names]), values.reshape(-1))
    assert all(x.dtype == values.dtype for x in found.values())
    assert all(found[f"ap{name}_{end}"].isnan() for name in names for end in ("low", "high"))
    with pytest.raises(ValueError, match=message):
        metric.confidence_interval()
    for invalid in ({"confidence_level": 2}, {"method": "bayes"}):
        with pytest.raises(ValueError, match=f"`{next(iter(invalid))}`"):
            metric.summary(**invalid)


def test_a_summary_per_class_has_its_names():
    preds, target = data()
    metric, names = fed(MulticlassAveragePrecision(4, None), preds, target), ["cat", "dog", "cow", "elk"]
    summary, found = metric.summary(class_names=names), metric.confidence_interval()
    assert list(summary) == [f"ap_{name}{end}" for name in names for end in ("", "_low", "_high", "_chance")]
    for values, end in (
        (metric.compute(), ""),
        (found.low, "_low"),
        (found.high, "_high"),
        (metric.chance_level(), "_chance"),
    ):
        assert [float(summary[f"ap_{name}{end}"]) for name in names] == values.float().tolist()
    assert all(x.ndim == 0 and x.dtype == torch.float32 for x in summary.values())
    assert list(metric.summary())[:5] == ["ap_0", "ap_0_low", "ap_0_high", "ap_0_chance", "ap_1"]
    for wrong in (["cat"] * 4, names[:3], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match="`class_names` must be a list of 4 different names, got"):
            metric.summary(class_names=wrong)
    with pytest.raises(ValueError, match="`class_names` must be None for a single value"):
        fed(MulticlassAveragePrecision(4), preds, target).summary(class_names=names)


def test_only_the_tied_classes_of_a_summary_have_no_ends():
    preds, target = data()
    metric = MultilabelAveragePrecision(2, None, ties="expected")
    metric.update(torch.stack([preds[:, 0], preds[:, 1].round()], 1), torch.stack([target == 0, target == 1], 1))
    summary = metric.summary()
    one = fed(BinaryAveragePrecision(), preds[:, 0], (target == 0).long()).summary()
    assert [float(summary[f"ap_0{end}"]) for end in ("_low", "_high")] == [
        float(one[f"ap{end}"]) for end in ("_low", "_high")
    ]
    assert math.isnan(summary["ap_1_low"])
    assert math.isnan(summary["ap_1_high"])


@pytest.mark.parametrize("has_groups", [False, True])
@pytest.mark.parametrize("tied", [0, 1, 2])
def test_the_classes_of_a_summary_keep_their_items(tied, has_groups):
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.randn(60, 3, generator=generator), torch.rand(60, 3, generator=generator) < 0.4
    preds = preds + target
    preds[:, tied] = preds[:, tied].round()
    groups = {"groups": torch.arange(60) % 12} if has_groups else {}
    summaries = []
    for ties in ("expected", "grouped"):
        metric = MultilabelAveragePrecision(3, None, ties=ties)
        metric.update(preds, target.long(), **groups)
        summaries.append(metric.summary())
    for label, end in itertools.product(range(3), ("low", "high")):
        found, wanted = (x[f"ap_{label}_{end}"] for x in summaries)
        assert found.isnan() if label == tied else found == wanted


def test_a_summary_warns_of_classes_without_positives():
    preds, target = torch.rand(40, 3), torch.arange(120).reshape(40, 3) % 4 == 0
    target[:, 2] = False
    for average in ("macro", None):
        metric = MultilabelAveragePrecision(3, average)
        metric.update(preds, target.long())
        with pytest.warns(UserWarning, match="label 2") as caught:
            metric.summary()
        assert len(caught) == 1
    with pytest.warns(UserWarning, match="label 2"):
        average_precision_interval(preds, target.long(), average="macro")
    metric = MultilabelAveragePrecision(3, empty_target_action="nan")
    metric.update(preds, target.long())
    assert all(x.isnan() for x in metric.summary().values())


def test_a_summary_does_not_stop_for_ties():
    metric = fed(
        BinaryAveragePrecision(ties="expected"), torch.tensor([0.9, 0.7, 0.5, 0.4]), torch.tensor([1, 0, 1, 0])
    )
    assert metric.summary()["ap_low"] < metric.summary()["ap_high"]
    fed(metric, torch.tensor([0.9]), torch.tensor([0]))
    summary = metric.summary()
    assert summary["ap"] == metric.compute()
    assert summary["ap_chance"] == metric.chance_level()
    assert torch.isnan(summary["ap_low"])
    assert torch.isnan(summary["ap_high"])
    with pytest.raises(ValueError, match="`ties` must be 'grouped'"):
        metric.confidence_interval()


def over_all_orders(scores, target, **words):
    """Return the mean of the metric over all orders of the labels, one order per column."""
    if target.ndim == 1:
        places = torch.tensor(2 * list(itertools.combinations(range(len(target)), int(target.sum()))))  # at least two
        orders = torch.zeros(len(target), len(places), dtype=torch.int64).scatter_(0, places.t(), 1)
        metric = MultilabelAveragePrecision(len(places), "none", **words).set_dtype(scores.dtype)
        return float(fed(metric, scores[:, None].expand(orders.shape), orders).compute().mean())
    return [over_all_orders(scores[:, c], target[:, c], **words) for c in range(target.shape[1])]


@pytest.mark.parametrize("words", [{}, {"top_k": 1}, {"top_k": 4}, {"top_k": 5, "denominator": "relevant"}])
@pytest.mark.parametrize("hits", [1, 3, 7])
def test_tied_items_stay_tied_in_random_orders(words, hits):
    scores = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.3, 0.3, 0.1, -math.inf, -math.inf]).double()
    target = (torch.arange(9) < hits).long()
    for ties in ("grouped", "expected"):
        metric = fed(BinaryAveragePrecision(ties=ties, **words), scores, target)
        assert float(metric.chance_level()) == pytest.approx(
            over_all_orders(scores, target, ties=ties, **words), rel=REORDERED
        )
    flat = fed(BinaryAveragePrecision(**words), torch.zeros(9).double(), target)
    assert float(flat.chance_level()) == pytest.approx(float(flat.compute()), rel=REORDERED)


def test_tied_columns_and_bins_have_their_own_level():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(4, (8, 3), generator=generator).double() / 4
    target = torch.randint(2, (8, 3), generator=generator)
    each = over_all_orders(scores, target)
    for words in ({}, {"thresholds": [0, 0.25, 0.5, 0.75]}):
        none = fed(MultilabelAveragePrecision(3, "none", **words), scores, target).set_dtype(torch.float64)
        assert none.chance_level().tolist() == pytest.approx(each, rel=REORDERED)
    few = {"thresholds": [0.2, 0.6]}  # thresholds below 0.2 retrieve nothing
    binned = fed(MultilabelAveragePrecision(3, "none", **few), scores, target).set_dtype(torch.float64)
    assert binned.chance_level().tolist() == pytest.approx(over_all_orders(scores.float(), target, **few), rel=SINGLE)
    micro = fed(MultilabelAveragePrecision(3, "micro"), scores[:3], target[:3]).set_dtype(torch.float64)
    wanted = over_all_orders(scores[:3].flatten(), target[:3].flatten())
    assert float(micro.chance_level()) == pytest.approx(wanted, rel=REORDERED)
    target[1, 2] = target[4, 0] = -1
    ignoring = fed(MultilabelAveragePrecision(3, "none", ignore_index=-1), scores, target).set_dtype(torch.float64)
    each = [over_all_orders(scores[kept, c], target[kept, c]) for c, kept in enumerate((target >= 0).t())]
    assert ignoring.chance_level().tolist() == pytest.approx(each, rel=REORDERED)
    ids = torch.tensor([0, 2, 1, -1, 2, 0, 2, 1])
    classes = fed(MulticlassAveragePrecision(3, "none", ignore_index=-1), scores, ids).set_dtype(torch.float64)
    each = [over_all_orders(scores[ids >= 0, c], (ids[ids >= 0] == c).long()) for c in range(3)]
    assert classes.chance_level().tolist() == pytest.approx(each, rel=REORDERED)


@each("top_k", [None, 1, 700, 19_999])
@each("levels", [1, 30, 9000, 10**9])
def test_ties_alone_equal_all_groups(top_k, levels):
    """The sum over all groups is also computed from the terms of tied items, which replace the terms without ties."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(levels, (20_000, 2), generator=generator).double()
    hits = torch.rand(20_000, 2, generator=generator) < 0.1
    ties, rule = tie_groups.find_ties(scores), Convention(top_k)
    groups = builders.from_columns(scores, torch.ones_like(hits), keep_all_groups=True)
    curve = builders.from_columns(scores, hits)
    found, wanted = (chance_of_curve(curve, rule, groups=[x]) for x in (ties, groups))
    assert found.tolist() == pytest.approx(wanted.tolist(), rel=REORDERED)


def test_micro_average_leaves_ignored_items_out():
    scores = torch.tensor([[0.5, 0.5], [0.5, 0.1], [0.1, 0.9]]).double()
    target = torch.tensor([[1, 0], [-1, 1], [0, -1]])
    metric = fed(MultilabelAveragePrecision(2, "micro", ignore_index=-1), scores, target).set_dtype(torch.float64)
    kept = target.flatten() >= 0
    wanted = over_all_orders(scores.flatten()[kept], target.flatten()[kept])
    assert float(metric.chance_level()) == pytest.approx(wanted, rel=REORDERED)


def test_columns_are_taken_in_blocks(monkeypatch):
    scores = torch.randint(5, (40, 7), generator=torch.Generator().manual_seed(0)).double()
    metric = fed(MulticlassAveragePrecision(7, "none"), scores, torch.arange(40) % 7)
    whole = metric.chance_level()
    monkeypatch.setattr(builders, "ITEMS_A_BLOCK", 100)
    assert torch.equal(metric.chance_level(), whole)


def test_chance_level_counts_rankings_as_the_metric_does():
    preds, target = data()
    onehot = torch.nn.functional.one_hot(target, 4)
    onehot[:, 3] = 0
    for action, counts_as in (("neg", 0), ("pos", 1)):
        metric = fed(MultilabelAveragePrecision(4, empty_target_action=action), preds, onehot)
        each = [random_average_precision(300, int(onehot[:, c].sum())).mean for c in range(3)]
        assert float(metric.chance_level()) == pytest.approx((sum(each) + counts_as) / 4)
        assert float(metric.confidence_interval().estimate) == pytest.approx(float(metric.compute()))
    micro = fed(MultilabelAveragePrecision(4, "micro"), preds, onehot)
    assert float(micro.chance_level()) == pytest.approx(float(random_average_precision(1200, int(onehot.sum())).mean))


def test_ignored_items_do_not_count():
    preds, target = data()
    target[::5] = -1
    metric = fed(MulticlassAveragePrecision(4, ignore_index=-1), preds, target)
    kept = target >= 0
    wanted = average_precision_interval(preds[kept], target[kept], average="macro")
    assert float(metric.confidence_interval().low) == pytest.approx(float(wanted.low), abs=SINGLE)
    labels = (target == 0).long().masked_fill(target < 0, -1)
    one = fed(BinaryAveragePrecision(ignore_index=-1), preds[:, 0], labels)
    other = fed(BinaryAveragePrecision(ignore_index=-1), preds[:, 0].roll(1), labels)
    direct = compare_rankings(preds[kept, 0], preds[:, 0].roll(1)[kept], labels[kept])
    assert one.compare(other).to_dict() == direct.to_dict()


@each("method", ["influence", "bootstrap-percentile", "bootstrap-bca", "bootstrap-logit"])
@each("average", ["none", "macro", "weighted"])
def test_ignored_items_belong_to_no_stratum(method, average):
    preds, target = data(n=60)
    target[::5] = -1
    counted = target >= 0
    metric = fed(MulticlassAveragePrecision(4, average, ignore_index=-1), preds, target)
    without = fed(MulticlassAveragePrecision(4, average), preds[counted], target[counted])
    found, wanted = (
        x.confidence_interval(method=method, design="stratified", n_resamples=50) for x in (metric, without)
    )
    for field in ("estimate", "low", "high"):
        assert torch.allclose(getattr(found, field), getattr(wanted, field), rtol=REORDERED, equal_nan=True)


def test_strata_of_any_number_of_classes():
    """With more than 32,767 classes the mark of ignored items is 2^31 - 1, which must not count as a class."""
    preds, target = data(n=60)
    marked = target.int()
    marked[::5] = torch.iinfo(torch.int32).max
    counted = inputs.counted_items(marked)
    settings = APSettings(inputs.ClassificationInputs(4, classes=True, ignore_index=-1), Convention(), average="macro")
    batches = inputs.Batch(preds, marked), inputs.Batch(preds[counted], marked[counted])
    found, wanted = (item_shares(settings, x, settings.curve(x), "stratified") for x in batches)
    assert torch.equal(found[counted], wanted)
    assert not found[~counted].any()


def test_compare_is_compare_rankings():
    preds, target = data()
    labels = (target == 0).long()
    first, second = binary(), fed(BinaryAveragePrecision(), preds[:, 1], labels)
    for method in ("logit", "jackknife", "influence", "permutation"):
        found = first.compare(second, method=method, n_resamples=50)
        wanted = compare_rankings(preds[:, 0], preds[:, 1], labels, method=method, n_resamples=50)
        assert found.to_dict() == wanted.to_dict()
    assert first.compare(second).method == "logit"
    assert first.compare(first).p_value == 1


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize("design", ["iid", "stratified"])
def test_averages_compare_item_by_item(average, design):
    preds, target = data()
    onehot = torch.nn.functional.one_hot(target, 4)
    other = preds + torch.randn(preds.shape, generator=torch.Generator().manual_seed(1))
    a, b = (fed(MultilabelAveragePrecision(4, average), x, onehot) for x in (preds, other))
    found = a.compare(b, design=design)
    alone = [float(x.confidence_interval(design=design).standard_error) for x in (a, b)]
    assert found.difference == pytest.approx(float(a.compute() - b.compute()), abs=SINGLE)
    assert 0 < found.standard_error < math.hypot(*alone)
    assert (found.high - found.low) / (2 * found.standard_error) > 1.962, "Student's t, of more than three hundred hits"
    assert found.p_value < 0.05
    assert a.compare(a).p_value == 1


def test_a_bootstrap_of_the_difference_agrees():
    preds, target = data(500)
    other = preds + 0.8 * torch.randn(preds.shape, generator=torch.Generator().manual_seed(1))
    found = fed(MulticlassAveragePrecision(4), preds, target).compare(
        fed(MulticlassAveragePrecision(4), other, target), design="iid"
    )
    drawn = torch.randint(500, (500, 300), generator=torch.Generator().manual_seed(2))
    # the classes of every resample are columns
    hits = torch.nn.functional.one_hot(target, 4)[drawn].flatten(1)
    values = [functional.multilabel_average_precision(x[drawn].flatten(1), hits, 1200, "none") for x in (preds, other)]
    gaps = (values[0] - values[1]).reshape(300, 4).mean(1)
    assert found.standard_error == pytest.approx(gaps.std().item(), rel=0.15)  # 300 resamples


def test_counts_per_threshold_have_intervals_of_their_rankings():
    preds, target = data()
    scores, labels = preds[:, 0].sigmoid(), (target == 0).long()
    levels = scores.unique().tolist()
    exact, binned = (fed(BinaryAveragePrecision(thresholds=t), scores, labels) for t in (None, levels))
    assert binned.confidence_interval().low == exact.confidence_interval().low
    assert binned.chance_level() == exact.chance_level()
    few = fed(BinaryAveragePrecision(thresholds=5), scores, labels)
    assert few.confidence_interval().low < few.compute() < few.confidence_interval().high
    with pytest.raises(ValueError, match="`thresholds`"):
        binned.compare(binned)
    macro = fed(MulticlassAveragePrecision(4, thresholds=9), preds.softmax(1), target)
    with pytest.raises(ValueError, match="`thresholds`"):
        macro.confidence_interval()


def test_unsupported_requests_raise_by_name():
    preds, target = data()
    labels = (target == 0).long()
    with pytest.raises(ValueError, match="`top_k`"):
        fed(MulticlassAveragePrecision(4, top_k=5), *data()).confidence_interval()
    assert 0 < float(binary(top_k=5).chance_level()) < 1
    with pytest.raises(ValueError, match="`denominator="):
        binary(top_k=5, denominator="found").chance_level()
    interpolated = binary(interpolation="101-point")
    with pytest.raises(ValueError, match=r"`interpolation` .*None .* got '101-point'"):
        interpolated.compare(binary(interpolation="101-point"), method="bootstrap")
    with pytest.raises(ValueError, match="`interpolation`"):
        interpolated.chance_level()
    found = interpolated.confidence_interval(method="bootstrap-percentile", n_resamples=50)
    assert found.low < interpolated.compute() < found.high
    tied = fed(BinaryAveragePrecision(ties="expected"), preds[:, 0].round(), labels)
    with pytest.raises(ValueError, match="`ties`"):
        tied.confidence_interval()
    assert binary(ties="expected").confidence_interval().low == binary().confidence_interval().low
    weighted = BinaryAveragePrecision()
    weighted.update(preds[:, 0], labels, torch.ones(300))
    for call in (weighted.chance_level, weighted.confidence_interval):
        with pytest.raises(ValueError, match="`weights`"):
            call()
    each = fed(MulticlassAveragePrecision(4, None), preds, target)
    with pytest.raises(ValueError, match="`average`"):
        each.compare(each)
    with pytest.raises(ValueError, match="`other`"):
        binary().compare(each)
    with pytest.raises(ValueError, match=r"`other` .*same targets"):
        binary().compare(fed(BinaryAveragePrecision(), preds[:, 0], labels.roll(1)))
    with pytest.raises(ValueError, match=r"`other` .*normalization: None here, 'sigmoid' there"):
        binary().compare(binary(normalization="sigmoid"))


def test_without_hits_or_items():
    empty = BinaryAveragePrecision()
    with pytest.warns(UserWarning, match="No items count"):
        summary = empty.summary()
    assert all(math.isnan(x) for x in summary.values())
    none = BinaryAveragePrecision()
    none.update(torch.rand(5), torch.zeros(5, dtype=torch.int64))
    with pytest.warns(UserWarning, match="No positive target counts"):
        summary = none.summary()
    assert summary["ap"] == summary["ap_chance"] == 0
    assert math.isnan(summary["ap_low"])


def test_in_a_collection_that_shares_state():
    preds, target = data()
    collection = MetricCollection({"ap": MulticlassAveragePrecision(4), "each": MulticlassAveragePrecision(4, None)})
    collection.update(preds, target)
    collection.update(preds, target)
    assert len(collection.compute_groups) == 1
    alone = fed(MulticlassAveragePrecision(4), torch.cat([preds, preds]), torch.cat([target, target]))
    assert float(collection["ap"].summary()["ap_low"]) == pytest.approx(float(alone.summary()["ap_low"]), abs=SINGLE)
    assert collection["each"].confidence_interval().low.shape == (4,)


def check_two_ranks(rank):
    preds, target = data()
    mine = slice(0, 210) if rank == 0 else slice(210, 300)
    for make in (lambda: MulticlassAveragePrecision(4), lambda: MulticlassAveragePrecision(4, thresholds=[-1.0, 0.0])):
        here, whole = make(), make()
        here.update(preds[mine], target[mine])
        whole.sync_on_compute = whole._to_sync = False
        whole.update(preds, target)
        assert torch.equal(here.chance_level(), whole.chance_level())
        if here.thresholds is None:
            found, wanted = here.summary(), whole.summary()
            assert all(torch.equal(found[key], wanted[key]) for key in KEYS)
            again = make()
            again.update(-preds[mine], target[mine])
            inverse = make()
            inverse.sync_on_compute = inverse._to_sync = False
            inverse.update(-preds, target)
            assert here.compare(again).to_dict() == whole.compare(inverse).to_dict()
            assert sum(map(len, here.scores)) == mine.stop - mine.start, "the local state comes back"
            with here.sync_context():
                assert torch.equal(here.summary()["ap_low"], wanted["ap_low"])


def test_all_ranks_count(ranks):
    ranks(check_two_ranks)


def test_lightning_logs_the_summary(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.ap = MulticlassAveragePrecision(4)
            self.each = MulticlassAveragePrecision(4, None)

        def validation_step(self, batch, _):
            for metric in (self.ap, self.each):
                metric.update(self.layer(batch[0]), batch[1])

        def on_validation_epoch_end(self):
            self.log_dict(self.ap.summary())
            self.log_dict(self.each.summary(class_names=["a", "b", "c", "d"]))

    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=100)
    (logged,) = trainer.validate(Module(), loader, verbose=False)
    ends = ("", "_low", "_high", "_chance")
    assert set(logged) == {f"ap{name}{end}" for name in ("", "_a", "_b", "_c", "_d") for end in ends} | {"ap_bias"}
    assert logged["ap_low"] < logged["ap"] < logged["ap_high"]


@pytest.mark.gpu
def test_on_cuda():
    preds, target = data()
    here = fed(MulticlassAveragePrecision(4), preds, target)
    there = fed(MulticlassAveragePrecision(4).cuda(), preds.cuda(), target.cuda())
    for key, value in there.summary().items():
        assert value.device.type == "cuda"
        assert float(value) == pytest.approx(float(here.summary()[key]), abs=SINGLE)
    assert there.compare(there).p_value == 1


def test_systems_of_other_settings_are_not_compared():
    metric = binary()
    for words in ({"top_k": 5}, {"ties": "expected"}, {"interpolation": "11-point"}, {"empty_target_action": "skip"}):
        with pytest.raises(ValueError, match="`other` must have the same settings"):
            metric.compare(binary(**words))
    macro, weighted = (fed(MulticlassAveragePrecision(4, average), *data()) for average in ("macro", "weighted"))
    with pytest.raises(ValueError, match="average: 'macro' here, 'weighted' there"):
        macro.compare(weighted)


@pytest.mark.parametrize("kind", [MulticlassAveragePrecision, MultilabelAveragePrecision])
@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_comparisons_of_empty_metrics(kind, average):
    found = kind(4, average).compare(kind(4, average))
    assert math.isnan(found.p_value)
    assert math.isnan(found.standard_error)
    assert found.reason == "the averages are NaN"


@pytest.mark.parametrize(
    "names", [["x", "x_low", "y"], ["low", "a", "b"], {"x": 1, "y": 2, "z": 3}, "abc", 5, ["a", "a", "b"]]
)
def test_names_of_classes_that_would_hide_a_value_raise(names):
    metric = MultilabelAveragePrecision(3, average="none")
    metric.update(torch.rand(60, 3, generator=torch.Generator().manual_seed(0)), torch.arange(180).reshape(60, 3) % 2)
    with pytest.raises(ValueError, match=r"`class_names` must .*, got "):
        metric.summary(class_names=names)
