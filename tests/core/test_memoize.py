"""Memoized results of tensors: computed again only after the tensors or their values change."""

import gc
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import torch_ap
from torch_ap.core.base.cached import memoize, settings_cache


def test_the_same_tensors_unchanged():
    made = []
    tensors = [torch.zeros(3), torch.ones(2)]

    def make():
        made.append(1)
        return sum(x.sum().item() for x in tensors)

    assert memoize(make, make, tensors) == memoize(make, make, tensors) == 2
    assert len(made) == 1
    tensors[0].add_(1)
    assert memoize(make, make, tensors) == 5
    tensors.append(torch.ones(1))
    assert memoize(make, make, tensors) == 6
    tensors[1] = torch.zeros(2)
    assert memoize(make, make, tensors) == 4


def test_other_results_of_the_same_tensors():
    tensors = [torch.zeros(3)]
    assert memoize(lambda: "a", max, tensors) == "a"
    assert memoize(lambda: "b", min, tensors) == "b"
    assert memoize(lambda: "c", max, tensors) == "a"


def test_freed_tensors_are_distinguished_by_identity():
    kept, dying = [torch.zeros(3), torch.zeros(1)], [torch.zeros(2), torch.zeros(1)]
    assert memoize(lambda: "a", max, kept) == "a"
    assert memoize(lambda: "b", max, dying) == "b"
    del dying[1]
    gc.collect()
    assert memoize(lambda: "c", min, kept) == "c"
    assert memoize(lambda: "d", max, kept) == "a"


def test_results_without_tensors_are_not_memoized():
    assert memoize(lambda: 1, max, []) == 1
    assert memoize(lambda: 2, max, []) == 2


def test_results_go_with_their_tensors():
    class Result:
        pass

    tensors = [torch.zeros(3)]
    result = weakref.ref(memoize(Result, max, tensors))
    assert result() is not None
    del tensors
    memoize(Result, max, [torch.zeros(1)])
    gc.collect()
    assert result() is None


def test_settings_that_are_written_to():
    made = settings_cache(lambda *values, **named: [*values, *named.values()])
    tensor = torch.zeros(2)
    for wanted in (True, False):
        value = 1.0 if wanted else tensor
        assert (made(value) is made(value)) is wanted
        assert (made(setting=(value,)) is made(setting=(value,))) is wanted
    assert type(made((1, 0.5))[0][0]) is int
    assert type(made((True, 0.5))[0][0]) is bool
    assert type(made(x=(1.0, 0.5))[0][0]) is float


def test_sigmas_that_are_written_to():
    sigmas, shape = torch.full((3,), 0.1), torch.tensor([[[1.0, 1, 2], [5, 5, 2], [9, 9, 2]]])
    first = torch_ap.MeanAveragePrecision(iou_type="keypoints", sigmas=sigmas)
    sigmas *= 0.3
    label, values = torch.tensor([0]), []
    for metric in (first, torch_ap.MeanAveragePrecision(iou_type="keypoints", sigmas=sigmas)):
        found = {"keypoints": shape + torch.tensor([1.0, 0, 0]), "scores": torch.tensor([0.9]), "labels": label}
        metric.update([found], [{"keypoints": shape, "labels": label, "area": torch.tensor([64.0])}])
        values.append(metric.compute()["map"].item())
    assert values == [pytest.approx(0.7), 0]


def test_tensors_of_modes_are_not_kept():
    constant = settings_cache(torch.full)
    tensors = [torch.zeros(3)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = constant((2,), 7.5), memoize(lambda: torch.ones(1), min, tensors)
    assert {type(x) for x in fake} == {FakeTensor}
    assert constant((2,), 7.5).tolist() == [7.5, 7.5]
    assert memoize(lambda: torch.ones(1), min, tensors).tolist() == [1]
    assert constant((2,), 7.5) is constant((2,), 7.5)
