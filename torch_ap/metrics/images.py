"""The state of a detection metric: images of detections and ground truths, as a few flat tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from torch_ap.inputs.detections import Columns, DetectionInputs
from torch_ap.metrics.base import RankingMetric
from torch_ap.metrics.states import Form
from torch_ap.rules import tensors, values
from torch_ap.runtime import memory


class DetectionMetric(RankingMetric):
    """Abstract: images as flat columns, one state a column, however many images there are.

    Each column is the rows of all images end to end (boxes, scores, labels, ...) or a number an image (rows an image),
    so that a sync over ranks is one collective a column.
    """

    value_rules = values.DETECTION_VALUE_RULES
    settings_of_update = "box format, geometry, `validate_args`"
    peer_states = ("groundtruth_box", "groundtruth_labels")

    def __init__(self, inputs: DetectionInputs, **kwargs: Any) -> None:
        super().__init__(repr(inputs), **kwargs)
        self._inputs = inputs
        for name in inputs.states:
            self.add_state(name, [], dist_reduce_fx="cat")

    def _add(self, columns: Columns, broken: Tensor | None) -> None:
        """Keep images that the door let in."""
        self._hold(columns)
        self._note(broken)

    def _forms(self) -> dict[str, Form]:
        forms = {}
        for name, empty in self._inputs.validate([], [])[0].items():
            dtypes = tensors.SCORES if name.endswith("scores") else [empty.dtype]
            if name.endswith("boxes"):
                dtypes = [dtype for dtype in tensors.SCORES if dtype.is_floating_point]
            forms[name] = Form(dtypes, [tuple(empty.shape[1:])])
        return forms

    def _check_held(self, state: dict[str, Any]) -> None:
        empty = self._inputs.validate([], [])[0]
        columns = {name: x if isinstance(x := state[name], Tensor) else empty[name] for name in self._inputs.states}
        broken = self._inputs.look_at(columns)
        if broken is not None and bool(broken.any()):
            raise ValueError(self.value_rules[broken.tolist().index(True)])

    def _columns(self) -> Columns:
        """All images so far."""
        self._raise_noted()
        held = {name: getattr(self, name) for name in self._inputs.states}
        if not held["detection_scores"]:
            return {name: column.to(self.device) for name, column in self._inputs.validate([], [])[0].items()}
        return {name: memory.joined(state) if isinstance(state, list) else state for name, state in held.items()}

    @contextmanager
    def _synced_columns(self) -> Iterator[Columns]:
        """All images of all ranks, for results beside ``compute``."""
        to_sync = self._to_sync and not self._is_synced
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=to_sync, should_unsync=self._should_unsync and to_sync
        ):
            yield self._columns()
