"""Gallery of a detector: the pictures show the right shapes, with and without image files, and the costs are exact."""

import json
import re

import pytest
import torch

from tests.support.browser import chromium, in_browser, opened, violations
from tests.support.each import each
from tests.support.oracles_detection import random_poses, random_rotated, random_scene
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision, report
from torch_ap.cli import main
from torch_ap.detection import DETECTION_KINDS
from torch_ap.detection.errors.costly import costliest_errors
from torch_ap.detection.errors.outcomes import outcomes_of
from torch_ap.inference.resampling import Resampling
from torch_ap.reports.estimates import ReportOptions
from torch_ap.reports.gallery import _Gallery
from torch_ap.reports.thumbnails import Thumbnails

Image = pytest.importorskip("PIL.Image")
HOSTILE = {0: "<script>alert(1)</script>", 1: "\"'`${1}</script>\u202e" + "x" * 10_000}


def updated(metric, preds, target, ids=None):
    metric.warn_on_many_detections = False
    metric.update(preds, target, ids)
    return metric


def scene():
    """Return three images of 200 x 100 pixels: a true positive and a false positive, a confusion, a missed object."""
    box = torch.tensor([[20.0, 20, 60, 60], [100, 40, 180, 90]])
    label = torch.tensor([0, 1])
    target = [{"boxes": box, "labels": label}, {"boxes": box[:1], "labels": label[:1]}, {"boxes": box, "labels": label}]
    preds = [
        {
            "boxes": torch.cat([box, box[:1] + 90]),
            "labels": torch.tensor([0, 1, 0]),
            "scores": torch.tensor([0.9, 0.8, 0.7]),
        },
        {"boxes": box[:1], "labels": label[1:], "scores": torch.tensor([0.95])},
        {"boxes": box[:1], "labels": label[:1], "scores": torch.tensor([0.6])},
    ]
    return preds, target


def page_of(metric, path, **options):
    return report(metric, path, n_resamples=10, **options).read_text()


def section(page, title):
    """Return the pictures of one part of the gallery."""
    part = page.split(f"<summary>{title}")[1]
    return part.split('<details class="gallery"')[0].split("</section>")[0].split('<figure class="shot">')[1:]


def test_pictures_show_the_shapes_of_their_image(tmp_path):
    metric = updated(MeanAveragePrecision(class_names=["cat", "dog"]), *scene(), [7, 8, 9])
    page = page_of(metric, tmp_path / "x.html")
    worst = section(page, "Worst images")
    assert [re.search("<b>image (\\d+)</b> AP ([\\d.]+)", x).groups() for x in worst] == [
        ("8", "0.000"),
        ("9", "0.500"),
        ("7", "1.000"),
    ]
    first = worst[-1]
    assert first.count('class="truth found') == 2
    # without a file the canvas ends at the last shape, at x = 180
    corners = [(320 * x / 180, 320 * y / 180) for x, y in ((20, 20), (60, 20), (60, 60), (20, 60))]
    expected = f"M{'L'.join(' '.join(f'{round(v, 1):g}' for v in corner) for corner in corners)}Z"
    assert first.count(f'd="{expected}"') == 2, "the object and its detection"
    assert "cat 0.9, IoU 1.00 with cat: true positive" in first
    (confused,) = section(page, "Right place, wrong class")
    assert 'class="detection wrong chosen"' in confused
    assert 'class="truth missed chosen"' in confused
    assert "dog 0.95, IoU 1.00 with cat: classification; costs" in confused
    (missed,) = section(page, "Missed objects")
    assert "<b>image 9</b> object dog: missed" in missed
    assert "wrong class: cat → dog" in "".join(section(page, "Labels that may be wrong"))


