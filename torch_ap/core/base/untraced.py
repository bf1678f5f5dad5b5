"""Calls of public functions: outside the graphs of ``torch.compile``, with plain tensors as arguments.

Compiled callers get plain results at a graph break, because the package sorts with NumPy, and torch does not trace
NumPy's calls on writable views correctly. NumPy and every operator of torch can read the values of a plain tensor:

=========================================================  =========================================================
tensor argument                                            result
=========================================================  =========================================================
``requires_grad``, ``torch.nn.Parameter``, a subclass      the plain tensor with the same memory, detached
negative or conjugate bit                                  a copy without the bit
inside ``torch.func.grad``, ``jvp`` or ``functionalize``   the tensor before the transform, detached
sparse, nested, quantized, meta, fake, lazy, ``DTensor``   ValueError with the name of the argument and the conversion
inside ``torch.vmap``                                      ValueError
=========================================================  =========================================================

A subclass with its own ``__torch_dispatch__`` is unchanged on an accelerator, where its operators are called.
"""

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

WITHOUT_TENSORS: frozenset[type[Any]] = frozenset((int, float, bool, str, bytes, type(None), torch.dtype))

DEEPEST = 4  # lists of images with lists of masks; codes of masks are checked by their reader
_NO_DISPATCH = Tensor.__torch_dispatch__
_functorch = torch._C._functorch
# A tensor is plain if ``key_bits(key_set(tensor))`` is in ``PLAIN_KEYS``; one lookup covers every other kind of memory.
key_set: Callable[[Any], Any] = torch._C._dispatch_keys
key_bits: Callable[[Any], int | str] = getattr(torch._C.DispatchKeySet, "raw_repr", repr)  # torch 2.4 has only the text
PLAIN_KEYS: set[int | str] = set()  # keys of tensors on CPU, and of plain tensors seen on other devices
with torch.inference_mode():
    PLAIN_KEYS.add(key_bits(key_set(torch.empty(0, device="cpu"))))
with torch.inference_mode(False):
    PLAIN_KEYS.add(key_bits(key_set(torch.empty(0, device="cpu"))))
_transforms_active = torch._C._are_functorch_transforms_active


def untraced(
    function: Callable[P, R],
    otherwise: Callable[P, R] | None = None,
    first: int = 0,
    *,
    depth: int = DEEPEST,
    shortcut: Callable[..., bool] | None = None,
) -> Callable[P, R]:
    """Return a function that compiled code calls without tracing, and that receives plain tensors.

    ``torch.compiler.disable`` would import the compiler. :func:`call_with_plain` converts the tensors.

    Args:
        function: called if all arguments are plain tensors, None, numbers or text.
        otherwise: called with other arguments; None for the function itself.
        first: index of the first argument that can be a tensor: 1 for a method.
        depth: levels of arguments whose tensors are converted; 1 if the function calls :func:`with_plain_tensors` for
            lists and dicts.
        shortcut: called first if all arguments are plain tensors or tensors that NumPy cannot read, which raise
            RuntimeError or TypeError. The call is complete if it returns True; otherwise ``function`` is called.
    """
    general = otherwise or function
    unchanged = WITHOUT_TENSORS if depth > 1 else WITHOUT_TENSORS | {list, tuple, dict}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_dynamo_compiling():  # the global `torch` makes the compiler trace this frame
            from torch_ap.core.base.compiled_callers import run

            result: R = run(call, *args, **kwargs)
            return result
        plain = not _transforms_active()
        if shortcut is not None and plain and not torch.is_inference_mode_enabled():
            for value in (*args, *kwargs.values()):
                if value.__class__ is not torch.Tensor or torch._is_functional_tensor(value):
                    break
            else:
                try:  # `contextlib.suppress` takes a microsecond
                    if shortcut(*args, **kwargs):
                        return None  # type: ignore[return-value]
                except (RuntimeError, TypeError):  # unreadable tensors, other arguments
                    pass
        for value in (*args[first:], *kwargs.values()):  # twice as fast as `all`
            kind = value.__class__
            if kind in unchanged or (kind is list and not value):
                continue
            if kind is not torch.Tensor or value.requires_grad or key_bits(key_set(value)) not in PLAIN_KEYS:  # type: ignore[attr-defined]
                plain = False
                break
        return function(*args, **kwargs) if plain else call_with_plain(general, args, kwargs, depth)

    # own code object per function: the compiler counts calls per code object, up to a limit
    call.__code__ = call.__code__.replace(co_name=function.__name__)  # type: ignore[attr-defined]
    return call


