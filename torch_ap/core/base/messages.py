"""Error messages and warnings: values as text, and suggestions."""

import re
import reprlib
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import NoReturn

LONGEST = 80


class Plain(str):
    """Text that a message contains unquoted, such as a shape or a dtype."""

    __slots__ = ()


_ALIKE = 0.65  # cutoff of difflib; its default 0.6 suggests "map_cut_k" for "ndcg_cut_k"
_FEW = 3  # known ids in a message without a suggestion
_JOINERS = "\u200c\u200d"  # parts of words in Persian and Hindi, and of emojis
_LIBRARIES = ("torch_ap", "torch", "torchmetrics", "contextlib", "numpy")  # frames to skip in warnings
_REPR = reprlib.Repr()
_REPR.maxlevel = 2
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxother = _REPR.maxstring = _REPR.maxlong = LONGEST + 1


def short_repr(value: object) -> str:
    """Return the ``repr`` of a value, cut to 80 characters, in time that does not grow with the value.

    Example:
        >>> from torch_ap.core.base.messages import short_repr
        >>> short_repr("high")
        "'high'"
        >>> len(short_repr("high" * 1000))
        80
    """
    try:
        text = repr(value[:LONGEST]) if isinstance(value, str | bytes) else _REPR.repr(value)
    except (ValueError, RecursionError):  # integers of thousands of digits, nesting of thousands of levels
        return "a number of thousands of digits" if isinstance(value, int) else f"<{type(value).__name__}>"
    cut = len(text) > LONGEST or (isinstance(value, str | bytes) and len(value) > LONGEST)
    return text[: LONGEST - 3] + "..." if cut else text


def raise_invalid(argument: str, rule: str, value: object, kind: type[Exception] = ValueError) -> NoReturn:
    """Raise an error for an argument that breaks a rule, with the argument, the rule and the shortened value."""
    raise kind(f"`{argument}` {rule}, got {value if isinstance(value, Plain) else short_repr(value)}")


def suggest_name(name: str, known_names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar known name, or "".

    Example:
        >>> from torch_ap.core.base.messages import suggest_name
        >>> suggest_name("scroe", ["id", "score"])
        "; did you mean 'score'?"
    """
    folded = {known.casefold(): known for known in known_names}
    matches = get_close_matches(name[:LONGEST].casefold(), list(folded), 1, _ALIKE)
    return f"; did you mean {short_repr(folded[matches[0]])}?" if matches else ""


def suggest_measure(name: str, known_names: Iterable[str]) -> str:
    """Return :func:`suggest_name` for measures; ``name@k`` or ``name_k`` among the known names is any rank.

    Example:
        >>> from torch_ap.core.base.messages import suggest_measure
        >>> suggest_measure("ndgc10", ["ap", "ndcg", "ndcg@k"])
        "; did you mean 'ndcg@10'?"
    """
    kind = re.sub("[0-9.]+$", "k", name)
    rank = name[len(kind) - 1 :] if kind != name else ""
    hint = suggest_name(kind, known_names)
    return re.sub(r"(?<=[@_])k(?='\?$)", rank, hint) if rank.isdigit() and 0 < int(rank[:19]) < 1 << 62 else hint


def suggest_id(unknown: object, known_ids: Iterable[object]) -> str:
    """Return the end of a message about an unknown id: the most similar text id, else the first known ids.

    Example:
        >>> from torch_ap.core.base.messages import suggest_id
        >>> suggest_id("img1", ["img_1", "img_2"]), suggest_id(7, range(42, 50))
        ("; did you mean 'img_1'?", '; known are 42, 43, 44, ...')
    """
    ids = list(known_ids)
    texts = [x for x in ids if isinstance(x, str)]
    suggestion = suggest_name(str(unknown), texts) if len(texts) == len(ids) else ""
    if suggestion or not ids:
        return suggestion
    return f"; known are {', '.join(map(short_repr, ids[:_FEW]))}{', ...' if len(ids) > _FEW else ''}"


def escape_unprintable(line: str) -> str:
    r"""Return a line with escapes for invisible characters, because some of them are commands of a terminal.

    Control characters, line ends, surrogates and marks of direction are escaped.

    Example:
        >>> from torch_ap.core.base.messages import escape_unprintable
        >>> print(escape_unprintable("cat\x1b[2J"))
        cat\x1b[2J
    """
    return line if line.isprintable() else "".join(map(_escape, line))


def _escape(character: str) -> str:
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode("ascii")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, on process 0 only, at the line that called this package."""
    from torchmetrics.utilities.prints import rank_zero_only

    if getattr(rank_zero_only, "rank", 0):
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


_WARNS_OF_REASONS = ContextVar("_WARNS_OF_REASONS", default=True)
_REASONS: ContextVar[list[str] | None] = ContextVar("_REASONS", default=None)  # of the current call


def warn_of_reason(argument: str, reason: str) -> None:
    """Warn about an argument whose result contains the reason, unless inside :func:`without_reasons`.

    Inside :func:`distinct_reasons`, the first of equal reasons warns.
    """
    reasons = _REASONS.get()
    is_new = reasons is None or reason not in reasons
    if reasons is not None and is_new:
        reasons.append(reason)
    if is_new and _WARNS_OF_REASONS.get():
        warn_caller(f"`{argument}`: {reason}", UserWarning)


@contextmanager
def distinct_reasons() -> Iterator[list[str]]:
    """Warn of equal reasons once, for one result from several systems, and collect the reasons in a list."""
    reasons: list[str] = []
    token = _REASONS.set(reasons)
    try:
        yield reasons
    finally:
        _REASONS.reset(token)


@contextmanager
def without_reasons() -> Iterator[None]:
    """Turn off :func:`warn_of_reason`, for results that a logger computes in every epoch."""
    token = _WARNS_OF_REASONS.set(False)
    try:
        yield
    finally:
        _WARNS_OF_REASONS.reset(token)
