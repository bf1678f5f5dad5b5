"""Laws of every metric, for items and classes, for queries, and for images."""

import copy
import functools
import inspect
import math
import pickle
import warnings

import pytest
import torch
from torchmetrics import SumMetric
from torchmetrics.utilities.data import _squeeze_if_scalar

import torch_ap
from tests.support import oracles
from tests.support.by_definition import DEFINITIONS, FUNCTION_OF, WITHOUT_DEFINITION
from tests.support.cases import CASES
from tests.support.each import each
from tests.support.every_metric import METRICS, one_of_each_state
from tests.support.modes import not_reset, same
from tests.support.parts import chosen, count, cut, is_images, mapped, with_scores, with_targets
from tests.support.tolerances import DOZENS_OF_TERMS, SINGLE
from torch_ap import BinaryAveragePrecision
from torch_ap.core.items import inputs
from torch_ap.core.items.settings import APSettings

SIZE = 40
CUTS = {
    "whole": lambda n: [n],
    "one and the rest": lambda n: [1, n - 1],
    "an empty one": lambda n: [n // 3, 0, n // 2, n - n // 3 - n // 2],
    "one by one": lambda n: [1] * n,
}
SUMMED_ANEW = {"rtol": 1e-6, "atol": 1e-7}  # the terms of a mean in another order, in float32

each_case = each("case", CASES)


@pytest.fixture(autouse=True)
def _undefined_values_may_warn():
    """Small samples lack positives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@functools.cache
def _drawn_and_value(name):
    drawn = METRICS[name].draw(SIZE, torch.Generator().manual_seed(20040826))
    return drawn, whole(METRICS[name], drawn)


def each_of(rows):
    """Return a decorator like ``each`` over rows by name, for a test that takes some of these arguments.

    ``row``; ``drawn``: batches of the row, equal for every law; ``expected``: the value of a new metric after one
    update
    with all of them; ``generator``: seeded anew for each row.
    """

    def wrap(test):
        wanted = inspect.signature(test).parameters

        def run_row(name, **more):
            drawn, expected = _drawn_and_value(name)
            own = {"row": METRICS[name], "expected": expected, "generator": torch.Generator().manual_seed(20040826)}
            own["drawn"] = mapped(drawn, torch.clone)
            test(**{key: x for key, x in own.items() if key in wanted}, **more)

        functools.update_wrapper(run_row, test)
        fixtures = [x for key, x in wanted.items() if key not in ("row", "drawn", "expected", "generator")]
        name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run_row.__signature__ = inspect.Signature([name, *fixtures])
        return each("name", list(rows))(run_row)

    return wrap


each_row, each_state = each_of(METRICS), each_of(one_of_each_state())


def updated_metric(row, *batches, **more):
    metric = row.new(**more)
    for batch in batches:
        metric.update(**batch)
    return metric


def whole(row, drawn, **more):
    """Return the value of a new metric after one update with everything."""
    return updated_metric(row, drawn, **more).compute()


def states(metric):
    """Return the stored items or counts, whatever their batches."""
    return {
        name: torch.cat(state) if isinstance(state, list) and state else state
        for name, state in copy.deepcopy(metric.metric_state).items()
    }


def same_states(first, second):
    same(states(first), states(second))


def close(value, expected, rtol=SUMMED_ANEW["rtol"], atol=SUMMED_ANEW["atol"]):
    if isinstance(expected, dict):
        assert value.keys() == expected.keys()
        for name, x in expected.items():
            close(value[name], x, rtol, atol)
    elif isinstance(expected, tuple):
        for one, x in zip(value, expected, strict=True):
            close(one, x, rtol, atol)
    else:
        value, expected = (torch.as_tensor(x, dtype=torch.float64).flatten() for x in (value, expected))
        torch.testing.assert_close(value, expected, rtol=rtol, atol=atol, equal_nan=True)


# -- the value


@each_case
@each("size", [1, 2, 5, 40])
def test_function_equals_the_definition(case, size, generator):
    for _ in range(10):
        preds, target = case.make(size, generator)
        value = case.value(preds, target, dtype=torch.float64)
        expected = torch.tensor(case.oracle(preds, target), dtype=torch.float64).reshape(value.shape)
        # exact fractions against float64 sums of at most 40 terms
        torch.testing.assert_close(value, expected, rtol=0, atol=DOZENS_OF_TERMS, equal_nan=True)


@pytest.mark.parametrize("k", [None, 2, 5])
def test_oracles_agree(k, generator):
    for _ in range(30):
        scores, target = (x.tolist() for x in CASES["binary"].make(6, generator))
        scores = [round(2 * x) for x in scores]  # three values
        assert oracles.ap_expected(scores, target, k, "min") == oracles.average_precision(
            scores, target, "expected", k, "min"
        )


def test_every_metric_has_a_definition():
    assert METRICS.keys() == CASES.keys() | DEFINITIONS.keys() | WITHOUT_DEFINITION.keys()
    assert not (CASES.keys() | DEFINITIONS.keys()) & WITHOUT_DEFINITION.keys()


@each("name", list(DEFINITIONS))
@each("size", [8, 40])
def test_metric_equals_the_definition(name, size, generator):
    row = METRICS[name]
    for _ in range(3):
        drawn = row.draw(size, generator)
        value = row.new().set_dtype(torch.float64)(**drawn)
        expected = DEFINITIONS[name](drawn)
        value = {key: value[key] for key in expected} if isinstance(expected, dict) else value
        close(value, expected, rtol=0, atol=1e-12)  # sums of float64 in another order


@each_row
def test_metric_is_its_function(row, drawn, expected):
    function = FUNCTION_OF.get(row.call)
    if function is None:
        pytest.skip("the function of queries gives one value per query")
    settings = {name: x for name, x in row.settings.items() if name != "match"}  # only the metric has it
    given = {name: x for name, x in drawn.items() if name != "groups"}  # likewise, and they do not change the value
    same(expected, _squeeze_if_scalar(function(**given, **settings)))  # as `compute` does


@each_row
@each("sizes", CUTS)
def test_any_batching_gives_the_same(row, drawn, expected, sizes):
    metric = updated_metric(row, *cut(drawn, sizes(count(drawn))))
    same(metric.compute(), expected)
    same(metric.compute(), expected)


def drop_images(value, *more):
    """Remove the fields that name images by their places, and further fields."""
    return {name: x for name, x in value.items() if name not in ("ious", *more)} if isinstance(value, dict) else value


def without_threshold(value):
    """Return the ratio of a pair of a ratio and its threshold, any other value unchanged."""
    return value[0] if type(value) is tuple else value


def untied(scores, generator):
    """Make the scores distinct: COCO and VOC rank equal scores in the order of the images."""
    return torch.rand(scores.shape, generator=generator).to(scores.dtype)


@each_row
def test_order_does_not_matter(row, drawn, generator):
    if row.learns:
        pytest.skip("which items come first matters")
    drawn = with_scores(drawn, lambda x: untied(x, generator)) if is_images(drawn) else drawn
    found = whole(row, chosen(drawn, torch.randperm(count(drawn), generator=generator)))
    close(drop_images(found), drop_images(whole(row, drawn)))


def strided(x):
    """Copy the values to memory that is not contiguous."""
    return torch.stack([x, x], -1)[..., 0] if x.ndim != 2 else x.t().contiguous().t()


@each("name, size", [*((name, 40) for name in METRICS), *((name, 3000) for name in one_of_each_state())])
def test_memory_layout_does_not_matter_and_inputs_and_states_are_not_written_to(name, generator, size):
    row = METRICS[name]
    drawn = row.draw(size if row.kind == "items" else 40, generator)
    given = mapped(drawn, strided)
    before, expected = mapped(given, torch.clone), whole(row, drawn)
    metric = updated_metric(row, given)
    held = states(metric)
    for _ in range(2):
        same(metric.compute(), expected)
        metric._computed = None
    same(states(metric), held)
    same(given, before)


@each_state
@each("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_is_ranked_as_it_is(row, drawn, expected, dtype):
    if row.settings.get("normalization") in ("sigmoid", "softmax"):
        pytest.skip("what is ranked is computed in the dtype of the scores, which may tie or untie them")
    given = with_scores(drawn, lambda x: x.to(dtype))
    found = whole(row, given)
    if dtype != torch.float64:
        expected = whole(row, with_scores(given, torch.Tensor.double))
    # a result in float32 is right to its last digit
    close(found, expected, rtol=SINGLE, atol=SINGLE)
    if row.kind == "items":
        found = without_threshold(found)
        wanted = (
            torch.float64
            if dtype == torch.float64 and not {"thresholds", "bins"} & set(row.settings)
            else torch.float32
        )
        assert found.dtype == wanted


@each_state
@each("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32])
def test_every_target_dtype(row, drawn, expected, dtype):
    if not is_images(drawn) and drawn["target"].min() < 0:
        drawn = with_targets(drawn, lambda x: x.clamp(min=0))
        expected = whole(row, drawn)
    if dtype == torch.bool and (is_images(drawn) or drawn["target"].max() > 1):
        pytest.skip("class ids and grades are not bool")
    found = whole(row, with_targets(drawn, lambda x: x.to(dtype)))
    close(found, expected, rtol=0, atol=0)


@each_row
def test_scaled_scores_rank_the_same(row, drawn, expected):
    if not row.any_scores or row.learns:
        pytest.skip("scores from 0 to 1 are expected, or become such, or bins end at round numbers")
    found = whole(row, with_scores(drawn, lambda x: x.double() * 64 - 100))
    close(*(drop_images(without_threshold(x), "scores", "score") for x in (found, expected)))


@each_case
def test_extra_dimensions_are_more_items(case, generator):
    preds, target = case.make(24, generator)

    def fold(x):
        """Reshape (24, ...) to (2, ..., 3, 4): the items along the first and the last two dimensions."""
        return x.reshape(2, 3, 4) if x.ndim == 1 else x.reshape(2, 3, 4, -1).movedim(-1, 1)

    same(case.value(fold(preds), fold(target)), case.value(preds, target))


# -- the life of a metric


@each_row
def test_forward_gives_the_batch_and_accumulates(row, drawn, expected):
    batches = cut(drawn, -(-count(drawn) // 4))
    metric = row.new()
    for batch in batches:
        same(metric(**batch), whole(row, batch))
    assert metric.update_count == len(batches)
    same(metric.compute(), expected)
    same_states(metric, updated_metric(row, *batches))


@each_state
def test_merge_adds_and_leaves_the_other_alone(row, drawn, generator):
    if row.learns:
        pytest.skip("what was learnt apart is kept where it agrees: test_binned")
    if is_images(drawn):  # merged states come first, as in torchmetrics
        drawn = with_scores(drawn, lambda x: untied(x, generator))
    n = count(drawn)
    first, second = (updated_metric(row, part) for part in cut(drawn, [n * 5 // 8, n - n * 5 // 8]))
    third, before = copy.deepcopy(second), states(second)
    first.compute()
    first.merge_state(second)
    close(drop_images(first.compute()), drop_images(whole(row, drawn)))
    same(states(second), before)
    left, right = row.new(), updated_metric(row, drawn)
    left.merge_state(right)
    same_states(left, right)
    third.merge_state(row.new())
    same(states(third), before)


@each_row
def test_survives_pickle_copy_and_state_dict(row, drawn):
    metric = updated_metric(row, drawn)
    expected = metric.compute()
    for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), metric.clone()):
        same(other.compute(), expected)
        other.update(**drawn)
        assert other.update_count == 2
    assert metric.update_count == 1
    assert metric.state_dict() == {}
    metric.persistent(True)
    saved = metric.state_dict()
    loaded = row.new()
    loaded.load_state_dict(saved)
    same(loaded.compute(), expected)
    loaded.update(**drawn)
    fresh = row.new()
    fresh.load_state_dict(saved)  # a checkpoint does not grow with the metric that was loaded from it
    same_states(fresh, metric)


@each_row
def test_reset_forgets(row, drawn, expected):
    metric = row.new()
    new = dict(vars(metric))
    metric.update(**drawn)
    metric.compute()
    metric.reset()
    assert not_reset(metric, new) == set()
    same_states(metric, row.new())
    metric.update(**drawn)
    same(metric.compute(), expected)


@each_row
def test_nothing_in_is_undefined_and_warns(row, drawn, expected):
    def undefined(value):
        values = [x for key, x in value.items() if key not in NOT_MEASURED] if isinstance(value, dict) else [value]
        if isinstance(value, tuple):
            values = [x for x in value if x.is_floating_point()]
        return all(((x.double() == -1) | x.isnan()).all() for x in values)

    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert undefined(row.new().compute())
    metric = updated_metric(
        row, chosen(drawn, torch.arange(0)) | ({"num_relevant": {}} if "judged_q" in row.draw.__name__ else {})
    )
    if is_images(drawn):
        assert undefined(metric.compute())
    else:
        with pytest.warns(UserWarning, match="No (items|query)"):
            assert undefined(metric.compute())
    metric.update(**drawn)
    same(metric.compute(), expected)


NOT_MEASURED = {"classes", "ious"}


@each_state
def test_bad_batches_leave_no_trace(row, drawn):
    metric = updated_metric(row, drawn)
    before, expected = states(metric), metric.compute()
    everything = torch.arange(count(drawn))
    bad = [
        {**drawn, "target": chosen(drawn, everything[1:])["target"]},
        with_scores(drawn, lambda x: x > 0.5),
        with_scores(drawn, lambda x: x + 0j),
        with_scores(drawn, lambda x: x[..., None]),
        {**drawn, "preds": None},
    ]
    if row.settings.get("validate_args", True) and row.settings.get("nan_strategy", "error") == "error":
        bad.append(with_scores(drawn, lambda x: torch.full_like(x, math.nan)))
    if row.kind == "items" and not is_images(drawn):
        bad.append({**drawn, "preds": drawn["preds"].tolist()})
    for batch in bad:
        for call in (metric.update, metric):
            with pytest.raises((ValueError, TypeError), match=r"`(preds|target|scores)"):
                call(**batch)
            same(states(metric), before)
            assert metric.update_count == 1
    same(metric.compute(), expected)


@each_state
def test_the_callers_tensors_stay_theirs(row, drawn):
    forms, held = [drawn], getattr(updated_metric(row, drawn), "targets", None)
    if is_images(drawn):
        forms.append(chosen(drawn, torch.tensor([0])))  # one image is not concatenated with others
    elif held and torch.equal(drawn["target"].to(held[0].dtype).to(drawn["target"].dtype), drawn["target"]):
        forms.append(drawn | {"target": drawn["target"].to(held[0].dtype)})  # nor are these cast
    for form in forms:
        given, expected = mapped(form, torch.clone), whole(row, form)
        metric = updated_metric(row, given)
        mapped(given, torch.Tensor.zero_)
        same(metric.compute(), expected)


@each_state
def test_casts_do_not_reach_the_state(row, drawn, expected):
    metric = updated_metric(row, drawn)
    before = states(metric)
    holder = torch.nn.Module()
    holder.metric = metric
    for cast in (metric.half, metric.double, holder.half, lambda: metric.to(torch.float16), lambda: holder.to("cpu")):
        cast()
        same(states(metric), before)
    same(metric.compute(), expected)
    metric.set_dtype(torch.float64)
    same(states(metric), before)
    close(metric.compute(), expected)


@each_state
def test_compute_on_cpu_and_without_cache(row, drawn):
    metric = row.new(compute_on_cpu=True, compute_with_cache=False)
    metric(**drawn)
    metric.update(**drawn)
    same(metric.compute(), updated_metric(row, drawn, drawn).compute())


@each_state
def test_other_settings_do_not_merge_or_load(row, drawn):
    metric = updated_metric(row, drawn)
    metric.persistent(True)
    other = {"validate_args": False} if row.kind == "images" else {"ignore_index": 3}
    changed = {**row.settings, **({"relevance": None} if "relevance" in row.settings else other)}
    other = row.call(**changed)
    with pytest.raises(ValueError, match="same settings"):
        other.merge_state(metric)
    with pytest.raises(RuntimeError, match="same settings"):
        other.load_state_dict(metric.state_dict())
    same_states(other, row.call(**changed))
    with pytest.raises(ValueError, match=r"`incoming_state` .* got a SumMetric"):
        metric.merge_state(SumMetric())


@pytest.mark.parametrize("name", ["prevalence", "ties", "interpolation", "empty_target_action"])
def test_settings_of_the_value_are_those_of_the_first_metric(name):
    """The items do not depend on these settings, so a merge or a copy of the state computes by its own."""
    changed = {"prevalence": 0.3, "ties": "expected", "interpolation": "11-point", "empty_target_action": "error"}
    metric, other = BinaryAveragePrecision(**{name: changed[name]}), BinaryAveragePrecision()
    for one in (metric, other):
        one.update(torch.tensor([0.9, 0.2, 0.2, 0.1]), torch.tensor([0, 1, 0, 1]))
        one.persistent(True)
    alone = metric.compute()
    copy_of_other = metric.from_bytes(other.to_bytes())
    loaded = BinaryAveragePrecision(**{name: changed[name]})
    loaded.load_state_dict(other.state_dict())
    for one in (copy_of_other, loaded):
        same(one.compute(), alone)
    both, twice = torch_ap.merge([metric, other]), torch_ap.merge([metric, metric])
    assert both._settings_of_value()[name] == changed[name]
    same(both.compute(), twice.compute())
    metric.merge_state(other)
    same(metric.compute(), twice.compute())


@each_state
def test_an_interrupt_loses_only_its_batch(row, drawn, monkeypatch):
    metric = updated_metric(row, drawn)
    before = states(metric)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(metric, "compute", stop)
    monkeypatch.setattr(APSettings, "value", stop)  # `forward` of counts does not call `compute`
    with pytest.raises(KeyboardInterrupt):
        metric(**drawn)
    monkeypatch.undo()
    same(states(metric), before)
    assert metric.update_count == 1


@each_row
def test_born_without_memory(row, drawn, expected):
    with torch.device("meta"):
        metric = row.new()
    holder = torch.nn.Module()
    holder.metric = metric
    holder.to_empty(device="cpu")
    metric.update(**drawn)
    same(metric.compute(), expected)


@pytest.mark.gpu
@each_state
def test_values_on_a_device_are_checked_at_compute(row, drawn):
    if row.settings.get("validate_args") is False or row.settings.get("nan_strategy", "error") != "error":
        pytest.skip("NaN is let in")
    if row.settings.get("match") == "update":
        pytest.skip("refused by `update`, which matches: see `test_stored_matches`")
    metric = row.new().to("cuda")
    there = mapped(drawn, lambda x: x.to("cuda"))
    metric.update(**there)
    metric.update(**with_scores(there, lambda x: torch.full_like(x, torch.nan)))
    metric.update(**there)
    with pytest.raises(ValueError, match=r"(NaN|finite).* update 2"):
        metric.compute()


def test_the_table_marks_ignored_targets():
    assert inputs.counted_items(torch.tensor([0, 1, 255], dtype=torch.uint8)).tolist() == [True, True, False]
