"""The site: landing page, menu, the beginning of each guide, and the structure of the built pages."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.browser import chromium, in_browser
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text()
TASKS = ["Getting started", "Classification", "Search", "Detection", "Uncertainty", "Scale", "Command", "Reference"]
PARTS = ["Choose your task", "Compared with other packages", "Speed", "All pages"]


def pages_by_task():
    """Return the pages in each part of the menu."""
    parts = INDEX.partition("\n## All pages\n")[2].split("\n### ")[1:]
    return {part.splitlines()[0]: re.findall(r"^- \[[^]]+\]\(([\w./-]+)\)", part, re.MULTILINE) for part in parts}


def test_the_menu_lists_every_page_once_by_task():
    listed = [page for pages in pages_by_task().values() for page in pages]
    assert list(pages_by_task()) == TASKS
    assert len(listed) == len({*listed})
    assert {*listed} | {"index.md"} >= {path.name for path in DOCS.iterdir() if path.suffix in (".md", ".rst")}


GUIDES = [page for task, pages in pages_by_task().items() for page in pages if task != "Reference" and "/" not in page]


@pytest.mark.parametrize("guide", GUIDES)
def test_guides_begin_with_a_picture_or_a_result(guide):
    opening = (DOCS / guide).read_text().split("\n## ")[0]
    output = r"^```python\n(?:(?!```).*\n)*(?:print\(.*\)  )?# |^```console"
    assert re.search(rf"^!\[|{output}", opening, re.MULTILINE)


MEASURED = {
    "binary AP of 10⁶ scores, 2% of them positive": ("One ranking", "1e+06, 2%"),
    "AP of 100 classes, 50,000 items": ("One ranking", "multiclass, 100"),
    "MAP of 7,000 queries with 100 documents each": ("MAP of many queries", "7,000 x 100, 10.0%"),
    "COCO's numbers of 5,000 images, 370,000 detections": ("COCO", "5,000"),
}


def rows(text):
    """Return the cells of each row of the tables in a text."""
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_speed_on_the_landing_page_equals_the_page_of_speed():
    sections = (DOCS / "speed.md").read_text().split("\n## ")
    stated = rows(INDEX.partition("\n## Speed\n")[2].partition("\n## ")[0])[2:]
    assert [row[0] for row in stated] == [*MEASURED]
    for name, own, others in stated:
        section, label = MEASURED[name]
        head, _, *table = rows(next(x for x in sections if x.startswith(section)))
        measured = dict(zip(head, next(row for row in table if row[0].removesuffix(" †") == label), strict=True))
        assert own == f"{measured['torch_ap, ms']} ms"
        assert [measured[peer] for peer in re.findall(r"([\w-]+) [\d.]+", others)] == re.findall(r" ([\d.]+)", others)


class Structure(HTMLParser):
    """Headings, links, images, code blocks, captions of the menu and ids of a page."""

    def __init__(self, path):
        super().__init__()
        self.path, self.headings, self.links, self.images, self.ids, self.captions = path, [], [], [], set(), []
        self.scripts, self.searches, self._text = [], 0, None
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        if tag in ("h1", "h2", "h3"):
            self._text = [tag, ""]
        elif given.get("class") == "caption-text":
            self._text = ["caption", ""]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "script" and "src" in given:
            self.scripts.append(given["src"])
        elif tag == "img":
            self.images.append(given)
        self.searches += given.get("name") == "q"

    def handle_data(self, data):
        if self._text:
            self._text[1] += data.replace("¶", "")

    def handle_endtag(self, tag):
        if self._text and tag in ("h1", "h2", "h3", "span"):
            kind, text = self._text
            (self.captions if kind == "caption" else self.headings).append(text if kind == "caption" else (kind, text))
            self._text = None

    def target(self, address):
        """Return the file of an address, and the anchor in it."""
        parts = urlsplit(address)
        return ((self.path.parent / unquote(parts.path)).resolve() if parts.path else self.path), parts.fragment


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site without the reference, which takes most of the time, and return its pages by name."""
    folder = tmp_path_factory.mktemp("site")
    left_out = "docs/reference.rst,docs/reference,docs/templates,benchmarks,CHANGELOG.md,build,.*"
    settings = ["extensions=myst_parser,sphinx.ext.autodoc,sphinx_copybutton", f"exclude_patterns={left_out}"]
    options = [x for setting in settings for x in ("-D", setting)]
    command = [sys.executable, "-m", "sphinx", "-q", "--conf-dir", "docs", *options, ".", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return {path.name: Structure(path) for path in sorted((folder / "docs").glob("*.html"))}


@pytest.mark.slow
def test_built_pages_have_their_structure(site):
    """Check the landing page, and headings, links, images, menu, search and copy buttons of every page."""
    landing = site["index.html"]
    assert [text for kind, text in landing.headings if kind == "h1"] == ["torch_ap"]
    assert [text for kind, text in landing.headings if kind == "h2"] == PARTS
    cards = ["Classification", "Search and recommendation", "Detection"]
    assert [text for kind, text in landing.headings if kind == "h3"] == [*cards, *TASKS]
    assert [Path(image["src"]).stem for image in landing.images] == [
        "compare_models",
        *(f"card_{name}" for name in ("classification", "search", "detection")),
    ]
    assert {"Installation", "Quick start"} <= {text for _, text in site["start.html"].headings}
    assert site["switching.html"].headings[0] == ("h1", "Migration guide")
    for page in site.values():
        assert [kind for kind, _ in page.headings].count("h1") == 1, page.path
        assert page.captions == TASKS
        assert page.searches
        assert any("copybutton.js" in source for source in page.scripts)
        for image in page.images:
            assert image["alt"]
            assert page.target(image["src"])[0].exists()
        for file, anchor in (page.target(x) for x in page.links if not urlsplit(x).scheme):
            assert file.exists(), (page.path, file)
            assert not anchor or file.name not in site or anchor in site[file.name].ids, (page.path, file, anchor)


MEASURES = """() => ({
    width: document.documentElement.scrollWidth,
    broken: [...document.images].filter(x => !x.naturalWidth).map(x => x.src),
    blocks: document.querySelectorAll("div.highlight > pre").length,
    buttons: document.querySelectorAll("div.highlight > button.copybtn").length,
    background: getComputedStyle(document.body).backgroundColor,
    cards: new Set([...document.querySelectorAll("#choose-your-task > section")].map(x => x.offsetTop)).size,
})"""


@in_browser
@pytest.mark.slow
def test_pages_fit_their_window_in_a_browser(site):
    """Check phone and desktop, light and dark: no sideways scrolling, no error, every image, every copy button."""
    folder, backgrounds, messages = site["index.html"].path.parent, set(), []
    with chromium() as browser:
        for width, mode in ((390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=mode)
            page = context.new_page()
            page.on("console", lambda message: messages.append(message.text))
            page.on("pageerror", lambda error: messages.append(str(error)))
            for name in ("index.html", "start.html", "detection.html", "command.html"):
                page.goto((folder / name).as_uri())
                found = page.evaluate(MEASURES)
                assert found["width"] <= width, (name, width)
                assert not found["broken"], (name, found["broken"])
                assert found["blocks"] == found["buttons"], name
                assert name != "index.html" or found["cards"] == (1 if width > 1000 else 3)  # rows of cards
                backgrounds.add((mode, found["background"]))
            context.close()
        page = browser.new_page()
        page.goto((folder.parent / "search.html").as_uri() + "?q=precision_band")
        page.wait_for_selector("#search-results li")
        browser.contexts[0].close()
    assert not messages
    assert len(backgrounds) == 2
