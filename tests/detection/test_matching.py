"""IoU and matching functions, against pycocotools' C code and rules applied one detection at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.each import each
from torch_ap.detection.pairs import box_iou, match_coco, match_voc, ragged_box_iou
from torch_ap.detection.shapes.boxes import coco_pairs


def some_boxes(r, count):
    return np.concatenate([r.integers(0, 20, (count, 2)), r.integers(-1, 15, (count, 2))], 1) / 3


@each("seed", range(50))
def test_box_iou_equals_pycocotools(seed):
    mask = pytest.importorskip("pycocotools.mask")
    r = np.random.default_rng(seed)
    one, two = some_boxes(r, int(r.integers(1, 9))), some_boxes(r, int(r.integers(1, 9)))
    crowd = r.integers(0, 2, len(two))
    found = box_iou(torch.from_numpy(one), torch.from_numpy(two), "xywh", iscrowd=torch.from_numpy(crowd))
    np.testing.assert_array_equal(found.numpy(), mask.iou(one, two, crowd.tolist()))


def test_ragged_iou_is_the_blocks_of_the_pairwise_one():
    r = np.random.default_rng(1)
    counts = [(3, 2), (0, 4), (2, 0), (5, 5)]
    one = torch.from_numpy(some_boxes(r, sum(d for d, _ in counts)))
    two = torch.from_numpy(some_boxes(r, sum(g for _, g in counts)))
    d, g, iou = ragged_box_iou(one, two, *(torch.tensor(x) for x in zip(*counts, strict=True)), "xywh")
    expected = []
    first, second = 0, 0
    for rows, columns in counts:
        block = box_iou(one[first : first + rows], two[second : second + columns], "xywh")
        expected += [(first + i, second + j, float(block[i, j])) for i in range(rows) for j in range(columns)]
        first, second = first + rows, second + columns
    assert list(zip(d.tolist(), g.tolist(), iou.tolist(), strict=True)) == expected


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_the_largest_boxes_have_the_iou_of_scaled_boxes(box_format, inclusive):
    boxes = torch.tensor([[-1.0, -1, 1, 1], [-1, -0.5, 1, 0.25], [0, 0, 1, 1], [0.25, 0.25, 0.5, 0.75]]).double()
    scale = 2.0**498  # 8e149
    found = box_iou(boxes * scale, boxes * scale, box_format, inclusive_pixels=inclusive)
    torch.testing.assert_close(found, box_iou(boxes, boxes, box_format), rtol=0, atol=1e-150)


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("side", ["preds", "target"])
def test_boxes_whose_areas_would_overflow_raise(side, inclusive):
    good = torch.tensor([[10.0, 10, 50, 50]], dtype=torch.float64)
    one = torch.ones(1, dtype=torch.int64)
    sides = {"preds": good, "target": good} | {side: good * 1e160}
    message = rf"`{side}` must be finite, at most 1e150 from 0, got \[1e\+161, "
    with pytest.raises(ValueError, match=message):
        box_iou(**sides, inclusive_pixels=inclusive)
    with pytest.raises(ValueError, match=message):
        ragged_box_iou(**sides, preds_counts=one, target_counts=one, inclusive_pixels=inclusive)


def test_boxes_of_two_negative_sizes_overlap_nothing():
    """Both extents of the intersection are negative, so their product is positive."""
    truth = torch.tensor([[0.0, 0, 60, 60]], dtype=torch.float64)
    turned = torch.tensor([[50.0, 50, -40, -40]], dtype=torch.float64)
    pairs = coco_pairs(turned, truth, torch.zeros(1, dtype=torch.bool))
    place = torch.zeros(1, dtype=torch.int64)
    for least in (0.0, 0.1):
        d, _, iou = pairs(place, place, least)
        assert iou.tolist() == [0.0] * len(d) == ([] if least else [0.0])


def test_inclusive_pixels_count_the_corner():
    box = torch.tensor([[10.0, 10, 10, 10]])
    assert float(box_iou(box, box)) == 0
    assert float(box_iou(box, box, inclusive_pixels=True)) == 1


def greedy(scores, table, thresholds, crowd, ignored):
    """Match by COCO's rule, one detection and one ground truth at a time."""
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    truths = sorted(range(len(crowd)), key=lambda g: ignored[g] or crowd[g])
    out = []
    for threshold in thresholds:
        row, taken = [-1] * len(scores), set()
        for d in order:
            best, chosen = min(threshold, 1 - 1e-10), -1
            for g in truths:
                if g in taken and not crowd[g]:
                    continue
                skip = ignored[g] or crowd[g]
                if chosen > -1 and skip and not (ignored[chosen] or crowd[chosen]):
                    break
                if (d, g) not in table or table[d, g] < best:
                    continue
                best, chosen = table[d, g], g
            if chosen > -1:
                row[d] = chosen
                taken.add(chosen)
        out.append(row)
    return out


