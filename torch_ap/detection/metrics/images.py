"""State of a detection metric: images of detections and ground truths, as a few flat tensors.

Exchange of detections: each process matches its own images, and sends the matches of each class to one process.
"""

import heapq
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays, cached, checks, tensors
from torch_ap.core.base.class_names import label_names
from torch_ap.core.base.messages import warn_caller
from torch_ap.core.metric import exchange, samples
from torch_ap.core.metric.base import RankingMetric
from torch_ap.core.metric.exchange import Ranks, Route
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.metric.state import Form, listed
from torch_ap.core.ranking import order, segments
from torch_ap.detection.errors import low_values, unmatchable
from torch_ap.detection.inputs import rules
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching.candidate_pairs import Ranked, descending
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.matching.shapes import ShapeSettings
from torch_ap.detection.matching.stored import OTHERS, StoredMatches
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.detection.metrics.matched_images import Made


class ClassShares:
    """Classes divided among processes by the number of detections.

    See :class:`torch_ap.detection.matching.matched.Shares`.

    Args:
        ranks: the processes, each with its own images.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._mine = torch.empty(0, dtype=torch.bool)

    def labels(self, local_labels: Tensor) -> Tensor:
        """Return the labels of the images of all processes, ascending."""
        return order.dense_ranks(torch.cat(self.ranks.gather_unequal(local_labels)))[0]

    def matches(self, match: Callable[[], Matches]) -> Matches:
        """Return the matches of this process's classes in the images of all processes, in process order.

        Args:
            match: returns the matches of the local images.
        """
        here = self.ranks.attempt(match)
        ranked, size = here.ranked, here.categories
        owner = self._owners(self.ranks.sum(segments.count(ranked.category, size))).to(ranked.category.device)
        self._mine = owner == self.ranks.rank
        route = Route(self.ranks, owner[ranked.category])
        category, score, place = (route.send(x) for x in (ranked.category, ranked.score, ranked.place))
        inside = route.send(here.inside.t().contiguous()).t()
        pairs = Route(self.ranks, owner[ranked.category[here.at]])
        at = route.arrivals(here.at, pairs)
        matched, true_positive = (pairs.send(x.t().contiguous()).t() for x in (here.matched, here.true_positive))
        rows = order.stable_argsort((category << 32).add_(descending(score)), size << 32)
        now = torch.empty_like(rows).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
        at, places = now[at].sort(stable=True)
        category = category[rows]
        return replace(
            here,
            ranked=Ranked(rows, category, score[rows], category, place[rows], rows),
            at=at,
            matched=matched[:, places],
            true_positive=true_positive[:, places],
            inside=inside[:, rows],
            partners=None,
            relevant_of_all=self.ranks.sum(here.relevant),
        )

    def combine(self, values: Tensor) -> Tensor:
        """Combine (T, K, ...) values, valid for the classes of each process's share, to the values of all classes."""
        mine = self._mine.reshape(-1, *[1] * (values.ndim - 2))
        return self.ranks.sum(torch.where(mine, values, torch.zeros_like(values)))

    def _owners(self, detections: Tensor) -> Tensor:
        """Return the (K,) process of each class: by descending size, each to the least loaded process."""
        owners, loads = [0] * len(detections), [(0, rank) for rank in range(self.ranks.size)]
        sizes = detections.tolist()
        for category in sorted(range(len(sizes)), key=lambda category: -sizes[category]):
            load, rank = heapq.heappop(loads)
            owners[category] = rank
            heapq.heappush(loads, (load + sizes[category], rank))
        return torch.tensor(owners)


_LOW_VALUES = {"bbox": 0.1, "rotated": 0.3}  # values from here on are not low; boxes at wrong angles overlap, too
_MIN_IMAGES = 10  # in fewer images, a low value is likely by chance
_IMAGE_STATES = (samples.STATE, samples.GROUPS)  # one number per image
_COMPARED = "numbers of ground truths"  # must be equal in copies of an image


@cached.settings_cache
def _cache_key(*settings: Hashable) -> object:
    """Return the same object for the same settings."""
    del settings
    return object()


def _is_low(settings: Any, columns: Columns, results: Mapping[str, Any]) -> bool:
    """Whether the value is low, of enough images. Waits for an accelerator.

    Args:
        settings: settings of the metric; without ``check_values`` no value is low.
        columns: all images, or their matches.
        results: numbers by name, the value as ``map`` or ``bbox_map``.
    """
    if not settings.check_values or columns["detections_per_image"].shape[0] < _MIN_IMAGES:
        return False
    value = results.get("map", results.get("bbox_map"))
    limit = next((low for kind, low in _LOW_VALUES.items() if kind in settings.iou_types), _LOW_VALUES["bbox"])
    return value is not None and float(value) < limit


