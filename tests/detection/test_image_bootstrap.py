import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import t as student_t

from tests.support.tolerances import DOZENS_OF_TERMS, REORDERED
from torch_ap.core.measures import interpolation
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.ranking.builders import from_ordered
from torch_ap.detection.inference import resampled
from torch_ap.detection.inference.rankings import ResampledRankings
from torch_ap.detection.inference.resampled import (
    METHODS,
    class_intervals,
    image_interval,
    image_replicates,
    list_replicates,
)
from torch_ap.inference.resampling import Resampling, multinomial_on_device

LEVELS = interpolation.recall_levels("101-point")


def made(images=12, lists=3, thresholds=2, items=60, seed=0):
    """Return detections of categories, with hits, dropped and newly counted items at each threshold."""
    rng = np.random.default_rng(seed)
    size = rng.multinomial(items, np.ones(lists) / lists)
    unit, counted = rng.integers(0, images, items), rng.random(items) < 0.8
    kinds = rng.choice(["hit", "dropped", "came", "plain"], (thresholds, items), p=[0.35, 0.1, 0.1, 0.45])
    ends = np.concatenate([[0], size.cumsum()])
    events, counts = [], []
    for kind in kinds:
        for first, last in itertools.pairwise(ends):
            chosen = np.flatnonzero(kind[first:last] != "plain") + first
            events += [(item, kind[item]) for item in chosen]
            counts.append(len(chosen))
    relevant = [(rng.integers(images), k) for k in range(lists) for _ in range(k * 20)]
    kind = np.array([k for _, k in events])
    return ResampledRankings(
        image=torch.from_numpy(unit),
        counted=torch.from_numpy(counted),
        offsets=torch.from_numpy(ends),
        event_item=torch.tensor([item for item, _ in events]),
        event_hit=torch.from_numpy(kind == "hit"),
        event_counts=torch.from_numpy(kind != "dropped"),
        event_offsets=torch.tensor([0, *np.cumsum(counts)]),
        ranking_list=torch.arange(lists).repeat(thresholds),
        relevant_image=torch.tensor([u for u, _ in relevant]),
        relevant_list=torch.tensor([k for _, k in relevant]),
        images=images,
    )


def slowly(ranked, weights, ranking, levels):
    """Return the AP of one ranking with every unit repeated as often as it was drawn."""
    first, last = ranked.event_offsets[ranking : ranking + 2].tolist()
    said = {int(ranked.event_item[e]): e for e in range(first, last)}
    k = int(ranked.ranking_list[ranking])
    flags = []
    for item in range(*ranked.offsets[k : k + 2].tolist()):
        e = said.get(item)
        counts = bool(ranked.counted[item] if e is None else ranked.event_counts[e])
        if counts:
            flags += [(bool(e is not None and ranked.event_hit[e]), item)] * int(weights[ranked.image[item]])
    m = int(weights[ranked.relevant_image[ranked.relevant_list == k]].sum())
    if not m:
        return math.nan
    items = [item for _, item in flags]
    last_of = tuple(i + 1 == len(items) or items[i + 1] != items[i] for i in range(len(items)))
    return ap_of(tuple(hit for hit, _ in flags), last_of, m, levels)


@functools.cache  # many orders of a list have their hits at the same ranks
def ap_of(hits, last_of, m, levels):
    relevant, last = (torch.tensor(x, dtype=torch.bool) for x in (hits, last_of))
    curve = from_ordered(relevant, last, torch.tensor([0, len(hits)]), m=torch.tensor([m]))
    if levels is None:
        return float(average_precision(curve))
    if isinstance(levels, str):
        return float(interpolation.area_over_all_points(curve))
    return float(interpolation.precision_at_levels(curve, levels).mean())


