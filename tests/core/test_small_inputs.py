"""Small inputs have a shorter path to the hit curve: equal bits of values and equal errors."""

import re
import warnings
from functools import cache, partial

import pytest
import torch

import torch_ap
from tests.support.each import each
from torch_ap import functional
from torch_ap.core.base import cached
from torch_ap.core.ranking import few_items
from torch_ap.retrieval import settings

QUERY_MEASURES = ("precision", "recall", "f_beta", "fall_out", "hit_rate", "reciprocal_rank")
TIES = ("grouped", "expected", "optimistic", "pessimistic")
DEPTHS = (None, 1, 3, 100)
FUNCTIONS = {
    **{
        f"retrieval_{name}, top_k={k}, {ties}": partial(getattr(functional, f"retrieval_{name}"), top_k=k, ties=ties)
        for name in QUERY_MEASURES
        for k in DEPTHS
        for ties in TIES
    },
    **{
        f"retrieval_{name}, top_k={k}": partial(getattr(functional, f"retrieval_{name}"), top_k=k)
        for name in ("average_precision", "precision", "normalized_dcg")
        for k in ([1, 3], ["relevant", 2], "relevant")
    },
    **{
        f"retrieval_normalized_dcg, top_k={k}, {gains}, {ties}": partial(
            functional.retrieval_normalized_dcg, top_k=k, gains=gains, ties=ties
        )
        for k in DEPTHS
        for gains in ("linear", "exponential")
        for ties in TIES
    },
    **{f"retrieval_r_precision, {ties}": partial(functional.retrieval_r_precision, ties=ties) for ties in TIES},
    **{
        f"{name}, top_k={k}, {denominator}, {ties}": partial(
            getattr(functional, name), top_k=k, denominator=denominator, ties=ties
        )
        for name in ("binary_average_precision", "retrieval_average_precision")
        for k in DEPTHS
        for denominator in ("min", "relevant", "found")
        for ties in TIES
    },
    **{
        f"{name}, {interpolation}": partial(getattr(functional, name), interpolation=interpolation)
        for name in ("binary_average_precision", "retrieval_average_precision")
        for interpolation in ("11-point", "101-point", "all-points", "trapezoid")
    },
    "multilabel": lambda preds, target: functional.multilabel_average_precision(
        torch.stack([preds, -preds], 1), torch.stack([target, target], 1), 2
    ),
    "multiclass": lambda preds, target: functional.multiclass_average_precision(
        torch.stack([preds, -preds], 1), target, 2, normalization="none"
    ),
}


