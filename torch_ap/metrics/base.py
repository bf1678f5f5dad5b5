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
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from torch_ap.core import checks, memory
from torch_ap.core.untraced import leave_methods_to_python, untraced
from torch_ap.metrics import representation

_NEVER = 1 << 62
_WRAPPED = ("update", "compute")  # for each metric, as torchmetrics does
_DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)


class RankingMetric(Metric):
    """Abstract base of the metrics of this package.

    Concrete classes declare list states of flat, concatenable tensors and sums, and implement ``update`` and
    ``compute``.

    Args:
        identity: everything that ``update`` depends on, as text. Metrics share state in a compute group, merge or load
            each other's state only if it is the same.
        kwargs: of ``torchmetrics.Metric``.
    """

    is_differentiable: bool = False
    higher_is_better: bool = True
    full_state_update: bool = False
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0
    value_rules: Sequence[str] = checks.VALUE_RULES

    ledger: Tensor

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        leave_methods_to_python(cls, but=_WRAPPED)

    def __init__(self, identity: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._result_dtype: torch.dtype | None = None
        digest = zlib.crc32(identity.encode()).to_bytes(4, "big")
        self._identity = list(digest)
        self.add_state("ledger", self._fresh_ledger(), dist_reduce_fx="min")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the two plain counters that every update sets without ``nn.Module``'s search for parameters."""
        if name in ("_computed", "_update_count"):
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    # -- values that break a rule on an accelerator

    def _note(self, broken: Tensor | None) -> None:
        """Remember on the device which rules this update broke, without a sync."""
        if broken is not None:
            size = len(self._identity)
            first = torch.where(broken, self._update_count, _NEVER)
            self.ledger = torch.cat([self.ledger[:size], torch.minimum(self.ledger[size:], first)])

    def _raise_noted(self, only_warned: Mapping[int, Callable[[], None]] | None = None, **words: Any) -> None:
        """Raise for the first update that broke a rule.

        Args:
            only_warned: a rule's place to the function that warns of it, where that is all.
            words: what the rules are told with.
        """
        noted = self.ledger[len(self._identity) :].tolist()
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

    def _list_states(self) -> list[str]:
        return [name for name, default in self._defaults.items() if isinstance(default, list)]

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        wrapped = super()._wrap_update(update)

        @functools.wraps(update)
        def counting(*args: Any, **kwargs: Any) -> None:
            computed, count = self._computed, self._update_count
            try:
                if torch.is_inference_mode_enabled():  # its tensors count no writes, which `shared.once` asks for
                    with torch.inference_mode(False):
                        wrapped(*args, **kwargs)
                else:
                    wrapped(*args, **kwargs)
            except BaseException:
                self._computed, self._update_count = computed, count
                raise

        return untraced(counting)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        return untraced(super()._wrap_compute(compute))

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value of this batch alone, which is also accumulated. No held item is copied.

        Raises:
            TorchMetricsUserError: while the metric is synced.
        """
        if self._is_synced:
            raise TorchMetricsUserError("The metric is synced: call `unsync` before `forward`")
        kept = {name: getattr(self, name) for name in self._defaults}
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
            self._to_sync, self.compute_on_cpu = self.sync_on_compute, on_cpu
        if on_cpu:
            self._move_list_states_to_cpu()
        self._computed, self._forward_cache = None, value
        return value

    def merge_state(self, incoming_state: "dict[str, Any] | Metric") -> None:
        """Add the items of another metric, or of its state, to this one. The other is left as it was.

        Raises:
            ValueError: if the other is of another class or has other settings; nothing is merged then.
        """
        if isinstance(incoming_state, Metric):
            representation.check_class(self, incoming_state, "incoming_state")
        state = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
        self._check_identity(state.get("ledger"), "incoming_state")
        self._check_merge(state)
        super().merge_state(state)
        self._computed = None
        self._update_count += incoming_state._update_count if isinstance(incoming_state, Metric) else 1

    def _check_merge(self, state: dict[str, Any]) -> None:
        """Refuse a state that does not fit this one; for concrete classes."""

    def _check_identity(self, ledger: Any, name: str) -> None:
        if not isinstance(ledger, Tensor) or ledger[: len(self._identity)].tolist() != self._identity:
            raise ValueError(
                f"`{name}` must come from a {type(self).__name__} whose `update` has the same settings (columns, "
                "`ignore_index`, `normalization`, `thresholds`, `validate_args`)"
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Load copies of the lists, on this metric's device; what was computed before is void."""
        found = [name for name in self._defaults if prefix + name in state_dict]
        error_msgs: list[str] = kwargs["error_msgs"] if "error_msgs" in kwargs else args[-1]
        if found:
            try:
                self._check_identity(state_dict.get(prefix + "ledger"), "state_dict")
            except ValueError as error:
                error_msgs.append(str(error))
                return
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        for name in found:
            state = getattr(self, name)
            moved = [x.to(self.device) for x in state] if isinstance(state, list) else state.to(self.device)
            setattr(self, name, moved)
        if found:
            self._computed, self._update_count = None, max(1, self._update_count)

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

        unborn = self.ledger.is_meta
        super()._apply(move, exclude_state)
        if unborn and not self.ledger.is_meta:  # `to_empty` gives memory without values
            fresh = {name: torch.zeros_like(x) for name, x in self._defaults.items() if isinstance(x, Tensor)}
            fresh["ledger"] = self._fresh_ledger().to(self.device)
            self._defaults.update(fresh)
            self.reset()
        return self

    def _fresh_ledger(self) -> Tensor:
        return torch.tensor([*self._identity, *[_NEVER] * len(self.value_rules)])

    # -- many ranks

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Generator[None, None, None]:
        """As torchmetrics' own, which leaves the metric synced where ``compute`` fails in between."""
        synced = super().sync_context(*args, **kwargs)
        synced.__enter__()
        try:
            yield
        finally:
            synced.__exit__(None, None, None)

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        """Gather the states: one tensor a state, after one small exchange of what each rank holds."""
        group = process_group or self.process_group
        names = self._list_states()
        local = {name: memory.joined(state) for name in names if (state := getattr(self, name))}
        cards = torch.stack(dist_sync_fn(self._cards(names, local), group=group)).tolist()
        for place, name in enumerate(names):
            held = [card[place] for card in cards if card[place][0] >= 0]
            if not held:
                setattr(self, name, [])
                continue
            dtype = _DTYPES[held[0][0]]
            for code, _, _ in held[1:]:
                dtype = torch.promote_types(dtype, _DTYPES[code])
            empty = torch.empty((0,) if held[0][1] == 1 else (0, held[0][2]), dtype=dtype, device=self.device)
            wire = torch.int32 if dtype == torch.int16 else dtype  # neither gloo nor NCCL sends int16
            gathered = dist_sync_fn(local.get(name, empty).to(wire), group=group)
            setattr(self, name, [memory.joined(list(gathered)).to(dtype)])
        for name, reduction in self._reductions.items():
            if name not in names and callable(reduction):
                setattr(self, name, reduction(torch.stack(list(dist_sync_fn(getattr(self, name), group=group)))))

    def _cards(self, names: Sequence[str], local: dict[str, Tensor]) -> Tensor:
        """(states, 3) int64: dtype code (-1 for none), number of dimensions, width of each list state here."""
        cards = [
            [_DTYPES.index(local[name].dtype), local[name].ndim, local[name].shape[-1]] if name in local else [-1, 0, 0]
            for name in names
        ]
        return torch.tensor(cards, dtype=torch.int64, device=self.device).reshape(-1, 3)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several, as torchmetrics does (extra: ``plot``).

        Args:
            val: a result of ``compute`` or ``forward``, or a list of them; None for ``compute()``.
            ax: the matplotlib axis to draw on.

        Returns:
            Figure and axis.

        Raises:
            ModuleNotFoundError: without matplotlib.
        """
        return self._plot(val, ax)


leave_methods_to_python(RankingMetric, but=_WRAPPED)
