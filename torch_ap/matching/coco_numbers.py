"""From matched detections to COCO's numbers."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from torch_ap.curve import interpolation
from torch_ap.matching.coco_settings import CocoSettings
from torch_ap.matching.matched import Matches, Shares
from torch_ap.matching.precision_tables import SPACING, PrecisionTable, precision_tables
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array


class CocoNumbers:
    """Every number that COCO makes of the matches of one data set, each computed when first asked for.

    Args:
        settings: which numbers are meant.
        matches: what matching found.
        labels: (K,) the labels of the categories.
        shares: where the matches are those of a share of the categories.
        slices: how many slices of the images the matches are of, side by side; numbers are then (S, ...), one of each.
    """

    def __init__(
        self,
        settings: CocoSettings,
        matches: Matches,
        labels: Tensor,
        shares: Shares | None = None,
        slices: int | None = None,
    ) -> None:
        self.settings, self.matches, self.labels, self._shares, self._slices = settings, matches, labels, shares, slices
        self._limited = {settings.limits[-1]: matches}
        self._curves: dict[tuple[int, int], HitCurve] = {}
        self._tables: dict[tuple[int, int], PrecisionTable] = {}
        self._arrays: dict[tuple[str, int, int], Tensor] = {}

    def of_slices(self, kept: Tensor) -> "CocoNumbers":
        """:meth:`summary` and :meth:`of_categories` of some of the images alone: (S, B) bool, those of each slice."""
        return CocoNumbers(self.settings, self.matches.of_slices(kept), self.labels, slices=len(kept))

    @property
    def shape(self) -> tuple[int, int]:
        """Thresholds and categories: T, K."""
        return len(self.settings.thresholds), self.matches.categories

    def curve(self, area: int, limit: int) -> HitCurve:
        """T * K rankings: the hit curve of each threshold and category, in one area range, at one detection limit."""
        key = (area, limit)
        if key not in self._curves:
            self._curves[key] = self._until(limit).curve(area)
        return self._curves[key]

    def rankings(self, area: int, limit: int, threshold: int) -> HitCurve:
        """The K rankings of one of the IoU thresholds, where every detection that counts is an entry."""
        return self._until(limit).rankings(area, threshold)

    def _until(self, limit: int) -> Matches:
        most = self.settings.limits[limit]
        if most not in self._limited:
            self._limited[most] = self.matches.until(most)
        return self._limited[most]

    def _tabulated(self, areas: Iterable[int], limit: int) -> list[PrecisionTable]:
        """The tables of some area ranges: of several at once they cost less than one by one."""
        missing = [area for area in areas if (area, limit) not in self._tables]
        if missing:
            found = precision_tables(self._until(limit), self.levels, missing)
            self._tables |= {(area, limit): table for area, table in zip(missing, found, strict=True)}
        return [self._tables[area, limit] for area in areas]

    def precision(self, area: int, limit: int) -> Tensor:
        """(T, R, K) float64, -1 for categories without ground truths."""

        def made() -> Tensor:
            found = self._tabulated([area], limit)[0].precision
            every = found.new_full((*self.shape, found.shape[1]), -1)
            every[:, self.matches.relevant[area] > 0] = found.transpose(1, 2)
            return every

        return self._array("precision", area, limit, made)

    def scores(self, area: int, limit: int) -> Tensor:
        """(T, R, K) float64, the score at which each recall level is reached."""
        best = self.matches.best_score().repeat(self.shape[0])
        return self._array("scores", area, limit, lambda: score_at(self.curve(area, limit), self.levels, best))

    def recall(self, area: int, limit: int) -> Tensor:
        """(T, K) float64, recall of all detections; -1 for categories without ground truths."""
        m = self.matches.relevant[area]
        if (area, limit) in self._tables:
            hits = m.new_zeros(self.shape)
            hits[:, m > 0] = self._tables[area, limit].hits.to(m.dtype)
        elif (area, limit) in self._curves:
            hits = self._curves[area, limit].offsets.diff().reshape(self.shape)
        else:
            hits = self.matches.hits(area, self.settings.limits[limit])
        hits = hits if self._shares is None else self._shares.whole(hits)
        return torch.where(m > 0, segments.as_float64(hits) / segments.as_float64(m), -1)

    def every(self, name: str) -> Tensor:
        """All area ranges and limits of "precision", "scores" or "recall": (T, [R,] K, A, M)."""
        areas, limits = range(len(self.settings.areas)), range(len(self.settings.limits))
        for limit in limits if name == "precision" else ():
            self._tabulated(areas, limit)
        of = {"precision": self.precision, "scores": self.scores, "recall": self.recall}[name]
        return torch.stack([torch.stack([of(a, m) for m in limits], -1) for a in areas], -2)

    @property
    def levels(self) -> Tensor:
        """(R,) recall levels."""
        return segments.constants(self.settings.levels, self.labels.device)

    def _array(self, name: str, area: int, limit: int, make: Callable[[], Tensor]) -> Tensor:
        key = (name, area, limit)
        if key not in self._arrays:
            found = make().reshape(*self.shape, -1)
            self._arrays[key] = (found if self._shares is None else self._shares.whole(found)).transpose(1, 2)
        return self._arrays[key]

    def threshold(self, value: float) -> int | None:
        """Which of the IoU thresholds equals ``value``; None if there is none."""
        found = [place for place, one in enumerate(self.settings.thresholds) if one == value]
        return found[0] if found else None

    def mean_precision(self, area: int = 0, threshold: float | None = None) -> Tensor:
        """0-d float64: the mean precision of all (or one) thresholds, levels and categories; -1 where there is none."""
        return self._mean(self._each(area), area, lambda values: self._at(values, threshold))

    def _mean(self, values: Tensor, area: int, chosen: Callable[[Tensor], Tensor]) -> Tensor:
        """The mean of what is chosen of (..., K) values, perhaps without the categories that have no ground truths."""
        if self._slices is None:
            return mean_of_defined(chosen(values))
        relevant = self.matches.relevant[area].view(self._slices, -1)
        sizes = relevant > 0 if values.shape[-1] < relevant.numel() else torch.ones_like(relevant)
        parts = map(chosen, torch.split(values, sizes.sum(1).tolist(), -1))
        if values.is_cpu:
            return torch.tensor([_mean_of_array(part.numpy()) for part in parts], dtype=torch.float64)
        return torch.stack([mean_of_defined(part) for part in parts])

    def _each(self, area: int) -> Tensor:
        """What :meth:`mean_precision` is the mean of: (T, R, K), or means over levels, (T, K), where these will do.

        The former perhaps without the categories that have no ground truths.
        """
        last = len(self.settings.limits) - 1
        if self.settings.by_levels:
            return self._tabulated([area], last)[0].precision if self._shares is None else self.precision(area, last)
        key = ("mean", area, last)
        if key not in self._arrays:
            found = mean_precision_of(self.curve(area, last), self.levels).reshape(self.shape)
            self._arrays[key] = found if self._shares is None else self._shares.whole(found)
        return self._arrays[key]

    def _of_group(self, labels: Tensor) -> Tensor:
        """0-d float64: the mean precision of the categories that have one of these labels; -1 where there is none."""
        inside = torch.isin(self.labels, labels.to(self.labels.device))
        return self._mean(self._each(0), 0, lambda values: values[..., : len(self.labels)][..., inside])

    def _at(self, values: Tensor, threshold: float | None) -> Tensor:
        """(T, ...) values at one IoU threshold, of which there may be none, or as they are."""
        if threshold is None:
            return values
        place = self.threshold(threshold)
        return values[:0] if place is None else values[place]

    def mean_recall(self, area: int = 0, limit: int | None = None, threshold: float | None = None) -> Tensor:
        """0-d float64: the mean recall of all (or one) thresholds and categories; -1 where there is none."""
        recall = self.recall(area, len(self.settings.limits) - 1 if limit is None else limit)
        return self._mean(recall, area, lambda values: self._at(values, threshold))

    def summary(self) -> dict[str, Tensor]:
        """COCO's numbers, by torchmetrics' names, in float64."""
        names = list(self.settings.areas)
        ranges = list(enumerate(names))[1:]
        if self.settings.by_levels:
            self._tabulated(range(len(names)), len(self.settings.limits) - 1)
        # precision first: recall is free once its tables or curves are there
        numbers = {"map": self.mean_precision(), "map_50": self.mean_precision(0, 0.5)}
        numbers["map_75"] = self.mean_precision(0, 0.75)
        numbers |= {f"map_{name}": self.mean_precision(area) for area, name in ranges}
        numbers |= {f"map_{name}": self._of_group(labels) for name, labels in self.settings.groups.items()}
        for limit, most in enumerate(self.settings.limits):
            numbers[f"mar_{most}"] = self.mean_recall(0, limit)
        for threshold in self.settings.recall_at:
            numbers[f"mar_iou_{100 * threshold:.0f}"] = self.mean_recall(threshold=threshold)
        return numbers | {f"mar_{name}": self.mean_recall(area) for area, name in ranges}

    def of_categories(self) -> tuple[Tensor, Tensor]:
        """(K,) AP and (K,) AR of each category at the last limit; -1 without ground truths."""
        last = len(self.settings.limits) - 1
        absent = self.matches.relevant[0] == 0
        each = self.precision(0, last) if self.settings.by_levels else self._each(0)
        means = each.mean(tuple(range(each.ndim - 1))), self.recall(0, last).mean(0)
        ap, ar = (torch.where(absent, -1, mean) for mean in means)
        return (ap, ar) if self._slices is None else (ap.view(self._slices, -1), ar.view(self._slices, -1))

    def of_categories_at(self, threshold: float) -> Tensor:
        """(K,) AP of each category at one IoU threshold; -1 without ground truths, or where it is none of ours."""
        place = self.threshold(threshold)
        absent = self.matches.relevant[0] == 0
        if place is None:
            return torch.full(absent.shape, -1.0, dtype=torch.float64, device=absent.device)
        return torch.where(absent, -1, self.of_rankings(0, len(self.settings.limits) - 1, place))

    def of_rankings(self, area: int, limit: int, threshold: int) -> Tensor:
        """(K,) AP of each of :meth:`rankings`; NaN without ground truths."""
        values = self.precision(area, limit)[threshold].mean(0)
        return torch.where(self.matches.relevant[area] > 0, values, torch.nan)


def mean_of_defined(values: Tensor) -> Tensor:
    """The mean of what is above -1, in COCO's order of summation on CPU; -1 where there is nothing."""
    if values.is_cpu:
        return torch.tensor(_mean_of_array(values.numpy()), dtype=torch.float64, device="cpu")
    defined = values > -1
    count = defined.sum()
    return torch.where(count > 0, torch.where(defined, values, 0).sum() / count.clamp(min=1), -1.0)


