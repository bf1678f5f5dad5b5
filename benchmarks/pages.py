"""Tables of a page between markers, with the commit, the date and the machine of each measurement.

A table of a page has this form, where the caption is the last line::

    <!-- benchmark one_ranking -->
    | ... |

    Measured 2026-11-24 at commit `d230ac55`: AMD EPYC, 2 cores, 1 threads; Python 3.11.7; torch 2.13.0
    <!-- end of benchmark -->

A row is marked with † if a later commit changed the code that it measures. The marks are derived from the history.
"""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MARK = "†"
_BLOCK = re.compile(r"(?<=<!-- benchmark )(?P<name>\S+) -->\n(?P<body>.*?)(?=<!-- end of benchmark -->)", re.DOTALL)
_CAPTION = re.compile(r"^Measured (?P<date>\S+) at commit `(?P<commit>\w+)`: (?P<machine>[^\n]*)$", re.MULTILINE)


class Measurement(NamedTuple):
    """Origin of a table: the date, the commit, and the machine with its versions."""

    date: str
    commit: str
    machine: str


class Block(NamedTuple):
    """A table of a page: its lines, and its origin (None before the first measurement)."""

    rows: tuple[str, ...]
    measured: Measurement | None


def read_blocks(page: str) -> dict[str, Block]:
    """Return the tables between markers by name, without the marks of their rows."""
    blocks = {}
    for found in _BLOCK.finditer(page):
        if found["name"] in blocks:
            raise ValueError(f"the page must have one place for each table, got two for {found['name']!r}")
        rows = (line.replace(f" {MARK} |", " |", 1) for line in found["body"].splitlines() if line.startswith("|"))
        caption = _CAPTION.search(found["body"])
        blocks[found["name"]] = Block(tuple(rows), Measurement(**caption.groupdict()) if caption else None)
    return blocks


def write_blocks(page: str, blocks: Mapping[str, Block], changed_by: Callable[[str, str], str | None]) -> str:
    """Return the page with these tables.

    Args:
        page: text with the markers of all tables.
        blocks: the tables by name; a table that is missing here remains unchanged.
        changed_by: the latest commit that changed the code of a table after a commit, from their names; None if none.
    """

    def body(found: re.Match[str]) -> str:
        block = blocks.get(found["name"])
        return found[0] if block is None else f"{found['name']} -->\n{_text(found['name'], block, changed_by)}"

    return _BLOCK.sub(body, page)


def _text(name: str, block: Block, changed_by: Callable[[str, str], str | None]) -> str:
    if block.measured is None:
        return "".join(f"{row}\n" for row in block.rows)
    later = changed_by(name, block.measured.commit)
    rows = list(block.rows)
    if later:
        rows[2:] = [row.replace(" |", f" {MARK} |", 1) for row in rows[2:]]  # below the head
    caption = "Measured {} at commit `{}`: {}\n".format(*block.measured)
    note = f"\n{MARK} `{later}` changed the measured code later.\n" if later else ""
    return "".join(f"{row}\n" for row in rows) + f"\n{caption}{note}"


def tables_of_output(output: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return the line with the machine, and the rows of each Markdown table by the title above it ("" without one)."""
    machine, title, tables = "", "", dict[str, list[str]]()
    for line in output.splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif line.startswith("|"):
            tables.setdefault(title, []).append(line)
        elif "; Python " in line:
            machine = line
    return machine, {title: tuple(rows) for title, rows in tables.items()}


class History:
    """History of a repository.

    Args:
        root: its folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def git(self, *words: str) -> str:
        """Return the output of a command of git; empty if it fails."""
        done = subprocess.run(["git", *words], cwd=self._root, capture_output=True, text=True, check=False)
        return done.stdout.rstrip() if done.returncode == 0 else ""

    @property
    def head(self) -> str:
        """The latest commit."""
        return self.git("rev-parse", "--short=8", "HEAD")

    def changed_after(self, commit: str, paths: Sequence[str]) -> str | None:
        """Return the latest commit after ``commit`` that changed a path; HEAD for an unknown commit, None if none."""
        if not self.git("merge-base", commit, "HEAD"):
            return self.head
        return self.git("log", "-1", "--format=%h", "--abbrev=8", f"{commit}..HEAD", "--", *paths) or None

    def uncommitted(self, paths: Sequence[str]) -> list[str]:
        """Return the paths with changes that are in no commit."""
        if not paths:
            return []
        return [line[3:] for line in self.git("status", "--porcelain", "--", *paths).splitlines()]
