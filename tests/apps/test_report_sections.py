"""Every section of a page with hostile names: accessible, on a phone, in the dark, in print, by tap and keyboard."""

import pytest
import torch

from tests.apps.test_report_comparisons import updated
from tests.apps.test_report_pages import HOSTILE, PAPER, PHONE
from tests.apps.test_reports import SCRIPT, labels, queries, ranking
from tests.support.browser import chromium, in_browser, opened, violations
from torch_ap import report
from torch_ap.retrieval import suspicious_labels

pytestmark = [pytest.mark.slow, in_browser, pytest.mark.filterwarnings("ignore::UserWarning")]
SYSTEMS = [SCRIPT, "\u202eb" + "y" * 10_000, '"><img src=x onerror=alert(1)>']
BOTH = {"title": SCRIPT, "n_resamples": 20}


def page_of_a_ranking(path):
    first, *others = (ranking(shift=x) for x in (0.0, 0.5, 0.8))
    return report(first, path, other=others, system_names=SYSTEMS, **BOTH)


def page_of_labels(path):
    return report(labels(6), path, other=labels(6), system_names=SYSTEMS[:2], class_names=HOSTILE, **BOTH)


def page_of_queries(path):
    first, *others = (queries(12, shift=x) for x in (1.5, 1.0, 0.5))
    names = [f"{place}{HOSTILE[place % len(HOSTILE)]}" for place in range(12)]
    run = {name: {x: 1.0 + place for place, x in enumerate(HOSTILE)} for name in names}
    suspicious = suspicious_labels({name: {HOSTILE[0]: 1} for name in names}, run)
    settings = {"other": others, "system_names": SYSTEMS, "query_names": names, "suspicious_labels": suspicious}
    return report(first, path, **settings, **BOTH)


def page_of_a_run(path):
    epochs = {f"{place}{x}": ranking(shift=place / 5) for place, x in enumerate(HOSTILE)}
    return report(epochs, path, **BOTH)


SECTIONS = {
    page_of_a_ranking: ["All systems", "Compared with", "Operating points", "Labels that may be wrong"],
    page_of_labels: ["Compared with", "Labels", "All labels", "Labels that may be wrong"],
    page_of_queries: [
        "All systems",
        "Compared with",
        "Depth of the ranking",
        "All queries",
        "Labels that may be wrong",
    ],
    page_of_a_run: ["Epochs"],
}


def assert_tables_are_visible(page):
    """Check that no table is in a closed part; checkVisibility knows the content of closed parts."""
    tables = page.locator("table:not(.live table)").all()
    assert tables
    for settings in ({"contentVisibilityAuto": True}, {}):
        assert all(x.evaluate("(x, settings) => x.checkVisibility(settings)", settings) for x in tables)
        assert all(x.bounding_box()["height"] > 10 for x in tables)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module", params=SECTIONS, ids=lambda x: x.__name__)
def made(request, tmp_path_factory):
    """Return the path of a page and the beginning of the titles of its sections."""
    return request.param(tmp_path_factory.mktemp("page") / "x.html"), SECTIONS[request.param]


def test_every_section_is_accessible_in_both_schemes_and_on_a_phone(made, browser):
    path, sections = made
    for scheme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 24, 29)")):
        with opened(browser, path, color_scheme=scheme, **PHONE) as page:
            page.on("dialog", lambda dialog: pytest.fail(dialog.message))
            titles = page.locator("h2").all_text_contents()
            assert all(any(title.startswith(x) for title in titles) for x in sections)
            page.evaluate("document.querySelectorAll('details').forEach(x => { x.open = true; })")
            assert page.evaluate(PAPER) == paper
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            assert not violations(page)


def test_every_section_is_complete_without_scripts_and_in_print(made, browser):
    path, sections = made
    text = path.read_text()
    assert SCRIPT not in text
    assert "\u202e" not in text
    with opened(browser, path, java_script_enabled=False) as page:
        assert page.locator("h2").count() >= len(sections)
        assert not page.locator("button").count()
    with opened(browser, path) as page:
        page.emulate_media(media="print")
        assert all(x.is_visible() for x in page.locator("section > figure, section > .wide").all())
        assert_tables_are_visible(page)
        assert not page.locator(".bar:visible, .live:visible, canvas:visible").count()


def test_a_tap_shows_the_numbers_of_a_mark_and_of_a_curve(browser, tmp_path):
    path = report(labels(4, 200), tmp_path / "x.html", other=labels(4, 200))
    with opened(browser, path, has_touch=True, **PHONE) as page:
        point, tip = page.locator(".scatter circle").nth(1), page.locator("body > .tip")
        point.tap()
        assert tip.text_content() == point.locator("title").text_content()
        assert page.get_by_label("Ranking", exact=True).input_value() == "0", "the first tap opens nothing"
        assert tip.evaluate("x => x.getBoundingClientRect().right") <= 390
        point.tap()
        assert page.get_by_label("Ranking", exact=True).input_value() != "0"
        assert not tip.is_visible()
        page.locator(".chart .u-over").first.tap()
        assert "recall 0." in page.locator(".chart .tip").first.inner_text()


def test_the_keyboard_reaches_curves_tables_and_pictures(browser, tmp_path):
    with opened(browser, report(ranking(), tmp_path / "x.html")) as page:
        chart, tip = page.locator(".chart").first, page.locator(".chart .tip").first
        chart.focus()
        texts = []
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
            texts.append(tip.inner_text())
        assert texts[0] != texts[1]
        assert texts[0] == texts[2]
        page.keyboard.press("Tab")
        assert not tip.is_visible()
    box = {"boxes": torch.tensor([[0.0, 0, 40, 40]]), "labels": torch.tensor([0])}
    metric = updated([box | {"scores": torch.tensor([0.9])}], [box])
    with opened(browser, report(metric, tmp_path / "y.html", n_resamples=10)) as page:
        picture = page.locator(".shot [role=button]").first
        picture.focus()
        for key, count in (("Enter", 1), (" ", 0)):
            page.keyboard.press(key)
            assert page.locator(".shot.large").count() == count
