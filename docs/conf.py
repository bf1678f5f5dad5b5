"""Sphinx configuration of the site (`tools/docs.sh`).

The source folder is the repository itself, so that links between pages, examples and measurements work on the site and
on the repository's host. The menu of the site comes from docs/index.md.
"""

import re
import runpy
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).parent.parent

project = "torch_ap"
release = runpy.run_path(str(ROOT / "torch_ap" / "_version.py"))["__version__"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]

root_doc = "docs/index"
include_patterns = ["docs/**.md", "docs/**.rst", "benchmarks/coverage.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "build", "docs/templates"]
nitpicky = True  # an unresolved role is a warning, which tools/docs.sh makes an error
nitpick_ignore_regex = [
    ("py:.*", r"(torch|torchmetrics|numpy|collections|pathlib)\..*|Tensor|TorchMetricsUserError"),
    ("py:class", r"torch_ap\.inference\.groups_at_threshold\.ItemGroups"),  # an attribute of curves, without a page
]

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3

templates_path = [
    str(ROOT / "docs" / "templates")
]  # Sphinx resolves some paths from the source folder, others from here
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings contain type, shape and range
autodoc_member_order = "bysource"
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"torch_ap {release}"
html_static_path = ["static", str(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf")]
html_css_files = ["site.css"]
html_copy_source = False
copybutton_prompt_text = "$ "  # only commands are copied, without their output
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}  # the root of the site leads to docs/index.html
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7cb8ff", "color-brand-content": "#7cb8ff"},
}


def add_menu(_: Sphinx, page: str, source: list[str]) -> None:
    """Make the menu from the list of pages in docs/index.md, with a part for each heading and the links' texts."""
    if page != root_doc:
        return
    for part in source[0].partition("\n## All pages\n")[2].split("\n### ")[1:]:
        links = re.findall(r"^- \[([^]]+)\]\(([\w./-]+)\.(?:md|rst)\)", part, re.MULTILINE)
        lines = "\n".join(f"{text} </docs/{target}>" for text, target in links).replace("/docs/../", "/")
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {part.splitlines()[0]}\n\n{lines}\n```\n"


def show_picture(_: Sphinx, kind: str, name: str, __: Any, ___: Any, lines: list[str]) -> None:
    """Add the picture in docs/pictures with the name of a function to its docstring."""
    for path in (ROOT / "docs" / "pictures").glob(f"{name.rpartition('.')[2]}.*") if kind == "function" else ():
        lines += ["", f".. image:: /{path.relative_to(ROOT).as_posix()}", f"   :alt: example of `{name}`", ""]
        lines += [":doc:`/docs/plots` has the code of this picture and others.", ""]


def whole_sentence(_: Sphinx, __: str, ___: str, ____: Any, _____: Any, lines: list[str]) -> None:
    """Restore the text before the first colon of a property's docstring, which Napoleon reads as a type."""
    for place, line in enumerate(lines):
        if line.startswith(":type: "):
            lines[0] = f"{line.removeprefix(':type: ')}: {lines[0]}"
            del lines[place]
            return


def is_not_ours(_: Sphinx, __: str, ___: str, thing: Any, skip: bool, ____: Any) -> bool:
    """Whether to skip a member: classes are shown without members of torchmetrics and torch."""
    inner = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
    return skip or not str(getattr(inner, "__module__", "")).startswith(project)


def find_public(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Element | None:
    """Resolve references to defining modules to the pages of the public modules that export the names."""
    python, target = env.domains.python_domain, node["reftarget"]
    for tail in (target, target.rpartition(".")[2]):
        found = [name for name in python.objects if name.endswith(f".{tail}")]
        if len(found) == 1:
            return python.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, text)
    if node["reftype"] == "mod" and target.startswith("torch_ap.") and find_spec(target):
        return text  # a module behind the public ones
    return None


def link_names(app: Sphinx, page: nodes.document, name: str) -> None:
    """Link public names that are code in a text: `curves.hit_curve(preds, target)`."""
    objects = app.env.domains.python_domain.objects
    for code in list(page.findall(nodes.literal)):
        said = code.astext().partition("(")[0]
        found = next((objects[x] for x in (f"{project}.{said}", said) if x in objects), None)
        if found and not isinstance(code.parent, nodes.reference):
            address = f"{app.builder.get_relative_uri(name, found.docname)}#{found.node_id}"
            code.replace_self(nodes.reference("", "", code.deepcopy(), refuri=address, internal=True))


def open_only_here(_: Sphinx, __: str, ___: str, context: dict[str, Any], ____: Any) -> None:
    """List the functions of a module only in the menu of its own pages; more would take most of the build time."""
    if whole := context.get("toctree"):
        context["toctree"] = lambda **settings: whole(**{**settings, "collapse": True})


def as_mathml(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """Convert formulas to MathML, which browsers draw with the font of the site."""
    formula, display = node.astext(), "block" if isinstance(node, nodes.math_block) else "inline"
    if "&" in formula:  # aligned lines, for which the converter supports only this name
        formula = rf"\begin{{align*}}{re.sub(r'.(begin|end){aligned}', '', formula)}\end{{align*}}"
    writer.body.append(convert(formula, display=display))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the event handlers, as Sphinx requires."""
    app.connect("source-read", add_menu)
    app.connect("autodoc-process-docstring", whole_sentence, priority=600)
    app.connect("autodoc-process-docstring", show_picture)
    app.connect("autodoc-skip-member", is_not_ours)
    app.connect("missing-reference", find_public)
    app.connect("doctree-resolved", link_names)
    app.connect("html-page-context", open_only_here, priority=400)
    app.add_html_math_renderer("mathml", (as_mathml, None), (as_mathml, None))
    app.config.html_math_renderer = "mathml"
