"""Kinds of tensors: metrics and functions take every kind with readable values and reject all others by name."""

import contextlib
import functools
import re
import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._pytree import tree_map_only

import torch_ap
from tests.support.each import each
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS, one_each
from tests.support.modes import life, quiet, same
from torch_ap import curves, functional
from torch_ap.core.base.untraced import PLAIN_KEYS, key_bits, key_set

ROWS = FUNCTIONS | INFERENCE


class Tagged(torch.Tensor):
    """Subclass that operators preserve, such as an image of torchvision."""


class Closed(torch.Tensor):
    """Subclass that forbids every operator and property, such as a quantity with a unit."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} of a subclass")


class Logged(torch.Tensor):
    """Subclass with its own operators."""

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} of a subclass with its own operators")


def as_parameter(x):
    return torch.nn.Parameter(x.clone(), requires_grad=x.is_floating_point())


def with_grad(x):
    return x.clone().requires_grad_() if x.is_floating_point() else x


def with_graph(x):
    return with_grad(x) * 1 if x.is_floating_point() else x


def with_negative_bit(x):
    if x.dtype == torch.bool:
        return x
    if x.dtype in (torch.float32, torch.float64):
        view = torch.complex(torch.zeros_like(x), -x).conj().imag
    else:
        view = torch._neg_view(-x)
    assert view.is_neg()
    return view


def with_tangent(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the first dual tensor of a process scripts functions
        return forward_ad.make_dual(x, torch.ones_like(x)) if x.is_floating_point() else x


def from_ended_transform(x):
    """Return a tensor that outlives the gradient transform that made it."""
    leaked = []
    torch.func.grad(lambda y: (leaked.append(x.clone()), y)[1])(torch.zeros(()))
    assert torch._C._functorch.is_functorch_wrapped_tensor(leaked[0])
    return leaked[0]


def from_ended_functionalization(x):
    """Return a wrapper of functionalization, whose own memory has arbitrary values."""
    leaked = []
    torch.func.functionalize(lambda y: (leaked.append(y), y)[1])(x)
    assert torch._is_functional_tensor(leaked[0])
    return leaked[0]


READABLE = {
    "parameter": as_parameter,
    "requires_grad": with_grad,
    "result with a graph": with_graph,
    "negative bit": with_negative_bit,
    "subclass": lambda x: x.as_subclass(Tagged),
    "closed subclass": lambda x: x.as_subclass(Closed),
    "dual": with_tangent,
    "ended transform": from_ended_transform,
    "ended functionalization": from_ended_functionalization,
    "transform": torch.clone,  # inside `torch.func.grad`, which wraps the copy
}


def call_inside(kind, function):
    """Call a function in the context that its tensors belong to."""
    if kind == "transform":
        values = []
        torch.func.grad(lambda x: (values.append(function()), x)[1])(torch.zeros(()))
        return values[0]
    with forward_ad.dual_level() if kind == "dual" else contextlib.nullcontext():
        return function()


def changed(kind, arguments):
    return tree_map_only(torch.Tensor, READABLE[kind], arguments)


def states(metric, arguments):
    """Return the states of a metric after an update."""
    metric.update(**arguments)
    return dict(metric.metric_state)


@functools.cache
def metric_states(name):
    (batch,) = METRICS[name].batches(1)
    return batch, quiet(states, METRICS[name].new(), batch)


@functools.cache
def function_value(name):
    (arguments,) = ROWS[name].batches(1)
    return arguments, quiet(ROWS[name].value, arguments)


@pytest.mark.no_cover
@each("name, kind", [(name, kind) for name in METRICS for kind in READABLE])
def test_updates_with_readable_tensors(name, kind):
    batch, expected = metric_states(name)
    metric = METRICS[name].new()
    same(call_inside(kind, lambda: quiet(states, metric, changed(kind, batch))), expected)
    tensors = [x for state in metric.metric_state.values() for x in (state if isinstance(state, list) else [state])]
    assert {type(x) for x in tensors} == {torch.Tensor}
    assert not any(x.requires_grad or key_bits(key_set(x)) not in PLAIN_KEYS for x in tensors)


@pytest.mark.no_cover
@each("name", one_each(METRICS))
def test_metrics_inside_a_transform(name):
    batches, metric = METRICS[name].batches(2), METRICS[name].new()
    same(
        call_inside("transform", lambda: life(metric, changed("transform", batches))),
        life(METRICS[name].new(), batches),
    )


@pytest.mark.no_cover
@each("name, kind", [(name, kind) for name in ROWS for kind in READABLE])
def test_functions_of_readable_tensors(name, kind):
    arguments, expected = function_value(name)
    same(call_inside(kind, lambda: quiet(ROWS[name].value, changed(kind, arguments))), expected)


def quantized(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # deprecated
        return torch.quantize_per_tensor(x.float(), 1.0, 0, torch.quint8)


def nested(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a prototype
        return torch.nested.nested_tensor([x, x])


def batched(x):
    leaked = []
    torch.func.vmap(lambda y: (leaked.append(y), y)[1])(x[None])
    return leaked[0]


UNREADABLE = {
    "sparse": (torch.Tensor.to_sparse, r"a sparse tensor \(torch.sparse_coo\); pass `{}.to_dense\(\)`"),
    "mkldnn": (lambda x: x.float().to_mkldnn(), r"a sparse tensor \(torch._mkldnn\); pass `{}.to_dense\(\)`"),
    "nested": (nested, "a nested tensor; pass"),
    "jagged": (lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged), "a NestedTensor"),
    "quantized": (quantized, r"a quantized tensor \(torch.quint8\); pass `{}.dequantize\(\)`"),
    "meta": (lambda x: x.to("meta"), "a tensor on the meta device"),
    "fake": (lambda x: FakeTensorMode().from_tensor(x), "a FakeTensor"),
    "lazy": (lambda _: torch.nn.UninitializedParameter(), "a UninitializedParameter without values"),
    "own operators": (lambda x: x.as_subclass(Logged), "a Logged; pass a plain tensor"),
    "batched": (batched, "a batched tensor of `torch.vmap`"),
}


def with_changed_tensors(arguments, change):
    """Yield the name of each tensor argument and the arguments with this tensor changed."""

    def changed_parts(value, name):
        if isinstance(value, torch.Tensor):
            if value.ndim:
                yield name, change(value)
        elif isinstance(value, dict):
            for key, part in value.items():
                yield from ((x, {**value, key: y}) for x, y in changed_parts(part, f"{name}[{key!r}]"))
        elif isinstance(value, list | tuple):
            for place, part in enumerate(value[:2]):
                for x, y in changed_parts(part, f"{name}[{place}]"):
                    yield x, [*value[:place], y, *value[place + 1 :]]

    for argument, value in arguments.items():
        yield from ((name, {**arguments, argument: changed}) for name, changed in changed_parts(value, argument))


def rejection(argument, message):
    return rf"^`{re.escape(argument)}` is " + message.format(re.escape(argument))


@pytest.mark.no_cover
@each("name, kind", [(name, kind) for name in METRICS for kind in UNREADABLE])
def test_metrics_of_unreadable_tensors(name, kind):
    change, message = UNREADABLE[kind]
    metric = METRICS[name].new()
    (batch,) = METRICS[name].batches(1)
    for argument, arguments in with_changed_tensors(batch, change):
        for call in (metric.update, metric):
            with pytest.raises(ValueError, match=rejection(argument, message)):
                call(**arguments)
    assert metric.update_count == 0
    assert not any(metric.metric_state[state] for state in metric._lists)


@each("name, kind", [(name, kind) for name in ROWS for kind in UNREADABLE])
def test_functions_of_unreadable_tensors(name, kind):
    change, message = UNREADABLE[kind]
    for argument, arguments in with_changed_tensors(ROWS[name].batches(1)[0], change):
        with pytest.raises(ValueError, match=rejection(argument, message)):
            ROWS[name].value(arguments)


@pytest.mark.parametrize("kind", READABLE)
def test_settings_can_be_any_readable_tensor(kind):
    levels, batch = torch.tensor([0.25, 0.5, 0.75]), METRICS["binary"].batches(1)[0]
    for setting in ("thresholds", "bins", "interpolation"):

        def value(levels, setting=setting):
            metric = torch_ap.BinaryAveragePrecision(**{setting: levels})
            metric.update(batch["preds"].sigmoid(), batch["target"])
            return quiet(metric.compute)

        same(call_inside(kind, lambda: value(READABLE[kind](levels))), value(levels))
    with pytest.raises(ValueError, match="`thresholds` is a tensor on the meta device"):
        torch_ap.BinaryAveragePrecision(thresholds=levels.to("meta"))


@pytest.mark.parametrize("kind", [x for x in READABLE if x != "transform"])
def test_functions_of_callers_can_return_any_readable_tensor(kind):
    change = READABLE[kind]
    boxes = {"boxes": torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5]]), "labels": torch.tensor([0, 0])}
    preds, target = [boxes | {"scores": torch.tensor([0.3, 0.4])}], [boxes]

    def own_iou(one, two, crowd):
        return change((one == two).all(1).float() * ~crowd.bool())

    def own_similarity(one, two):
        return change((one["boxes"][:, None] == two["boxes"]).all(2).float())

    def values():
        for settings in ({"iou": own_iou}, {"iou_type": own_similarity}):
            metric = torch_ap.MeanAveragePrecision(**settings)
            metric.update(preds, target)
            yield metric.compute()["map"]
        metric = torch_ap.RetrievalMAP(aggregation=lambda values: change(values.amax()))
        metric.update(torch.tensor([0.3, 0.2]), torch.tensor([1, 0]), torch.tensor([0, 0]))
        yield metric.compute()

    assert call_inside(kind, lambda: [float(x) for x in values()]) == [1, 1, 1]


def test_vmap_names_the_alternatives():
    with pytest.raises(ValueError, match=r"`preds` is a batched tensor of `torch.vmap`.*\(N, C\) scores .*`indexes`"):
        torch.vmap(functional.binary_average_precision)(torch.rand(3, 5), torch.ones(3, 5, dtype=torch.int64))


def test_too_many_arguments_are_an_error_of_python():
    x = torch.nn.Parameter(torch.rand(3))
    with pytest.raises(TypeError, match="takes 2 positional arguments"):
        curves.hit_curve_hull(x, x, x, x, x)
