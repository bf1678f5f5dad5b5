"""Time from the start of a program to its first result, beyond the import of torch.

    python -m benchmarks.start

The Markdown table shows the minimum processor time of a process on small files, without the time of ``import torch``,
in turns in one run; and which of the slow packages the process imports.
"""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.timing import machine, parser, print_head, print_row

SLOW = ("torchmetrics", "scipy", "matplotlib", "pyarrow", "pandas", "sklearn")
COMMANDS = {
    "torch-ap score": "score table.csv --preds score --target label",
    "torch-ap score, most labels positive": "score dense.csv --preds score --target label",
    "torch-ap score, groups": "score table.csv --preds score --target label --group query -m map",
    "torch-ap score, interval": "score table.csv --preds score --target label --interval",
    "torch-ap trec": "trec qrels.txt run.txt",
    "torch-ap coco": "coco truth.json found.json",
    "torch-ap coco, displaced boxes": "coco truth.json weak.json",
    "torch-ap lvis": "lvis lvis.json found.json",
    "torch-ap voc": "voc objects detected",
    "torch-ap explain": "explain table.csv --preds score --target label",
    "torch-ap plan": "plan --ap 0.62 --units 80 --half-width 0.05",
    "torch-ap score --report": "score table.csv --preds score --target label --report page.html",
    "torch-ap trec --report": "trec qrels.txt run.txt --report page.html",
    "torch-ap coco --report": "coco truth.json found.json --report page.html",
    "torch-ap report": "report table.csv --preds score --target label -o page.html",
}
_LIST = "import sys; print(*[x for x in {slow} if x in sys.modules], file=sys.stderr)"


def write_files(folder: Path) -> None:
    """Write small input files of each command."""
    rows = [(0.9 - 0.01 * place, int(place % 3 == 0), place % 4) for place in range(40)]
    table = "score,label,query\n" + "".join(f"{score},{label},{query}\n" for score, label, query in rows)
    (folder / "table.csv").write_text(table)
    dense = (f"{score},{1 - label},{query}\n" for score, label, query in rows)
    (folder / "dense.csv").write_text("score,label,query\n" + "".join(dense))
    (folder / "qrels.txt").write_text(
        "".join(f"{query} 0 d{place} {label}\n" for place, (_, label, query) in enumerate(rows))
    )
    lines = (f"{query} Q0 d{place} {place} {score} x\n" for place, (score, _, query) in enumerate(rows))
    (folder / "run.txt").write_text("".join(lines))
    box = [10.0, 10.0, 30.0, 20.0]
    image = {"id": 1, "width": 100, "height": 100, "file_name": "1.jpg"}
    truth = {"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "area": 600.0, "iscrowd": 0}
    names = {"images": [image], "annotations": [truth], "categories": [{"id": 1, "name": "cat"}]}
    (folder / "truth.json").write_text(json.dumps(names))
    image |= {"not_exhaustive_category_ids": [], "neg_category_ids": []}
    (folder / "lvis.json").write_text(json.dumps(names | {"categories": [{"id": 1, "name": "cat", "frequency": "f"}]}))
    found = [{"image_id": 1, "category_id": 1, "bbox": box, "score": 0.9}]
    (folder / "found.json").write_text(json.dumps(found))
    (folder / "weak.json").write_text(json.dumps([x | {"bbox": [60.0, 50.0, 30.0, 20.0]} for x in found]))
    for side, line in (("objects", "cat 10 10 40 30\n"), ("detected", "cat 0.9 10 10 40 30\n")):
        (folder / side).mkdir()
        (folder / side / "1.txt").write_text(line)


def programs() -> dict[str, list[str]]:
    """Return the words of each program after the interpreter."""
    listed = _LIST.format(slow=SLOW)
    texts = {"import torch": "import torch", "import torch_ap.functional": "import torch_ap.functional"}
    programs = {name: ["-c", f"{text}\n{listed}"] for name, text in texts.items()}
    run = f"import sys\nfrom torch_ap.cli import main\nstatus = main.main(sys.argv[1:])\n{listed}\nsys.exit(status)"
    return programs | {name: ["-c", run, *words.split()] for name, words in COMMANDS.items()}


def run(words: list[str], folder: Path) -> tuple[float, str]:
    """Return the processor seconds of a process, and the slow packages that it imported.

    Raises:
        RuntimeError: if the process fails.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{words[2:]}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr.splitlines()[-1]


def measure(chosen: Mapping[str, list[str]], rounds: int) -> dict[str, tuple[float, str]]:
    """Return the minimum seconds and the slow packages of each program, which run in turns."""
    results: dict[str, tuple[float, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        for _ in range(rounds):
            for name, words in chosen.items():
                result = run(words, Path(folder))
                results[name] = min(result, results.get(name, result))
    return results


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    args = options.parse_args()
    print(machine("torch", "numpy", "torchmetrics"))
    results = measure(programs(), 1 if args.quick else args.rounds)
    print_head("Start", "program", "s beyond `import torch`", "imports of slow packages")
    torch_alone = results.pop("import torch")[0]
    for name, (seconds, packages) in results.items():
        print_row(name, f"{seconds - torch_alone:.2f}", packages)


if __name__ == "__main__":
    main()
