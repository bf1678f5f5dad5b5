"""Open Images' hierarchy of classes, as input of its metric."""

from collections.abc import Mapping
from typing import Any

from torch_ap.core.base.messages import short_repr
from torch_ap.detection.files import entries

_CHILDREN = "Subcategory"


def read_hierarchy(path: Any, labels: Mapping[str, int]) -> dict[int, list[int]]:
    """Read the parents of classes.

    Args:
        path: path of JSON of a tree of objects with ``LabelName`` and, for nodes with children, ``Subcategory``, as
            ``bbox_labels_600_hierarchy.json``; plain or gzip; or its content as a dict. ``Part`` does not relate
            classes and is not read.
        labels: the label of each name to use. Nodes of other names are left out, and their children belong to the next
            node above with a label.

    Returns:
        The parents of each label with parents, for ``hierarchy`` of the metric.

    Raises:
        ValueError: for other JSON, and if no name has a label; the message names file and node.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.detection.files.open_images import read_hierarchy
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "hierarchy.json"
        >>> _ = path.write_text(json.dumps({"LabelName": "animal", "Subcategory": [{"LabelName": "dog"}]}))
        >>> read_hierarchy(path, {"animal": 0, "dog": 1})
        {1: [0]}
    """
    parents: dict[int, list[int]] = {}
    labelled_nodes = 0
    name, content = entries.named_content(path, "path")
    pending: list[tuple[Any, int | None, str]] = [(content, None, f"{name}: hierarchy")]
    while pending:
        node, above, where = pending.pop()
        if not isinstance(node, dict) or not isinstance(node.get("LabelName"), str):
            raise ValueError(f"{where}: must be an object with 'LabelName', got {short_repr(node)}")
        label = labels.get(node["LabelName"])
        labelled_nodes += label is not None
        if label is not None and above is not None and label != above and above not in parents.setdefault(label, []):
            parents[label].append(above)
        children = node.get(_CHILDREN, [])
        entries.require(isinstance(children, list), f"{where}: '{_CHILDREN}' must be a list", children)
        next_above = above if label is None else label
        pending += [(child, next_above, f"{where}.{_CHILDREN}[{index}]") for index, child in enumerate(children)]
    if not labelled_nodes:
        raise ValueError(f"{name}: none of its names has a label; `labels` has {short_repr(list(labels))}")
    return {label: sorted(above) for label, above in sorted(parents.items())}
