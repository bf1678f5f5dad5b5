import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.support import oracles_inference as oracles
from tests.support.each import each
from tests.support.tolerances import DOZENS_OF_TERMS, FEW_TERMS, LAST_BITS, REORDERED, SINGLE
from torch_ap import Convention, MulticlassAveragePrecision, MultilabelAveragePrecision
from torch_ap.core.measures import averaging
from torch_ap.core.ranking import builders
from torch_ap.core.ranking.builders import from_bins
from torch_ap.functional import binary_average_precision, multiclass_average_precision, multilabel_average_precision
from torch_ap.inference import average_precision_interval, resampling
from torch_ap.inference.average_precision import METHODS
from torch_ap.inference.influence import count_misses
from torch_ap.inference.resampling import Resampling, generators, multinomial, multinomial_on_device

F = torch.float64


def sample(n=400, share=0.2, classes=None, seed=0, dtype=F):
    generator = torch.Generator().manual_seed(seed)
    if classes is None:
        target = (torch.rand(n, generator=generator) < share).long()
        return (torch.randn(n, generator=generator) + target).to(dtype), target
    target = torch.randint(classes, (n,), generator=generator)
    return torch.randn(n, classes, generator=generator, dtype=dtype).scatter_add_(
        1, target[:, None], torch.ones(n, 1, dtype=dtype)
    ), target


def ends(found):
    return [float(x) for x in (found.low, found.estimate, found.high)]


@pytest.mark.parametrize("design", ["iid", "stratified"])
@pytest.mark.parametrize("method", METHODS)
def test_every_interval_contains_the_estimate(method, design):
    preds, target = sample()
    found = average_precision_interval(preds, target, method=method, design=design)
    low, ap, high = ends(found)
    assert ap == pytest.approx(float(binary_average_precision(preds, target)), abs=LAST_BITS)
    assert low < ap < high
    assert (found.confidence_level, found.method, found.reason) == (0.95, method, "")
    narrow = average_precision_interval(preds, target, method=method, design=design, confidence_level=0.5)
    assert low < float(narrow.low) < float(narrow.high) < high
    assert found.design == design


def test_default_is_influence_with_logit_and_student():
    preds, target = sample()
    found = average_precision_interval(preds, target, confidence_level=0.9)
    ap, error, m = float(found.estimate), float(found.standard_error), int(target.sum())
    half = stats.t.ppf(0.95, m - 1) * error / (ap * (1 - ap))
    centre = math.log(ap / (1 - ap))
    assert ends(found) == pytest.approx([1 / (1 + math.exp(half - centre)), ap, 1 / (1 + math.exp(-half - centre))])


def test_each_class_and_label_is_a_ranking_of_its_own():
    preds, target = sample(classes=4)
    onehot = torch.nn.functional.one_hot(target, 4)
    by_class, by_label = (average_precision_interval(preds, t) for t in (target, onehot))
    for c in range(4):
        alone = average_precision_interval(preds[:, c], onehot[:, c])
        for found in (by_class, by_label):
            assert [float(x[c]) for x in (found.low, found.estimate, found.high)] == pytest.approx(ends(alone))


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
def test_averages_count_covariances(average):
    preds, target = sample(600, classes=3)
    if average == "micro":
        target = torch.nn.functional.one_hot(target, 3)
        wanted = multilabel_average_precision(preds, target, 3, average)
    else:
        wanted = multiclass_average_precision(preds, target, 3, average)
    truth = average_precision_interval(preds, target, method="bootstrap-logit", average=average)
    for method in METHODS:
        if method == "dirichlet" or (method, average) == ("jackknife", "micro"):
            continue
        found = average_precision_interval(preds, target, method=method, average=average)
        assert float(found.estimate) == pytest.approx(float(wanted), abs=REORDERED)
        assert float(found.low) < float(found.estimate) < float(found.high)
        # the error of a bootstrap of 1,000 is about 2%; its formula differs too
        assert float(found.standard_error) == pytest.approx(float(truth.standard_error), rel=0.12)


def test_macro_of_one_ranking_twice_is_that_ranking():
    preds, target = sample()
    alone = average_precision_interval(preds, target)
    both = average_precision_interval(
        preds[:, None].expand(-1, 2), target[:, None].expand(-1, 2), average="macro", method="influence"
    )
    assert float(both.standard_error) == pytest.approx(float(alone.standard_error), rel=REORDERED)
    independent = float(alone.standard_error) / math.sqrt(2)
    assert float(both.standard_error) > 1.4 * independent


