"""Masks as edges, against dense masks and pycocotools' run-length codes."""

import numpy as np
import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import pycocotools_eval, random_scene
from torch_ap.detection.shapes import masks, run_lengths
from torch_ap.functional import coco_mean_average_precision

rle = pytest.importorskip("pycocotools.mask")


def edges_of_codes(codes):
    decoded = run_lengths.decode_images([codes], lambda image, mask: f"code {image} {mask}")[0]
    assert list(decoded) == list(codes)
    return decoded.edges, decoded.lengths


def some_masks(seed, count=6, height=7, width=9):
    r = np.random.default_rng(seed)
    dense = np.zeros((count, height, width), bool)
    for mask in dense:
        kind = r.integers(4)
        if kind == 1:
            mask[:] = True
        elif kind == 2:
            y, x = r.integers(0, height), r.integers(0, width)
            mask[y : y + r.integers(1, 5), x : x + r.integers(1, 5)] = True
        elif kind == 3:
            mask[:] = r.random((height, width)) < r.random()
    return dense


def codes_of(dense, compressed=True):
    codes = [rle.encode(np.asfortranarray(mask.astype(np.uint8))) for mask in dense]
    if compressed:
        return codes
    flat = [np.concatenate([[0], mask.T.flatten().astype(int)]) for mask in dense]
    plain = []
    for pixels in flat:
        change = np.flatnonzero(np.diff(pixels))
        edges = np.concatenate([[0], change, [len(pixels) - 1]])
        plain.append({"size": list(dense.shape[1:]), "counts": np.diff(edges).tolist()})
    return plain


def test_masks_with_a_channel_as_torchvision_has_them():
    dense, labels = torch.from_numpy(some_masks(1)), torch.zeros(6, dtype=torch.int64)
    preds = {"masks": dense, "labels": labels, "scores": torch.linspace(0, 1, 6)}
    target = {"masks": dense.to(torch.uint8), "labels": labels}
    expected = coco_mean_average_precision([preds], [target], iou_type="segm")
    preds["masks"], target["masks"] = dense[:, None], target["masks"][:, None]
    found = coco_mean_average_precision([preds], [target], iou_type="segm")
    assert found["map"] == expected["map"] > 0
    with pytest.raises(ValueError, match=r"bool or integer tensor.*masks > 0\.5"):
        coco_mean_average_precision([preds | {"masks": preds["masks"].float()}], [target], iou_type="segm")


@each("seed", range(30))
@pytest.mark.parametrize("compressed", [True, False])
def test_codes_and_dense_masks_have_the_same_edges(seed, compressed):
    dense = some_masks(seed)
    one, two = masks.edges_of([torch.from_numpy(dense)]), edges_of_codes(codes_of(dense, compressed))
    assert masks.area(*one).tolist() == masks.area(*two).tolist() == dense.sum((1, 2)).tolist()
    for edges, lengths in (one, two):
        for mask, part in zip(dense, torch.split(edges, lengths.tolist()), strict=True):
            drawn = np.zeros(mask.size, bool)
            for begin, end in part.reshape(-1, 2).tolist():
                drawn[begin:end] = True
            np.testing.assert_array_equal(drawn.reshape(mask.shape[::-1]).T, mask)


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (6, 1), (2, 2), (5, 8), (9, 4)])
def test_dense_masks_of_any_layout_and_type(size, monkeypatch):
    monkeypatch.setitem(masks._PIXELS_A_CHUNK, "cpu", 2 * size[0] * size[1] + 2)  # two masks at a time
    dense = torch.rand(9, *size, generator=torch.Generator().manual_seed(0)) < torch.linspace(0, 1, 9)[:, None, None]
    pixels = [mask.T.flatten().tolist() for mask in dense]
    expected = [[x for x in range(len(p) + 1) if [False, *p][x] != [*p, False][x]] for p in pixels]
    for given in (dense, dense.to(torch.uint8) * 255, -dense.long(), dense.mT.contiguous().mT, dense.repeat(1, 1, 2)):
        edges, lengths = masks.edges_of([given[:4, :, : size[1]], given[:0], given[4:, :, : size[1]]])
        assert [part.tolist() for part in edges.split(lengths.tolist())] == expected


@each("seed", range(40))
def test_iou_equals_pycocotools(seed, monkeypatch):
    monkeypatch.setattr(masks, "_FEW_EDGES", 0 if seed % 2 else 1 << 17)  # with and without bounds in columns
    one, two = some_masks(seed), some_masks(seed + 1000, count=5)
    crowd = np.random.default_rng(seed).integers(0, 2, 5)
    sides = [masks.edges_of([torch.from_numpy(dense)]) for dense in (one, two)]
    sides = [masks.Masks(*side, torch.tensor(one.shape[1:]).expand(len(side[1]), 2)) for side in sides]
    pairs = masks.coco_pairs(*sides, torch.from_numpy(crowd).bool())
    d, g = (x.flatten() for x in torch.meshgrid(torch.arange(6), torch.arange(5), indexing="ij"))
    expected = rle.iou(codes_of(one), codes_of(two), crowd.tolist())
    np.testing.assert_array_equal(pairs(d, g, 0.0)[2].reshape(6, 5).numpy(), expected)
    d, g, iou = pairs(d, g, 0.25)
    found = np.zeros((6, 5))
    found[d, g] = iou
    np.testing.assert_array_equal(found, np.where(expected >= 0.25, expected, 0))


