"""Polygons of COCO's files have the pixels of pycocotools, with and without it."""

import sys

import numpy as np
import pytest

from tests.support.each import each
from torch_ap.detection.files import entries

# of pycocotools on NumPy 2
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@each("seed", range(40))
def test_codes_do_not_depend_on_pycocotools(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 60, 2).tolist()
    counts = rng.integers(3, 9, rng.integers(1, 4)).tolist()
    polygons = [(rng.random(2 * count) * 70 - 10).round(seed % 4).tolist() for count in counts]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pycocotools", None)
        own = entries._code_of_polygons(polygons, size)
    peer = entries._code_of_polygons(polygons, size)
    assert (peer["size"], peer["counts"].decode()) == (own["size"], own["counts"])
