"""Wrapper of a metric that collects its epochs, for the value of the best epoch without its optimism."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torchmetrics.wrappers.abstract import WrapperMetric

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.items.settings import APSettings
from torch_ap.core.metric.base import RankingMetric
from torch_ap.inference.contributions import Contributions, differing_unit, require_all_items
from torch_ap.inference.metric import Sample
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.selection import (
    BestSystem,
    SelectionCorrection,
    SelectionMethod,
    SelectionSettings,
    select_by_covariance,
)


class BestOf(WrapperMetric):
    """Value of a metric in each epoch, and its best value without the optimism of the selection.

    ``compute()`` returns the value of the epoch, so that ``self.log("valid_ap", metric)`` of Lightning and
    ``ModelCheckpoint(monitor="valid_ap", mode="max")`` work as with the metric itself. It also stores the contribution
    of each item (query, resample of images) to the error of the value. ``reset()`` begins the next epoch, and
    :meth:`best` compares all epochs. :func:`torch_ap.inference.best_of` describes the intervals.

    An epoch counts if its value was computed. All epochs must have the same items with the same targets in the same
    order, or items with the same ``sample_ids`` in any order. If the first one has fewer items than the second, as
    Lightning's sanity check, it is dropped. The epochs are kept in pickles and copies, but not in ``state_dict``: after
    a restart of the training from a checkpoint, only the later epochs count.

    Args:
        metric: a metric of torch_ap with one value and an interval. For detectors the value is ``map``. Metrics of
            items must have ``top_k=None``.
        max_units: number of sums that are stored for an epoch of more items, at least 2: each contribution is added to
            one of them at random, with a random sign that is the same in all epochs (a count sketch; Charikar, Chen &
            Farach-Colton 2002). Values and their standard errors remain exact. The correlations of the epochs are
            estimated, for which Student's t has at most this number of degrees of freedom. None to store the
            contribution of each item, 4 bytes per item and epoch.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    ``torchmetrics.wrappers.MetricTracker`` returns the best value itself, which is too high on average.

    Example:
        >>> import torch
        >>> from torch_ap import BestOf, BinaryAveragePrecision
        >>> metric = BestOf(BinaryAveragePrecision())
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 1, 0, 0, 0] * 6)
        >>> for epoch in range(5):
        ...     metric.update(target * 0.8 + torch.linspace(-1, 1, 60).mul(7).sin().roll(7 * epoch), target)
        ...     value = metric.compute()
        ...     metric.reset()
        >>> found = metric.best()
        >>> found.best, round(float(found.value), 3), round(float(found.corrected), 3)
        (2, 0.772, 0.686)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = True

    def __init__(self, metric: RankingMetric, max_units: int | None = None) -> None:
        super().__init__()
        if not isinstance(metric, RankingMetric):
            raise_invalid("metric", "must be a metric of torch_ap", metric, TypeError)
        settings = getattr(metric, "_settings", None)
        if isinstance(settings, APSettings):
            require_all_items(settings.convention.top_k)
        self.metric = metric
        self.max_units = checks.positive_int("max_units", max_units, least=2, optional=True)
        self._epochs: list[Contributions] = []
        self._errors: list[float] = []  # standard error of each epoch, from all units
        self._units: Mapping[str, Tensor] = {}  # of the first epoch
        self._ids: Tensor | None = None  # of these units, which later epochs may have in any order
        self._count = 0  # number of its contributions
        self._is_new = True  # whether the next value begins an epoch

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Update the metric."""
        self.metric.update(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Update the metric and return its value of the batch."""
        return self.metric(*args, **kwargs)

    def compute(self) -> Tensor:
        """Return the value of the epoch, and store its contributions; all processes must call it.

        Raises:
            ValueError: if the targets differ from those of the earlier epochs, and for the errors of
                ``confidence_interval`` of the metric. The stored epochs remain unchanged.
        """
        with self.metric._all_ranks():
            sample: Sample = self.metric._sample()
            contributions = sample.contributions(Resampling())
            self._store(sample, contributions)
        return torch.tensor(contributions.value, dtype=sample.dtype, device=self.metric.device)

    def _store(self, sample: Sample, contributions: Contributions) -> None:
        """Add an epoch, or replace the current one."""
        stored = len(self._epochs) - (not self._is_new)
        if stored == 1 and self._count < len(contributions.shares):
            stored = 0
        if not stored:
            self._units, self._ids, self._count = sample.units(), sample.unit_ids, len(contributions.shares)
        else:
            ordered = sample.ordered_as(self._ids, f"epoch {stored}")
            contributions = contributions if ordered is sample else ordered.contributions(Resampling())
            sample = ordered
        if stored and (name := differing_unit(self._units, sample.units())) is not None:
            rule = "must have the targets of epoch 0 in the same order"
            raise ValueError(f"epoch {stored} {rule}, but `{name}` differs; do not shuffle the data of the validation")
        error = float(contributions.shares.square().sum().sqrt())
        kept = self._sketch(contributions)
        kept = replace(kept, shares=kept.shares.to(torch.float32))
        self._epochs, self._errors = [*self._epochs[:stored], kept], [*self._errors[:stored], error]
        self._is_new = False

    def _sketch(self, contributions: Contributions) -> Contributions:
        """Return the contributions, or ``max_units`` sums of them, whose products are the covariances on average."""
        size, shares = self.max_units, contributions.shares
        if size is None or len(shares) <= size:
            return contributions
        drawn = torch.randint(2 * size, shares.shape, generator=torch.Generator().manual_seed(0))
        signed = torch.where(drawn < size, shares, -shares)
        sums = shares.new_zeros(size).index_add_(0, drawn % size, signed)
        return replace(contributions, shares=sums, df=min(contributions.df, size))

    def reset(self) -> None:
        """Reset the metric, and begin the next epoch."""
        self.metric.reset()
        self._is_new = True

    def best(
        self,
        *,
        method: SelectionMethod = "hybrid",
        confidence_level: float = 0.95,
        correction: SelectionCorrection = None,
        names: Sequence[str] | None = None,
    ) -> BestSystem:
        """Return the best epoch with its corrected value and its interval.

        Args:
            method, confidence_level, correction: as for :func:`torch_ap.inference.best_of`.
            names: names of the epochs; None for the numbers from 0.

        Returns:
            :class:`torch_ap.inference.BestSystem`; its ``best`` is the index of the epoch.

        Raises:
            TypeError, ValueError: if an argument is invalid, or fewer than two epochs were computed.
        """
        settings = SelectionSettings(method, confidence_level, None, correction, names)
        if len(self._epochs) < 2:
            raise ValueError(
                f"the best of several epochs requires at least two values, got {len(self._epochs)}; `compute` stores "
                "the value of an epoch, `reset` begins the next one"
            )
        shares = torch.stack([x.shares for x in self._epochs]).double()
        shares = shares / shares.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        shares = shares * torch.tensor(self._errors, dtype=torch.float64)[:, None]
        return select_by_covariance(self._epochs, (shares @ shares.t()).numpy(), settings).to(self.metric.device)
