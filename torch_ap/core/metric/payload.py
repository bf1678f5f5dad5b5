"""Conversion of the state of a metric to bytes and back, for results of separate jobs.

=========  =====  ============================================================================
field      bytes  content
=========  =====  ============================================================================
name       8      ``torch_ap``
version    2      version of this format; all numbers are little-endian
length     8      number of bytes of all fields, from the name to the checksum
header     4 + x  length of the header, and JSON: class, settings, number of updates, name and form of each state
states     ...    the values of each state, compressed by zlib if that shortens them
checksum   16     BLAKE2b of all preceding fields
=========  =====  ============================================================================

No field is executed: the bytes become numbers, which are checked like the state of any other metric.
"""

import hashlib
import json
import math
import struct
import sys
import zlib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.core.metric.state import M, checked_state, emptied, joined

VERSION = 2  # 1 had no settings
_HOMES = ("torch_ap", "torch_ap.classification", "torch_ap.retrieval", "torch_ap.detection")  # of metric classes
_JSON_SCALARS = (str, bool, int, float, type(None))
_NAME = b"torch_ap"
_START = struct.Struct("<8sHQ")
_HEADER = struct.Struct("<I")
_CHECKSUM = 16
_SAMPLE = 1 << 16  # bytes of a state that decide whether to compress the rest
_MAX_RATIO = 0.9  # of compressed to raw bytes
_TOO_MANY = 1 << 48  # numbers of a state, or updates
_MOST_DIMENSIONS = 8
_DTYPES = {
    str(x).removeprefix("torch."): x
    for x in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    )
}


def pack(kind: str, settings: Any, updates: int, states: Mapping[str, Tensor | None]) -> bytes:
    """Return the bytes of a metric.

    Args:
        kind: name of the class of the metric.
        settings: encoded arguments of the class by name, or the reason why there are none.
        updates: number of updates.
        states: the states by name; None for an empty list.
    """
    forms: list[list[Any]] = []
    parts: list[bytes] = []
    for name, state in states.items():
        if state is None:
            forms.append([name])
            continue
        raw = _raw(state)
        sample = raw[:_SAMPLE]
        packed = zlib.compress(raw, 1) if len(zlib.compress(sample, 1)) < _MAX_RATIO * len(sample) else raw
        forms.append([name, str(state.dtype).removeprefix("torch."), list(state.shape), len(packed), packed is not raw])
        parts.append(packed)
    content = {"class": kind, "settings": settings, "updates": updates, "order": sys.byteorder, "states": forms}
    header = json.dumps(content).encode()
    body = [_HEADER.pack(len(header)), header, *parts]
    length = _START.size + sum(map(len, body)) + _CHECKSUM
    whole = b"".join([_START.pack(_NAME, VERSION, length), *body])
    return whole + _checksum(whole)


def unpack(data: Any, kind: str) -> tuple[int, dict[str, Tensor | None]]:
    """Return the number of updates, and the states by name, from the bytes of a metric.

    Args:
        data: bytes.
        kind: required name of the class.

    Raises:
        TypeError: if ``data`` is not bytes.
        ValueError: if ``data`` has another format, a newer version or another class, or is incomplete or changed.
    """
    header, start, data = _read_header(data)
    if header["class"] != kind:
        raise ValueError(f"`data` must come from a {kind}, got the state of a {header['class']}")
    if header["order"] != sys.byteorder:
        raise ValueError(f"`data` must be of this machine's order of bytes, {sys.byteorder}, got {header['order']}")
    states: dict[str, Tensor | None] = {}
    for name, *form in header["states"]:
        states[name] = None
        if form:
            dtype, shape, size, packed = form
            states[name] = _tensor(data[start : start + size], _DTYPES[dtype], shape, packed)
            start += size
    if start != len(data) - _CHECKSUM:
        raise ValueError("`data` must contain its states and nothing else")
    return header["updates"], states


