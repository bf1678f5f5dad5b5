"""The state of a detection metric: images of detections and ground truths, as a few flat tensors."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from torch_ap.analysis import low_values
from torch_ap.exchange import copies
from torch_ap.exchange.detections import ClassShares
from torch_ap.exchange.ranks import Ranks
from torch_ap.inference.images.resampled_rankings import ranked_images
from torch_ap.inputs import samples
from torch_ap.inputs.detections import Columns, DetectionInputs
from torch_ap.inputs.samples import SampleIds
from torch_ap.matching.matched import Matches
from torch_ap.matching.stored import OTHERS, StoredMatches
from torch_ap.metrics.class_tables import ClassTables
from torch_ap.metrics.image_sample import ImageSample
from torch_ap.metrics.image_slices import SlicedImages, SlicedSample
from torch_ap.metrics.states import Form
from torch_ap.rules import checks, detections, tensors, values
from torch_ap.rules.class_names import different_names_of, names_of
from torch_ap.runtime import cached, memory

Made = TypeVar("Made")
_COMPARED = "numbers of ground truths"  # of copies of an image


@cached.settings_cache
def _key(*of: Hashable) -> object:
    """An object for what is made: of the same settings the same."""
    del of
    return object()


class DetectionMetric(SlicedImages, ClassTables):
    """Abstract: images as flat columns, one state per column, however many images there are.

    Each column is the rows of all images end to end (boxes, scores, labels, ...) or one number per image (rows per
    image), so that a sync over ranks is one collective per column.

    Args:
        inputs: how images come in.
        stored: the form of what is kept, where that is matches; else the images are.
        kwargs: of the base.
    """

    sample_ids: list[Tensor]
    _unseen: bool = False  # whether images came on an accelerator, which `update` does not wait for, or too few

    beside_states = (*SlicedImages.beside_states, "_unseen")
    value_rules = detections.VALUE_RULES
    settings_of_update = "box format, geometry, `validate_args`, `match`, what `match='update'` depends on"
    peer_states = ("groundtruth_box", "groundtruth_labels")

    _argument_names: ClassVar[Mapping[str, str]]  # of the settings that have others than the arguments
    _settings: Any  # of the numbers, a record

    def __init__(self, inputs: DetectionInputs, stored: StoredMatches | None = None, **kwargs: Any) -> None:
        super().__init__(repr(inputs) if stored is None else f"{inputs}|{stored}", **kwargs)
        self._inputs, self._kept = inputs, inputs if stored is None else stored
        self._add_states(*self._kept.states, samples.STATE)

    def _add(self, columns: Columns, broken: Tensor | None, sample_ids: SampleIds) -> None:
        """Keep validated images, or what matching finds in them."""
        counts = columns["detections_per_image"]
        ids = samples.checked(sample_ids, counts.shape, counts.device, "image")
        if counts.is_cpu or not self._keeps_shapes:
            self._check_named(columns)
        if isinstance(self._kept, StoredMatches):
            if broken is not None and bool(broken.any()):  # which cannot wait for `compute` where they are matched
                raise ValueError(detections.VALUE_RULES[int(broken.nonzero()[0])])
            if not counts.is_cpu:
                self._inputs.remark_on_rows(columns)
            columns, broken = self._kept.made(columns, *self._match_batch(columns)), None
        elif not counts.is_cpu or self._inputs.too_few(columns):
            self._unseen = True
        self._hold([*(columns[name] for name in self._kept.states), ids])
        self._note(broken)

    def _check_named(self, columns: Columns) -> None:
        """Refuse a label that a list of names has not, where values are checked. Waits for an accelerator."""
        if isinstance(self._class_names, Sequence) and self._inputs.check_values:
            for side in ("detection", "ground_truth"):
                if len(labels := columns[f"{side}_labels"]):
                    names_of(torch.stack(labels.aminmax()), self._class_names)

    def _match_batch(self, columns: Columns) -> tuple[Tensor, Matches]:
        """The labels of a batch of images, and what matching finds in them; for concrete classes."""
        raise NotImplementedError

    def _forms(self) -> dict[str, Form]:
        forms, of_shapes = {}, {f"_{column.key}" for column in self._kept.rows}
        for name, empty in self._kept.empty().items():
            dtypes = tensors.SCORES if name.endswith("scores") else [empty.dtype]
            if name.endswith("mask_edges"):
                dtypes = [torch.int32, torch.int64]
            if name.endswith(tuple(of_shapes)):
                dtypes = [dtype for dtype in tensors.SCORES if dtype.is_floating_point]
            forms[name] = Form(dtypes, [tuple(empty.shape[1:])])
        return {**forms, samples.STATE: Form([torch.int64])}

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        return f"`{samples.STATE}`" if samples.STATE in here ^ there else None

    def _check_held(self, state: dict[str, Any]) -> None:
        empty = self._kept.empty()
        columns = {name: x if isinstance(x := state[name], Tensor) else empty[name] for name in self._kept.states}
        ids = state[samples.STATE]
        if isinstance(ids, Tensor) and len(ids) != len(columns["detections_per_image"]):
            raise ValueError(f"`{samples.STATE}` must be one per image, got {len(ids)}")
        values.raise_first(self.value_rules, self._kept.look_at(columns))

    def _columns(self) -> Columns:
        """All images so far."""
        self._raise_noted()
        if self._exchanged is not None:
            columns: Columns = self._exchanged[1]
            return columns
        held = {name: getattr(self, name) for name in self._kept.states}
        if not held["detection_scores"]:
            return self._no_images()
        columns = {name: memory.joined(state) if isinstance(state, list) else state for name, state in held.items()}
        if self._keeps_shapes and (self._unseen or not columns["detection_scores"].is_cpu):  # on CPU `update` did
            self._check_named(columns)
            self._once(lambda: self._inputs.remark_on_rows(columns), "remarks")
        if not len(ids := self.sample_ids):
            return columns
        kept = samples.first_copies(
            memory.joined(ids) if isinstance(ids, list) else ids, columns["ground_truths_per_image"], _COMPARED
        )
        return columns if kept is None else self._kept.of_images(columns, kept)

    def _remark(self, columns: Columns, found: Mapping[str, Any]) -> None:
        """Warn if a low value has a cause; not of a batch in ``forward``, nor of the images of one rank."""
        if self._aside is not None or self._exchanged is not None or len(columns.get(OTHERS, ())):
            return
        if self._is_synced or not self.distributed_available_fn():
            low_values.remark(self._settings, columns, found)

    def _once(self, make: Callable[[], Made], *what: Hashable) -> Made:
        """What is made of the images and settings; the same again until the state is another.

        Args:
            make: its making.
            what: which of the things that are made of them it is.
        """
        return cached.memoize(make, _key(self._settings, *what), self._tensors())

    def _image_ids(self) -> Tensor:
        if not len(self.sample_ids):
            return torch.arange(len(self._columns()["detections_per_image"]), device=self.device)
        ids: Tensor = memory.joined(self.sample_ids) if isinstance(self.sample_ids, list) else self.sample_ids
        kept = samples.first_copies(ids, torch.zeros_like(ids))
        return ids if kept is None else ids[kept]

    def _no_images(self) -> Columns:
        return {name: column.to(self.device) for name, column in self._kept.empty().items()}

    @property
    def _can_exchange(self) -> bool:
        return True

    @property
    def _shares(self) -> ClassShares | None:
        """What makes one data set of the images of all ranks, where each keeps its own."""
        return None if self._exchanged is None else ClassShares(self._exchanged[0])

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> tuple[Ranks, Columns]:
        """This rank's images, which stay; without copies."""
        if not held:
            return ranks, self._no_images()
        columns = {name: held[name] for name in self._kept.states}
        if samples.STATE in held:
            kept = copies.first_copies(ranks, held[samples.STATE], columns["ground_truths_per_image"], _COMPARED)
            columns = self._kept.of_images(columns, kept)
        return ranks, columns

    @property
    def _keeps_shapes(self) -> bool:
        """Whether the images are kept, and not matches alone."""
        return self._kept is self._inputs

    @property
    def _tells_errors(self) -> bool:
        """Whether ``errors()`` has what it is made of, overlaps."""
        return self._keeps_shapes

    def _check_shapes_kept(self, what: str) -> None:
        if not self._keeps_shapes:
            raise ValueError(f"`match='update'` keeps no shapes, which `{what}` needs; give `match='compute'`")

    def _check_iou_type(self, iou_type: str | None) -> None:
        checks.one_of("iou_type", iou_type, (None, *self._settings.iou_types))

    def _sample(self, iou_type: str | None = None, per_class: bool = False, slices: Any = None) -> Any:  # type: ignore[override]
        """Images as an :class:`ImageSample`; with ``slices`` as a :class:`SlicedSample`."""
        columns = self._columns()
        members = None if slices is None else self._members(slices, columns)
        matches, interpolation, classes = self._matched(columns, iou_type, per_class)
        dtype = self._dtype_of_result(columns["detection_scores"].dtype)
        labels = classes if per_class else None
        names = [] if labels is None else different_names_of(labels, self._class_names)

        ids = self._image_ids() if len(self.sample_ids) else None

        def sample(of: Matches, images: int) -> ImageSample:
            return ImageSample(dtype, columns, ranked_images(of, images), interpolation, labels, names, ids)

        if members is None:
            return sample(matches, len(columns["detections_per_image"]))
        each = {name: sample(matches.of_images(kept), int(kept.sum())) for name, kept in members.items()}
        return SlicedSample(dtype, each, members)

    def _settings_of_value(self) -> Mapping[str, Any]:
        found = {field.name: getattr(self._settings, field.name) for field in fields(self._settings)}
        return {self._argument_names.get(name, name): value for name, value in found.items()}