def test_micro_counts_an_item_once():
    preds, target = sample()
    alone = average_precision_interval(preds, target)
    micro = average_precision_interval(preds[:, None].expand(-1, 3), target[:, None].expand(-1, 3), average="micro")
    assert float(micro.estimate) == pytest.approx(float(alone.estimate))
    # items that occur three times: different degrees of freedom
    assert float(micro.standard_error) == pytest.approx(float(alone.standard_error), rel=0.02)


def test_a_class_without_hits_enters_the_average_as_a_constant():
    preds, target = sample(classes=3)
    onehot = torch.nn.functional.one_hot(target, 3)
    wide = torch.cat([preds, preds[:, :1]], 1)
    absent = torch.cat([onehot, torch.zeros(len(onehot), 1, dtype=torch.int64)], 1)
    of_three = average_precision_interval(preds, onehot, average="macro")
    with pytest.warns(UserWarning, match="No positive target counts in label 3"):
        of_four = average_precision_interval(wide, absent, average="macro")
    assert float(of_four.estimate) == pytest.approx(0.75 * float(of_three.estimate))
    assert float(of_four.standard_error) == pytest.approx(0.75 * float(of_three.standard_error))
    with pytest.warns(UserWarning, match="No positive target counts in class 3"):
        skipped = average_precision_interval(wide, target, average="macro")
    by_class = average_precision_interval(preds, target, average="macro")
    assert ends(skipped) == pytest.approx(ends(by_class))


@pytest.mark.parametrize("design", ["iid", "stratified"])
def test_a_label_without_misses_enters_the_average_as_a_constant(design):
    preds, target = sample(classes=3)
    onehot = torch.nn.functional.one_hot(target, 3)
    wide = torch.cat([preds, preds[:, :1]], 1)
    sure = torch.cat([onehot, torch.ones(len(onehot), 1, dtype=torch.int64)], 1)
    of_three = average_precision_interval(preds, onehot, average="macro", design=design)
    of_four = average_precision_interval(wide, sure, average="macro", design=design)
    assert float(of_four.estimate) == pytest.approx(0.75 * float(of_three.estimate) + 0.25)
    assert float(of_four.standard_error) == pytest.approx(0.75 * float(of_three.standard_error))
    assert of_four.low < of_four.estimate < of_four.high
    drawn = average_precision_interval(wide, sure, average="weighted", method="bootstrap-percentile")
    weighted = average_precision_interval(wide, sure, average="weighted")
    # the error of a bootstrap of 1,000 is about 2%; its formula differs too
    assert float(weighted.standard_error) == pytest.approx(float(drawn.standard_error), rel=0.1)


def delete_one(preds, target, average, strata):
    """Return the bias and the standard error of an average from its value without each item, one after another."""

    def value(items):
        if target.ndim == 2:
            return float(multilabel_average_precision(preds[items], target[items], preds.shape[1], average))
        return float(multiclass_average_precision(preds[items], target[items], preds.shape[1], average))

    everything = torch.arange(len(preds))
    whole, variance, bias = value(everything), 0.0, 0.0
    for items in strata:
        changes = np.array([value(everything != i) - whole for i in items])
        variance += (len(items) - 1) / len(items) * ((changes - changes.mean()) ** 2).sum()
        bias += (len(items) - 1) * changes.mean()
    return bias, math.sqrt(variance + bias**2 / 4)


@each("average", ["macro", "weighted"])
@each("labels", [True, False])
@each("levels", [4, 10**6])
def test_the_interval_of_an_average_is_the_jackknife_over_items(average, labels, levels):
    generator = torch.Generator().manual_seed(levels)
    preds = torch.randint(levels, (24, 3), generator=generator).to(F) / levels
    target = torch.randint(3, (24,), generator=generator)
    if labels:
        target = torch.nn.functional.one_hot(target, 3) | (torch.rand(24, 3, generator=generator) < 0.3).long()
    strata = {"iid": [range(24)]}
    if not labels:
        preds, strata["stratified"] = preds.softmax(1), [(target == c).nonzero()[:, 0].tolist() for c in range(3)]
    for design, items in strata.items():
        bias, error = delete_one(preds, target, average, items)
        found = average_precision_interval(preds, target, average=average, design=design)
        assert float(found.bias) == pytest.approx(bias, abs=REORDERED)
        assert float(found.standard_error) == pytest.approx(error, abs=REORDERED)
        assert found.method == "jackknife"
        assert found.low < found.estimate - found.bias < found.high


