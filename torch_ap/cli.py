"""The command ``torch-ap``: average precision of files.

Exit status: 0, or 2 with one line on standard error when an argument or a file is wrong.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from torch_ap._version import __version__
from torch_ap.commands import trec

_COMMANDS = (trec,)


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Complain and exit with status 2."""
        sys.exit(_fail(f"{message}; see {self.prog} --help"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: of the command line; None for those of this process.

    Returns:
        The exit status.
    """
    parser = _Parser(prog="torch-ap", description="Average precision of files.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(subparsers)
    given = parser.parse_args(arguments)
    try:
        status: int = given.run(given)
    except OSError as error:
        status = _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ValueError, ModuleNotFoundError) as error:
        status = _fail(str(error))
    return status


def _fail(message: str) -> int:
    sys.stderr.write(f"torch-ap: {' '.join(message.split())}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
