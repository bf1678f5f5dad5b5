"""Pages of reports in a browser: rows and points open their details, the class confusions follow the slider."""

import collections
import re

import pytest
import torch

from tests.apps.test_report_comparisons import updated
from tests.apps.test_report_pages import HOSTILE, move, slide
from tests.apps.test_reports import SCRIPT, labels, queries
from tests.support.browser import chromium, in_browser, opened, violations
from tests.support.oracles_detection import random_scene
from torch_ap import MulticlassAveragePrecision, MultilabelAveragePrecision, functional, report
from torch_ap.inference import compare_per_query
from torch_ap.reports.content import DASH

pytestmark = [pytest.mark.slow, in_browser, pytest.mark.filterwarnings("ignore::UserWarning")]
PHONE = {"viewport": {"width": 390, "height": 800}}


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def detectors():
    preds, target = random_scene(3, images=60)
    for image in preds:
        image["scores"] = torch.rand(
            len(image["scores"]), generator=torch.Generator().manual_seed(len(image["scores"]))
        )
    other = [{name: x[::2] for name, x in image.items()} for image in preds]
    return updated(preds, target), updated(other, target)


@pytest.fixture(scope="module")
def page_of_detectors(detectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "x.html"
    return report(detectors[0], path, other=detectors[1], system_names=("new", "old"), n_resamples=20)


def table_with(page, head):
    return page.locator("table.sortable", has=page.get_by_role("button", name=head, exact=True))


def test_rows_of_images_and_errors_open_the_gallery(browser, page_of_detectors):
    with opened(browser, page_of_detectors) as page:
        images = table_with(page, "share of loss").filter(has_text="image").last
        button = images.locator("tbody button.open").first
        name = button.text_content()
        button.click()
        shot = page.locator(".shot.large")
        assert f"image {name} " in shot.first.inner_text() + " "
        assert shot.first.evaluate("x => x === document.activeElement")
        errors = table_with(page, "what it is")
        head = errors.get_by_role("button", name="new: cost", exact=True)
        costs = [float(x) for x in errors.locator("tbody td:nth-child(3)").all_text_contents()]
        assert costs == sorted(costs, reverse=True)
        head.click()
        costs = [float(x) for x in errors.locator("tbody td:nth-child(3)").all_text_contents()]
        assert costs == sorted(costs)
        errors.get_by_role("button", name="background", exact=True).click()
        assert page.locator("[data-shows='kind-background'][open]").count() == 1
        assert not errors.get_by_role("button", name="false positives", exact=True).count()
        assert not violations(page)


def test_rows_of_images_without_a_picture_open_a_drawing(browser, detectors, page_of_detectors):
    metric = detectors[0]
    target, table = metric._columns(), metric.per_image()
    boxes_by_image = target["ground_truth_boxes"].double().split(target["ground_truths_per_image"].tolist())
    with opened(browser, page_of_detectors) as page:
        images = table_with(page, "found")
        pictured = set(page.eval_on_selector_all("[data-shows^='image-']", "x => x.map(y => y.dataset.shows)"))
        keys = images.locator("tr[data-key]").evaluate_all("x => x.map(y => y.dataset.key)")
        further = [x for x in keys if x not in pictured]
        assert further
        assert images.locator("button.open").count() == len(keys)
        for key in further[:3]:
            place = int(key.removeprefix("image-"))
            images.locator(f"tr[data-key='{key}'] button").click()
            shot = page.locator("#drawing .shot")
            assert shot.evaluate("x => x === document.activeElement")
            assert shot.locator("b").text_content() == f"image {place}"
            wanted = boxes_by_image[place]
            assert shot.locator(".truth").count() == len(wanted)
            assert shot.locator(".truth.missed").count() == int(table["missed"][place])
            boxes = page.eval_on_selector_all(
                "#drawing .truth path", "x => x.map(y => (b => [b.x, b.y, b.width, b.height])(y.getBBox()))"
            )
            width, height = (float(x) for x in shot.locator("svg").get_attribute("viewBox").split()[2:])
            if len(wanted):
                scale = torch.tensor(boxes).max() / wanted.max()
                # numbers are tenths of a unit
                assert torch.tensor(boxes).double().allclose(wanted * scale, atol=0.3)
            assert max(width, height) == 320
            assert shot.locator("li").filter(has_not_text="not drawn").count() == shot.locator("g").count()


def test_rows_of_slices_open_their_curve(browser, page_of_detectors):
    with opened(browser, page_of_detectors) as page:
        slices = table_with(page, "slice")
        row = slices.locator("tbody tr").first
        name, objects = row.locator("th").text_content(), int(row.locator("td").nth(-2).text_content())
        row.locator("button").click()
        select = page.get_by_label("Ranking", exact=True)
        assert select.evaluate("x => x.selectedOptions[0].textContent") == f"slice: {name}"
        slide(page, 0)
        counts = page.locator(".results table").nth(1).locator("tbody td").all_text_contents()
        assert int(counts[0]) + int(counts[2]) == objects
        assert not page.locator(".confusions table").count()


def test_numbers_of_all_slices_follow_their_slider(browser, tmp_path):
    preds, target = random_scene(3, images=24)
    metric, images = updated(preds, target), {"even": list(range(0, 24, 2)), SCRIPT: [1, 3], "none": []}
    parts = {"all": metric}
    parts |= {
        name: updated([preds[x] for x in rows], [target[x] for x in rows]) for name, rows in images.items() if rows
    }
    with opened(browser, report(metric, tmp_path / "x.html", slices=images, n_resamples=10)) as page:
        slider = page.get_by_label("Score threshold of slices")
        live = page.locator(".live").filter(has=slider)
        last = int(slider.get_attribute("max"))
        for place in {0, last // 3, last // 2, last}:
            slider.evaluate("(x, y) => { x.value = y; x.dispatchEvent(new Event('input')); }", place)
            threshold = float(live.locator(".threshold").text_content().removeprefix("score ≥ "))
            rows = {x.locator("th").text_content(): x.locator("td") for x in live.locator("tbody tr").all()}
            assert rows["none"].all_text_contents() == [DASH] * 3 + ["0"] * 3
            for name, part in parts.items():
                point = part.operating_points(score_threshold=threshold, per_class=False)
                found = rows[name].all_text_contents()
                assert found[3:] == [str(int(x)) for x in (point.tp, point.fp, point.fn)]
                for cell, column in zip(found, ("precision", "recall", "f_beta"), strict=False):
                    value, low, high = (float(getattr(point, f"{column}{x}")) for x in ("", "_low", "_high"))
                    numbers = [float(x) for x in re.findall(r"[\d.]+", cell)]
                    known = [x for x in (value, low, high) if x == x]
                    # three digits on the page, rounded twice
                    assert numbers == pytest.approx(known, abs=1.1e-3)
        page.emulate_media(media="print")
        assert not live.is_visible()
        assert page.locator("summary").filter(has_text="Slices at score").is_visible()


def test_two_detectors_with_other_classes(browser, tmp_path):
    box = torch.tensor([[0.0, 0, 40, 40]])
    target = [{"boxes": box, "labels": torch.tensor([5])}] * 3
    first, second = (
        [{"boxes": box, "labels": torch.tensor([label]), "scores": torch.tensor([score])} for label in labels]
        for labels, score in (([1, 5, 5], 0.75), ([5, 7, 9], 0.25))
    )
    path = report(updated(first, target), tmp_path / "x.html", other=updated(second, target), n_resamples=10)
    with opened(browser, path) as page:
        page.get_by_label("Ranking", exact=True).select_option(label="5")
        assert "the other at the same recall" not in page.locator(".remark").first.text_content()
        slide(page, 0)
        assert page.locator(".results table").nth(1).locator("tbody td").all_text_contents()[:2] == ["2", "0"]
        assert any("the other never reaches this recall." in x for x in page.locator(".live").all_inner_texts())
        page.get_by_label("Ranking", exact=True).select_option(label="1")
        assert page.locator("input[type=range]").first.is_disabled()


def test_a_rule_without_a_threshold_has_its_reason(browser, tmp_path):
    metric = MultilabelAveragePrecision(2)
    metric.update(torch.tensor([[0.9, 0.9], [0.8, 0.8], [0.7, 0.7]]), torch.tensor([[1, 0], [0, 1], [1, 0]]))
    with opened(browser, report(metric, tmp_path / "x.html", class_names=["good", "bad"])) as page:
        button, text = page.get_by_role("button", name="precision ≥ 0.9"), "No threshold has precision ≥ 0.9."
        for name, reason in (("good", ""), ("bad", text), ("good", "")):
            page.get_by_label("Ranking", exact=True).select_option(label=name)
            assert button.is_disabled() == bool(reason)
            assert button.get_attribute("title") == reason
            assert page.locator(".live .bar output").first.text_content() == reason
            assert page.get_by_role("button", name="recall ≥ 0.9").is_enabled()


def test_the_axis_of_a_single_threshold_shows_all_recalls(browser, tmp_path):
    metric = MultilabelAveragePrecision(2)
    metric.update(torch.tensor([[0.9, 0.9], [0.1, 0.2], [0.7, 0.7]]), torch.tensor([[1, 0], [0, 1], [0, 0]]))
    with opened(browser, report(metric, tmp_path / "x.html")) as page:
        page.get_by_label("Ranking", exact=True).select_option(index=1)
        chart = page.locator(".chart .u-over").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        recall = float(page.locator(".chart .tip div").first.text_content().removeprefix("recall "))
        assert recall == pytest.approx(0.51, abs=0.01)  # the middle of the axis, to a few pixels


def test_points_and_bars_open_their_curve(browser, tmp_path):
    pages = (
        (labels(4, 200), labels(4, 200), "Ranking", lambda key: str(int(key) + 1)),
        (queries(shift=1.5), queries(shift=0.5), "Query", str),
    )
    for metric, other, label, value in pages:
        with opened(browser, report(metric, tmp_path / "x.html", other=other)) as page:
            for mark in (
                page.locator(".scatter circle").nth(2),
                page.locator(".marks:not(.scatter) g[data-key]").nth(2),
            ):
                mark.dispatch_event("click")
                assert page.get_by_label(label, exact=True).input_value() == value(mark.get_attribute("data-key"))


def test_confusions_follow_the_slider(browser, detectors, page_of_detectors):
    metric = detectors[0]
    with opened(browser, page_of_detectors) as page:
        last = int(page.locator("input[type=range]").first.get_attribute("max"))
        for i in range(10):
            threshold = move(page, i * last // 9)
            text = page.locator(".confusions .remark").text_content()
            near = float(text.split("≥ ")[1].split(" for")[0])
            # the page shows six digits
            assert near == pytest.approx(threshold, rel=1e-5), "every threshold has confusions"
            matrix = metric.confusion_matrix(score_threshold=threshold).matrix[:-1, :-1].clone().fill_diagonal_(0)
            assert f": {int(matrix.sum())} objects" in text
            rows = page.eval_on_selector_all(
                ".confusions tbody tr", "rows => rows.map(x => [...x.cells].map(y => y.textContent))"
            )
            names = metric._matches_at().names
            found = {(names.index(a), names.index(b)): int(n) for a, b, n in rows}
            wanted = {(a, b): int(matrix[a, b]) for a, b in matrix.nonzero().tolist()}
            assert found.items() <= wanted.items()
            assert len(found) == min(10, len(wanted))
            assert sorted(found.values(), reverse=True) == sorted(wanted.values(), reverse=True)[: len(found)]
        select = page.get_by_label("Ranking", exact=True)
        select.select_option("1")
        name = select.evaluate("x => x.selectedOptions[0].textContent")
        slide(page, 0)
        rows = page.eval_on_selector_all(
            ".confusions tbody tr", "rows => rows.map(x => [...x.cells].map(y => y.textContent))"
        )
        assert all(name in row[:2] for row in rows)
        align = "cells => cells.map(x => getComputedStyle(x).textAlign)"
        for row in ("thead tr", "tbody tr:first-child"):
            assert page.eval_on_selector_all(f".confusions {row} > *", align) == ["left", "left", "right"]


def test_confusions_of_classes_follow_the_slider(browser, tmp_path):
    generator = torch.Generator().manual_seed(5)
    scores = torch.rand(60, 3, generator=generator).round(decimals=1)
    target = torch.randint(3, (60,), generator=generator)
    metric = MulticlassAveragePrecision(3, normalization="none", ignore_index=-1)
    metric.update(scores, torch.where(torch.arange(60) < 5, -1, target))
    with opened(browser, report(metric, tmp_path / "x.html", class_names=["a", "b", "c"])) as page:
        assert page.get_by_label("Ranking", exact=True).input_value() == "0", "all classes"
        last = int(page.locator("input[type=range]").first.get_attribute("max"))
        for place in {0, last // 3, last}:
            threshold, wanted = move(page, place), collections.Counter()
            for row, true in list(zip(scores.tolist(), target.tolist(), strict=True))[5:]:
                first = row.index(max(row))
                # scores have one digit
                if max(row) > threshold - 1e-3 and first != true:
                    wanted["abc"[true], "abc"[first]] += 1
            rows = page.eval_on_selector_all(
                ".confusions tbody tr", "rows => rows.map(x => [...x.cells].map(y => y.textContent))"
            )
            assert {(a, b): int(n) for a, b, n in rows} == wanted
            counted = f": {sum(wanted.values())} items whose highest score is of another class"
            assert counted in page.locator(".confusions .remark").text_content()


def test_the_page_of_two_detectors_without_scripts_on_a_phone_and_in_print(browser, page_of_detectors):
    for scheme in ("light", "dark"):
        with opened(browser, page_of_detectors, color_scheme=scheme, **PHONE) as page:
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            assert not violations(page)
    with opened(browser, page_of_detectors, java_script_enabled=False) as page:
        assert page.locator(".scatter").first.is_visible()
        assert not page.locator("button").count()
        assert page.locator("summary", has_text="Class confusions at score").is_visible()
    with opened(browser, page_of_detectors) as page:
        page.emulate_media(media="print")
        assert page.locator(".scatter").first.is_visible()
        assert not page.locator(".bar, .live, canvas").first.is_visible()


def test_the_depth_slider_compares_two_systems(browser, tmp_path):
    new, old = queries(shift=1.5), queries(shift=0.5)
    sides = [[torch.cat(getattr(x, y)) for y in ("preds", "target", "indexes")] for x in (new, old)]
    with opened(browser, report(new, tmp_path / "x.html", other=old, system_names=("new", "old"))) as page:
        for k in range(1, 11):
            slide(page, k - 1)
            values = [
                functional.retrieval_precision(preds, target, indexes=indexes, top_k=k)
                for preds, target, indexes in sides
            ]
            found = compare_per_query(*values, bounds=(0, 1))
            cells = page.locator(".results table").last.locator("td").all_text_contents()[-6:-4]
            numbers = [float(x) for x in " to ".join(cells).replace("\N{MINUS SIGN}", "-").split(" to ")]
            expected = [float(getattr(found, x)) for x in ("difference", "low", "high")]
            # three digits on the page, rounded twice
            assert numbers == pytest.approx(expected, abs=1.1e-3), "rounded twice"


def test_hostile_names_of_systems_classes_images_and_slices(browser, tmp_path):
    preds, target = random_scene(3, images=6)
    other = [{name: x[::2] for name, x in image.items()} for image in preds]
    names = [f"{place}{x}" for place, x in enumerate(HOSTILE)]
    path = report(
        updated(preds, target),
        tmp_path / "x.html",
        other=[updated(other, target), updated(preds, target)],
        system_names=[SCRIPT, "\u202eb" + "y" * 10_000, '"><img src=x onerror=alert(1)>'],
        class_names=dict(enumerate(names)),
        image_names=names,
        slices={SCRIPT: [0, 1], "\u202e" + "z" * 10_000: [2]},
        n_resamples=10,
    )
    text = path.read_text()
    assert SCRIPT not in text
    assert "\u202e" not in text
    for settings in ({**PHONE, "color_scheme": "dark"}, {}):
        with opened(browser, path, **settings) as page:
            page.on("dialog", lambda dialog: pytest.fail(dialog.message))
            assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
            page.locator(".scatter circle").first.dispatch_event("click")
            page.evaluate("document.querySelectorAll('details').forEach(x => { x.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
            assert not violations(page)
    with opened(browser, path) as page:
        page.emulate_media(media="print")
        assert all(x.is_visible() for x in page.locator("section > figure, section > .wide").all())
        assert not page.locator(".bar:visible, .live:visible, canvas:visible").count()
        assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
