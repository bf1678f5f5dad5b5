"""Values under named conventions, and the difference of two of them split into steps."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SLACK = Decimal("1e-12")  # of the comparison with a reported number, for values that are rounded in float64
_PERCENT = 100
_ROUNDING = 1e-12  # shares up to this size come from the order of sums


class Settings:
    """Base of the settings of a convention, frozen dataclasses whose fields are in the order of the steps."""

    @property
    def is_defined(self) -> bool:
        """Whether the settings can be combined."""
        return True


@dataclass(frozen=True)
class Named:
    """A named convention.

    Attributes:
        settings: its settings, a dataclass of one kind of data.
        program: the programs that compute it.
    """

    settings: Any
    program: str


@dataclass(frozen=True)
class Step(Record):
    """The change of one setting on the way from one convention to another.

    Attributes:
        setting: name of the setting.
        before: value of the setting in the first convention.
        after: value of the setting in the second convention.
        value_before: average precision before the change.
        value_after: average precision after the change.
    """

    setting: str
    before: str
    after: str
    value_before: float
    value_after: float

    @property
    def share(self) -> float:
        """The difference that the change makes."""
        return self.value_after - self.value_before

    @property
    def has_effect(self) -> bool:
        """Whether the change alters the value by more than rounding, or from or to NaN."""
        return not abs(self.share) <= _ROUNDING and not (math.isnan(self.value_before) and math.isnan(self.value_after))


@dataclass(frozen=True)
class Explanation(Record):
    """The average precision of one data set under all named conventions.

    Attributes:
        values: average precision by convention.
        programs: programs that compute it, by convention.
        reported: the reported number as text, or None.
        matches: conventions whose value equals the reported number within its digits.
    """

    values: dict[str, float]
    programs: dict[str, str]
    reported: str | None
    matches: tuple[str, ...]
    _settings: dict[str, Any] = field(repr=False)
    _evaluate: Callable[[Any], float] = field(repr=False)

    def _field_names(self) -> Mapping[str, bool]:
        return {field.name: True for field in fields(self) if not field.name.startswith("_")}

    def steps(self, first: str, second: str) -> tuple[Step, ...]:
        """Split the difference of two conventions into steps, each the change of one setting.

        The settings that differ change one after another, in the order of the fields of the settings. A change to
        settings that cannot be combined, such as the interpolation of expected ties, waits for the changes after it.
        The value before a step is the value after the step before it, so the shares add up to the difference. Another
        order gives other shares with the same sum.

        Args:
            first: name of a convention, where the steps begin.
            second: name of the convention where the steps end.

        Returns:
            The steps; empty if the conventions have the same settings.

        Raises:
            ValueError: for an unknown name.
        """
        for argument, convention in (("first", first), ("second", second)):
            checks.one_of(argument, convention, tuple(self.values))
        now, end = self._settings[first], self._settings[second]
        value, steps = self.values[first], []
        while now != end:
            differing = [x.name for x in fields(now) if getattr(now, x.name) != getattr(end, x.name)]
            changed = {name: replace(now, **{name: getattr(end, name)}) for name in differing}
            name = next(name for name in differing if changed[name].is_defined)
            before, value_before, now = getattr(now, name), value, changed[name]
            value = self.values[second] if now == end else self._evaluate(now)
            steps.append(Step(name.replace("_", " "), before, getattr(now, name), value_before, value))
        return tuple(steps)

    def __str__(self) -> str:
        """Return the values as a table, with a mark at the values that equal the reported number."""
        width = max(map(len, self.values))
        lines = [
            f"{'*' if name in self.matches else ' '} {name:<{width}}  {_number(value)}  {self.programs[name]}"
            for name, value in self.values.items()
        ]
        return "\n".join([*lines, *([] if self.reported is None else [self.sentence()])])

    def sentence(self) -> str:
        """Return which conventions equal the reported number, as a sentence; the closest one if none does."""
        if self.reported is None:
            raise ValueError("`reported` must be a number for a sentence about it, got None")
        if self.matches:
            return f"{self.reported} is the number of: {', '.join(self.matches)}"
        target, _ = parse_reported(self.reported)
        closest = min(self.values, key=lambda name: _distance(self.values[name], target))
        return f"{self.reported} is none of these numbers; the closest is {closest} ({_number(self.values[closest])})"

    def table(self, first: str, second: str) -> str:
        """Return :meth:`steps` as a table of text; settings that change nothing here are named in its last line."""
        every = self.steps(first, second)
        rows = [(f"{x.setting}: {x.before} -> {x.after}", f"{x.share:+.4f}") for x in every if x.has_effect]
        rows = [(first, _number(self.values[first])), *rows, (second, _number(self.values[second]))]
        width = max(len(text) for text, _ in rows)
        lines = [f"{text:<{width}}  {number:>7}" for text, number in rows]
        without = ", ".join(x.setting for x in every if not x.has_effect)
        return "\n".join([*lines, *([f"without effect: {without}"] if without else [])])

    def plot(self, first: str, second: str, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the :meth:`steps` with an effect as a waterfall from the first value to the second (extra: ``plot``).

        Args:
            first: name of a convention, where the steps begin.
            second: name of the convention where the steps end.
            ax: the axes; None for new ones.

        Returns:
            The axes.
        """
        from torch_ap.explanation.picture import waterfall

        shown = [x for x in self.steps(first, second) if x.has_effect]
        labels = [first, *(f"{x.setting}: {x.before} → {x.after}" for x in shown), second]
        return waterfall(labels, [self.values[first], *(x.value_after for x in shown)], ax)


def explanation_of(
    conventions: Mapping[str, Named], evaluate: Callable[[Any], float], reported: float | str | None
) -> Explanation:
    """Return the values under named conventions; equal settings are evaluated once."""
    target = None if reported is None else parse_reported(reported)
    known: dict[Any, float] = {}
    for convention in conventions.values():
        if convention.settings not in known:
            known[convention.settings] = evaluate(convention.settings)
    values = {name: known[convention.settings] for name, convention in conventions.items()}
    return Explanation(
        values=values,
        programs={name: convention.program for name, convention in conventions.items()},
        reported=None if reported is None else str(reported),
        matches=tuple(x for x in values if target and _distance(values[x], target[0]) <= target[1] + _SLACK),
        _settings={name: convention.settings for name, convention in conventions.items()},
        _evaluate=evaluate,
    )


def parse_reported(reported: float | str) -> tuple[Decimal, Decimal]:
    """Return a reported number and half a unit of its last digit; numbers above 1 are percentages.

    Raises:
        ValueError: for text that is no number, and for a number outside [0, 100].
    """
    text = str(reported).strip()
    try:
        value = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        value = Decimal("NaN")
    if isinstance(reported, bool) or not value.is_finite() or not 0 <= value <= _PERCENT:
        raise_invalid("reported", "must be a number in [0, 1], or a percentage in [0, 100]", reported)
    half = Decimal(1).scaleb(int(value.as_tuple().exponent)) / 2
    return (value / _PERCENT, half / _PERCENT) if text.endswith("%") or value > 1 else (value, half)


def _distance(value: float, target: Decimal) -> Decimal:
    return Decimal("Infinity") if math.isnan(value) else abs(Decimal(value) - target)


def _number(value: float) -> str:
    return "   -  " if math.isnan(value) else f"{value:.4f}"
