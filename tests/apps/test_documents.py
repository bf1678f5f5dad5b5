"""The README and the pages show the output of their code."""

import inspect
import re
from importlib.metadata import version

import pytest
from matplotlib import pyplot

import torch_ap.inference
from tests.support.pages import execute, printed
from tests.support.paths import ROOT
from tools.pictures import blocks
from torch_ap.classification import item_sample
from torch_ap.detection.inference.resampled import METHODS as UNIT_METHODS
from torch_ap.detection.inference.resampled import image_interval
from torch_ap.detection.metrics import image_sample
from torch_ap.inference import (
    OperatingPoint,
    average_precision_interval,
    compare_decisions,
    compare_rankings,
    compare_splits,
    compare_systems,
    compare_systems_per_query,
    mean_interval,
    metric,
    precision_at_k_interval,
    recall_at_k_interval,
)
from torch_ap.inference.average_precision import METHODS
from torch_ap.inference.comparison import METHODS as TESTS
from torch_ap.inference.published import METHODS as PUBLISHED
from torch_ap.inference.published import published_interval
from torch_ap.inference.queries import QUERY_METHODS
from torch_ap.retrieval.metrics import query_sample

README = (ROOT / "README.md").read_text()
COVERAGE = (ROOT / "benchmarks" / "coverage.md").read_text()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


DETECTION = ("detection", "detection_errors", "detection_shapes")
SLOW = ("lightning", "switching")  # require other packages
ELSEWHERE = ("runs",)  # tests of the loggers execute the page


@pytest.mark.parametrize(
    "page",
    [pytest.param(x, id=x.stem, marks=[pytest.mark.slow] * (x.stem in SLOW)) for x in PAGES if x.stem not in ELSEWHERE],
)
def test_pages_reproduce_their_output_and_figures(page, capsys, tmp_path, monkeypatch):
    """Run the Python blocks of a page in order, with the names of earlier blocks, and terminal blocks as commands."""
    if page.stem == "switching" and version("torchmetrics") < "1.9":
        pytest.skip("the page shows what torchmetrics 1.9 gives: older ones define AP of one query in another way")
    monkeypatch.chdir(tmp_path)
    execute(page, capsys)


def test_output_of_a_block_is_read_after_calls_and_below_loops():
    assert printed("x = 1  # one\nprint(x)  # 1\nfor y in (1,):\n    print(y)\n# 1\n") == ["1", "1"]


