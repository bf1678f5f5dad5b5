"""Matches as columns of a metric's state: a batch is matched when it comes, and its shapes are let go of.

Rows of detections are in order of image, then class (or none, where all are one), then score, as COCO takes them; each
column is concatenable. What is a number per detection of a sparse kind, the criteria of its match, has a row only where
``detection_matched`` says so. Labels that occur only in what takes no part are kept by image, each once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, RowColumn, image_of
from torch_ap.matching.assignment import Criteria
from torch_ap.matching.candidate_pairs import Ranked, descending, places
from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.rules.messages import refuse
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_SIGN = "detection_matched"
_OF_MATCHES = ("detection_match_criteria", "detection_hit_criteria")
OTHERS = "detection_other_labels"


def holds(columns: Columns) -> bool:
    """Whether columns are those of matches, not of shapes."""
    return _SIGN in columns


@dataclass(frozen=True)
class StoredMatches:
    """The form of the columns.

    Attributes:
        thresholds: T IoU thresholds.
        areas: A area ranges.
        limit: how many detections of an image and class count; None for all.
        shapes: what else matches depend on, as text.
        micro: whether all classes are one.
        leaves_out: whether some of what is in an image may take no part in matching.
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
    def words(self) -> int:
        """W, how many int64 hold a bit for each threshold and area range."""
        return Criteria(torch.tensor(self.thresholds, dtype=torch.float64), len(self.areas)).words

    def empty(self) -> Columns:
        """The columns of no images."""
        counts, flags = torch.empty(0, dtype=torch.int64), torch.empty(0, len(self.areas), dtype=torch.uint8)
        words = torch.empty(0, self.words, dtype=torch.int64)
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

    def made(self, columns: Columns, labels: Tensor, matches: Matches) -> Columns:
        """Columns of a batch that is matched.

        Args:
            columns: of its shapes.
            labels: (K,) of the categories.
            matches: of these.
        """
        ranked, rows, partners = matches.ranked, matches.ranked.by_group, matches.partners
        assert partners is not None
        size, images = matches.categories, len(columns["detections_per_image"])
        words = torch.zeros((2, self.words, len(rows)), dtype=torch.int64, device=rows.device)
        # a criterion matches a detection once, so that adding up is joining
        for into, found in zip(words, (matches.matched, matches.true_positive), strict=True):
            into.index_add_(1, matches.at, found)
        words = words[:, :, rows]
        some = (words[0] != 0).any(0)
        criteria, hits = (x[:, some].t().contiguous() for x in words)
        return {
            "detection_labels": columns["detection_labels"][ranked.rows[rows]],
            "detection_scores": ranked.score[rows],
            "detections_per_image": segments.count(ranked.group[rows] // size, images),
            "detection_inside": _flags(matches.inside[:, rows]),
            _SIGN: some.to(torch.uint8),
            "detection_match_criteria": criteria,
            "detection_hit_criteria": hits,
            "ground_truth_labels": columns["ground_truth_labels"][partners.rows],
            "ground_truths_per_image": segments.count(matches.truth_group // size, images),
            "ground_truth_valid": _flags(matches.valid),
            **(_others(columns, labels, ranked.rows, partners.rows) if self.leaves_out else {}),
        }

    def of_images(self, columns: Columns, kept: Tensor) -> Columns:
        """The columns of some of the images: those where ``kept``, (B,) bool, is true."""
        rows = kept.repeat_interleave(columns["detections_per_image"])
        truths = kept.repeat_interleave(columns["ground_truths_per_image"])
        chosen = {"detections_per": kept, "ground_truths_per": kept, "detection": rows, "ground_truth": truths}
        if self.leaves_out:
            counts = columns[f"{OTHERS}_per_image"]
            chosen |= {_prefix(OTHERS): kept.repeat_interleave(counts), f"{OTHERS}_per": kept}
        matches = rows[columns[_SIGN].bool()]
        return {name: x[matches if name in _OF_MATCHES else chosen[_prefix(name)]] for name, x in columns.items()}

    def look_at(self, columns: Columns) -> None:
        """Refuse columns that no matching makes.

        Raises:
            ValueError: naming the column.
        """
        sizes = {side: len(columns[f"{side}_labels"]) for side in ("detection", "ground_truth")}
        matches = int(columns[_SIGN].sum(dtype=torch.int64))
        for name, column in columns.items():
            wanted = matches if name in _OF_MATCHES else sizes.get(_prefix(name), len(column))
            if len(column) != wanted:
                refuse(name, f"must have {wanted} rows, as the labels or matches", len(column))
        totals = {f"{side}s_per_image": size for side, size in sizes.items()}
        totals |= {f"{OTHERS}_per_image": len(columns[OTHERS])} if self.leaves_out else {}
        images = len(columns["detections_per_image"])
        for name, total in totals.items():
            count = columns[name]
            if len(count) != images or bool((count < 0).any()) or int(count.sum()) != total:
                refuse(name, f"must be one per image and add up to {total}", count.tolist())
        for name in ("detection_inside", _SIGN, "ground_truth_valid"):
            if bool((columns[name] > 1).any()):
                refuse(name, "must be 0 or 1", int(columns[name].max()))
        if bool(columns["detection_scores"].isnan().any()):
            refuse("detection_scores", "must hold no NaN", torch.nan)
        if not self._ordered(columns):
            raise ValueError("`detection_labels` and `detection_scores` must be in order, and no more than the limit")
        beyond = columns["detection_hit_criteria"] & ~columns["detection_match_criteria"]
        if bool(beyond.any()) or bool((columns["detection_match_criteria"] < 0).any()):
            raise ValueError("`detection_hit_criteria` must be among `detection_match_criteria`")

    def _ordered(self, columns: Columns) -> bool:
        """Whether detections are in order of image, class and score, and within the limit."""
        labels, scores = columns["detection_labels"], columns["detection_scores"]
        if not len(labels):
            return True
        later, step = image_of(columns["detections_per_image"]).diff() > 0, labels.diff() * (not self.micro)
        new = later | (step != 0)
        ordered = (later | (step >= 0)) & (new | (scores[1:] <= scores[:-1]))
        if self.limit is None:
            return bool(ordered.all())
        group = torch.nn.functional.pad(new.cumsum(0), (1, 0))
        return bool(ordered.all()) and bool((places(group) < self.limit).all())


def _flags(found: Tensor) -> Tensor:
    """(A, N) bool as a column."""
    return found.t().to(torch.uint8).contiguous()


def _others(columns: Columns, labels: Tensor, rows: Tensor, truths: Tensor) -> Columns:
    """The labels of the detections and ground truths that are not at these rows, each once per image."""
    size, images, keys = max(1, len(labels)), len(columns["detections_per_image"]), []
    for side, taken in (("detection", rows), ("ground_truth", truths)):
        place = torch.searchsorted(labels, columns[f"{side}_labels"])
        key = image_of(columns[f"{side}s_per_image"]) * size + place
        keys.append(key[torch.ones_like(key, dtype=torch.bool).index_fill_(0, taken, False)])
    each = torch.unique(torch.cat(keys))
    return {OTHERS: labels[each % size], f"{OTHERS}_per_image": segments.count(each // size, images)}


def _prefix(name: str) -> str:
    return name.rpartition("_")[0]


def matches_of(columns: Columns, criteria: Criteria, classes: tuple[Tensor, Tensor, Tensor], *, micro: bool) -> Matches:
    """The matches of all images.

    Args:
        columns: of matches.
        criteria: of these.
        classes: (K,) the labels; and for each detection and ground truth its place among them.
        micro: whether all labels are one category.
    """
    labels, *sides = classes
    detected, true = (torch.zeros_like(side) for side in sides) if micro else sides
    categories = 1 if micro else max(1, len(labels))
    group = (image_of(columns["detections_per_image"]) * categories).add_(detected)
    scores = columns["detection_scores"]
    rows = order.stable_argsort((detected << 32).add_(descending(scores)), categories << 32)
    now = torch.empty_like(rows).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
    at, pairs = now[columns[_SIGN].bool()].sort()
    return Matches(
        ranked=Ranked(rows, detected[rows], scores[rows], group[rows], arrays.tensor(places(native(group)))[rows], now),
        at=at,
        matched=columns["detection_match_criteria"][pairs].t(),
        true_positive=columns["detection_hit_criteria"][pairs].t(),
        inside=columns["detection_inside"][rows].t().bool().contiguous(),
        truth_group=image_of(columns["ground_truths_per_image"]) * categories + true,
        valid=columns["ground_truth_valid"].t().bool(),
        categories=categories,
        criteria=criteria,
        partners=None,
    )
