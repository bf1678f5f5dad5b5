"""The best of several systems, as the commands print it."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from torch_ap.cli.notes import file_name, to_option_names
from torch_ap.cli.tables import Part, Report, Table, level_heads, number, reason_lines
from torch_ap.inference import BestSystem

_NUMBERS = ("value", "corrected", "optimism", "low", "high")


class BestReport(Report):
    """Best system of each measure.

    Args:
        args: arguments of the command.
        results: result of each measure by name.
        facts: name of the file and numbers of its rows, queries or images.
        baseline: name of the system with which the others are compared; None for the best.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        results: dict[str, BestSystem],
        facts: dict[str, Any],
        baseline: str | None = None,
    ) -> None:
        self._args, self._results, self._facts, self._baseline = args, results, facts, baseline

    def _rows(self, result: BestSystem) -> Iterator[tuple[str, float, float, float, float]]:
        """Yield the name, the value, the simultaneous ends and the adjusted p-value of each system."""
        p = result.adjusted_p_value if result.reference is not None else result.adjusted_p_value[result.best]
        columns = (result.values, result.simultaneous_low, result.simultaneous_high, p)
        yield from zip(result.names, *(x.tolist() for x in columns), strict=True)

    def parts(self) -> Iterator[Part]:
        """Yield the best system of each measure, all systems, and the reasons."""
        counts = ", ".join(f"{value:,} {name}" for name, value in self._facts.items() if name != "file")
        ends = level_heads(self._args.confidence_level)
        cells = [
            (measure, x.names[x.best], *(number(float(getattr(x, name))) for name in _NUMBERS))
            for measure, x in self._results.items()
        ]
        title = f"{file_name(self._facts['file'])}: {counts}; the interval allows for the selection"
        yield Table([("measure", "best", *_NUMBERS[:3], *ends), *cells], title=title)
        other = "best" if self._baseline is None else self._baseline
        for measure, result in self._results.items():
            rows = [(name, *map(number, x[:3]), number(x[3], ".4g")) for name, *x in self._rows(result)]
            at_once = level_heads(self._args.confidence_level, simultaneous=True)
            title = "simultaneous intervals, p adjusted for all comparisons"
            yield Table([(measure, "value", *at_once, f"p against {other}"), *rows], title=title)
        yield from reason_lines({name: [x] if (x := self._reason(y)) else [] for name, y in self._results.items()})

    def _reason(self, result: BestSystem) -> str:
        return to_option_names(result.reason, self._args.option_names)

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield a row per measure and system; the numbers of the selection are in the row of the best system."""
        yield ("measure", "system", "value", "simultaneous_low", "simultaneous_high", "p_value", "best", *_NUMBERS[1:])
        for measure, result in self._results.items():
            for place, row in enumerate(self._rows(result)):
                is_best = place == result.best
                numbers = [float(getattr(result, name)) if is_best else None for name in _NUMBERS[1:]]
                yield (measure, *row, int(is_best), *numbers)

    def document(self) -> dict[str, Any]:
        """Return the facts, and the fields of each result by the name of the measure."""
        return self._facts | {"measures": {name: x.to_dict() for name, x in self._results.items()}}