def _read_header(data: Any) -> tuple[dict[str, Any], int, bytes]:
    """Return the header, the offset of the states and the bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise_invalid("data", "must be bytes", data, TypeError)
    data = bytes(data)
    _check_whole(data)
    return *_header_of(data), data


def _check_whole(data: bytes) -> None:
    if data[: len(_NAME)] != _NAME[: len(data)] or not data:
        raise ValueError(f"`data` must come from `to_bytes()` of a metric of torch_ap, got {short_repr(data[:16])}")
    if len(data) < _START.size:
        raise ValueError(f"`data` must be complete, got the first {len(data)} bytes")
    _, version, length = _START.unpack_from(data)
    if version > VERSION:
        raise ValueError(f"`data` must be of a version up to {VERSION}, got {version}: a newer torch_ap wrote it")
    if length != len(data):
        raise ValueError(f"`data` must be complete, {length} bytes long, got {len(data)}")
    if (
        version < 1
        or len(data) < _START.size + _HEADER.size + _CHECKSUM
        or _checksum(data[:-_CHECKSUM]) != data[-_CHECKSUM:]
    ):
        raise ValueError("`data` must be as `to_bytes()` wrote it, got bytes that have changed (wrong checksum)")


def _header_of(data: bytes) -> tuple[dict[str, Any], int]:
    """Return the header, and the offset of the states."""
    (size,) = _HEADER.unpack_from(data, _START.size)
    start = _START.size + _HEADER.size + size
    try:
        header = json.loads(data[start - size : start])
        known = isinstance(header, dict) and header.keys() - {"settings"} == {"class", "updates", "order", "states"}
        known = known and type(header["updates"]) is int and 0 <= header["updates"] < _TOO_MANY
        known = known and all(map(_is_form, header["states"]))
    except (ValueError, TypeError, RecursionError):
        known = False
    if not known:
        raise ValueError("`data` must have a header that describes its states")
    return header, start


def _is_form(form: Any) -> bool:
    if not isinstance(form, list) or not form or not isinstance(form[0], str) or len(form) not in (1, 5):
        return False
    if len(form) == 1:
        return True
    _, dtype, shape, size, packed = form
    numbers = isinstance(shape, list) and all(type(x) is int and x >= 0 for x in [*shape, size])
    numbers = numbers and len(shape) <= _MOST_DIMENSIONS and math.prod(x for x in shape if x) < _TOO_MANY
    return numbers and isinstance(dtype, str) and dtype in _DTYPES and isinstance(packed, bool)


def _tensor(data: bytes, dtype: torch.dtype, shape: list[int], packed: bool) -> Tensor:
    size = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    if packed:
        try:
            data = zlib.decompressobj().decompress(data, size + 1)
        except zlib.error:
            data = b""
    if len(data) != size:
        raise ValueError(f"`data` must contain states of the size in its header, {size} bytes, got {len(data)}")
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)


def _raw(state: Tensor) -> bytes:
    flat = state.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM).digest()


def to_bytes(self: Any) -> bytes:
    """Return the state as compact bytes with a version and a checksum, without pickle.

    Returns:
        The argument of :func:`torch_ap.load`, or of ``from_bytes`` of a metric of the same class and settings, on any
        machine and device.

    Example:
        >>> import torch, torch_ap
        >>> metric = torch_ap.BinaryAveragePrecision()
        >>> metric.update(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]))
        >>> torch_ap.BinaryAveragePrecision().from_bytes(metric.to_bytes()).compute()
        tensor(0.8333)
    """
    lists = self._lists
    rows = joined({name: getattr(self, name) for name in lists})
    states = {name: rows.get(name) if name in lists else getattr(self, name) for name in self._defaults}
    return pack(type(self).__name__, _encode_settings(self), self._update_count, states)


def _encode_settings(metric: Any) -> dict[str, Any] | str:
    """Return the arguments of a metric by name, or the reason why they cannot be stored."""
    settings = metric._stored_settings()
    if metric._result_dtype is not None:
        settings["dtype"] = str(metric._result_dtype)
    try:
        return {name: _encode(value) for name, value in settings.items()}
    except TypeError as reason:
        return str(reason)


def _encode(value: Any) -> Any:
    """Return a value that JSON represents: containers and tensors become lists after their kind."""
    if isinstance(value, Tensor):
        return ["tensor", str(value.dtype).removeprefix("torch."), _encode(value.tolist())]
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, _JSON_SCALARS):
        return value
    if isinstance(value, Mapping):
        return ["dict", *([_encode(key), _encode(x)] for key, x in value.items())]
    if isinstance(value, list | tuple):
        return ["tuple" if isinstance(value, tuple) else "list", *map(_encode, value)]
    raise TypeError(f"a setting is {short_repr(value)}, which has no form in bytes")


def _decode(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *items = value
    if kind == "dict":
        return {_decode(key): _decode(x) for key, x in items}
    if kind == "tensor":
        return torch.tensor(_decode(items[1]), dtype=_DTYPES[items[0]])
    return tuple(map(_decode, items)) if kind == "tuple" else list(map(_decode, items))


def load(data: bytes) -> Any:
    """Return the metric that ``to_bytes`` wrote, with its settings and state.

    Args:
        data: bytes of any metric of this package.

    Raises:
        TypeError: if ``data`` is not bytes.
        ValueError: if ``data`` was not written by ``to_bytes``, is incomplete, has changed, or has a newer version; and
            if it has no settings, because an earlier version of this package wrote it, or because a setting is a
            function. Then use ``from_bytes`` of a metric with these settings.

    Example:
        >>> import torch, torch_ap
        >>> metric = torch_ap.BinaryAveragePrecision(ties="expected")
        >>> metric.update(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]))
        >>> loaded = torch_ap.load(metric.to_bytes())
        >>> loaded
        BinaryAveragePrecision(thresholds=None, normalization=None, ties='expected')
        >>> loaded.compute()
        tensor(0.8333)
    """
    header, _, data = _read_header(data)
    settings, name = header.get("settings", "an earlier version wrote it"), header["class"]
    if not isinstance(settings, dict):
        raise ValueError(f"`data` must contain its settings ({settings}): use `from_bytes` of a metric with them")
    homes = [import_module(home) for home in _HOMES]
    kind = next((getattr(home, name) for home in homes if name in home.__all__), None)
    if kind is None or not hasattr(kind, "from_bytes"):
        raise ValueError(f"`data` must come from a metric class of torch_ap, got {short_repr(name)}")
    try:
        arguments = {key: _decode(value) for key, value in settings.items()}
        dtype = arguments.pop("dtype", None)
        metric = kind(**arguments)
    except (TypeError, ValueError, KeyError, IndexError, RuntimeError) as reason:
        raise ValueError(f"`data` must contain valid settings of {name}: {reason}") from None
    if dtype is not None:
        metric.set_dtype(dtype)
    return metric.from_bytes(data)


def from_bytes(self: M, data: bytes) -> M:
    """Return a new metric with the settings of this one and the state that ``to_bytes`` wrote.

    Args:
        data: bytes of a metric of this class and settings.

    Raises:
        TypeError: if ``data`` is not bytes.
        ValueError: if ``data`` was not written by ``to_bytes``, is incomplete, has changed, has a newer version, or
            comes from a metric of another class or other settings.
    """
    updates, states = unpack(data, type(self).__name__)
    loaded: Any = emptied(self)
    lists = loaded._lists
    lists_and_sums = {name: ([] if x is None else [x]) if name in lists else x for name, x in states.items()}
    vars(loaded).update({**checked_state(loaded, lists_and_sums, "data"), "_update_count": updates})
    return loaded  # type: ignore[no-any-return]


def pickle_in_dask(cls: type) -> None:
    """Make Dask pickle a class and its subclasses, if Dask is loaded.

    Dask copies modules attribute by attribute. ``update`` and ``compute`` of such a copy belong to a second copy: the
    first never receives the batches. Only the process that sends a metric needs pickle. A worker loads Dask first.
    """
    module = sys.modules.get("distributed.protocol.serialize")
    if module is not None:
        module.dask_serialize.register(cls, _raise_for_dask)


def _raise_for_dask(_: Any) -> NoReturn:
    """Make Dask try its next serializer, which is pickle."""
    raise NotImplementedError
