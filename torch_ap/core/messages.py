"""How messages show what they complain about."""

import reprlib

LONGEST = 80
_REPR = reprlib.Repr()
_REPR.maxlevel = 2
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxother = _REPR.maxstring = _REPR.maxlong = LONGEST + 1


def shown(value: object) -> str:
    """The ``repr`` of a value, cut to 80 characters, in time that does not grow with the value.

    Example:
        >>> from torch_ap.core.messages import shown
        >>> shown("high")
        "'high'"
        >>> len(shown("high" * 1000))
        80
    """
    try:
        text = repr(value[:LONGEST]) if isinstance(value, str | bytes) else _REPR.repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, nesting of thousands of levels
        return f"<{type(value).__name__}>"
    cut = len(text) > LONGEST or (isinstance(value, str | bytes) and len(value) > LONGEST)
    return text[: LONGEST - 3] + "..." if cut else text
