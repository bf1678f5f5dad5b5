"""Tables of results for people: as text, Markdown and LaTeX."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table for people.

    Attributes:
        rows: texts, those of the head first.
        names: how many columns from the left are names; the others are numbers.
        title: a line above it, or "".
        best: the places of numbers that stand out, (row, column).
    """

    rows: Sequence[Sequence[str]]
    names: int = 1
    title: str = ""
    best: Collection[tuple[int, int]] = ()

    def lines(self) -> list[str]:
        """Aligned columns: names to the left, numbers to the right, with a star where they stand out."""
        columns = {column for _, column in self.best}
        cells = self._marked(lambda text, at: f"{text}{'*' if at in self.best else ' ' * (at[1] in columns)}")
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = ["  ".join(self._padded(row, widths)).rstrip() for row in cells]
        return [self.title, *rows] if self.title else rows

    def markdown(self) -> list[str]:
        """The same as Markdown has it, bold where numbers stand out."""
        cells = self._marked(lambda text, at: f"**{text}**" if at in self.best else text.replace("|", r"\|"))
        head, *rows = [f"| {' | '.join(row)} |" for row in cells]
        rule = "".join("|---" if place < self.names else "|---:" for place in range(len(self.rows[0])))
        return [*([self.title, ""] if self.title else []), head, f"{rule}|", *rows]

    def latex(self, marks: Mapping[tuple[int, int], str] | None = None) -> list[str]:
        """The same for LaTeX with booktabs, bold where numbers stand out; ``marks`` are raised behind them."""

        def cell(text: str, at: tuple[int, int]) -> str:
            raised = (marks or {}).get(at, "")
            shown = _escaped(text)
            return (rf"\textbf{{{shown}}}" if at in self.best else shown) + (f"$^{{{raised}}}$" if raised else "")

        head, *rows = [f"{' & '.join(row)} {chr(92) * 2}" for row in self._marked(cell)]
        form = "l" * self.names + "r" * (len(self.rows[0]) - self.names)
        begin, end = rf"\begin{{tabular}}{{{form}}}", r"\end{tabular}"
        return [begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", end]

    def _marked(self, cell: Callable[[str, tuple[int, int]], str]) -> list[list[str]]:
        return [[cell(text, (row, column)) for column, text in enumerate(line)] for row, line in enumerate(self.rows)]

    def _padded(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        cells = enumerate(zip(row, widths, strict=True))
        return [cell.ljust(w) if place < self.names else cell.rjust(w) for place, (cell, w) in cells]


def _escaped(text: str) -> str:
    """A text of which nothing is LaTeX."""
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(words.get(x, f"\\{x}" if x in "&%$#_{}" else x) for x in text)


def number(value: int | float | None, form: str = ".4f") -> str:
    """A number for people, a count as it is; "-" for one that does not exist."""
    if isinstance(value, int):
        return str(value)
    return "-" if value is None or math.isnan(value) else format(value, form)
