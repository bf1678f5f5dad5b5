"""Matches as columns of a metric's state: ``update`` matches each batch and does not store its shapes.

Detections are sorted by image, class (unless all classes are one) and score, as in COCO. All columns can be
concatenated. The criteria of matches have rows only for the detections with ``detection_matched``. Labels that occur
only in shapes that are not evaluated are stored once per image.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking import order, segments
from torch_ap.detection.inputs.images import Columns, RowColumn, image_ids
from torch_ap.detection.matching.assignment import Criteria
from torch_ap.detection.matching.candidate_pairs import Ranked, descending, places_in_runs
from torch_ap.detection.matching.matched import Matches

_SIGN = "detection_matched"
_OF_MATCHES = ("detection_match_criteria", "detection_hit_criteria")
OTHERS = "detection_other_labels"


def holds(columns: Columns) -> bool:
    """Whether the columns contain matches instead of shapes."""
    return _SIGN in columns


@dataclass(frozen=True)
class StoredMatches:
    """The format of the columns.

    Attributes:
        thresholds: T IoU thresholds.
        areas: the bounds of A area ranges.
        limit: the maximum number of detections per image and class; None for no limit.
        shapes: other settings that change the matches, as text.
        micro: whether all classes are one.
        leaves_out: whether some shapes of an image are not evaluated.
    """

    thresholds: tuple[float, ...]
    areas: tuple[tuple[float, float], ...]
    limit: int | None
    shapes: str
    micro: bool = False
    leaves_out: bool = False

    rows: tuple[RowColumn, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        """The names of all columns, in a fixed order."""
        return tuple(self.empty())

    @property
    def word_count(self) -> int:
        """The number of int64 words with a bit for each threshold and area range, W."""
        return Criteria(torch.tensor(self.thresholds, dtype=torch.float64), len(self.areas)).word_count

    def empty(self) -> Columns:
        """Return the columns of zero images."""
        counts, flags = torch.empty(0, dtype=torch.int64), torch.empty(0, len(self.areas), dtype=torch.uint8)
        words = torch.empty(0, self.word_count, dtype=torch.int64)
        return {
            "detection_labels": counts,
            "detection_scores": torch.empty(0),
            "detections_per_image": counts,
            "detection_inside": flags,
            _SIGN: flags[:, 0],
            "detection_match_criteria": words,
            "detection_hit_criteria": words,
            "ground_truth_labels": counts,
            "ground_truths_per_image": counts,
            "ground_truth_valid": flags,
            **({OTHERS: counts, f"{OTHERS}_per_image": counts} if self.leaves_out else {}),
        }

    def to_columns(self, columns: Columns, labels: Tensor, matches: Matches) -> Columns:
        """Return the columns of a matched batch.

        Args:
            columns: the columns of the shapes.
            labels: (K,) the labels of the categories.
            matches: the matches of the shapes.
        """
        ranked, rows, partners = matches.ranked, matches.ranked.by_group, matches.partners
        assert partners is not None
        size, images = matches.categories, len(columns["detections_per_image"])
        words = torch.zeros((2, self.word_count, len(rows)), dtype=torch.int64, device=rows.device)
        # each criterion matches a detection at most once, so a sum of words equals their bitwise or
        for out, pair_words in zip(words, (matches.matched, matches.true_positive), strict=True):
            out.index_add_(1, matches.at, pair_words)
        words = words[:, :, rows]
        is_matched = (words[0] != 0).any(0)
        criteria, hits = (x[:, is_matched].t().contiguous() for x in words)
        return {
            "detection_labels": columns["detection_labels"][ranked.rows[rows]],
            "detection_scores": ranked.score[rows],
            "detections_per_image": segments.count(ranked.group[rows] // size, images),
            "detection_inside": _flags(matches.inside[:, rows]),
            _SIGN: is_matched.to(torch.uint8),
            "detection_match_criteria": criteria,
            "detection_hit_criteria": hits,
            "ground_truth_labels": columns["ground_truth_labels"][partners.rows],
            "ground_truths_per_image": segments.count(matches.truth_group // size, images),
            "ground_truth_valid": _flags(matches.valid),
            **(_others(columns, labels, ranked.rows, partners.rows) if self.leaves_out else {}),
        }

    def select_images(self, columns: Columns, kept: Tensor) -> Columns:
        """Return the columns of the images with (B,) flags."""
        rows = kept.repeat_interleave(columns["detections_per_image"])
        truths = kept.repeat_interleave(columns["ground_truths_per_image"])
        chosen = {"detections_per": kept, "ground_truths_per": kept, "detection": rows, "ground_truth": truths}
        if self.leaves_out:
            counts = columns[f"{OTHERS}_per_image"]
            chosen |= {_prefix(OTHERS): kept.repeat_interleave(counts), f"{OTHERS}_per": kept}
        matches = rows[columns[_SIGN].bool()]
        return {name: x[matches if name in _OF_MATCHES else chosen[_prefix(name)]] for name, x in columns.items()}

    def check_stored(self, columns: Columns) -> None:
        """Validate columns of matches.

        Raises:
            ValueError: if the columns cannot result from matching; the message names the column.
        """
        sizes = {side: len(columns[f"{side}_labels"]) for side in ("detection", "ground_truth")}
        matches = int(columns[_SIGN].sum(dtype=torch.int64))
        for name, column in columns.items():
            expected = matches if name in _OF_MATCHES else sizes.get(_prefix(name), len(column))
            if len(column) != expected:
                raise_invalid(name, f"must have {expected} rows, as the labels or matches", len(column))
        totals = {f"{side}s_per_image": size for side, size in sizes.items()}
        totals |= {f"{OTHERS}_per_image": len(columns[OTHERS])} if self.leaves_out else {}
        images = len(columns["detections_per_image"])
        for name, total in totals.items():
            count = columns[name]
            if len(count) != images or bool((count < 0).any()) or int(count.sum()) != total:
                raise_invalid(name, f"must be one per image and add up to {total}", count.tolist())
        for name in ("detection_inside", _SIGN, "ground_truth_valid"):
            if bool((columns[name] > 1).any()):
                raise_invalid(name, "must be 0 or 1", int(columns[name].max()))
        if bool(columns["detection_scores"].isnan().any()):
            raise_invalid("detection_scores", "must not contain NaN", torch.nan)
        if not self._is_ordered(columns):
            raise ValueError("`detection_labels` and `detection_scores` must be in order, and no more than the limit")
        beyond = columns["detection_hit_criteria"] & ~columns["detection_match_criteria"]
        if bool(beyond.any()) or bool((columns["detection_match_criteria"] < 0).any()):
            raise ValueError("`detection_hit_criteria` must be among `detection_match_criteria`")

    def _is_ordered(self, columns: Columns) -> bool:
        """Whether detections are sorted by image, class and score, and within the limit."""
        labels, scores = columns["detection_labels"], columns["detection_scores"]
        if not len(labels):
            return True
        later, step = image_ids(columns["detections_per_image"]).diff() > 0, labels.diff() * (not self.micro)
        new = later | (step != 0)
        ordered = (later | (step >= 0)) & (new | (scores[1:] <= scores[:-1]))
        if self.limit is None:
            return bool(ordered.all())
        group = torch.nn.functional.pad(new.cumsum(0), (1, 0))
        return bool(ordered.all()) and bool((places_in_runs(group) < self.limit).all())


def _flags(flags: Tensor) -> Tensor:
    """Convert (A, N) bool to a column."""
    return flags.t().to(torch.uint8).contiguous()


def _others(columns: Columns, labels: Tensor, rows: Tensor, truths: Tensor) -> Columns:
    """Return the labels of the shapes that are not in these rows, once per image."""
    size, images, keys = max(1, len(labels)), len(columns["detections_per_image"]), []
    for side, evaluated in (("detection", rows), ("ground_truth", truths)):
        place = torch.searchsorted(labels, columns[f"{side}_labels"])
        key = image_ids(columns[f"{side}s_per_image"]) * size + place
        keys.append(key[torch.ones_like(key, dtype=torch.bool).index_fill_(0, evaluated, False)])
    key = torch.unique(torch.cat(keys))
    return {OTHERS: labels[key % size], f"{OTHERS}_per_image": segments.count(key // size, images)}


def _prefix(name: str) -> str:
    return name.rpartition("_")[0]


def matches_of(columns: Columns, criteria: Criteria, classes: tuple[Tensor, Tensor, Tensor], *, micro: bool) -> Matches:
    """Convert columns of matches to matches.

    Args:
        columns: the columns of matches.
        criteria: thresholds and area ranges.
        classes: (K,) the labels, and the index into them of each detection and of each ground truth.
        micro: whether all labels are one category.
    """
    labels, *sides = classes
    detected, true = (torch.zeros_like(side) for side in sides) if micro else sides
    categories = 1 if micro else max(1, len(labels))
    group = (image_ids(columns["detections_per_image"]) * categories).add_(detected)
    scores = columns["detection_scores"]
    rows = order.stable_argsort((detected << 32).add_(descending(scores)), categories << 32)
    rank = torch.empty_like(rows).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
    at, pairs = rank[columns[_SIGN].bool()].sort()
    place = arrays.tensor(places_in_runs(native(group)))[rows]
    return Matches(
        ranked=Ranked(rows, detected[rows], scores[rows], group[rows], place, rank),
        at=at,
        matched=columns["detection_match_criteria"][pairs].t(),
        true_positive=columns["detection_hit_criteria"][pairs].t(),
        inside=columns["detection_inside"][rows].t().bool().contiguous(),
        truth_group=image_ids(columns["ground_truths_per_image"]) * categories + true,
        valid=columns["ground_truth_valid"].t().bool(),
        categories=categories,
        criteria=criteria,
        partners=None,
    )
