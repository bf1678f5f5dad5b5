"""ActivityNet's JSON files of segments of time in videos, as input of the detection metrics.

Ground truths are ``{"database": {video: {"subset": ..., "duration": ..., "annotations": [{"segment", "label"}]}}}``,
detections ``{"results": {video: [{"segment", "label", "score"}]}}``; a segment is its start and its end in seconds.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch_ap.files import entries
from torch_ap.files.box_rows import Row, VocData, packed
from torch_ap.files.entries import Entries
from torch_ap.rules.messages import nearest, shown

_LONGEST = 1e9  # seconds
_BEYOND = 2.0  # of a video's duration: where most detections end there, they count frames


def read_activitynet(
    ground_truths: str | Path, detections: str | Path, subset: str = "validation", *, allow_empty: bool = False
) -> VocData:
    """Read ActivityNet's ground truths and detections. Files are UTF-8, plain or gzip.

    Args:
        ground_truths: JSON with ``database``.
        detections: JSON with ``results``.
        subset: which of the videos count; those of the others are left out of the ground truths.
        allow_empty: whether there may be no detections.

    Returns:
        ``intervals`` (N, 2), start and end in seconds, for ``iou_type="intervals"``; one image per video.

    Raises:
        ValueError: for files of another form, an unknown subset, video or class, a segment that ends before it starts,
            and detections that seem to be in fractions of the video or in frames; the message names file and entry.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.files.activitynet import read_activitynet
        >>> from torch_ap.functional.detection import voc_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> one = {"segment": [2, 10], "label": "Surfing"}
        >>> truth = {"database": {"v": {"subset": "validation", "duration": 20, "annotations": [one]}}}
        >>> _ = (folder / "truth.json").write_text(json.dumps(truth))
        >>> _ = (folder / "found.json").write_text(json.dumps({"results": {"v": [{**one, "score": 0.9}]}}))
        >>> data = read_activitynet(folder / "truth.json", folder / "found.json")
        >>> voc_mean_average_precision(data.preds, data.target, iou_type="intervals")["map"]
        tensor(1., dtype=torch.float64)
    """
    database = _part(ground_truths, "database")
    subsets = {video: _subset(entry, f"{ground_truths}: database[{shown(video)}]") for video, entry in database.items()}
    videos = sorted(video for video, name in subsets.items() if name == subset)
    if not videos:
        known = sorted(set(subsets.values()))
        raise ValueError(f"{ground_truths}: no video is of the subset {shown(subset)}; there are {shown(known)}")
    places = {video: f"{ground_truths}: database[{shown(video)}].annotations" for video in videos}
    truths = [row for x, where in places.items() for row in _rows(x, database[x].get("annotations"), where, None)]
    classes = sorted({row.name for row in truths})
    found = list(_detections(detections, subsets, subset, classes))
    if not found and not allow_empty:
        raise ValueError(f"{detections}: holds no detections (--allow-empty lets it pass)")
    _refuse_other_units(found, {video: database[video].get("duration") for video in videos}, detections)
    return packed(truths, found, videos, classes, {}, key="intervals")


def _part(path: str | Path, key: str) -> dict[str, Any]:
    loaded = entries.load(path)
    if not isinstance(loaded, dict) or not isinstance(loaded.get(key), dict):
        other = {"database": "results", "results": "database"}[key]
        swapped = isinstance(loaded, dict) and other in loaded
        also = f", but has '{other}': are the two files swapped?" if swapped else f", got {shown(loaded)}"
        raise ValueError(f"{path}: must be a JSON object with the object '{key}'{also}")
    found: dict[str, Any] = loaded[key]
    return found


def _subset(entry: Any, where: str) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("subset"), str):
        raise ValueError(f"{where}: must be an object with 'subset', got {shown(entry)}")
    return str(entry["subset"])


def _rows(video: str, listed: Any, where: str, classes: list[str] | None) -> Iterator[Row]:
    """The segments of one video; ``classes`` are those that detections may have."""
    if not isinstance(listed, list):
        raise ValueError(f"{where}: must be a list of objects with 'segment' and 'label', got {shown(listed)}")
    each = Entries.of(listed, where)
    names, segments = each.each("label", entries.text), each.each("segment", _segment)
    scores = [0.0] * len(listed) if classes is None else each.each("score", entries.finite)
    for place, (name, segment, score) in enumerate(zip(names, segments, scores, strict=True)):
        if classes is not None and name not in classes:
            also = nearest(name, classes)
            raise ValueError(f"{where}[{place}]: no ground truth is of class {shown(name)}{also}")
        yield Row(video, name, segment, score)


def _segment(value: Any) -> list[float]:
    """Start and end."""
    if isinstance(value, list) and len(value) == 2:
        start, end = (entries.finite(x) for x in value)
        if -_LONGEST <= start <= end <= _LONGEST:
            return [start, end]
    raise ValueError(f"must hold start and end in seconds, the start first, got {shown(value)}")


def _detections(path: str | Path, subsets: Mapping[str, str], subset: str, classes: list[str]) -> Iterator[Row]:
    for video, listed in _part(path, "results").items():
        where = f"{path}: results[{shown(video)}]"
        if subsets.get(video) != subset:
            known = video in subsets
            also = f"it is of the subset {shown(subsets[video])}" if known else f"no such video{_meant(video, subsets)}"
            raise ValueError(f"{where}: must be a video of the subset {shown(subset)}; {also}")
        yield from _rows(video, listed, where, classes)


def _meant(video: str, videos: Mapping[str, str]) -> str:
    """The name without the letters that ActivityNet's files of videos begin with, else the nearest one."""
    plain = video.removeprefix("v_")
    return f"; did you mean {shown(plain)}?" if plain in videos else nearest(video, videos)


def _refuse_other_units(found: list[Row], durations: Mapping[str, Any], path: str | Path) -> None:
    """Detections in fractions of the video, or in frames, overlap nothing, or what they should not."""
    known = {video: x for video, x in durations.items() if isinstance(x, int | float) and x > _BEYOND}
    rows = [row for row in found if row.image in known]
    if not rows:
        return
    if all(row.box[1] <= 1 for row in rows):
        raise ValueError(f"{path}: all segments lie in [0, 1]; they must be in seconds, not fractions of the video")
    if 2 * sum(row.box[1] > _BEYOND * known[row.image] for row in rows) > len(rows):
        raise ValueError(f"{path}: most segments end far behind their videos; they must be in seconds, not frames")