def argmax(scores, table, thresholds, truths):
    owner = []
    for d in range(len(scores)):
        best, chosen = -1.0, -1
        for g in range(truths):
            if (d, g) in table and table[d, g] > best:
                best, chosen = table[d, g], g
        owner.append((chosen, best))
    states = []
    for threshold in thresholds:
        taken, row = set(), [-1] * len(scores)
        for d in sorted(range(len(scores)), key=lambda d: -scores[d]):
            if owner[d][0] >= 0 and owner[d][1] >= threshold:
                row[d] = 0 if owner[d][0] in taken else 1
                taken.add(owner[d][0])
        states.append(row)
    return [chosen for chosen, _ in owner], states


@st.composite
def scenes(draw):
    detections, truths = draw(st.integers(0, 7)), draw(st.integers(1, 5))
    scores = draw(st.lists(st.sampled_from([0.1, 0.5, 0.9]), min_size=detections, max_size=detections))
    iou = st.sampled_from([None, 0.0, 0.2, 0.5, 0.7, 1.0])
    cells = draw(st.lists(iou, min_size=detections * truths, max_size=detections * truths))
    table = {(i // truths, i % truths): x for i, x in enumerate(cells) if x is not None}
    flags = st.lists(st.booleans(), min_size=truths, max_size=truths)
    return scores, truths, table, draw(flags), draw(flags), draw(st.permutations(sorted(table)))


def triples(table, order):
    d, g = (torch.tensor([key[side] for key in order], dtype=torch.int64) for side in (0, 1))
    return d, g, torch.tensor([table[key] for key in order], dtype=torch.float64)


@settings(max_examples=300, deadline=None)
@given(scenes())
def test_match_coco_is_the_rule(scene):
    scores, truths, table, crowd, ignored, order = scene
    thresholds = [0.5, 0.0, 0.7, 1.0]
    found = match_coco(
        torch.tensor(scores),
        triples(table, order),
        truths,
        thresholds,
        iscrowd=torch.tensor(crowd),
        ignored=torch.tensor(ignored),
    )
    assert found.tolist() == greedy(scores, table, thresholds, crowd, ignored)


@settings(max_examples=300, deadline=None)
@given(scenes())
def test_match_voc_is_the_rule(scene):
    scores, truths, table, _, _, order = scene
    found = match_voc(torch.tensor(scores), triples(table, order), truths, [0.5, 0.2])
    assert (found.ground_truth.tolist(), found.state.tolist()) == argmax(scores, table, [0.5, 0.2], truths)


def test_groups_change_the_speed_and_nothing_else():
    r = np.random.default_rng(0)
    group = torch.from_numpy(r.integers(0, 6, 60))
    d, g = torch.meshgrid(torch.arange(60), torch.arange(30), indexing="ij")
    d, g = d.flatten(), g.flatten()
    same = group[d] == g % 6
    pairs = d[same], g[same], torch.from_numpy(r.integers(0, 5, int(same.sum())) / 5)
    scores = torch.from_numpy(r.integers(0, 4, 60) / 4)
    torch.testing.assert_close(match_coco(scores, pairs, 30, group=group), match_coco(scores, pairs, 30))


def pair(*numbers):
    return tuple(torch.tensor([x]) for x in numbers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ground_truths": -1}, "`ground_truths` must be an int of at least 0"),
        ({"iou_thresholds": [2.0]}, "`iou_thresholds` must be"),
        ({"iscrowd": torch.zeros(3)}, r"`iscrowd` must have shape \(2,\)"),
        ({"pairs": (torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([0.5]))}, "tensors of one length"),
        ({"pairs": (torch.tensor([0]), torch.tensor([0]))}, "three 1-D tensors"),
        ({"scores": torch.tensor([torch.nan])}, "`scores` must not contain NaN"),
        ({"pairs": pair(0, 0, torch.nan)}, r"`pairs\[2\]` must not contain NaN"),
        ({"pairs": pair(1, 0, 0.5)}, r"`pairs\[0\]` must contain indices of the 1 detections, got 1"),
        ({"pairs": pair(0, 2, 0.5)}, r"`pairs\[1\]` must contain indices of the 2 ground truths, got 2"),
        ({"pairs": pair(0, -1, 0.5)}, r"`pairs\[1\]` must contain indices of the . ground truths,.* got -1"),
        ({"pairs": pair(0.0, 0, 0.5)}, r"`pairs\[0\]` must be an integer tensor, got torch.float32"),
    ],
)
def test_bad_pairs(arguments, message):
    given_ = {"scores": torch.ones(1), "pairs": pair(0, 0, 0.5)}
    for match in (match_coco, match_voc):
        if match is match_voc and "iscrowd" in arguments:
            continue
        with pytest.raises(ValueError, match=message):
            match(**{**given_, "ground_truths": 2, **arguments})


@pytest.mark.parametrize(
    ("group", "kind", "message"),
    [
        ([0, 1], TypeError, "`group` must be a tensor or None, got list"),
        (torch.tensor([0]), ValueError, r"`group` must have the shape of `scores`, \(2,\), got \(1,\)"),
        (torch.tensor([0.0, 1]), ValueError, "`group` must be an integer tensor"),
        (torch.tensor([0, -1]), ValueError, "`group` must not be negative, got -1 at index 1"),
        (
            torch.tensor([4, 1]),
            ValueError,
            "`group` must be one for all detections of a ground truth, got several for 1",
        ),
        (torch.tensor([1, 4]), ValueError, "got several for 1"),
    ],
)
def test_bad_groups(group, kind, message):
    pairs = torch.tensor([0, 1]), torch.tensor([1, 1]), torch.tensor([0.5, 0.6])
    with pytest.raises(kind, match=message):
        match_coco(torch.ones(2), pairs, 2, group=group)


@pytest.mark.gpu
def test_bad_pairs_on_an_accelerator():
    scores, (d, g) = torch.ones(1, device="cuda"), torch.tensor([[0], [3]], device="cuda")
    for match in (match_coco, match_voc):
        with pytest.raises(ValueError, match=r"`pairs\[1\]` must contain indices of the . ground truths,.* got 3"):
            match(scores, (d, g, scores), 3)


def test_pairs_of_any_integers():
    """Torch would read uint8 indices as a mask."""
    d, g, iou = torch.tensor([1, 0]), torch.tensor([2, 0]), torch.tensor([0.7, 0.6])
    for match in (match_coco, match_voc):
        known = match(torch.ones(2), (d, g, iou), 3)
        torch.testing.assert_close(match(torch.ones(2), (d.to(torch.uint8), g.to(torch.int16), iou), 3), known)


@pytest.mark.parametrize("match", [match_coco, match_voc])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_empty_input_has_no_argmax(match, dtype):
    first = torch.zeros(1, dtype=dtype)
    for detections, ground_truths, what in ((0, 1, "detections"), (1, 0, "ground truths")):
        with pytest.raises(ValueError, match=f"must contain indices of the 0 {what}, got 0"):
            match(torch.ones(detections), (first, first, torch.ones(1)), ground_truths)


def test_bad_boxes():
    with pytest.raises(ValueError, match=r"`target` must have shape \(N, 4\)"):
        box_iou(torch.ones(1, 4), torch.ones(1, 5))
    with pytest.raises(ValueError, match=r"`target` must be finite, at most 1e150 from 0, got \[1.0, nan, 1.0, 1.0\]"):
        box_iou(torch.ones(1, 4), torch.tensor([[1, torch.nan, 1, 1]]))
    with pytest.raises(ValueError, match="`iscrowd` must contain 0 and 1 only, got 2"):
        box_iou(torch.ones(1, 4), torch.ones(1, 4), iscrowd=torch.tensor([2]))
    with pytest.raises(TypeError, match="`iscrowd` must be a tensor or None, got list"):
        box_iou(torch.ones(1, 4), torch.ones(1, 4), iscrowd=[1])
    with pytest.raises(ValueError, match="give one of them"):
        box_iou(torch.ones(1, 4), torch.ones(1, 4), iscrowd=torch.zeros(1), inclusive_pixels=True)
