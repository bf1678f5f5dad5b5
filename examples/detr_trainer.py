"""Fine-tune DETR with Hugging Face's Trainer, with COCO's mean average precision after each epoch.

The Trainer calls `compute_metrics` with each batch (`batch_eval_metrics`), so the metric collects the detections and no
array of all predictions exists. The model is a tiny DETR that begins with random weights, and learns pictures of one
red or blue square. Replace it by `DetrForObjectDetection.from_pretrained(...)`, and the data set by your own.

Run: python examples/detr_trainer.py  (needs the extra `neighbours`)

It prints:

    epoch 1: mAP 0.043, 95% interval 0.022 to 0.051; AP50 0.138
    epoch 2: mAP 0.027, 95% interval 0.015 to 0.033; AP50 0.106
    epoch 3: mAP 0.030, 95% interval 0.016 to 0.038; AP50 0.114
"""

import tempfile
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import (
    DetrConfig,
    DetrForObjectDetection,
    EvalPrediction,
    PrinterCallback,
    ResNetConfig,
    Trainer,
    TrainingArguments,
    set_seed,
)

from torch_ap import MeanAveragePrecision

SIZE, NAMES = 32, ["red", "blue"]
Item = dict[str, Any]


class Squares(Dataset[Item]):
    """Pictures with one square; boxes are centre and size as fractions of the picture, as DETR requires."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.pictures = 0.1 * torch.rand(count, 3, SIZE, SIZE, generator=generator)
        self.labels = torch.randint(len(NAMES), (count,), generator=generator)
        sides = torch.randint(16, 25, (count,), generator=generator)
        corners = (torch.rand(count, 2, generator=generator) * (SIZE - sides)[:, None]).long()
        for picture, label, side, (x, y) in zip(self.pictures, self.labels, sides, corners.tolist(), strict=True):
            picture[2 * label, y : y + side, x : x + side] += 1
        self.boxes = torch.cat([corners + sides[:, None] / 2, sides[:, None].expand(-1, 2)], 1) / SIZE

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> Item:
        truth = {"class_labels": self.labels[place, None], "boxes": self.boxes[place, None]}
        return {"pixel_values": self.pictures[place], "labels": truth}


def collate(items: list[Item]) -> dict[str, Any]:
    return {"pixel_values": torch.stack([x["pixel_values"] for x in items]), "labels": [x["labels"] for x in items]}


def tiny_detr() -> DetrForObjectDetection:
    backbone = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    return DetrForObjectDetection(
        DetrConfig(
            backbone_config=backbone,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            num_labels=len(NAMES),
            num_queries=4,
            d_model=32,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            dropout=0.0,
            auxiliary_loss=True,
        )
    )


class ComputeMetrics:
    """Collect the detections of each batch, and return COCO's numbers after the last."""

    def __init__(self) -> None:
        self.metric = MeanAveragePrecision("cxcywh", class_metrics=True, class_names=NAMES)

    def __call__(self, batch: EvalPrediction, compute_result: bool) -> dict[str, float]:
        _, logits, boxes, *_ = batch.predictions  # the first is the dict of losses
        scores, labels = logits.softmax(-1)[..., :-1].max(-1)  # the last class is "no object"
        self.metric.update(
            [
                {"boxes": SIZE * box, "scores": score, "labels": label}
                for box, score, label in zip(boxes, scores, labels, strict=True)
            ],
            [{"boxes": SIZE * x["boxes"], "labels": x["class_labels"]} for x in batch.label_ids],
        )
        if not compute_result:
            return {}
        numbers = self.metric.compute() | self.metric.summary(
            n_resamples=200, generator=torch.Generator().manual_seed(0)
        )
        self.metric.reset()
        return {name: x.item() for name, x in numbers.items() if x.ndim == 0}


def main() -> None:
    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            num_train_epochs=3,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=50,
            learning_rate=3e-3,
            eval_strategy="epoch",
            save_strategy="no",
            batch_eval_metrics=True,
            remove_unused_columns=False,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = Trainer(
            tiny_detr(),
            settings,
            data_collator=collate,
            train_dataset=Squares(320, seed=1),
            eval_dataset=Squares(100, seed=2),
            compute_metrics=ComputeMetrics(),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    for row in trainer.state.log_history:
        if "eval_map" in row:
            value, half, low, high = (row[f"eval_map{part}"] for part in ("", "_50", "_low", "_high"))
            print(f"epoch {row['epoch']:.0f}: mAP {value:.3f}, 95% interval {low:.3f} to {high:.3f}; AP50 {half:.3f}")


if __name__ == "__main__":
    main()