def _warn_of_cause(settings: Any, columns: Columns) -> bool:
    """Warn of the likely cause of a low value, and return whether there is one.

    Args:
        settings: settings of the metric.
        columns: all images, or their matches.
    """
    preds, target = (
        {key: columns[name] for key in ("boxes", "labels", "scores") if (name := f"{side}_{key}") in columns}
        | {"counts": columns[f"{side}s_per_image"]}
        for side in ("detection", "ground_truth")
    )
    is_known = any(kind in settings.iou_types for kind in _LOW_VALUES)
    if not is_known or settings.own_iou is not None or settings.box_format == "xyxyxyxy":
        preds.pop("boxes", None)
    micro = getattr(settings, "average", None) == "micro"
    cause = low_values.likely_cause(preds, target, settings.box_format, with_classes=not micro)
    if cause is not None:
        warn_caller(f"the value is low: {cause}", UserWarning)
    return cause is not None


def is_first_process() -> bool:
    """Whether this is the first process of a group, or the only one."""
    from torchmetrics.utilities.prints import rank_zero_only

    if getattr(rank_zero_only, "rank", 0):
        return False
    group = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not group or torch.distributed.get_rank() == 0


def _is_sanity_check() -> bool:
    """Whether Lightning is checking the code of the validation, often with an untrained model."""
    frame = sys._getframe(1) if {"lightning", "pytorch_lightning"} & sys.modules.keys() else None
    while frame is not None and frame.f_code.co_name != "_run_sanity_check":
        frame = frame.f_back
    return frame is not None


