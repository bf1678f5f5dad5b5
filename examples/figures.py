"""Draw figures of the literature: hit curves, precision and recall, the sum of average precision.

- Zhu (2004), Recall, Precision and Average Precision: Figures 1 to 3. The curves of Figure 2, and the rankings of
  Figure 3, whose compounds are not public, are invented with the average precisions that the paper prints.
- The Full Wiki, Recall (information retrieval): the documents, relevant and retrieved.
- Gormanalysis, Precision and Recall: twelve scores, large data, a perfect ranking, models A and B, rectangles, AP@3.
- Su & Zhang, Statistical Inference for Recall, Precision and Average Precision: their example of two algorithms.
- Geese and airplanes ("It's a bird... it's a plane..."): the images, a threshold, the curve, AP interpolated or not.

Run: python examples/figures.py  (extra `plot`; writes PNG files into the folder figures)

It prints:

    zhu_1
    zhu_2                0.260  A; 0.200  B
    zhu_3                0.256  RBF-T; 0.254  RBF-G; 0.180  KNN; 0.177  SVM
    wiki_documents       precision 18/58, the level arrow; recall 18/114, the slanting one
    gorman_12_scores     0.941  points joined; 0.944  as AP sums them
    gorman_large         0.889  8,000 items
    gorman_perfect       1.000  perfect ranking
    gorman_models        0.817  A; 0.440  B
    gorman_rectangles    AP = (1 + 0.667 + 0.6 + 0.667 + 0.714 + 0.667) / 6 = 0.719
    gorman_at_3          AP = (1 + 1 + 0.75 + 0.8) / 4 = 0.887; AP@3 = (1 + 1) / 3 = 0.667
    su_zhang_algorithms  0.917  algorithm 1; 0.467  algorithm 2; 0.917  algorithm 1; 0.467  algorithm 2
    geese_images         retrieved, in the oval: precision 3/4, recall 3/5
    geese_threshold
    geese_curve          0.763  airplanes
    geese_interpolated   AP = area of 9 rectangles = 0.478; AP = area of 9 rectangles = 0.507; AP = mean height at 11 recall levels = 0.504
    15 figures in figures
"""  # noqa: E501

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, FancyArrowPatch, Rectangle
from torch import Tensor

from torch_ap import BinaryAveragePrecision, plot
from torch_ap.core.base.options import Interpolation
from torch_ap.curves import Curve
from torch_ap.functional import binary_curve

FOLDER = Path("figures")
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.5"


def ranked(hits: str, name: str = "", interpolation: Interpolation = None) -> Curve:
    """Return the curve of a ranking, written as hits and misses from the best item on: "1101"."""
    target = torch.tensor([int(x) for x in hits])
    return binary_curve(-torch.arange(len(hits)), target, name=name, interpolation=interpolation)


def canvas(width: float = 6.4, height: float = 4.8, columns: int = 1) -> tuple[Figure, list[Axes]]:
    figure, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", squeeze=False)
    return figure, list(axes[0])


# -- Zhu (2004)


def zhu_1() -> Figure:
    """Draw the relevant fraction pi of a collection C, and the relevant part h(t) of a selected fraction t."""
    figure, (ax,) = canvas(6, 3.6)
    ax.add_patch(Rectangle((0, 0), 10, 6, fill=False, edgecolor=GREY, linewidth=1.5))
    ax.add_patch(Ellipse((3.8, 3), 4, 3, facecolor=(BLUE, 0.25), edgecolor=BLUE, linewidth=1.5))
    ax.add_patch(Ellipse((6.2, 3), 4.4, 3.6, facecolor=(ORANGE, 0.2), edgecolor=ORANGE, linewidth=1.5, hatch="/"))
    for x, y, text in ((0.4, 5.4, "C"), (2.7, 3, r"relevant, $\pi$"), (5.0, 3, "h(t)"), (7.2, 3, "selected, t")):
        ax.text(x, y, text, ha="center", va="center", bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0})
    ax.set(xlim=(-0.2, 10.2), ylim=(-0.2, 6.2), aspect="equal")
    ax.axis("off")
    return figure