def _mean_of_array(values: Array) -> float:
    kept = values.reshape(-1)
    if kept.size and kept.min() <= -1:
        kept = kept[kept > -1]
    return float(kept.mean()) if kept.size else -1.0


def mean_precision_of(curve: HitCurve, levels: Tensor) -> Tensor:
    """The mean of COCO's precision over the recall levels: (S,) float64."""
    hits = segments.as_float64(curve.cumulative_hits)
    precision = hits / (segments.as_float64(curve.cumulative_items - curve.cumulative_hits) + hits + SPACING)
    return torch.where(curve.m > 0, interpolation.mean_over_levels(curve, precision, levels), -1)


def score_at(curve: HitCurve, levels: Tensor, best: Tensor) -> Tensor:
    """COCO's score at recall levels: (S, R) float64, that of the first hit to reach it, 0 past the last.

    Args:
        curve: S rankings.
        levels: (R,) recall levels.
        best: (S,) score at levels that need no hit.
    """
    assert curve.score is not None
    score = interpolation.highest_at_levels(curve, segments.as_float64(curve.score), levels, missing=-torch.inf)
    score = torch.where(levels <= 0, best[:, None], torch.where(torch.isneginf(score), 0, score))
    return torch.where((curve.m > 0)[:, None], score, -1)
