"""What the average precisions of classifiers hold: the items given, counts of them per bin, or a sketch."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.evaluation.average_precision import APSettings
from torch_ap.exchange import copies, items
from torch_ap.exchange.ranks import Ranks
from torch_ap.inputs import samples, sketches
from torch_ap.inputs.classification import Batch, counted
from torch_ap.inputs.samples import SampleIds
from torch_ap.metrics.item_sample import UncertainItems
from torch_ap.metrics.states import Form
from torch_ap.ranking import adaptive, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import tensors
from torch_ap.rules.values import NAN_SCORE
from torch_ap.runtime import memory

_BYTES_A_BIN = 32  # counts and sums of weights, of misses and of hits
_BYTES_LEARNT = 8 * adaptive.FIELDS  # the end of the bin as well


class ItemState(UncertainItems):
    """Abstract: the state that the three average precisions share, and how it enters.

    Without thresholds and bins the state is what was given: scores in their dtype, one byte per target (two or four for
    more than 255 or 32,767 classes), weights if any. With them it is counts of misses and hits per bin; of bins that
    are learnt, a sketch and the latest items, which are counted many at a time.
    """

    peer_states = ("preds", "target", "confmat")
    peer_arguments = ("preds", "target")

    settings_of_update = (
        "columns, `ignore_index`, `normalization`, `thresholds`, `bins`, `nan_strategy`, `validate_args`"
    )

    scores: list[Tensor]
    targets: list[Tensor]
    weights: list[Tensor]
    sample_ids: list[Tensor]
    counts: Tensor
    weight_sums: Tensor
    sketch: Tensor
    beside_states = (*UncertainItems.beside_states, "_seen")
    _seen: tuple[list[Tensor], int, int] = ([], 0, 0)  # a list state, how long it was, and the items in it

    def __init__(self, settings: APSettings, **kwargs: Any) -> None:
        inputs, bins = settings.inputs, settings.bins
        micro = settings.adaptive and settings.average == "micro"
        super().__init__(f"{inputs}|{None if bins is None else bins.identity}{'|micro' * micro}", **kwargs)
        self._settings = settings if self.device.type == "meta" else settings.to(self.device)
        self._rows_unseen = inputs.classes and inputs.normalization is None
        if bins is None or settings.adaptive:
            self._add_states("scores", "targets", "weights", *[samples.STATE] * (bins is None))
        if bins is None:
            return
        asked = "bins" if settings.thresholds is None else "thresholds"
        shape = (1 if micro else inputs.width or 1, bins.size, 2)
        memory.check_room(asked, shape[0] * bins.size, _BYTES_LEARNT if settings.adaptive else _BYTES_A_BIN)
        if settings.adaptive:
            self.add_state("sketch", settings.empty_sketch(), dist_reduce_fx=adaptive.merged)
        else:
            self.add_state("counts", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
            self.add_state("weight_sums", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def _listed(self, name: str) -> list[Tensor]:
        """A list state; empty where counts are all that is held."""
        found: list[Tensor] = getattr(self, name) if name in self._lists else []
        return found

    def _kept_items(self) -> list[Tensor]:
        """Which items of each batch have any score that counts, as torchmetrics keeps them."""
        held = self._listed("targets")
        return [counted(x) if x.ndim == 1 else torch.ones_like(x[:, 0], dtype=torch.bool) for x in held]

    def _append_and_count(self, batch: Batch, target: Tensor) -> None:
        """Keep a batch with those that wait, or count all of them, once they are more than are learnt from."""
        assert self._settings.bins is not None
        parts, number, waiting = self._seen
        if parts is not self.scores or number != len(parts):
            waiting = sum(map(len, self.scores))
        counting = self._aside is None and waiting + len(batch.scores) > self._settings.bins.pilot
        self._append(batch, target, None, copied=not counting)
        self._seen = self.scores, len(self.scores), waiting + len(batch.scores)
        if not counting:  # `forward` does it at its end
            return
        try:
            self._count_waiting()
        except BaseException:
            for name in self._lists:
                del getattr(self, name)[-1:]
            raise

    def _count_waiting(self) -> None:
        sketch = self._settings.sketched(self.sketch, self._batch())
        # what is left of the lists says that weights were given, and their form
        left = {name: [x[:0].clone() for x in getattr(self, name)[:1]] for name in self._lists}
        self.__dict__.update(left, sketch=sketch)

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        super()._reduce_states(incoming_state)
        if not self._settings.adaptive or sum(map(len, self.scores)) <= self._settings.pilot:
            return
        if self._aside is not None or bool(adaptive.has_learnt(self.sketch)):
            self._count_waiting()  # merging learns nothing, so that its order is free

    def _binned(self) -> Tensor:
        """(C, B, 2) misses and hits per bin: counts, or sums of weights."""
        if self._settings.adaptive:
            sketch, batch = self.sketch, self._batch()
            return sketches.counts_of(self._settings.sketched(sketch, batch) if len(batch.scores) else sketch)
        return self.counts + self.weight_sums if bool(self.weight_sums.any()) else self.counts

    def _lower_ends(self) -> Tensor:
        """(B,) or (C, B) least score of each bin, the highest first."""
        if self._settings.adaptive:
            return adaptive.lower_ends(self.sketch).flip(1)
        assert self._settings.bins is not None
        return self._settings.bins.lower_ends(self.device)

    def _raise_broken(self) -> None:
        inputs = self._settings.inputs
        warned = {NAN_SCORE: inputs.warn_of_nan} if inputs.nan_strategy == "warn" else {}
        self._raise_noted(warned, **inputs.words)

    def _append(self, batch: Batch, target: Tensor, sample_ids: SampleIds, *, copied: bool = True) -> None:
        """Keep the batch, ``copied`` in memory of our own."""
        scores, targets, weights = batch.scores, batch.target, batch.weights
        if copied:
            scores = scores if self._settings.inputs.normalizes else memory.copied(scores)
            targets = targets if targets.dtype != target.dtype else memory.copied(targets)
            weights = None if weights is None else memory.copied(weights)
        ids = (samples.checked(sample_ids, torch.Size([len(scores)]), scores.device, "item"),)
        self._hold((scores, targets, weights) + ids * (self._settings.bins is None))

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        return next((f"`{name}`" for name in ("weights", samples.STATE) if name in here ^ there), None)

    def _batch(self) -> Batch:
        """All items of the state as one batch."""
        if not self.scores:
            return self._settings.inputs.no_items(self.device)
        scores, target = memory.joined(self.scores), memory.joined(self.targets)
        batch = Batch(scores, target, memory.joined(self.weights) if self.weights else None)
        if self._settings.bins is None:
            if not (ids := self._listed(samples.STATE)):
                return batch
            kept = samples.first_copies(memory.joined(ids), target)
            return batch if kept is None else _chosen(batch, kept)
        device = self.sketch.device  # with `compute_on_cpu` not that of the lists
        weights = None if batch.weights is None else batch.weights.to(device)
        return Batch(scores.to(device), target.to(device), weights)

    @property
    def _can_exchange(self) -> bool:
        return self._settings.bins is None

    @property
    def _exchange_key(self) -> bool:
        return self._settings.average == "micro"

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> tuple[HitCurve, torch.dtype]:
        """This rank's part of the curve, and the dtype of all scores."""
        dtype = held["scores"].dtype if held else torch.float32
        return items.part_of_curve(ranks, self._taken(ranks, held)), dtype

    def _taken(self, ranks: Ranks, held: dict[str, Tensor]) -> Batch:
        """This rank's items, without copies."""
        batch = self._settings.inputs.no_items(self.device)
        if held:
            batch = Batch(held.pop("scores"), held.pop("targets"), held.pop("weights", None))
        if samples.STATE in held:
            batch = _chosen(batch, copies.first_copies(ranks, held[samples.STATE], batch.target))
        return self._settings.rankings(batch)

    def _forms(self) -> dict[str, Form]:
        empty = self._settings.inputs.no_items(self.device)
        columns = tuple(empty.scores.shape[1:])
        of_weights = [()] if self._settings.inputs.classes else [(), columns]
        return {
            "scores": Form(tensors.SCORES, [columns]),
            "targets": Form([empty.target.dtype], [tuple(empty.target.shape[1:])]),
            "weights": Form(tensors.SCORES, of_weights),
            samples.STATE: Form([torch.int64]),
        }

    def _check_held(self, state: dict[str, Any]) -> None:
        inputs = self._settings.inputs
        for name, bound in (("counts", 2.0**63), ("weight_sums", math.inf)):
            if name in state and not bool((state[name] >= 0).all() & (segments.as_float64(state[name]).sum() < bound)):
                raise ValueError(f"`{name}` must not be negative, and must have a sum that its dtype holds")
        if "sketch" in state and not adaptive.is_sketch(state["sketch"]):
            raise ValueError("`sketch` must hold ascending ends of bins, and counts in them that are not negative")
        if not self._lists:
            return
        further = [name for name in ("weights", samples.STATE) if isinstance(state.get(name), Tensor)]
        lengths = {name: len(state[name]) for name in ("scores", "targets", *further)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{', '.join(f'`{name}`' for name in lengths)} must be of as many items, got {lengths}")
        if isinstance(state["scores"], Tensor):
            weights = state["weights"] if isinstance(state["weights"], Tensor) else None
            inputs.raise_broken(inputs.look_at(Batch(state["scores"], state["targets"], weights)))

    def _reader(self) -> "ItemState":
        reader: ItemState = super()._reader()  # type: ignore[assignment]
        inputs = replace(self._settings.inputs, normalization="none")  # theirs are kept normalized
        reader._settings, reader._rows_unseen = replace(self._settings, inputs=inputs), False
        return reader

    def _of_no_items(self, name: str, like: Tensor) -> Tensor:
        return self._settings.empty_sketch(like.device) if name == "sketch" else super()._of_no_items(name, like)

    def _apply(self, fn: Any, exclude_state: Any = "") -> "ItemState":
        super()._apply(fn, exclude_state)
        if self.device.type != "meta":
            self._settings = self._settings.to(self.device)
        return self


def _chosen(batch: Batch, kept: Tensor) -> Batch:
    return Batch(*(x if x is None else x[kept] for x in batch))  # type: ignore[arg-type]
