"""How messages show what they complain about."""

import re
import reprlib
import sys
import unicodedata
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

LONGEST = 80


class Plain(str):
    """What a message says as it is: a shape, a dtype, words."""

    __slots__ = ()


_ALIKE = 0.65  # of difflib; its own 0.6 finds "map_cut_k" for "ndcg_cut_k"
_FEW = 3  # ids that are told where none is like the one that is not known
_JOINERS = "\u200c\u200d"  # parts of words in Persian and Hindi, and of emojis
_NOBODYS = ("torch_ap", "torch", "torchmetrics", "contextlib", "numpy")  # packages whose lines are not the caller's
_REPR = reprlib.Repr()
_REPR.maxlevel = 2
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxother = _REPR.maxstring = _REPR.maxlong = LONGEST + 1


def shown(value: object) -> str:
    """The ``repr`` of a value, cut to 80 characters, in time that does not grow with the value.

    Example:
        >>> from torch_ap.rules.messages import shown
        >>> shown("high")
        "'high'"
        >>> len(shown("high" * 1000))
        80
    """
    try:
        text = repr(value[:LONGEST]) if isinstance(value, str | bytes) else _REPR.repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, nesting of thousands of levels
        return "a number of thousands of digits" if isinstance(value, int) else f"<{type(value).__name__}>"
    cut = len(text) > LONGEST or (isinstance(value, str | bytes) and len(value) > LONGEST)
    return text[: LONGEST - 3] + "..." if cut else text


def refuse(argument: str, rule: str, value: object, kind: type[Exception] = ValueError) -> NoReturn:
    """Raise for an argument that breaks a rule: it, the rule, and the value, cut short."""
    raise kind(f"`{argument}` {rule}, got {value if isinstance(value, Plain) else shown(value)}")


def nearest(given: str, known: Iterable[str]) -> str:
    """What a message adds where a name is not known: the one that is most like it; "" where none is.

    Example:
        >>> from torch_ap.rules.messages import nearest
        >>> nearest("scroe", ["id", "score"])
        "; did you mean 'score'?"
    """
    plain = {name.casefold(): name for name in known}
    found = get_close_matches(given[:LONGEST].casefold(), list(plain), 1, _ALIKE)
    return f"; did you mean {shown(plain[found[0]])}?" if found else ""


def nearest_measure(given: str, known: Iterable[str]) -> str:
    """:func:`nearest` of measures, of which those at a rank are known as ``name@k`` or ``name_k``.

    Example:
        >>> from torch_ap.rules.messages import nearest_measure
        >>> nearest_measure("ndgc10", ["ap", "ndcg", "ndcg@k"])
        "; did you mean 'ndcg@10'?"
    """
    kind = re.sub("[0-9.]+$", "k", given)
    rank = given[len(kind) - 1 :] if kind != given else ""
    meant = nearest(kind, known)
    return re.sub(r"(?<=[@_])k(?='\?$)", rank, meant) if rank.isdigit() and 0 < int(rank[:19]) < 1 << 62 else meant


def known_ids(given: object, known: Iterable[object]) -> str:
    """What a message adds where an id is not known: the text that is most like it, else the first of those that are.

    Example:
        >>> from torch_ap.rules.messages import known_ids
        >>> known_ids("img1", ["img_1", "img_2"]), known_ids(7, range(42, 50))
        ("; did you mean 'img_1'?", '; known are 42, 43, 44, ...')
    """
    ids = list(known)
    texts = [x for x in ids if isinstance(x, str)]
    near = nearest(str(given), texts) if len(texts) == len(ids) else ""
    if near or not ids:
        return near
    return f"; known are {', '.join(map(shown, ids[:_FEW]))}{', ...' if len(ids) > _FEW else ''}"


def printable(line: str) -> str:
    r"""A line with escapes for what would not be seen as written: control characters, ends of lines, surrogates, marks
    of direction. A terminal would obey some of them.

    Example:
        >>> from torch_ap.rules.messages import printable
        >>> print(printable("cat\x1b[2J"))
        cat\x1b[2J
    """
    return line if line.isprintable() else "".join(map(_escaped, line))


def _escaped(character: str) -> str:
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode("ascii")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, on the first rank alone, at the line that called this package."""
    from torchmetrics.utilities.prints import rank_zero_only

    if getattr(rank_zero_only, "rank", 0):
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOBODYS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
