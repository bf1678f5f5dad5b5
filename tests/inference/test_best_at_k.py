"""The best of several values of AP@k of items is not supported, and the message names the limit."""

import pytest
import torch

from torch_ap import BestOf, BinaryAveragePrecision, MulticlassAveragePrecision, RetrievalMAP
from torch_ap.inference import best_of_metrics

_LIMIT = "`top_k` must be None for the best of several values, which supports AP of all items, got 20"


def test_wrappers_raise_when_they_are_created():
    for metric in (BinaryAveragePrecision(top_k=20), MulticlassAveragePrecision(num_classes=3, top_k=20)):
        with pytest.raises(ValueError, match=_LIMIT):
            BestOf(metric)
    BestOf(BinaryAveragePrecision())
    BestOf(RetrievalMAP(top_k=20))


def test_selections_name_the_limit():
    metrics = [BinaryAveragePrecision(top_k=20) for _ in range(2)]
    for shift, metric in enumerate(metrics):
        metric.update(torch.arange(40.0).roll(shift), torch.arange(40) % 3 == 0)
    with pytest.raises(ValueError, match=_LIMIT):
        best_of_metrics(metrics)
