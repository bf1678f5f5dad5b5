"""Test whether the average precision of two models on one validation set differs by more than chance.

Real data: scikit-learn's digits, "is it an 8?", from every third pixel. Both models score the same images, so the
standard error of the difference is smaller than the errors of the two values. The difference can be clear although the
intervals overlap. The script prints the numbers and draws them in compare_models.png.

Run: python examples/compare_models.py

It prints:

    kernel SVM           AP 0.8714, 95% interval 0.8074 to 0.9164; 8.6 times chance, p <= 0.000999
    logistic regression  AP 0.7600, 95% interval 0.6754 to 0.8282; 7.5 times chance, p <= 0.000999
    1079 images, 104 of them an 8; chance gives 0.1019
    difference 0.1114, 95% interval 0.0730 to 0.1622, p = 6.1e-08 (logits); by swapping ranks p = 0.001
    picture: compare_models.png
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC
from torch import Tensor

from torch_ap import BinaryAveragePrecision, plot
from torch_ap.inference import chance_test

PICTURE = "compare_models.png"


def scores() -> tuple[dict[str, Tensor], Tensor]:
    """Return the scores of each model for the validation images, and whether each image is an 8."""
    images, digits = load_digits(return_X_y=True)
    x_train, x_valid, y_train, y_valid = train_test_split(
        images[:, ::3], digits == 8, test_size=0.6, random_state=0, stratify=digits
    )
    models = {"kernel SVM": SVC(), "logistic regression": LogisticRegression(C=1e-3, max_iter=2000)}
    return {
        name: torch.from_numpy(model.fit(x_train, y_train).decision_function(x_valid)) for name, model in models.items()
    }, torch.from_numpy(y_valid)


def main() -> None:
    preds, target = scores()
    metrics = {name: BinaryAveragePrecision() for name in preds}
    for name, metric in metrics.items():
        metric.update(preds[name], target)
        found, test = metric.confidence_interval(), chance_test(preds[name], target)
        print(
            f"{name:20} AP {found.estimate:.4f}, 95% interval {found.low:.4f} to {found.high:.4f}; "
            f"{test.lift:.1f} times chance, p {'<=' if test.reason else '='} {test.p_value:.3g}"
        )

    first, second = metrics.values()
    chance = float(first.chance_level())
    gap = first.compare(second)
    said = f"difference {gap.difference:.4f}, 95% interval {gap.low:.4f} to {gap.high:.4f}, p = {gap.p_value:.2g}"
    print(f"{len(target)} images, {int(target.sum())} of them an 8; chance gives {chance:.4f}")
    print(f"{said} (logits); by swapping ranks p = {first.compare(second, method='permutation').p_value:.2g}")

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    plot.precision_recall(metrics, ax=ax, band=True).set_title(said, fontsize="medium")
    figure.savefig(PICTURE, dpi=120)
    print(f"picture: {PICTURE}")


if __name__ == "__main__":
    main()
