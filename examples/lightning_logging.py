"""Log average precision from a LightningModule with `self.log(metric)`, and find scikit-learn's value in the log.

Run: python examples/lightning_logging.py  (needs the extra `lightning`)
"""

import logging
import warnings

import torch
from lightning import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from torch_ap import BinaryAveragePrecision

Batch = tuple[Tensor, Tensor]


class Classifier(LightningModule):
    """Logistic regression; malignant is the positive class."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(30, 1)
        self.valid_ap = BinaryAveragePrecision()

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features).squeeze(1)
        return logits

    def training_step(self, batch: Batch, _: int) -> Tensor:
        features, malignant = batch
        return nn.functional.binary_cross_entropy_with_logits(self(features), malignant.float())

    def validation_step(self, batch: Batch, _: int) -> None:
        features, malignant = batch
        self.valid_ap.update(self(features), malignant)
        self.log("valid_ap", self.valid_ap)  # Lightning computes it at the end of the epoch, and resets it

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


def data() -> tuple[TensorDataset, TensorDataset]:
    features, benign = load_breast_cancer(return_X_y=True)
    split = train_test_split(features, 1 - benign, test_size=0.4, random_state=0, stratify=benign)
    scaler = StandardScaler().fit(split[0])
    x_train, x_valid = (torch.tensor(scaler.transform(x)).float() for x in split[:2])
    y_train, y_valid = (torch.tensor(y) for y in split[2:])
    return TensorDataset(x_train, y_train), TensorDataset(x_valid, y_valid)


def main() -> None:
    seed_everything(0, verbose=False)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    train, valid = data()
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Classifier()
    trainer.fit(module, DataLoader(train, batch_size=32, shuffle=True), DataLoader(valid, batch_size=32))
    logged = trainer.callback_metrics["valid_ap"].item()
    features, malignant = valid.tensors
    with torch.no_grad():
        expected = average_precision_score(malignant, module(features))
    print(f"valid_ap logged by Lightning {logged:.6f}")
    print(f"scikit-learn, all at once    {expected:.6f}")
    if abs(logged - expected) > 1e-6:
        raise SystemExit("the two differ")


if __name__ == "__main__":
    main()
