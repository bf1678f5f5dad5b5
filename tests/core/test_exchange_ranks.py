"""Exchange between two gloo processes; an error on one of them raises on both without waiting."""

import contextlib
import os
import re
import time
import warnings
from unittest import mock

import pytest
import torch
from lightning import pytorch as lightning
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torchmetrics import MetricCollection

import torch_ap
from tests.support.every_metric import one_of_each_state
from tests.support.modes import quiet, same
from tests.support.parts import count, cut
from torch_ap.core.items import exchange
from torch_ap.core.metric import state
from torch_ap.detection.rules import coco
from torch_ap.functional import binary_average_precision
from torch_ap.retrieval import rankings

QUICK = 10  # seconds; a rank that waits for the other takes a minute
SOME = ("BinaryAveragePrecision", "MultilabelAveragePrecision", "RetrievalMAP", "MeanAveragePrecision")


def check_values(rank):
    rows = {name: row for name, row in one_of_each_state().items() if row.call.__name__ in SOME and not row.learns}
    assert len(rows) > len(SOME)
    for name, row in rows.items():
        drawn = row.draw(40, torch.Generator().manual_seed(7))
        parts = cut(drawn, [count(drawn) // 3, count(drawn) - count(drawn) // 3])
        here, whole = row.new(sync="exchange"), row.new(sync_on_compute=False)
        quiet(here.update, **parts[rank])
        for part in parts:
            quiet(whole.update, **part)
        try:
            same(quiet(here.compute), quiet(whole.compute))
        except AssertionError as error:
            raise AssertionError(name) from error


def check_life(rank):
    """Check forward with synchronization at each step, reset, a second epoch, a collection, and gathering."""
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.rand(2, 2, 30, generator=generator), torch.rand(2, 2, 30, generator=generator) < 0.4
    new = torch_ap.BinaryAveragePrecision
    stepwise, epoch = new(sync="exchange", dist_sync_on_step=True), new(sync="exchange")
    several = MetricCollection({"ap": new(sync="exchange"), "top": new(sync="exchange", top_k=4)})
    for step in range(2):
        here = binary_average_precision(preds[step].flatten(), target[step].flatten())
        same(stepwise(preds[step, rank], target[step, rank]), here)
        alone = binary_average_precision(preds[step, rank], target[step, rank])
        same(epoch(preds[step, rank], target[step, rank]), alone)
        several.update(preds[step, rank], target[step, rank])
    whole = [x.transpose(0, 1).flatten() for x in (preds, target)]  # items of the first rank first
    for metric in (stepwise, epoch):
        same(metric.compute(), binary_average_precision(*whole))
    same(several.compute()["top"], binary_average_precision(*whole, top_k=4))
    same(epoch.confidence_interval().estimate.float(), binary_average_precision(*whole))
    with epoch.sync_context(distributed_available=lambda: True):  # a manual sync gathers all states
        assert sum(map(len, epoch.scores)) == 120
    epoch.reset()
    epoch.update(preds[0, rank], target[0, rank])
    same(epoch.compute(), binary_average_precision(preds[0].flatten(), target[0].flatten()))


def binary(**more):
    metric = torch_ap.BinaryAveragePrecision(**more)
    metric.update(torch.rand(4), torch.tensor([0, 1, 0, 1]))
    return metric


def broken_state(rank, sync):
    metric = binary(sync=sync)
    if rank:
        metric.scores.append("broken by hand")
    return metric, None


def other_dtypes(rank, sync):
    metric = torch_ap.BinaryAveragePrecision(sync=sync)
    metric.update(torch.arange(3) if rank else torch.rand(3), torch.tensor([0, 1, 0]))
    return metric, None


def weights_on_one(rank, sync):
    metric = torch_ap.BinaryAveragePrecision(sync=sync)
    metric.update(torch.rand(3), torch.tensor([0, 1, 0]), weights=torch.rand(3) if rank else None)
    return metric, None


def an_id_of_two_targets(rank, sync):
    metric = torch_ap.BinaryAveragePrecision(sync=sync)
    metric.update(torch.rand(3), torch.tensor([0, 1, rank]), sample_ids=torch.tensor([7 + rank, 1 + rank * 9, 5]))
    return metric, None


def two_judgements(rank, sync):
    metric = torch_ap.RetrievalMAP(sync=sync)
    metric.update(torch.rand(2), torch.tensor([0, 1]), torch.tensor([3, 3]), num_relevant={3: 2 + rank})
    return metric, None


def nothing_relevant(rank, sync):
    metric = torch_ap.RetrievalMAP(empty_target_action="error", sync=sync)
    metric.update(torch.rand(2), torch.tensor([0, 1 - rank]), torch.tensor([rank, rank]))
    return metric, None


def no_positive(_rank, sync):
    metric = torch_ap.BinaryAveragePrecision(empty_target_action="error", sync=sync)
    metric.update(torch.rand(2), torch.tensor([0, 0]))
    return metric, None


def no_memory(where, name, make):
    """Return a step that fails only on the second rank."""

    def case(rank, sync):
        metric = make(sync)
        return metric, mock.patch.object(where, name, side_effect=MemoryError("no room")) if rank else None

    return case


def queries(sync):
    metric = torch_ap.RetrievalMAP(sync=sync)
    metric.update(torch.rand(4), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1]))
    return metric


