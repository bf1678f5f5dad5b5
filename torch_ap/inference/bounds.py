"""The range that counts per bin leave an average precision, as a record."""

from dataclasses import dataclass

from torch import Tensor

from torch_ap.inference.result import Result


@dataclass(frozen=True, eq=False, repr=False)
class AveragePrecisionBounds(Result):
    """What an average precision can be where only counts per bin of scores were kept.

    Attributes:
        low: the least; 0-d, or one per ranking.
        estimate: the mean over all orders of the items inside the bins, which ``compute()`` gives; of weighted items,
            where the items of a bin are tied.
        high: the most.
    """

    low: Tensor
    estimate: Tensor
    high: Tensor
