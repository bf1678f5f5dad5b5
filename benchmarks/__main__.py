"""Measure the tables of the pages, and write them with their date, commit and machine.

    python -m benchmarks [--only NAME ...] [--quick] [--list] [--mark]

A table is measured by a module of ``benchmarks`` in a process of its own. It is written between the markers with its
name (see :mod:`benchmarks.pages`). Every run also marks the rows of all tables that are older than a change of their
code; ``benchmarks/tables.py`` names the code of each table. Measure commits of the main branch: after a rebase, git
does not find the commit, and the table counts as old.
"""

import argparse
import datetime
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import Block, History, Measurement, read_blocks, tables_of_output, write_blocks
from benchmarks.tables import TABLES, Table

ROOT = Path(__file__).parent.parent


def measure(tables: Sequence[Table], commit: str, date: str, *, quick: bool) -> dict[str, Block]:
    """Run the benchmarks of these tables, each command once, and return the tables by name."""
    outputs: dict[tuple[str, ...], str] = {}
    blocks = {}
    for table in tables:
        if table.words not in outputs:
            module, *options = table.words
            words = [sys.executable, "-m", f"benchmarks.{module}", *options, *["--quick"] * quick]
            print("python", *words[1:], flush=True)
            outputs[table.words] = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
        machine, by_title = tables_of_output(outputs[table.words])
        rows = next((rows for title, rows in by_title.items() if title.startswith(table.title)), None)
        if rows is None:
            raise ValueError(f"{table.words[0]} must print a table {table.title!r}, got {sorted(by_title)}")
        print("\n".join(rows), flush=True)
        blocks[table.name] = Block(rows, Measurement(date, commit, machine))
    return blocks


def update_pages(root: Path, tables: Sequence[Table], measured: dict[str, Block], history: History) -> None:
    """Write the measured tables, and the marks of all tables, to the pages."""
    code = {table.name: table.code for table in tables}
    for page in sorted({table.page for table in tables}):
        path = root / page
        text = path.read_text()
        blocks = read_blocks(text)
        unknown = blocks.keys() - code.keys()
        if unknown:
            raise ValueError(f"{page} must only have tables of benchmarks/tables.py, got {sorted(unknown)}")
        blocks |= {name: block for name, block in measured.items() if name in blocks}
        path.write_text(write_blocks(text, blocks, lambda name, commit: history.changed_after(commit, code[name])))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the chosen tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=[x.name for x in TABLES], metavar="NAME", help="measure only these"
    )
    parser.add_argument("--quick", action="store_true", help="use small sizes, and leave the pages unchanged")
    parser.add_argument("--list", action="store_true", help="print the names of the tables, and measure nothing")
    parser.add_argument("--mark", action="store_true", help="mark old rows, and measure nothing")
    options = parser.parse_args(arguments)
    if options.list:
        print(*(f"{table.name}: {table.title} ({table.page})" for table in TABLES), sep="\n")
        return 0
    history = History(ROOT)
    tables = [] if options.mark else [x for x in TABLES if options.only is None or x.name in options.only]
    if not options.quick and (changed := history.uncommitted([path for table in tables for path in table.code])):
        parser.error(f"commit the measured code first, which has changes in {', '.join(changed)}")
    today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    measured = measure(tables, history.head, today, quick=options.quick)
    if not options.quick:
        update_pages(ROOT, TABLES, measured, history)
    return 0


if __name__ == "__main__":
    sys.exit(main())