def test_ignored_items_are_not_deleted():
    preds, target = sample(200, classes=3)
    onehot = torch.nn.functional.one_hot(target, 3)
    for labels in (target, onehot):
        for average in ("macro", "weighted"):
            wanted = average_precision_interval(preds, labels, average=average)
            marked = torch.cat([labels, torch.full_like(labels[:30], -1)])
            metric = (MulticlassAveragePrecision if labels.ndim == 1 else MultilabelAveragePrecision)(
                3, average, ignore_index=-1
            )
            metric.update(torch.cat([preds, preds[:30]]), marked)
            found = metric.confidence_interval()
            assert ends(found) == pytest.approx(ends(wanted), abs=SINGLE)
            assert float(found.bias) == pytest.approx(float(wanted.bias), abs=SINGLE)


def test_the_bias_of_an_average_is_reported():
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(400, 100, generator=generator) < 0.05).long()
    preds = torch.randn(400, 100, generator=generator) + target
    assert average_precision_interval(preds, target, average="macro").reason == ""
    found = average_precision_interval(preds, target, average="macro", confidence_level=0.8)
    assert "outside its interval, which is corrected for a bias of 0.0" in found.reason
    assert found.low < found.estimate - found.bias < found.high < found.estimate
    for options in ({"method": "influence"}, {"method": "wald"}, {"design": "stratified"}):
        other = average_precision_interval(preds, target, average="macro", **options)
        assert other.bias is None
        assert "likely too high: the average has a bias of 0.0" in other.reason
    assert average_precision_interval(preds, target, average="micro").reason == ""
    for options in ({"average": "micro"}, {"average": "macro", "design": "stratified"}):
        with pytest.raises(ValueError, match="`method` must not be 'jackknife' for"):
            average_precision_interval(preds, target, method="jackknife", **options)


def test_a_noisy_bias_leaves_the_ends_inside():
    preds, target = torch.arange(12.0)[:, None].expand(-1, 2), torch.tensor([[0, 0]] * 6 + [[0, 1]] + [[1, 1]] * 5)
    target = target.flip(0).roll(1, 0)
    found = average_precision_interval(preds, target, average="macro")
    assert 0 < found.low < found.high < 1


@pytest.mark.parametrize("method", [method for method in METHODS if method != "dirichlet"])
def test_an_average_of_1_has_no_interval(method):
    preds, target = torch.arange(6.0)[:, None].expand(-1, 2), torch.tensor([[0, 1]] * 3 + [[1, 1]] * 3)
    found = average_precision_interval(preds, target, average="macro", method=method)
    assert (float(found.estimate), "every AP is 1" in found.reason) == (1, True)
    assert math.isnan(found.low)


@each("method", [method for method in METHODS if method != "dirichlet"])
@each(
    "target, reason",
    [
        ([0, 0, 0, 0], "no hits"),
        ([0, 1, 0, 0], "one hit"),
        ([1, 1, 1, 1], "no misses"),
        ([1, 1, 0, 0], "AP of 1"),
    ],
)
def test_the_edges_have_a_defined_answer(method, target, reason):
    found = average_precision_interval(torch.tensor([4.0, 3, 2, 1]), torch.tensor(target), method=method)
    if reason != "AP of 1":
        assert math.isnan(found.low)
        assert math.isnan(found.high)
        assert math.isnan(found.standard_error)
        assert reason in found.reason
    elif method not in ("survival", "sigma-ap"):
        assert ends(found) == pytest.approx([math.sqrt(0.05), 1, 1])
        assert reason in found.reason


def test_one_miss_and_empty_and_reasons_of_many():
    one_miss = average_precision_interval(torch.tensor([3.0, 2, 1]), torch.tensor([1, 0, 1]))
    assert math.isnan(one_miss.low)
    assert "one miss" in one_miss.reason
    empty = average_precision_interval(torch.empty(0), torch.empty(0, dtype=torch.int64))
    assert math.isnan(empty.estimate)
    preds = torch.arange(8.0)[:, None].expand(-1, 3)
    target = torch.tensor([[0, 0, 1]] * 4 + [[0, 1, 1]] + [[0, 0, 1]] * 3)
    many = average_precision_interval(preds, target)
    assert many.reason.startswith("1 of 3 rankings: no hits")
    assert many.reason.count("1 of 3") == 3


