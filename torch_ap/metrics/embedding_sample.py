"""Queries with a value each, as a sample, where what lies inside a query is not kept."""

from dataclasses import dataclass, replace

from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.inference.chance_of_rankings import chance_of_curve
from torch_ap.inference.resampling import Resampling
from torch_ap.metrics.query_sample import QuerySample
from torch_ap.ranking.hit_curve import HitCurve


@dataclass(frozen=True)
class Known:
    """A measure whose values are known, whatever the curve."""

    values: Tensor
    top_k = None

    def __call__(self, _: HitCurve) -> Tensor:
        """(S,) float64."""
        return self.values


@dataclass(frozen=True, eq=False)
class EmbeddingSample(QuerySample):
    """Queries whose values are known, and of whose rankings only the sizes are.

    Attributes:
        convention: of the values.
    """

    convention: Convention

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return self.convention.has_chance_level

    def chance_level(self, resampling: Resampling) -> Tensor:  # noqa: ARG002 - nothing is drawn
        """The mean over queries of AP's mean, the items of each in random order, without ties."""
        values = chance_of_curve(self.rankings.curve, replace(self.convention, ties="expected"))
        return self.settings.value(self._each_of(values), self.dtype, warn=False)
