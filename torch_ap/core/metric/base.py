"""Base of all metrics: cheap ``forward``, safe state, synchronization, one clear error.

- ``forward`` costs as much as its batch: it replaces the state temporarily, where torchmetrics copies it in each step.
- An interrupt or a lack of memory leaves the state before the call or the state after it.
- An invalid batch leaves the state unchanged. On an accelerator a look at values would stall the device, so broken
  rules are recorded there and raised by ``compute``, which names the first invalid update.
- Processes may have unequal numbers of items, or none, and scores of different dtypes.
- Moving a metric moves its state; nothing casts its scores or counts. ``set_dtype`` sets the dtype of the result.
"""

import functools
import sys
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, ClassVar, NoReturn

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
from torch_ap.core.base.untraced import disable_tracing_of_methods, untraced
from torch_ap.core.metric import plotted
from torch_ap.core.metric import state as representation
from torch_ap.core.metric import sync as once
from torch_ap.core.metric.exchange import Ranks
from torch_ap.core.metric.state import NEVER, Form, Held, append_in_one_step
from torch_ap.core.metric.sync import by_exchange

_SHARED_ARGUMENTS = (
    "sync",
    *("compute_on_cpu", "compute_with_cache", "dist_sync_fn", "dist_sync_on_step"),
    *("distributed_available_fn", "process_group", "sync_on_compute"),
)  # arguments of every metric, which no class lists
_OF_MODULES = (Tensor, Module)  # types that ``nn.Module`` may store separately
_STORES = ("_parameters", "_buffers", "_modules")  # where it stores them
_WRAPPED = ("update", "compute")  # for each metric, as torchmetrics does
_PAIRWISE: dict[Any, Callable[..., Tensor]] = {  # reductions of two states that need no stacked copy of both
    dim_zero_sum: torch.add,
    dim_zero_min: torch.minimum,
}


def _pickle_in_dask(cls: type) -> None:
    """Make Dask pickle a class and its subclasses, if Dask is loaded.

    Dask copies modules attribute by attribute. ``update`` and ``compute`` of such a copy belong to a second copy: the
    first never receives the batches. Only the process that sends a metric needs pickle. A worker loads Dask first.
    """
    module = sys.modules.get("distributed.protocol.serialize")
    if module is not None:
        module.dask_serialize.register(cls, _decline)


def _decline(_: Any) -> NoReturn:
    """Make Dask try its next serializer, which is pickle."""
    raise NotImplementedError


