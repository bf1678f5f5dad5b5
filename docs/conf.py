"""How Sphinx builds the site (`tools/docs.sh`).

The source folder is the repository itself: pages link to one another, to examples and to measurements as they do on the
repository's host, and nothing has to be written twice. What the site's menu lists is what docs/index.md lists.
"""

import re
import runpy
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent

project = "torch_ap"
author = "the authors of torch_ap"
release = runpy.run_path(str(ROOT / "torch_ap" / "_version.py"))["__version__"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]

root_doc = "docs/index"
include_patterns = ["docs/**.md", "docs/**.rst", "benchmarks/coverage.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "build", "docs/templates"]
nitpicky = True  # a role that leads nowhere is a warning, and tools/docs.sh makes warnings errors

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3

templates_path = ["templates"]
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say type, shape and range
autodoc_member_order = "bysource"
napoleon_use_rtype = False
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"torch_ap {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_additional_pages = {"index": "redirect.html"}  # the root of the site leads to docs/index.html
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7cb8ff", "color-brand-content": "#7cb8ff"},
}


def add_menu(_: Sphinx, page: str, source: list[str]) -> None:
    """Make the menu of what docs/index.md links to: a part for each of its headings."""
    if page != root_doc:
        return
    for part in source[0].split("\n## ")[1:]:
        pages = re.findall(r"\]\(([\w./-]+)\.(?:md|rst)\)", part)
        lines = "\n".join(f"/{(Path('docs') / target).as_posix()}" for target in pages).replace("/docs/../", "/")
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {part.splitlines()[0]}\n\n{lines}\n```\n"


def picture_of(name: str) -> str:
    """Where the picture of a public function lies, if it has one."""
    found = sorted((ROOT / "docs" / "pictures").glob(f"{name.removeprefix('torch_ap.')}.*"))
    return found[0].relative_to(ROOT).as_posix() if found else ""


def show_picture(_: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    if path := picture_of(name):
        lines += ["", f".. image:: /{path}", f"   :alt: what {name} draws", ""]


def as_mathml(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """Browsers draw MathML themselves: no script and no font is fetched."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    writer.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_menu)
    app.connect("autodoc-process-docstring", show_picture)
    app.add_html_math_renderer("mathml", (as_mathml, None), (as_mathml, None))
    app.config.html_math_renderer = "mathml"