class ImageState(DetectionAnalyses, RankingMetric):
    """Abstract: images as flat columns, one state per column, however many images there are.

    Each column contains the concatenated rows of all images (boxes, scores, labels, ...) or one number per image (rows
    per image), so that synchronization takes one collective per column.

    Args:
        settings: settings of the value.
        diagnose: whether ``compute`` searches for the cause of a low value.
        kwargs: arguments of the base class.
    """

    sample_ids: list[Tensor]
    groups: list[Tensor]
    _is_diagnosed: bool = False  # whether a search for the cause of a low value had no result
    _unseen: bool = False  # whether images came on an accelerator, which `update` does not wait for, or too few

    _cached_attributes = (*RankingMetric._cached_attributes, "_unseen")
    _converts_lists = True
    _value_rules = rules.VALUE_RULES
    _settings_of_update = "box format, geometry, `validate_args`, `match`, what `match='update'` depends on"
    _peer_states = ("groundtruth_box", "groundtruth_labels")

    def __init__(self, settings: ShapeSettings, *, diagnose: bool = True, **kwargs: Any) -> None:
        checks.boolean("diagnose", diagnose)
        inputs, stored = settings.inputs, settings.stored
        super().__init__(repr(inputs) if stored is None else f"{inputs}|{stored}", **kwargs)
        self.diagnose = diagnose
        self._settings, self._inputs, self._stored = settings, inputs, stored or inputs
        self._add_states(*self._stored.states, *_IMAGE_STATES)

    # -- from batches to columns

    def _add(self, columns: Columns, broken: Tensor | None, *ids: SampleIds) -> None:
        """Store validated images, or their matches.

        Args:
            columns: the images.
            broken: on an accelerator, which value rules they break.
            ids: the ``sample_ids`` and the ``groups``, or None.
        """
        counts = columns["detections_per_image"]
        each = [
            None if x is None else samples.validate_ids(name, x, counts.shape, counts.device, "image")
            for name, x in zip(_IMAGE_STATES, ids, strict=True)
        ]
        if counts.is_cpu or not self._keeps_shapes:
            self._check_named(columns)
        if isinstance(self._stored, StoredMatches):
            if broken is not None and bool(broken.any()):  # matching cannot wait for `compute`
                raise ValueError(rules.VALUE_RULES[int(broken.nonzero()[0])])
            if not counts.is_cpu:
                self._inputs.warn_about_rows(columns)
            if self._inputs.check_values:  # `compute` has no shapes
                unmatchable.warn_of_empty(self._settings, columns)
            columns, broken = self._stored.to_columns(columns, *self._match_batch(columns)), None
        elif not counts.is_cpu or self._inputs.needs_more_rows(columns):
            self._unseen = True
        self._hold([*(columns[name] for name in self._stored.states), *each], broken)

    def _check_named(self, columns: Columns) -> None:
        """Raise ValueError for a label that a list of names lacks, if values are checked. Waits for an accelerator."""
        if isinstance(self._class_names, Sequence) and self._inputs.check_values:
            for side in ("detection", "ground_truth"):
                if len(labels := columns[f"{side}_labels"]):
                    label_names(torch.stack(labels.aminmax()), self._class_names)

    def _forms(self) -> dict[str, Form]:
        forms, shape_ends = {}, {f"_{column.key}" for column in self._stored.rows}
        for name, empty in self._stored.empty().items():
            dtypes = tensors.SCORES if name.endswith("scores") else [empty.dtype]
            if name.endswith("mask_edges"):
                dtypes = [torch.int32, torch.int64]
            if name.endswith(tuple(shape_ends)):
                dtypes = [dtype for dtype in tensors.SCORES if dtype.is_floating_point]
            forms[name] = Form(dtypes, [tuple(empty.shape[1:])])
        return {**forms, **dict.fromkeys(_IMAGE_STATES, Form([torch.int64]))}

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        return next((f"`{name}`" for name in _IMAGE_STATES if name in here ^ there), None)

    def _check_held(self, state: dict[str, Any]) -> None:
        empty = self._stored.empty()
        columns = {name: x if isinstance(x := state[name], Tensor) else empty[name] for name in self._stored.states}
        for name in _IMAGE_STATES:
            if isinstance(ids := state[name], Tensor) and len(ids) != len(columns["detections_per_image"]):
                raise ValueError(f"`{name}` must be one per image, got {len(ids)}")
        tensors.raise_first(self._value_rules, self._stored.check_stored(columns))

    def _columns(self) -> Columns:
        """Return all images, without further copies of an image."""
        self._raise_first_violation()
        if self._exchanged is not None:
            columns: Columns = self._exchanged[1]
            return columns
        held = {name: getattr(self, name) for name in self._stored.states}
        if not held["detection_scores"]:
            return self._no_images()
        columns = {name: arrays.concatenate(listed(state)) for name, state in held.items()}
        if self._keeps_shapes and (self._unseen or not columns["detection_scores"].is_cpu):  # on CPU `update` checks
            self._check_named(columns)
            self._once(lambda: self._inputs.warn_about_rows(columns), "remarks")
        if not len(ids := self.sample_ids):
            return columns
        first = samples.first_copies(arrays.concatenate(listed(ids)), columns["ground_truths_per_image"], _COMPARED)
        return columns if first is None else self._stored.select_images(columns, first)

    def _warn_of_low_value(self, columns: Columns, results: Mapping[str, Any]) -> None:
        """Warn of the likely cause of a low value, except in ``forward`` and where one process has only its images.

        The search for causes ends for the life of the metric, through ``reset``, when it has found none.
        """
        if self._state_before_forward is not None or self._exchanged is not None or len(columns.get(OTHERS, ())):
            return
        if not self._is_synced and self.distributed_available_fn():
            return
        warned = unmatchable.warn_of_unmatchable(self._settings, columns)
        if warned or not self.diagnose or self._is_diagnosed or not _is_low(self._settings, columns, results):
            return
        if is_first_process() and not _is_sanity_check():
            self._is_diagnosed = not _warn_of_cause(self._settings, columns)

    def _once(self, make: Callable[[], Made], *what: Hashable) -> Made:
        return cached.memoize(make, _cache_key(self._settings, *what), self._tensors())

    def _is_cached(self, *what: Hashable) -> bool:
        return cached.is_stored(_cache_key(self._settings, *what), self._tensors())

    def _known_image_ids(self) -> Tensor | None:
        return self._first_copies(self.sample_ids) if len(self.sample_ids) else None

    def _known_groups(self) -> Tensor | None:
        return self._first_copies(self.groups) if len(self.groups) else None

    def _first_copies(self, state: list[Tensor]) -> Tensor:
        """Return the values of a state with one number per image, without further copies of an image."""
        values = arrays.concatenate(listed(state))
        if not len(self.sample_ids):
            return values
        ids = arrays.concatenate(listed(self.sample_ids))
        first = samples.first_copies(ids, torch.zeros_like(ids))
        return values if first is None else values[first]

    def _no_images(self) -> Columns:
        return {name: column.to(self.device) for name, column in self._stored.empty().items()}

    @property
    def _can_exchange(self) -> bool:
        return True

    @property
    def _shares(self) -> ClassShares | None:
        """The shares of all processes as one data set, while each process has its own images."""
        return None if self._exchanged is None else ClassShares(self._exchanged[0])

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> tuple[Ranks, Columns]:
        """Return the images of this process, without copies of images."""
        if not held:
            return ranks, self._no_images()
        columns = {name: held[name] for name in self._stored.states}
        if samples.STATE in held:
            first = exchange.flag_first_copies(
                ranks, held[samples.STATE], columns["ground_truths_per_image"], _COMPARED
            )
            columns = self._stored.select_images(columns, first)
        return ranks, columns

    @property
    def _keeps_shapes(self) -> bool:
        """Whether images are stored, and not only matches."""
        return self._stored is self._inputs