@pytest.mark.parametrize("levels", [None, "all-points", LEVELS, torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64)])
@pytest.mark.parametrize("seed", range(4))
def test_weights_are_repetitions(levels, seed):
    """Weighted and repeated items give the same curve, to the last bit without levels."""
    ranked = made(seed=seed)
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(rng.multinomial(12, np.ones(12) / 12, 5))
    weights[0] = 1
    found = ranked.average_precision(weights, levels)
    wanted = [[slowly(ranked, row, s, levels) for s in range(6)] for row in weights]
    assert math.isnan(wanted[0][0])
    wanted = torch.tensor(wanted, dtype=torch.float64)
    tolerance = DOZENS_OF_TERMS if isinstance(levels, torch.Tensor) else 0  # the sum over levels has another order
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance, equal_nan=True)


def test_interval_equals_drawn_units():
    ranked = made(images=30, items=300)
    found = image_interval(ranked, interpolation=LEVELS, resampling=Resampling(500))
    rng = np.random.default_rng(5)
    slow = []
    for _ in range(150):
        weights = torch.from_numpy(np.bincount(rng.integers(0, 30, 30), minlength=30))
        slow.append(np.nanmean([slowly(ranked, weights, s, LEVELS) for s in range(6)]))
    # the standard deviation of 150 draws has an error of 6%; the tolerance is 3 errors
    assert float(found.standard_error) == pytest.approx(np.std(slow, ddof=1), rel=0.2)
    assert found.low < found.estimate < found.high


def test_basic_ends_are_the_percentiles_mirrored_and_cut():
    for seed in range(3):
        ranked = made(images=30, items=300, seed=seed)
        how = {"confidence_level": 0.8, "resampling": Resampling(100)}
        basic, plain = (image_interval(ranked, method=f"bootstrap-{x}", **how) for x in ("basic", "percentile"))
        assert float(basic.low + plain.high) == pytest.approx(2 * float(basic.estimate))
        assert float(basic.high + plain.low) == pytest.approx(2 * float(basic.estimate))
        assert image_interval(ranked, **how).low == basic.low
    ranked = made(images=5, items=12)
    ranked = replace(ranked, relevant_image=ranked.relevant_image % 3)
    cut = image_interval(ranked, confidence_level=0.999)
    assert 0 <= cut.low < cut.estimate < cut.high <= 1
    assert cut.low == 0 or cut.high == 1


def test_replicates_repeat_for_every_chunk():
    ranked = made()
    first = image_replicates([ranked], Resampling(30), LEVELS)
    assert torch.equal(first, image_replicates([ranked], Resampling(30, chunk_size=1), LEVELS))
    seeded = Resampling(30, generator=torch.Generator().manual_seed(3))
    assert not torch.equal(first, image_replicates([ranked], seeded, LEVELS))


@pytest.mark.parametrize("most", [None, 1 << 8, 1 << 14, 1 << 24, 1 << 25, 1 << 40])
def test_rows_in_one_number_equal_single_rows(most, generator):
    ranked = made(images=30, items=300)
    if most is not None:
        vars(ranked)["_most"] = most  # as if an image had so many items, which need more bits
    for rows in (1, 2, 3, 7, 40):
        weights = torch.randint(9, (rows, 30), generator=generator) * torch.randint(3, (rows, 1), generator=generator)
        expected = torch.cat([ranked.average_precision(x[None], LEVELS) for x in weights])
        torch.testing.assert_close(ranked.average_precision(weights, LEVELS), expected, rtol=0, atol=0, equal_nan=True)


def test_edges_have_a_defined_answer():
    one = image_interval(made(images=1))
    assert "one image" in one.reason
    assert math.isnan(one.low)
    none = torch.empty(0, dtype=torch.int64)
    empty = replace(made(), relevant_image=none, relevant_list=none)
    assert image_interval(empty).reason == "nothing is relevant"
    with pytest.raises(ValueError, match="`confidence_level`"):
        image_interval(made(), confidence_level=1)


@pytest.mark.gpu
def test_on_cuda():
    ranked = made(images=40, items=600)
    there = ResampledRankings(**{k: v.cuda() if isinstance(v, torch.Tensor) else v for k, v in vars(ranked).items()})
    how = Resampling(300)
    found = image_interval(there, interpolation=LEVELS.cuda(), resampling=how)
    wanted = image_interval(ranked, interpolation=LEVELS, resampling=how)
    assert float(found.estimate) == pytest.approx(float(wanted.estimate), abs=REORDERED)
    # 300 resamples each with different generators: a difference of 6%; the tolerance is 3 of it
    assert float(found.standard_error) == pytest.approx(float(wanted.standard_error), rel=0.18)


