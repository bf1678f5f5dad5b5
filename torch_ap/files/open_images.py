"""Open Images' hierarchy of classes, as input of its metric."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_ap.files import entries
from torch_ap.rules.messages import shown

_CHILDREN = "Subcategory"


def read_hierarchy(path: str | Path, labels: Mapping[str, int]) -> dict[int, list[int]]:
    """Read the parents of classes.

    Args:
        path: JSON of a tree of objects with ``LabelName`` and, where there are children, ``Subcategory``, as
            ``bbox_labels_600_hierarchy.json``; plain or gzip. ``Part`` says nothing of classes and is not read.
        labels: the label of each name that counts; nodes of other names are left out, and what
            is below them belongs to the next above that counts.

    Returns:
        The parents of each label that has some, for ``hierarchy`` of the metric.

    Raises:
        ValueError: for what is no such JSON, and where no name is known; the message names file and node.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.files.open_images import read_hierarchy
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "hierarchy.json"
        >>> _ = path.write_text(json.dumps({"LabelName": "animal", "Subcategory": [{"LabelName": "dog"}]}))
        >>> read_hierarchy(path, {"animal": 0, "dog": 1})
        {1: [0]}
    """
    found: dict[int, list[int]] = {}
    known = 0
    pending: list[tuple[Any, int | None, str]] = [(entries.load(path), None, f"{path}: hierarchy")]
    while pending:
        node, above, where = pending.pop()
        if not isinstance(node, dict) or not isinstance(node.get("LabelName"), str):
            raise ValueError(f"{where}: must be an object with 'LabelName', got {shown(node)}")
        label = labels.get(node["LabelName"])
        known += label is not None
        if label is not None and above is not None and label != above and above not in found.setdefault(label, []):
            found[label].append(above)
        children = node.get(_CHILDREN, [])
        if not isinstance(children, list):
            raise ValueError(f"{where}: '{_CHILDREN}' must be a list, got {shown(children)}")
        next_above = above if label is None else label
        pending += [(one, next_above, f"{where}.{_CHILDREN}[{place}]") for place, one in enumerate(children)]
    if not known:
        raise ValueError(f"{path}: none of its names has a label; `labels` has {shown(list(labels))}")
    return {label: sorted(above) for label, above in sorted(found.items())}
