"""The words of TREC's files and of measures. This module does not import torch, so that help appears at once."""

QRELS_FORM = "query iteration document relevance"
RUN_FORM = "query Q0 document rank score tag"

PARQUET = (".parquet", ".pq")
COLUMNS = {  # of tables: what is there, and what it is usually called
    "query": ("query", "query_id", "qid", "q_id"),
    "document": ("doc", "doc_id", "document", "docno", "docid"),
    "grade": ("grade", "relevance", "label", "rel"),
    "score": ("score",),
}

TREC_CONVENTIONS = ("trec9", "trec10")
CONVENTIONS = (*TREC_CONVENTIONS, "grouped", "expected", "optimistic", "pessimistic")

AT_RANK = ("map", "P", "R", "F", "recip_rank", "success")
PLAIN = ("map", "gm_map", "Rprec", "recip_rank", "11pt_avg", "set_P", "set_recall", "set_F")
TREC_NAMES = {"map_cut": "map", "P": "P", "recall": "R", "success": "success", "iprec_at_recall": "iprec"}
KNOWN = (*PLAIN, *(f"{name}@k" for name in AT_RANK), "iprec@l")
