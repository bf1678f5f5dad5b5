"""What the names of measures mean, in words."""

from torch_ap.curve import words
from torch_ap.files import report
from torch_ap.files.trec_names import TREC_CONVENTIONS
from torch_ap.runtime import cached

_OTHERS = {
    "num_q": "The number of queries.",
    "num_ret": "The number of documents that were retrieved, of all queries.",
    "num_rel": "The number of relevant documents, retrieved or not, of all queries.",
    "num_rel_ret": "The number of relevant documents that were retrieved, of all queries.",
    "bpref": "The mean over queries of bpref: the mean, over all R relevant documents, of 1 - n / min(R, N), or 0 for "
    "what was not retrieved, where n of the N documents that were judged to be not relevant, at most R, stand above; "
    "as in trec_eval.",
    "infAP": "The mean over queries of inferred average precision, where only a sample was judged; as in trec_eval.",
}


@cached.settings_cache
def meaning(name: str, ties: str, denominator: str) -> str:
    """What a measure is, with every choice that changes it; a name of :mod:`torch_ap.files.report`."""
    if name in _OTHERS:
        return _OTHERS[name]
    order = ties if ties in TREC_CONVENTIONS else None
    return words.of_queries(report.formula(name, ties, denominator), "gm" if name == "gm_map" else "mean", order)
