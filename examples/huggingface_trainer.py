"""Use average precision with its interval as `compute_metrics` of Hugging Face's Trainer, and keep the best epoch.

The Trainer gathers the predictions of all processes and then calls `compute_metrics` in each of them, so the metric
must not gather again. The model is linear; any model that returns logits works.

Run: python examples/huggingface_trainer.py  (needs the extra `neighbours`)

It prints:

    epoch 1: AP 0.534, 95% interval 0.431 to 0.634; chance gives 0.131
    epoch 2: AP 0.670, 95% interval 0.574 to 0.754; chance gives 0.131
    epoch 3: AP 0.676, 95% interval 0.579 to 0.760; chance gives 0.131
    epoch 4: AP 0.682, 95% interval 0.586 to 0.765; chance gives 0.131
    best epoch's AP 0.682418
    scikit-learn's  0.682418
"""

import tempfile

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn
from transformers import EvalPrediction, PrinterCallback, Trainer, TrainingArguments, set_seed

from torch_ap import BinaryAveragePrecision

Items = list[dict[str, Tensor]]


class Classifier(nn.Module):
    """Logistic regression in the form of the Trainer: it returns the loss, then the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(20, 1)

    def forward(self, features: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.linear(features).squeeze(1)
        return {"loss": nn.functional.binary_cross_entropy_with_logits(logits, labels.float()), "logits": logits}


def compute_metrics(found: EvalPrediction) -> dict[str, float]:
    """Return the value, its interval and the chance level; the Trainer logs them as eval_ap, eval_ap_low, ..."""
    metric = BinaryAveragePrecision(sync_on_compute=False)
    metric.update(torch.from_numpy(found.predictions), torch.from_numpy(found.label_ids))
    return {name: value.item() for name, value in metric.summary().items()}


def data(generator: torch.Generator) -> tuple[Items, Items]:
    features = torch.randn(1200, 20, generator=generator)
    noise = 3 * torch.randn(1200, generator=generator)
    labels = (features.sum(1) + noise > 6).long()
    items = [{"features": x, "labels": y} for x, y in zip(features, labels, strict=True)]
    return items[:400], items[400:]


def main() -> None:
    set_seed(0)
    train, valid = data(torch.Generator().manual_seed(0))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            num_train_epochs=4,
            per_device_train_batch_size=50,
            per_device_eval_batch_size=100,
            learning_rate=0.05,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="ap",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = Trainer(
            Classifier(), settings, train_dataset=train, eval_dataset=valid, compute_metrics=compute_metrics
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        for row in trainer.state.log_history:
            if "eval_ap" in row:
                value, low, high, chance = (row[f"eval_ap{part}"] for part in ("", "_low", "_high", "_chance"))
                print(
                    f"epoch {row['epoch']:.0f}: AP {value:.3f}, 95% interval {low:.3f} to {high:.3f}; "
                    f"chance gives {chance:.3f}"
                )
        best = trainer.predict(valid)
        print(f"best epoch's AP {best.metrics['test_ap']:.6f}")
        print(f"scikit-learn's  {average_precision_score(best.label_ids, best.predictions):.6f}")


if __name__ == "__main__":
    main()
