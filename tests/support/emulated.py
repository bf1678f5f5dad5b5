"""Emulated CUDA device made of CPU tensors, so that accelerator code runs with real values without an accelerator.

Inside ``device()`` each tensor on the device "cuda" stores its values in a CPU tensor. As on a real device, operators
cannot mix devices and ``.numpy()`` raises. Each operation that would make the host wait for the device is counted in
``Waits.seen`` by operator and line, and raises under ``torch.cuda.set_sync_debug_mode("error")``.
"""

import contextlib
import linecache
import sys
from collections import Counter
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


LISTS = (list, tuple)  # much quicker than a union of types in this hot path


def leaves(x):
    """Yield the arguments of an operator from nested lists; ``torch.utils._pytree`` takes three times as long."""
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, LISTS) else [x]


def mapped(change, x):
    """Apply a function to every leaf of nested lists."""
    return type(x)([mapped(change, part) for part in x]) if isinstance(x, LISTS) else change(x)


# operators whose result has a size, or a Python value, that only the device knows
WAIT = {
    *("_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "bincount", "histc", "_histogramdd"),
    *("_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "segment_reduce"),
}
INDEX = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
COPY = {"_to_copy", "copy_", "copy"}
# operators that accept no host tensor, even with a single number
STRICT = {
    *("cat", "searchsorted", "bucketize", "gather", "index_select", "take", "index_add_", "index_copy_", "scatter_add"),
    *("scatter_add_", "scatter_reduce", "scatter_reduce_", "mm", "bmm", "addmm", "dot", "mv"),
}


class Waits:
    """Counts of the operations that made the host wait, and whether such an operation is an error."""

    def __init__(self):
        self.seen: Counter[tuple[str, str]] = Counter()
        self.mode = "default"

    def note(self, what):
        frame = sys._getframe(1)
        asked = None  # the innermost line of the caller, or of the package if the package made the call
        while frame is not None and "/torch_ap/" not in frame.f_code.co_filename:
            if asked is None and frame.f_code.co_filename != __file__ and "/torch/" not in frame.f_code.co_filename:
                asked = frame
            frame = frame.f_back
        asked = frame or asked
        where = f"{asked.f_code.co_filename}:{asked.f_lineno}"
        self.seen[what, where] += 1
        if self.mode in ("error", 2):
            line = linecache.getline(asked.f_code.co_filename, asked.f_lineno).strip()
            raise RuntimeError(f"called a synchronizing CUDA operation: {what} at {where} {line}")

    def set_mode(self, mode):
        self.mode = mode


class OnDevice(torch.Tensor):
    """A tensor on the emulated device; ``values`` is on the host."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values):
        out = torch.Tensor._make_wrapper_subclass(
            cls, values.shape, values.stride(), values.storage_offset(), dtype=values.dtype, device=CUDA
        )
        out.values_on_host = values
        return out

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} of a tensor of an emulated device that is gone")

    def __repr__(self, **_):
        return f"OnDevice({self.values_on_host!r})"

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), self.clone())

    def __reduce_ex__(self, protocol):
        return OnDevice, (self.values_on_host,)

    def tolist(self):
        return self.cpu().tolist()

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        return self.item().__index__()

    def numpy(self, **_):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    __array__ = numpy

    def __format__(self, spec):
        return format(self.item() if self.ndim == 0 else str(self), spec)


class Emulation(TorchDispatchMode):
    """Mode that runs every operator on the host and checks whether a device could have run it."""

    def __init__(self, waits):
        super().__init__()
        self.waits = waits

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name[6:]  # without "aten::"
        there = OnDevice in types
        device = torch.device(kwargs["device"]) if kwargs.get("device") is not None else (CUDA if there else CPU)
        if name in ("_pin_memory", "pin_memory"):
            return _pinned(args[0].clone())
        if name == "is_pinned":
            return getattr(args[0], "is_pinned_here", False)
        if not there and device.type == "cpu":
            return func(*args, **kwargs)
        here = [x for x in leaves((args, *kwargs.values())) if isinstance(x, torch.Tensor) and type(x) is not OnDevice]
        self._check(func, name, args, there, here)
        self._note(name, args, kwargs, device)
        return self._run(func, args, kwargs, device if name not in ("copy_",) else args[0].device)

    @classmethod
    def _should_skip_dynamo(cls):
        """Return False, because a check of the compiler at each operator takes a sixth of the time."""
        return False

    def _check(self, func, name, args, there, here):
        """Raise if the arguments are on different devices, as CUDA does."""
        first_on_host = not isinstance(args[0], OnDevice) if args else False
        mixed = there and any(x.ndim > 0 or name in STRICT for x in here)
        if name in INDEX:  # indices may be on the host; the indexed tensor and the values share a device
            put = [x for x in args[2:] if isinstance(x, torch.Tensor)]
            mixed = first_on_host or any(x.ndim > 0 and not isinstance(x, OnDevice) for x in put)
        elif name.endswith("_") and name not in COPY:
            mixed = mixed or (first_on_host and there)
        if mixed and name not in COPY:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu in {func}")

    def _note(self, name, args, kwargs, device):
        """Count an operation that makes the host wait."""
        if name in WAIT:
            self.waits.note(name)
        elif name == "repeat_interleave" and kwargs.get("output_size") is None:
            self.waits.note("repeat_interleave without output_size")
        elif name in INDEX:
            indices = [x for x in args[1] if isinstance(x, torch.Tensor)]
            if any(x.dtype in (torch.bool, torch.uint8) for x in indices):
                self.waits.note(f"{name} by mask")
            if any(not isinstance(x, OnDevice) for x in indices):
                self.waits.note(f"{name} by indices of the host")
        elif name in ("_to_copy", "copy_"):
            source, target = (args[0], device) if name == "_to_copy" else (args[1], args[0].device)
            waiting = not (kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))
            if isinstance(source, OnDevice):
                if target.type == "cpu":
                    self.waits.note("copy to the host")
            elif target.type == "cuda" and (waiting or not getattr(source, "is_pinned_here", False)):
                self.waits.note("copy from the host")

    def _run(self, func, args, kwargs, device):
        wrapped = {}

        def down(x):
            if isinstance(x, OnDevice):
                wrapped[id(x.values_on_host)] = x
                return x.values_on_host
            return CPU if isinstance(x, torch.device) else x

        def up(x):
            if isinstance(x, torch.Tensor) and not isinstance(x, OnDevice):
                return wrapped.get(id(x)) if id(x) in wrapped else OnDevice(x)
            return x

        name, given = func._schema.name, mapped(down, args)
        out = _run_on_host(func, given, {k: mapped(down, v) for k, v in kwargs.items() if k != "pin_memory"})
        if name == "aten::_to_copy" and any(out is x for x in given):  # torch regards both as one device
            out = out.clone()
        if name == "aten::copy_":
            return args[0]
        return mapped(up, out) if device.type == "cuda" else out


class Python(TorchFunctionMode):
    """Mode for functions that torch implements in C++ before the dispatcher and that need a real device."""

    def __init__(self, waits):
        super().__init__()
        self.waits = waits

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in ITEM and isinstance(args[0], OnDevice):
            return self._item(func, *args)
        if func is torch.Tensor.to:
            args = tuple(map(_indexed, args))
        if kwargs and kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": _indexed(kwargs["device"])}
        return SPELLED_OUT.get(func, func)(*args, **(kwargs or {}))

    def _item(self, func, whole, index, *value):
        """Return ``whole[index]``, or assign a value to it."""
        for x in leaves(index):
            if isinstance(x, torch.Tensor) and x.dtype in (torch.bool, torch.uint8):
                filled = value and not isinstance(value[0], torch.Tensor) and not isinstance(index, tuple)
                if not filled:  # equals `masked_fill`
                    self.waits.note("index by mask")
            elif isinstance(x, OnDevice) and x.ndim == 0:
                self.waits.note("index by a number of the device")
            elif isinstance(x, torch.Tensor) and not isinstance(x, OnDevice) and x.ndim > 0:
                self.waits.note("index by a tensor of the host")
        if any(isinstance(x, torch.Tensor) and not isinstance(x, OnDevice) and x.ndim > 0 for x in value):
            raise RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu in index_put_")
        host, *put = mapped(_values, (whole, *value))
        with torch._C.DisableTorchFunction():
            found = func(host, mapped(_values, index), *put)
        if value:
            torch.autograd.graph.increment_version(whole)
        return found if value else OnDevice(found)


def _values(x):
    return x.values_on_host if isinstance(x, OnDevice) else x


def _nonzero(x, as_tuple=False):
    places = torch.ops.aten.nonzero(x)
    return places.unbind(1) if as_tuple else places


ITEM = {torch.Tensor.__getitem__, torch.Tensor.__setitem__}
SPELLED_OUT = {
    torch.Tensor.cuda: lambda x, _device=None, **how: x.to(CUDA, **how),
    torch.Tensor.copy_: lambda x, source, non_blocking=False: torch.ops.aten.copy_(x, source, non_blocking),
    torch.Tensor.new_tensor: lambda x, data, **how: torch.tensor(data, **{"dtype": x.dtype, "device": x.device, **how}),
    torch.Tensor.contiguous: lambda x: x if x.is_contiguous() else x.clone(memory_format=torch.contiguous_format),
    torch.Tensor.__invert__: torch.bitwise_not,
    torch.Tensor.nonzero: _nonzero,
    torch.nonzero: _nonzero,
}


def _indexed(x):
    named = isinstance(x, str | torch.device) and str(x) in ("cuda", "cuda:0")
    return CUDA if named else x


def _pinned(x):
    x.is_pinned_here = True
    return x


class _AnyGenerator(type(torch.Generator)):
    def __instancecheck__(cls, x):
        return isinstance(x, _Generator)


_Generator = torch.Generator


class Generator(_Generator, metaclass=_AnyGenerator):
    """A generator that claims to be on the device, with the numbers of the host."""

    def __new__(cls, device="cpu"):
        out = super().__new__(cls, "cpu")
        out.lies_on = torch.device(device)
        return out

    @property
    def device(self):
        return CUDA if self.lies_on.type == "cuda" else self.lies_on


@contextlib.contextmanager
def in_thread(waits):
    """Activate the device in another thread, where torch has separate modes; do nothing for None."""
    with contextlib.ExitStack() as modes:
        if waits is not None:
            torch._C._set_only_lift_cpu_tensors(True)
        for mode in () if waits is None else (Python(waits), Emulation(waits)):
            modes.enter_context(mode)
        yield


@contextlib.contextmanager
def set_aside():
    """Run operators on the host as usual inside the ``with``, which halves the time of reference computations."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


@contextlib.contextmanager
def device():
    """Emulate a CUDA device inside the ``with`` and yield its :class:`Waits`."""
    waits = Waits()
    cuda = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "synchronize": lambda *_: None,
        "device": lambda *_: contextlib.nullcontext(),
        "set_sync_debug_mode": waits.set_mode,
    }
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        generators = mock.patch.object(torch, "Generator", Generator)
        with mock.patch.multiple(torch.cuda, **cuda), generators, Python(waits), Emulation(waits):
            yield waits
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def _run_on_host(func, args, kwargs):
    """Run an operator on the host with the equality of results that a device has.

    torch on CPU computes the last few sigmoids of an array in another way, so that equal logits get different values.
    """
    if func is torch.ops.aten.sigmoid.default:
        return func(args[0].double()).to(args[0].dtype)
    return func(*args, **kwargs)
