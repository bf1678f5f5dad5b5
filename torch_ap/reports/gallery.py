"""Gallery of a detector: the worst images, the costliest errors of each kind, and the labels that may be wrong.

Every picture is a drawing of the shapes as SVG, readable without scripts: in the colours of the page, on a thumbnail if
the images are given. A thumbnail occurs once in the page, however many pictures use it. Images without a picture have
their shapes as data, which a script draws when a reader opens their row.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base.messages import escape_unprintable
from torch_ap.core.ranking import segments
from torch_ap.detection.errors.costly import costliest_errors
from torch_ap.detection.errors.outcomes import DETECTION_KINDS, detections_of, outcomes_of
from torch_ap.detection.inputs.images import image_ids
from torch_ap.detection.metrics.diagnosis import background_of
from torch_ap.detection.shapes import boxes, rotated
from torch_ap.reports.content import DASH, Cell, Section, Table, Widget, shortened
from torch_ap.reports.html_page import json_text
from torch_ap.reports.labels import CHANGE, LABELS, MAX_LABELS, labels_text
from torch_ap.reports.thumbnails import Thumbnails

_WORST_IMAGES, _ERRORS_OF_A_KIND = 50, 20
_MAX_SHAPES = 25  # of each side in a picture
_POINTS_OF_COCO = 17
_SIDE = 320  # units of the longer side of a picture
_LISTED = 4  # classes in a caption
_MAX_COLUMNS = 120  # of a mask
_MOST_BYTES = 700_000  # of the shapes of images without a picture
_NOTE = 1_000  # bytes for the sentence and the tags
_DIGITS = 10  # numbers of these shapes are tenths of a unit
_DRAWN = {  # column by `iou_type`
    **dict.fromkeys(("bbox", "rotated"), "boxes"),
    **dict.fromkeys(("segm", "boundary"), "mask_edges"),
    "keypoints": "keypoints",
}
_LIMBS = (  # of the 17 keypoints of COCO
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8),
    (7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
)  # fmt: skip
_TITLES = {
    "classification": "Right place, wrong class",
    "localization": "Right class, IoU too low",
    "both": "Wrong class, and IoU too low",
    "duplicate": "Object already found by a better detection",
    "background": "No object there",
    "missed": "Missed objects",
}
_LEGEND = (
    '<p class="legend"><span class="truth">found object</span> <span class="missed">missed object</span> '
    '<span class="right">true positive</span> <span class="wrong">false positive</span></p>'
)


def gallery_sections(metric: Any, options: Any, rows: Sequence[int]) -> list[Section]:
    """Return the sections with pictures of the images; none for shapes that have no place in an image.

    Args:
        metric: metric of the detector.
        options: arguments of the report.
        rows: positions of the images in the rows of the table of images.
    """
    kind = metric._settings.iou_types[0]
    if kind not in _DRAWN or metric._settings.own_iou is not None:
        return []
    gallery = _Gallery(metric, options)
    if not options.has_pictures:
        text, _, table = gallery.label_rows()
        return [Section(LABELS, [text, table])] if table.rows else []
    parts = [*gallery.worst_images(), *gallery.differences(), *gallery.errors(), *gallery.labels()]
    note = gallery.thumbnails.note()
    style = [Widget("gallery", None, html=_LEGEND, fill=partial(gallery.further, rows))]
    text = (
        f"At IoU {gallery.at.iou_threshold:g}. A picture shows at most {_MAX_SHAPES} objects, and the {_MAX_SHAPES} "
        "best detections of those that have at least the score of the best F1 of their class."
    )
    return [Section("Images and errors", [text, *([note] if note else []), *style, *parts])]


@dataclass(frozen=True)
class _Shot:
    """One picture.

    Attributes:
        image: position of the image.
        caption: text below the picture.
        detection: row of the detection to emphasize; -1 for none.
        truth: row of the ground truth to emphasize; -1 for none.
    """

    image: int
    caption: str
    detection: int = -1
    truth: int = -1


class _Gallery:
    """Detections and ground truths of all images, as pictures.

    Args:
        metric: metric of the detector.
        options: arguments of the report.
    """

    def __init__(self, metric: Any, options: Any) -> None:
        self._metric, self._options = metric, options
        self.at = at = metric._matches_at(None, None, options.names)
        self.outcomes = outcomes_of(at, background_of(at, None))
        columns, ranked = at.columns, at.matches.ranked
        size = len(columns["detections_per_image"])
        table = detections_of(self.outcomes, torch.arange(size, device=at.labels.device))
        self._first = [segments.from_counts(columns[f"{x}s_per_image"]).tolist() for x in ("detection", "ground_truth")]
        self._image_of = [image_ids(columns[f"{x}s_per_image"]) for x in ("detection", "ground_truth")]
        self._kind, self._iou = table["kind"].tolist(), table["iou"].tolist()
        self._partner = table["ground_truth"].tolist()  # row in the image
        self._score = segments.as_float64(table["score"]).tolist()
        self._class_names = [shortened(x) for x in at.names]
        place = {label: place for place, label in enumerate(at.labels.tolist())}
        self._class_of = [
            [place[x] for x in columns[f"{side}_labels"].tolist()] for side in ("detection", "ground_truth")
        ]
        self._names = [[self._class_names[x] for x in places] for places in self._class_of]
        self._is_found = self.outcomes.detected.tolist()
        self._counts = self.outcomes.valid.tolist()
        least = metric.operating_points(class_names=options.names).threshold
        category = torch.full_like(columns["detection_labels"], -1)
        category[ranked.rows] = ranked.category
        score = segments.comparable(columns["detection_scores"])
        self._is_confident = (
            ((category >= 0) & (score >= least.to(score)[category.clamp(min=0)])).tolist() if len(category) else []
        )
        self._shapes = _Shapes(at)
        names = options.image_names or map(str, metric._image_ids(columns).tolist())
        self._image_names = [shortened(x) for x in names]
        self.thumbnails = Thumbnails(options.images or {})
        self._pictured: set[int] = set()

    # -- sections

    def worst_images(self) -> Iterator[Any]:
        """Yield the images with the lowest AP; of equal ones, those with most errors first."""
        table = self._metric.per_image()
        errors = table["fp"] + table["missed"]
        has_truths = ~table["ap"].isnan()
        rows = has_truths.nonzero().squeeze(1)
        rows = rows[errors[rows].argsort(descending=True, stable=True)]
        rows = rows[table["ap"][rows].argsort(stable=True)][:_WORST_IMAGES]
        shots = [
            _Shot(
                k,
                f"AP {float(table['ap'][k]):.3f}: {int(table['tp'][k])} found, {int(table['missed'][k])} missed, "
                f"{_count(int(table['fp'][k]), 'false positive')}",
            )
            for k in rows.tolist()
        ]
        total = int(has_truths.sum())
        text = f"The {len(shots)} images with the lowest AP of {total:,} images with objects. Counts are for any score."
        yield from self._part("Worst images", text, shots, is_open=True)

    def errors(self) -> Iterator[Any]:
        """Yield the costliest errors of each kind."""
        for kind, found in costliest_errors(self.outcomes, _ERRORS_OF_A_KIND).items():
            shots = []
            for row, cost in zip(found.row.tolist(), found.cost.tolist(), strict=True):
                side, costs = kind == "missed", "" if cost != cost else f"; costs {cost:.4f}"
                image = int(self._image_of[side][row])
                if side:
                    shots.append(_Shot(image, f"{self._truth_text(row)}{costs}", truth=row))
                else:
                    truth = self._partner[row]
                    other = -1 if truth < 0 else self._first[1][image] + truth
                    shots.append(_Shot(image, f"{self._detection_text(row, image)}{costs}", row, other))
            text = (
                f"The {len(shots)} costliest of {found.total:,}: the cost is the gain in AP without this one "
                f"{'object' if kind == 'missed' else 'detection'}."
            )
            yield from self._part(f"{_TITLES[kind]} ({kind})", text, shots, key=f"kind-{kind}")

    def differences(self) -> Iterator[Widget]:
        """Yield the objects that only one of two systems finds, image by image, the images with most of them first."""
        if self._options.other is None:
            return
        other = self._options.other._matches_at(None, None, self._options.names)
        there = outcomes_of(other, background_of(other, None)).detected
        for (winner, loser), found in zip(
            (self._options.systems, self._options.systems[::-1]),
            (self.outcomes.detected & ~there, there & ~self.outcomes.detected),
            strict=True,
        ):
            rows = (found & self.outcomes.valid).nonzero().squeeze(1)
            per_image: dict[int, list[int]] = {}
            for row, image in zip(rows.tolist(), self._image_of[1][rows].tolist(), strict=True):
                per_image.setdefault(image, []).append(row)
            images = sorted(per_image, key=lambda image: -len(per_image[image]))[:_ERRORS_OF_A_KIND]
            shots = []
            for image in images:
                names = Counter(self._names[1][row] for row in per_image[image])
                listed = ", ".join(f"{count} {name}" for name, count in names.most_common(_LISTED))
                more = ", ..." if len(names) > _LISTED else ""
                shots.append(_Shot(image, f"only {shortened(winner)} finds {listed}{more}", truth=per_image[image][0]))
            text = (
                f"{_count(len(rows), 'object')} in {_count(len(per_image), 'image')}, at any score; the "
                f"{_count(len(shots), 'image')} with most of them, with the detections of {self._options.systems[0]}."
            )
            yield from self._part(f"Found by {winner}, missed by {loser}", text, shots)

    def labels(self) -> Iterator[Any]:
        """Yield the suspicious labels."""
        text, shots, table = self.label_rows()
        yield from self._part(LABELS, text, shots)
        yield from [table] if table.rows else []

    def label_rows(self) -> tuple[str, list[_Shot], Table]:
        """Return the numbers of suspicious labels as text, and the first ones as pictures and as a table."""
        head = ["image", "kind", "class", "change", "score", "IoU", "box of the detection"]
        if getattr(self.at.settings, "ap_fixed", False):  # its limit depends on all images
            return "", [], Table(head, [])
        options = self._options
        others = [*options.every.values()][1:] or ([] if options.other is None else [options.other])
        labels = self._metric.suspicious_labels(others, limit=MAX_LABELS, class_names=options.names)
        position = {x: k for k, x in enumerate(self._metric._image_ids(self.at.columns).tolist())}
        shots, rows = [], list[list[Cell]]()
        for row in labels.rows():
            image = position[row["image"]]
            truth, detection = (
                -1 if row[x] < 0 else self._first[side][image] + row[x]
                for side, x in ((1, "ground_truth"), (0, "detection"))
            )
            names = [shortened(x) for x in (row["class"], row["detected_class"]) if x is not None]
            caption = f"{row['kind']}: {' → '.join(names)}; {row['change']:+.4f}"
            shots.append(_Shot(image, caption, detection, truth))
            box = DASH if row["box"] is None else " ".join(f"{x:.6g}" for x in row["box"])
            numbers = row["change"], row["score"], row["iou"]
            rows.append([self._image_names[image], row["kind"], " → ".join(names), *numbers, box])
        return (
            labels_text(labels.counts, len(shots), options.one_of_several),
            shots,
            Table(head, rows, CHANGE, sortable=True),
        )

    def _part(
        self,
        title: str,
        text: str,
        shots: Sequence[_Shot],
        *,
        is_open: bool = False,
        key: str = "",
    ) -> Iterator[Widget]:
        pictures = "".join(map(self._picture, shots))
        if not shots:
            return
        html = (
            f'<details class="gallery" data-shows="{key}"{" open" * is_open}><summary>{escape(title)}</summary>'
            f'<p>{escape(text)}</p><div class="shots">{pictures}</div></details>'
        )
        yield Widget("gallery", None, html=html)

    def further(self, rows: Sequence[int], budget: int) -> str:
        """Return the shapes of further images as data, and the thumbnails.

        Args:
            rows: positions of the images whose rows open a picture, the most important first.
            budget: the largest number of bytes of both.
        """
        images = [x for x in rows if x not in self._pictured]
        names = json_text({"names": self._class_names, "kinds": DETECTION_KINDS})[1:-1]
        found, used = dict[int, str](), len(names.encode()) + _NOTE
        limit = min(_MOST_BYTES, budget // 2 if self._options.images else budget)
        for image in images:
            text = f'"{image}":{json_text(self._data(image))}'
            size = len(text.encode()) + 1
            if used + size > limit:
                break
            found[image], used = text, used + size
        thumbnails = self.thumbnails.definitions(budget - used)
        if not found:
            return thumbnails
        note = (
            f"The shapes of {len(found):,} of {len(images):,} further images of the table are on this page, in "
            "the order of its rows; a row opens its drawing."
        )
        each = ",".join(found.values())
        data = f'<script type="application/json" id="drawings">{{{names},"images":{{{each}}}}}</script>'
        return f'<p class="source">{note}</p>{data}{thumbnails}'

    # -- one picture

    def _data(self, image: int) -> list[Any]:
        """Return an image for `static/gallery.js`: name, width, height, width of lines, objects, detections.

        An object is class, verdict and shape, a detection class, score, kind, IoU, class of the object and shape. The
        last entry is the number of objects and of detections that are not drawn.
        """
        rows = self._shown(_Shot(image, ""))
        width, height, scale = self._frame(None, image, *rows)
        truths, detections = ([*self._shapes.data(side, x, scale)] for side, x in zip((1, 0), rows, strict=True))
        objects = [
            [self._class_of[1][row], 0 if self._is_found[row] else 1 if self._counts[row] else 2, shape]
            for row, shape in zip(rows[0], truths, strict=True)
        ]
        found = []
        for row, shape in zip(rows[1], detections, strict=True):
            partner = self._partner[row]
            owner = -1 if partner < 0 else self._class_of[1][self._first[1][image] + partner]
            score, iou = float(f"{self._score[row]:.3g}"), round(self._iou[row], 2)
            found.append([self._class_of[0][row], score, self._kind[row], iou, owner, shape])
        return [
            self._image_names[image], width, height, self._shapes.line_width(image, scale), objects, found,
            [end - first - len(x) for (first, end), x in zip(self._ranges(image)[::-1], rows, strict=True)],
        ]  # fmt: skip

    def _picture(self, shot: _Shot) -> str:
        image = shot.image
        self._pictured.add(image)
        truths, detections = self._shown(shot)
        width, height, scale = self._frame(self.thumbnails.size(image), image, truths, detections)
        thumbnail = self.thumbnails.reference(image, width, height)
        name = _text(f"image {self._image_names[image]}")
        lines = []
        drawn = [f'<rect class="canvas" width="{width:g}" height="{height:g}"/>{thumbnail}']
        for side, rows in ((1, truths), (0, detections)):
            for row in rows:
                described = self._truth_text(row) if side else self._detection_text(row, image)
                kinds = self._classes(side, row, shot)
                short = self._names[side][row] + ("" if side else f" {self._score[row]:.2g}")
                drawn.append(self._shapes.draw(side, row, scale, kinds, _text(described), _text(short)))
                lines.append(f"<li>{_text(described)}</li>")
        hidden = [
            end - first - len(rows)
            for (first, end), rows in zip(self._ranges(image), (detections, truths), strict=True)
        ]
        if any(hidden):
            lines.append(f"<li>not drawn: {_count(hidden[1], 'object')}, {_count(hidden[0], 'detection')}</li>")
        return (
            f'<figure class="shot"><svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{name}" '
            f'data-shows="image-{image}">'
            f"{''.join(drawn)}</svg><figcaption><b>{name}</b> {_text(shot.caption)}<details><summary>"
            f"{_count(len(truths), 'object')}, {_count(len(detections), 'detection')}</summary>"
            f"<ul>{''.join(lines)}</ul></details>"
            "</figcaption></figure>"
        )

    def _ranges(self, image: int) -> list[tuple[int, int]]:
        return [(first[image], first[image + 1]) for first in self._first]

    def _shown(self, shot: _Shot) -> tuple[list[int], list[int]]:
        """Return the rows of the drawn ground truths and detections; the emphasized ones are the last."""
        (low, high), (first, end) = self._ranges(shot.image)
        detections = [x for x in range(low, high) if self._is_confident[x] and x != shot.detection]
        detections = sorted(detections, key=lambda x: -self._score[x])[: _MAX_SHAPES - 1][::-1]
        truths = [x for x in range(first, end) if x != shot.truth][: _MAX_SHAPES - 1]
        return (truths + [shot.truth] * (shot.truth >= 0), detections + [shot.detection] * (shot.detection >= 0))

    def _frame(
        self, size: tuple[float, float] | None, image: int, truths: Sequence[int], detections: Sequence[int]
    ) -> tuple[float, float, float]:
        """Return width and height of the picture, and its units per pixel, for an image of this size if it is known."""
        size = size or self._shapes.size(image)
        if size is None:
            ends = [self._shapes.corner(side, x) for side, x in ((1, truths), (0, detections)) if x]
            size = max((x for x, _ in ends), default=1.0), max((y for _, y in ends), default=1.0)
        width, height = (max(1e-6, x) for x in size)
        scale = _SIDE / max(width, height)
        return round(max(width * scale, 20), 1), round(max(height * scale, 20), 1), scale

    def _classes(self, side: int, row: int, shot: _Shot) -> str:
        if side:
            kind = "found" if self._is_found[row] or not self._counts[row] else "missed"
        else:
            kind = ("right", *["wrong"] * 5, "ignored")[self._kind[row]]
        return (
            f"{'truth' if side else 'detection'} {kind}{' chosen' * (row == (shot.truth if side else shot.detection))}"
        )

    def _truth_text(self, row: int) -> str:
        verdict = "found" if self._is_found[row] else "missed" if self._counts[row] else "ignored"
        return f"object {self._names[1][row]}: {verdict}"

    def _detection_text(self, row: int, image: int) -> str:
        partner, about = self._partner[row], ""
        if partner >= 0:
            about = f", IoU {self._iou[row]:.2f} with {self._names[1][self._first[1][image] + partner]}"
        return f"{self._names[0][row]} {self._score[row]:.3g}{about}: {DETECTION_KINDS[self._kind[row]]}"


class _Shapes:
    """The shapes of both sides, to draw."""

    def __init__(self, at: Any) -> None:
        self._columns, self._settings = at.columns, at.settings
        self._is_mask = _DRAWN[at.iou_type] == "mask_edges"
        self._has_points, self._is_rotated = at.iou_type == "keypoints", at.iou_type == "rotated"
        self._points: list[Tensor] = []
        self._edges: list[tuple[Tensor, list[int]]] = []
        for side in ("detection", "ground_truth"):
            if self._is_mask:
                edges = segments.from_counts(at.columns[f"{side}_edges_per_mask"])
                self._edges.append((at.columns[f"{side}_mask_edges"], edges.tolist()))
            elif at.iou_type == "keypoints":
                points = segments.as_float64(at.columns[f"{side}_keypoints"]).cpu()
                is_labelled = points[..., 2] > 0 if side == "ground_truth" else torch.ones_like(points[..., 2]) > 0
                self._points.append(points[..., :2].where(is_labelled[..., None], torch.nan))
            elif at.iou_type == "rotated":
                self._points.append(rotated.corners(at.columns[f"{side}_boxes"], at.settings.box_format).cpu())
            else:
                x1, y1, x2, y2 = segments.as_float64(
                    boxes.to_xyxy(at.columns[f"{side}_boxes"], at.settings.box_format)
                ).unbind(1)
                self._points.append(torch.stack([x1, y1, x2, y1, x2, y2, x1, y2], 1).view(-1, 4, 2).cpu())
        self._images = [image_ids(at.columns[f"{x}s_per_image"]).tolist() for x in ("detection", "ground_truth")]

    def size(self, image: int) -> tuple[float, float] | None:
        """Return width and height of an image with masks, in pixels; None if unknown."""
        if not self._is_mask:
            return None
        height, width = self._columns["image_sizes"][image].tolist()
        return width, height

    def corner(self, side: int, rows: Sequence[int]) -> tuple[float, float]:
        """Return the lower right corner of shapes without masks."""
        x, y = self._points[side][list(rows)].nan_to_num(0.0).amax((0, 1)).tolist()
        return x, y

    def draw(self, side: int, row: int, scale: float, kinds: str, described: str, short: str) -> str:
        """Return a shape with its texts, which are escaped."""
        if self._is_mask:
            path, x, y = self._mask_path(side, row, scale)
        else:
            points = [[round(v, 1) for v in point] for point in (self._points[side][row] * scale).tolist()]
            path = self._pose(points) if self._has_points else f"M{'L'.join(f'{a:g} {b:g}' for a, b in points)}Z"
            x, y = min((point for point in points if point[0] == point[0]), key=lambda x: x[::-1], default=(0.0, 0.0))
        y = y - 3 if not side else y + 9  # names of objects inside, of detections above
        label = f'<text x="{max(1.0, x + 2):g}" y="{max(9.0, y):g}">{short}</text>'
        width = self.line_width(self._images[side][row], scale)
        stroke = f' class="mask" style="stroke-width:{width:g}"' if width else ""
        return f'<g class="{kinds}"><title>{described}</title><path d="{path}"{stroke}/>{label}</g>'

    @staticmethod
    def _pose(points: Sequence[Sequence[float]]) -> str:
        """Return labelled keypoints as squares, and COCO's 17 with the limbs between them."""
        is_known = [point[0] == point[0] for point in points]
        limbs = [(a, b) for a, b in _LIMBS if is_known[a] and is_known[b]] if len(points) == _POINTS_OF_COCO else []
        lines = (f"M{points[a][0]:g} {points[a][1]:g}L{points[b][0]:g} {points[b][1]:g}" for a, b in limbs)
        marks = (f"M{x - 2:g} {y - 2:g}h4v4h-4z" for x, y in compress(points, is_known))
        return "".join((*lines, *marks))

    def data(self, side: int, rows: Sequence[int], scale: float) -> Iterator[list[int] | str]:
        """Yield shapes as ends of a box, as corners of a polygon, or as a path; numbers are tenths."""
        if self._is_mask:
            yield from (self._mask_path(side, row, scale)[0] for row in rows)
            return
        points = self._points[side][list(rows)] * scale
        if self._has_points:
            yield from (self._pose([[round(v, 1) for v in x] for x in pose]) for pose in points.tolist())
            return
        corners = points if self._is_rotated else points[:, ::2]
        yield from (corners * _DIGITS).round().long().flatten(1).tolist()

    def line_width(self, image: int, scale: float) -> float:
        """Return the width of the lines of a mask; 0 for shapes with an outline."""
        return float(f"{max(0.5, self._step(image) * scale):.3g}") if self._is_mask else 0.0

    def _step(self, image: int) -> int:
        return max(1, -(-int(self._columns["image_sizes"][image].max()) // _MAX_COLUMNS))

    def _mask_path(self, side: int, row: int, scale: float) -> tuple[str, float, float]:
        """Return the runs of some columns of a mask as vertical lines, and its upper left corner."""
        edges, offsets = self._edges[side]
        image = self._images[side][row]
        height, step = int(self._columns["image_sizes"][image][0]), self._step(image)
        runs = edges[offsets[row] : offsets[row + 1]].long().view(-1, 2).tolist()
        lines, left, top = [], None, float(height)
        for first, end in runs:
            for column in range(first // height, (end - 1) // height + 1):
                low, high = (
                    max(first, column * height) - column * height,
                    min(end, (column + 1) * height) - column * height,
                )
                left, top = column if left is None else left, min(top, low)
                if column % step == 0:
                    lines.append(f"M{(column + step / 2) * scale:.4g} {low * scale:.4g}v{(high - low) * scale:.3g}")
        return "".join(lines), (left or 0) * scale, top * scale


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _text(text: str) -> str:
    return escape(escape_unprintable(text))
