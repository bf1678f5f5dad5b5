"""Where a measure cuts rankings: at one rank, at several, or each at as many items as are relevant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.few_hits import FewHits
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules.messages import refuse
from torch_ap.runtime import arrays


def rank_of(top_k: Any, curve: Any) -> Any:
    """The rank at which native rankings are cut: an int, None for nowhere, or (S,) float64.

    Args:
        top_k: an int, None, "relevant", or (S,) such ranks themselves.
        curve: S rankings.
    """
    return segments.as_float64(curve.m) if isinstance(top_k, str) else arrays.native(top_k)


def at_entries(rank: Any, offsets: Any) -> Any:
    """Of (S,) ranks that of each entry's ranking; what is one for all stays."""
    return rank if rank is None or isinstance(rank, int) else segments.each_entry(rank, offsets)


@dataclass(frozen=True)
class AtSeveral:
    """A measure at several ranks of the same rankings.

    Attributes:
        parts: the measure at each.
    """

    parts: tuple[Any, ...]

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S, K) float64."""
        return torch.stack([part(curve) for part in self.parts], 1)

    def of_few(self, rankings: Sequence[FewHits]) -> list[list[float]] | None:
        """The values of each ranking, without arrays, where each part has them."""
        if not hasattr(self.parts[0], "of_few"):
            return None
        found = [part.of_few(rankings) for part in self.parts]
        return None if None in found else [list(values) for values in zip(*found, strict=True)]

    def __getattr__(self, name: str) -> Any:
        """What the parts have in common."""
        if name.startswith("__") or name == "parts":
            raise AttributeError(name)
        return getattr(self.parts[0], name)

    @property
    def top_k(self) -> list[Any]:
        """K of each."""
        return [part.top_k for part in self.parts]

    def with_ties(self, ties: str) -> "AtSeveral":
        """The same by another rule for ties."""
        return AtSeveral(tuple(replace(part, ties=ties) for part in self.parts))


def at_each(top_k: Any, make: Callable[[Any], Any]) -> Any:
    """The measure that a function makes of one k, or of each of a list of different ones.

    Raises:
        ValueError: for a list without any, or with one twice, and for what the function refuses.
    """
    if isinstance(top_k, str | bytes) or not isinstance(top_k, Sequence):
        return make(top_k)
    parts = tuple(make(k) for k in top_k)
    if not parts or None in top_k or len({part.top_k for part in parts}) < len(parts):
        refuse("top_k", "must be one k, or a list of different ones", list(top_k))
    return AtSeveral(parts)


def settings_of(measure: Any) -> dict[str, Any]:
    """The settings of a measure by name; of several ranks ``top_k`` is their list."""
    if isinstance(measure, AtSeveral):
        return {**vars(measure.parts[0]), "top_k": measure.top_k}
    return dict(vars(measure))


def deepest(measure: Any) -> int | None:
    """The rank below which nothing counts, where that is known before the rankings are; None where it is not."""
    k: Any = getattr(measure, "top_k", None)
    if isinstance(measure, AtSeveral):
        return max(k) if all(isinstance(x, int) for x in k) else None
    return k if isinstance(k, int) else None
