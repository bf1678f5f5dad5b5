"""Run-length codes: codes of pycocotools are read, and invalid codes raise by name on every path."""

import copy
import itertools
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.shapes import run_counts, run_lengths
from torch_ap.functional import coco_mean_average_precision


def text_of(numbers):
    """Return COCO's text of any numbers, valid runs or not: differences from the fourth on."""
    text = []
    for place, number in enumerate(numbers):
        rest, more = number - (numbers[place - 2] if place > 2 else 0), True
        while more:
            digit, rest = rest & 31, rest >> 5
            more = rest != (-1 if digit & 16 else 0)
            text.append(chr(48 + digit + 32 * more))
    return "".join(text)


def decode(*counts, size=(4, 5)):
    codes = [{"size": list(size), "counts": one} for one in counts]
    return run_lengths.decode_images([codes], lambda image, mask: f"image {image} mask {mask}")[0]


def edges_of(runs):
    ends = list(itertools.accumulate(runs))
    return ends if len(ends) % 2 == 0 else ends[:-1]


# runs of a mask of 20 pixels: zeros at any place, odd and even numbers of runs
valid = st.lists(st.integers(0, 20), max_size=9).map(lambda ends: np.diff([0, *sorted(ends), 20]).tolist())


@given(st.lists(st.tuples(valid, st.integers(0, 2)), max_size=12))
def test_text_lists_and_arrays_agree(codes):
    forms = [lambda runs: runs, text_of, lambda runs: torch.tensor(runs)]
    decoded = decode(*(forms[form](runs) for runs, form in codes))
    parts = torch.split(decoded.edges, decoded.lengths.tolist()) if len(codes) else []
    assert [part.tolist() for part in parts] == [edges_of(runs) for runs, _ in codes]


numbers = st.lists(st.one_of(st.integers(-2, 20), st.sampled_from([1 << 40, 1 << 43, -(1 << 43)])), max_size=6)


@given(st.lists(st.one_of(valid, numbers), min_size=1, max_size=5), st.booleans())
def test_the_first_that_is_none_is_named(codes, as_text):
    bad = [place for place, runs in enumerate(codes) if sum(runs) != 20 or any(run < 0 for run in runs)]
    counts = [text_of(runs) if as_text else runs for runs in codes]
    if bad:
        with pytest.raises(ValueError, match=rf"^image 0 mask {bad[0]}: 'counts' must "):
            decode(*counts)
    else:
        assert decode(*counts).lengths.tolist() == [len(edges_of(runs)) for runs in codes]


LARGE = {torch.int32: (1 << 15, (1 << 15) - 1), torch.int64: (1 << 15, 1 << 15)}  # below 2^30 pixels, and above
bounds = st.sampled_from([0, 1, 1 << 15, 1 << 29, 1 << 30, 1 << 31, 1 << 32, -1, -(1 << 30), -(1 << 31), -(1 << 32)])


@pytest.mark.parametrize("dtype", LARGE)
@given(st.lists(st.tuples(st.lists(bounds, max_size=6), st.booleans()), min_size=1, max_size=4), st.booleans())
def test_numbers_at_the_bounds_of_integers_are_read_or_named(dtype, given, as_text):
    pixels = LARGE[dtype][0] * LARGE[dtype][1]
    codes = [[*runs, pixels - sum(runs)] if complete else runs for runs, complete in given]
    bad = [place for place, runs in enumerate(codes) if sum(runs) != pixels or min(runs) < 0]
    counts = [text_of(runs) if as_text else runs for runs in codes]
    if bad:
        with pytest.raises(ValueError, match=rf"^image 0 mask {bad[0]}: 'counts' must "):
            decode(*counts, size=LARGE[dtype])
    else:
        decoded = decode(*counts, size=LARGE[dtype])
        assert decoded.edges.dtype == dtype
        assert decoded.edges.tolist() == [edge for runs in codes for edge in edges_of(runs)]


PIXELS = LARGE[torch.int32][0] * LARGE[torch.int32][1]
WRAPPING = {  # sums that match a mask in 32 bits only
    "a number": [1 << 32, PIXELS - (1 << 32)],
    "edges": [*8 * [1 << 29], PIXELS],
    "edges below 0": [1 << 29, (1 << 31) - 1, (1 << 31) - 1, PIXELS - (1 << 29) + 2],
}


@each("runs", WRAPPING)
def test_runs_that_wrap_in_32_bits_raise(runs):
    assert (sum(runs) - PIXELS) % (1 << 32) == 0
    for counts in (runs, text_of(runs)):
        with pytest.raises(ValueError, match=r"^image 0 mask 0: 'counts' must "):
            decode(counts, size=LARGE[torch.int32])


