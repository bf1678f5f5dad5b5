"""Images of a detector with their settings and matches, in a metric's state or of one call: what all analyses need."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames, check_names, unique_label_names
from torch_ap.core.metric import samples
from torch_ap.detection.errors import images
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.detection.inputs.images import Columns, Kind
from torch_ap.detection.matching.matched import Matches, Shares
from torch_ap.detection.matching.shapes import threshold_index
from torch_ap.inference.groups import Groups

Made = TypeVar("Made")
ValuesIn: TypeAlias = Callable[[Tensor], tuple[Matches, dict[str, Tensor]]]


class ClassMatches(NamedTuple):
    """Matches of images in each class.

    Attributes:
        matches: the matches.
        interpolation: interpolation of AP, an ``InterpolationRule``.
        labels: (K,) labels of the classes, ascending.
    """

    matches: Matches
    interpolation: Any
    labels: Tensor


class MatchedImages:
    """Abstract: images with the settings of an evaluation, and their matches.

    Subclasses implement the hooks of the rules, or the hooks of the images.
    """

    _argument_names: ClassVar[Mapping[str, str]] = MappingProxyType({})  # of settings that have other names
    _threshold_name: ClassVar[str] = "iou_threshold"  # argument of methods that selects one of the thresholds
    if TYPE_CHECKING:  # torch.jit evaluates the annotations of every class
        _settings: Any  # settings of the value, a record
        device: Any
        _all_ranks: Any  # returns a context in which `_columns` returns the images of all processes
        _dtype_of_result: Any  # returns the dtype of the value for a dtype of scores

    # -- hooks of the rules of an evaluation

    @property
    def _class_names(self) -> ClassNames:
        """The names of the classes."""
        raise NotImplementedError

    def _match_batch(
        self, columns: Columns, iou_type: Kind | None = None, *, per_class: bool = False
    ) -> tuple[Tensor, Matches]:
        """Return the labels and matches of a batch of images, without caching them; arguments as for ``_matched``."""
        raise NotImplementedError

    def _matched(
        self, columns: Columns, iou_type: str | None, per_class: bool = False, least_score: float | None = None
    ) -> ClassMatches:
        """Return the matches of images.

        Args:
            columns: the images.
            iou_type: one of several ``iou_type``; None for the first.
            per_class: whether to separate classes, also with ``average="micro"``.
            least_score: detections of lower scores may be left out; None for all detections.
        """
        raise NotImplementedError

    def _class_values(self, columns: Columns, iou_type: str | None) -> tuple[Matches, Tensor, dict[str, Tensor]]:
        """Return the matches of images, the labels, and AP and related values of each class."""
        raise NotImplementedError

    def _values_in(self, columns: Columns, iou_type: str | None) -> ValuesIn:
        """Return a function from slices, (S, B) bool, to their matches and all numbers of each slice, (S, ...)."""
        raise NotImplementedError

    # -- hooks of the images; the defaults are those of images in one process

    def _columns(self) -> Columns:
        """Return all images, without further copies of an image."""
        raise NotImplementedError

    def _once(self, make: Callable[[], Made], *what: Hashable) -> Made:
        """Return a result of the images and settings, which is cached until the images change.

        Args:
            make: computes the result.
            what: name of the result, one of several.
        """
        raise NotImplementedError

    def _is_cached(self, *what: Hashable) -> bool:
        """Whether :meth:`_once` has a result of this name."""
        raise NotImplementedError

    def _known_image_ids(self) -> Tensor | None:
        """Return the (B,) int64 ``sample_ids`` of the images; None without ids."""
        return None

    def _known_groups(self) -> Tensor | None:
        """Return the (B,) int64 ``groups`` of the images; None without groups."""
        raise NotImplementedError

    def _warn_of_low_value(self, columns: Columns, results: Mapping[str, Any]) -> None:
        """Warn of the likely cause of a low value; the commands look for causes before the evaluation."""

    @property
    def _shares(self) -> Shares | None:
        """The shares of all processes as one data set, while each process has its own images."""
        return None

    @property
    def _keeps_shapes(self) -> bool:
        """Whether there are images, and not only their matches."""
        return True

    # -- shared by the analyses

    def _image_ids(self, columns: Columns) -> Tensor:
        """Return (B,) int64 ids of the images, or their positions if updates had no ids."""
        ids = self._known_image_ids()
        return torch.arange(len(columns["detections_per_image"]), device=self.device) if ids is None else ids

    def _image_flags(self, images_by_slice: Any, columns: Columns) -> dict[str, Tensor]:
        """Return (B,) bool flags of the images of each slice."""
        ids = self._known_image_ids()
        positions = f"be places of the {len(columns['detections_per_image'])} images, from 0"
        rule = positions if ids is None else f"be `{samples.STATE}` of updates"
        return images.image_flags(images_by_slice, self._image_ids(columns), rule)

    def _image_groups(self) -> Groups | None:
        """Return the group of each image; None for independent images."""
        ids = self._known_groups()
        return None if ids is None else Groups.from_ids(ids)

    def _threshold_index(self, threshold: float | None) -> int:
        """Return the index of a threshold."""
        return threshold_index(threshold, self._settings.thresholds, self._threshold_name)

    def _matches_at(
        self,
        threshold: float | None = None,
        iou_type: str | None = None,
        class_names: ClassNames = None,
        least_score: float | None = None,
    ) -> MatchesAt:
        """Return the images of all processes with their matches in each class, and a threshold.

        Args:
            threshold: one of the thresholds; None for 0.5, or the lowest without it.
            iou_type: one of several ``iou_type``; None for the first.
            class_names: names of the labels; None for the names of the metric.
            least_score: detections of lower scores may be left out; None for all detections.
        """
        place = self._threshold_index(threshold)
        check_names(class_names)
        with self._all_ranks():
            columns = self._columns()
            matches, interpolation, labels = self._matched(columns, iou_type, True, least_score)
            groups = self._image_groups()
        names = unique_label_names(labels, self._class_names if class_names is None else class_names)
        kind = iou_type or self._settings.iou_types[0]
        return MatchesAt(self._settings, columns, kind, matches, interpolation, labels.clone(), names, place, groups)

    @property
    def _has_errors(self) -> bool:
        """Whether ``errors()`` exists and has the shapes that it needs."""
        return self._keeps_shapes and hasattr(self, "errors")

    def _check_shapes_kept(self, what: str) -> None:
        """Raise ValueError for a method that needs shapes, if only matches are stored."""
        if not self._keeps_shapes:
            raise ValueError(f"`match='update'` keeps no shapes, which `{what}` needs; give `match='compute'`")

    def _check_iou_type(self, iou_type: str | None) -> None:
        checks.one_of("iou_type", iou_type, (None, *self._settings.iou_types))

    def _settings_of_value(self) -> Mapping[str, Any]:
        settings = {field.name: getattr(self._settings, field.name) for field in fields(self._settings)}
        return {self._argument_names.get(name, name): value for name, value in settings.items()}
