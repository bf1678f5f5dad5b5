"""What every metric here has beyond ``torchmetrics.Metric``: cheap ``forward``, safe state, one clear failure.

- ``forward`` costs what its batch costs: it sets the state aside, where torchmetrics copies it at each step.
- A batch that is refused leaves no trace. On an accelerator a look at values would stall the device, so broken rules
  are noted there and raised by ``compute``, which names the first bad update.
- Ranks may hold unequal numbers of items, or none, and scores of different dtypes.
- Moving a metric moves it; nothing casts its scores or counts. ``set_dtype`` sets the dtype of the result.
"""

import functools
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torchmetrics.utilities import dim_zero_min
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from torch_ap.metrics import plotted
from torch_ap.metrics.synced import SyncedMetric
from torch_ap.rules import values
from torch_ap.rules.messages import nearest
from torch_ap.runtime.untraced import leave_methods_to_python, untraced

_NEVER = 1 << 62
_OF_ALL = (
    "sync",
    *("compute_on_cpu", "compute_with_cache", "dist_sync_fn", "dist_sync_on_step"),
    *("distributed_available_fn", "process_group", "sync_on_compute"),
)  # arguments of every metric, which no class spells out
_OF_MODULES = (Tensor, Module)  # what ``nn.Module`` may keep apart
_KINDS = ("_parameters", "_buffers", "_modules")  # where it does
_WRAPPED = ("update", "compute")  # for each metric, as torchmetrics does


