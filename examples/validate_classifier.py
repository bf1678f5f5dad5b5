"""Train a small network on scikit-learn's digits and validate it with average precision, epoch by epoch.

Run: python examples/validate_classifier.py

It prints:

    epoch    11-point        AP     AP@50
        1      0.7252    0.7350    0.7479
        2      0.8592    0.8834    0.9198
        3      0.8761    0.8962    0.9344
        4      0.8907    0.9123    0.9433
        5      0.9080    0.9307    0.9600
        6      0.9145    0.9357    0.9550
    hardest digit: 9, AP 0.7921; easiest AP 0.9992
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection

from torch_ap import MulticlassAveragePrecision
from torch_ap.functional import multiclass_average_precision

CLASSES = 10


def data() -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]:
    images, digits = load_digits(return_X_y=True)
    split = train_test_split(images / 16, digits, test_size=0.5, random_state=0, stratify=digits)
    x_train, x_valid, y_train, y_valid = (torch.tensor(part) for part in split)
    train = TensorDataset(x_train.float(), y_train)
    valid = TensorDataset(x_valid.float(), y_valid)
    return DataLoader(train, batch_size=64, shuffle=True), DataLoader(valid, batch_size=100)


def main() -> None:
    torch.manual_seed(0)
    train, valid = data()
    network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    # A class's ranking compares images with one another, and logits of different images have no common zero: the
    # softmax gives them one, and must be enabled. The three conventions share one state.
    metrics = MetricCollection(
        {
            "AP": MulticlassAveragePrecision(CLASSES, normalization="softmax"),
            "AP@50": MulticlassAveragePrecision(CLASSES, normalization="softmax", top_k=50),
            "11-point": MulticlassAveragePrecision(CLASSES, normalization="softmax", interpolation="11-point"),
        }
    )
    print("epoch  " + "".join(f"{name:>10}" for name in metrics))
    for epoch in range(1, 7):
        for images, digits in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images), digits)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        metrics.reset()
        with torch.no_grad():
            for images, digits in valid:
                metrics.update(network(images), digits)
        values = metrics.compute()
        print(f"{epoch:5}  " + "".join(f"{value.item():10.4f}" for value in values.values()))

    with torch.no_grad():
        logits = torch.cat([network(images) for images, _ in valid])
    digits = torch.cat([digits for _, digits in valid])
    each = multiclass_average_precision(logits, digits, CLASSES, average=None, normalization="softmax")
    worst = int(each.argmin())
    print(f"hardest digit: {worst}, AP {each[worst].item():.4f}; easiest AP {each.max().item():.4f}")


if __name__ == "__main__":
    main()
