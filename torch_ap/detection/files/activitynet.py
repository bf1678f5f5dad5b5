"""ActivityNet's JSON files of segments of time in videos, as input of the detection metrics.

Ground truths are ``{"database": {video: {"subset": ..., "duration": ..., "annotations": [{"segment", "label"}]}}}``,
detections ``{"results": {video: [{"segment", "label", "score"}]}}``; a segment is its start and its end in seconds.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_ap.core.base.messages import short_repr, suggest_name
from torch_ap.detection.files import entries
from torch_ap.detection.files.entries import Entries, require
from torch_ap.detection.files.voc import Row, VocData, pack_rows

_LONGEST = 1e9  # seconds
_BEYOND = 2.0  # durations; if most detections end later, their unit is frames


def read_activitynet(
    ground_truths: Any, detections: Any, subset: str = "validation", *, allow_empty: bool = False
) -> VocData:
    """Read ActivityNet's ground truths and detections. Files are UTF-8, plain or gzip.

    Args:
        ground_truths: path of JSON with ``database``, or its content as a dict.
        detections: path of JSON with ``results``, or its content as a dict.
        subset: the subset of the videos to evaluate. Videos of other subsets are left out of the ground truths.
        allow_empty: whether there may be no detections.

    Returns:
        ``intervals`` (N, 2), start and end in seconds, for ``iou_type="intervals"``; one image per video.

    Raises:
        ValueError: for files of another form, an unknown subset, video or class, a segment that ends before it starts,
            and detections that seem to be in fractions of the video or in frames; the message names file and entry.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.detection.files.activitynet import read_activitynet
        >>> from torch_ap.detection.functions import voc_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> one = {"segment": [2, 10], "label": "Surfing"}
        >>> truth = {"database": {"v": {"subset": "validation", "duration": 20, "annotations": [one]}}}
        >>> _ = (folder / "truth.json").write_text(json.dumps(truth))
        >>> _ = (folder / "found.json").write_text(json.dumps({"results": {"v": [{**one, "score": 0.9}]}}))
        >>> data = read_activitynet(folder / "truth.json", folder / "found.json")
        >>> voc_mean_average_precision(data.preds, data.target, iou_type="intervals")["map"]
        tensor(1., dtype=torch.float64)
    """
    ground_truths, database = _load_part(ground_truths, "ground_truths", "database")
    detections, results = _load_part(detections, "detections", "results")
    subsets: dict[str, Any] = {}
    for video, entry in database.items():
        where = f"{ground_truths}: database[{short_repr(video)}]"
        subsets[video] = entry.get("subset") if isinstance(entry, dict) else None
        require(isinstance(subsets[video], str), f"{where}: must be an object with 'subset'", entry)
    videos = sorted(video for video, name in subsets.items() if name == subset)
    if not videos:
        known = sorted(set(subsets.values()))
        fault = f"no video is of the subset {short_repr(subset)}; there are {short_repr(known)}"
        raise ValueError(f"{ground_truths}: {fault}")
    truths = []
    for video in videos:
        where = f"{ground_truths}: database[{short_repr(video)}].annotations"
        truths += _rows(video, database[video].get("annotations"), where, None)
    classes, rows = sorted({row.name for row in truths}), []
    for video, listed in results.items():
        where = f"{detections}: results[{short_repr(video)}]"
        if subsets.get(video) != subset:
            plain = video.removeprefix("v_")  # the prefix of ActivityNet's video files
            suggestion = f"; did you mean {short_repr(plain)}?" if plain in subsets else suggest_name(video, subsets)
            also = f"no such video{suggestion}"
            if video in subsets:
                also = f"it is of the subset {short_repr(subsets[video])}"
            raise ValueError(f"{where}: must be a video of the subset {short_repr(subset)}; {also}")
        rows += _rows(video, listed, where, classes)
    if not rows and not allow_empty:
        raise ValueError(f"{detections}: contains no detections (--allow-empty lets it pass)")
    _check_units(rows, {video: database[video].get("duration") for video in videos}, detections)
    return pack_rows(truths, rows, videos, classes, {}, key="intervals")


def _load_part(source: Any, argument: str, key: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a source in messages, and its object for a key."""
    path, loaded = entries.named_content(source, argument)
    content = loaded.get(key) if isinstance(loaded, dict) else None
    if not isinstance(content, dict):
        other = next(iter({"database", "results"} - {key}))
        swapped = isinstance(loaded, dict) and other in loaded
        also = f", but has '{other}': are the two files swapped?" if swapped else f", got {short_repr(loaded)}"
        raise ValueError(f"{path}: must be a JSON object with the object '{key}'{also}")
    return path, content


def _rows(video: str, listed: Any, where: str, classes: list[str] | None) -> list[Row]:
    """Return the segments of one video; ``classes`` are the allowed classes of detections, None for ground truths."""
    require(isinstance(listed, list), f"{where}: must be a list of objects with 'segment' and 'label'", listed)
    listed = Entries.from_list(listed, where)
    names, segments = listed.values("label"), listed.values("segment")
    scores = [0.0] * len(names) if classes is None else listed.values("score")
    for index, name in enumerate(names):
        if classes is not None and name not in classes:
            also = suggest_name(name, classes)
            raise ValueError(f"{where}[{index}]: no ground truth is of class {short_repr(name)}{also}")
    return [Row(video, *row) for row in zip(names, segments, scores, strict=True)]


def _check_units(rows: list[Row], durations: Mapping[str, Any], path: str | Path) -> None:
    """Raise ValueError for detections in fractions of the video or in frames instead of seconds."""
    known = {video: x for video, x in durations.items() if isinstance(x, int | float) and _BEYOND < x <= _LONGEST}
    rows = [row for row in rows if row.image in known]
    if rows and all(row.box[1] <= 1 for row in rows):
        raise ValueError(f"{path}: all segments are in [0, 1]; they must be in seconds, not fractions of the video")
    if rows and 2 * sum(row.box[1] > _BEYOND * known[row.image] for row in rows) > len(rows):
        raise ValueError(f"{path}: most segments end far behind their videos; they must be in seconds, not frames")