class RankingMetric(SyncedMetric):
    """Abstract base of the metrics of this package.

    Concrete classes declare list states of flat, concatenable tensors and sums, and implement ``update`` and
    ``compute``.

    Args:
        identity: everything that ``update`` depends on, as text. Metrics share state in a compute group, merge or load
            each other's state only if it is the same.
        kwargs: ``sync``, and those of ``torchmetrics.Metric``.
    """

    is_differentiable: bool = False
    higher_is_better: bool = True
    full_state_update: bool = False
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0
    value_rules: Sequence[str] = values.VALUE_RULES

    first_violation: Tensor

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        leave_methods_to_python(cls, but=_WRAPPED)

    def __init__(self, identity: str, **kwargs: Any) -> None:
        try:
            super().__init__(**kwargs)
        except ValueError as error:
            self._refuse_unknown(str(error), kwargs)
            raise
        self._result_dtype: torch.dtype | None = None
        digest = zlib.crc32(identity.encode()).to_bytes(4, "big")
        self._identity = list(digest)
        self._add_states("first_violation", empty=self._no_violation().clone, reduction=dim_zero_min)

    def _refuse_unknown(self, said: str, given: Mapping[str, Any]) -> None:
        """Raise where torchmetrics refuses arguments that are not known, with the one that may be meant."""
        unknown = [name for name in given if f"`{name}`" in said]
        if said.startswith("Unexpected keyword") and unknown:
            raise ValueError(said + nearest(unknown[0], [*signature(type(self)).parameters, *_OF_ALL])) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set states and settings without ``nn.Module``'s search for parameters, where it holds nothing of the name."""
        known, cls = self.__dict__, self.__class__
        own = not isinstance(value, _OF_MODULES) and (name.startswith("_") or not hasattr(cls, name))
        own = own and (name in known or not any(name in known.get(kind, ()) for kind in _KINDS))
        if own or name in known.get("_defaults", ()):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    # -- values that break a rule on an accelerator

    def _note(self, broken: Tensor | None) -> None:
        """Remember on the device which rules this update broke, without a sync."""
        if broken is not None:
            size = len(self._identity)
            first = torch.where(broken, self._update_count, _NEVER)
            self.first_violation = torch.cat(
                [self.first_violation[:size], torch.minimum(self.first_violation[size:], first)]
            )

    def _raise_noted(self, only_warned: Mapping[int, Callable[[], None]] | None = None, **words: Any) -> None:
        """Raise for the first update that broke a rule.

        Args:
            only_warned: a rule's place to the function that warns of it, where that is all.
            words: what the messages of the rules need.
        """
        noted = self.first_violation.tolist()[len(self._identity) :]
        for place, warn in (only_warned or {}).items():
            if noted[place] < _NEVER:
                warn()
                noted[place] = _NEVER
        if min(noted) < _NEVER:
            rule = self.value_rules[noted.index(min(noted))].format(**words)
            raise ValueError(
                f"{rule}; broken first in update {min(noted)}. Call `reset()` before the metric is used on"
            )

    def _check_device(self, values: Tensor, name: str) -> None:
        if values.device != self.device:
            raise ValueError(
                f"`{name}` must lie on the metric's device, {self.device}, got {values.device}; move the metric with "
                "`metric.to(device)`"
            )

    # -- state

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        """As torchmetrics does, in one call instead of two; and a failed update is none."""

        @functools.wraps(update)
        def counted(*args: Any, **kwargs: Any) -> None:
            own = self.__dict__
            computed, count = own["_computed"], own["_update_count"]
            own["_computed"], own["_update_count"] = None, count + 1
            try:
                if torch.is_inference_mode_enabled():  # its tensors count no writes, which `memoize` asks for
                    with torch.inference_mode(False), torch.no_grad():
                        update(*args, **kwargs)
                else:
                    update(*args, **kwargs)
            except BaseException:
                own["_computed"], own["_update_count"] = computed, count
                raise
            if self.compute_on_cpu:
                self._move_list_states_to_cpu()

        return untraced(counted, otherwise=torch.no_grad()(counted))

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        return untraced(super()._wrap_compute(compute))

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value of this batch alone, which is also accumulated. No held item is copied.

        Raises:
            TorchMetricsUserError: while the metric is synced.
        """
        if torch.is_inference_mode_enabled():  # as for `update`
            with torch.inference_mode(False), torch.no_grad():
                return self.forward(*args, **kwargs)
        if self._is_synced:
            raise TorchMetricsUserError("The metric is synced: call `unsync` before `forward`")
        self._aside = kept = {name: getattr(self, name) for name in self._defaults}
        computed, count, on_cpu = self._computed, self._update_count, self.compute_on_cpu
        for name, default in self._defaults.items():
            setattr(self, name, [] if isinstance(default, list) else default.clone().to(self.device))
        self._to_sync, self.compute_on_cpu = self.dist_sync_on_step, False
        try:
            self.update(*args, **kwargs)
            value = self.compute()
            self._reduce_states(kept)
        except BaseException:  # a stopped epoch can go on
            for name, state in kept.items():
                setattr(self, name, state)
            self._computed, self._update_count = computed, count
            raise
        finally:
            self._aside, self._to_sync, self.compute_on_cpu = None, self.sync_on_compute, on_cpu
        if on_cpu:
            self._move_list_states_to_cpu()
        self._computed, self._forward_cache = None, value
        return value

    def set_dtype(self, dst_type: str | torch.dtype) -> "RankingMetric":
        """Set the dtype of the result: float64 for all digits. Scores and counts are never cast.

        A result is at least float32, and float64 where the scores are.
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
        """Move state between devices; casts by ``.half()``, ``.to(dtype)`` and the like do not reach it."""

        def move(tensor: Tensor) -> Tensor:
            device = fn(torch.empty(0, device=tensor.device)).device
            if device.type == "mps" and tensor.dtype == torch.float64:
                tensor = tensor.float()  # the widest that there is
            moved: Tensor = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        unborn = self.first_violation.is_meta
        super()._apply(move, exclude_state)
        if unborn and not self.first_violation.is_meta:  # `to_empty` gives memory without values
            fresh = {name: self._of_no_items(name, x) for name, x in self._defaults.items() if isinstance(x, Tensor)}
            fresh["first_violation"] = self._no_violation().to(self.device)
            self._defaults.update(fresh)
            self.reset()
        return self

    def _of_no_items(self, name: str, like: Tensor) -> Tensor:  # noqa: ARG002 - for states that are not sums
        """What a state of that form is before the first update."""
        return torch.zeros_like(like)

    def _no_violation(self) -> Tensor:
        return torch.tensor([*self._identity, *[_NEVER] * len(self.value_rules)])

    # -- many ranks

    @contextmanager
    def _all_ranks(self) -> Generator[None, None, None]:
        """The state of all ranks together."""
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
        """As torchmetrics' own, which leaves the metric synced where ``compute`` fails in between."""
        self.sync(dist_sync_fn, process_group, should_sync, distributed_available)
        try:
            yield
        finally:
            self.unsync(should_unsync=self._is_synced and should_unsync)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several, as torchmetrics does (extra: ``plot``). Pictures of curves: ``torch_ap.plot``.

        Of a dict of results each single measure is a series of its name; labels, arrays, values of single classes and
        numbers that do not exist (-1) are left out.

        Args:
            val: a result of ``compute`` or ``forward``, or a list of them, one per step; None for ``compute()``.
            ax: the matplotlib axis to draw on.

        Returns:
            Figure and axis.

        Raises:
            ModuleNotFoundError: without matplotlib.
        """
        ax = plotted.axes_of(ax)
        self._plot(plotted.measures(self.compute() if val is None else val), ax)
        plotted.move_long_legend(ax)
        return ax.figure, ax


leave_methods_to_python(RankingMetric, but=_WRAPPED)
