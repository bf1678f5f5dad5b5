"""Log average precision with its interval from a LightningModule, and read it from the trainer, CSV and TensorBoard.

Run: python examples/lightning_logging.py  (needs the extra `neighbours`)

It prints:

    CSV          AP 0.9630, 95% interval 0.9188 to 0.9836; chance gives 0.3866
    TensorBoard  AP 0.9630, 95% interval 0.9188 to 0.9836; chance gives 0.3866
    Trainer      AP 0.9630, 95% interval 0.9188 to 0.9836; chance gives 0.3866
    scikit-learn AP 0.9630
"""

import csv
import logging
import pathlib
import tempfile
import warnings

import torch
from lightning import LightningModule, Trainer, seed_everything
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
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

    def on_validation_epoch_end(self) -> None:
        summary = self.valid_ap.summary()
        self.log_dict({f"valid_{name}": summary[name] for name in ("ap_low", "ap_high", "ap_chance")})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


def data() -> tuple[TensorDataset, TensorDataset]:
    features, benign = load_breast_cancer(return_X_y=True)
    split = train_test_split(features, 1 - benign, test_size=0.4, random_state=0, stratify=benign)
    scaler = StandardScaler().fit(split[0])
    x_train, x_valid = (torch.tensor(scaler.transform(x)).float() for x in split[:2])
    y_train, y_valid = (torch.tensor(y) for y in split[2:])
    return TensorDataset(x_train, y_train), TensorDataset(x_valid, y_valid)


def logged(csv_folder: str, tensorboard_folder: str) -> dict[str, dict[str, float]]:
    """Return the last values of both logs, by name."""
    *_, last = csv.DictReader((pathlib.Path(csv_folder) / "metrics.csv").read_text().splitlines())
    events = EventAccumulator(tensorboard_folder).Reload()
    scalars = {name: events.Scalars(name)[-1].value for name in events.Tags()["scalars"]}
    return {"CSV": {name: float(text) for name, text in last.items()}, "TensorBoard": scalars}


def main() -> None:
    seed_everything(0, verbose=False)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    train, valid = data()
    module = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        loggers = CSVLogger(folder, "csv"), TensorBoardLogger(folder, "tensorboard")
        trainer = Trainer(
            accelerator="cpu",
            max_epochs=3,
            logger=loggers,
            log_every_n_steps=10,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, DataLoader(train, batch_size=32, shuffle=True), DataLoader(valid, batch_size=32))
        found = logged(*(logger.log_dir for logger in loggers))
    found["Trainer"] = {name: value.item() for name, value in trainer.callback_metrics.items()}
    features, malignant = valid.tensors
    with torch.no_grad():
        expected = average_precision_score(malignant, module(features))
    for place, values in found.items():
        print(
            f"{place:12} AP {values['valid_ap']:.4f}, 95% interval {values['valid_ap_low']:.4f} to "
            f"{values['valid_ap_high']:.4f}; chance gives {values['valid_ap_chance']:.4f}"
        )
        if abs(values["valid_ap"] - expected) > 1e-6:
            raise SystemExit("the log and scikit-learn differ")
    print(f"{'scikit-learn':12} AP {expected:.4f}")


if __name__ == "__main__":
    main()
