"""Gates for continuous integration: does a measure reach a bound, or is it worse than a baseline?

A gate passes or fails only if the data show it. A bound is compared with the confidence interval of the value, a margin
with the interval of the paired difference, and a margin of 0 with the p-value of the paired test. Holm's (1979)
step-down procedure limits the probability of any wrong decision over all gates of a command to 1 - confidence level.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

from torch_ap.cli.tables import Report, number, percent
from torch_ap.core.base.messages import escape_unprintable, short_repr
from torch_ap.core.measures.names import TOTALS
from torch_ap.inference.record import Comparison, Interval

PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
_FAILURE, _NO_DECISION = 1, 3  # exit statuses

Estimate: TypeAlias = Callable[[float], Interval | Comparison]  # of a confidence level


@dataclass
class Gate:
    """A requirement of one measure.

    Attributes:
        system: name of the table, run or list of detections.
        measure: name of the measure.
        bound: lowest accepted value, or lowest accepted difference: minus the margin.
        estimate: returns the interval or the comparison for a confidence level.
        baseline: name of the baseline; "" for a bound of the value.
        level: confidence level of the last test.
        numbers: value or difference, its interval and p-value in the last test.
        reason: reason for missing numbers.
        result: ``PASSED``, ``FAILED`` or ``UNDECIDED``.
    """

    system: str
    measure: str
    bound: float
    estimate: Estimate
    baseline: str = ""
    level: float = math.nan
    numbers: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    result: str = UNDECIDED

    def test(self, level: float) -> None:
        """Test the gate at a confidence level."""
        estimate = self.estimate(level)
        low, high = float(estimate.low), float(estimate.high)
        self.level, self.reason = level, estimate.reason
        passed, failed = low >= self.bound, high < self.bound
        if isinstance(estimate, Comparison):
            difference, p = float(estimate.difference), float(estimate.p_value)
            self.numbers = {"difference": difference, "low": low, "high": high, "p_value": p}
            if self.bound == 0 and low != high and not math.isnan(p):  # the test can have more power than the interval
                is_shown = p <= 1 - level
                passed, failed = is_shown and difference > 0, is_shown and difference < 0
        else:
            self.numbers = {"value": float(estimate.estimate), "low": low, "high": high}
        self.result = PASSED if passed else FAILED if failed else UNDECIDED

    @property
    def name(self) -> str:
        """The requirement, as "map >= 0.42" or "map >= old.run - 0.01"."""
        if not self.baseline:
            return f"{self.measure} >= {self.bound:.10g}"
        return f"{self.measure} >= {self.baseline}{f' - {-self.bound:.10g}' if self.bound else ''}"

    @property
    def sentence(self) -> str:
        """The requirement, the result and the numbers."""
        what, value = next(iter(self.numbers.items()))
        form = "+.4f" if self.baseline else ".4f"
        low, high = (number(self.numbers[x], form) for x in ("low", "high"))
        numbers = f"{number(value, form)} ({percent(self.level)} interval {low} to {high}"
        is_tested = self.baseline and not self.bound  # the p-value is of a margin of 0
        numbers += f", p = {number(self.numbers['p_value'], '.4g')})" if is_tested else ")"
        reason = f"; {self.reason}" if self.reason else ""
        return f"Gate {self.name} of {self.system}: {self.result}, {what} {numbers}{reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the content for JSON."""
        rule: dict[str, Any] = {"system": self.system, "measure": self.measure}
        rule |= {"baseline": self.baseline, "margin": abs(self.bound)} if self.baseline else {"bound": self.bound}
        rule |= {**self.numbers, "confidence_level": self.level, "result": self.result}
        return rule | ({"reason": self.reason} if self.reason else {})


def is_named_share(name: str) -> bool:
    """Return whether all values of a measure of tables or detectors are in [0, 1]."""
    return name.partition("@")[0] not in TOTALS