def images(sync):
    metric = torch_ap.MeanAveragePrecision(sync=sync)
    box, label = torch.tensor([[0.0, 0, 9, 9]]), torch.tensor([0])
    metric.update([{"boxes": box, "scores": torch.ones(1), "labels": label}], [{"boxes": box, "labels": label}])
    return metric


class OwnError(Exception):
    pass


def own_error(rank, sync):
    return binary(sync=sync), mock.patch.object(state, "joined", side_effect=OwnError("mine")) if rank else None


FAULTS = {
    "a broken state": (broken_state, AttributeError, "no attribute"),
    "scores of two kinds": (other_dtypes, ValueError, "`preds` .*int64"),
    "weights on one rank": (weights_on_one, ValueError, "`weights` .*every rank or on none"),
    "an id of two targets": (an_id_of_two_targets, ValueError, "`sample_ids` .*5"),
    "two judgements": (two_judgements, ValueError, "`num_relevant` must be equal"),
    "nothing relevant": (nothing_relevant, ValueError, "`target` must define"),
    "no positive": (no_positive, ValueError, "`target` must contain a positive"),
    "no memory to join": (no_memory(state, "joined", lambda sync: binary(sync=sync)), MemoryError, "no room"),
    "an error of one's own": (own_error, RuntimeError, "OwnError: mine"),
}
INSIDE = {
    "while sorting": (no_memory(exchange, "_sort", lambda sync: binary(sync=sync)), MemoryError, "no room"),
    "while ranking": (no_memory(rankings, "_rank_items", queries), MemoryError, "no room"),
    "while matching": (no_memory(coco, "_matches", images), MemoryError, "no room"),
}


def fail(rank, sync, faults):
    """Return the error and the duration of each fault; the metrics stay usable."""
    said = {}
    for name in faults:
        metric, patch = {**FAULTS, **INSIDE}[name][0](rank, sync)
        start = time.monotonic()
        try:
            with patch or contextlib.nullcontext():
                metric.compute()
        except Exception as error:
            said[name] = type(error).__name__, str(error), time.monotonic() - start
    return said


@pytest.mark.parametrize(
    ("sync", "faults"), [("gather", list(FAULTS)), ("exchange", [*FAULTS, *INSIDE])], ids=["gather", "exchange"]
)
def test_a_fault_is_the_same_error_on_all_ranks(ranks, sync, faults):
    first, second = ranks(fail, sync, faults)
    for name in faults:
        _, kind, pattern = {**FAULTS, **INSIDE}[name]
        assert first[name][:2] == second[name][:2]
        assert first[name][0] == kind.__name__
        assert re.search(pattern, first[name][1])
        assert max(first[name][2], second[name][2]) < QUICK


def test_values_on_two_processes(ranks):
    ranks(check_values)


def test_the_life_of_a_metric(ranks):
    ranks(check_life)


def check_lightning(rank, folder):
    """Train and validate with Lightning's DDP strategy, whose sampler repeats an item that ids identify."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(41, 2, generator=generator)
    target = (features[:, 0] + torch.randn(41, generator=generator) > 0).long()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
            new = torch_ap.BinaryAveragePrecision
            self.metrics = torch.nn.ModuleDict({sync: new(sync=sync) for sync in ("gather", "exchange")})

        def training_step(self, batch, _):
            return torch.nn.functional.binary_cross_entropy_with_logits(self.layer(batch[0])[:, 0], batch[1].float())

        def validation_step(self, batch, _):
            for name, metric in self.metrics.items():
                metric.update(self.layer(batch[0])[:, 0], batch[1], sample_ids=batch[2])
                self.log(name, metric)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    data = torch.utils.data.TensorDataset(features, target, torch.arange(41))
    loader = torch.utils.data.DataLoader(data, batch_size=5)
    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}
    launched = {"TORCHELASTIC_RUN_ID": "a test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, **here}
    with mock.patch.dict(os.environ, {name: str(x) for name, x in launched.items()}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=2,
            strategy=DDPStrategy(cluster_environment=TorchElasticEnvironment(), process_group_backend="gloo"),
            max_epochs=2,
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        assert trainer.world_size == 2
        module = Module()
        trainer.fit(module, loader, loader)
        found = trainer.validate(module, loader, verbose=False)[0]
        expected = float(binary_average_precision(module.layer(features)[:, 0], target))
    assert found == {"gather": expected, "exchange": expected}


@pytest.mark.slow
def test_lightning_ddp(ranks, tmp_path):
    ranks(check_lightning, tmp_path)
