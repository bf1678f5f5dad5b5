"""Pages of reports in a browser: they move as described, request nothing, and are readable without JavaScript."""

import re

import pytest
import torch

from tests.apps.test_reports import SCRIPT, labels, queries, ranking, updated
from tests.support.browser import chromium, in_browser, opened, violations
from tests.support.each import each
from tests.support.every_metric import METRICS
from torch_ap import functional, report
from torch_ap.inference.posteriors import f_beta_posterior, precision_posterior, recall_posterior
from torch_ap.reports.content import DASH
from torch_ap.reports.thresholds import RULES

pytestmark = [pytest.mark.slow, in_browser]
PHONE = {"viewport": {"width": 390, "height": 800}}
PAPER = "getComputedStyle(document.body).backgroundColor"
HOSTILE = [SCRIPT, "\"'`${1}</script>", "a\u202egnp.exe\u2028", "x" * 10_000, "<!--", "&lt;"]


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def column(page, place):
    """Return the shown cells of a column of the first table with buttons."""
    cells = "table => [...table.tBodies[0].rows].filter(x => !x.hidden).map(x => x.cells[{}].textContent)"
    return page.eval_on_selector("table.sortable", cells.format(place))


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
            button = page.locator("table.sortable thead").first.get_by_role("button", name=head, exact=True)
            button.focus()
            page.keyboard.press("Enter")
            assert column(page, place) == expected
        assert page.get_attribute("table.sortable th:first-child", "aria-sort") == "descending"
        page.get_by_label("Search the rows").first.fill("CLASS 1")
        assert column(page, 0) == ["class 11", "class 10", "class 1"]
        page.get_by_label("Column to filter by").first.select_option("AP")
        page.get_by_label("Limit", exact=True).first.fill("0.4")
        assert column(page, 0) == [
            x for x in ("class 11", "class 10", "class 1") if float(values[names.index(x)]) >= 0.4
        ]
        page.get_by_label("Search the rows").first.fill("")
        page.get_by_label("Column to filter by").first.select_option("share of loss")
        page.get_by_label("Limit", exact=True).first.fill("8")
        head = page.locator("table.sortable thead th").all_text_contents().index("share of loss")
        shown = [float(x.removesuffix("%")) for x in column(page, head)]
        assert 0 < len(shown) < len(names)
        assert min(shown) >= 8, "in percent, as the table"


@each("name", ["coco", "embeddings"])  # the others are in test_report_sections
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
        names = "[...document.querySelectorAll('tbody th')].map(x => x.getBoundingClientRect().width).filter(x => x)"
        assert min(page.evaluate(names)) > 40, "no column of single letters"
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


def test_depths_without_javascript_and_in_print(browser, tmp_path):
    metric = queries(count=30, depth=25)
    path = report(metric, tmp_path / "x.html")
    section = "section:has(h2:text-is('Depth of the ranking'))"
    with opened(browser, path, java_script_enabled=False) as page:
        rows = [x.split("\t") for x in page.locator(f"{section} tr").all_inner_texts()]
    assert [x[0] for x in rows] == ["k", "1", "2", "3", "5", "10", "20", "25"]
    for k, *cells in rows[1:]:
        counts = functional.retrieval_precision(
            metric.preds[0], metric.target[0], top_k=int(k), indexes=metric.indexes[0]
        )
        assert cells[0].split(" (")[0] == f"{float(counts.mean()):.3f}"
    with opened(browser, path) as page:
        assert not page.locator(f"{section} td").get_by_text(rows[1][1]).is_visible()
        page.emulate_media(media="print")
        assert page.locator(f"{section} td").get_by_text(rows[1][1]).is_visible()


def test_charts_of_epochs_show_their_names(browser, tmp_path):
    epochs = {name: ranking(shift=shift) for name, shift in (("first", 1.0), ("second", 1.3), (SCRIPT, 1.6))}
    with opened(browser, report(epochs, tmp_path / "x.html"), **PHONE) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.locator(".chart").focus()
        for name in epochs:
            page.keyboard.press("ArrowRight")
            assert page.locator(".tip div").first.text_content() == f"epoch: {name}"