class RankingMetric(Metric):
    """Abstract base of the metrics of this package.

    A concrete class declares list states of flat, concatenable tensors and sums, and implements ``update`` and
    ``compute``. Another state records the first update that broke each value rule; it begins with a digest of
    ``identity``.

    Args:
        identity: everything that ``update`` depends on, as text. Metrics share state in a compute group, merge or load
            each other's state only if it is the same.
        sync: "gather" or "exchange".
        kwargs: arguments of ``torchmetrics.Metric``.
    """

    is_differentiable: bool = False
    higher_is_better: bool = True
    full_state_update: bool = False
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    _value_rules: Sequence[str] = tensors.VALUE_RULES
    _peer_states: ClassVar[Sequence[str]] = ()  # states that only torchmetrics' class of the same name has
    _peer_arguments: ClassVar[Sequence[str]] = ()  # their subset that are arguments of `update`
    _settings_of_update: ClassVar[str] = ""  # settings that metrics must share to share state, for messages
    _cached_attributes: ClassVar[Sequence[str]] = ("_exchanged",)  # derived from the state; cleared by `reset`

    _summary_name: str  # of the value in `summary`

    first_violation: Tensor
    _identity: Sequence[int]
    _state_before_forward: dict[str, Any] | None = None  # during `forward`
    _exchanged: Any = None  # while synced by exchange, the share of this process
    _lists: tuple[str, ...] = ()  # names of the list states

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        disable_tracing_of_methods(cls, but=_WRAPPED)
        if "__init__" in vars(cls):
            cls.__init__ = untraced(cls.__init__, first=1)  # type: ignore[method-assign]

    def __init__(self, identity: str, sync: Sync = "gather", **kwargs: Any) -> None:
        checks.one_of("sync", sync, allowed_values(Sync))
        if sync == "exchange" and kwargs.get("dist_sync_fn") is not None:
            raise_invalid("dist_sync_fn", "must be None with `sync='exchange'`, for it gathers", kwargs["dist_sync_fn"])
        try:
            super().__init__(**kwargs)
        except ValueError as error:
            self._refuse_unknown(str(error), kwargs)
            raise
        if sync == "exchange":
            self.dist_sync_fn = by_exchange
        self._result_dtype: torch.dtype | None = None
        self._identity = list(zlib.crc32(identity.encode()).to_bytes(4, "big"))
        self._add_states("first_violation", empty=self._no_violation().clone, reduction=dim_zero_min)
        once.enrol(self)
        _pickle_in_dask(RankingMetric)

    def _refuse_unknown(self, message: str, arguments: Mapping[str, Any]) -> None:
        """Raise torchmetrics' error for unknown arguments with the closest known name."""
        unknown = [name for name in arguments if f"`{name}`" in message]
        if message.startswith("Unexpected keyword") and unknown:
            known = [*signature(type(self)).parameters, *_SHARED_ARGUMENTS]
            raise ValueError(message + suggest_name(unknown[0], known)) from None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes of a copy, as in torchmetrics."""
        super().__setstate__(state)
        once.enrol(self)

    def __getnewargs__(self) -> tuple[()]:
        """Return nothing: torchmetrics returns the letters of ``repr``, which take a third of the time of a copy."""
        return ()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set states and settings without ``nn.Module``'s search for parameters, unless it stores the name."""
        known, cls = self.__dict__, self.__class__
        own = not isinstance(value, _OF_MODULES) and (name.startswith("_") or not hasattr(cls, name))
        own = own and (name in known or not any(name in known.get(store, ()) for store in _STORES))
        if own or name in known.get("_defaults", ()):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """Return the settings that differ from their defaults, for ``repr``."""
        synced = ["sync='exchange'"] if self.dist_sync_fn is by_exchange else []
        return ", ".join(filter(None, [self._settings_text(), *synced]))

    # -- hooks of concrete classes

    def _settings_text(self) -> str:
        """Return the settings of the class that differ from their defaults."""
        raise NotImplementedError

    def _forms(self) -> dict[str, Form]:
        """Return the form of each list state."""
        raise NotImplementedError

    def _check_held(self, state: dict[str, Any]) -> None:
        """Raise ValueError if a state of the right form breaks a rule about batches.

        Args:
            state: all states; each list state that contains anything as one tensor.
        """
        raise NotImplementedError

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        """Return the argument that one of two states contains and the other lacks, although it must not.

        Args:
            here, there: the list states that contain anything, in either state.
        """
        raise NotImplementedError

    def _reader(self) -> "RankingMetric":
        """Return an empty metric of the same settings, to update with the batches of torchmetrics' class."""
        return self._emptied()

    def _empty_like(self, name: str, like: Tensor) -> Tensor:  # noqa: ARG002 - for states that are not sums
        """Return a state of this form as it is before the first update."""
        return torch.zeros_like(like)

    @property
    def _can_exchange(self) -> bool:
        """Whether the value can be computed from shares; counts are summed, whatever ``sync`` is."""
        return False

    @property
    def _exchange_key(self) -> Any:
        """Further settings that the share depends on, or None."""
        return None

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> Any:
        """Return the share of this process, for ``compute``.

        Args:
            ranks: the processes, all of which call this method.
            held: the list states of this process that any process has; removed entries can be freed.
        """
        raise NotImplementedError

    def _sample(self, **options: Any) -> Any:
        """Return the state as a :class:`torch_ap.inference.metric.Sample`.

        Args:
            options: arguments of the methods of one kind of metric: ``design`` or ``iou_type``.
        """
        raise NotImplementedError

    def _settings_of_value(self) -> Mapping[str, Any]:
        """Return the settings that two metrics must share for a comparison, by the names of the arguments."""
        raise NotImplementedError

    # -- values that break a rule on an accelerator

    def _raise_noted(self, only_warned: Mapping[int, Callable[[], None]] | None = None, **words: Any) -> None:
        """Raise ValueError for the first update that broke a rule.

        Args:
            only_warned: function that warns, by the index of each rule that raises no error.
            words: values in the messages of the rules.
        """
        noted = self.first_violation.tolist()[len(self._identity) :]
        for place, warn in (only_warned or {}).items():
            if noted[place] < NEVER:
                warn()
                noted[place] = NEVER
        if min(noted) < NEVER:
            rule = self._value_rules[noted.index(min(noted))].format(**words)
            raise ValueError(
                f"{rule}; broken first in update {min(noted)}. Call `reset()` before the metric is used on"
            )

    def _noted(self, broken: Tensor, update: int) -> Tensor:
        """Return ``first_violation`` after an update, without a device sync.

        Args:
            broken: which value rules the update breaks.
            update: the number of the update.
        """
        noted, size = self.first_violation, len(self._identity)
        return torch.cat([noted[:size], torch.minimum(noted[size:], torch.where(broken, update, NEVER))])

    def _no_violation(self) -> Tensor:
        return torch.tensor([*self._identity, *[NEVER] * len(self._value_rules)])

    def _check_device(self, values: Tensor, name: str) -> None:
        if values.device != self.device:
            raise ValueError(
                f"`{name}` must lie on the metric's device, {self.device}, got {values.device}; move the metric with "
                "`metric.to(device)`"
            )

    # -- state, see also `torch_ap.core.metric.state`

    _check_fit = representation.check_fit
    _check_identity = representation.check_identity
    _checked_state = representation.checked_state
    _emptied = representation.emptied
    to_bytes = representation.to_bytes
    from_bytes = representation.from_bytes

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

    def _list_states(self) -> tuple[str, ...]:
        return self._lists

    def _accumulated(self) -> dict[str, Any]:
        """Return the states of all updates before this one, by name, also during ``forward``."""
        return self.__dict__ if self._state_before_forward is None else self._state_before_forward

    def _tensors(self) -> list[Tensor]:
        """Return all tensors of the state; ``first_violation`` is the last."""
        lists = [getattr(self, name) for name in self._list_states()]
        sums = [getattr(self, name) for name in self._defaults if name not in self._list_states()]
        batches = [x for parts in lists for x in parts if isinstance(x, Tensor)]
        return [*batches, *(x for x in sums if x is not self.first_violation), self.first_violation]

    def reset(self) -> None:
        """Remove all batches, as in torchmetrics, but keep the list objects intact for owners of references to them."""
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
            batch: a column for each list state, in the order they were added; None for an absent column.
            broken: which value rules the batch breaks, on an accelerator.

        Raises:
            ValueError: if the batch contradicts the earlier batches.
        """
        own = self.__dict__
        held, lists, columns, fits = self._accumulated(), [], [], True
        for name, column in zip(self._lists, batch, strict=True):
            parts = held[name]
            if column is None:
                fits = fits and not parts
                continue
            lists.append(own[name])
            columns.append(column)
            if fits:  # the dtype of an empty batch is not binding
                fits = bool(parts and parts[-1].dtype is column.dtype and parts[-1].numel()) and parts.__class__ is list
        if not fits:
            self._check_batch_fits(batch)
            lists = [own[name] for name, column in zip(self._lists, batch, strict=True) if column is not None]
        if broken is None:
            changes = {"_computed": None, "_update_count": own["_update_count"] + 1}
        else:
            changes = self._after_update(broken)
        append_in_one_step(own, changes, lists, columns)

    def _check_batch_fits(self, batch: Sequence[Tensor | None]) -> None:
        """Raise ValueError if a batch contradicts the earlier batches, and turn tuple states into lists."""
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
            changes["first_violation"] = self._noted(broken, count)
        return changes

    def merge_state(self, incoming_state: "dict[str, Any] | Metric") -> None:
        """Add the items of another metric, or of its state, to this one; the other metric does not change.

        A state is checked in the same way as a batch. Its items come first, as in torchmetrics, which matters for
        the positions of images and for equal scores; :func:`torch_ap.merge` keeps the order of its arguments.

        Raises:
            ValueError: if the other metric has another class or other settings, if no updates make such a state, and
                if the two metrics contradict each other; nothing is merged then.
        """
        if isinstance(incoming_state, Metric):
            representation.check_class(self, incoming_state, "incoming_state")
        given = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
        state = self._checked_state(given, "incoming_state")
        self._check_fit(vars(self), state, "in this metric and in `incoming_state`, or in neither")
        if self.dist_sync_on_step:  # as in torchmetrics
            raise RuntimeError("`merge_state` requires a metric with `dist_sync_on_step=False`")
        merged = self._merged(state)
        if self.compute_on_cpu:
            merged |= self._lists_on_cpu(merged)
        count = incoming_state._update_count if isinstance(incoming_state, Metric) else 1
        vars(self).update({**merged, "_computed": None, "_update_count": self._update_count + count})

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        """Merge a state in one step; torchmetrics' ``Running`` calls this method."""
        vars(self).update(self._merged(incoming_state))

    def _merged(self, incoming: Mapping[str, Any]) -> dict[str, Any]:
        """Return the union of another state and the state of this metric.

        Args:
            incoming: the other state; its batches come first. Further entries are ignored.
        """
        merged: dict[str, Any] = {}
        reductions: Mapping[str, Any] = self._reductions
        for name, reduction in reductions.items():
            first, second = incoming[name], getattr(self, name)
            if name in self._lists:
                merged[name] = [*representation.listed(first), *representation.listed(second)]
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
        """Load copies of the states on this metric's device if they pass the checks of batches; else load nothing."""
        error_msgs: list[str] = kwargs["error_msgs"] if "error_msgs" in kwargs else args[-1]
        own = (*self._defaults, *self._peer_states)
        given = {name: state_dict.pop(prefix + name) for name in own if prefix + name in state_dict}
        if given:
            try:
                state = self._checked_state(given, "state_dict")
            except ValueError as error:
                error_msgs.append(f"{prefix.removesuffix('.')}: {error}".removeprefix(": "))
                return
            vars(self).update({**state, "_computed": None, "_update_count": max(1, self._update_count)})
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``update`` without gradients and outside inference mode; ``_hold`` counts the updates."""

        @functools.wraps(update)
        def plain(*args: Any, **kwargs: Any) -> None:
            if torch.is_inference_mode_enabled():  # its tensors count no writes, which `memoize` requires
                with torch.inference_mode(False), torch.no_grad():
                    update(*args, **kwargs)
            else:
                update(*args, **kwargs)
            if self.compute_on_cpu:
                self._move_list_states_to_cpu()

        return untraced(plain, otherwise=torch.no_grad()(plain))

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        return untraced(super()._wrap_compute(compute))

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return its value alone; no accumulated item is copied.

        Raises:
            TorchMetricsUserError: while the metric is synced.
        """
        if torch.is_inference_mode_enabled():  # as for `update`
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
        except BaseException:  # out of memory, or an interrupted epoch that can go on
            own.update({**before, **settings})
            raise
        return value

    def set_dtype(self, dst_type: str | torch.dtype) -> "RankingMetric":
        """Set the dtype of the result: float64 for all digits. Scores and counts are never cast.

        A result is at least float32, and float64 for float64 scores.
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
        """Move the state to another device, or leave it on its device if that fails; ``.half()`` does not cast it."""

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
        if was_meta and not self.first_violation.is_meta:  # `to_empty` gives memory without values
            fresh = {name: self._empty_like(name, x) for name, x in self._defaults.items() if isinstance(x, Tensor)}
            fresh["first_violation"] = self._no_violation().to(self.device)
            self._defaults.update(fresh)
            self.reset()
        return self

    # -- many processes, see also `torch_ap.core.metric.sync`

    @property
    def _gathering(self) -> Callable[..., Any] | None:
        """The ``dist_sync_fn`` that brings all states to each process."""
        return None if self.dist_sync_fn is by_exchange else self.dist_sync_fn

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        """Gather or exchange the states of all processes."""
        once.synchronize(self, dist_sync_fn, process_group or self.process_group)

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
    def _all_ranks(self) -> Generator[None, None, None]:
        """Use the state of all processes together."""
        to_sync = self._to_sync and not self._is_synced
        with self.sync_context(
            dist_sync_fn=self._gathering, should_sync=to_sync, should_unsync=self._should_unsync and to_sync
        ):
            yield

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

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several, as torchmetrics does (extra: ``plot``). Pictures of curves: ``torch_ap.plot``.

        In a dict of results each single measure is a series; labels, arrays, values of single classes and undefined
        numbers (-1) are left out.

        Args:
            val: a result of ``compute`` or ``forward``, or a list of them, one per step; None for ``compute()``.
            ax: the matplotlib axis to draw on.

        Returns:
            Figure and axis.

        Raises:
            ModuleNotFoundError: if matplotlib is not installed.
        """
        ax = plotted.axes_of(ax)
        self._plot(plotted.measures(self.compute() if val is None else val), ax)
        plotted.move_long_legend(ax)
        return ax.figure, ax


disable_tracing_of_methods(RankingMetric, but=(*_WRAPPED, "add_state"))  # its defaults may be on the meta device
