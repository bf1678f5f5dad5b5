"""Merge of the metrics of separate jobs."""

from collections.abc import Iterable
from typing import TypeVar

from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.core.metric.base import RankingMetric

M = TypeVar("M", bound=RankingMetric)


def merge(metrics: Iterable[M]) -> M:
    """Return one metric with the items of several metrics, in their order; the metrics do not change.

    Args:
        metrics: at least one metric; all have one class and the same settings. They are metrics of shards of the data,
            such as array jobs or tasks of Spark or Ray. Use ``from_bytes`` for metrics of other processes.

    Returns:
        A new metric. Settings that ``update`` does not depend on are those of the first metric. The value is
        bit-identical for every order and grouping of the metrics, with two exceptions: values that depend on the order
        of items by definition (detections with equal scores), and sums whose order of addition changes (means over
        queries without ``indexes``, weights in bins).

    Raises:
        TypeError: if an entry is not a metric of this package.
        ValueError: without a metric, or if two metrics have different classes or settings or contradict each other.

    Example:
        >>> import torch, torch_ap
        >>> shards = [torch_ap.BinaryAveragePrecision() for _ in range(2)]
        >>> shards[0].update(torch.tensor([0.9, 0.8]), torch.tensor([1, 0]))
        >>> shards[1].update(torch.tensor([0.7, 0.1]), torch.tensor([1, 0]))
        >>> torch_ap.merge(shards).compute()
        tensor(0.8333)
    """
    if not isinstance(metrics, Iterable):
        raise_invalid("metrics", "must be a list of metrics", metrics, TypeError)
    shards = list(metrics)
    if not shards:
        raise ValueError("`metrics` must contain at least one metric, got none")
    for index, shard in enumerate(shards):
        if not isinstance(shard, RankingMetric):
            raise TypeError(f"`metrics[{index}]` must be a metric of torch_ap, got {short_repr(type(shard).__name__)}")
    merged = shards[0]._emptied()
    for shard in reversed(shards):  # `merge_state` puts the items of its argument first
        merged.merge_state(shard)
    return merged