def ranking_of(recall: Callable[[Tensor], Tensor], n: int, m: int, name: str) -> Curve:
    """Return the curve of n items, m of them hits, whose recall r(t), t in [0, 1], is closest to the function."""
    depth = torch.linspace(0, 1, n + 1, dtype=torch.float64)
    found = (recall(depth) * m + 0.5).floor()
    return binary_curve(-torch.arange(n), found.diff().clamp(0, 1).long(), name=name)


def with_average_precision(wanted: float, make: Callable[[float], Curve], low: float, high: float) -> Curve:
    """Return the curve from ``make`` with the target AP; AP grows with its argument between the two limits."""
    for _ in range(25):
        middle = (low + high) / 2
        low, high = (middle, high) if float(make(middle).average_precision) < wanted else (low, middle)
    return make(high)


def zhu_2() -> Figure:
    """Draw two algorithms: A finds more at the top, B more in total. AP is higher for A, the area for B."""
    n, m = 10_000, 500

    def a(share: float) -> Curve:
        return ranking_of(lambda t: share * -torch.expm1(-t / 0.05) + (1 - share) * t, n, m, "A")

    def b(rate: float) -> Curve:
        return ranking_of(lambda t: torch.expm1(-rate * t) / torch.expm1(torch.tensor(-rate)), n, m, "B")

    curves = [with_average_precision(0.26, a, 0.2, 0.8), with_average_precision(0.20, b, 2, 20)]
    figure, (ax,) = canvas()
    plot.hit_curve(curves, ax=ax, fraction=True)
    behind = (curves[0].hits < curves[1].hits).nonzero()
    place = int(behind[behind > n / 100][0])
    ax.annotate("t*", (place / n, float(curves[0].hits[place]) / n), (8, -14), textcoords="offset points")
    return figure


def zhu_3() -> Figure:
    """Draw four algorithms on 14,906 compounds, 304 of them active."""
    n, m = 14_906, 304

    def normal(size: int) -> Tensor:
        quantiles: Tensor = torch.special.ndtri((torch.arange(size, dtype=torch.float64) + 0.5) / size)
        return quantiles

    def simulated(name: str, spread: float) -> Callable[[float], Curve]:
        target = torch.cat([torch.ones(m), torch.zeros(n - m)]).long()
        return lambda shift: binary_curve(torch.cat([shift + spread * normal(m), normal(n - m)]), target, name=name)

    printed = {"RBF-T": (0.2560, 1.4), "RBF-G": (0.2543, 1.2), "KNN": (0.1800, 1.4), "SVM": (0.1766, 1.2)}
    curves = [with_average_precision(value, simulated(name, spread), 0, 3) for name, (value, spread) in printed.items()]
    figure, (ax,) = canvas()
    plot.hit_curve(curves, ax=ax, ideal=False)
    return figure


# -- The Full Wiki


