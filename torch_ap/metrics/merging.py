"""Metrics of separate jobs as one."""

from collections.abc import Iterable
from typing import TypeVar

from torch_ap.metrics.stateful import StatefulMetric
from torch_ap.rules.messages import refuse, shown

M = TypeVar("M", bound=StatefulMetric)


def merge(metrics: Iterable[M]) -> M:
    """One metric with the items of all, those of the first first; the metrics given stay as they are.

    Args:
        metrics: of one class and the same settings, one at least: those of array jobs, of tasks of Spark or Ray, or of
            any shards of the data, made by ``from_bytes`` where they come from other processes.

    Returns:
        A new metric, with the settings of the first that ``update`` does not depend on. In any order and grouping its
        value is the same to the last bit, but for what depends on the order of items by definition (detections of equal
        score), means over queries without ``indexes`` and weights in bins, which may be summed in another order.

    Raises:
        TypeError: for what is no metric of this package.
        ValueError: for no metric, for others of another class or other settings, and where two contradict one another.

    Example:
        >>> import torch, torch_ap
        >>> shards = [torch_ap.BinaryAveragePrecision() for _ in range(2)]
        >>> shards[0].update(torch.tensor([0.9, 0.8]), torch.tensor([1, 0]))
        >>> shards[1].update(torch.tensor([0.7, 0.1]), torch.tensor([1, 0]))
        >>> torch_ap.merge(shards).compute()
        tensor(0.8333)
    """
    if not isinstance(metrics, Iterable):
        refuse("metrics", "must be a list of metrics", metrics, TypeError)
    given = list(metrics)
    if not given:
        raise ValueError("`metrics` must hold one metric at least, got none")
    for place, one in enumerate(given):
        if not isinstance(one, StatefulMetric):
            raise TypeError(f"`metrics[{place}]` must be a metric of torch_ap, got {shown(type(one).__name__)}")
    found = given[0].emptied()
    for one in reversed(given):  # what is merged comes first
        found.merge_state(one)
    return found
