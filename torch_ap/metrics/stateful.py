"""What enters a metric's state, by any way: batches, merged metrics, checkpoints, other ranks' states.

One set of checks serves them all. What comes from elsewhere passes as batches do, and what contradicts the batches held
is refused before anything has changed.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from torch_ap.inputs import samples
from torch_ap.metrics import payload, representation, states
from torch_ap.metrics.states import Form, Held
from torch_ap.rules import tensors
from torch_ap.rules.messages import Plain, refuse
from torch_ap.runtime import memory
from torch_ap.runtime.untraced import leave_methods_to_python

S = TypeVar("S", bound="StatefulMetric")


class StatefulMetric(Metric):
    """Abstract: a metric of list states of flat, concatenable tensors, of sums, and of a record of violations that
    begins with what its state depends on.
    """

    peer_states: ClassVar[Sequence[str]] = ()  # of torchmetrics' class of the same name, where ours has none such
    settings_of_update: ClassVar[str] = ""  # what two metrics must have in common to share state, for messages
    peer_arguments: ClassVar[Sequence[str]] = ()  # those that are what `update` takes
    beside_states: ClassVar[Sequence[str]] = ()  # what is known of the items held; the class has it of none

    first_violation: Tensor
    _identity: list[int]
    _aside: dict[str, Any] | None = None  # during `forward`, what was held before it

    _lists: tuple[str, ...] = ()

    def add_state(self, name: str, default: Any, *args: Any, **kwargs: Any) -> None:
        """As in torchmetrics; the names of list states are recorded."""
        super().add_state(name, default, *args, **kwargs)
        self._lists += (name,) if isinstance(default, list) else ()

    def _add_states(
        self, *names: str, empty: Callable[[], Any] = list, reduction: Callable[..., Tensor] = dim_zero_cat
    ) -> None:
        """As ``add_state``, which makes the second empty state by ``deepcopy``, in ten times the time."""
        for name in names:
            self.__dict__[name], self._defaults[name] = empty(), empty()
            self._persistent[name], self._reductions[name] = False, reduction
        self._lists += names if empty is list else ()

    def _list_states(self) -> tuple[str, ...]:
        return self._lists

    def _accumulated(self) -> dict[str, Any]:
        """The states of all updates before this one, by name; ``forward`` sets them aside for the time of its batch."""
        return self.__dict__ if self._aside is None else self._aside

    def reset(self) -> None:
        """As in torchmetrics, and forget what is known of the items beside the states."""
        super().reset()
        for name in self.beside_states:
            self.__dict__.pop(name, None)

    def _hold(self, batch: Sequence[Tensor | None]) -> None:
        """Append a checked batch, unless it contradicts what is held.

        Args:
            batch: a column for each list state, in the order they were added; None for no such column.
        """
        held, own, appended, fits = self._accumulated(), self.__dict__, [], True
        for name, column in zip(self._lists, batch, strict=True):
            parts = held[name]
            if column is None:
                fits = fits and not parts
                continue
            appended.append((own[name], column))  # an empty last one says nothing of dtypes
            fits = fits and bool(parts and parts[-1].dtype is column.dtype and parts[-1].numel())
        if not fits:
            given = zip(self._lists, batch, strict=True)
            self._check_fit(held, {name: [column] for name, column in given if column is not None})
        for parts, column in appended:
            parts.append(column)

    def _check_fit(self, held: Held, more: Held, where: str = "in every update or in none") -> None:
        """Refuse what contradicts what is held: the one rule across batches, merged metrics, checkpoints and ranks."""
        here, there = ({name for name in self._list_states() if x.get(name)} for x in (held, more))
        if here and there and here != there and (what := self._contradiction(here, there)):
            raise ValueError(f"{what} must be given {where}")
        for name in here & there:
            latest = next((part.dtype for part in reversed(held[name]) if part.numel()), held[name][-1].dtype)
            if any(part.dtype != latest for part in more[name]):
                dtypes = [part.dtype for part in (*held[name], *more[name]) if part.numel()]
                tensors.common_dtype("preds", dtypes or [latest])

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        """Which argument one of two holdings was given and the other not, though it must be; for concrete classes.

        Args:
            here, there: the list states that hold anything, in the one and in the other.
        """
        raise NotImplementedError

    # -- from elsewhere

    def merge_state(self, incoming_state: "dict[str, Any] | Metric") -> None:
        """Add the items of another metric, or of its state, to this one. The other is left as it was.

        A state is checked as batches are. What is merged comes first, as in torchmetrics, which matters for places of
        images and for equal scores; :func:`torch_ap.merge` keeps the order in which metrics are given.

        Raises:
            ValueError: if the other is of another class or has other settings, for a state that no updates make, and
                where the two contradict one another; nothing is merged then.
        """
        if isinstance(incoming_state, Metric):
            representation.check_class(self, incoming_state, "incoming_state")
        given = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
        state = self._checked_state(given, "incoming_state")
        self._check_fit(vars(self), state, "in this metric and in `incoming_state`, or in neither")
        before = {name: getattr(self, name) for name in self._defaults}
        try:
            super().merge_state(state)
        except BaseException:  # out of memory, say
            vars(self).update(before)
            raise
        if self.compute_on_cpu:
            self._move_list_states_to_cpu()
        self._computed = None
        self._update_count += incoming_state._update_count if isinstance(incoming_state, Metric) else 1

    def to_bytes(self) -> bytes:
        """The state as bytes: compact, with a version and a checksum; no pickle. Settings are no part of it.

        Returns:
            What ``from_bytes`` of a metric of the same class and settings reads, on any machine and device.

        Example:
            >>> import torch, torch_ap
            >>> metric = torch_ap.BinaryAveragePrecision()
            >>> metric.update(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]))
            >>> torch_ap.BinaryAveragePrecision().from_bytes(metric.to_bytes()).compute()
            tensor(0.8333)
        """
        lists = self._list_states()
        held = states.joined({name: getattr(self, name) for name in lists})
        found = {name: held.get(name) if name in lists else getattr(self, name) for name in self._defaults}
        return payload.written(type(self).__name__, self._update_count, found)

    def from_bytes(self: S, data: bytes) -> S:
        """A new metric with the settings of this one, and the state that ``to_bytes`` wrote.

        Args:
            data: of a metric of this class and settings.

        Raises:
            TypeError: for what is not bytes.
            ValueError: for bytes that are none of ``to_bytes``, are not complete, have changed since or were written by
                a newer version, and for the state of a metric of another class or other settings.
        """
        updates, given = payload.read(data, type(self).__name__)
        lists = self._list_states()
        whole = {name: ([] if x is None else [x]) if name in lists else x for name, x in given.items()}
        found = self.emptied()
        for name, value in found._checked_state(whole, "data").items():
            setattr(found, name, value)
        found._update_count = updates
        return found

    def emptied(self: S) -> S:
        """A new metric of the same settings, without any item."""
        nothing = {id(x): [] if isinstance(x, list) else x for x in (getattr(self, name) for name in self._defaults)}
        found = deepcopy(self, nothing)
        found.reset()
        return found

    def _checked_state(self, given: Any, source: str) -> dict[str, Any]:
        """A state from elsewhere, on this metric's device, if updates could have made it.

        Raises:
            ValueError: which says what is wrong with ``source``.
        """
        if not isinstance(given, Mapping):
            refuse(source, "must be a dict of states", Plain(type(given).__name__))
        try:
            if "first_violation" not in given and any(name in given for name in self.peer_states):
                given = self._from_peer(given)
            if samples.STATE in self._lists:  # of a checkpoint from before there were any
                given = {samples.STATE: [], **given}
            self._check_identity(given.get("first_violation"), source)
            state = states.checked(given, self._defaults, self._forms(), self.device)
            self._check_fit({}, state)
            self._check_held({**state, **states.joined({name: state[name] for name in self._list_states()})})
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{source}` is none that updates make: {error}") from None
        return state

    def _forms(self) -> dict[str, Form]:
        """What the list states may hold; for concrete classes."""
        raise NotImplementedError

    def _check_held(self, state: dict[str, Any]) -> None:
        """Refuse a state of the right form that breaks a rule about batches; for concrete classes.

        Args:
            state: all states; lists that hold anything as one tensor.
        """
        raise NotImplementedError

    def _from_peer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The state of an update with all that torchmetrics' class of the same name held."""
        if not self.peer_arguments or set(given) != set(self.peer_arguments):
            raise ValueError(
                f"states {sorted(given)} are of torchmetrics' class and cannot be read; start with a new metric and "
                "update it anew"
            )
        reader = self._reader()
        found = {name: states.tensors(name, given[name]) for name in self.peer_arguments}
        if all(found.values()):
            reader.update(**{name: memory.joined(parts).to(self.device) for name, parts in found.items()})
        return reader.metric_state

    def _reader(self) -> "StatefulMetric":
        """An empty metric of the same settings, for what torchmetrics' class has kept of its batches."""
        return self.emptied()

    def _check_identity(self, first_violation: Any, name: str) -> None:
        here = self.first_violation
        fits = isinstance(first_violation, Tensor) and (first_violation.dtype, first_violation.shape) == (
            here.dtype,
            here.shape,
        )
        if (
            not fits
            or first_violation.layout != here.layout
            or first_violation[: len(self._identity)].tolist() != self._identity
        ):
            raise ValueError(
                f"`{name}` must come from a {type(self).__name__} whose `update` has the same settings "
                f"({self.settings_of_update}); here it is {self!r}"
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Load copies of the lists, on this metric's device, if they pass as batches do; else nothing is loaded."""
        error_msgs: list[str] = kwargs["error_msgs"] if "error_msgs" in kwargs else args[-1]
        own = (*self._defaults, *self.peer_states)
        found = {name: state_dict.pop(prefix + name) for name in own if prefix + name in state_dict}
        if found:
            try:
                state = self._checked_state(found, "state_dict")
            except ValueError as error:
                error_msgs.append(f"{prefix.removesuffix('.')}: {error}".removeprefix(": "))
                return
            for name, value in state.items():
                setattr(self, name, value)
            self._computed, self._update_count = None, max(1, self._update_count)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


leave_methods_to_python(StatefulMetric)
