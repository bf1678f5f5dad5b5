"""Measures: settings, and functions of a hit curve that give one value per ranking.

A concrete measure is a frozen dataclass with the settings as fields. It defines ``values``, ``name`` and ``describe``,
and overrides what differs from the defaults below. Metrics, ``torch_ap.evaluate``, commands, reports, bins and
inference use only this interface. Names of measures are in :mod:`torch_ap.core.measures.names`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.measures.lists import FewHits
from torch_ap.core.measures.ties import TIES, TieRule, check_ties, rank_per_entry, tie_rule
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve, one_group


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of each ranking, (S,) float64 each, or of their average, 0-d; NaN where nothing is relevant.

    Attributes:
        low: the lowest possible value.
        estimate: the mean over all orders inside the bins. With weights, the value of tied bins.
        high: the highest possible value.
    """

    low: Tensor
    estimate: Tensor
    high: Tensor


@dataclass(frozen=True)
class Measure(ABC):
    """Abstract: a measure of one ranking, whose fields are its settings.

    Attributes:
        supported_ties: names of the tie rules that the measure defines. Construction raises for all others.
        graded: whether the measure takes curves with grades.
        is_average_precision: whether the measure is an average precision, which items and classes have too.
        needs_judgements: whether the measure is bound to the judgements of one run.
        table_name: name for tables, if it does not depend on the settings.
        is_bounded: whether rankings whose order inside bins is unknown have bounds, whatever the settings.
    """

    supported_ties: ClassVar[tuple[str | None, ...]] = TIES
    graded: ClassVar[bool] = False
    is_average_precision: ClassVar[bool] = False
    needs_judgements: ClassVar[bool] = False
    table_name: ClassVar[str] = ""
    is_bounded: ClassVar[bool] = True
    has_list_backend: ClassVar[bool] = False  # whether the class overrides values_of_lists

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.has_list_backend = cls.values_of_lists is not Measure.values_of_lists

    def __post_init__(self) -> None:
        settings = vars(self)
        if "top_k" in settings:
            object.__setattr__(self, "top_k", checks.top_k("top_k", settings["top_k"]))
        if "ties" in settings:
            check_ties(settings["ties"], self.supported_ties)

    def __call__(self, curve: HitCurve) -> Tensor:
        """Return the values: see :meth:`values`."""
        return self.values(curve)

    @abstractmethod
    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64, NaN where undefined."""

    def values_of_lists(self, rankings: Sequence[FewHits]) -> Sequence[Any] | None:  # noqa: ARG002
        """Return the value of each short ranking without ties, computed without arrays; None to use arrays."""
        return None

    @property
    def name(self) -> str:
        """Name for tables, without the rank."""
        return self.table_name or type(self).__name__

    @abstractmethod
    def describe(self) -> str:
        """Return the definition of the measure, with every setting that changes it, as the beginning of a sentence."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value is better."""
        return True

    @property
    def has_bounds(self) -> bool:
        """Whether rankings whose order inside bins is unknown have bounds."""
        return self.is_bounded

    @property
    def is_monotone(self) -> bool:
        """Whether a hit that moves up never makes the value worse: hits first and hits last are the extreme orders."""
        return True

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return True

    @property
    def has_depth_bound(self) -> bool:
        """Whether rankings with few items cannot reach 1, such as precision at k with fewer than k items."""
        return False

    def upper_bound(self, most_items: int) -> float:  # noqa: ARG002 - most measures can be 1
        """Return the largest possible value of a ranking of 1 to ``most_items`` items."""
        return 1.0

    @property
    def takes_weights(self) -> bool:
        """Whether sample weights have a meaning."""
        return False

    @property
    def label(self) -> str:
        """Name for tables, with the rank."""
        k = getattr(self, "top_k", None)
        return self.name if k is None else f"{self.name}@{'R' if k == 'relevant' else k}"

    @property
    def top(self) -> str:
        """Description of the items that count."""
        k = getattr(self, "top_k", None)
        return "all items" if k is None else "as many items as are relevant" if k == "relevant" else f"the top {k}"

    @property
    def rule(self) -> TieRule:
        """The tie rule."""
        return tie_rule(getattr(self, "ties", None) or "grouped")

    def can_have_chance_level(self, curve: HitCurve, undefined: float | None) -> bool:  # noqa: ARG002
        """Return whether these rankings have a chance level; ``undefined`` as for :meth:`chance_level`."""
        return self.has_chance_level

    def chance_level(
        self,
        curve: HitCurve,
        *,
        groups: HitCurve | None = None,  # noqa: ARG002 - most measures have the same mean
        undefined: float | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Return the mean of the measure over random orders of the items of each ranking.

        A random ranking is one tie group whose ties count as expected.

        Args:
            curve: S rankings of n items.
            groups: the same rankings with all items as hits, so that each tie group is an entry, and with the m of
                ``curve``. The last rankings may be missing if they have no items. Random orders keep these groups. None
                for orders without ties.
            undefined: the value of an order for which the measure is undefined; None to leave such orders out.

        Returns:
            float64 in the shape of the values, NaN where undefined.

        Raises:
            ValueError: if the mean has no closed form.
        """
        if not self.has_chance_level:
            raise ValueError(f"{self.label} has no closed form of its chance level")
        mean: Measure = replace(self, ties="expected")  # type: ignore[call-arg]
        return mean.values(one_group(curve, curve.hits_seen))

    def bounds(self, curve: HitCurve, mixed: Tensor) -> Bounds:
        """Return the bounds of each ranking of bins, for a measure that ``has_bounds``.

        Args:
            curve: S rankings whose entries are bins.
            mixed: (E,) bool, whether a bin can contain distinct scores.

        Raises:
            ValueError: for weights, which have no meaning.
        """
        if curve.weighted:
            raise ValueError("weights have a meaning for average precision alone: a rank has no weight")
        is_exact = segments.total((self._depends_on_order(curve) & mixed).to(torch.int64), curve.offsets) == 0
        ends = ("pessimistic", "optimistic") if self.higher_is_better else ("optimistic", "pessimistic")
        orders = (replace(self, ties=x)(curve) for x in (ends[0], "expected", ends[1]))  # type: ignore[call-arg]
        (low, estimate, high), value = orders, self(curve)
        if self.rule.is_threshold:  # a group that enters as a whole can count less than any of its orders
            low = torch.minimum(low, value)
        return Bounds(*(torch.where(is_exact, value, x) for x in (low, estimate, high)))

    def _depends_on_order(self, curve: HitCurve) -> Tensor:
        """Return whether the order inside an entry changes the value: (E,) bool."""
        k = _ranks(curve, getattr(self, "top_k", None))
        return torch.ones_like(curve.hits, dtype=torch.bool) if k is None else curve.items_above < k


def straddles(curve: HitCurve, top_k: Any) -> Tensor:
    """Return whether an entry straddles rank k: (E,) bool."""
    k = _ranks(curve, top_k)
    if k is None:
        return torch.zeros_like(curve.hits, dtype=torch.bool)
    flags: Tensor = (curve.items_above < k) & (curve.items_above + curve.items > k)
    return flags


def _ranks(curve: HitCurve, top_k: Any) -> Any:
    return rank_per_entry(segments.as_float64(curve.m) if isinstance(top_k, str) else top_k, curve.offsets)


@dataclass(frozen=True)
class AtSeveral:
    """A measure at several ranks of the same rankings.

    Attributes:
        parts: the measure at each rank.
    """

    parts: tuple[Any, ...]

    def __call__(self, curve: HitCurve) -> Tensor:
        """Return the values at each rank: (S, K) float64."""
        return torch.stack([part(curve) for part in self.parts], 1)

    def values_of_lists(self, rankings: Sequence[FewHits]) -> list[list[float]] | None:
        """Return the values of each ranking, computed without arrays; None to use arrays."""
        columns = [part.values_of_lists(rankings) for part in self.parts]
        return None if None in columns else [list(values) for values in zip(*columns, strict=True)]

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that the parts have in common."""
        if name.startswith("__") or name == "parts":
            raise AttributeError(name)
        return getattr(self.parts[0], name)

    @property
    def top_k(self) -> list[Any]:
        """The ranks."""
        return [part.top_k for part in self.parts]


def measure_at_ranks(top_k: Any, make: Callable[[Any], Any]) -> Any:
    """Return the measure that a function makes of one k, or of each of a list of different ones.

    Raises:
        ValueError: for an empty list or a repeated rank, and for a rank that the function rejects.
    """
    if isinstance(top_k, str | bytes) or not isinstance(top_k, Sequence):
        return make(top_k)
    parts = tuple(make(k) for k in top_k)
    if not parts or None in top_k or len({part.top_k for part in parts}) < len(parts):
        raise_invalid("top_k", "must be one k, or a list of different ones", list(top_k))
    return AtSeveral(parts)


def settings_of(measure: Any) -> dict[str, Any]:
    """Return the settings of a measure by name; at several ranks, ``top_k`` is their list."""
    if isinstance(measure, AtSeveral):
        return {**vars(measure.parts[0]), "top_k": measure.top_k}
    return dict(vars(measure))


def deepest(measure: Any) -> int | None:
    """Return the rank below which nothing counts; None if it depends on the rankings."""
    k: Any = getattr(measure, "top_k", None)
    if isinstance(measure, AtSeveral):
        return max(k) if all(isinstance(x, int) for x in k) else None
    return k if isinstance(k, int) else None
