"""The command ``torch-ap``: average precision of files.

The exit status is 0; 1 if a gate (:mod:`torch_ap.cli.gates`) fails, 3 if a gate is undecided and none fails; 2 with one
line on standard error if an argument or a file is invalid; 141 if the reader of standard output has closed it, and 130
after an interrupt, as for shells.

Slow imports wait until a command runs: help and errors in arguments do not import torch.
"""

import gc
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from torch_ap._version import __version__
from torch_ap.cli.image_options import add_coco, add_lvis, add_voc
from torch_ap.cli.notes import OUTPUT, note, shorten, to_option_names
from torch_ap.cli.options import Parser, add_plan, add_trec, fill_in_defaults
from torch_ap.cli.table_options import add_explain, add_report, add_score

_ADD = (add_score, add_report, add_trec, add_coco, add_lvis, add_voc, add_explain, add_plan)
_EXAMPLES = (
    "Examples:\n"
    "  torch-ap score predictions.csv --preds score --target label --interval\n"
    "  torch-ap report predictions.csv --preds score --target label -o report.html\n"
    "  torch-ap trec qrels.txt run.txt -m map -m P@10\n"
    "  torch-ap coco annotations.json results.json --per-class\n"
    "  torch-ap lvis lvis_v1_val.json results.json --fixed\n"
    "  torch-ap voc annotations detections\n"
    "  torch-ap explain predictions.csv --preds score --target label --reported 0.7833\n\n"
    "Each COMMAND has its --help. Results are text, or --json, --csv or --markdown."
)
_PIPE_CLOSED, _INTERRUPTED = 141, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: words of the command line; None for the arguments of this process.

    Returns:
        The exit status.
    """
    try:
        try:
            return _run_with_status(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return _PIPE_CLOSED
    except OSError as error:  # a full disk
        _discard_output()
        return _fail(f"{OUTPUT}: {error.strerror}")


def _run_with_status(arguments: Sequence[str] | None) -> int:
    """Run the command and return its status; errors in arguments and files become one line."""
    try:
        return _run(arguments)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename == OUTPUT:
            raise
        path = shorten(str(error.filename or ""))
        return _fail(f"{path}: {error.strerror}" if path else error.strerror or str(error))
    except (ValueError, ModuleNotFoundError) as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("not enough memory for these files")
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    description = "Average precision from files: tables of scores, runs of search engines, detections."
    parser = Parser(prog="torch-ap", description=description, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in _ADD:
        add(subparsers)
    args = fill_in_defaults(parser.parse_args(arguments))
    if sys.stdout is None:
        raise ValueError(f"{OUTPUT} is closed")
    words = (word for action in subparsers.choices[args.command]._actions for word in action.option_strings)
    args.option_names = {word[2:].replace("-", "_") for word in words if word.startswith("--")}

    shown = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        """Write a warning as one line, once; deprecations concern the authors of libraries only."""
        text = to_option_names(str(message), args.option_names)
        if not isinstance(message, DeprecationWarning) and text not in shown:
            shown.add(text)
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            status: int = _import_command(args.command).run(args)
        except ValueError as error:
            raise ValueError(to_option_names(str(error), args.option_names)) from error
    return status


def _import_command(name: str) -> Any:
    """Return the module of a command.

    Imports in a new process create a million objects and no garbage, so that collections only take time.
    """
    is_new = "torch" not in sys.modules and gc.isenabled()
    if is_new:
        gc.disable()
    try:
        return import_module(f"torch_ap.cli.{name}")
    finally:
        if is_new:
            gc.freeze()
            gc.enable()


def _discard_output() -> None:
    """Redirect standard output, so that the flush at exit cannot fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a caller's own stream without a file descriptor
        return


def _fail(message: str) -> int:
    note(message)
    return 2