def test_objects_that_one_system_finds(tmp_path):
    preds, target = scene()
    metric, other = updated(MeanAveragePrecision(), preds, target), MeanAveragePrecision()
    preds[0] = {name: x[:1] for name, x in preds[0].items()}
    preds[2] = {"boxes": target[2]["boxes"], "labels": target[2]["labels"], "scores": torch.tensor([0.2, 0.3])}
    updated(other, preds, target)
    page = page_of(metric, tmp_path / "x.html", other=other, system_names=("new", "old"))
    (first,) = section(page, "Found by new, missed by old")
    assert "<b>image 0</b> only new finds 1 1" in first
    assert 'class="truth found chosen"' in first
    (second,) = section(page, "Found by old, missed by new")
    assert "<b>image 2</b> only old finds 1 1" in second
    assert 'class="truth missed chosen"' in second


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("seed", range(8))
def test_each_cost_is_the_gain_without_the_error(seed):
    preds, target = random_scene(seed)
    metric = updated(MeanAveragePrecision("xywh"), preds, target)
    at = metric._matches_at()
    before = metric.errors().average_precision.item()
    for kind, found in costliest_errors(outcomes_of(at, 0.1), 3).items():
        assert repr(found.cost.tolist()) == repr(sorted(found.cost.tolist(), reverse=True)), "NaN without ground truths"
        for row, cost in zip(found.row.tolist(), found.cost.tolist(), strict=True):
            p, t = [dict(x) for x in preds], [dict(x) for x in target]
            for side in t if kind == "missed" else p:
                size = len(side["labels"])
                if 0 <= row < size:
                    side |= {name: torch.cat([x[:row], x[row + 1 :]]) for name, x in side.items()}
                row -= size
            after = updated(MeanAveragePrecision("xywh"), p, t).errors().average_precision.item()
            if kind != "missed" or after == after:
                assert cost == pytest.approx(after - before, abs=REORDERED, nan_ok=True), (kind, row)
    counts = metric.errors().counts
    found = costliest_errors(outcomes_of(at, 0.1), 3)
    assert {x: y.total for x, y in found.items()} == {x: int(counts[x]) for x in (*DETECTION_KINDS[1:6], "missed")}


def files(folder, count=3):
    paths = []
    for place in range(count):
        paths.append(folder / f"{place}.png")
        Image.new("RGB", (200, 100), (place * 80, 120, 60)).save(paths[-1])
    return paths


def test_images_are_embedded_once_and_missing_files_are_named(tmp_path):
    metric, paths = updated(MeanAveragePrecision(), *scene()), files(tmp_path)
    paths[1].unlink()
    paths[2].write_bytes(b"no image")
    page = page_of(metric, tmp_path / "x.html", images=[str(x) for x in paths], image_names=["a", "b & c", "d"])
    assert page.count('<image id="thumbnail-') == page.count('<image id="thumbnail-0"') == 1
    assert page.count('href="#thumbnail-0"') > 1
    assert f"No readable file of 2 of 3 images: {paths[1]}, {paths[2]}." in page
    assert "<b>image b &amp; c</b>" in page
    assert 'viewBox="0 0 320 160"' in page, "the size of the file"