def gates_of(
    args: argparse.Namespace,
    system: str,
    values: Mapping[str, Estimate],
    differences: Mapping[str, Estimate],
    baseline: str = "",
    full_name: Callable[[str], str] = str,
    is_share: Callable[[str], bool] = is_named_share,
) -> list[Gate]:
    """Return the gates of one system.

    Args:
        args: arguments of the command.
        system: name of the system.
        values: interval of each measure by its name.
        differences: comparison with the baseline of each measure by its name.
        baseline: name of the baseline.
        full_name: returns the name in ``values`` of a measure in ``--fail-below``.
        is_share: returns whether all values of a measure in ``values`` are in [0, 1].

    Raises:
        ValueError: for an unknown measure, and for a bound or a margin that no value can reach.
    """
    gates = []
    for requested, bound in args.fail_below or ():
        name = full_name(requested)
        if name not in values:
            got = f"{short_repr(requested)}{f'; add -m {requested}' if hasattr(args, 'measures') else ''}"
            raise ValueError(f"--fail-below takes a measure of this command, {', '.join(values)}, got {got}")
        if is_share(name) and not 0 <= bound <= 1:
            raise ValueError(f"--fail-below {name} must have a bound in [0, 1], got {bound:.10g}")
        gates.append(Gate(system, name, bound, values[name]))
    if args.fail_if_worse is not None:
        if not differences:
            raise ValueError("--fail-if-worse takes a measure that is not a count, got none")
        for name in differences:
            if is_share(name) and args.fail_if_worse > 1:
                raise ValueError(f"--fail-if-worse of {name} must be at most 1, got {args.fail_if_worse:.10g}")
        gates += [Gate(system, name, -args.fail_if_worse, x, baseline) for name, x in differences.items()]
    return gates


def decide(gates: Sequence[Gate], confidence_level: float) -> None:
    """Test the gates by Holm's procedure: each at 1 - alpha / (number of undecided gates), until none is decided."""
    remaining = list(gates)
    while remaining:
        for gate in remaining:
            gate.test(1 - (1 - confidence_level) / len(remaining))
        undecided = [gate for gate in remaining if gate.result == UNDECIDED]
        if len(undecided) == len(remaining):
            return
        remaining = undecided


def status_of(gates: Iterable[Gate]) -> int:
    """Return the exit status: 1 if a gate fails, else 3 if one is undecided, else 0."""
    results = {gate.result for gate in gates}
    return _FAILURE if FAILED in results else _NO_DECISION if UNDECIDED in results else 0


def write(args: argparse.Namespace, report: Report, gates: Sequence[Gate]) -> int:
    """Test the gates, write the report with their results and the JUnit file, and return the exit status."""
    decide(gates, args.confidence_level)
    report.gates = gates
    report.write(args.form)
    return finish(args, gates)


def finish(args: argparse.Namespace, gates: Sequence[Gate]) -> int:
    """Write the JUnit file of ``--junit``, if any, and return the exit status."""
    if args.junit is not None:
        Path(args.junit).write_bytes(_junit(f"torch-ap {args.command}", gates))
    return status_of(gates)


def _junit(name: str, gates: Sequence[Gate]) -> bytes:
    """Return JUnit XML: failed gates as failures, undecided gates as skipped."""
    results = [gate.result for gate in gates]
    counts = {"tests": len(gates), "failures": results.count(FAILED), "errors": 0, "skipped": results.count(UNDECIDED)}
    attributes = {"name": name, **{key: str(count) for key, count in counts.items()}}
    root = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for gate in gates:
        names = {"classname": escape_unprintable(gate.system), "name": escape_unprintable(gate.name)}
        case = ElementTree.SubElement(suite, "testcase", names)
        message = escape_unprintable(gate.sentence)
        if gate.result == PASSED:
            ElementTree.SubElement(case, "system-out").text = message
        else:
            ElementTree.SubElement(case, "failure" if gate.result == FAILED else "skipped", {"message": message})
    text: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return text
