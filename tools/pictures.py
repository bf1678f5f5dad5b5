"""Draw the pictures of the pages again. The block of code above a picture draws it; reports are photographed.

Run: python -m tools.pictures  (needs Chromium, and the extras `plot` and `test`, whose packages the pages use)
"""

import io
import re
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
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


def write_reports(folder: Path) -> Iterator[tuple[Path, str, Path]]:
    """Write the reports of two examples, and yield each with the heading where its picture begins, and the picture."""
    from torch_ap import BinaryAveragePrecision, report

    preds, target = runpy.run_path(str(ROOT / "examples" / "compare_models.py"))["scores"]()
    metrics = {name: BinaryAveragePrecision() for name in preds}
    for name, metric in metrics.items():
        metric.update(preds[name], target)
    first, second = metrics.values()
    path = report(first, folder / "8.html", other=second, system_names=tuple(metrics), title="Digits: is it an 8?")
    yield path, "Digits", PICTURES / "report.webp"
    names: dict[str, Any] = {}
    exec(next(blocks(ROOT / "docs" / "detection_errors.md"))[1], names)
    path = report(names["metric"], folder / "cats.html", title="Cats and dogs", n_resamples=200)
    yield path, "Images and errors", PICTURES / "report_detector.webp"


def photograph_reports() -> None:
    """Save a part of two reports as a browser shows them."""
    from PIL import Image

    from tests.support.browser import chromium

    width, height = 860, 1280
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=1.5)
        for path, heading, picture in write_reports(Path(folder)):
            page.goto(path.as_uri())
            top = page.get_by_role("heading", name=heading).first.bounding_box()["y"] - 20
            clip = {"x": 0, "y": max(top, 0), "width": width, "height": height}
            png = page.screenshot(full_page=True, clip=clip)
            Image.open(io.BytesIO(png)).convert("RGB").save(picture, quality=75, method=6)
            print(picture.relative_to(ROOT), file=sys.stderr)


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
    photograph_reports()


if __name__ == "__main__":
    main()