def shown_numbers(page):
    """Return the threshold, and the numbers of the slider by name."""
    rows = page.eval_on_selector_all(".results tr", "rows => rows.map(x => [...x.cells].map(y => y.textContent))")
    return {name: cells for name, *cells in rows if name}


def slide(page, place):
    page.locator("input[type=range]").first.evaluate(
        "(x, i) => { x.value = i; x.dispatchEvent(new Event('input')); }", place
    )


def move(page, place):
    slide(page, place)
    page.locator("button", has_text="Copy this").click()
    return float(page.locator("button", has_text="Copied").text_content().removeprefix("Copied "))


def expected(tp, fp, fn, ends, tn=None):
    """Return the rows that the slider must show."""
    values = (tp / (tp + fp), tp / (tp + fn), 2 * tp / (2 * tp + fp + fn))
    rows = {
        name: [f"{x:.3f}", f"{float(low):.3f}{DASH}{float(high):.3f}"]
        for name, x, (low, high) in zip(("precision", "recall", "F1"), values, ends, strict=True)
    }
    return rows, [f"{int(x):,}" for x in (tp, fp, fn, *([] if tn is None else [tn]))]


def ends_of(numbers):
    return [(numbers[f"{x}_low"], numbers[f"{x}_high"]) for x in ("precision", "recall", "f_beta")]


def assert_shown(page, rows, counts):
    found = shown_numbers(page)
    for name, (value, interval) in rows.items():
        assert found[name][0] == value
        ends = [[float(x) for x in text.split(DASH)] for text in (found[name][1], interval)]
        assert ends[0] == pytest.approx(ends[1], abs=1.1e-3)  # rounded twice
    cells = [x for name in found if name not in rows for x in found[name] if x.replace(",", "").isdigit()]
    assert cells == counts


WITHOUT_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined})"


@pytest.mark.parametrize("case", ["permission", "no permission", "no clipboard", "no way to copy"])
def test_the_threshold_is_copied_with_and_without_the_clipboard_of_the_browser(browser, tmp_path, case):
    path = report(ranking(), tmp_path / "x.html")
    with opened(
        browser, path, permissions=["clipboard-read", "clipboard-write"] if case == "permission" else []
    ) as page:
        if case in ("no clipboard", "no way to copy"):
            page.evaluate(WITHOUT_CLIPBOARD)
        if case == "no way to copy":
            page.evaluate("document.execCommand = () => false")
        threshold = page.locator(".threshold").first.text_content().removeprefix("score ≥ ")
        button = page.locator("button", has_text="Copy this")
        button.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("!document.body.innerText.includes('Copy this threshold')")
        text = page.evaluate("document.activeElement.textContent")  # the focus is still on the button
        if case == "no way to copy":
            assert text.startswith("Not copied: ")
            return
        copied = text.removeprefix("Copied ")
        # the page shows six digits
        assert float(copied) == pytest.approx(float(threshold), rel=1e-5)
        page.evaluate("document.body.append(document.createElement('textarea'))")
        page.locator("textarea").focus()
        page.keyboard.press("Control+V")
        assert page.evaluate("document.activeElement.value") == copied