def untraced_package(package: str) -> None:
    """Make the public functions of a package untraced, in its modules and in the modules that define them."""
    public = {name: vars(sys.modules[package])[name] for name in sys.modules[package].__all__}
    replaced = {function: untraced(function) for function in public.values() if inspect.isfunction(function)}
    homes = {package, *(function.__module__ for function in replaced)}
    for module in [x for name, x in sys.modules.items() if name in homes or name.startswith(f"{package}.")]:
        for name, value in vars(module).copy().items():
            if inspect.isfunction(value) and value in replaced:
                setattr(module, name, replaced[value])


def disable_tracing_of_methods(cls: type, but: Collection[str] = ()) -> None:
    """Exclude the public methods of a class from tracing, except ``but``, and its properties from ``torch.jit``."""
    for name, method in vars(cls).copy().items():
        if inspect.isfunction(method) and not name.startswith("_"):
            method.__qualname__ = name  # for TypeError messages: callers may not know this base class
            if name not in but:
                setattr(cls, name, untraced(method, first=1))
    properties = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)}
    cls.__jit_unused_properties__ = sorted(properties)  # type: ignore[attr-defined]


def is_plain(value: Any) -> bool:
    """Return whether no tensor in a value needs a conversion, to the depth of arguments.

    The levels are checked one by one, because most values of a level have one type. The bounded depth skips the many
    codes of masks, and terminates for a list that contains itself.
    """
    level = [value]
    for levels_left in reversed(range(DEEPEST)):
        types: set[type[Any]] = set(map(type, level))
        inner: list[Any] = []
        for kind in types - WITHOUT_TENSORS:
            same = level if len(types) == 1 else [x for x in level if type(x) is kind]
            if issubclass(kind, Tensor):
                if kind is not Tensor or not PLAIN_KEYS.issuperset(map(key_bits, map(key_set, same))):
                    return False
            elif not levels_left:
                continue
            elif issubclass(kind, Mapping):
                inner += itertools.chain.from_iterable(map(kind.values, same))
            elif issubclass(kind, list | tuple):
                inner += itertools.chain.from_iterable(same)
        if not inner:
            break
        level = inner
    return True


def call_with_plain(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], depth: int = DEEPEST
) -> Any:
    """Call the function with plain tensors, outside the transforms of ``torch.func``.

    Args:
        function: the function.
        args, kwargs: its arguments.
        depth: as of :func:`untraced`, outside the transforms.

    Raises:
        ValueError: for a tensor whose values cannot be read.
    """
    if torch._C._are_functorch_transforms_active():  # they wrap every new tensor
        from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

        with temporarily_clear_interpreter_stack():
            return call_with_plain(function, args, kwargs)
    try:
        plain_args = [with_plain_tensors("", value, depth) for value in args]
        plain_kwargs = {name: with_plain_tensors("", value, depth) for name, value in kwargs.items()}
    except ValueError:
        _raise_with_names(function, args, kwargs)
    return function(*plain_args, **plain_kwargs)


