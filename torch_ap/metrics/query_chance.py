"""What a mean average precision over queries says about chance."""

from dataclasses import replace

from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.inference.chance_of_rankings import chance_of_curve
from torch_ap.metrics.queries import QueryMetric
from torch_ap.ranking.hit_curve import HitCurve


class ChanceQueries(QueryMetric):
    """Abstract: a metric over queries whose measure is AP under a convention."""

    def baseline(self) -> Tensor:
        """What chance gives: the mean over queries of E(AP) or E(AP@k), each query's items standing in random order.

        Queries whose measure is undefined, or that are missing, count as they do in ``compute()``. Relevant items that
        were never retrieved stay so. With ``ties="grouped"`` tied items stay tied; with "expected" that makes no
        difference; for "optimistic" and "pessimistic" it is the level of rankings without ties.

        Returns:
            0-d, in the dtype of ``compute()``; see :func:`torch_ap.inference.random_average_precision`.

        Raises:
            ValueError: for interpolated AP or ``denominator="found"``, which have no closed form, and for an
                ``aggregation`` other than "mean".

        Example:
            >>> import torch
            >>> from torch_ap.metrics.retrieval import RetrievalMAP
            >>> metric = RetrievalMAP()
            >>> metric.update(torch.tensor([[0.9, 0.8, 0.7, 0.1], [0.4, 0.3, 0.2, 0.1]]), torch.eye(4).long()[:2])
            >>> metric.baseline()
            tensor(0.5208)
        """
        self._check_mean("a chance level")
        convention = self._settings.measure
        assert isinstance(convention, Convention)

        def chance(curve: HitCurve) -> Tensor:
            groups = [self._rankings(all_hits=True).curve] if convention.ties == "grouped" else None
            return chance_of_curve(curve, convention, seen=curve.hits_seen, groups=groups)

        with self._all_ranks():
            settings = replace(self._settings, measure=chance)
            return settings.value(self._each(settings), self._dtype_of_values(), warn=False)

    def summary(self, confidence_level: float = 0.95) -> dict[str, Tensor]:
        """Value, ends of its interval over queries and chance level under names for a logger: 0-d tensors.

        Args:
            confidence_level: nominal coverage of the interval, in (0, 1).

        Returns:
            ``{"ap", "ap_low", "ap_high", "ap_chance"}``; the ends are those of :meth:`confidence_interval`, NaN
            where no query has a value.

        Raises:
            ValueError: what :meth:`baseline` and :meth:`confidence_interval` refuse.

        Example:
            >>> import torch
            >>> from torch_ap.metrics.retrieval import RetrievalMAP
            >>> metric = RetrievalMAP()
            >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]).repeat(6, 1), torch.eye(3).long()[[0, 0, 1, 0, 0, 2]])
            >>> {name: round(float(value), 3) for name, value in metric.summary().items()}
            {'ap': 0.806, 'ap_low': 0.498, 'ap_high': 0.951, 'ap_chance': 0.611}
        """
        with self._all_ranks():
            found, chance = self.confidence_interval(confidence_level), self.baseline()
        numbers = {"ap": found.estimate, "ap_low": found.low, "ap_high": found.high, "ap_chance": chance}
        return {name: value.to(chance.dtype) for name, value in numbers.items()}
