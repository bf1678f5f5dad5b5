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

GAINS = {"ndcg": "linear", "ndcg_exp": "exponential"}  # of nDCG, by its names
COUNTS = ("num_q", "num_ret", "num_rel", "num_rel_ret")
AT_RANK = ("map", *GAINS, "P", "R", "F", "recip_rank", "success")
PLAIN = (
    *("map", "gm_map", *GAINS, "Rprec", "bpref", "infAP", "recip_rank", "11pt_avg", "set_P", "set_recall", "set_F"),
    *COUNTS,
)
LEVELLESS = (*GAINS, "num_q")  # the same whatever the lowest relevant grade
OF_TREC_EVAL = ("iprec", "11pt_avg", "bpref", "infAP")  # which know no other rule for ties
TREC_NAMES = {
    "map_cut": "map",
    "ndcg_cut": "ndcg",
    "P": "P",
    "recall": "R",
    "success": "success",
    "iprec_at_recall": "iprec",
}
CUTS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")  # trec_eval's, of names that say none
DEFAULTS = dict.fromkeys(TREC_NAMES, CUTS) | {
    "success": ("1", "5", "10"),
    "iprec_at_recall": tuple(f"{level / 10:.2f}" for level in range(11)),
}
OFFICIAL = (*COUNTS, "map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P")
KNOWN = (*PLAIN, *(f"{name}@k" for name in AT_RANK), "iprec@l", "official")
DEFAULT_MEASURES = ("map", "map@10", "P@5", "P@10", "R@100", "Rprec", "recip_rank")
IR_MEASURES = {  # what ir_measures calls them
    "AP": "map",
    "MAP": "map",
    "nDCG": "ndcg",
    "NDCG": "ndcg",
    "P": "P",
    "Precision": "P",
    "R": "R",
    "Recall": "R",
    "RR": "recip_rank",
    "MRR": "recip_rank",
    "Rprec": "Rprec",
    "RPrec": "Rprec",
    "Success": "success",
    "IPrec": "iprec",
    "Bpref": "bpref",
    "BPref": "bpref",
    "infAP": "infAP",
    "SetP": "set_P",
    "SetR": "set_recall",
    "SetF": "set_F",
    "NumQ": "num_q",
    "NumRel": "num_rel",
    "NumRet": "num_ret",
    "NumRelRet": "num_rel_ret",
}
