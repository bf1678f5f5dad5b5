"""Base class of all metrics.

- ``forward`` takes as long as ``update`` and ``compute`` of its batch: it replaces the state temporarily, where
  torchmetrics copies the state in each step.
- After an interrupt or a lack of memory, the metric has the state before the call or the state after it.
- An invalid batch leaves the state unchanged. On an accelerator, reading values would stall the device. The metric
  therefore records broken rules, and ``compute`` raises an error that names the first invalid update.
- Processes may have unequal numbers of items, or none, and scores of different dtypes.
- Moving a metric moves its state and never casts scores or counts. ``set_dtype`` sets the dtype of the result.
"""

import functools
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import Module
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat, dim_zero_min, dim_zero_sum
from torchmetrics.utilities.distributed import gather_all_tensors
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.messages import raise_invalid, suggest_name
from torch_ap.core.base.options import Sync, allowed_values
from torch_ap.core.base.untraced import DEEPEST, disable_tracing_of_methods, untraced
from torch_ap.core.metric import payload, plotted
from torch_ap.core.metric import state as states
from torch_ap.core.metric import sync as processes
from torch_ap.core.metric.exchange import Ranks
from torch_ap.core.metric.state import Form, Held, SimpleBatch, append_in_one_step
from torch_ap.core.metric.sync import by_exchange

_SHARED_ARGUMENTS = (
    "sync",
    *("compute_on_cpu", "compute_with_cache", "dist_sync_fn", "dist_sync_on_step"),
    *("distributed_available_fn", "process_group", "sync_on_compute"),
)  # arguments of every metric, passed through ``**kwargs``
_MODULE_TYPES = (Tensor, Module)  # ``nn.Module`` may store attributes of these types in the following dicts
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")
_WRAPPED = ("update", "compute")  # methods that torchmetrics wraps for each instance
_PAIRWISE: dict[Any, Callable[..., Tensor]] = {  # reductions of two states without a stacked copy of both
    dim_zero_sum: torch.add,
    dim_zero_min: torch.minimum,
}