def test_states_of_large_masks_merge_with_others():
    small = images({"size": [4, 5], "counts": [0, 20]})
    large = [{**image, "masks": 2 * [{"size": [*LARGE[torch.int64]], "counts": [1 << 29, 1 << 29]}]} for image in small]
    metric, other = MeanAveragePrecision(iou_type="segm"), MeanAveragePrecision(iou_type="segm")
    metric.update(small, small)
    metric.persistent(True)
    state = metric.state_dict()
    other.load_state_dict({**state, "ground_truth_mask_edges": [x.long() for x in state["ground_truth_mask_edges"]]})
    for one in (metric, other):
        one.update(large, large)
        assert [x.dtype for x in one.detection_mask_edges] == [torch.int32, torch.int64]
        assert float(one.compute()["map"]) == 1


@given(st.text(alphabet=[chr(x) for x in (0, 40, 47, 48, 50, 68, 80, 100, 111, 112, 233, 0xD800)], max_size=8))
def test_any_text_is_read_as_pycocotools_reads_it_or_raises(text):
    fault = run_lengths._fault(text, 20)
    if fault:
        with pytest.raises(ValueError, match=f"^image 0 mask 0: 'counts' {re.escape(fault)}$"):
            decode(text)
        return
    decoded = decode(text)
    rle = pytest.importorskip("pycocotools.mask")
    assert int(rle.area({"size": [4, 5], "counts": text.encode()})) == int(decoded.edges.reshape(-1, 2).diff().sum())


FAULTS = {
    "negative": ([-1, 21], "must be integers of at least 0, got -1 as run 0"),
    "fractional": ([1.5, 18.5], "must be integers of at least 0, got 1.5 as run 0"),
    "a whole float": ([3.0, 17], "must be integers of at least 0, got 3.0 as run 0"),
    "bool": ([True, 19], "must be integers of at least 0, got True as run 0"),
    "text": (["3", 17], "must be integers of at least 0, got '3' as run 0"),
    "nested": ([[3, 17]], r"must be integers of at least 0, got \[3, 17\] as run 0"),
    "null": ([None, 20], "must be integers of at least 0, got None as run 0"),
    "empty": ([], "must be runs that add up to height times width, 20, got 0"),
    "overlong": ([3, 18], "must be runs that add up to height times width, 20, got 21"),
    "beyond any picture": ([0, 1 << 62], "add up to height times width, 20, got 4611686018427387904"),
    "beyond 64 bits": ([0, 1 << 64, 20], "add up to height times width, 20, got 18446744073709551636"),
    "a sum that wraps": ([1 << 62] * 4 + [20], "add up to height times width, 20, got 18446744073709551636"),
    "float tensor": (torch.tensor([3.0, 17.0]), "got 3.0 as run 0"),
    "0-d tensor": (torch.tensor(20), "must be text or a list of integers, got 20"),
    "no list": (None, "must be text or a list of integers, got None"),
    "a dict": ({}, r"must be text or a list of integers, got \{\}"),
    "empty text": ("", "must be runs that add up to height times width, 20, got 0"),
    "junk": ("junk~~", "whose characters are '0' to 'o', not 'u' at 1, got 'junk~~'"),
    "other letters": ("é", "whose characters are '0' to 'o'"),
    "beyond the letters": (b"0\x840", r"whose characters are '0' to 'o', not '\\x84' at 1"),  # the last bits of "0d0"
    "cut off": (text_of([0, 20])[:-1] + "d", "is cut off within a number"),
    "a long number": ("d" * 20 + "0", "whose numbers have at most 9 characters"),
    "a long 0": ("P" * 9 + "0d0", "whose numbers have at most 9 characters"),
    "of another size": (text_of([3, 27]), "must be runs that add up to height times width, 20, got 30"),
    "a wrapping text": (text_of([3, 1 << 43]), "must be runs that add up to"),
}
SIZES = {
    "one number": ([20], r"'size' must be height and width, .*, got \[20\]"),
    "null": (None, "got None"),
    "text": (["4", "5"], r"got \['4', '5'\]"),
    "floats": ([4.0, 5.0], r"got \[4.0, 5.0\]"),
    "negative": ([-4, -5], r"got \[-4, -5\]"),
    "huge": ([1 << 40, 2], r"with a product of at most 2\^40, got"),
}


@pytest.mark.parametrize("beside", ["text", "list"])
@each("fault", FAULTS.keys())
def test_faults_are_named_among_good_codes(fault, beside):
    counts, message = FAULTS[fault]
    good = text_of([3, 17]) if beside == "text" else [3, 17]
    with pytest.raises(ValueError, match=message) as raised:
        decode(good, good, counts, good)
    assert str(raised.value).startswith("image 0 mask 2: 'counts' ")


