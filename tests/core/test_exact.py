"""Mixed dtypes lose no value: concatenation, comparison with a setting, products of integers, sums."""

import itertools
import math

import pytest
import torch

from tests.support.each import each
from torch_ap import (
    BinaryAveragePrecision,
    MeanAveragePrecision,
    MulticlassAveragePrecision,
    RetrievalMAP,
    VOCMeanAveragePrecision,
)
from torch_ap.core.base import arrays, tensors
from torch_ap.core.base import tensors as value_rules
from torch_ap.core.measures import interpolation
from torch_ap.core.ranking import bins
from torch_ap.core.ranking.builders import from_ordered
from torch_ap.functional import binary_average_precision, counts_at_threshold, retrieval_average_precision
from torch_ap.retrieval.inputs import QueryInputs

WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def extremes(dtype):
    """Return numbers of a dtype that a narrower one would round or wrap."""
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return torch.tensor([info.min, -1 - info.eps, info.tiny, 1 + info.eps, info.max], dtype=dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.min + 1, info.max // 2 + 2, info.max - 1, info.max], dtype=dtype)


@each("dtypes", [*itertools.combinations(tensors.SCORES, 2), *itertools.combinations(tensors.SCORES, 3)])
def test_dtypes_join_without_loss_or_not_at_all(dtypes):
    parts = [extremes(dtype) for dtype in dtypes]
    if torch.int64 in dtypes and any(dtype.is_floating_point for dtype in dtypes):
        with pytest.raises(ValueError, match=r"`preds` .*int64 .*floating"):
            arrays.concatenate(parts)
        return
    assert arrays.concatenate(parts).tolist() == [x for part in parts for x in part.tolist()]


def test_a_part_of_no_items_does_not_matter():
    assert arrays.concatenate([torch.zeros(0), torch.tensor([2**53 + 1])]).tolist() == [2**53 + 1]


@each("first", list(WHOLE))
@each("second", list(REAL))
def test_batches_of_whole_scores_and_of_floats(first, second):
    """The relevant score is higher, and rounding would make both scores equal: the value is 1, and .5 with a tie."""
    high = min(torch.iinfo(first).max, 2**24 + 1 if second == torch.float32 else 2**11 + 1)
    low = math.ldexp(1, (high - 1).bit_length() - 1)
    scores = torch.tensor([high], dtype=first), torch.tensor([low], dtype=second)
    assert scores[1].item() == low < high
    binary, queries = BinaryAveragePrecision(), RetrievalMAP()
    zero = torch.zeros(1, dtype=torch.int64)
    binary.update(scores[0], zero + 1)
    queries.update(scores[0], zero + 1, zero)
    if first == torch.int64:
        for metric, more in ((binary, ()), (queries, (zero,))):
            with pytest.raises(ValueError, match=r"`preds` .*int64 .*`preds.double\(\)`"):
                metric.update(scores[1], zero, *more)
        return
    binary.update(scores[1], zero)
    queries.update(scores[1], zero, zero)
    assert binary.compute() == queries.compute() == 1


def image(score, label=0, **more):
    box = {"boxes": torch.tensor([[0.0, 0, 9, 9]]), "labels": torch.tensor([label])}
    return {**box, "scores": score, **more}, box


@pytest.mark.parametrize("metric", [MeanAveragePrecision, VOCMeanAveragePrecision])
def test_images_of_whole_scores_and_of_floats(metric):
    right, truth = image(torch.tensor([2**24 + 1], dtype=torch.int32))
    wrong, _ = image(torch.tensor([2.0**24]))
    together, separate = metric(), metric()
    wrong["boxes"] = wrong["boxes"] + 50
    together.update([wrong, right], [truth, truth])
    separate.update([wrong], [truth])
    separate.update([right], [truth])
    alone = metric()
    alone.update([{**x, "scores": x["scores"].double()} for x in (wrong, right)], [truth, truth])
    assert together.compute()["map"] == separate.compute()["map"] == alone.compute()["map"]
    right["scores"] = right["scores"].long()
    with pytest.raises(ValueError, match=r"`preds\[1\]\['scores'\]` must not be int64 .*"):
        metric().update([wrong, right], [truth, truth])
    with pytest.raises(ValueError, match="must not be int64"):
        separate.update([right], [truth])


@pytest.mark.parametrize("label", [2**31 - 1, 2**31, 2**40, -(2**31), -(2**31) - 1])
@pytest.mark.parametrize("metric", [MeanAveragePrecision, VOCMeanAveragePrecision])
def test_labels_come_back_as_they_are(metric, label):
    metric = metric()
    found, truth = image(torch.tensor([0.5]), label)
    metric.update([found], [truth])
    classes = metric.compute()["classes"]
    assert classes.reshape(-1).tolist() == [label]
    assert classes.dtype == (torch.int32 if -(2**31) <= label < 2**31 else torch.int64)


def test_labels_beyond_int64():
    found, truth = image(torch.tensor([0.5]))
    found["labels"] = found["labels"].to(torch.uint64)
    with pytest.raises(ValueError, match=r"`preds\[0\]\['labels'\]` must .*integer.* got torch.uint64"):
        MeanAveragePrecision().update([found], [truth])


LEVELS = [-(2**70), -(2**33), -257, -129, -1, -0.5, 0, 0.3, 1, 1.5, 127, 128, 255, 256, 257, 2049, 65504, 2**17]
LEVELS += [2**24 + 1, 2**31, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**70, 1e300, -1e300]


@each("level", list(LEVELS))
def test_relevance_levels_do_not_wrap(level):
    for dtype in (*WHOLE, *REAL, torch.bool):
        target = (
            torch.tensor([0, 1]).bool()
            if dtype == torch.bool
            else torch.cat([extremes(dtype), torch.arange(3).to(dtype)])
        )
        found = QueryInputs(relevance_level=level)._relevance(target).tolist()
        # a fraction is compared in the dtype of the floats; whole numbers are compared exactly
        read = torch.tensor(level, dtype=dtype).item() if dtype.is_floating_point and level % 1 else level
        assert found == [int(x >= read) for x in target.tolist()], dtype


def test_relevance_levels_beyond_every_float():
    with pytest.raises(ValueError, match=r"`relevance_level` .*finite"):
        RetrievalMAP(relevance_level=10**400)


@pytest.mark.parametrize("value", [-1, 0, 255, 256, 257, 2049, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 10**400])
def test_ignored_values_do_not_wrap(value):
    for dtype in (*WHOLE, *REAL):
        target = torch.cat(
            [extremes(dtype), torch.arange(3).to(dtype), torch.tensor([127, 256.0, 2048, 2.0**24]).to(dtype)]
        )
        found = value_rules.is_ignored(target, value)
        wanted = [x == value for x in target.tolist()]
        assert wanted == ([False] * len(target) if found is None else found.tolist()), dtype


EDGES = [-math.inf, -(2.0**63), -(2.0**53), -0.5, 0.0, 0.5, 2.0**24, 2.0**53, 2.0**53 + 2, 2.0**63, 1e300, math.inf]
WHOLE_EDGES = [-(2**63), -(2**53) - 1, 0, 2**24 + 1, 2**53 + 1, 2**62 + 1, 2**63 - 1]


@each("dtype", list(tensors.SCORES))
@each("edges", [torch.tensor(EDGES, dtype=torch.float64), torch.tensor(WHOLE_EDGES)])
def test_thresholds_are_compared_exactly(dtype, edges):
    around = [x + shift for x in (0, 2**24, 2**53, 2**62) for shift in (-1, 0, 1, 2)]
    scores = torch.cat(
        [
            extremes(dtype),
            torch.tensor(
                [x for x in around if not dtype.is_floating_point and x <= torch.iinfo(dtype).max]
                or [0.0, 2.0**24, 2.0**53]
            ).to(dtype),
        ]
    )
    expected = [sum(score >= edge for edge in edges.tolist()) for score in scores.tolist()]
    assert bins.count_thresholds(scores, edges).tolist() == expected


def test_a_threshold_of_whole_scores():
    scores, target = torch.tensor([2**53, 2**53 + 1]), torch.tensor([0, 1])
    assert counts_at_threshold(scores, target, 2**53 + 1).precision == 1
    assert counts_at_threshold(scores, target, torch.tensor(2**53 + 1)).precision == 1


@pytest.mark.parametrize("size", [1e288, 1e280])
def test_large_weights_have_a_sum(size):
    preds, target = torch.rand(1000, generator=torch.Generator().manual_seed(0)), torch.arange(1000) % 3 == 0
    weights = torch.arange(1.0, 1001, dtype=torch.float64)
    wanted = binary_average_precision(preds, target, weights=weights, dtype=torch.float64)
    scaled = weights / 1000 * size
    torch.testing.assert_close(binary_average_precision(preds, target, weights=scaled, dtype=torch.float64), wanted)
    metric = BinaryAveragePrecision(thresholds=torch.linspace(0, 1, 5)).set_dtype(torch.float64)
    metric.update(preds, target, scaled)
    metric.update(preds, target, scaled)
    assert metric.compute().isfinite()


@pytest.mark.parametrize("settings", [{}, {"thresholds": 5}])
@pytest.mark.parametrize("weight", [1e289, 1e308, math.inf])
def test_weights_without_a_sum_are_refused(settings, weight):
    metric = BinaryAveragePrecision(**settings)
    bad = torch.tensor([1, weight], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"`weights` .*finite.* got .* at index 1"):
        metric.update(torch.tensor([0.1, 0.2]), torch.tensor([1, 0]), bad)


def test_whole_weights_before_and_after_fractions():
    preds, target = torch.tensor([0.1, 0.2]), torch.tensor([1, 0])
    metric = BinaryAveragePrecision()
    for weights in (torch.tensor([2**24 + 1, 1]), torch.tensor([0.5, 0.5]), torch.tensor([3, 1])):
        metric.update(preds, target, weights)
    assert arrays.concatenate(metric.weights).tolist() == [2**24 + 1, 1, 0.5, 0.5, 3, 1]


@pytest.mark.parametrize("m", [2, 2**31, 2**53 + 1, 2**62, 2**63 - 1])
@pytest.mark.parametrize("name", ["11-point", "11-point-trec9", "11-point-trec10"])
def test_many_relevant_items(m, name):
    """Several queries have the values of each query alone, and of the definition."""
    preds, target = torch.tensor([[3.0, 2, 1]]).repeat(4, 1), torch.tensor([[1, 0, 1]]).repeat(4, 1)
    words = {"interpolation": name, "ties": "grouped", "dtype": torch.float64}
    counts = torch.tensor([2, m, 3, m])
    values = retrieval_average_precision(preds, target, num_relevant=counts, **words)
    alone = [retrieval_average_precision(preds[0], target[0], num_relevant=int(x), **words) for x in counts]
    assert values.tolist() == [x.item() for x in alone]
    if m > 2**30:  # only the level 0, which the first hit reaches
        assert values[1].item() == pytest.approx(1 / 11)


def test_cuts_do_not_wrap():
    curve = from_ordered(torch.tensor([1, 1, 1]), torch.tensor([True] * 3), torch.tensor([0, 1, 2, 3]))
    found = interpolation.precision_at_hits(curve, torch.tensor([[1, 2**63 - 1], [2, 2**62], [0, 1]]))
    assert found.tolist() == [[1, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_class_ids_of_a_narrow_dtype(dtype):
    """The largest class, 999, wraps in the dtype of the targets; the message contains the original value."""
    metric, preds = MulticlassAveragePrecision(1000, normalization="softmax"), torch.rand(4, 1000)
    metric.update(preds, torch.tensor([0, 1, 100, 127]).to(dtype))
    if dtype == torch.int8:
        with pytest.raises(ValueError, match="got -3 at index 2"):
            metric.update(preds, torch.tensor([0, 1, -3, 127]).to(dtype))
    flags = value_rules.check_classification(
        preds.to("meta"), torch.tensor([240]).to("meta", dtype), None, top=999, scores_in=""
    )
    assert flags is not None
    assert value_rules.clamp_limit(999, torch.zeros(1, dtype=dtype)) == torch.iinfo(dtype).max
