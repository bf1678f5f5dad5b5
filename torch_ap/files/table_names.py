"""The words of tables and of the measures of their columns. This module does not import torch, so that help appears at
once.
"""

from torch_ap.files.trec_names import GAINS

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))

INTERPOLATED = ("11-point", "11-point-arange", "40-point", "101-point", "nuscenes", "all-points", "trapezoid")
AT_RANK = ("ap", "P", "R", "F", "recip_rank", "success", *GAINS)
OF_GROUPS = ("recip_rank", "success", *GAINS)  # of one ranking they say next to nothing
PLAIN = ("ap", "Rprec", "recip_rank", *GAINS, *INTERPOLATED)
KNOWN = (*PLAIN, *(f"{name}@k" for name in AT_RANK))
