"""Memory and time of measuring runs in files that grow, as text and as Parquet.

    python -m benchmarks.long_runs [--millions 10 20 50 100]

prints a Markdown table. Runs of 1,000 documents per query are written to a folder for temporary files (about 36 MB per
million lines as text); two documents of each query are judged. Each is measured in a process of its own.
"""

import argparse
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

from benchmarks.timing import machine

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
    """A million lines at a time, from these millions on; they differ in their queries."""
    generator = np.random.default_rng(0)
    documents = (generator.integers(DOCUMENTS, size=(1000, 1)) + np.arange(DOCS) * 8839) % DOCUMENTS  # no two alike
    scores = np.sort(generator.random((1000, DOCS)) * 20)[:, ::-1].round(6)
    for block in range(first, last):
        queries = np.arange(block * 1000, block * 1000 + 1000).repeat(DOCS)
        yield pa.table({"query": queries, "doc": documents.ravel(), "score": scores.ravel()})


def add_text(path: Path, first: int, last: int) -> None:
    options = text.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    fixed = {"Q0": ["Q0"] * 1_000_000, "rank": np.tile(np.arange(1, DOCS + 1), 1000), "tag": ["x"] * 1_000_000}
    names = ("query", "Q0", "doc", "rank", "score", "tag")
    with path.open("ab") as file:
        for block in blocks(first, last):
            columns = {x: fixed[x] if x in fixed else block[x] for x in names}
            text.write_csv(pa.table(columns), file, options)


def write_parquet(path: Path, last: int) -> None:
    with parquet.ParquetWriter(path, next(blocks(0, 1)).schema) as writer:
        for block in blocks(0, last):
            writer.write_table(block)


def add_qrels(path: Path, first: int, last: int) -> None:
    """Two documents of each query: the tenth, and one that most queries do not have."""
    with path.open("a") as file:
        for block in blocks(first, last):
            queries, documents = (block[x].to_numpy()[9::DOCS].tolist() for x in ("query", "doc"))
            rows = zip(queries, documents, strict=True)
            file.write("".join(f"{query} 0 {doc} 1\n{query} 0 {doc + 1} 2\n" for query, doc in rows))


def measured(*paths: str) -> tuple[float, float, float]:
    """Seconds of processor time, and MB before and at most."""
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], check=True, capture_output=True, text=True)
    seconds, before, most = map(float, done.stdout.split())
    return seconds, before, most


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--millions", type=int, nargs="+", default=[10, 20, 50, 100], help="of lines, ascending")
    args = options.parse_args()
    print(machine("torch", "numpy", "pyarrow"))
    print("\n| million lines | judgements alone, MB | text: MB, s | Parquet: MB, s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        qrels, run, table = (Path(folder) / name for name in ("qrels.txt", "run.txt", "run.parquet"))
        for first, last in pairwise([0, *args.millions]):
            add_qrels(qrels, first, last)
            add_text(run, first, last)
            write_parquet(table, last)
            judgements, *runs = (measured(str(qrels), x) for x in ("", str(run), str(table)))
            cells = [f"{judgements[2]:.0f}", *(f"{most:.0f}, {seconds:.1f}" for seconds, _, most in runs)]
            print(f"| {last} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
