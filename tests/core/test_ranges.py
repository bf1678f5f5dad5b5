"""The AP of a ranking in ranges of scores has the bits of the AP of all items."""

import numpy as np
import pytest
import torch

from tests.support.each import each
from torch_ap import Convention
from torch_ap.core.measures import ranges
from torch_ap.core.ranking import pairwise, spill
from torch_ap.core.ranking.spill import SpilledItems
from torch_ap.functional import binary_average_precision

CONVENTIONS = (
    Convention(ties="grouped"),
    Convention(ties="expected"),
    Convention(top_k=10, denominator="relevant", ties="optimistic"),
    Convention(top_k="relevant", ties="pessimistic"),
    Convention(top_k=500, ties="grouped"),
    Convention(top_k=7, ties="expected"),
)


def ranking(seed, generator):
    """Return scores and targets: few and many items, with and without ties, of several dtypes."""
    size = int(torch.randint(1, (20, 300, 30_000)[seed % 3], (1,), generator=generator))
    scores = torch.randn(size, generator=generator)
    if seed % 2:
        scores = (scores * 5).round()
    scores = scores.to((torch.float32, torch.float64, torch.float16, torch.int64)[seed % 4])
    return scores, (torch.rand(size, generator=generator) < (0.5, 0.02, 0.0)[seed % 11 % 3]).long()


def value_of_ranges(parts, convention):
    ranked = ranges.rank_ranges([ranges.count_range(*x) for x in parts])
    pieces = [ranges.sum_range(*x, ranked, convention) for x in parts]
    return ranges.average_precision_of_pieces(pieces, ranked, convention)[0][0]


@each("seed", range(24))
def test_ranges_have_the_bits_of_one_ranking(seed):
    generator = torch.Generator().manual_seed(seed)
    scores, target = ranking(seed, generator)
    edges = scores[torch.randint(len(scores), (seed % 9,), generator=generator)].double().sort().values
    place = torch.searchsorted(edges, scores.double(), right=True)
    parts = [
        (scores[place == x], target[place == x]) for x in torch.randperm(seed % 9 + 1, generator=generator).tolist()
    ]
    parts = [x for x in parts if len(x[0])]
    for convention in CONVENTIONS:
        expected = binary_average_precision(
            scores, target, convention=convention, empty_target_action="nan", dtype=torch.float64, validate_args=False
        )
        found = value_of_ranges(parts, convention)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_ranges_that_overlap_or_change_are_errors():
    one, two = torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1])
    target = torch.tensor([1, 0])
    with pytest.raises(ValueError, match=r"must not overlap, got 0\.5 to 0\.8\d+ and 0\.1\d+ to 0\.5"):
        ranges.rank_ranges([ranges.count_range(two, target), ranges.count_range(one, target)])
    ranked = ranges.rank_ranges([ranges.count_range(one, target)])
    with pytest.raises(ValueError, match="counts of the first pass"):
        ranges.sum_range(one, target.flip(0).new_ones(2), ranked, CONVENTIONS[0])
    piece = ranges.sum_range(one, target, ranked, CONVENTIONS[0])
    for pieces in ([piece, piece], []):
        with pytest.raises(ValueError, match="each of 1 values once"):
            pairwise.sum_pieces(pieces, 1)


def test_conventions_without_a_sum_over_hits_are_errors():
    for convention in (Convention(interpolation="11-point"), Convention(top_k=3, denominator="found")):
        with pytest.raises(ValueError, match="must be the default or 'relevant'"):
            ranges.check_convention(convention)


@pytest.mark.parametrize("made", ["random", "ascending", "constant", "nearly constant", "two halves", "integers"])
def test_spilled_ranges_are_the_ranking(made, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "_RANGES", 4)
    monkeypatch.setattr(spill, "_SAMPLE", 300)
    monkeypatch.setattr(spill, "_CHUNK", 500)
    generator = torch.Generator().manual_seed(1)
    scores, target = torch.randn(9000, generator=generator), (torch.rand(9000, generator=generator) < 0.3).long()
    if made == "ascending":
        scores = scores.sort().values
    elif made == "integers":
        scores = (scores * 2).long()
        scores[:2000] = torch.iinfo(torch.int64).max
    elif made != "random":
        scores[{"constant": 0, "nearly constant": 3, "two halves": 4500}[made] :] = torch.inf
    hits, items, last = 0, 0, 1e300
    with SpilledItems(tmp_path, 700) as spilled:
        for part in torch.arange(9000).split(1000):
            spilled.add(scores[part], target[part])
        whole = (spilled.items, spilled.hits)
        sums = []
        for curve in spilled.curves():
            sums.append(ranges.sum_precisions(curve, (items, hits), whole, CONVENTIONS[1]))
            hits, items = hits + int(curve.m), items + int(curve.n)
            assert int(curve.n) <= 700 or len(curve.hits) == 1
    assert whole == (items, hits) == (9000, int(target.sum()))
    assert last
    total = np.add.reduceat(np.concatenate(sums), [0])[0]
    expected = binary_average_precision(scores, target, ties="expected", dtype=torch.float64)
    assert ranges.divide_by_hits(total, hits, CONVENTIONS[1]) == expected
    assert not list(tmp_path.iterdir())


def test_too_little_space_is_an_error(tmp_path):
    with pytest.raises(OSError, match=r"temporary files need [\d,.]+ GB, but [\d,.]+ GB are free"):
        spill.check_space(tmp_path, 1 << 60)
