"""What a command writes: its results on standard output, and lines beside them on standard error.

Nothing of a file reaches a terminal as it is: see :func:`torch_ap.rules.messages.printable`. What the encoding of the
stream lacks is written with escapes too.
"""

import json
import re
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch_ap.rules.messages import printable

OUTPUT = "standard output"
_STANDARD_INPUT = "standard input"


def emit(lines: Iterable[str]) -> None:
    """Write lines of results on standard output.

    Raises:
        ValueError: if it is closed.
        OSError: if it cannot be written; the error's file is ``OUTPUT``.
    """
    if sys.stdout is None:
        raise ValueError(f"{OUTPUT} is closed")
    encoding = sys.stdout.encoding or "utf-8"
    text = "".join(f"{printable(line)}\n" for line in lines)
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, OUTPUT) from None


def emit_json(value: Any) -> None:
    """Write JSON on standard output, in ASCII."""
    emit(json.dumps(value, indent=2).replace("\x7f", "\\u007f").split("\n"))


def named(path: str) -> str:
    """What a file is called; "-" is standard input."""
    return _STANDARD_INPUT if path == "-" else path


def end_of(path: str, others: Collection[str]) -> str:
    """The last parts of a path, as many as no other path ends in."""
    parts, rest = Path(path).parts, [Path(x).parts for x in others]
    for count in range(1, len(parts)):
        if not any(x[-count:] == parts[-count:] for x in rest):
            return str(Path(*parts[-count:]))
    return named(path)


def in_words(message: str) -> str:
    """What a function says of its arguments, in the names of the command's options."""
    message = re.sub(r"`(\w+)='([\w-]+)'`", r"--\1 \2", message)
    for name, word in (("interpolation", "interpolated ap"), ("top_k", "k")):
        message = message.replace(f"`{name}`", word)
    return re.sub(r"`(\w+)`", lambda found: _as_option(found[1]), message)


def in_options(message: str, options: Collection[str]) -> str:
    """The same, word for word, of those arguments alone that a command has as options."""
    told = re.sub(r"`(\w+)`", lambda found: _as_option(found[1]) if found[1] in options else found[0], message)
    return re.sub(r"^(--\S+ must be )None or a list of ", r"\1", told)  # which nobody writes there


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def note(message: str) -> None:
    """Write a message on standard error, as one line; "-" before it is standard input."""
    message = re.sub("^-(?=[:,] )", _STANDARD_INPUT, message)
    if sys.stderr is not None:
        encoding = sys.stderr.encoding or "utf-8"
        text = f"torch-ap: {printable(' '.join(message.split()))}\n"
        with suppress(OSError):  # there is no other place to say so
            sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
