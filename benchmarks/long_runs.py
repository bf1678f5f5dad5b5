"""Memory and time to evaluate runs in files of growing size, as text and as Parquet.

    python -m benchmarks.long_runs [--millions 10 20 50 100]

This prints a Markdown table. Runs of 1,000 documents per query are written to a temporary folder (about 36 MB per
million lines as text). Two documents of each query are judged. Each measurement uses its own process.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as text
import pyarrow.parquet as parquet

from benchmarks.timing import machine, parser, print_head, print_row

DOCS, DOCUMENTS = 1000, 8_841_823
MEASURES = "'AP', 'nDCG@10', 'P@10', 'R@100', 'RR'"
CHILD = f"""
import resource, sys, time
import torch_ap
qrels, run = sys.argv[1:]
torch_ap.evaluate({{"q": {{"d": 1}}}}, {{"q": {{"d": 1.0}}}})
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
torch_ap.evaluate(qrels, run, [{MEASURES}]) if run else torch_ap.retrieval.runs.trec.read_qrels(qrels)
print(time.process_time() - start, before / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def blocks(first: int, last: int) -> Iterator[pa.Table]:
    """Yield blocks of a million lines with different queries, from block ``first`` to block ``last`` - 1."""
    generator = np.random.default_rng(0)
    documents = (generator.integers(DOCUMENTS, size=(1000, 1)) + np.arange(DOCS) * 8839) % DOCUMENTS  # all distinct
    scores = np.sort(generator.random((1000, DOCS)) * 20)[:, ::-1].round(6)
    for block in range(first, last):
        queries = np.arange(block * 1000, block * 1000 + 1000).repeat(DOCS)
        yield pa.table({"query": queries, "doc": documents.ravel(), "score": scores.ravel()})


def append_text(path: Path, first: int, last: int) -> None:
    """Append blocks to a run file."""
    options = text.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    fixed = {"Q0": ["Q0"] * 1_000_000, "rank": np.tile(np.arange(1, DOCS + 1), 1000), "tag": ["x"] * 1_000_000}
    names = ("query", "Q0", "doc", "rank", "score", "tag")
    with path.open("ab") as file:
        for block in blocks(first, last):
            columns = {x: fixed[x] if x in fixed else block[x] for x in names}
            text.write_csv(pa.table(columns), file, options)


def write_parquet(path: Path, last: int) -> None:
    """Write the blocks up to ``last`` - 1."""
    with parquet.ParquetWriter(path, next(blocks(0, 1)).schema) as writer:
        for block in blocks(0, last):
            writer.write_table(block)


def append_qrels(path: Path, first: int, last: int) -> None:
    """Append judgements of two documents per query: the tenth, and one that most queries do not contain."""
    with path.open("a") as file:
        for block in blocks(first, last):
            queries, documents = (block[x].to_numpy()[9::DOCS].tolist() for x in ("query", "doc"))
            rows = zip(queries, documents, strict=True)
            file.write("".join(f"{query} 0 {doc} 1\n{query} 0 {doc + 1} 2\n" for query, doc in rows))


def measure(*paths: str) -> tuple[float, float, float]:
    """Return the seconds of processor time, and the memory before and the peak memory in MB."""
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], check=True, capture_output=True, text=True)
    seconds, before, peak = map(float, done.stdout.split())
    return seconds, before, peak


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--millions", type=int, nargs="+", default=[10, 20, 50, 100], help="ascending")
    args = options.parse_args()
    millions = [1] if args.quick else args.millions
    print(machine("torch", "numpy", "pyarrow"))
    print_head("", "million lines", "judgements alone, MB", "text: MB, s", "Parquet: MB, s")
    with tempfile.TemporaryDirectory() as folder:
        qrels, run, table = (Path(folder) / name for name in ("qrels.txt", "run.txt", "run.parquet"))
        for first, last in pairwise([0, *millions]):
            append_qrels(qrels, first, last)
            append_text(run, first, last)
            write_parquet(table, last)
            judgements, *runs = (measure(str(qrels), x) for x in ("", str(run), str(table)))
            print_row(str(last), f"{judgements[2]:.0f}", *(f"{peak:.0f}, {seconds:.1f}" for seconds, _, peak in runs))


if __name__ == "__main__":
    main()
