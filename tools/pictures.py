"""Draw the pictures of the pages again. The block of code above a picture draws it.

Run: python -m tools.pictures  (needs the extras `plot` and `test`, whose packages the pages use)
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

ROOT = Path(__file__).parent.parent
STYLE = {
    "axes.prop_cycle": plt.cycler(color=["#0072B2", "#D55E00", "#009E73", "#CC79A7"]),  # Okabe & Ito
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (7, 3.6),
    "font.size": 10,
    "svg.hashsalt": "torch_ap",  # equal pictures give equal files
}
PAGE_STYLES = {"index": {"figure.figsize": (4.2, 3.2), "savefig.dpi": 160}}  # pictures in narrow columns


def blocks(page: Path) -> Iterator[tuple[str, str, Path | None]]:
    """Yield the executed blocks of a page: "python" or "console", the code, and the picture below it, if any."""
    pattern = r"^```(python|console)\n(.*?)^```|^!\[[^]]*\]\((pictures/\S+)\)"
    found = re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for (kind, code, _), (_, _, picture) in zip(found, [*found[1:], ("", "", "")], strict=False):
        if kind:
            yield kind, code, page.parent / picture if picture else None


def current_figure() -> Figure:
    """Return the only open figure, or raise ValueError."""
    (number,) = plt.get_fignums()
    return plt.figure(number)


def main() -> None:
    """Draw the pictures of all pages."""
    mpl.use("agg")
    for page in sorted((ROOT / "docs").glob("*.md")):
        names: dict[str, object] = {}
        steps = list(blocks(page))
        last = max((place for place, (_, _, path) in enumerate(steps) if path), default=-1)
        with mpl.rc_context(STYLE | PAGE_STYLES.get(page.stem, {})):
            for _, code, path in steps[: last + 1]:
                exec(code, names)
                if path:
                    current_figure().savefig(path, metadata={"Date": None})
                    print(path.relative_to(ROOT), file=sys.stderr)
                plt.close("all")


if __name__ == "__main__":
    main()
