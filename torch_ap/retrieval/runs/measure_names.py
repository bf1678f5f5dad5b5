"""Names in TREC files and of measures of runs. This module does not import torch, so that help is fast."""

from torch_ap.core.measures.names import MEASURES

QRELS_FORM = "query iteration document relevance"
RUN_FORM = "query Q0 document rank score tag"

PARQUET = (".parquet", ".pq")
COLUMNS = {  # content of table columns: usual names
    "query": ("query", "query_id", "qid", "q_id"),
    "document": ("doc", "doc_id", "document", "docno", "docid"),
    "grade": ("grade", "relevance", "label", "rel"),
    "score": ("score",),
}

TREC_CONVENTIONS = ("trec9", "trec10")
TIE_RULES = ("grouped", "expected", "optimistic", "pessimistic")
CONVENTIONS = (*TREC_CONVENTIONS, *TIE_RULES)

_RUNS = [x for x in MEASURES if x.in_runs]
COUNTS = tuple(x.name for x in _RUNS if x.aggregation == "sum")
PLAIN = tuple(x.name for x in _RUNS if x.is_plain)
KNOWN = (*PLAIN, *(f"{x.name}@{cut}" for cut in "kl" for x in _RUNS if x.cut == cut), "official")
OF_TREC_EVAL = tuple(x.name for x in _RUNS if x.is_trec_only)  # undefined under other tie rules
IR_MEASURES = {  # name in ir_measures without parameters: name here
    alias: next(x.name for x in _RUNS if alias in x.aliases) for x in _RUNS for alias in x.aliases
}
OFFICIAL = (
    *("num_q", "num_ret", "num_rel", "num_rel_ret"),
    *("map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P"),
)
DEFAULT_MEASURES = ("map", "map@10", "P@5", "P@10", "R@100", "Rprec", "recip_rank")