def test_all_tied_has_no_spread_where_the_hits_are_fixed():
    preds, target = torch.zeros(50), torch.tensor([1] * 10 + [0] * 40)
    assert float(average_precision_interval(preds, target, design="stratified").standard_error) == pytest.approx(0)
    binomial = math.sqrt(0.2 * 0.8 / 50)
    assert float(average_precision_interval(preds, target).standard_error) == pytest.approx(binomial)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32])
def test_dtypes_rank_as_themselves(dtype):
    preds, target = sample(classes=3)
    preds = (preds * 10).to(dtype)
    for average in ("none", "macro"):
        found = average_precision_interval(preds, target, average=average)
        wanted = average_precision_interval(preds.to(F), target, average=average)
        torch.testing.assert_close(found.low, wanted.low, rtol=0, atol=DOZENS_OF_TERMS)


def test_infinities_are_scores():
    preds, target = sample()
    preds[:5], preds[-5:] = math.inf, -math.inf
    order = preds.unique(return_inverse=True)[1]
    assert ends(average_precision_interval(preds, target)) == ends(average_precision_interval(order, target))


def test_bad_arguments_raise_by_name():
    preds, target = sample(20)
    for level in (0, 1, 1.5, -0.1, True, "x"):
        with pytest.raises(ValueError, match="`confidence_level`"):
            average_precision_interval(preds, target, confidence_level=level)
    for name, value in (("method", "bayes"), ("design", "cluster")):
        with pytest.raises(ValueError, match=f"`{name}`"):
            average_precision_interval(preds, target, **{name: value})
    for weights, got in ((torch.ones(20), r"shape \(20,\)"), ([1.0] * 20, r"\[1.0, 1.0"), (3, "3")):
        with pytest.raises(ValueError, match=f"`weights` must be None for an interval.* got {got}"):
            average_precision_interval(preds, target, weights=weights)
    for method in ("", torch.tensor([]), torch.tensor([1, 2])):
        with pytest.raises(ValueError, match="`method` must be one of 'influence'"):
            average_precision_interval(preds, target, method=method)
    with pytest.raises(ValueError, match=r"`preds` and `target` .*shape, got \(20,\) and \(19,\)"):
        average_precision_interval(preds, target[:-1])
    with pytest.raises(ValueError, match=r"`preds` .*NaN.* at index 3"):
        average_precision_interval(preds.index_fill(0, torch.tensor([3]), torch.nan), target)
    for interpolation, method in (("101-point", "influence"), ("trapezoid", "bootstrap-logit")):
        with pytest.raises(ValueError, match="`interpolation`"):
            average_precision_interval(preds, target, interpolation=interpolation, method=method)
    wide, labels = preds[:, None].expand(-1, 2), target[:, None].expand(-1, 2)
    with pytest.raises(ValueError, match="`method`"):
        average_precision_interval(wide, labels, average="macro", method="survival")
    with pytest.raises(ValueError, match="`design`"):
        average_precision_interval(wide, labels, average="macro", method="bootstrap-bca", design="stratified")
    for name, value in {"n_resamples": 1, "chunk_size": 0, "progress": 1}.items():
        with pytest.raises(ValueError, match=f"`{name}` .*got {value}"):
            Resampling(**{name: value})
    with pytest.raises(TypeError, match="`generator`"):
        Resampling(generator=3)


# -- resamples

items_with_both = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.integers(0, 1), st.integers(0, 3)), min_size=2, max_size=12
).filter(lambda rows: any(y and w for _, y, w in rows) and any(not y for _, y, _ in rows))


@given(items_with_both)
@settings(deadline=None, max_examples=60)
def test_weights_are_repetitions(rows):
    scores, target, weights = (list(x) for x in zip(*rows, strict=True))
    s, y, w = torch.tensor(scores, dtype=F), torch.tensor(target), torch.tensor(weights)
    curve = builders.from_scores(s, y)
    items = resampling.group_items(curve, s, y.bool())
    found = Convention()(items.curve(w[None]))
    assert float(found) == pytest.approx(float(oracles.weighted(scores, target, weights)), abs=FEW_TERMS)
    repeated, flags = s.repeat_interleave(w), y.repeat_interleave(w)
    for interpolation in ("11-point", "101-point", "all-points"):
        convention = Convention(interpolation=interpolation)
        found = convention(items.curve(w[None]))
        wanted = convention(builders.from_scores(repeated, flags))
        torch.testing.assert_close(found, wanted, rtol=0, atol=FEW_TERMS)


