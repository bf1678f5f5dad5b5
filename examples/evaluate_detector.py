"""Evaluate a detector after each epoch: COCO's and VOC's mean AP, a table by class, and a picture of the curves.

The scenes are generated. The "detector" returns the truth with a jitter that shrinks in training; replace it by your
own. The metrics are attributes of the module, as Lightning requires: there, call `update` in `validation_step` and log
in `on_validation_epoch_end`.

Run: python examples/evaluate_detector.py  (the picture needs the extra `plot`)

It prints:

    epoch 0: COCO 0.180, at IoU 0.5 0.665, cats 0.181, recall 0.318; VOC 2007 0.653
    epoch 1: COCO 0.417, at IoU 0.5 0.857, cats 0.417, recall 0.562; VOC 2007 0.850
    epoch 2: COCO 0.605, at IoU 0.5 0.884, cats 0.610, recall 0.736; VOC 2007 0.876
    epoch 3: COCO 0.708, at IoU 0.5 0.857, cats 0.689, recall 0.859; VOC 2007 0.849
    class        AP     AR  objects  right  wrong
    cat       0.689  0.855      233    164     69
    dog       0.712  0.864      231    170     81
    bird      0.722  0.858      240    183     68
    the curves are in detector_curves.png
"""

import torch
from torch import Tensor, nn

from torch_ap import plot
from torch_ap.detection import MeanAveragePrecision, VOCMeanAveragePrecision

NAMES = ["cat", "dog", "bird"]
Images = list[dict[str, Tensor]]


def scenes(images: int, generator: torch.Generator) -> Images:
    """Return images of one to six objects, as corner boxes."""
    out = []
    for _ in range(images):
        objects = int(torch.randint(1, 7, (1,), generator=generator))
        corner = 400 * torch.rand(objects, 2, generator=generator)
        size = 20 + 150 * torch.rand(objects, 2, generator=generator) ** 2
        labels = torch.randint(len(NAMES), (objects,), generator=generator)
        out.append({"boxes": torch.cat([corner, corner + size], 1), "labels": labels})
    return out


class Detector(nn.Module):
    """Detector that finds each object with a jitter, adds false ones, and has the metrics as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.jitter = nn.Parameter(torch.tensor(0.25))
        self.coco = MeanAveragePrecision(class_metrics=True, class_names=NAMES)
        self.voc = VOCMeanAveragePrecision(interpolation="11-point")

    def forward(self, truths: Images, generator: torch.Generator) -> Images:
        return [self.detect(image, generator) for image in truths]

    def detect(self, image: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        invented = scenes(1, generator)[0]
        noise = torch.randn(image["boxes"].shape, generator=generator)
        side = (image["boxes"][:, 2:] - image["boxes"][:, :2]).repeat(1, 2)
        boxes = torch.cat([image["boxes"] + self.jitter * noise * side, invented["boxes"]])
        right, wrong = (
            torch.rand(len(noise), generator=generator),
            torch.rand(len(invented["boxes"]), generator=generator),
        )
        scores = torch.cat([right.sqrt(), wrong * 0.7])
        return {"boxes": boxes, "scores": scores, "labels": torch.cat([image["labels"], invented["labels"]])}

    def validation_step(self, batch: Images, generator: torch.Generator) -> None:
        found = self(batch, generator)
        self.coco.update(found, batch)
        self.voc.update(found, batch)


def picture(metric: MeanAveragePrecision, path: str) -> None:
    """Draw precision over recall of each class at IoU 0.5, and AP over IoU thresholds and areas."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        print("no picture: matplotlib is not installed")
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    plot.precision_recall(metric, ax=left).set_title("IoU 0.5")
    plot.iou_thresholds(metric, ax=right)
    figure.savefig(path)
    print(f"the curves are in {path}")


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    valid = scenes(200, generator)
    detector = Detector()
    for epoch in range(4):
        with torch.no_grad():
            detector.jitter.mul_(0.6)  # "training"
        for first in range(0, len(valid), 20):
            detector.validation_step(valid[first : first + 20], generator)
        numbers = {name: value for name, value in detector.coco.compute().items() if value.ndim == 0}
        voc = detector.voc.compute()["map"]
        print(
            f"epoch {epoch}: COCO {numbers['map']:.3f}, at IoU 0.5 {numbers['map_50']:.3f}, "
            f"cats {numbers['map_class_cat']:.3f}, recall {numbers['mar_100']:.3f}; VOC 2007 {voc:.3f}"
        )
        if epoch < 3:
            detector.coco.reset()
            detector.voc.reset()
    table = detector.coco.per_class(iou_threshold=0.5, score_threshold=0.5)
    print(f"{'class':8}{'AP':>7}{'AR':>7}{'objects':>9}{'right':>7}{'wrong':>7}")
    for place, name in enumerate(table["name"]):
        ap, ar = float(table["ap"][place]), float(table["ar"][place])
        objects, right, wrong = (int(table[column][place]) for column in ("ground_truths", "tp", "fp"))
        print(f"{name:8}{ap:7.3f}{ar:7.3f}{objects:9}{right:7}{wrong:7}")
    picture(detector.coco, "detector_curves.png")


if __name__ == "__main__":
    main()