@pytest.mark.parametrize("fault", SIZES)
def test_faults_of_sizes(fault):
    size, message = SIZES[fault]
    with pytest.raises(ValueError, match=f"^image 0 mask 1: {message}|^image 0 mask 1: 'size' .*{message}"):
        run_lengths.decode_images(
            [[{"size": [4, 5], "counts": [20]}, {"size": size, "counts": [20]}]], lambda i, m: f"image {i} mask {m}"
        )


def test_long_values_are_cut():
    for counts in ([1] * 10_000, "1" * 10_000, [10**4000]):
        with pytest.raises(ValueError, match="mask 0: 'counts'") as raised:
            decode(counts)
        assert len(str(raised.value)) < 250


def images(code):
    good = {"size": [4, 5], "counts": [3, 17]}
    labels, scores = torch.tensor([0, 0]), torch.tensor([0.5, 0.4])
    return [{"masks": [good, one], "labels": labels, "scores": scores} for one in (good, code)]


@pytest.mark.parametrize("side", ["preds", "target"])
@each("fault", FAULTS.keys())
def test_functions_and_metrics_name_image_and_key_and_stay_as_they_were(fault, side):
    good, bad = images({"size": [4, 5], "counts": [0, 20]}), images({"size": [4, 5], "counts": FAULTS[fault][0]})
    given = (bad, good) if side == "preds" else (good, bad)
    where = rf"^`{side}\[1\]\['masks'\]\[1\]`: 'counts' must "
    with pytest.raises(ValueError, match=where):
        coco_mean_average_precision(*given, iou_type="segm")
    metric = MeanAveragePrecision(iou_type="segm")
    metric.update(good, good)
    with pytest.raises(ValueError, match=where):
        metric.update(*given)
    assert float(metric.compute()["map"]) == 1
    assert len(metric.detection_edges_per_mask) == 1


@pytest.mark.parametrize("key", ["size", "counts"])
def test_sparse_tensors_in_codes_are_named(key):
    code = {"size": torch.tensor([4, 5]), "counts": torch.tensor([0, 20])}
    bad = images({**code, key: code[key].to_sparse()})
    name = f"preds[1]['masks'][1][{key!r}]"
    with pytest.raises(ValueError, match=re.escape(f"`{name}` is a sparse tensor (torch.sparse_coo); pass `{name}.")):
        MeanAveragePrecision(iou_type="segm").update(bad, images(code))


def test_masks_of_one_image_have_one_size():
    other = images({"size": [5, 4], "counts": [20]})
    with pytest.raises(ValueError, match=r"`preds\[1\]\['masks'\]\[1\]` must .*size of the first"):
        coco_mean_average_precision(other, other, iou_type="segm")


def test_decoded_masks_are_their_codes_and_are_not_decoded_again(monkeypatch):
    codes = [{"size": [4, 5], "counts": text_of([3, 17])}, {"size": [4, 5], "counts": [20]}]
    decoded = run_lengths.decode_images([codes], lambda image, mask: f"{image} {mask}")[0]
    assert decoded == tuple(codes)
    for again in (copy.deepcopy(decoded), pickle.loads(pickle.dumps(decoded))):
        assert again == decoded
        assert again.edges.tolist() == decoded.edges.tolist()
        assert again.size == (4, 5)
    plain = [{"masks": codes, "labels": torch.tensor([0, 1]), "scores": torch.tensor([0.5, 0.4])}]
    ready = [{**plain[0], "masks": decoded}]
    expected = coco_mean_average_precision(plain, plain, iou_type="segm")
    monkeypatch.setattr(run_lengths, "_edges", None)
    with pytest.raises(TypeError):
        coco_mean_average_precision(plain, plain, iou_type="segm")
    monkeypatch.undo()
    monkeypatch.setattr(run_counts, "from_text", None)
    assert coco_mean_average_precision(ready, ready, iou_type="segm")["map"] == expected["map"]


def test_spoilt_texts_are_read_as_defined_or_named():
    r = np.random.default_rng(0)
    good = text_of([3, 2, 5, 2, 5, 3])
    refused = 0
    for _ in range(2000):
        text, at = list(good), r.integers(len(good))
        text[at : at + r.integers(2)] = [chr(x) for x in r.integers(48, 112, r.integers(3))]
        texts = [good, "".join(text), good]
        runs = run_counts.runs_of_text(texts[1].encode())
        if isinstance(runs, str) or min(runs, default=0) < 0 or sum(runs) != 20:
            refused += 1
            with pytest.raises(ValueError, match=r"^image 0 mask 1: 'counts' must "):
                decode(*texts)
        else:
            decoded = decode(*texts)
            assert decoded.edges.tolist() == [*edges_of([3, 2, 5, 2, 5, 3]), *edges_of(runs), 3, 5, 10, 12, 17, 20]
    assert 1000 < refused < 2000
