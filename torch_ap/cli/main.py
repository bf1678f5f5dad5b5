"""The command ``torch-ap``: average precision of files.

Exit status: 0, or 2 with one line on standard error when an argument or a file is wrong; 141 when nobody reads standard
output any more, and 130 after an interrupt, as shells say of other programs.

What takes long to import is imported once it is known what to do: help and errors in arguments need no torch.
"""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

from torch_ap._version import __version__
from torch_ap.cli.image_options import add_coco, add_lvis, add_voc
from torch_ap.cli.notes import OUTPUT, emit, in_options, in_words, note
from torch_ap.cli.options import HelpFormatter, add_trec, filled_in
from torch_ap.cli.table_options import add_report, add_score
from torch_ap.rules.messages import LONGEST, shown

_ADD = (add_score, add_report, add_trec, add_coco, add_lvis, add_voc)
_EXAMPLES = (
    "Examples:\n"
    "  torch-ap score predictions.csv --preds score --target label --interval\n"
    "  torch-ap report predictions.csv --preds score --target label -o report.html\n"
    "  torch-ap trec qrels.txt run.txt -m map -m P@10\n"
    "  torch-ap coco annotations.json results.json --per-class\n"
    "  torch-ap lvis lvis_v1_val.json results.json --fixed\n"
    "  torch-ap voc annotations detections\n\n"
    "Each COMMAND has its --help. Results are text, or --json, --csv or --markdown."
)
_PIPE_CLOSED, _INTERRUPTED = 141, 130


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        short = re.sub(rf"'[^']{{{LONGEST},}}'|\S{{{LONGEST},}}", lambda found: shown(found[0].strip("'")), message)
        sys.exit(_fail(f"{short}; see {self.prog} --help"))

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002
        """Write help or version on standard output; argparse's own way passes over errors in silence."""
        emit(message.removesuffix("\n").split("\n"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: of the command line; None for those of this process.

    Returns:
        The exit status.
    """
    try:
        try:
            return _status(lambda: _run(arguments))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return _PIPE_CLOSED
    except OSError as error:  # a full disk
        _discard_output()
        return _fail(f"{OUTPUT}: {error.strerror}")


def _run(arguments: Sequence[str] | None) -> int:
    said = "Average precision of what files hold: tables of scores, runs of search engines, detections."
    parser = _Parser(prog="torch-ap", description=said, epilog=_EXAMPLES, formatter_class=HelpFormatter)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in _ADD:
        add(subparsers)
    given = filled_in(parser.parse_args(arguments))
    if sys.stdout is None:
        raise ValueError(f"{OUTPUT} is closed")
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _note_warning
        try:
            status: int = import_module(f"torch_ap.cli.{given.command}").run(given)
        except ValueError as error:
            raise ValueError(in_options(str(error), _options(subparsers.choices[given.command]))) from error
    return status


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a command, as arguments of functions are written."""
    words = (word for action in parser._actions for word in action.option_strings)
    return {word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")}


def _note_warning(message: Warning | str, *_: object, **__: object) -> None:
    """One line for a warning to users; none for a warning of one library to the authors of another."""
    if not isinstance(message, DeprecationWarning):
        note(in_words(str(message)))


def _status(run: Callable[[], int]) -> int:
    """Run; what is wrong with arguments or files becomes a line."""
    try:
        return run()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename == OUTPUT:
            raise
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error))
    except (ValueError, ModuleNotFoundError) as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("not enough memory for these files")
    except KeyboardInterrupt:
        return _INTERRUPTED


def _discard_output() -> None:
    """Let nothing be written when the process ends: it could only fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no file of the system's: a caller's own stream
        return


def _fail(message: str) -> int:
    note(message)
    return 2
