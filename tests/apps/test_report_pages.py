"""Pages of reports in a browser: they move as described, request nothing, and are readable without JavaScript."""

import pytest

from tests.apps.test_reports import SCRIPT, labels, ranking, updated
from tests.support.browser import chromium, in_browser, opened, violations
from tests.support.each import each
from tests.support.every_metric import METRICS
from torch_ap import report

pytestmark = [pytest.mark.slow, in_browser]
PHONE = {"viewport": {"width": 390, "height": 800}}
PAPER = "getComputedStyle(document.body).backgroundColor"
HOSTILE = [SCRIPT, "\"'`${1}</script>", "a\u202egnp.exe\u2028", "x" * 10_000, "<!--", "&lt;"]


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def column(page, place):
    rows = "rows => rows.filter(x => !x.hidden).map(x => x.cells[{}].textContent)"
    return page.eval_on_selector_all("table.sortable tbody tr", rows.format(place))


def twelve_classes(tmp_path):
    """Return the page of 12 classes, their names, and their values as shown."""
    metric, names = labels(12), [f"class {place}" for place in range(12)]
    values = [f"{x:.3f}" for x in labels(12, average="none").compute().tolist()]
    return report(metric, tmp_path / "x.html", class_names=names), names, values


def test_tables_sort_search_and_filter(browser, tmp_path):
    path, names, values = twelve_classes(tmp_path)
    with opened(browser, path) as page:
        assert column(page, 1) == sorted(values)
        for head, place, expected in (("AP", 1, sorted(values)[::-1]), ("label", 0, names), ("label", 0, names[::-1])):
            button = page.locator("table.sortable thead").get_by_role("button", name=head, exact=True)
            button.focus()
            page.keyboard.press("Enter")
            assert column(page, place) == expected
        assert page.get_attribute("table.sortable th:first-child", "aria-sort") == "descending"
        page.get_by_label("Search the rows").fill("CLASS 1")
        assert column(page, 0) == ["class 11", "class 10", "class 1"]
        page.get_by_label("Column to filter by").select_option("AP")
        page.get_by_label("Limit", exact=True).fill("0.4")
        assert column(page, 0) == [
            x for x in ("class 11", "class 10", "class 1") if float(values[names.index(x)]) >= 0.4
        ]


@each("name", ["binary", "multilabel", "query_map", "coco", "embeddings"])
def test_pages_are_accessible_and_fit_a_phone(name, browser, tmp_path):
    path = report(updated(METRICS[name]), tmp_path / "x.html", n_resamples=10)
    for scheme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 24, 29)")):
        with opened(browser, path, color_scheme=scheme, **PHONE) as page:
            assert page.evaluate(PAPER) == paper
            assert page.evaluate("document.documentElement.scrollWidth") == 390, "tables scroll by themselves"
            assert not violations(page)


def test_names_are_never_code(browser, tmp_path):
    path = report(labels(6), tmp_path / "x.html", class_names=HOSTILE, title=SCRIPT)
    with opened(browser, path, **PHONE) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        cells = column(page, 0)
    assert sorted(cells) == sorted(x.replace("\u202e", "\\u202e").replace("\u2028", "\\u2028") for x in HOSTILE)


def test_the_page_is_complete_without_javascript_and_in_print(browser, tmp_path):
    path = report(ranking(), tmp_path / "x.html")
    with opened(browser, path, java_script_enabled=False) as page:
        assert page.locator("figure svg").first.is_visible()
        assert not page.locator("button").count()
    with opened(browser, path) as page:
        page.emulate_media(media="print")
        assert all(x.is_visible() for x in page.locator("figure svg").all())
        assert not page.locator(".bar, .live, canvas").first.is_visible()
