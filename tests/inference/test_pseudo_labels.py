import itertools
import math
from fractions import Fraction
from functools import partial

import pytest
import torch

from tests.support import oracles_inference as oracles
from tests.support.tolerances import REORDERED, SINGLE, SOLVED
from torch_ap import BinaryAveragePrecision, RetrievalMAP, RetrievalPrecision
from torch_ap.inference import (
    average_precision_interval,
    noisy_average_precision_interval,
    prediction_powered_average_precision_interval,
    prediction_powered_mean_interval,
)
from torch_ap.inference.pseudo_labels import average_precision_of_pseudo_labels


def sample(n=200, seed=0, few_scores=False, share=0.3):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < share).long()
    scores = torch.randn(n, generator=generator, dtype=torch.float64) + 1.5 * target
    return (scores * 2).round() if few_scores else scores, target


def test_labels_of_0_and_1_give_the_average_precision():
    for few_scores in (False, True):
        scores, target = sample(40, few_scores=few_scores)
        found = average_precision_of_pseudo_labels(scores, target.double())
        assert float(found.value) == pytest.approx(float(oracles.grouped(scores.tolist(), target.tolist())))


def test_the_sum_of_precisions_is_unbiased_under_all_flips():
    """Enumerate all flips of five labels: the mean of M times the corrected AP is that of the true labels."""
    alpha, beta = 0.1, 0.3
    for scores, truth in (([5, 4, 3, 2, 1], [1, 0, 1, 1, 0]), ([2, 2, 2, 1, 1], [1, 0, 1, 0, 1])):
        total = hits = 0.0
        for flips in itertools.product((0, 1), repeat=5):
            rates = [beta if y else alpha for y in truth]
            chance = math.prod(r if x else 1 - r for r, x in zip(rates, flips, strict=True))
            labels = torch.tensor([y ^ x for y, x in zip(truth, flips, strict=True)], dtype=torch.float64)
            found = average_precision_of_pseudo_labels(torch.tensor(scores), (labels - alpha) / (1 - alpha - beta))
            total += chance * float(found.value * found.total)
            hits += chance * float(found.total)
        assert total == pytest.approx(float(oracles.grouped(scores, truth) * sum(truth)))
        assert hits == pytest.approx(sum(truth))


def test_terms_are_derivatives_in_the_weight_of_an_item():
    scores, target = sample(25, few_scores=True)
    labels = (target.double() - 0.1) / 0.7
    found = average_precision_of_pseudo_labels(scores, labels)

    def value(weights):
        """Repeat the definition with weights; S is linear in the weights."""
        h = t = total = 0.0
        for score in sorted(set(scores.tolist()), reverse=True):
            group = scores == score
            d, s, g = (float((weights * x)[group].sum()) for x in (labels, labels**2, torch.ones_like(labels)))
            h, t = h + d, t + g
            total += (d * h + d - s) / t
        return total / h

    step, ones = 1e-6, torch.ones(25, dtype=torch.float64)
    for item in range(25):
        shift = step * (torch.arange(25) == item)
        slope = (value(ones + shift) - value(ones - shift)) / (2 * step)
        # an item's own square counts in d H, and the definition counts it once
        wanted = float(labels[item] * found.slope[item] + found.offset[item])
        group = int((scores >= scores[item]).sum())
        own = float(labels[item] * (labels[item] - labels[item] ** 2 / labels[item]) / group / found.total)
        assert wanted + own == pytest.approx(slope, abs=1e-7)  # finite differences or roots


@pytest.mark.parametrize("separation", [0.0, 100.0])
def test_no_noise_is_the_average_precision(separation):
    scores, target = sample()
    scores = scores + separation * target
    for labels in (target, target * 0, target * 0 + 1):
        plain = average_precision_interval(scores, labels)
        assert noisy_average_precision_interval(scores, labels) == plain
        assert noisy_metric(scores, labels).noisy_interval() == plain
    few = noisy_average_precision_interval(scores, target, false_negative_rate=1e-12)
    if not separation:
        plain = average_precision_interval(scores, target)
        assert float(few.estimate) == pytest.approx(float(plain.estimate), rel=REORDERED)
        # delta method of one more factor
        assert float(few.standard_error) == pytest.approx(float(plain.standard_error), rel=0.01)


