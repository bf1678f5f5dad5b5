"""The command ``torch-ap``: assembles its sub-commands, which live in ``torch_ap.commands``."""

import argparse
import sys
from collections.abc import Sequence

from torch_ap.commands import coco, voc

_COMMANDS = (coco, voc)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; what is wrong with its files is said in one line, with exit code 2."""
    parser = argparse.ArgumentParser(prog="torch-ap", description="Average precision of finished runs")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(subparsers)
    args = parser.parse_args(argv)
    try:
        code: int = args.run(args)
    except (OSError, ValueError, ModuleNotFoundError) as reason:
        print(f"torch-ap: {reason}", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
