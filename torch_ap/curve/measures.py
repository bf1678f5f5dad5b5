"""Measures of a query's ranking other than average precision, each a record of its settings that maps a curve to one
value per ranking.

Each is NaN where it is undefined: where nothing is relevant, or for fall-out where everything is. The fall-out of no
items is 0: nothing was retrieved, so nothing that is not relevant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve import counts, few_hits, first_hit, interpolation
from torch_ap.curve.convention import TIES
from torch_ap.curve.few_hits import FewHits
from torch_ap.curve.top_k import rank_of
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import TopK
from torch_ap.runtime import arrays

RATIOS = ("precision", "recall", "f_beta", "fall_out")


@dataclass(frozen=True)
class AtRank:
    """A ratio of the counts at rank k.

    Attributes:
        ratio: "precision", "recall", "f_beta" or "fall_out".
        top_k: k, "relevant" for m, or None for all items of the ranking.
        adaptive_k: whether k is n where fewer items were ranked, so that precision is hits / n there.
        beta: of "f_beta".
        ties: how a tie group that straddles k counts.
    """

    ratio: str
    top_k: TopK = None
    adaptive_k: bool = False
    beta: float = 1.0
    ties: str = "grouped"

    def __post_init__(self) -> None:
        object.__setattr__(self, "top_k", checks.top_k("top_k", self.top_k))
        checks.boolean("adaptive_k", self.adaptive_k)
        checks.beta("beta", self.beta, zero=True)
        checks.one_of("ties", self.ties, TIES)

    def of_few(self, rankings: Sequence[FewHits]) -> list[float] | None:
        """The value of each ranking, without arrays; None of what is rare."""
        nothing_else = self.ratio == "fall_out" and any(hits.n == len(hits.places) for hits in rankings)
        if self.adaptive_k or self.ratio == "f_beta" or nothing_else:
            return None
        return [few_hits.ratio(hits, self.ratio, self.top_k) for hits in rankings]

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64."""
        native = curve.native
        if native.single and self.ratio != "f_beta":
            return arrays.tensor(np.array([self._of_one(native)]))
        return arrays.tensor(self._of_each(native))

    @arrays.quiet
    def _of_each(self, curve: Any) -> Any:
        k = rank_of(self.top_k, curve)
        if k is None or self.adaptive_k or self.ratio == "fall_out":
            k = segments.as_float64(curve.n if k is None else arrays.at_most(curve.n, k))
        if self.ratio == "f_beta":
            value = counts.counts_at_rank(curve, k, ties=self.ties).f_beta(self.beta)
            return arrays.namespace(value).where(curve.m > 0, value, torch.nan)
        return self._ratio(curve, counts.hits_in_top(curve, k, self.ties), k)

    def _ratio(self, curve: Any, tp: Any, k: Any) -> Any:
        """Hits in the top k as a share of k, of the relevant items, or of the others; NaN where nothing is relevant.

        A ratio of nothing is 0 where no item was ranked.
        """
        where = arrays.namespace(tp).where
        if self.ratio == "recall":
            return tp / segments.as_float64(curve.m)
        if self.ratio == "fall_out":
            return where(curve.n > 0, (k - tp) / segments.as_float64(curve.n - curve.hits_seen), 0)
        return where(curve.m > 0, where(curve.n > 0, tp / k, 0), torch.nan)

    def _of_one(self, curve: Any) -> float:
        """The value of one ranking, computed without arrays; the same bits."""
        n, m = curve.n.item(0), curve.m.item(0)
        k = self.top_k if isinstance(self.top_k, int) else n if self.top_k is None else m
        if self.adaptive_k or self.ratio == "fall_out":
            k = min(n, k)
        tp = counts.hits_of_one(curve, k, self.ties)
        if self.ratio == "fall_out":
            others = n - curve.hits_seen.item(0)
            return (k - tp) / others if others else math.nan
        return tp / (m if self.ratio == "recall" else k) if m else math.nan


@dataclass(frozen=True)
class AtEveryRank:
    """Precision or recall at each rank from 1 on.

    Attributes:
        ratio: "precision" or "recall".
        max_k: the last rank, or None for that of the longest ranking.
        adaptive_k: whether precision beyond the n items of a ranking is hits / n.
        ties: how tie groups count.
    """

    ratio: str
    max_k: int | None = None
    adaptive_k: bool = False
    ties: str = "grouped"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_k", checks.positive_int("max_k", self.max_k, optional=True))
        checks.boolean("adaptive_k", self.adaptive_k)
        checks.one_of("ties", self.ties, TIES)

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S, K) float64; NaN where nothing is relevant."""
        k = self.ranks(curve)
        hits, n, m = counts.hits_at_every_rank(curve, len(k), self.ties), curve.n[:, None], curve.m[:, None]
        of = m if self.ratio == "recall" else torch.minimum(k, n.clamp(min=1)) if self.adaptive_k else k
        return torch.where(m > 0, hits / segments.as_float64(of), torch.nan)

    def ranks(self, curve: HitCurve) -> Tensor:
        """(K,) int64, the ranks."""
        depth = self.max_k if self.max_k is not None else int(curve.n.max()) if len(curve.n) else 0
        return torch.arange(1, depth + 1, device=curve.m.device)


@dataclass(frozen=True)
class RPrecision:
    """Precision at rank m."""

    ties: str = "grouped"

    def __post_init__(self) -> None:
        checks.one_of("ties", self.ties, TIES)

    def of_few(self, rankings: Sequence[FewHits]) -> list[float]:
        """The value of each ranking, without arrays."""
        return [few_hits.ratio(hits, "precision", "relevant") for hits in rankings]

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64."""
        return counts.r_precision(curve, ties=self.ties)


@dataclass(frozen=True)
class FirstHit:
    """Reciprocal rank of the first hit, or whether there is one, in the top k.

    Attributes:
        what: "reciprocal_rank" or "hit_rate".
        top_k: k, "relevant" for m, or None for all items of the ranking.
        ties: how a tie group counts.
    """

    what: str
    top_k: TopK = None
    ties: str = "grouped"

    def __post_init__(self) -> None:
        object.__setattr__(self, "top_k", checks.top_k("top_k", self.top_k))
        checks.one_of("ties", self.ties, TIES)

    def of_few(self, rankings: Sequence[FewHits]) -> list[float]:
        """The value of each ranking, without arrays."""
        return [few_hits.first_hit(hits, self.what, self.top_k) for hits in rankings]

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64."""
        measure = first_hit.reciprocal_rank if self.what == "reciprocal_rank" else first_hit.hit_rate
        return measure(curve, ties=self.ties, top_k=self.top_k)


@dataclass(frozen=True)
class PrecisionAtRecall:
    """Interpolated precision from one recall level on, as trec_eval reports it."""

    level: float
    version: int

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64; tie groups as thresholds."""
        cuts = interpolation.trec_cuts(curve.m, torch.tensor([self.level], dtype=torch.float64), self.version)
        return interpolation.at_hits(curve, cuts)[:, 0]
