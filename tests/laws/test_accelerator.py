"""On an accelerator every metric and function returns the value of the CPU, and ``update`` never waits for it.

The tests run on the emulated device of ``tests/support/emulated.py``, and on a real one if there is one.
"""

import pytest
import torch
from torch.utils._pytree import tree_map_only

from tests.support import emulated
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS
from tests.support.modes import not_reset, quiet

UPDATES_WAIT = {  # documented waits in `update`
    *("coco_masks", "coco_boundary", "lvis_masks", "voc_masks"),  # dense masks become run lengths
    *("open_images", "open_images_ignored"),  # rows of ancestors, and verified classes
    "binary_weighted_learnt",  # once per `pilot` items
    *("coco_matched", "lvis_matched", "voc_matched", "ultralytics_matched"),  # each batch is matched
}

RESAMPLED = {"average_precision_interval_classes", "precision_band"}  # a device has its own random numbers


def moved(drawn, device="cuda"):
    return tree_map_only(torch.Tensor, lambda x: x.to(device), drawn)


def close(found, expected):
    """Assert equality up to the order in which a device sums."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found.cpu(), expected, equal_nan=True)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, x in expected.items():
            close(found[name], x)
    elif isinstance(expected, list | tuple):
        for x, y in zip(found, expected, strict=True):
            close(x, y)
    elif hasattr(expected, "__dict__"):
        close(vars(found), vars(expected))
    else:
        assert found == (pytest.approx(expected, nan_ok=True) if isinstance(expected, float) else expected)


def as_list(found):
    return found if isinstance(found, list) else [found]


def other_results(row):
    """Return the further results of a metric, as functions of the metric."""
    if hasattr(row.call, "curve"):
        yield lambda metric: metric.curve()
    if hasattr(row.call, "operating_points"):
        yield lambda metric: metric.operating_points(metric._settings.thresholds[0])
        if row.settings.get("match") != "update" and not row.settings.get("hierarchy"):
            yield lambda metric: metric.confusion_matrix(metric._settings.thresholds[0])


@pytest.mark.gpu
@pytest.mark.parametrize("name", METRICS)
def test_metrics(name):
    row = METRICS[name]
    here, there = row.new(), row.new().to("cuda")
    new, batches = dict(vars(there)), row.batches(2)
    on_device = moved(batches)
    torch.cuda.set_sync_debug_mode("default" if name in UPDATES_WAIT else "error")
    try:
        for batch in on_device:
            quiet(there.update, **batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with emulated.set_aside():
        for batch in batches:
            quiet(here.update, **batch)
        methods = list(other_results(row))
        expected = [method(here) for method in methods]
        values = quiet(here, **batches[0]), quiet(here.compute)
    for method, wanted in zip(methods, expected, strict=True):
        found = method(there)
        close(found, wanted)
        for one in as_list(found):
            assert {getattr(one, x).device.type for x in one._tensors()} == {"cuda"}
    close((quiet(there, **on_device[0]), quiet(there.compute)), values)
    there.reset()
    assert not_reset(there, new) == set()


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUNCTIONS | INFERENCE)
def test_functions(name):
    row = (FUNCTIONS | INFERENCE)[name]
    (drawn,) = row.batches(1)
    found = quiet(row.value, moved(drawn))
    with emulated.set_aside():
        expected = quiet(row.value, drawn)
    if name in RESAMPLED:
        found, expected = found.estimate, expected.estimate
    close(found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("goal", [{}, {"precision": 0.5}, {"recall": 0.5}])
@pytest.mark.parametrize("name", ["binary_curve", "binary_curve_weighted", "binary_curve_optimistic"])
def test_curves_of_a_device(name, goal):
    (drawn,) = FUNCTIONS[name].batches(1)
    here, there = FUNCTIONS[name].value(drawn), FUNCTIONS[name].value(moved(drawn))
    close(there.operating_point(**goal), here.operating_point(**goal))
    for method in ("precision_recall", "interpolated", "hit_curve", "ideal_hit_curve", "random_hit_curve", "f_beta"):
        close(getattr(there, method)(), getattr(here, method)())
    if name != "binary_curve_weighted":
        close(there.band(n_resamples=20).estimate, here.band(n_resamples=20).estimate)
        drawn_anew = there.operating_point(**goal, method="bootstrap", n_resamples=20)
        close(drawn_anew.f_beta, here.operating_point(**goal).f_beta)
        assert drawn_anew.f_beta_low.device.type == "cuda"
    close(there.to("cpu"), here)


def test_values_are_real_and_devices_do_not_mix():
    with emulated.device() as waits:
        here = torch.arange(5.0)
        there = here.cuda()
        assert (there.device, there.is_cuda, there[1:].device) == (torch.device("cuda:0"), True, there.device)
        mixes = [
            lambda: there + here,
            lambda: here.add_(there),
            lambda: torch.cat([there, here]),
            lambda: here[torch.zeros(1, dtype=torch.int64).cuda()],
            lambda: there.__setitem__(slice(None), here),
            lambda: torch.searchsorted(there, here),
        ]
        for mix in mixes:
            with pytest.raises(RuntimeError, match="same device"):
                mix()
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            there.numpy()
        there[0] = 7  # a view of the same memory, as on a device
        there[1:3].mul_(10)
        assert (there * 2 + torch.tensor(1.0)).tolist() == [15, 21, 41, 7, 9]
        assert waits.seen.total() == 2 + 1  # two transfers to the device, one back
    assert not torch.cuda.is_available() or torch.cuda.device_count()


WAITING = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool(x.any()),
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 1),
    "unique": torch.unique,
    "mask": lambda x: x[x > 1],
    "masked_select": lambda x: x.masked_select(x > 1),
    "equal": lambda x: torch.equal(x, x),
    "bincount": lambda x: torch.bincount(x.long()),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
    "to the host": lambda x: x.cpu(),
    "tolist": lambda x: x.tolist(),
    "from the host": lambda x: torch.ones(3).to(x.device),
    "pageable": lambda x: torch.ones(3).to(x.device, non_blocking=True),
    "tensor": lambda x: torch.tensor([1, 2], device=x.device),
    "host indices": lambda x: x[torch.tensor([1, 2])],
    "a number's index": lambda x: x[x.long()[0]],
}
NOT_WAITING = {
    "sort": lambda x: x.sort(),
    "indices": lambda x: x[x.long()],
    "masked_fill": lambda x: x.masked_fill(x > 1, 0),
    "number": lambda x: x + 1,
    "where": lambda x: torch.where(x > 1, x, 0),
    "zeros": lambda x: torch.zeros(4, device=x.device),
    "pinned": lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long(), output_size=10),
}


@pytest.mark.parametrize("name", WAITING)
def test_waits_are_counted_with_their_line(name):
    with emulated.device() as waits:
        x = torch.arange(5.0).cuda()
        waits.seen.clear()
        WAITING[name](x)
        ((_, where),) = waits.seen
        assert "test_accelerator.py:" in where
        torch.cuda.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            WAITING[name](x)


@pytest.mark.parametrize("name", NOT_WAITING)
def test_operations_that_do_not_wait(name):
    with emulated.device() as waits:
        x = torch.arange(5.0).cuda()
        waits.seen.clear()
        NOT_WAITING[name](x)
        assert not waits.seen
