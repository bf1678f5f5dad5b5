r"""Compare search engines: DataFrames in, a table out.

scikit-learn's digits are the documents, and 300 of them are queries. Pictures of the same digit are relevant. Three
engines score pixels by cosine, by Euclidean distance, and in 8 principal components. Each returns a DataFrame of its
100 best documents, as in the logs of search services.

Run: python examples/search_tables.py

It prints:

    300 queries; p: against the best, paired t, Holm over all pairs
    measure  run             mean   95% low  95% high          p
    AP@100   cosine        0.4170    0.3951    0.4391  9.612e-07
    AP@100   euclidean     0.4245*   0.4025    0.4466          -
    AP@100   8 components  0.4052    0.3824    0.4282  1.579e-06
    nDCG@10  cosine        0.9211    0.8960    0.9397     0.1454
    nDCG@10  euclidean     0.9251*   0.9007    0.9431          -
    nDCG@10  8 components  0.8882    0.8597    0.9108  1.408e-06
    P@10     cosine        0.9097    0.8829    0.9302    0.09397
    P@10     euclidean     0.9153*   0.8897    0.9347          -
    P@10     8 components  0.8767    0.8469    0.9007  1.205e-06
    9,215 of the 30,000 documents of `cosine` have no judgement, and are not relevant
    `euclidean` has tied scores in 216 queries, where the order of the documents' names decides between relevant and other documents: descending as text, so that 'd9' precedes 'd10': AP@100 is 0.4245, in other orders 0.4244 to 0.4247, on average 0.4245; nDCG@10 is 0.9251, in other orders 0.9244 to 0.9251, on average 0.9248; P@10 is 0.9153, in other orders 0.9147 to 0.9153, on average 0.9150
    8,929 of the 30,000 documents of `euclidean` have no judgement, and are not relevant
    9,440 of the 30,000 documents of `8 components` have no judgement, and are not relevant
    AP@100: divided by all relevant documents (`denominator='relevant'`)

    \begin{tabular}{llrrr}
    \toprule
     & run & AP@100 & nDCG@10 & P@10 \\
    \midrule
    a & cosine & 0.4170$^{c}$ & 0.9211$^{c}$ & 0.9097$^{c}$ \\
    b & euclidean & \textbf{0.4245}$^{ac}$ & \textbf{0.9251}$^{c}$ & \textbf{0.9153}$^{c}$ \\
    c & 8 components & 0.4052 & 0.8882 & 0.8767 \\
    \bottomrule
    \end{tabular}

    queries that cosine finds least for: q5, q77, q54
"""  # noqa: E501

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances

import torch_ap

QUERIES, LISTED = 300, 100


def hits(scores: NDArray[np.float64]) -> pd.DataFrame:
    """Return a row per document of an engine; ids are text, as in a log."""
    places = np.argsort(-scores, axis=1)[:, :LISTED]
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"q{query}" for query in range(len(scores))], LISTED),
            "doc_id": [f"digit-{place + QUERIES}" for place in places.ravel()],
            "score": np.take_along_axis(scores, places, 1).ravel(),
        }
    )


def main() -> None:
    pixels, digit = load_digits(return_X_y=True)
    queries, documents = pixels[:QUERIES], pixels[QUERIES:]
    query, document = np.nonzero(digit[:QUERIES, None] == digit[None, QUERIES:])
    judgements = pd.DataFrame(
        {"query_id": [f"q{x}" for x in query], "doc_id": [f"digit-{x + QUERIES}" for x in document], "relevance": 1}
    )
    few = PCA(8, random_state=0).fit(documents)
    engines = {
        "cosine": hits(cosine_similarity(queries, documents)),
        "euclidean": hits(-euclidean_distances(queries, documents)),
        "8 components": hits(-euclidean_distances(few.transform(queries), few.transform(documents))),
    }
    found = torch_ap.evaluate(judgements, runs=engines, measures=["AP@100", "nDCG@10", "P@10"])
    print(found)
    print()
    print(found.to_latex())
    values = pd.DataFrame(found.per_query()["cosine"])
    worst = ", ".join(values["AP@100"].nsmallest(3).index)
    print(f"\nqueries that cosine finds least for: {worst}")


if __name__ == "__main__":
    main()
