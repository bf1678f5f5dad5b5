"""Chance level of rankings of images, against every order of the items and against sorting them anew."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.detection.test_image_bootstrap import LEVELS, made, slowly
from tests.support.tolerances import REORDERED
from torch_ap.detection.inference.chance import Shuffles, chance_of_images
from torch_ap.detection.inference.rankings import ResampledRankings
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.inference.resampling import Resampling

KINDS = [None, "all-points", LEVELS, torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64)]
INTERPOLATIONS = pytest.mark.parametrize("interpolation", KINDS, ids=["none", "all-points", "101", "three"])


def reordered(ranked, order):
    """Return the rankings with the items of each list in another order: ``order[new] = old``."""
    place = np.argsort(order)
    events = []
    for first, last in itertools.pairwise(ranked.event_offsets.tolist()):
        events += sorted(range(first, last), key=lambda e: place[ranked.event_item[e]])
    events = torch.tensor(events, dtype=torch.int64)
    return replace(
        ranked,
        image=ranked.image[order],
        counted=ranked.counted[order],
        event_item=torch.from_numpy(place)[ranked.event_item[events]],
        event_hit=ranked.event_hit[events],
        event_counts=ranked.event_counts[events],
    )


def mean_ap(ranked, interpolation):
    ones = torch.ones(ranked.images, dtype=torch.int64)
    return np.nanmean([slowly(ranked, ones, s, interpolation) for s in range(len(ranked.ranking_list))])


def orders(ranked):
    """Return every order of the items inside their lists."""
    spans = [range(*pair) for pair in itertools.pairwise(ranked.offsets.tolist())]
    for order in itertools.product(*map(itertools.permutations, spans)):
        yield np.array([item for part in order for item in part], dtype=np.int64)


def small(seed):
    """Return two lists of at most five items together, some of them dropped or newly counted."""
    ranked = made(images=3, lists=2, thresholds=2, items=5, seed=seed)
    # there are more relevant things than items
    return replace(ranked, relevant_image=torch.zeros(9).long(), relevant_list=torch.tensor([0] * 4 + [1] * 5))


@pytest.mark.parametrize("seed", range(4))
def test_every_order_of_few_items(seed):
    ranked = small(seed)
    ordered = [reordered(ranked, order) for order in orders(ranked)]
    plain = [mean_ap(x, None) for x in ordered]
    for interpolation in KINDS:
        values = plain if interpolation is None else [mean_ap(x, interpolation) for x in ordered]
        found = float(chance_of_images(ranked, interpolation=interpolation, resampling=Resampling(1000)))
        # only the part added by interpolation is simulated; it varies less than the value itself
        gains = np.subtract(values, plain)
        tolerance = 1e-12 + 4 * np.std(gains) / math.sqrt(1000)
        assert found == pytest.approx(np.mean(values), abs=tolerance)


@INTERPOLATIONS
@pytest.mark.parametrize("seed", range(4))
def test_an_order_equals_sorting_the_reordered_items(interpolation, seed):
    """The gain of one order equals the gain of rankings built from the reordered items."""
    if interpolation is None:
        pytest.skip("nothing is interpolated")
    ranked = made(seed=seed)
    shuffles = Shuffles(ranked, interpolation)
    random = torch.randint(1 << 20, (3, shuffles.items), generator=torch.Generator().manual_seed(seed))
    lists = np.repeat(np.arange(3), ranked.offsets.diff().numpy())
    wanted = []
    for row in random.numpy():
        other = reordered(ranked, np.lexsort((row, lists)))
        wanted.append(mean_ap(other, interpolation) - mean_ap(other, None))
    assert shuffles(random).tolist() == pytest.approx(wanted, abs=REORDERED)


def one_list(hits, n, m):
    """Return a single ranking of n items that begins with the hits, with m relevant things."""
    first = torch.arange(hits)
    return ResampledRankings(
        image=torch.arange(n), counted=torch.ones(n, dtype=torch.bool), offsets=torch.tensor([0, n]),
        event_item=first, event_hit=first >= 0, event_counts=first >= 0, event_offsets=torch.tensor([0, hits]),
        ranking_list=torch.tensor([0]), relevant_image=torch.zeros(m).long(), relevant_list=torch.zeros(m).long(),
        images=max(n, 1),
    )  # fmt: skip


def test_the_plain_sum_has_its_closed_form():
    assert float(chance_of_images(one_list(30, 200, 30))) == pytest.approx(random_average_precision(200, 30).mean)
    half_found = float(chance_of_images(one_list(30, 200, 60)))
    assert half_found == pytest.approx(random_average_precision(200, 30).mean / 2)


@INTERPOLATIONS
def test_edges_have_a_defined_answer(interpolation):
    how = {"interpolation": interpolation, "resampling": Resampling(20)}
    assert float(chance_of_images(one_list(4, 4, 4), **how)) == pytest.approx(1, abs=REORDERED)
    assert float(chance_of_images(one_list(1, 1, 1), **how)) == pytest.approx(1, abs=REORDERED)
    assert float(chance_of_images(one_list(0, 5, 3), **how)) == 0
    assert float(chance_of_images(one_list(0, 0, 3), **how)) == 0
    assert math.isnan(chance_of_images(one_list(0, 5, 0), **how))
    assert math.isnan(chance_of_images(one_list(0, 0, 0), **how))


def test_replicates_repeat_for_every_chunk():
    ranked = made()
    first = chance_of_images(ranked, interpolation=LEVELS, resampling=Resampling(30))
    assert first == chance_of_images(ranked, interpolation=LEVELS, resampling=Resampling(30, chunk_size=1))
    seeded = Resampling(30, generator=torch.Generator().manual_seed(3))
    assert first != chance_of_images(ranked, interpolation=LEVELS, resampling=seeded)


@pytest.mark.gpu
@INTERPOLATIONS
def test_on_cuda(interpolation):
    ranked = made(images=40, items=600)
    there = ResampledRankings(**{k: v.cuda() if isinstance(v, torch.Tensor) else v for k, v in vars(ranked).items()})
    found = chance_of_images(
        there,
        interpolation=interpolation.cuda() if isinstance(interpolation, torch.Tensor) else interpolation,
        resampling=Resampling(100),
    )
    assert found.device.type == "cuda"
    # means of 100 shuffles from another generator
    assert float(found) == pytest.approx(float(chance_of_images(ranked, interpolation=interpolation)), abs=4e-3)
    shuffles, moved = Shuffles(ranked, LEVELS), Shuffles(there, LEVELS.cuda())
    random = torch.randint(1 << 20, (5, shuffles.items))
    torch.testing.assert_close(moved(random.cuda()).cpu(), shuffles(random), rtol=0, atol=REORDERED)
