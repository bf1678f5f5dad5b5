"""A convention: which of the numbers called average precision is meant, said once and checked once."""

from dataclasses import dataclass

from torch import Tensor

from torch_ap.curve import interpolation
from torch_ap.curve.average_precision import average_precision
from torch_ap.ranking import hit_curve
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks, tensors
from torch_ap.runtime import cached

TIES = ("grouped", "expected", "optimistic", "pessimistic")
DENOMINATORS = ("min", "relevant", "found")
INTERPOLATIONS = (
    None,
    "11-point",
    "11-point-arange",
    "11-point-trec9",
    "11-point-trec10",
    "101-point",
    "all-points",
    "trapezoid",
)


@dataclass(frozen=True, eq=False)
class Convention:
    """What AP means: its rule for ties, its cut, what AP@k divides by, its interpolation.

    Calling it with a curve gives the AP of each ranking, (S,) float64, NaN where nothing is relevant.

    Raises:
        ValueError: for an unknown option, or options that contradict one another.
    """

    top_k: int | None = None
    denominator: str = "min"
    interpolation: str | Tensor | None = None
    ties: str = "grouped"

    def __post_init__(self) -> None:
        checks.positive_int("top_k", self.top_k, optional=True)
        checks.one_of("denominator", self.denominator, DENOMINATORS)
        checks.one_of("ties", self.ties, TIES)
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

    @classmethod
    def of_queries(
        cls, top_k: int | None, denominator: str, interpolation: str | Tensor | None, ties: str | None
    ) -> "Convention":
        """As retrieval means it: no ``ties`` are "expected", but "grouped" for interpolated AP, which has no mean."""
        if ties is None:
            ties = "expected" if interpolation is None else "grouped"
        return convention(top_k, denominator, interpolation, ties)

    @property
    def takes_weights(self) -> bool:
        """Whether sample weights have a meaning: a rank, or a place inside a tie group, has no weight."""
        return self.top_k is None and self.ties == "grouped"

    def __call__(self, curve: HitCurve) -> Tensor:
        """The AP of each ranking of the curve: (S,) float64, NaN where nothing is relevant."""
        if self.interpolation is None:
            return average_precision(curve, ties=self.ties, top_k=self.top_k, denominator=self.denominator)
        curve = curve if isinstance(curve.m, Tensor) else hit_curve.with_tensors(curve, None)
        if self.ties != "grouped":
            curve = interpolation.untied(curve, self.ties)
        if isinstance(self.interpolation, Tensor):
            return interpolation.over_levels(curve, self.interpolation.to(curve.m.device))
        if self.interpolation == "all-points":
            return interpolation.over_all_points(curve)
        if self.interpolation == "trapezoid":
            return interpolation.trapezoid(curve)
        name, _, trec_version = self.interpolation.partition("-trec")
        levels = interpolation.levels_of(name, curve.m.device)
        if trec_version:
            return interpolation.at_hits(curve, interpolation.trec_cuts(curve.m, levels, int(trec_version))).mean(1)
        return interpolation.over_levels(curve, levels)


_cached = cached.settings_cache(Convention)


def convention(top_k: int | None, denominator: str, interpolation: str | Tensor | None, ties: str) -> Convention:
    """The convention of these settings, checked once."""
    make = Convention if isinstance(interpolation, Tensor) else _cached
    return make(top_k, denominator, interpolation, ties)
