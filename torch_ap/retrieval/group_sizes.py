"""Groups of consecutive items as sizes, the ``group`` of LightGBM and XGBoost, converted to ``indexes``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.metric import samples


def indexes_from_sizes(sizes: Tensor | Sequence[int] | np.ndarray[Any, Any], first: int = 0) -> Tensor:
    """Return the query of each item from the sizes of groups of consecutive items.

    Args:
        sizes: (G,) integers of at least 0, the number of items of each query, in the order of the items. A query of
            size 0 has no item; use ``num_relevant`` if it counts.
        first: the query of the first group; the next groups are the next integers. For several batches, pass the
            number of groups of all earlier batches.

    Returns:
        (N,) int64 for N items, on the device of ``sizes``: ``indexes`` of the metrics and functions over queries.

    Raises:
        TypeError, ValueError: for an invalid argument.

    The sizes are ``group`` of ``lightgbm.Dataset`` and of ``xgboost.DMatrix.set_group``.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_average_precision
        >>> from torch_ap.retrieval import indexes_from_sizes
        >>> indexes = indexes_from_sizes([2, 3])
        >>> indexes
        tensor([0, 0, 1, 1, 1])
        >>> preds, target = torch.tensor([0.2, 0.7, 0.9, 0.5, 0.3]), torch.tensor([1, 0, 1, 0, 0])
        >>> retrieval_average_precision(preds, target, indexes=indexes)
        tensor([0.5000, 1.0000])
    """
    if isinstance(sizes, np.ndarray):
        sizes = sizes.tolist()
    if not isinstance(sizes, Tensor | list | tuple):
        raise_invalid("sizes", "must be a tensor, an array or a list of integers", sizes, TypeError)
    first = checks.positive_int("first", first, least=0)
    device = sizes.device if isinstance(sizes, Tensor) else torch.device("cpu")
    groups = sizes.numel() if isinstance(sizes, Tensor) else len(sizes)
    counts = samples.validate_ids("sizes", sizes, torch.Size([groups]), device, "group")
    assert counts is not None
    if bool((counts < 0).any()):
        raise_invalid("sizes", "must contain integers of at least 0", int(counts.min()))
    return torch.arange(first, first + groups, device=device).repeat_interleave(counts)