@each("budget", [40_000, 600_000, 10_000_000])
def test_thumbnails_stay_in_their_budget(budget, tmp_path):
    noise = torch.randint(256, (300, 400, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    Image.fromarray(noise.numpy()).save(tmp_path / "noise.png")
    found = Thumbnails(dict.fromkeys(range(50), tmp_path / "noise.png"))
    assert [found.size(image) for image in range(50)] == [(400, 300)] * 50
    text = found.definitions(budget)
    assert min(budget, 50 * 20_000) / 4 < len(text) < budget + 500
    assert text.startswith('<p class="source">50 thumbnails in ')


@pytest.mark.slow
def test_a_page_with_many_thumbnails_stays_below_its_limit(tmp_path):
    noise = torch.randint(256, (24, 32, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    Image.fromarray(noise.numpy()).resize((640, 480)).save(tmp_path / "noise.jpg")
    preds, target = random_scene(3, images=300, classes=5)
    metric = updated(MeanAveragePrecision("xywh"), preds, target)
    path = report(metric, tmp_path / "x.html", images=[tmp_path / "noise.jpg"] * 300, n_resamples=10)
    assert path.stat().st_size < 2_720_000  # 20 kB for the note and the frame of the page
    assert "so that the page stays below 3 MB." in path.read_text()


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("name", ["rotated", "masks", "voc", "intervals"])
def test_other_shapes(name, tmp_path):
    preds, target = random_rotated(1, images=6) if name == "rotated" else random_scene(1, images=6)
    metric = MeanAveragePrecision("xywh")
    if name == "rotated":
        metric = MeanAveragePrecision("cxcywhr", "rotated")
    elif name == "voc":
        metric = VOCMeanAveragePrecision("xywh")
    elif name == "masks":
        metric = MeanAveragePrecision(iou_type="segm")
        for image in (*preds, *target):
            image["masks"] = torch.zeros((len(image["labels"]), 60, 80), dtype=torch.bool)
            for mask, (x, y, w, h) in zip(image["masks"], image.pop("boxes").long().tolist(), strict=True):
                mask[y : y + h, x : x + w] = True
            image.pop("area", None)
    else:
        metric = MeanAveragePrecision(iou_type="intervals")
        for image in (*preds, *target):
            image["intervals"] = torch.stack([image["boxes"][:, 0], image["boxes"][:, 0] + 1], 1)
            image = image.pop("boxes")
    page = page_of(updated(metric, preds, target), tmp_path / "x.html")
    assert ('<figure class="shot">' in page) == (name != "intervals"), "intervals have no place in an image"
    if name == "masks":
        assert re.search(r'<path d="M[\d.]+ [\d.]+v[\d.]+', page)


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("name", ["boxes", "rotated", "masks", "keypoints"])
def test_shapes_of_images_without_a_picture(name):
    preds, target = {"rotated": random_rotated, "keypoints": random_poses}.get(name, random_scene)(1, images=6)
    metric = MeanAveragePrecision("xywh", iou_type="keypoints" if name == "keypoints" else "bbox")
    if name == "rotated":
        metric = MeanAveragePrecision("cxcywhr", "rotated")
    elif name == "masks":
        metric = MeanAveragePrecision(iou_type="segm")
        for image in (*preds, *target):
            image["masks"] = torch.zeros((len(image["labels"]), 60, 80), dtype=torch.bool)
            image["masks"][:, 10:20, 10:20] = True
            del image["boxes"]
            image.pop("area", None)
    gallery = _Gallery(updated(metric, preds, target), ReportOptions(None, ("a", "b"), 0.95, Resampling(10)))
    text = gallery.further(range(6), 1_000_000)
    images = json.loads(text.split('id="drawings">')[1].split("</script>")[0])["images"]
    assert [*images] == [str(x) for x in range(6)]
    for (_, width, height, line, objects, found, hidden), truths in zip(images.values(), target, strict=True):
        assert max(width, height) == 320
        assert (line > 0) == (name == "masks")
        assert len(objects) + hidden[0] == len(truths["labels"])
        sizes = {len(x[-1]) for x in (*objects, *found) if not isinstance(x[-1], str)}
        assert sizes <= {{"boxes": 4, "rotated": 8}.get(name)}
    assert "The shapes of 6 of 6 further images" in text
    assert gallery.further(range(6), 0) == ""
    assert gallery.further((), 1_000_000) == ""


def test_poses_show_labelled_keypoints_and_limbs(tmp_path):
    points = torch.tensor([[[10.0 + 5 * k, 20.0 + 3 * k, 2] for k in range(17)]])
    hidden = points.clone()
    hidden[0, 16] = 0
    metric = MeanAveragePrecision(iou_type="keypoints")
    label = torch.tensor([0])
    truth = {"keypoints": hidden, "labels": label, "area": torch.tensor([900.0])}
    updated(metric, [{"keypoints": points, "labels": label, "scores": torch.tensor([0.9])}], [truth])
    (shot,) = section(page_of(metric, tmp_path / "x.html"), "Worst images")
    found, detected = re.findall(r'<path d="([^"]+)"', shot)
    assert (found.count("h4v4h-4z"), detected.count("h4v4h-4z")) == (16, 17)
    assert (found.count("L"), detected.count("L")) == (18, 19), "limbs without the unlabelled ankle"
    scale = 320 / 90
    assert f"M{round(10 * scale, 1) - 2:g} {round(20 * scale, 1) - 2:g}h4v4h-4z" in found
    truth["keypoints"] = hidden[:, :5]
    few = updated(
        MeanAveragePrecision(iou_type="keypoints", sigmas=[0.1] * 5),
        [{"keypoints": points[:, :5], "labels": label, "scores": torch.tensor([0.9])}],
        [truth],
    )
    (shot,) = section(page_of(few, tmp_path / "y.html"), "Worst images")
    assert shot.count("h4v4h-4z") == 10
    assert "L" not in re.findall(r'<path d="([^"]+)"', shot)[0], "the limbs are of COCO's 17 keypoints"


def test_markdown_has_the_table_of_labels(tmp_path):
    page = page_of(updated(MeanAveragePrecision(), *scene()), tmp_path / "x.md")
    assert "## Labels that may be wrong" in page
    assert "| wrong class | 0 → 1 |" in page


@each(
    "options, match",
    [
        ({"images": ["a"]}, "images"),
        ({"images": 5}, "images"),
        ({"image_names": [1, 2, 3]}, "image_names"),
    ],
)
def test_bad_arguments(options, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        report(updated(MeanAveragePrecision(), *scene()), tmp_path / "x.html", **options)


def test_the_command_takes_a_folder_of_images(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    preds, target = scene()
    (tmp_path / "images").mkdir()
    files(tmp_path / "images")
    secret = tmp_path / "secret.png"
    Image.new("RGB", (50, 50)).save(secret)
    images = [
        {"id": 5, "file_name": "0.png"},
        {"id": 6, "file_name": "../secret.png"},
        {"id": 7, "file_name": "a\u0000b"},
    ]

    def entries(side):
        for image, one in zip(images, side, strict=True):
            for place, (x1, y1, x2, y2) in enumerate(one["boxes"].tolist()):
                scores = {"score": one["scores"][place].item()} if "scores" in one else {}
                box = [x1, y1, x2 - x1, y2 - y1]
                yield {"image_id": image["id"], "category_id": int(one["labels"][place]), "bbox": box, **scores}

    categories = [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]
    truth = {"images": images, "annotations": [*entries(target)], "categories": categories}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps([*entries(preds)]))
    words = ["coco", "truth.json", "found.json", "--report", "x.html", "--n-resamples", "10", "--images"]
    assert main.main([*words, "images"]) == 0
    page = (tmp_path / "x.html").read_text()
    assert page.count('<image id="thumbnail-') == 1, "no file outside of the folder is read"
    assert "No readable file of 2 of 3 images" in page
    assert "<b>image 6</b>" in page
    assert main.main([*words, "nowhere"]) == 2
    assert "--images: nowhere is no folder" in capsys.readouterr().err
    assert main.main(["coco", "truth.json", "found.json", "--images", "images"]) == 2


def test_the_voc_command_takes_a_folder_of_images(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("truth", "found", "images", "images/more"):
        (tmp_path / folder).mkdir()
    for name in ("a", "b"):
        (tmp_path / "truth" / f"{name}.txt").write_text("cat 20 20 60 60\n")
        (tmp_path / "found" / f"{name}.txt").write_text("cat 0.9 20 20 60 61\n")
    Image.new("RGB", (200, 100)).save(tmp_path / "images" / "a.PNG")
    words = ["voc", "truth", "found", "--images", "images"]
    assert main.main([*words, "--report", "x.html", "--n-resamples", "10"]) == 0
    page = (tmp_path / "x.html").read_text()
    assert page.count('<image id="thumbnail-') == 1
    assert "No readable file of 1 of 2 images: images/b.jpg." in page
    assert main.main(words) == 2
    assert "--images has no meaning without --report" in capsys.readouterr().err
    assert main.main([*words[:-1], "nowhere", "--report", "x.html"]) == 2
    assert "--images: nowhere is no folder" in capsys.readouterr().err


@pytest.mark.slow
@in_browser
def test_hostile_names_in_a_browser(tmp_path):
    metric = updated(MeanAveragePrecision(class_names=HOSTILE), *scene())
    names = ["<img src=x onerror=alert(1)>", "\u202e" + "y" * 10_000, '"><script>alert(2)</script>']
    paths = [str(x) for x in files(tmp_path)]
    paths[1] = str(tmp_path / "<script>alert(3)</script>.png")
    path = report(metric, tmp_path / "x.html", images=paths, image_names=names, n_resamples=10)
    assert path.stat().st_size < 600_000, "long names are shortened in pictures"
    with chromium() as browser, opened(browser, path, viewport={"width": 390, "height": 800}) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.evaluate("document.querySelectorAll('details').forEach(x => { x.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.locator(".shot").first.is_visible()
        box = "document.querySelector('.shot .truth path').getBBox()"
        assert page.evaluate(f"(b => [b.x, b.y, b.width, b.height].map(Math.round))({box})") == [107, 107, 213, 213]
        page.get_by_label("objects", exact=True).uncheck()
        assert not page.locator(".shot .truth").first.is_visible()
        width = page.locator(".shot").first.bounding_box()["width"]
        page.set_viewport_size({"width": 1280, "height": 800})
        page.locator(".shot svg").first.click()
        assert page.locator(".shot").first.bounding_box()["width"] > 1.5 * width
        assert not violations(page)