def wiki_documents() -> Figure:
    """Draw relevant documents on the left, others on the right, and the retrieved ones in the oval."""
    figure, (ax,) = canvas(6, 4)
    x, y = torch.rand(2, 220, generator=torch.Generator().manual_seed(2)) * torch.tensor([[10.0], [6.0]])
    inside = ((x - 5.4) / 2.6) ** 2 + ((y - 3) / 1.9) ** 2 < 1
    right = (x < 5) == inside  # relevant and retrieved, or neither
    for chosen, color, marker in ((right, GREEN, "o"), (~right, ORANGE, "x")):
        ax.scatter(x[chosen], y[chosen], 14, color=color, marker=marker)
    ax.axvspan(0, 5, color=GREY, alpha=0.12, linewidth=0)
    ax.add_patch(Ellipse((5.4, 3), 5.2, 3.8, fill=False, edgecolor=BLUE, linewidth=2))
    hits, retrieved, relevant = int((inside & (x < 5)).sum()), int(inside.sum()), int((x < 5).sum())
    arrows: tuple[tuple[tuple[float, float], tuple[float, float]], ...] = (
        ((7.4, 3), (3.6, 3)),  # of the retrieved
        ((1.0, 0.9), (4.0, 3.4)),  # of the relevant
    )
    for start, end in arrows:
        ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=16, color="black", linewidth=1.6))
    ax.set_title(f"precision {hits}/{retrieved}, the level arrow; recall {hits}/{relevant}, the slanting one")
    ax.set(xlim=(0, 10), ylim=(0, 6), xticks=[2.5, 7.5], xticklabels=["relevant", "not relevant"], yticks=[])
    return figure


# -- Gormanalysis


def gorman_12_scores() -> Figure:
    scores = [0.349, -1.084, -0.270, 0.360, 0.898, -1.923, 0.552, -2.273, -1.986, -0.122, -1.738, -3.082]
    preds, target = torch.tensor(scores), torch.tensor([1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 0, 0])
    figure, (left, right) = canvas(11, 4.4, 2)
    plot.precision_recall(binary_curve(preds, target, interpolation="trapezoid", name="points joined"), ax=left)
    plot.precision_recall(binary_curve(preds, target, name="as AP sums them"), ax=right)
    return figure


def gorman_large() -> Figure:
    generator = torch.Generator().manual_seed(0)
    scores = torch.cat([torch.randn(3000, generator=generator), torch.randn(5000, generator=generator) - 2])
    figure, (ax,) = canvas()
    plot.precision_recall(binary_curve(scores, torch.arange(8000).lt(3000), name="8,000 items"), ax=ax)
    return figure


def gorman_perfect() -> Figure:
    figure, (ax,) = canvas()
    plot.precision_recall(ranked("111111000000", "perfect ranking"), ax=ax)
    return figure


def gorman_models() -> Figure:
    """Draw two models with equal decisions at 0.5: A is sure of its correct decisions, B of its wrong ones."""
    target = torch.tensor([1, 1, 0, 0, 1, 1, 0, 0])
    scores = {
        "A": [0.95, 0.85, 0.73, 0.62, 0.48, 0.39, 0.12, 0.04],
        "B": [0.55, 0.59, 0.88, 0.97, 0.20, 0.09, 0.43, 0.32],
    }
    figure, (ax,) = canvas()
    plot.precision_recall([binary_curve(torch.tensor(x), target, name=name) for name, x in scores.items()], ax=ax)
    return figure


def gorman_rectangles() -> Figure:
    """Draw the curve of the sixteen scores that R returns after ``set.seed(4)``."""
    right = [0.217, -0.542, 0.891, 0.596, 1.636, 0.689]
    wrong = [-2.281, -1.213, 0.897, 0.777, -0.433, -0.984, -0.617, -1.045, -0.966, -0.831]
    figure, (ax,) = canvas()
    plot.average_precision_rectangles(binary_curve(torch.tensor(right + wrong), torch.arange(16).lt(6)), ax=ax)
    return figure


def gorman_at_3() -> Figure:
    """Draw the whole curve, and AP@3: three items, with wider rectangles, so that AP@3 can be 1."""
    scores = torch.tensor([0.840, -0.085, -0.264, -0.463, -0.551, -0.579, -0.708, -1.108, -1.170, -1.593])
    target = torch.tensor([1, 1, 0, 1, 1, 0, 0, 0, 0, 0])
    top = BinaryAveragePrecision(top_k=3)
    top.update(scores, target)
    figure, (left, right) = canvas(11, 4.4, 2)
    plot.average_precision_rectangles(binary_curve(scores, target), ax=left)
    plot.average_precision_rectangles(top, ax=right)
    return figure


