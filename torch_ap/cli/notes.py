"""Output of a command: results on standard output, notes on standard error.

Text from files is escaped before it reaches a terminal (:func:`torch_ap.core.base.messages.escape_unprintable`), as are
characters that the encoding of the stream lacks.
"""

import json
import os
import re
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch_ap.core.base.messages import escape_unprintable

OUTPUT = "standard output"
_STANDARD_INPUT = "standard input"
_MAX_PATH = 200  # characters; all other values in messages are cut to 80
_WORDS = {"interpolation": "interpolated ap", "top_k": "k"}  # for commands without these options
_OPTIONS = {"groups": "cluster", "ties": "convention"}  # options with other names than their arguments
_OF_PYTHON = " `validate_args=False` turns this check off."  # no command has this argument


def emit(lines: Iterable[str]) -> None:
    """Write lines of results on standard output.

    Raises:
        ValueError: if it is closed.
        OSError: if it cannot be written; the file name of the error is ``OUTPUT``.
    """
    if sys.stdout is None:
        raise ValueError(f"{OUTPUT} is closed")
    text = "".join(f"{escape_unprintable(line)}\n" for line in lines)
    try:
        sys.stdout.write(_encodable(text, sys.stdout))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, OUTPUT) from None


def emit_json(value: Any) -> None:
    """Write JSON on standard output, in ASCII."""
    emit(json.dumps(value, indent=2).replace("\x7f", "\\u007f").split("\n"))


def file_name(path: str) -> str:
    """Return the name of a file in results; "-" is standard input."""
    return _STANDARD_INPUT if path == "-" else path


def unique_suffix(path: str, others: Collection[str]) -> str:
    """Return the shortest end of a path that no other path ends in, in whole parts."""
    parts, rest = Path(path).parts, [Path(x).parts for x in others]
    for count in range(1, len(parts)):
        if not any(x[-count:] == parts[-count:] for x in rest):
            return str(Path(*parts[-count:]))
    return file_name(path)


def is_same_file(first: str, second: str) -> bool:
    """Whether two paths lead to the same file."""
    return os.path.realpath(first) == os.path.realpath(second)


def to_option_names(message: str, options: Collection[str]) -> str:
    """Replace the names of arguments in a message of the library by the options of a command.

    Args:
        message: text with arguments as ```name``` or ```name='value'```.
        options: names of the command's options, as ``n_resamples``.
    """

    def option(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in options and _OPTIONS.get(name) in options:
            name = _OPTIONS[name]
        if name not in options:
            return match[0] if value else _WORDS.get(name, match[0])
        return f"--{name.replace('_', '-')}{f' {value}' if value else ''}"

    message = re.sub(r"`(\w+)(?:='([\w-]+)')?`", option, message.replace(_OF_PYTHON, ""))
    message = re.sub(
        r"^([^`]+?) must be None (?:for|with) (.+?)(?:, got [^;]*)?(?=;|$)", r"\1 cannot be combined with \2", message
    )
    return re.sub(r"^(--\S+ must be )None or a list of ", r"\1", message)  # an option is never None


def shorten(text: str) -> str:
    """Return a text with at most 200 characters, by leaving out the middle."""
    return text if len(text) <= _MAX_PATH else f"{text[: _MAX_PATH // 2]}...{text[3 - _MAX_PATH // 2 :]}"


def note(message: str) -> None:
    """Write a message on standard error, as one line; a leading "-" becomes "standard input", long paths are cut."""
    message = re.sub("^-(?=[:,] )", _STANDARD_INPUT, message)
    message = re.sub(rf"\S{{{_MAX_PATH + 1},}}", lambda path: shorten(path[0]), message)
    if sys.stderr is not None:
        with suppress(OSError):  # no other place could report it
            sys.stderr.write(_encodable(f"torch-ap: {escape_unprintable(' '.join(message.split()))}\n", sys.stderr))


def save_picture(ax: Any, path: str) -> None:
    """Write the figure of matplotlib's axes to a file, and note it."""
    from matplotlib import pyplot

    ax.figure.savefig(path, bbox_inches="tight")
    pyplot.close(ax.figure)
    note(f"wrote {path}")


def _encodable(text: str, stream: Any) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
