"""Laws that hold for every metric of the table."""

import copy
import pickle
import warnings

import pytest
import torch
from torchmetrics import SumMetric

from tests.cases import CASES
from torch_ap.inputs import classification as inputs

BATCHES = [(40,), (1, 39), (13, 0, 20, 7), (1,) * 40]
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def same(value, expected):
    torch.testing.assert_close(value, expected, rtol=0, atol=0, equal_nan=True)


def states(metric):
    """The items or counts held, whatever their batches."""
    return {
        name: torch.cat(state) if isinstance(state, list) and state else state
        for name, state in copy.deepcopy(metric.metric_state).items()
    }


def same_states(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(a, second[k]) if torch.is_tensor(a) else a == second[k] for k, a in first.items())


@pytest.fixture
def data(case, generator):
    return case.make(40, generator)


def filled(case, data, sizes=(40,)):
    metric = case.new()
    for preds, target in zip(*(x.split(list(sizes)) for x in data), strict=True):
        metric.update(preds, target)
    return metric


@each_case
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_function_equals_the_definition(case, size, generator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # small samples lack positives
        for _ in range(10):
            preds, target = case.make(size, generator)
            value = case.value(preds, target, dtype=torch.float64)
            expected = torch.tensor(case.oracle(preds, target), dtype=torch.float64).reshape(value.shape)
            torch.testing.assert_close(value, expected, rtol=0, atol=1e-13, equal_nan=True)


@each_case
@pytest.mark.parametrize("sizes", BATCHES, ids=len)
def test_any_batching_gives_the_function(case, data, sizes):
    metric = filled(case, data, sizes)
    same(metric.compute(), case.value(*data))
    same(metric.compute(), case.value(*data))


@each_case
def test_order_of_items_does_not_matter(case, data, generator):
    places = torch.randperm(40, generator=generator)
    same(case.value(*(x[places] for x in data)), case.value(*data))


@each_case
@pytest.mark.parametrize("size", [40, 3000])
def test_memory_layout_does_not_matter_and_nothing_given_or_held_is_written_to(case, generator, size):
    rows = case.make(size, generator)
    columns = [x.t().contiguous().t() if x.ndim == 2 else torch.stack([x, x], 1)[:, 0] for x in rows]
    before = [x.clone() for x in columns]
    expected = case.value(*rows)
    same(case.value(*columns), expected)
    metric = case.new()
    metric.update(*columns)
    held = states(metric)
    for _ in range(2):
        same(metric.compute(), expected)
        metric._computed = None
    same_states(states(metric), held)
    assert all(torch.equal(x, y) for x, y in zip(columns, before, strict=True))


@each_case
def test_forward_gives_the_batch_and_accumulates(case, data):
    metric = case.new()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for preds, target in zip(*(x.split(10) for x in data), strict=True):
            same(metric(preds, target), case.value(preds, target))
    assert metric.update_count == 4
    same(metric.compute(), case.value(*data))
    same_states(states(metric), states(filled(case, data, (10,) * 4)))


@each_case
def test_merge_adds_and_leaves_the_other_alone(case, data):
    first, second = (filled(case, part, (len(part[0]),)) for part in zip(*(x.split(25) for x in data), strict=True))
    third = copy.deepcopy(second)
    before = states(second)
    first.compute()
    first.merge_state(second)
    same(first.compute(), case.value(*data))
    same_states(states(second), before)
    left, right = case.new(), filled(case, data)
    left.merge_state(right)
    same_states(states(left), states(right))
    third.merge_state(case.new())
    same_states(states(third), before)


@each_case
def test_survives_pickle_copy_and_state_dict(case, data):
    metric = filled(case, data)
    expected = metric.compute()
    for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), metric.clone()):
        same(other.compute(), expected)
        other.update(*data)
        assert other.update_count == 2
    assert metric.update_count == 1
    assert metric.state_dict() == {}
    metric.persistent(True)
    saved = metric.state_dict()
    loaded = case.new()
    loaded.compute_with_cache = True
    loaded.load_state_dict(saved)
    same(loaded.compute(), expected)
    loaded.update(*data)
    fresh = case.new()
    fresh.load_state_dict(saved)  # a checkpoint does not grow with the metric that was loaded from it
    same_states(states(fresh), states(metric))


@each_case
def test_reset_forgets(case, data):
    metric = filled(case, data)
    metric.compute()
    metric.reset()
    same_states(states(metric), states(case.new()))
    metric.update(*data)
    same(metric.compute(), case.value(*data))


@each_case
def test_nothing_in_gives_nan_and_a_warning(case, data):
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert case.new().compute().isnan().all()
    nothing = [x[:0] for x in data]
    with pytest.warns(UserWarning, match="No items"):
        assert case.value(*nothing).isnan().all()
    metric = filled(case, nothing, (0,))
    with pytest.warns(UserWarning, match="No items"):
        assert metric.compute().isnan().all()
    metric.update(*data)
    same(metric.compute(), case.value(*data))


@each_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_is_ranked_as_it_is(case, data, dtype):
    preds, target = data
    value = case.value(preds.to(dtype), target)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(value.float(), case.value(preds, target).float(), rtol=1e-6, atol=1e-7)
    metric = case.new()
    metric.update(preds.to(dtype), target)
    # counts per bin no longer know the dtype of the scores
    same(metric.compute(), value.float() if "thresholds" in case.settings else value)