# -- Su & Zhang


def su_zhang_algorithms() -> Figure:
    curves = [ranked("11010000", "algorithm 1"), ranked("01001100", "algorithm 2")]
    figure, (left, right) = canvas(11, 4.4, 2)
    plot.hit_curve(curves, ax=left)
    plot.precision_recall(curves, ax=right)
    return figure


# -- Geese and airplanes

AIRPLANES = "1101010001"  # best image first


def draw_images(ax: Axes, x: Tensor, y: Tensor) -> None:
    plane = torch.tensor([image == "1" for image in AIRPLANES])
    ax.scatter(x[plane], y[plane], 420, marker=r"$\rightarrow$", color=BLUE, label="airplane")
    ax.scatter(x[~plane], y[~plane], 160, marker="v", color=ORANGE, label="goose")
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), labelspacing=1.4, borderpad=1.0)
    ax.set(xticks=[], yticks=[])


def geese_images() -> Figure:
    """Draw three retrieved airplanes and a goose: precision 3/4, recall 3/5."""
    figure, (ax,) = canvas(6.4, 3.2)
    x = torch.tensor([1.2, 2.2, 1.4, 2.4, 4.0, 5.0, 6.0, 4.2, 5.2, 6.2])
    y = torch.tensor([2.2, 2.4, 1.2, 1.3, 2.5, 2.3, 2.6, 1.0, 1.3, 0.9])
    draw_images(ax, x, y)
    ax.add_patch(Ellipse((1.8, 1.8), 2.4, 2.6, fill=False, edgecolor=GREY, linewidth=2))
    ax.set(xlim=(0.3, 6.9), ylim=(0.3, 3.3), title="retrieved, in the oval: precision 3/4, recall 3/5")
    return figure


def geese_threshold() -> Figure:
    """Draw the images by descending score; the images before the threshold are retrieved."""
    figure, (ax,) = canvas(7.5, 1.8)
    draw_images(ax, torch.arange(1.0, 11.0), torch.zeros(10))
    ax.axvline(4.5, color=BLUE, linewidth=2)
    ax.set(xlim=(0.3, 10.7), ylim=(-1, 1), xticks=range(1, 11), xlabel="rank: the line is the threshold")
    return figure


def geese_curve() -> Figure:
    figure, (left, right) = canvas(11, 4.4, 2)
    plot.precision_recall(ranked(AIRPLANES, "airplanes", "trapezoid"), ax=left)
    plot.average_precision_rectangles(ranked(AIRPLANES), ax=right)
    return figure


def geese_interpolated() -> Figure:
    """Draw a longer ranking as observed, interpolated at all recalls, and at eleven recall levels."""
    figure, axes = canvas(14, 4.2, 3)
    interpolations: tuple[Interpolation, ...] = (None, "all-points", "11-point")
    for ax, interpolation in zip(axes, interpolations, strict=True):
        plot.average_precision_rectangles(ranked("011010011000001100000001000010", interpolation=interpolation), ax=ax)
    return figure


FIGURES = {
    make.__name__: make
    for make in (
        *(zhu_1, zhu_2, zhu_3, wiki_documents, gorman_12_scores, gorman_large, gorman_perfect, gorman_models),
        *(gorman_rectangles, gorman_at_3, su_zhang_algorithms),
        *(geese_images, geese_threshold, geese_curve, geese_interpolated),
    )
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, make in FIGURES.items():
        figure = make()
        figure.savefig(FOLDER / f"{name}.png", dpi=100)
        plt.close(figure)
        said = [text.get_text() for ax in figure.axes if (box := ax.get_legend()) for text in box.get_texts()]
        said = [x for x in said if x[:1].isdigit()] or [x for ax in figure.axes if (x := ax.get_title())]
        print(f"{name:20} {'; '.join(said)}")
    print(f"{len(FIGURES)} figures in {FOLDER}")


if __name__ == "__main__":
    main()