def test_noise_that_explains_all_hits_and_bad_rates():
    scores, target = sample()
    found = noisy_average_precision_interval(scores, target, false_positive_rate=0.3)
    assert math.isnan(found.estimate)
    assert "may explain all hits" in found.reason
    few = noisy_average_precision_interval(torch.arange(9.0), torch.tensor([0] * 8 + [1]), false_negative_rate=0.1)
    assert math.isnan(few.low)
    above = noisy_average_precision_interval(
        torch.arange(30.0, 0, -1), torch.tensor([1] * 12 + [0] * 18), false_positive_rate=0.1
    )
    assert (float(above.estimate), math.isnan(above.low)) == (1, True)
    assert "the corrected AP, 1.08, is not between 0 and 1, and the rates may be too high" in above.reason
    many = noisy_average_precision_interval(scores, target, false_negative_rate=0.99)
    assert math.isnan(many.estimate)
    assert f"{100 * int(target.sum())} corrected hits of 200 items" in many.reason
    for rates in ({"false_positive_rate": 0.6, "false_negative_rate": 0.4}, {"false_positive_rate": -1}):
        with pytest.raises(ValueError, match="`false_positive_rate`"):
            noisy_average_precision_interval(scores, target, **rates)


def noisy_metric(scores, target, **settings):
    metric = BinaryAveragePrecision(**settings)
    for batch in zip(scores.split(70), target.split(70), strict=True):
        metric.update(*batch)
    return metric


def test_methods_of_the_metric_equal_the_functions():
    scores, target = sample()
    rates = {"false_positive_rate": 0.02, "false_negative_rate": 0.1, "confidence_level": 0.8}
    found, wanted = (
        noisy_metric(scores, target).noisy_interval(**rates),
        noisy_average_precision_interval(scores, target, **rates),
    )
    assert found.to_dict() == wanted.to_dict()
    scores, human, judge = judged()
    pair = [noisy_metric(scores, x, ignore_index=-1) for x in (human, judge)]
    found = pair[0].prediction_powered_interval(pair[1], confidence_level=0.9)
    wanted = prediction_powered_average_precision_interval(scores, human, judge, confidence_level=0.9)
    assert found.to_dict() == wanted.to_dict()
    ignored = noisy_metric(scores, human, ignore_index=-1).noisy_interval(false_positive_rate=0.05)
    labeled = human >= 0
    plain = noisy_average_precision_interval(scores[labeled], human[labeled], false_positive_rate=0.05)
    assert ignored.to_dict() == plain.to_dict()


def test_items_without_an_interval_of_pseudo_labels():
    scores, human, judge = judged(n=60, labeled=40)
    own = {"ignore_index": -1}
    human_metric = noisy_metric(scores, human, **own)
    other_scores, gaps = noisy_metric(-scores, judge, **own), noisy_metric(scores, human, **own)
    for metric, message in (
        (BinaryAveragePrecision(), "same settings"),
        (other_scores, "same scores in the same order"),
        (gaps, "a label of each item"),
        (RetrievalMAP(), "be a BinaryAveragePrecision"),
    ):
        with pytest.raises(ValueError, match=f"`judge` must .*{message}"):
            human_metric.prediction_powered_interval(metric)
    grouped = BinaryAveragePrecision()
    grouped.update(scores, judge, groups=torch.arange(60))
    weighted = BinaryAveragePrecision()
    weighted.update(scores, judge, torch.rand(60))
    for metric, name in (
        (grouped, "groups"),
        (weighted, "weights"),
        (noisy_metric(torch.sigmoid(scores), judge, thresholds=5), "thresholds"),
        (noisy_metric(scores, judge, top_k=5), "top_k"),
        (noisy_metric(scores, judge, interpolation="11-point"), "interpolation"),
        (noisy_metric(scores.round(), judge, ties="expected"), "ties"),
        (noisy_metric(scores, judge, prevalence=0.1), "prevalence"),
    ):
        for compute in (metric.noisy_interval, lambda metric=metric: metric.prediction_powered_interval(metric)):
            with pytest.raises(ValueError, match=f"`{name}`"):
                compute()