def test_total_areas_beyond_int32():
    height, width = 1 << 15, (1 << 15) - 1  # with edges in int32, and five masks with half of the range and more
    pixels = height * width
    first = torch.arange(5) * height * 3000
    edges, lengths = edges_of_codes([{"size": [height, width], "counts": [x, pixels - x]} for x in first.tolist()])
    side = masks.Masks(edges, lengths, torch.tensor([[height, width]]).expand(5, 2))
    assert edges.dtype == torch.int32
    assert side.area.tolist() == (pixels - first).tolist()
    d, g = (x.flatten() for x in torch.meshgrid(torch.arange(5), torch.arange(5), indexing="ij"))
    found = masks.coco_pairs(side, side, torch.zeros(5, dtype=torch.bool))(d, g, 0.5)
    assert torch.equal(torch.stack(found[:2]), torch.stack([d, g]))
    expected = (pixels - torch.maximum(first[d], first[g])).double() / (pixels - torch.minimum(first[d], first[g]))
    assert torch.equal(found[2], expected)


def test_masks_without_overlap_are_skipped(monkeypatch):
    dense, labels = torch.eye(40, dtype=torch.bool)[:, None], torch.zeros(40, dtype=torch.int64)
    areas, pairs = masks._smaller_area, []
    monkeypatch.setattr(masks, "_smaller_area", lambda *x: (pairs.append(len(x[2])), areas(*x))[1])
    target = {"masks": dense, "labels": labels}
    found = coco_mean_average_precision([target | {"scores": torch.ones(40)}], [target], iou_type="segm")
    assert found["map"] == 1
    assert sum(pairs) == 40


def test_long_runs_survive_compression():
    dense = np.zeros((2, 600, 700), bool)
    dense[0, 100:590, 3:640] = True
    dense[1, :, 200:] = True
    edges, lengths = edges_of_codes(codes_of(dense))
    assert masks.area(edges, lengths).tolist() == dense.sum((1, 2)).tolist()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda p: {**p, "masks": p["masks"][:, :5]},
            r"and `target\[0\]\['masks'\]` must have the same",
        ),
        (lambda p: {**p, "masks": p["masks"][:1]}, r"`preds\[0\]\['masks'\]` must have one mask for each of 2 labels"),
        (lambda p: {**p, "masks": p["masks"][0]}, r"`preds\[0\]\['masks'\]` must have shape \(N, height, width\)"),
        (
            lambda p: {**p, "masks": [1, 2]},
            r"`preds\[0\]\['masks'\]\[0\]` must be a dict with 'size' and",
        ),
        (lambda p: {**p, "masks": "ab"}, r"`preds\[0\]\['masks'\]` must be a tensor, or a list of dicts with"),
        (lambda p: {**p, "masks": p["masks"] * 0.5}, r"`preds\[0\]\['masks'\]` must be a bool or integer tensor"),
        (lambda p: {k: v for k, v in p.items() if k != "masks"}, r"`preds\[0\]` must have the key 'masks'"),
    ],
)
def test_bad_masks_name_image_and_key(spoil, message):
    dense = torch.from_numpy(some_masks(3, count=2))
    target = {"masks": dense, "labels": torch.tensor([0, 0])}
    preds = spoil({**target, "scores": torch.tensor([0.5, 0.4])})
    with pytest.raises(ValueError, match=message):
        coco_mean_average_precision([preds], [target], iou_type="segm")


def shaped(r, boxes, height, width):
    """Return (N, height, width) bool masks: boxes, some with holes, full, empty or up to the last pixel."""
    dense = np.zeros((len(boxes), height, width), bool)
    for mask, (x, y, w, h) in zip(dense, (boxes / 4).long().tolist(), strict=True):
        mask[y : y + h, x : x + w] = True
        kind = r.random()
        if kind < 0.3:
            mask[r.integers(height) :: 3, :: r.integers(1, 4)] = False
        elif kind < 0.4:
            mask[:] = r.random((height, width)) < 0.5
        elif kind < 0.5:
            mask[:] = r.random() < 0.5
        elif kind < 0.6:
            mask[y:, x:] = True
    return dense


def random_form(r, codes, dense):
    """Return the masks as arrays, texts, bytes or lists of runs."""
    kind = r.integers(4)
    if kind == 0:
        return torch.from_numpy(dense)
    if kind == 1:
        return codes
    return [{**code, "counts": code["counts"].decode()} for code in codes] if kind == 2 else codes_of(dense, False)


def test_thousands_of_scenes_equal_pycocotools(monkeypatch):
    r, given, codes = np.random.default_rng(0), ([], []), ([], [])
    for seed in range(2000):
        size = r.integers(20, 60, 2).tolist()
        for place, (image,) in enumerate(random_scene(seed, images=1, classes=2)):
            dense = shaped(r, image.pop("boxes"), *size)
            if place:
                image["area"].clamp_(min=1)  # an area of 0 is replaced by the area of the mask
            given[place].append({**image, "masks": random_form(r, codes_of(dense), dense)})
            codes[place].append({**image, "masks": codes_of(dense)})
    expected = pycocotools_eval(*codes, kind="segm").eval
    monkeypatch.setitem(masks._EDGES_A_CHUNK, "cpu", 1 << 12)
    monkeypatch.setattr(run_lengths, "_NUMBERS_A_BLOCK", 1 << 12)
    found = coco_mean_average_precision(*given, iou_type="segm", extended_summary=True)
    for name in ("precision", "recall", "scores"):
        np.testing.assert_array_equal(found[name].numpy(), expected[name])
