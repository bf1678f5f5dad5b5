"""A convention: which of the numbers called average precision is meant, defined and checked in one place."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor

from torch_ap.curve import few_hits, interpolation
from torch_ap.curve.average_precision import average_precision
from torch_ap.curve.few_hits import FewHits
from torch_ap.ranking import hit_curve
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks, tensors
from torch_ap.rules.messages import Plain, refuse
from torch_ap.rules.options import Denominator, Interpolation, Ties, TopK, allowed
from torch_ap.runtime import cached

TIES = allowed(Ties)
DENOMINATORS = allowed(Denominator)
INTERPOLATIONS = allowed(Interpolation)
_AREAS = {"all-points": interpolation.over_all_points, "trapezoid": interpolation.trapezoid}


@dataclass(frozen=True, eq=False)
class Convention:
    """What average precision means, as one value to hand to whatever computes it: a cut, its divisor, ties.

    A function or metric takes it as ``convention``, instead of its own keywords of the names below.

    Args:
        top_k: k of at least 1 for AP@k; "relevant" for AP@R, where k is the number of relevant items; None for all
            items.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the relevant items in the top k.
        interpolation: None for the plain sum; "11-point", "11-point-arange", "11-point-trec9", "11-point-trec10",
            "40-point", "101-point", "nuscenes", "all-points", "trapezoid", or a 1-D tensor of recall levels in [0, 1].
        ties: how equal scores count: "grouped" (they enter together), "expected" (mean over all their orders),
            "optimistic", "pessimistic". None for the default of what takes the convention: over queries "expected", but
            "grouped" with ``interpolation``; elsewhere "grouped".

    Raises:
        TypeError, ValueError: for an unknown option, or options that contradict one another, such as ``top_k`` with
            ``interpolation``.

    Example:
        >>> import torch
        >>> from torch_ap import Convention
        >>> from torch_ap.functional import binary_average_precision
        >>> trec_eval_at_2 = Convention(top_k=2, denominator="relevant")
        >>> preds, target = torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 1])
        >>> binary_average_precision(preds, target, convention=trec_eval_at_2)
        tensor(0.3333)
    """

    top_k: TopK = None
    denominator: str = "min"
    interpolation: str | Tensor | None = None
    ties: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "top_k", checks.top_k("top_k", self.top_k))
        checks.one_of("denominator", self.denominator, DENOMINATORS)
        checks.one_of("ties", self.ties, (*TIES, None))
        if isinstance(self.interpolation, Tensor):
            tensors.recall_levels("interpolation", self.interpolation)
            object.__setattr__(self, "interpolation", self.interpolation.detach().clone())
        else:
            checks.one_of("interpolation", self.interpolation, INTERPOLATIONS, or_else="a 1-D tensor of recall levels")
        if self.interpolation is not None and self.top_k is not None:
            raise ValueError(f"`top_k` has no meaning with `interpolation`, got top_k={self.top_k}; give one of them")
        if self.interpolation is not None and self.denominator != "min":
            raise ValueError(
                f"`denominator` has no meaning with `interpolation`, got denominator={self.denominator!r}; give one of "
                "them"
            )
        if self.interpolation is not None and self.ties == "expected":
            raise ValueError(
                "`interpolation` has no closed form for `ties='expected'`; use 'grouped', 'optimistic' or 'pessimistic'"
            )

    def __eq__(self, other: object) -> bool:
        """Whether every setting is the same; of recall levels their numbers count."""
        return isinstance(other, Convention) and self._settings() == other._settings()

    def __hash__(self) -> int:
        return hash(self._settings())

    def _settings(self) -> tuple[Any, ...]:
        levels = self.interpolation
        held = tuple(levels.tolist()) if isinstance(levels, Tensor) else levels
        return self.top_k, self.denominator, held, self.ties

    def with_ties(self, default: str) -> "Convention":
        """The same where ``ties`` are given; else with these."""
        return replace(self, ties=default) if self.ties is None else self

    @property
    def takes_weights(self) -> bool:
        """Whether sample weights have a meaning: ranks and places inside a tie group have no weight."""
        return self.top_k is None and self.ties in ("grouped", None)

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return self.interpolation is None and (self.top_k is None or self.denominator != "found")

    @property
    def has_bounds(self) -> bool:
        """Whether a ranking whose order is known only in part leaves bounds of the AP."""
        return self.has_chance_level  # for the same reason: a sum over hits, and a divisor that no order changes

    def of_few(self, rankings: Sequence[FewHits]) -> list[float] | None:
        """The AP of each ranking, without arrays; None of interpolated ones."""
        if self.interpolation is not None:
            return None
        return [few_hits.average_precision(hits, self.top_k, self.denominator) for hits in rankings]

    def __call__(self, curve: HitCurve) -> Tensor:
        """The AP of each ranking of the curve: (S,) float64, NaN where nothing is relevant."""
        ties = self.ties or "grouped"
        if self.interpolation is None:
            return average_precision(curve, ties=ties, top_k=self.top_k, denominator=self.denominator)
        curve = curve if isinstance(curve.m, Tensor) else hit_curve.with_tensors(curve, None)
        if ties != "grouped":
            curve = interpolation.untied(curve, ties)
        if isinstance(self.interpolation, str) and self.interpolation in _AREAS:
            return _AREAS[self.interpolation](curve)
        return self.at_levels(curve)[1].mean(1)

    def at_levels(self, curve: HitCurve) -> tuple[Tensor, Tensor]:
        """(L,) the recall levels over which this AP is a mean, and (S, L) the precision of each ranking there.

        Args:
            curve: S rankings, whose ties are resolved.
        """
        device = curve.m.device
        if isinstance(self.interpolation, Tensor):
            levels = self.interpolation.to(device)
            return levels, interpolation.at_levels(curve, levels)
        assert self.interpolation is not None
        if self.interpolation == "nuscenes":
            return interpolation.nuscenes(curve)
        name, _, trec_version = self.interpolation.partition("-trec")
        levels = interpolation.levels_of(name, device)
        if trec_version:
            return levels, interpolation.at_hits(curve, interpolation.trec_cuts(curve.m, levels, int(trec_version)))
        return levels, interpolation.at_levels(curve, levels)


PLAIN = Convention(ties="grouped")
_cached = cached.settings_cache(Convention)


def convention_of(
    given: Convention | None, top_k: TopK, denominator: str, interpolation: str | Tensor | None, ties: str
) -> Convention:
    """The convention that is given as a whole, or that of these keywords; each is checked once.

    Raises:
        TypeError: for what is no convention.
        ValueError: where a keyword that is not at its default comes beside a convention.
    """
    if given is not None:
        keywords = {"top_k": top_k, "denominator": denominator, "interpolation": interpolation}
        return _alone(given, keywords | {"ties": None if ties == "grouped" else ties}).with_ties("grouped")
    make = Convention if isinstance(interpolation, Tensor) else _cached
    return make(top_k, denominator, interpolation, ties)


def query_convention(
    given: Convention | None, top_k: TopK, denominator: str, interpolation: str | Tensor | None, ties: str | None
) -> Convention:
    """The same for queries: no ``ties`` are "expected", but "grouped" for interpolated AP, which has no mean."""
    if given is not None:
        keywords = {"top_k": top_k, "denominator": denominator, "interpolation": interpolation, "ties": ties}
        return _alone(given, keywords).with_ties(_ties_of_queries(given.interpolation))
    given_ties = _ties_of_queries(interpolation) if ties is None else ties
    return convention_of(None, top_k, denominator, interpolation, given_ties)


def _ties_of_queries(interpolation: object) -> str:
    return "expected" if interpolation is None else "grouped"


def _alone(given: Any, keywords: dict[str, Any]) -> Convention:
    """The convention, beside which no keyword says anything."""
    if not isinstance(given, Convention):
        refuse("convention", "must be a torch_ap.Convention or None", Plain(type(given).__name__), TypeError)
    for setting in fields(Convention):
        value = keywords[setting.name]
        if isinstance(value, Tensor) or value != setting.default:
            refuse(setting.name, "must not be given beside `convention`", value)
    return given