def test_queries_with_human_labels_in_any_order():
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(60, 8, generator=generator)
    truth = (torch.rand(60, 8, generator=generator) < 0.3).long()
    judge_labels = torch.where(torch.rand(60, 8, generator=generator) < 0.1, 1 - truth, truth)
    chosen = torch.randperm(60, generator=generator)[:25]
    for make in (RetrievalMAP, partial(RetrievalPrecision, top_k=3)):
        human, judge = make(), make()
        for metric, queries, labels in ((human, chosen, truth), (judge, torch.arange(60).flip(0), judge_labels)):
            indexes = queries.repeat_interleave(8) + 100
            metric.update(scores[queries].flatten(), labels[queries].flatten(), indexes)
        found = human.prediction_powered_interval(judge)
        values = torch.full((60,), torch.nan, dtype=torch.float64)
        queries, own = human.per_query()
        values[queries - 100] = own.double()
        wanted = prediction_powered_mean_interval(values, judge.per_query()[1].double())
        for name in ("low", "estimate", "high", "human_low", "judge_weight"):
            assert float(getattr(found, name)) == pytest.approx(float(getattr(wanted, name)), rel=SINGLE)
        with pytest.raises(ValueError, match=r"`judge` must .*all queries"):
            judge.prediction_powered_interval(human)
    for make, message in (
        (partial(RetrievalMAP, "skip"), "empty_target_action"),
        (partial(RetrievalMAP, aggregation="median"), "aggregation"),
        (partial(RetrievalMAP, top_k=[1, 2]), "top_k"),
    ):
        metric = make()
        metric.update(scores, truth * (torch.arange(60)[:, None] > 3))
        with pytest.raises(ValueError, match=f"`{message}`"):
            metric.prediction_powered_interval(metric)
    metric = RetrievalMAP()
    metric.update(scores, truth, groups=torch.arange(60))
    with pytest.raises(ValueError, match="`groups` cannot be combined"):
        metric.prediction_powered_interval(metric)


def judged(n=600, labeled=150, errors=0.1, seed=1):
    scores, truth = sample(n, seed)
    generator = torch.Generator().manual_seed(seed)
    judge = torch.where(torch.rand(n, generator=generator) < errors, 1 - truth, truth)
    chosen = torch.randperm(n, generator=generator)[:labeled]
    human = torch.full_like(truth, -1)
    human[chosen] = truth[chosen]
    return scores, human, judge


def test_prediction_powered_average_precision_by_formula():
    scores, human, judge = judged(errors=0.02)
    found = prediction_powered_average_precision_interval(scores, human, judge)
    labeled = human >= 0
    logits = [
        torch.logit(average_precision_of_pseudo_labels(s, y.double()).value)
        for s, y in ((scores[labeled], human[labeled]), (scores[labeled], judge[labeled]), (scores, judge))
    ]
    weight = float(found.judge_weight)
    wanted = torch.sigmoid(logits[0] - weight * (logits[1] - logits[2]))
    assert float(found.estimate) == pytest.approx(float(wanted), rel=SOLVED)
    assert 0.5 < weight <= 1
    assert found.low < found.estimate < found.high
    assert found.high - found.low < 0.9 * (found.human_high - found.human_low)
    alone = average_precision_interval(scores[labeled], human[labeled])
    assert (found.human_low, found.human_high, found.human_estimate) == (alone.low, alone.high, alone.estimate)
    # no other weight has a smaller variance
    from torch_ap.inference import prediction_powered as module

    own, everyone = (
        module._logit_terms(*x)[1] for x in ((scores[labeled], human[labeled].double()), (scores, judge.double()))
    )
    n, total = int(labeled.sum()), len(scores)

    def variance(weight):
        x = own / n - weight * everyone[labeled] * (1 / n - 1 / total)
        y = weight * everyone[~labeled] / total
        return float(x.var() * n + y.var() * (total - n))

    error = float(found.standard_error / (found.estimate * (1 - found.estimate)))
    assert error**2 == pytest.approx(variance(weight))
    assert variance(weight) <= min(variance(weight + step) for step in (-0.01, 0.01))


def test_human_labels_of_the_highest_scores_are_no_random_sample():
    scores, human, judge = judged()
    truth = torch.where(human >= 0, human, judge)
    assert "random sample" not in prediction_powered_average_precision_interval(scores, human, judge).reason
    for order, text in ((scores, "higher scores"), (-scores, "lower scores"), (judge, "higher judge labels")):
        top = torch.full_like(truth, -1)
        chosen = order.double().topk(200).indices
        top[chosen] = truth[chosen]
        with pytest.warns(UserWarning, match="no random sample"):
            found = prediction_powered_average_precision_interval(scores, top, judge)
        assert text in found.reason
    values = torch.linspace(0, 1, 300, dtype=torch.float64)
    chosen = torch.arange(300) >= 200
    with pytest.warns(UserWarning, match="higher judge values"):
        found = prediction_powered_mean_interval(torch.where(chosen, values, torch.nan), values)
    assert "no random sample" in found.reason
    some = torch.where(torch.arange(300) % 3 == 0, values, torch.nan)
    assert prediction_powered_mean_interval(some, values).reason == ""
    same = prediction_powered_mean_interval(some, torch.full_like(values, 0.5))
    assert same.reason == ""