@each_case
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32])
def test_every_target_dtype(case, data, dtype):
    preds, target = data
    if (target < 0).any():
        target = target.clamp(min=0)
    if dtype == torch.bool and target.max() > 1:
        pytest.skip("class ids are not bool")
    metric = case.new()
    metric.update(preds, target.to(dtype))
    same(metric.compute(), case.value(preds, target))


@each_case
def test_scaled_scores_rank_the_same(case, data):
    if not case.logits:
        pytest.skip("thresholds from 0 to 1 hold for scores from 0 to 1")
    preds, target = data
    same(case.value(preds * 64 - 100, target), case.value(preds, target))


@each_case
def test_bad_batches_leave_no_trace(case, data):
    metric = filled(case, data)
    before = states(metric)
    expected = metric.compute()
    preds, target = data
    nan = preds.clone()
    nan.view(-1)[-1] = torch.nan
    bad = [(nan, target), (preds, target + 7), (preds, target.float()), (preds[1:], target), (preds.bool(), target)]
    kept = nan if not (target.view(-1)[-1:] < 0).any() else None
    for batch in bad if kept is not None else bad[1:]:
        for call in (metric.update, metric):
            with pytest.raises(ValueError, match=r"`(preds|target)`"):
                call(*batch)
    with pytest.raises(TypeError, match="`preds`"):
        metric.update(preds.tolist(), target)
    same_states(states(metric), before)
    assert metric.update_count == 1
    same(metric.compute(), expected)


@each_case
def test_the_callers_tensors_stay_theirs(case, data):
    preds, target = (x.clone() for x in data)
    preds.requires_grad_()
    metric = case.new()
    metric.update(preds, target)
    with torch.no_grad():
        preds.zero_()
    target.zero_()
    same(metric.compute(), case.value(*data))
    assert not any(x.requires_grad for state in metric.metric_state.values() for x in state)
    assert not case.value(data[0].clone().requires_grad_(), data[1]).requires_grad


@each_case
def test_input_is_not_written_to(case, data):
    copies = [x.clone() for x in data]
    case.value(*copies)
    metric = filled(case, copies)
    metric.compute()
    assert all(torch.equal(a, b) for a, b in zip(copies, data, strict=True))


@each_case
def test_casts_do_not_reach_the_state(case, data):
    metric = filled(case, data)
    before = states(metric)
    holder = torch.nn.Module()
    holder.metric = metric
    for cast in (metric.half, metric.double, holder.half, lambda: metric.to(torch.float16), lambda: holder.to("cpu")):
        cast()
        same_states(states(metric), before)
    same(metric.compute(), case.value(*data))
    metric.set_dtype(torch.float64)
    same_states(states(metric), before)
    same(metric.compute(), case.value(*data, dtype=torch.float64))


@each_case
def test_compute_on_cpu_and_without_cache(case, data):
    metric = case.new(compute_on_cpu=True, compute_with_cache=False)
    metric(*data)
    metric.update(*data)
    twice = [torch.cat([x, x]) for x in data]
    same(metric.compute(), case.value(*twice))


@each_case
def test_extra_dimensions_are_more_items(case, generator):
    preds, target = case.make(24, generator)

    def fold(x):
        """(24, ...) to (2, ..., 3, 4): the items along the first and the last two dimensions."""
        return x.reshape(2, 3, 4) if x.ndim == 1 else x.reshape(2, 3, 4, -1).movedim(-1, 1)

    same(case.value(fold(preds), fold(target)), case.value(preds, target))


@each_case
def test_other_settings_do_not_merge_or_load(case, data):
    metric = filled(case, data)
    metric.persistent(True)
    other = case.metric(**{**case.settings, "ignore_index": 3})
    with pytest.raises(ValueError, match="same settings"):
        other.merge_state(metric)
    with pytest.raises(RuntimeError, match="same settings"):
        other.load_state_dict(metric.state_dict())
    same_states(states(other), states(case.metric(**{**case.settings, "ignore_index": 3})))
    with pytest.raises(ValueError, match=r"`incoming_state` .* got a SumMetric"):
        metric.merge_state(SumMetric())


@each_case
def test_an_interrupt_loses_only_its_batch(case, data, monkeypatch):
    metric = filled(case, data)
    before = states(metric)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(metric, "compute", stop)
    with pytest.raises(KeyboardInterrupt):
        metric(*data)
    monkeypatch.undo()
    same_states(states(metric), before)
    assert metric.update_count == 1


@each_case
def test_born_without_memory(case, data):
    with torch.device("meta"):
        metric = case.new()
    holder = torch.nn.Module()
    holder.metric = metric
    holder.to_empty(device="cpu")
    metric.update(*data)
    same(metric.compute(), case.value(*data))


@pytest.mark.gpu
@each_case
def test_devices_agree(case, data):
    here = filled(case, data).compute()
    metric = case.new().to("cuda")
    on_device = [x.cuda() for x in data]
    torch.cuda.set_sync_debug_mode("error")
    try:
        metric.update(*on_device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    same(metric.compute().cpu(), here)
    same(case.value(*on_device).cpu(), here)


@pytest.mark.gpu
@each_case
def test_values_on_a_device_are_checked_at_compute(case, data):
    metric = case.new().to("cuda")
    preds, target = (x.cuda() for x in data)
    metric.update(preds, target)
    metric.update(torch.full_like(preds, torch.nan), target.clamp(min=0))
    metric.update(preds, target)
    with pytest.raises(ValueError, match=r"`preds` .*NaN.* update 2"):
        metric.compute()


def test_the_table_marks_what_is_ignored():
    assert inputs.counted(torch.tensor([0, 1, 255], dtype=torch.uint8)).tolist() == [True, True, False]