def test_replicates_have_the_law_of_drawn_items():
    preds, target = sample(60)
    curve = builders.from_scores(preds, target)
    rng = np.random.default_rng(0)
    for design in ("iid", "stratified"):
        found = resampling.replicates(curve, Convention(), design, Resampling(4000))
        hits, misses = np.flatnonzero(target.numpy()), np.flatnonzero(1 - target.numpy())
        if design == "iid":
            drawn = rng.integers(0, 60, (60, 8000))
        else:
            drawn = np.concatenate([rng.choice(x, (len(x), 8000)) for x in (hits, misses)])
        slow = multilabel_average_precision(preds[drawn], target[drawn], 8000, None)
        assert stats.ks_2samp(found.numpy(), slow.numpy()).pvalue > 1e-4


def test_resamples_have_as_many_items_as_the_data():
    def sizes(weights):
        return torch.stack([weights[:, :3].sum(1), weights[:, 3:].sum(1)], 1)

    strata = [torch.arange(3), torch.arange(3, 10)]
    assert resampling.replicate_items(sizes, strata, 10, Resampling(20)).unique(dim=0).tolist() == [[3, 7]]
    groups = np.array([3, 0, 2]), np.array([1, 4, 9])
    counts = [[x.sum() for x in resampling._draw(*groups, 5, 19, "iid", rng)] for rng in generators(0, range(50))]
    assert len({hits for hits, _ in counts}) > 5
    assert {hits + misses for hits, misses in counts} == {19}
    counts = [
        [x.sum() for x in resampling._draw(*groups, 5, 19, "stratified", rng)] for rng in generators(0, range(50))
    ]
    assert counts == [[5, 14]] * 50


def test_ends_of_bootstraps():
    values = torch.tensor([0.0, 1, 2, 3, 4], dtype=torch.float64)
    assert resampling.percentile(values, 0.5) == (1, 3)
    assert resampling.basic(values, torch.tensor(1.0), 0.5) == (-1, 1)
    # half of the replicates are below the estimate if the equal one counts half, so nothing is corrected
    assert resampling.bca(values, values[2], values[0], 0.5) == pytest.approx((1, 3), abs=REORDERED)