def test_a_judge_without_information_gives_the_human_interval():
    scores, human, judge = judged()
    for constant in (torch.zeros_like(judge), torch.ones_like(judge)):
        found = prediction_powered_average_precision_interval(scores, human, constant)
        assert float(found.estimate) == pytest.approx(float(found.human_estimate))
        assert float(found.judge_weight) == 0
    random = judge[torch.randperm(len(judge), generator=torch.Generator().manual_seed(2))]
    found = prediction_powered_average_precision_interval(scores, human, random.double() / 2)
    assert found.high - found.low < 1.1 * (found.human_high - found.human_low)
    everyone = torch.where(human >= 0, human, judge)
    full = prediction_powered_average_precision_interval(scores, everyone, judge)
    assert float(full.estimate) == pytest.approx(float(full.human_estimate))


def test_prediction_powered_edges():
    scores, human, judge = judged(60, 20)
    assert "human labels of one kind" in prediction_powered_average_precision_interval(scores, human, judge).reason
    perfect = prediction_powered_average_precision_interval(
        torch.arange(40.0), torch.tensor([0] * 5 + [-1] * 30 + [1] * 5), torch.arange(40) // 20
    )
    assert math.isnan(perfect.low)
    assert "AP of 1" in perfect.reason
    one = prediction_powered_average_precision_interval(scores[:9], human[:9].clamp(max=0).clone().fill_(0), judge[:9])
    assert "no hits" in one.reason
    for bad, name in (
        ({"target": torch.full_like(human, -1)}, "target"),
        ({"judge": judge * 2}, "judge"),
        ({"judge": judge[:5]}, "judge"),
        ({"judge": torch.full((60,), torch.nan)}, "judge"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            prediction_powered_average_precision_interval(**{"preds": scores, "target": human, "judge": judge, **bad})


def test_prediction_powered_mean_by_formula():
    judge = torch.tensor([0.1, 0.9, 0.4, 0.6, 0.8, 0.2, 0.5, 0.7], dtype=torch.float64)
    human = torch.tensor([0.2, 1.0, 0.3, 0.5, *[math.nan] * 4], dtype=torch.float64)
    found = prediction_powered_mean_interval(human, judge)
    y, f = human[:4], judge[:4]
    # Angelopoulos, Duchi & Zrnic (2023), example 6.1, for a sample that is part of all units
    covariance = float(((y - y.mean()) * (f - f.mean())).sum() / 3) * (1 / 4 - 1 / 8)
    spread = float(f.var()) * 4 * (1 / 4 - 1 / 8) ** 2 + float(judge[4:].var()) * 4 / 64
    weight = min(1.0, covariance / spread)
    assert float(found.judge_weight) == pytest.approx(weight)
    assert float(found.estimate) == pytest.approx(float(y.mean() - weight * (f.mean() - judge.mean())))
    variance = float(y.var()) / 4 - 2 * weight * covariance + weight**2 * spread
    assert float(found.standard_error) == pytest.approx(math.sqrt(variance))
    assert "4 units" in found.reason
    assert 0 <= found.low < found.estimate < found.high <= 1


def test_prediction_powered_mean_edges():
    judge = torch.linspace(0, 1, 20)
    one = prediction_powered_mean_interval(torch.where(torch.arange(20) == 3, 0.5, torch.nan), judge)
    assert math.isnan(one.low)
    assert "one unit" in one.reason
    ones = prediction_powered_mean_interval(torch.where(torch.arange(20) < 16, 1.0, torch.nan), judge)
    assert ones.low < 1
    assert ones.high == 1
    for values, other, name in (
        (judge * 2, judge, "values"),
        (judge[None], judge[None], "values"),
        (judge, judge[:3], "judge_values"),
        (judge, torch.full((20,), math.nan), "judge_values"),
        (torch.full((20,), math.nan), judge, "values"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            prediction_powered_mean_interval(values, other)


def test_exact_fractions_of_a_tie_group():
    """Three tied items with one soft label each: d H + d - S over t."""
    labels = [Fraction(1, 2), Fraction(1), Fraction(1, 4)]
    d, s = sum(labels), sum(x * x for x in labels)
    found = average_precision_of_pseudo_labels(torch.zeros(3), torch.tensor([float(x) for x in labels]).double())
    assert float(found.value) == pytest.approx(float((d * d + d - s) / 3 / d))
