"""Comparison of two systems over the same images: both use the same resamples, against images written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.detection.test_image_bootstrap import LEVELS, made, slowly
from tests.support.tolerances import REORDERED
from torch_ap.detection.inference import comparison
from torch_ap.detection.inference.comparison import compare_images, compare_lists
from torch_ap.detection.inference.rankings import ResampledRankings
from torch_ap.detection.inference.resampled import image_interval, image_replicates
from torch_ap.inference.resampling import Resampling, generators, multinomial


def pair(images=12, items=60, seed=0):
    """Return two systems with different items and the same relevant things."""
    first, second = made(images, items=items, seed=seed), made(images, items=items + 9, seed=seed + 50)
    return first, replace(second, relevant_image=first.relevant_image, relevant_list=first.relevant_list)


def worse(ranked):
    """Return the system with every third event turned into a miss."""
    hit = ranked.event_hit & (torch.arange(len(ranked.event_hit)) % 3 > 0)
    return replace(ranked, event_hit=hit)


def with_a_class_that_is_not_there(ranked):
    """Add two false positives in a further list without relevant things."""
    lists = len(ranked.offsets) - 1
    ends = ranked.offsets[-1:] + 2
    # each of the two thresholds gets one more ranking, which has no event
    edges, middle = ranked.event_offsets, lists
    return replace(
        ranked,
        image=torch.cat([ranked.image, ranked.image[:2]]),
        counted=torch.cat([ranked.counted, torch.ones(2, dtype=torch.bool)]),
        offsets=torch.cat([ranked.offsets, ends]),
        event_offsets=torch.cat([edges[: middle + 1], edges[middle:], edges[-1:]]),
        ranking_list=torch.arange(lists + 1).repeat(2),
    )


@pytest.mark.parametrize("interpolation", [None, "all-points", LEVELS])
def test_both_see_the_same_units_written_out(interpolation):
    systems, how = pair(), Resampling(5)
    found = image_replicates(systems, how, interpolation)
    weights = [multinomial(rng, np.ones(12, np.int64), 12) for rng in generators(how.seed(), range(5))]
    wanted = [
        [np.nanmean([slowly(x, torch.from_numpy(row), s, interpolation) for s in range(6)]) for x in systems]
        for row in weights
    ]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=REORDERED)


def test_numbers_equal_the_replicates():
    first, second = pair(images=30, items=200)
    how = Resampling(100)
    found = compare_images(first, second, confidence_level=0.9, interpolation=LEVELS, resampling=how)
    values = image_replicates((first, second), how, LEVELS).numpy()
    gaps = values[:, 0] - values[:, 1]
    for name, ranked in (("value_a", first), ("value_b", second)):
        alone = image_interval(ranked, interpolation=LEVELS, resampling=how)
        assert getattr(found, name) == pytest.approx(float(alone.estimate), abs=REORDERED)
    assert found.difference == found.value_a - found.value_b
    assert found.standard_error == pytest.approx(gaps.std(ddof=1))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(gaps, [0.05, 0.95])))
    beyond = min((gaps <= 0).sum(), (gaps >= 0).sum())
    assert found.p_value == pytest.approx(min(1, 2 * (beyond + 1) / 101))
    assert found.reason == ""
    normal = compare_images(
        first, second, confidence_level=0.9, method="bootstrap-normal", interpolation=LEVELS, resampling=how
    )
    assert normal.high - normal.low == pytest.approx(2 * 1.6448536 * found.standard_error)
    assert normal.p_value == pytest.approx(math.erfc(abs(found.difference) / found.standard_error / math.sqrt(2)))
    mirrored = compare_images(second, first, confidence_level=0.9, interpolation=LEVELS, resampling=how)
    assert (mirrored.difference, mirrored.p_value) == (-found.difference, found.p_value)
    assert (float(mirrored.low), float(mirrored.high)) == pytest.approx((-float(found.high), -float(found.low)))


def test_shared_resamples_reduce_the_standard_error():
    first, _ = pair(images=30, items=300)
    how = {"interpolation": LEVELS, "resampling": Resampling(300)}
    found = compare_images(first, worse(first), **how)
    assert found.difference > 0
    assert found.p_value < 0.01
    alone = [image_interval(x, **how).standard_error for x in (first, worse(first))]
    assert found.standard_error < 0.8 * float(torch.stack(alone).norm())


@pytest.mark.parametrize("method", ["bootstrap-percentile", "bootstrap-normal"])
@pytest.mark.parametrize("interpolation", [None, "all-points", LEVELS])
@pytest.mark.parametrize("change", [lambda x: x, with_a_class_that_is_not_there], ids=["same", "another list"])
def test_equal_systems_have_p_value_1(method, interpolation, change):
    first, _ = pair()
    found = compare_images(first, change(first), method=method, interpolation=interpolation, resampling=Resampling(50))
    assert (found.difference, found.low, found.high, found.standard_error) == (0, 0, 0, 0)
    assert found.p_value == 1
    assert "p = 1 by definition" in found.reason


def test_edges_have_a_defined_answer():
    first, second = pair(images=1)
    found = compare_images(first, second)
    assert found.reason == "one image, which has no spread"
    assert math.isnan(found.p_value)
    assert found.difference != 0
    none = torch.empty(0, dtype=torch.int64)
    first, second = (replace(x, relevant_image=none, relevant_list=none) for x in pair())
    found = compare_images(first, second)
    assert found.reason == "nothing is relevant"
    assert math.isnan(found.difference)
    # one image contains all relevant things, and three of four resamples of two images contain it
    first = made(images=2)
    first = replace(first, relevant_image=torch.zeros_like(first.relevant_image))
    seeds = (torch.Generator().manual_seed(seed) for seed in range(60))
    reasons = {compare_images(first, worse(first), resampling=Resampling(2, seed)).reason for seed in seeds}
    assert "fewer than two resamples have anything to find" in reasons
    seeds = (torch.Generator().manual_seed(seed) for seed in range(60))
    found = {x.reason: x for x in (image_interval(first, resampling=Resampling(2, seed)) for seed in seeds)}
    same = "all resamples have the same value, which says nothing of its spread"
    assert len(found) == 3
    assert any(reason.startswith("2 images: ") for reason in found)
    unknown = found["fewer than two resamples have anything to find"]
    assert all(math.isnan(x) for x in (unknown.low, unknown.high, unknown.standard_error))
    assert found[same].low == found[same].high
    with pytest.raises(ValueError, match="`confidence_level`"):
        compare_images(first, first, confidence_level=0)
    with pytest.raises(ValueError, match="`method`"):
        compare_images(first, first, method="jackknife")


@pytest.mark.parametrize("method", ["bootstrap-percentile", "bootstrap-normal"])
@pytest.mark.parametrize("images", [2, 3, 5, 9, 12])
def test_few_images_are_no_surer_than_the_sign_test(images, method):
    """If the systems are alike, all n images favour one system with probability 2^(1 - n)."""
    first = made(images, items=20 * images)
    second = replace(first, event_hit=torch.zeros_like(first.event_hit))
    found = compare_images(first, second, method=method)
    assert found.difference > 0
    assert found.p_value >= 2.0 ** (1 - images)
    assert (images > 5) or found.p_value == 2.0 ** (1 - images)
    if images < 10:
        assert found.reason.startswith(f"{images} images: ")
        assert (f"{2.0 ** (1 - images):.4g}" in found.reason) == bool(found.p_value == 2.0 ** (1 - images))
    interval = image_interval(first, resampling=Resampling(50))
    assert interval.reason.startswith(f"{images} images: ")
    # images without items and without relevant things carry no information
    wide = [replace(x, images=images + 40) for x in (first, second)]
    assert compare_images(*wide, method=method).p_value >= 2.0 ** (1 - images)


@pytest.mark.parametrize("method", ["bootstrap-percentile", "bootstrap-normal"])
def test_a_difference_without_spread_has_no_p_value(method, monkeypatch):
    """All resamples have the same difference except for rounding: p is NaN with a reason."""
    drawn = torch.tensor([[0.5, 0.2], [0.5, 0.2], [0.5 + 1e-15, 0.2]], dtype=torch.float64)
    monkeypatch.setattr(comparison, "image_replicates", lambda *_: drawn)
    first, second = pair()
    found = compare_images(first, second, method=method)
    assert found.difference != 0
    assert math.isnan(found.p_value)
    assert "standard error is 0" in found.reason


@pytest.mark.parametrize("method", ["bootstrap-percentile", "bootstrap-normal"])
def test_few_images_of_a_list_are_no_surer_than_the_sign_test(method):
    """Images without items of a list do not make the difference of this list more certain."""
    first = made(40, items=900)
    lists = torch.repeat_interleave(torch.arange(len(first.offsets) - 1), first.offsets.diff())
    image = torch.where(lists == 1, first.image % 3, first.image)
    relevant = torch.where(first.relevant_list == 1, first.relevant_image % 3, first.relevant_image)
    first = replace(first, image=image, relevant_image=relevant)
    second = replace(first, event_hit=torch.zeros_like(first.event_hit))
    found = compare_lists(first, second, {"few": (1, 1), "many": (2, 2)}, method=method)
    assert found.p_value[0] == 0.25
    assert found.p_value[1] < 0.01
    assert found.reason.startswith("few: 3 images: p is no less than 0.25")
    least = "many: p is no less than 0.001998 with these draws"
    assert found.reason.endswith(least) if method == "bootstrap-percentile" else "many" not in found.reason
    # a detection counts as an item of the list too
    second = replace(
        second, image=torch.where(lists == 1, second.image % 3 + 3 * (torch.arange(len(image)) % 2), image)
    )
    assert compare_lists(first, second, {"few": (1, 1)}, method=method).p_value < 0.25


@pytest.mark.gpu
def test_on_cuda():
    here, few = pair(images=40, items=400), Resampling(100)
    there = [
        ResampledRankings(**{k: v.cuda() if isinstance(v, torch.Tensor) else v for k, v in vars(x).items()})
        for x in here
    ]
    for interpolation in (None, "all-points", LEVELS):
        moved = interpolation.cuda() if isinstance(interpolation, torch.Tensor) else interpolation
        found = compare_images(*there, interpolation=moved, resampling=few)
        wanted = compare_images(*here, interpolation=interpolation, resampling=Resampling(300))
        assert found.difference == pytest.approx(float(wanted.difference), abs=REORDERED)
        # 100 resamples with another generator than the 300: a difference of 8%; the tolerance is 3 of it
        assert found.standard_error == pytest.approx(float(wanted.standard_error), rel=0.25)
        assert compare_images(there[0], there[0], interpolation=moved, resampling=few).p_value == 1