def test_replicates_repeat_for_every_batch_and_generator():
    preds, target = sample(300)
    curve = builders.from_scores(preds, target)

    def run(**how):
        return resampling.replicates(curve, Convention(), "iid", Resampling(40, **how))

    assert torch.equal(run(), run(chunk_size=1))
    assert torch.equal(run(), run(chunk_size=3000))
    seeded = [run(generator=torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*seeded)
    assert not torch.equal(seeded[0], run())
    before = torch.get_rng_state()
    run()
    assert torch.equal(before, torch.get_rng_state())


def test_progress_shows_a_bar(capsys):
    pytest.importorskip("tqdm")
    preds, target = sample(50)
    average_precision_interval(preds, target, method="bootstrap-logit", n_resamples=10, progress=True)
    assert "%" in capsys.readouterr().err


def test_missing_tqdm_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    preds, target = sample(50)
    with pytest.raises(ModuleNotFoundError, match=r"pip install tqdm .extra `inference`."):
        average_precision_interval(preds, target, method="bootstrap-logit", n_resamples=10, progress=True)


@pytest.mark.parametrize("draws", [0, 5, 30, 4000])
def test_multinomial_draws_each_item_alike(draws):
    sizes = np.array([3, 0, 1, 6])
    rows = np.stack([multinomial(rng, sizes, draws) for rng in generators(1, range(3000))])
    assert (rows.sum(1) == draws).all()
    assert not rows[:, 1].any()
    slow = multinomial_on_device(
        torch.Generator().manual_seed(0), torch.from_numpy(sizes), torch.full((300,), draws)
    ).numpy()
    assert (slow.sum(1) == draws).all()
    for drawn in (rows, slow):
        expected = draws * sizes / 10
        error = np.sqrt(draws * sizes / 10 * (1 - sizes / 10) / len(drawn))
        assert (abs(drawn.mean(0) - expected) <= 4.5 * error).all()


def test_bca_is_scipys():
    preds, target = sample(80)
    hits, misses = preds[target == 1], preds[target == 0]
    found = average_precision_interval(preds, target, method="bootstrap-bca", design="stratified", n_resamples=4000)

    def ap(a, b):
        y = torch.tensor([1] * len(a) + [0] * len(b))
        return float(binary_average_precision(torch.tensor(np.concatenate([a, b])), y))

    wanted = stats.bootstrap(
        (hits.numpy(), misses.numpy()), ap, method="BCa", n_resamples=2000, random_state=np.random.default_rng(0),
        vectorized=False,
    ).confidence_interval  # fmt: skip
    assert ends(found)[::2] == pytest.approx([wanted.low, wanted.high], abs=0.015)


def test_percentiles_and_errors_equal_the_replicates():
    values = torch.tensor([0.1, 0.2, torch.nan, 0.3, 0.4, 0.5], dtype=F)
    low, high = resampling.percentile(values, 0.5)
    assert (float(low), float(high)) == pytest.approx((0.2, 0.4))
    assert float(resampling.standard_error(values)) == pytest.approx(np.std([0.1, 0.2, 0.3, 0.4, 0.5], ddof=1))


def test_misses_are_all_placed():
    preds, target = sample(100)
    between, below = count_misses(builders.from_scores(preds, target))
    assert int(between.sum() + below) == int((1 - target).sum())


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("design", ["iid", "stratified"])
def test_on_cuda(method, design):
    preds, target = sample(3000)
    here = average_precision_interval(preds, target, method=method, design=design)
    there = average_precision_interval(preds.cuda(), target.cuda(), method=method, design=design)
    loose = 0.02 if method.startswith("bootstrap") else 1e-12
    assert ends(there) == pytest.approx(ends(here), abs=loose)
    assert there.low.device.type == "cuda"


@pytest.mark.parametrize("how", ["macro", "weighted"])
@pytest.mark.parametrize("action", ["neg", "pos", "nan", "skip"])
def test_averages_of_samples_equal_single_samples(how, action):
    generator = torch.Generator().manual_seed(1)
    n = torch.randint(0, 4, (3, 200), generator=generator)  # rankings without items or without hits are included
    m = torch.minimum(torch.randint(0, 3, n.shape, generator=generator), n)
    values = torch.rand(n.shape, generator=generator, dtype=F)
    curves = [from_bins(m[:, [b]], n[:, [b]]) for b in range(n.shape[1])]
    values[m == 0] = torch.nan
    for b, curve in enumerate(curves):
        values[:, b] = averaging.fill_undefined(values[:, b], curve, action)
    found = averaging.averages_of_samples(values, m, n, how, action)
    wanted = torch.stack([averaging.average(values[:, b], curve, how, action) for b, curve in enumerate(curves)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=LAST_BITS, equal_nan=True)


def test_few_misses_above_many_hits_have_a_reason():
    generator = torch.Generator().manual_seed(0)
    note = "few misses are above the hits: the interval may be too narrow"
    for hits, misses, distance in (
        (1000, 10, 3.0),
        (1000, 2000, 5.0),
        (1000, 10, 0.0),
        (30, 300, 3.0),
        (100, 1000, 1.0),
    ):
        target = (torch.arange(hits + misses) < hits).long()
        scores = torch.randn(hits + misses, generator=generator) + distance * target
        found = average_precision_interval(scores, target)
        assert found.estimate < 1
        expected = hits >= 100 and hits * (1 - float(found.estimate)) < 3
        assert expected == (distance >= 3 and hits > 30)
        assert found.reason == (note if expected else "")
        for options in ({"method": "jackknife"}, {"method": "dirichlet", "n_resamples": 20}):
            assert note not in average_precision_interval(scores, target, **options).reason
        both = average_precision_interval(torch.stack([scores, -scores], 1), torch.stack([target, target], 1))
        assert (f"1 of 2 rankings: {note}" in both.reason) == expected


def test_rare_hits_near_chance_have_a_reason():
    generator = torch.Generator().manual_seed(0)
    for share, distance in ((0.02, 0.0), (0.02, 2.5), (0.3, 0.0)):
        target = (torch.arange(1000) < 1000 * share).long()
        scores = torch.randn(1000, generator=generator) + distance * target
        found = average_precision_interval(scores, target, method="dirichlet", n_resamples=100)
        near = share <= 0.1 and float(found.low) < 2 * share
        assert near == (share < 0.1 and not distance)
        assert found.reason == (
            "rare hits, and a lower end near chance: the interval may be too narrow" if near else ""
        )