def plain_tensor(name: str, value: Tensor) -> Tensor:
    """Return a tensor as a plain tensor.

    Args:
        name: name of the argument in messages.
        value: any tensor.

    Raises:
        ValueError: for a tensor whose values cannot be read.
    """
    kind = type(value)
    if kind.__torch_dispatch__ is not _NO_DISPATCH:
        if not value.is_cpu and not value.is_meta and not hasattr(value, "full_tensor"):
            return value
        to_write = f"`{name}.full_tensor()`" if hasattr(value, "full_tensor") else "a plain tensor"
        _raise_unreadable(name, f"a {kind.__name__}", to_write)
    with torch._C.DisableTorchFunctionSubclass():
        value = _untransformed(name, value)
        if torch.nn.parameter.is_lazy(value):
            _raise_unreadable(name, f"a {kind.__name__} without values", "a tensor")
        if value.layout is not torch.strided:
            _raise_unreadable(name, f"a sparse tensor ({value.layout})", f"`{name}.to_dense()`")
        if value.is_nested:
            _raise_unreadable(name, "a nested tensor", f"`{name}.to_padded_tensor(...)` or one of `{name}.unbind()`")
        if value.is_quantized:
            _raise_unreadable(name, f"a quantized tensor ({value.dtype})", f"`{name}.dequantize()`")
        if value.is_meta:
            _raise_unreadable(name, "a tensor on the meta device, which has no values", "a tensor on another device")
        value = value.detach()
        if kind is not Tensor:
            value = value.as_subclass(Tensor)
        value = value.resolve_conj().resolve_neg()
        if not value.is_cpu:
            PLAIN_KEYS.add(key_bits(key_set(value)))
        return value


def with_plain_tensors(name: str, value: Any, depth: int = DEEPEST) -> Any:
    """Return a value with plain tensors; lists and dicts that contain another tensor are copied.

    Args:
        name: name of the value in messages.
        value: any value.
        depth: levels of lists and dicts whose tensors are converted.

    Raises:
        ValueError: for a tensor whose values cannot be read.
    """
    if isinstance(value, Tensor):
        return plain_tensor(name, value)
    if depth == DEEPEST and is_plain(value):
        return value
    if depth > 1 and isinstance(value, Mapping):
        return {key: with_plain_tensors(f"{name}[{key!r}]", part, depth - 1) for key, part in value.items()}
    if depth > 1 and isinstance(value, list | tuple):
        parts = [with_plain_tensors(f"{name}[{place}]", part, depth - 1) for place, part in enumerate(value)]
        return value._make(parts) if hasattr(value, "_make") else parts
    return value


def plain_result(name: str, value: Any) -> Any:
    """Return the result of a caller's function, a tensor as a plain tensor."""
    return plain_tensor(name, value) if isinstance(value, Tensor) else value


def _untransformed(name: str, value: Tensor) -> Tensor:
    """Return the tensor below the transforms of ``torch.func``."""
    while _functorch.is_functorch_wrapped_tensor(value) or torch._is_functional_tensor(value):
        if torch._is_functional_tensor(value):
            torch._sync(value)  # type: ignore[attr-defined, no-untyped-call]
            value = torch._from_functional_tensor(value)
        elif _functorch.is_batchedtensor(value):
            _raise_unreadable(
                name,
                "a batched tensor of `torch.vmap`, which torch_ap does not support",
                "all of it in one call: (N, C) scores of C labels, (Q, D) rows or `indexes` of queries, a list of "
                "images; or call the function in a loop",
            )
        else:
            value = _functorch.get_unwrapped(value)
    return value


def _raise_unreadable(name: str, kind: str, to_write: str) -> NoReturn:
    raise ValueError(f"`{name}` is {kind}; pass {to_write}")


def _raise_with_names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NoReturn:
    """Raise the ValueError of a conversion again, with the name of the argument, whose lookup takes 20 us."""
    # `forward` passes its arguments on to `update`
    signature = inspect.signature(type(args[0]).update if function.__name__ == "forward" else function)
    try:
        for name, value in (*zip(_positional_names(signature), args, strict=False), *kwargs.items()):
            with_plain_tensors(name, value)
    except ValueError as error:
        raise error from None
    raise AssertionError("the arguments became plain")


def _positional_names(signature: inspect.Signature) -> Iterator[str]:
    """Yield a name for each positional argument; arguments of ``*args`` have a number."""
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            yield from (f"{name}[{place}]" for place in itertools.count())
        yield name
    yield from itertools.repeat("argument")  # more than the function takes
