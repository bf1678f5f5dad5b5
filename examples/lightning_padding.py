"""Validate in two processes with Lightning: AP is wrong without the ids of the items, and exact with them.

Lightning distributes the items with a DistributedSampler, which repeats some items to make all shares equally long. The
metric gathers all shares, and counts repeated items twice unless they have ids.

Run: torchrun --nproc_per_node 2 examples/lightning_padding.py  (needs the extra `neighbours`)

It prints:

    without ids  12 items, AP 0.4552
    sample_ids   11 items, AP 0.3875
    scikit-learn 11 items, AP 0.3875
"""

import logging
import warnings

import torch
from lightning import LightningModule, Trainer
from sklearn.metrics import average_precision_score
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from torch_ap import BinaryAveragePrecision


class Ranker(LightningModule):
    """Model whose scores are part of the items."""

    def __init__(self) -> None:
        super().__init__()
        self.without_ids, self.with_ids = BinaryAveragePrecision(), BinaryAveragePrecision()

    def validation_step(self, batch: tuple[Tensor, Tensor, Tensor], _: int) -> None:
        scores, target, places = batch
        self.without_ids.update(scores, target)
        self.with_ids.update(scores, target, sample_ids=places)

    def on_validation_epoch_end(self) -> None:
        for name, metric in (("without ids", self.without_ids), ("sample_ids", self.with_ids)):
            items = metric.curve().items[-1]  # every process gathers, one of them prints
            self.print(f"{name:13}{items} items, AP {metric.compute():.4f}")

    def configure_optimizers(self) -> None:
        pass


def main() -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    scores = torch.rand(11, generator=torch.Generator().manual_seed(0))
    target = (torch.arange(11) % 3 == 0).long()
    data = TensorDataset(scores, target, torch.arange(11))  # the place in the data is an id
    trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_progress_bar=False)
    module = Ranker()
    trainer.validate(module, DataLoader(data, batch_size=4), verbose=False)
    if trainer.is_global_zero:
        print(f"{'scikit-learn':13}{len(target)} items, AP {average_precision_score(target, scores):.4f}")


if __name__ == "__main__":
    main()