@cache
def batches():
    """Return untied and tied batches of many sizes and every dtype, with no hit, some hits and only hits."""
    found, generator = [], torch.Generator().manual_seed(5)
    for size in (1, 2, 10, 40):
        for share in (0, 0.3, 1):
            target = (torch.rand(size, generator=generator) < share).long()
            untied = torch.randperm(size, generator=generator).float() - size // 2
            tied = torch.randint(-2, 3, (size,), generator=generator).float()
            for preds in (untied, tied, untied * torch.inf if size == 2 else -untied):
                preds = preds.nan_to_num(0, torch.inf, -torch.inf)
                found.append((preds, target))
        found.append((untied.double(), target.bool()))
        found.append((tied.double() / 3, (target * untied > 0).to(torch.uint8)))
        found.append((untied.to(torch.int64), (target * untied > 0).to(torch.int32)))
        found.append((tied.to(torch.bfloat16), (untied > 0).long()))
    found.append((torch.randint(0, 30, (300,), generator=generator) / 30, torch.arange(300) % 7 // 6))
    return found


def outcome(call, *args):
    """Return the value, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = call(*args)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return value.dtype, value.shape, value.nan_to_num(-1).tolist()


@pytest.fixture
def longer(monkeypatch):
    """Return a function that calls another one with the code for larger inputs."""

    def run(call, *args):
        with monkeypatch.context() as patch:
            patch.setattr(settings, "LISTED", 0)
            patch.setattr(few_items, "FEW_ITEMS", 0)
            patch.setattr(few_items, "FEW_OF_SEVERAL", 0)
            return outcome(call, *args)

    return run


@each("place, name", {name: (place, name) for place, name in enumerate(FUNCTIONS)})
def test_both_ways_give_one_value(place, name, longer):
    """Each function gets every third batch; functions next to it, with other ties and depths, get the others."""
    for args in batches()[place % 3 :: 3]:
        assert outcome(FUNCTIONS[name], *args) == longer(FUNCTIONS[name], *args), args


def rows():
    """Yield numbers of rows below and above the limit, some without a hit; only nDCG takes grades as fractions."""
    generator = torch.Generator().manual_seed(6)
    for number, items in ((1, 10), (3, 5), (12, 10), (4, 32), (2, 33), (20, 10), (0, 3), (3, 0)):
        preds = torch.rand(number, items, generator=generator)
        target = torch.randint(0, 4, (number, items), generator=generator) * (preds > 0.5)
        yield preds, target.index_fill(1, torch.arange(min(items, 1)), 2)
        yield preds.double(), target > 1
        yield (preds * 9).long(), target.float() / 2


@each("place, name", [x for x in enumerate(FUNCTIONS) if x[1].startswith("retrieval")])
def test_rows_have_one_value_both_ways(place, name, longer):
    for args in list(rows())[place % 5 :: 5]:  # see above
        assert outcome(FUNCTIONS[name], *args) == longer(FUNCTIONS[name], *args), args


def test_rows_in_every_dtype_of_results(longer):
    args = torch.tensor([[0.3, 0.1, 0.2], [0.1, 0.5, 0.2]]), torch.tensor([[0, 1, 1], [1, 0, 0]])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64):
        call = partial(functional.retrieval_average_precision, dtype=dtype)
        assert outcome(call, *args) == longer(call, *args)
    assert functional.retrieval_average_precision(*args, dtype=torch.float64).tolist() == [(1 / 2 + 2 / 3) / 2, 1 / 3]


@pytest.mark.parametrize("name", ["average_precision", "normalized_dcg"])
def test_sums_of_the_top_have_the_same_last_bit(name, longer):
    """In float64, with more hits and grades than are added one by one, but fewer in the top k."""
    function, generator = getattr(functional, f"retrieval_{name}"), torch.Generator().manual_seed(7)
    for k in (3, 4, 5, 6, 8, 12, "relevant"):
        preds = torch.rand(20, 30, dtype=torch.float64, generator=generator)
        target = torch.randint(0, 4, (20, 30), generator=generator)
        for args in ((preds, target), (preds[0], target[0]), (preds[1], target[1])):
            assert outcome(partial(function, top_k=k), *args) == longer(partial(function, top_k=k), *args), k


def bad_batches():
    """Return invalid inputs, and valid ones that are unusual."""
    preds, target = torch.tensor([0.3, 0.1, 0.2]), torch.tensor([1, 0, 1])
    return {
        "NaN score": (torch.tensor([0.3, torch.nan, 0.2]), target),
        "all NaN": (torch.full((3,), torch.nan), target),
        "NaN score in rows": (torch.tensor([[0.3, 0.1, 0.2], [0.3, torch.nan, 0.2]]), target.expand(2, 3)),
        "target 2": (preds, torch.tensor([1, 2, 0])),
        "negative target": (preds, torch.tensor([1, -1, 0])),
        "half target": (preds, torch.tensor([1, 0.5, 0])),
        "no tensor": ([0.3, 0.1, 0.2], target),
        "no tensor target": (preds, [1, 0, 1]),
        "other shape": (preds, target[:2]),
        "0-d": (preds[0], target[0]),
        "2-D": (preds[None], target[None]),
        "empty": (preds[:0], target[:0]),
        "bool scores": (preds > 0.15, target),
        "complex scores": (preds + 0j, target),
        "gradient": (preds.clone().requires_grad_(), target),
        "strided": (torch.rand(6)[::2], target),
    }


@pytest.mark.parametrize("what", bad_batches())
def test_both_ways_give_one_error(what, longer):
    args = bad_batches()[what]
    for name in FUNCTIONS:
        if name.startswith(("retrieval", "binary")):
            assert outcome(FUNCTIONS[name], *args) == longer(FUNCTIONS[name], *args), name
    metric = torch_ap.RetrievalMAP()
    assert outcome(updated, metric, *args) == longer(updated, torch_ap.RetrievalMAP(), *args)


def updated(metric, preds, target):
    """Return the value after an update with one index per item."""
    indexes = torch.zeros(preds.shape, dtype=torch.long) if isinstance(preds, torch.Tensor) else None
    metric.update(preds, target, indexes)
    return metric.compute()


def test_a_setting_of_another_type_raises_after_an_equal_one_was_cached():
    preds, target = torch.tensor([0.3, 0.1]), torch.tensor([1, 0])
    assert functional.retrieval_precision(preds, target, 1) == 1
    for wrong in (True, 1.0, [[1]], torch.tensor(1)):
        inner = wrong[0] if isinstance(wrong, list) else wrong  # a list of ints gives one k after the other
        with pytest.raises(ValueError, match=f"`top_k` .*got {re.escape(repr(inner))}"):
            functional.retrieval_precision(preds, target, wrong)
        with pytest.raises(ValueError, match=f"`top_k` .*got {re.escape(repr(wrong))}"):
            functional.binary_average_precision(preds, target, top_k=wrong)
    with pytest.raises(ValueError, match=r"`empty_target_action` .*one of .*got 'none'"):
        functional.retrieval_precision(preds, target, empty_target_action="none")


def test_levels_are_read_again_after_a_write():
    preds, target, levels = torch.tensor([0.3, 0.2, 0.1]), torch.tensor([1, 0, 1]), torch.tensor([0.0])
    assert functional.binary_average_precision(preds, target, interpolation=levels) == 1
    levels.fill_(1.0)
    assert functional.binary_average_precision(preds, target, interpolation=levels) == torch.tensor(2 / 3)


def test_the_cache_is_bounded():
    made = cached.settings_cache(lambda value: [value])
    assert made(1) is made(1)
    assert made(value=2) is made(value=2) is not made(value=2.0)
    levels = torch.tensor([0.0])
    for owned in (levels, lambda: levels):
        assert made(owned) is not made(owned)
        assert made(value=owned) is not made(value=owned)
    first = made(0)
    for value in range(1000):
        made(value)
    assert made(0) is not first


def test_metrics_leave_the_callers_tensors_alone():
    preds, target, indexes = torch.tensor([0.3, 0.1]), torch.tensor([1, 0]), torch.tensor([0, 0])
    metric = torch_ap.RetrievalMAP()
    metric.update(preds, target, indexes)
    for given in (preds, target, indexes):
        given.fill_(7)
    assert metric.compute() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("extreme", ["min", "max"])
def test_scores_of_any_size_are_checked_without_a_warning(dtype, extreme):
    scores = torch.tensor([getattr(torch.finfo(dtype), extreme), 0.5, -0.5], dtype=dtype)
    target, indexes = torch.tensor([0, 1, 1]), torch.zeros(3, dtype=torch.int64)
    expected = 1.0 if extreme == "min" else (1 / 2 + 2 / 3) / 2
    classifier, queries = torch_ap.BinaryAveragePrecision(), torch_ap.RetrievalMAP()
    classifier.update(scores, target)
    queries.update(scores, target, indexes)
    values = [classifier.compute(), queries.compute(), functional.binary_average_precision(scores, target)]
    assert [float(x) for x in values] == pytest.approx([expected] * 3)
    assert float(functional.counts_at_k(scores, target, 2).precision) == (1.0 if extreme == "min" else 0.5)