def test_the_slider_equals_the_operating_points_of_a_classifier(browser, tmp_path):
    metric = ranking()
    scores, target = metric.preds[0], metric.target[0]
    with opened(browser, report(metric, tmp_path / "x.html")) as page:
        last = int(page.locator("input[type=range]").first.get_attribute("max"))
        for i in range(10):
            threshold = move(page, i * last // 9)
            kept = scores >= threshold
            tp, fp = int(kept[target == 1].sum()), int(kept[target == 0].sum())
            m, n = int(target.sum()), len(target)
            laws = precision_posterior(tp, fp), recall_posterior(tp, m - tp), f_beta_posterior(tp, fp, m - tp)
            ends = [law.interval() for law in laws]
            assert_shown(page, *expected(tp, fp, m - tp, ends, n - m - fp))
        for name, rule in RULES:
            page.get_by_role("button", name=name, exact=True).click()
            point = metric.curve().operating_point(**rule)
            counts = [int(x) for x in (point.tp, point.fp, point.fn)]
            assert_shown(page, *expected(*counts, ends_of(vars(point)), n - m - counts[1]))


def test_the_slider_equals_the_operating_points_of_a_detector(browser, tmp_path):
    metric = updated(METRICS["coco"])
    path = report(metric, tmp_path / "x.html", n_resamples=10)
    with opened(browser, path) as page:
        classes = len(metric.compute()["classes"])
        for row in range(classes + 1):
            if row:
                page.locator(f"tr[data-key='{row - 1}'] button").click()
                assert page.get_by_label("Ranking").input_value() == str(row)
            if page.locator("input[type=range]").first.is_disabled():
                assert not float(metric.operating_points().tp[row - 1])
                continue
            last = int(page.locator("input[type=range]").first.get_attribute("max"))
            for i in range(10):
                threshold = move(page, i * last // 9)
                points = metric.operating_points(score_threshold=threshold, per_class=False)
                if row:
                    points = metric.operating_points(score_threshold=torch.full((classes,), threshold))
                tensors = {name: x for name, x in vars(points).items() if isinstance(x, torch.Tensor)}
                x = {name: float(column.flatten()[max(row - 1, 0)]) for name, column in tensors.items()}
                assert_shown(page, *expected(x["tp"], x["fp"], x["fn"], ends_of(x)))


def test_the_slider_of_queries_equals_the_measures_at_k(browser, tmp_path):
    metric, other = queries(), queries(shift=0.4)
    path = report(metric, tmp_path / "x.html", other=other, system_names=("new", "old"))
    preds, target = torch.cat(metric.preds), torch.cat(metric.target)
    indexes = torch.cat(metric.indexes)
    with opened(browser, path) as page:
        for place in range(10):
            slide(page, place)
            value = page.locator(".results td").first.text_content()
            expected = functional.retrieval_precision(preds, target, indexes=indexes, top_k=place + 1)
            assert value == f"{float(expected.mean()):.3f}"
        over = page.locator(".chart .u-over").last
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        page.mouse.move(box["x"] + 0.41 * box["width"], box["y"] + 10)
        assert re.match(r"k \d+\n", over.locator(".tip").inner_text()), "a depth that exists"
        row = page.locator("tr[data-key] button").first
        query = int(row.text_content())
        row.click()
        slide(page, 4)
        one = indexes == query
        hits = int(target[one][preds[one].argsort(descending=True)][:5].sum())
        m = int(target[one].sum())
        found = page.locator(".results table").first.locator("td").all_text_contents()
        assert found[::2] == [f"{x:.3f}" for x in (hits / 5, hits / m, 2 * hits / (5 + m))]


def test_curves_show_their_numbers_and_zoom(browser, tmp_path):
    with opened(browser, report(ranking(), tmp_path / "x.html", other=ranking(shift=0.5))) as page:
        over = page.locator(".chart .u-over").first
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tip = page.locator(".tip").first.inner_text()
        pattern = r"recall 0\.5\d\d\nthis system 0\.\d{3} \(0\.\d{3}.0\.\d{3}\).*score ≥.*TP \d+, FP \d+, FN \d+"
        assert re.search(pattern, tip)
        assert "the other 0." in tip
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2 + 100, box["y"] + 10)
        page.mouse.up()
        before = page.locator(".chart canvas").first.evaluate("x => x.toDataURL()")
        page.get_by_role("button", name="Show the whole curve").first.click()
        page.wait_for_timeout(100)
        assert page.locator(".chart canvas").first.evaluate("x => x.toDataURL()") != before, "zoomed"


def test_pages_of_many_images_and_queries_are_below_3_mb(tmp_path):
    assert report(queries(1000, 60), tmp_path / "x.html").stat().st_size < 3_000_000