@pytest.mark.gpu
def test_systems_of_any_size_have_the_same_resamples_on_cuda(monkeypatch):
    blocks, drawn = [], []

    def recorded(generator, counts, sums):
        blocks.append(len(sums))
        return multinomial_on_device(generator, counts, sums)

    monkeypatch.setattr(resampled, "multinomial_on_device", recorded)
    for items in (600, 200_000):
        ranked = {
            k: v.cuda() if isinstance(v, torch.Tensor) else v for k, v in vars(made(images=40, items=items)).items()
        }
        found = image_replicates(
            [ResampledRankings(**ranked)], Resampling(60), statistics=[lambda _, weights: weights[:, :1].double()]
        )
        drawn.append(found.flatten().tolist())
    assert drawn[0] == drawn[1]
    assert blocks == [60, 60], "another size of the blocks gives other numbers on a device"


# -- lists of rankings


@pytest.mark.parametrize("levels", [None, LEVELS])
def test_replicates_of_lists_are_means_over_their_rankings(levels):
    ranked = made(thresholds=3)
    how = Resampling(12, torch.Generator().manual_seed(1))
    found = list_replicates([ranked], how, levels)[0]
    weights = torch.from_numpy(np.random.default_rng(0).integers(0, 3, (4, ranked.images)))
    each = ranked.average_precision_of_lists(weights, levels)
    assert found.shape == (12, 3)
    for row, drawn in enumerate(weights):
        for k in range(3):
            values = [slowly(ranked, drawn, t * 3 + k, levels) for t in range(3)]
            assert float(each[row, k]) == pytest.approx(np.mean(values), nan_ok=True, abs=REORDERED)


@pytest.mark.parametrize("method", METHODS)
def test_intervals_of_lists_equal_their_replicates(method):
    ranked, how = made(images=30, items=300), {"interpolation": LEVELS}
    found = class_intervals(ranked, method=method, confidence_level=0.9, resampling=Resampling(80), **how)
    values = list_replicates([ranked], Resampling(80), LEVELS)[0].numpy()
    for k in range(3):
        images = len(set(ranked.relevant_image[ranked.relevant_list == k].tolist()))
        if not images:
            assert torch.isnan(torch.stack([found.estimate[k], found.low[k], found.high[k]])).all()
            continue
        estimate = float(found.estimate[k])
        assert estimate == pytest.approx(np.mean([slowly(ranked, np.ones(30), t * 3 + k, LEVELS) for t in range(2)]))
        low, high = np.nanquantile(values[:, k], [0.05, 0.95])
        error = np.nanstd(values[:, k], ddof=1)
        half = student_t.ppf(0.95, images - 1) * error / (estimate * (1 - estimate))
        centre = math.log(estimate / (1 - estimate))
        wanted = {
            "bootstrap-percentile": (low, high),
            "bootstrap-basic": (max(0, 2 * estimate - high), min(1, 2 * estimate - low)),
            "bootstrap-logit": tuple(1 / (1 + math.exp(-x)) for x in (centre - half, centre + half)),
        }[method]
        assert (float(found.low[k]), float(found.high[k])) == pytest.approx(wanted)
        assert float(found.standard_error[k]) == pytest.approx(error)
    assert found.reason == "1 of 3 classes: nothing is relevant"


def test_lists_without_spread_have_no_interval():
    ranked = made(images=30, items=300)
    one = replace(ranked, relevant_image=torch.zeros_like(ranked.relevant_image))
    found = class_intervals(one, resampling=Resampling(20))
    assert torch.isnan(found.low).all()
    assert found.reason == "1 of 3 classes: nothing is relevant; 2 of 3 classes: all in one image, which has no spread"
    with pytest.raises(ValueError, match="`method` must be one of"):
        class_intervals(ranked, method="wald")
