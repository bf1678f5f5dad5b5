"""The code of pages, and its output."""

import re
import shlex

from matplotlib import pyplot

from tools.pictures import blocks
from torch_ap.cli import main


def printed(block):
    """Return the output in the comments of a block: after the call, or in the lines below it."""
    found = (re.match(r"(?:print\(.*\)\s+)?# (.*)", line) for line in block.splitlines())
    return [match[1] for match in found if match]


def _rounded(text):
    """Round numbers of full precision to ten digits: the last digits of a quantile depend on the version of SciPy."""
    return [re.sub(r"\b\d\.\d{12,}\b", lambda match: f"{float(match[0]):.10g}", line) for line in text.splitlines()]


def execute(page, capsys):
    """Run the Python and the terminal blocks of a page, and compare their output and the number of figures."""
    names = {}
    for kind, block, picture in blocks(page):
        if kind == "python":
            exec(block, names)
            assert capsys.readouterr().out.splitlines() == printed(block)
        else:
            command, *lines = block.splitlines()
            main.main(shlex.split(command.removeprefix("$ torch-ap ")))
            said = capsys.readouterr()
            assert _rounded(said.err + said.out) == _rounded("\n".join(lines))
        assert len(pyplot.get_fignums()) == (picture is not None)
        pyplot.close("all")
