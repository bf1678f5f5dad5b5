"""The tables of the pages: the command that measures each table, and the code whose changes make it old."""

from typing import NamedTuple

_SORTS = ("torch_ap/core/ranking", "torch_ap/core/measures/average_precision.py", "torch_ap/core/base/arrays.py")
_ITEMS = (
    *_SORTS,
    "torch_ap/core/items",
    "torch_ap/classification",
    "torch_ap/core/metric",
    ":!torch_ap/classification/item_sample.py",  # intervals and comparisons, in no table of these
)
_QUERIES = (
    *_SORTS,
    "torch_ap/core/metric",
    "torch_ap/retrieval/embeddings.py",
    "torch_ap/retrieval/functions.py",
    "torch_ap/retrieval/inputs.py",
    "torch_ap/retrieval/measures",
    "torch_ap/retrieval/metrics",
    "torch_ap/retrieval/rankings.py",
    "torch_ap/retrieval/settings.py",
)
_STEPS = (*_ITEMS, "torch_ap/retrieval/inputs.py", "torch_ap/retrieval/metrics/state.py")
_COMMANDS = ("torch_ap/cli", "torch_ap/functional.py", "torch_ap/core/columns")
_IMAGES = (
    "torch_ap/detection/inputs",
    "torch_ap/detection/matching",
    "torch_ap/detection/metrics",
    "torch_ap/detection/shapes",
)
_COCO = (*_IMAGES, ":!torch_ap/detection/metrics/diagnosis.py")  # which the tables of errors and pages run
_DETECTION = ("detection", "--threads", "1", "--parts")


class Table(NamedTuple):
    """A table of a page.

    Attributes:
        name: its name in the markers of the page.
        words: the module of the benchmark and its options.
        title: the title above the table in the output.
        code: files and folders whose changes make its rows old; ":!" excludes one.
        page: the page.
    """

    name: str
    words: tuple[str, ...]
    title: str
    code: tuple[str, ...]
    page: str = "docs/speed.md"


TABLES = (
    Table("start", ("start", "--rounds", "2"), "Start", _COMMANDS),
    Table("dense", ("waits", "--only", "dense"), "Dense labels", _ITEMS),
    Table("few-items", ("waits", "--only", "few"), "Few items, and many updates", (*_ITEMS, "torch_ap/curves")),
    Table("steps", ("waits", "--only", "steps"), "Steps of a training loop", _STEPS),
    Table("short-queries", ("waits", "--only", "queries"), "Queries of one item", _QUERIES),
    Table("compute", ("one_ranking",), "One ranking: compute from the state of the metric", _ITEMS),
    Table("columns", ("one_ranking",), "50,000 items, one ranking per column", _ITEMS),
    Table("updates", ("one_ranking",), "One update", _ITEMS),
    Table("forward", ("one_ranking",), "500 steps of forward, batches of 4,096", _ITEMS),
    Table("functions", ("small_inputs",), "Functions", _ITEMS),
    Table("metrics", ("small_inputs",), "Metrics of classification", _ITEMS),
    Table("one-query", ("small_inputs",), "One query", _QUERIES),
    Table("one-query-tied", ("small_inputs",), "One query, tied", _QUERIES),
    Table("many-queries", ("many_rankings", "--only", "map"), "MAP of many queries", _QUERIES),
    Table(
        "dicts",
        ("many_rankings", "--only", "evaluate"),
        "Nested dicts, 5 measures",
        (*_QUERIES, "torch_ap/retrieval/runs"),
        "docs/evaluate.md",
    ),
    Table("embeddings", ("embeddings",), "Embeddings of 128 dimensions: processor time", _QUERIES),
    Table("boxes", (*_DETECTION, "boxes"), "From images in memory to the numbers", _COCO),
    Table("crowded", (*_DETECTION, "density"), "From images in memory to the numbers", _COCO),
    Table("lvis", (*_DETECTION, "lvis"), "LVIS of 1,203 classes", (*_COCO, "torch_ap/detection/rules/lvis.py")),
    Table("errors", (*_DETECTION, "errors"), "Errors of images in memory", (*_IMAGES, "torch_ap/detection/errors")),
    Table("few-boxes", (*_DETECTION, "few"), "Few boxes: updates and compute", _COCO),
    Table("weak", (*_DETECTION, "weak"), "The first `compute` of weak detectors", _COCO),
    Table("report", ("report",), "A page of a detector", (*_IMAGES, "torch_ap/reports", "torch_ap/plot")),
    Table(
        "intervals", ("inference",), "Interval of one ranking, as a multiple of its AP", (*_SORTS, "torch_ap/inference")
    ),
)
