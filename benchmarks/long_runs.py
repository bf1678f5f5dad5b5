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
torch_ap.evaluate(qrels, run, [{MEASURES}]) if run else torch_ap.files.trec.read_qrels(qrels)
print(time.process_time() - start, before / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def blocks(millions: int) -> Iterator[pa.Table]:
    """A million lines at a time, the same in every run."""
    for block in range(millions):
        generator = np.random.default_rng(block)
        queries = np.arange(block * 1000, block * 1000 + 1000)
        first = generator.integers(DOCUMENTS, size=(1000, 1))
        documents = (first + np.arange(DOCS) * 8839) % DOCUMENTS  # all different in a query
        scores = np.sort(generator.random((1000, DOCS)) * 20)[:, ::-1].round(6)
        columns = {"query": queries.repeat(DOCS), "doc": documents.ravel(), "score": scores.ravel()}
        yield pa.table(columns)


def write_text(path: Path, millions: int) -> None:
    options = text.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    with path.open("wb") as file:
        for block in blocks(millions):
            fixed = {
                "Q0": ["Q0"] * len(block),
                "rank": np.tile(np.arange(1, DOCS + 1), 1000),
                "tag": ["x"] * len(block),
            }
            names = ("query", "Q0", "doc", "rank", "score", "tag")
            text.write_csv(
                pa.table({x: block[x] if x in block.column_names else fixed[x] for x in names}), file, options
            )


def write_parquet(path: Path, millions: int) -> None:
    writer = None
    for block in blocks(millions):
        writer = writer or parquet.ParquetWriter(path, block.schema)
        writer.write_table(block)
    assert writer is not None
    writer.close()


def write_qrels(path: Path, millions: int) -> None:
    """Two documents of each query: the tenth, and one that most queries do not have."""
    with path.open("w") as file:
        for block in blocks(millions):
            rows = zip(
                block["query"].to_numpy()[9::DOCS].tolist(), block["doc"].to_numpy()[9::DOCS].tolist(), strict=True
            )
            file.write("".join(f"{query} 0 {doc} 1\n{query} 0 {doc + 1} 2\n" for query, doc in rows))


def measured(*paths: str) -> tuple[float, float, float]:
    """Seconds of processor time, and MB before and at most."""
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], check=True, capture_output=True, text=True)
    seconds, before, most = map(float, done.stdout.split())
    return seconds, before, most


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--millions", type=int, nargs="+", default=[10, 20, 50, 100], help="of lines")
    args = options.parse_args()
    print(machine("torch", "numpy", "pyarrow"))
    print("\n| million lines | judgements alone, MB | text: MB, s | Parquet: MB, s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        qrels = Path(folder) / "qrels.txt"
        for millions in args.millions:
            write_qrels(qrels, millions)
            cells = [f"{measured(str(qrels), '')[2]:.0f}"]
            for path, write in ((Path(folder) / "run.txt", write_text), (Path(folder) / "run.parquet", write_parquet)):
                write(path, millions)
                seconds, _, most = measured(str(qrels), str(path))
                cells.append(f"{most:.0f}, {seconds:.1f}")
                path.unlink()
            print(f"| {millions} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