def test_the_picture_of_a_block_is_the_next_one_before_another_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n1\n```\n```python\n2\n```\ntext\n\n![x](pictures/x.svg)\n```console\n3\n```\n")
    drawn = tmp_path / "pictures" / "x.svg"
    assert list(blocks(page)) == [("python", "1\n", None), ("python", "2\n", drawn), ("console", "3\n", None)]
    page.write_text("no blocks")
    assert not list(blocks(page))


FIGURES = re.compile(r"(?<![\w.])\d*\.\d{2,}(?![\w.])")


@pytest.mark.parametrize("name", ["which", "switching", "training", "large", "comparing", "retrieval", *DETECTION])
def test_figures_in_the_text_are_printed_by_a_block(name):
    """Compare numbers to the number of digits in the text."""

    def same(said, shown):
        digits = len(said.split(".")[1])
        return f"{float(said):.{digits}f}" == f"{float(shown):.{digits}f}"

    text = (ROOT / "docs" / f"{name}.md").read_text()
    shown = FIGURES.findall("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    said = FIGURES.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert not [x for x in said if not any(same(x, y) for y in shown)]


def test_the_picture_of_speed_shows_its_table():
    page, names = ROOT / "docs" / "speed.md", {}
    rows = [line.split("|")[3:6] for line in page.read_text().splitlines() if re.match(r"\| 1e\+0\d, 2%", line)]
    exec(next(blocks(page))[1], names)
    pyplot.close("all")
    assert [[float(x) for x in peer] for peer in zip(*rows, strict=True)] == [*names["times"].values()]


# words with an alternative spelling with s; Oxford spelling has z, and centre, colour and grey
WITH_Z = "local|summar|normal|vector|general|minim|maxim|synchron|random|initial|serial|recogn|organ|visual|optim"


def test_words_are_spelled_with_z():
    texts = [*PAGES, *(ROOT / "torch_ap").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    wrong = re.compile(rf"\b\w*({WITH_Z})is(e|es|ed|ing|ation|ations|er)\b(?! Recall Precision)", re.IGNORECASE)
    assert not [(path.name, found[0]) for path in texts for found in wrong.finditer(path.read_text())]


def links(page):
    """Return the targets of the links and images of a page in this repository."""
    pairs = re.findall(r"\]\(([^)#:\s]+)\)|src=\"([^\"]+)\"", page.read_text())
    return [page.parent / target for pair in pairs for target in pair if target]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.stem)
def test_links_lead_somewhere(page):
    assert not [target for target in links(page) if not target.exists()]


def test_every_page_is_reached_from_the_readme():
    reached, ahead = set(), [PAGES[0]]
    while ahead:
        page = ahead.pop().resolve()
        if page not in reached:
            reached.add(page)
            ahead += [x for x in links(page) if x.suffix == ".md"]
    assert not {*PAGES} - reached


def statements():
    """Return every public function and method that quantifies uncertainty."""
    found = {name: getattr(torch_ap.inference, name) for name in torch_ap.inference.__all__}
    for module in (metric, item_sample, query_sample, image_sample):
        names = [x for x in ("confidence_interval", "compare") if x in vars(module)]
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in names}
    return {
        name: thing
        for name, thing in found.items()
        if inspect.isfunction(thing)
        and re.search("(Interval|Comparison|Posterior)(?!Plan)", str(inspect.signature(thing).return_annotation))
    }


@pytest.mark.parametrize("statement", statements().values(), ids=statements())
def test_every_statement_has_the_same_default_design_and_an_estimand(statement):
    parameters = inspect.signature(statement).parameters
    assert "design" not in parameters or parameters["design"].default == "iid"
    assert re.search(r"estimands?\s+(is|are)\s", inspect.getdoc(statement))


def test_the_page_of_uncertainty_names_every_bootstrap_where_it_is():
    page = (ROOT / "docs" / "uncertainty.md").read_text()
    line = page.split("- **The bootstrap** is chosen by `method`")[1].split("\n- ")[0].split("for classification")[1]
    rest, images = line.split("over images")
    items, queries = rest.split("over queries")
    for text, methods in ((items, METHODS), (queries, QUERY_METHODS), (images, UNIT_METHODS)):
        named = set(re.findall(r'"(bootstrap-\w+)"', text))
        assert named == {x for x in methods if x.startswith("bootstrap")}
    for owner, count in ((metric, "1,000"), (query_sample, "10,000")):
        default = inspect.signature(owner.compare).parameters["n_resamples"].default
        assert f"{default:,}" == count
        assert count in images


def test_ci_runs_the_readmes_test_command():
    command = next(line.split("#")[0].strip() for line in README.splitlines() if "&& pytest" in line)
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_version_is_stated_once():
    assert f"## {torch_ap.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def measured(section, *first):
    """Return the cells of the rows of a section of the coverage report that begin with these cells."""
    part = next(x for x in COVERAGE.split("\n## ") if x.startswith(section))
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in part.splitlines() if "|" in line]
    return [row for row in rows if tuple(row[: len(first)]) == first]


def test_figures_in_the_opening_of_the_coverage_report_are_in_its_tables():
    opening = (ROOT / "benchmarks" / "coverage" / "opening.md").read_text()
    assert COVERAGE.startswith(opening)
    figures = set(re.findall(r"\d+\.\d{2,}", opening))
    assert len(figures) > 30
    assert not figures - set(re.findall(r"\d+\.\d{2,}", COVERAGE[len(opening) :]))


def as_documented(text):
    return re.sub(r"\b0\.", ".", text.replace("1.000", "1"))


def documented_cells(function, first):
    """Return the cells after the first two in a row of a docstring's table."""
    line = next(x for x in function.__doc__.splitlines() if x.split()[:1] == [first] and "  " in x.strip())
    return re.split(r"\s{2,}", line.strip())[2:]


@pytest.mark.parametrize("method", [*(x for x in METHODS if x != "dirichlet"), *PUBLISHED])
def test_intervals_have_the_documented_coverage(method):
    section = "AP, m fixed, 500 replicates" if method.startswith("bootstrap") else "AP, m fixed:"
    found = measured(section, method, "stratified")
    function = published_interval if method in PUBLISHED else average_precision_interval
    assert [as_documented(row[3]) for row in found] == documented_cells(function, method)


@pytest.mark.parametrize(("interval", "name"), [(precision_at_k_interval, "P@k"), (recall_at_k_interval, "R@k")])
def test_intervals_at_k_have_the_documented_coverage(interval, name):
    table = [x.strip() for x in interval.__doc__.splitlines() if x.split()[:1] in (["iid"], ["stratified"])]
    assert len(table) == 11
    for design, m, k, *covers in (re.split(r"\s{2,}", line) for line in table):
        deep = k == "m / 2 to 5 m"
        section = f"Precision and recall at rank k, {'deep' if deep else 'small k'}"
        found = measured(section, m if deep else k, name, design)
        assert [as_documented(row[4]) for row in found] == covers


@pytest.mark.parametrize("method", TESTS)
def test_comparisons_have_the_documented_rejection_rates(method):
    found = measured("Size and power by the number of hits", method, "iid")
    assert [as_documented(row[3]) for row in found] == documented_cells(compare_rankings, method)


@pytest.mark.parametrize("method", QUERY_METHODS)
def test_means_over_queries_are_covered_as_their_docstring_says(method):
    found = {law: [] for law in ("moderate", "skewed", "known-item")}
    for law, covered in found.items():
        for queries in ("10", "30", "100"):
            covered += [as_documented(row[4]) for row in measured("Mean over queries", law, queries, method)]
    assert [" / ".join(covered) for covered in found.values()] == documented_cells(mean_interval, method)


def test_operating_points_are_covered_as_their_docstring_says():
    table = [x.strip() for x in OperatingPoint.__doc__.splitlines() if re.match(" *(best|precision|recall) ?[.F]", x)]
    assert len(table) == 9
    for wanted, what, *covers in (re.split(r"\s{2,}", line) for line in table):
        rows = measured("Operating points", re.sub(r" \.", " 0.", wanted), what)
        assert [row[2] for row in rows] == ["posterior", "bootstrap"]
        assert [as_documented(row[3]) for row in rows] == covers


def test_intervals_of_detectors_have_the_documented_coverage():
    scenes, rare = "mAP of detections, bootstrap over images", "Two equally good detectors"
    found = [[row[5] for row in measured(scenes, str(images)) if row[4] == "95%"] for images in (50, 200, 800)]
    found.append([row[3] for row in measured(rare, "40", "300") if row[2].startswith("bootstrap")][: len(UNIT_METHODS)])
    named = [row[3] for row in measured(scenes, "50") if row[4] == "95%"]
    lines = [x.split()[-3:] for x in image_interval.__doc__.splitlines() if " images  " in x]
    assert (named, found) == (list(UNIT_METHODS), lines)


DECIDED, RANKED, LEARNT = "Two equally good systems' decisions", "4 equally good systems", "Two equally good learners"
SEARCHED = "Five equally good systems over queries"


@pytest.mark.parametrize(
    ("function", "section", "rows"),
    [
        *((compare_decisions, DECIDED, [("100", x), ("1000", x)]) for x in ("precision", "recall", "f_beta")),
        *((compare_systems, RANKED, [("(300, 30)", x), ("(1000, 100)", x)]) for x in ("holm", "tukey")),
        *((compare_systems_per_query, SEARCHED, [("25", x), ("50", x)]) for x in ("holm", "tukey")),
        *(
            (compare_splits, LEARNT, [("10", share, test), ("50", share, test)])
            for share in ("0.1", "0.5")
            for test in ("corrected resampled t", "paired t")
        ),
    ],
)
def test_equally_good_systems_have_the_documented_rejection_rates(function, section, rows):
    shares = [f"{100 * float(measured(section, *row)[0][-2]):.1f}" for row in rows]
    assert f"{' / '.join(shares)}%" in " ".join(function.__doc__.split())


def test_few_misses_are_covered_as_the_docstring_says():
    found = {
        (misses, degrees): as_documented(row[6])
        for misses in ("2", "3", "5", "10")
        for row in measured("AP of few misses", misses, "random", "influence", "iid", "95%")
        for degrees in [row[5]]
    }
    text = " ".join(average_precision_interval.__doc__.split())
    for misses in ("2", "3", "5", "10"):
        assert f"{found[misses, 'min(m, q) - 1']} with {misses}" in text
    least = [found[misses, "m - 1"].split(" / ")[0] for misses in ("2", "3", "5", "10")]
    assert f"the minima would be {', '.join(least[:-1])} and {least[-1]}" in text


def test_tolerances_have_a_name_or_a_comment():
    number = re.compile(r"\b(rtol|atol|rel|abs)=(0\.|[1-9](?!\\*\)[@\"]))")  # not the level in the name of a measure
    for path in (ROOT / "tests").rglob("*.py"):
        lines = path.read_text().splitlines()
        bare = [i for i, line in enumerate(lines) if number.search(line)]
        assert not [lines[i] for i in bare if "#" not in "".join(lines[max(0, i - 2) : i + 1])], path.name