class RankingMetric(Metric):
    """Abstract base of the metrics of this package.

    A concrete class declares its states, lists of (N, ...) tensors and sums, and implements ``update`` and ``compute``.
    The state ``first_violation`` is added: a digest of ``identity``, then the first update that broke each value rule.

    Args:
        identity: text of all settings that ``update`` depends on. Metrics can share a state in a compute group, merge,
            and load each other's state only if their identities are equal.
        sync: "gather" or "exchange".
        kwargs: arguments of ``torchmetrics.Metric``.
    """

    is_differentiable: bool = False
    higher_is_better: bool = True
    full_state_update: bool = False
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    _value_rules: Sequence[str] = tensors.VALUE_RULES
    _peer_states: ClassVar[Sequence[str]] = ()  # states of torchmetrics' class of the same name that this class lacks
    _peer_arguments: ClassVar[Sequence[str]] = ()  # the peer states that are arguments of `update`
    _settings_of_update: ClassVar[str] = ""  # the settings in `identity`, for messages
    _converts_lists: ClassVar[bool] = False  # whether `update` converts the tensors in lists and dicts itself
    _cached_attributes: ClassVar[Sequence[str]] = ("_exchanged",)  # derived from the state; cleared by `reset`

    _summary_name: str  # name of the value in `summary`

    first_violation: Tensor
    _identity: Sequence[int]
    _state_before_forward: dict[str, Any] | None = None  # None outside `forward`
    _exchanged: Any = None  # share of this process while the metric is synced by exchange
    _lists: tuple[str, ...] = ()  # names of the list states

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        disable_tracing_of_methods(cls, but=_WRAPPED)
        if "__init__" in vars(cls):
            cls.__init__ = untraced(cls.__init__, first=1)  # type: ignore[method-assign]

    def __init__(self, identity: str, sync: Sync = "gather", **kwargs: Any) -> None:
        checks.one_of("sync", sync, allowed_values(Sync))
        if sync == "exchange" and kwargs.get("dist_sync_fn") is not None:
            raise_invalid("dist_sync_fn", "must be None with `sync='exchange'`", kwargs["dist_sync_fn"])
        try:
            super().__init__(**kwargs)
        except ValueError as error:
            self._raise_for_unknown(str(error), kwargs)
            raise
        if sync == "exchange":
            self.dist_sync_fn = by_exchange
        self._result_dtype: torch.dtype | None = None
        self._identity = list(zlib.crc32(identity.encode()).to_bytes(4, "big"))
        self._add_states("first_violation", empty=self._no_violation().clone, reduction=dim_zero_min)
        processes.register(self)
        payload.pickle_in_dask(RankingMetric)

    def _raise_for_unknown(self, message: str, arguments: Mapping[str, Any]) -> None:
        """Raise torchmetrics' error for unknown arguments with the most similar known name."""
        unknown = [name for name in arguments if f"`{name}`" in message]
        if message.startswith("Unexpected keyword") and unknown:
            known = [*signature(type(self)).parameters, *_SHARED_ARGUMENTS]
            raise ValueError(message + suggest_name(unknown[0], known)) from None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes of a copy, as in torchmetrics."""
        super().__setstate__(state)
        processes.register(self)

    def __getnewargs__(self) -> tuple[()]:
        """Return no arguments for copies; torchmetrics' ``repr`` takes a third of the time of a copy."""
        return ()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set states and settings without ``nn.Module``'s search for parameters, unless the module stores the name."""
        known, cls = self.__dict__, self.__class__
        is_plain = not isinstance(value, _MODULE_TYPES) and (name.startswith("_") or not hasattr(cls, name))
        is_plain = is_plain and (name in known or not [x for x in _MODULE_DICTS if name in known.get(x, ())])
        if is_plain or name in known.get("_defaults", ()):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """Return the settings that differ from their defaults, for ``repr``."""
        return states.settings_text(self._shown_settings() | self._shared_settings())

    def _stored_settings(self) -> dict[str, Any]:
        """Return the arguments that construct a metric with these settings."""
        return self._shown_settings() | self._shared_settings()

    def _shared_settings(self) -> dict[str, Any]:
        """Return the settings of this class that differ from their defaults."""
        return {"sync": "exchange"} if self.dist_sync_fn is by_exchange else {}

    # -- methods that concrete classes override

    def _shown_settings(self) -> dict[str, Any]:
        """Return the settings of the class that differ from their defaults, and others that ``repr`` shows."""
        raise NotImplementedError

    def _forms(self) -> dict[str, Form]:
        """Return the form of each list state."""
        raise NotImplementedError

    def _check_held(self, state: dict[str, Any]) -> None:
        """Raise ValueError if no valid batches give a state, whose form is valid.

        Args:
            state: all states; each list state that is not empty is one tensor.
        """
        raise NotImplementedError

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        """Return the argument of ``update`` that only one of two states contains, if both or neither must contain it.

        Args:
            here: names of the list states that are not empty in one state.
            there: names of the list states that are not empty in the other state.
        """
        raise NotImplementedError

    def _reader(self) -> "RankingMetric":
        """Return an empty metric with the same settings, which is updated with the batches of torchmetrics' class."""
        return self._emptied()

    def _empty_like(self, name: str, like: Tensor) -> Tensor:  # noqa: ARG002 - for states that are not sums
        """Return a sum state of this form before the first update."""
        return torch.zeros_like(like)

    @property
    def _can_exchange(self) -> bool:
        """Whether each process can compute the value from its share; counts are summed for every ``sync``."""
        return False

    @property
    def _exchange_key(self) -> Any:
        """Settings outside ``identity`` that the share depends on, or None."""
        return None

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> Any:
        """Return the share of this process, for ``compute``.

        Args:
            ranks: the processes; all of them call this method.
            held: list states of this process that any process has items of; entries can be removed to free memory.
        """
        raise NotImplementedError

    def _sample(self, *args: Any, **options: Any) -> Any:
        """Return the state as a :class:`torch_ap.inference.metric.Sample`.

        Args:
            options: arguments of one kind of metric: ``design`` or ``iou_type``.
        """
        raise NotImplementedError

    def _sample_of_value(self) -> Any:
        """Return the sample for the value with its interval, if the samples have one."""
        return self._sample()

    def _settings_of_value(self) -> Mapping[str, Any]:
        """Return the settings, by argument name, that must be equal to compare the values of two metrics."""
        raise NotImplementedError

    # -- invalid values on an accelerator

    _raise_first_violation = states.raise_first_violation
    _violations_after = states.violations_after
    _no_violation = states.no_violation

    def _check_device(self, values: Tensor, name: str) -> None:
        """Raise ValueError unless the values are on the device of the metric."""
        if values.device != self.device:
            hint = "move the metric with `metric.to(device)`"
            raise ValueError(f"`{name}` must be on the metric's device, {self.device}, got {values.device}; {hint}")

    # -- state, see also `torch_ap.core.metric.state`

    _check_fit = states.check_fit
    _check_identity = states.check_identity
    _checked_state = states.checked_state
    _emptied = states.emptied
    to_bytes = payload.to_bytes
    from_bytes = payload.from_bytes

    def add_state(self, name: str, default: Any, *args: Any, **kwargs: Any) -> None:
        """Add a state, as in torchmetrics, and record the names of list states."""
        super().add_state(name, default, *args, **kwargs)
        self._lists += (name,) if isinstance(default, list) else ()

    def _add_states(
        self, *names: str, empty: Callable[[], Any] = list, reduction: Callable[..., Tensor] = dim_zero_cat
    ) -> None:
        """Add states in a tenth of the time of ``add_state``, which copies the second empty state by ``deepcopy``."""
        for name in names:
            self.__dict__[name], self._defaults[name] = empty(), empty()
            self._persistent[name], self._reductions[name] = False, reduction
        self._lists += names if empty is list else ()

    def _accumulated(self) -> dict[str, Any]:
        """Return the states of all updates before this one, by name, also during ``forward``."""
        return self.__dict__ if self._state_before_forward is None else self._state_before_forward

    def _tensors(self) -> list[Tensor]:
        """Return all tensors of the state; ``first_violation`` is the last."""
        lists = [getattr(self, name) for name in self._lists]
        sums = [getattr(self, name) for name in self._defaults if name not in self._lists]
        batches = [x for parts in lists for x in parts if isinstance(x, Tensor)]
        return [*batches, *(x for x in sums if x is not self.first_violation), self.first_violation]

    def reset(self) -> None:
        """Remove all batches as torchmetrics does, but do not clear list objects that others may refer to."""
        own = self.__dict__
        cached = {name: getattr(type(self), name) for name in self._cached_attributes if name in own}
        counts = {"_update_count": 0, "_computed": None, "_forward_cache": None, "_cache": None, "_is_synced": False}
        own.update({**self._empty_states(), **counts, **cached})

    def _empty_states(self) -> dict[str, Any]:
        """Return the states of a metric without batches."""
        device = self.device
        defaults = self._defaults.items()
        return {name: x.detach().clone().to(device) if isinstance(x, Tensor) else [] for name, x in defaults}

    def _hold(self, batch: Sequence[Tensor | None], broken: Tensor | None = None) -> None:
        """Append a validated batch in one step.

        Args:
            batch: one column per list state, in the order of ``_lists``; None for an absent column.
            broken: on an accelerator, which value rules the batch breaks.

        Raises:
            ValueError: if the batch contradicts the earlier batches.
        """
        own = self.__dict__
        held, lists, columns, fits, is_first = self._accumulated(), [], [], True, True
        for name, column in zip(self._lists, batch, strict=True):
            parts = held[name]
            is_first = is_first and not parts and parts.__class__ is list
            if column is None:
                fits = fits and not parts
                continue
            lists.append(own[name])
            columns.append(column)
            if fits:  # the dtype of an empty batch is not binding
                fits = bool(parts and parts[-1].dtype is column.dtype and parts[-1].numel()) and parts.__class__ is list
        if not (fits or is_first):
            self._check_batch_fits(batch)
            lists = [own[name] for name, column in zip(self._lists, batch, strict=True) if column is not None]
        if broken is None:
            changes = {"_computed": None, "_update_count": own["_update_count"] + 1}
        else:
            changes = self._after_update(broken)
        append_in_one_step(own, changes, lists, columns)

    def _hold_small(self, states: SimpleBatch, columns: Sequence[Tensor] | None) -> bool:
        """Append the validated columns of a small batch on CPU; return False if :meth:`_hold` has to check more.

        Args:
            states: the list states of the columns; the first contains scores, whose dtype is the only one that varies.
            columns: one column per state, in new memory; None for a batch that is not small and valid.
        """
        own, held = self.__dict__, self._accumulated()
        if columns is None or own["_device"].type != "cpu" or states.read_others(held) != states.no_others:
            return False
        parts = states.read(held)[0]
        latest = parts[-1] if parts else columns[0]
        if parts.__class__ is not list or latest.dtype is not columns[0].dtype or not latest.numel():
            return False
        changes = {"_computed": None, "_update_count": own["_update_count"] + 1}
        append_in_one_step(own, changes, states.read(own), columns)
        return True

    def _check_batch_fits(self, batch: Sequence[Tensor | None]) -> None:
        """Raise ValueError if a batch contradicts the earlier batches, and convert tuple states to lists."""
        columns = zip(self._lists, batch, strict=True)
        self._check_fit(self._accumulated(), {name: [column] for name, column in columns if column is not None})
        own = self.__dict__
        own.update({name: list(own[name]) for name in self._lists if isinstance(own[name], tuple)})

    def _after_update(self, broken: Tensor | None = None) -> dict[str, Any]:
        """Return the attributes that every update changes."""
        own = self.__dict__
        count = own["_update_count"] + 1
        changes = {"_computed": None, "_update_count": count}
        if broken is not None:
            changes["first_violation"] = self._violations_after(broken, count)
        return changes

    def merge_state(self, incoming_state: "dict[str, Any] | Metric") -> None:
        """Add the items of another metric, or of its state, to this metric; the other metric does not change.

        A state is checked in the same way as a batch. Its items come first, as in torchmetrics, which matters for
        the positions of images and for equal scores; :func:`torch_ap.merge` keeps the order of its arguments.

        Raises:
            ValueError: if the other metric has another class or other settings of ``update``, if no updates give such a
                state, or if the two metrics contradict each other. The metric is then unchanged. Settings of the value
                alone, such as ``ties`` or ``prevalence``, can differ: those of this metric apply.
        """
        count, incoming = 1, incoming_state
        if isinstance(incoming_state, Metric):
            states.check_class(self, incoming_state, "incoming_state")
            count, incoming = incoming_state._update_count, incoming_state.metric_state
        state = self._checked_state(incoming, "incoming_state")
        self._check_fit(vars(self), state, "in this metric and in `incoming_state`, or in neither")
        if self.dist_sync_on_step:  # as in torchmetrics
            raise RuntimeError("`merge_state` requires a metric with `dist_sync_on_step=False`")
        merged = self._merged(state)
        if self.compute_on_cpu:
            merged |= self._lists_on_cpu(merged)
        vars(self).update({**merged, "_computed": None, "_update_count": self._update_count + count})

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        """Merge a state in one step; torchmetrics' ``Running`` calls this method."""
        vars(self).update(self._merged(incoming_state))

    def _merged(self, incoming: Mapping[str, Any]) -> dict[str, Any]:
        """Return the union of another state and the state of this metric.

        Args:
            incoming: the other state, whose batches come first; further entries are ignored.
        """
        merged: dict[str, Any] = {}
        reductions: Mapping[str, Any] = self._reductions
        for name, reduction in reductions.items():
            first, second = incoming[name], getattr(self, name)
            if name in self._lists:
                merged[name] = [*states.listed(first), *states.listed(second)]
            elif reduction in _PAIRWISE:
                merged[name] = _PAIRWISE[reduction](first, second)
            else:
                merged[name] = reduction(torch.stack([first, second]))
        return merged

    def _move_list_states_to_cpu(self) -> None:
        """Move the list states to the CPU in one step."""
        vars(self).update(self._lists_on_cpu(vars(self)))

    def _lists_on_cpu(self, held: Held) -> dict[str, list[Tensor]]:
        """Return copies of list states on the CPU."""
        return {name: [part.to("cpu") for part in held[name]] for name in self._lists}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Load copies of valid states on the device of this metric; load nothing if a state is invalid."""
        error_msgs: list[str] = kwargs["error_msgs"] if "error_msgs" in kwargs else args[-1]
        own = (*self._defaults, *self._peer_states)
        loaded = {name: state_dict.pop(prefix + name) for name in own if prefix + name in state_dict}
        if loaded:
            try:
                state = self._checked_state(loaded, "state_dict")
            except ValueError as error:
                error_msgs.append(f"{prefix.removesuffix('.')}: {error}".removeprefix(": "))
                return
            vars(self).update({**state, "_computed": None, "_update_count": max(1, self._update_count)})
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``update`` without gradients and outside inference mode; ``_hold`` counts the updates."""

        @functools.wraps(update)
        def plain(*args: Any, **kwargs: Any) -> None:
            if torch.is_inference_mode_enabled():  # inference tensors do not count writes, as `memoize` requires
                with torch.inference_mode(False), torch.no_grad():
                    update(*args, **kwargs)
            else:
                update(*args, **kwargs)
            if self.compute_on_cpu:
                self._move_list_states_to_cpu()

        depth = 1 if self._converts_lists else DEEPEST
        shortcut = getattr(update, "shortcut", None)  # absent from a subclass's own `update`
        shortcut = shortcut and partial(shortcut, self)
        return untraced(plain, otherwise=torch.no_grad()(plain), depth=depth, shortcut=shortcut)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``compute`` as wrapped by torchmetrics, whose steps are only called where they have an effect."""
        from lightning_utilities import apply_to_collection  # as torchmetrics

        general = super()._wrap_compute(compute)

        @functools.wraps(compute)
        def plain(*args: Any, **kwargs: Any) -> Any:
            is_synced = self._is_synced or (self._to_sync and self.distributed_available_fn())
            if is_synced or self._computed is not None or not self._update_count:
                return general(*args, **kwargs)
            value = apply_to_collection(compute(*args, **kwargs), Tensor, _own_result)
            if self.compute_with_cache:
                self._computed = value
            return value

        return untraced(plain)

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return the value of this batch alone, without a copy of the accumulated items.

        Raises:
            TorchMetricsUserError: while the metric is synced.
        """
        if torch.is_inference_mode_enabled():  # see `_wrap_update`
            with torch.inference_mode(False), torch.no_grad():
                return self.forward(*args, **kwargs)
        if self._is_synced:
            raise TorchMetricsUserError("The metric is synced: call `unsync` before `forward`")
        own, on_cpu = self.__dict__, self.compute_on_cpu
        before = {name: own[name] for name in (*self._defaults, "_computed", "_update_count")}
        settings = {"_state_before_forward": None, "_to_sync": self.sync_on_compute, "compute_on_cpu": on_cpu}
        during = {"_state_before_forward": before, "_to_sync": self.dist_sync_on_step, "compute_on_cpu": False}
        during |= self._empty_states()
        try:
            own.update(during)
            self.update(*args, **kwargs)
            value = self.compute()
            after = {**self._merged(before), **settings, "_computed": None, "_forward_cache": value}
            if on_cpu:
                after |= self._lists_on_cpu(after)
            own.update(after)
        except BaseException:  # a lack of memory, or an interrupt after which the epoch can continue
            own.update({**before, **settings})
            raise
        return value

    def set_dtype(self, dst_type: str | torch.dtype) -> "RankingMetric":
        """Set the dtype of the result, such as float64 for all digits. Scores and counts are never cast.

        The result is at least float32, and float64 for float64 scores.
        """
        dtype = getattr(torch, dst_type.removeprefix("torch.")) if isinstance(dst_type, str) else dst_type
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ValueError(f"`dst_type` must be a floating dtype, got {dst_type!r}")
        self._result_dtype, self._computed = dtype, None
        return self

    def _dtype_of_result(self, scores: torch.dtype) -> torch.dtype:
        dtype = torch.promote_types(self._result_dtype or self.dtype, torch.float32)
        return torch.float64 if scores == torch.float64 else dtype

    def _apply(self, fn: Callable[..., Any], exclude_state: Sequence[str] = "") -> "RankingMetric":
        """Move the state to another device, without a change if that fails; ``.half()`` does not cast the state."""

        def move(tensor: Tensor) -> Tensor:
            device = fn(torch.empty(0, device=tensor.device)).device
            if device.type == "mps" and tensor.dtype == torch.float64:
                tensor = tensor.float()  # the widest dtype of the device
            moved: Tensor = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        was_meta, own = self.first_violation.is_meta, self.__dict__
        changed = (*self._defaults, "_device", "_computed", "_forward_cache")
        before = {name: own[name] for name in changed} | {"_defaults": dict(self._defaults)}
        try:
            super()._apply(move, exclude_state)
        except BaseException:  # such as a lack of memory on the device
            own.update(before)
            raise
        if was_meta and not self.first_violation.is_meta:  # `to_empty` allocates memory without values
            fresh = {name: self._empty_like(name, x) for name, x in self._defaults.items() if isinstance(x, Tensor)}
            fresh["first_violation"] = self._no_violation().to(self.device)
            self._defaults.update(fresh)
            self.reset()
        return self

    # -- many processes, see also `torch_ap.core.metric.sync`

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        """Gather or exchange the states of all processes."""
        processes.synchronize(self, dist_sync_fn, process_group or self.process_group)

    _all_ranks = processes.all_ranks
    plot = plotted.plot

    def unsync(self, should_unsync: bool = True) -> None:
        """Restore the local state, as in torchmetrics, in one step."""
        if should_unsync and self._is_synced and self._cache is not None:
            vars(self).update({**self._cache, "_is_synced": False, "_cache": None, "_exchanged": None})
        else:
            super().unsync(should_unsync)

    def _copy_state_dict(self) -> dict[str, Any]:
        """Return the states for ``unsync``, without torchmetrics' copies of all tensors: nothing writes to them."""
        return {name: list(x) if isinstance(x, list) else x for name in self._defaults for x in [getattr(self, name)]}

    @contextmanager
    def sync_context(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any | None = None,
        should_sync: bool = True,
        should_unsync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> Generator[None, None, None]:
        """Synchronize as torchmetrics does, and restore the local state also if ``compute`` raises."""
        was_synced = self._is_synced  # `sync` of a synced metric raises, and leaves it synced
        try:
            self.sync(dist_sync_fn, process_group, should_sync, distributed_available)
            was_synced = False
            yield
        finally:
            try:
                self.unsync(should_unsync=self._is_synced and should_unsync and not was_synced)
            finally:  # after an interrupt of `unsync`
                self.unsync(should_unsync=self._is_synced and should_unsync and not was_synced)


def _own_result(value: Tensor) -> Tensor:
    """Return a copy of a tensor in a result, 0-d for one element, as in torchmetrics."""
    return (value.squeeze() if value.ndim and value.numel() == 1 else value).clone()


disable_tracing_of_methods(RankingMetric, but=(*_WRAPPED, "add_state"))  # its defaults may be on the meta device
