"""Definitions of the rows of the table of metrics: weights, queries and images.

The rows of ``cases.CASES`` contain their own definitions.
"""

import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

import torch_ap
from tests.support import cases, oracles
from tests.support import oracles_retrieval as queries
from tests.support.every_metric import Arguments
from tests.support.oracles_detection import pycocotools_eval, voc_ap
from tests.support.oracles_lvis import NAMES as LVIS_NAMES
from tests.support.oracles_lvis import as_files, frequencies_of, lvis_eval
from torch_ap import functional

Definition = Callable[[Arguments], Any]

FUNCTION_OF = {
    torch_ap.AveragePrecision: functional.average_precision,
    torch_ap.BinaryAveragePrecision: functional.binary_average_precision,
    torch_ap.MulticlassAveragePrecision: functional.multiclass_average_precision,
    torch_ap.MultilabelAveragePrecision: functional.multilabel_average_precision,
    torch_ap.LVISMeanAveragePrecision: functional.lvis_mean_average_precision,
    torch_ap.MeanAveragePrecision: functional.coco_mean_average_precision,
    torch_ap.VOCMeanAveragePrecision: functional.voc_mean_average_precision,
    torch_ap.OpenImagesMeanAveragePrecision: functional.open_images_mean_average_precision,
    torch_ap.NuScenesMeanAveragePrecision: functional.nuscenes_mean_average_precision,
}


# -- items and classes


def ignore_weights(case: str | None = None, **how: Any) -> Definition:
    value = cases.CASES[case].oracle if case else cases.by_definition(**how)
    return lambda drawn: value(drawn["preds"], drawn["target"])


def at_prevalence(prevalence: float) -> Definition:
    """Return the AP with weights of the misses that give the hits this share of the weight."""

    def value(drawn: Arguments) -> list[float]:
        target = drawn["target"]
        m, q = int(target.sum()), int((1 - target).sum())
        if not m or not q:
            return [0.0 if q else float("nan")]
        miss = m / q * (1 - prevalence) / prevalence
        return weighted()({**drawn, "weights": torch.where(target == 1, 1.0, torch.tensor(miss, dtype=torch.float64))})

    return value


def unscored_positives(num_relevant: int) -> Definition:
    """Return the AP of positives of which some have no score, and hence the precision 0."""

    def value(drawn: Arguments) -> list[float]:
        found = oracles.average_precision(drawn["preds"].double().tolist(), drawn["target"].tolist()) or 0
        return [float(found * int(drawn["target"].sum()) / num_relevant)]

    return value


def weighted(
    average: str = "none", undefined: float | None = 0.0, thresholds: torch.Tensor | None = None
) -> Definition:
    """Return the AP of weighted items by class, averaged as in torchmetrics."""

    def value(drawn: Arguments) -> list[float]:
        preds, target, weights = drawn["preds"], drawn["target"], drawn["weights"]
        preds = preds[:, None] if preds.ndim == 1 else preds
        if target.ndim == 1:
            target = (target[:, None] == torch.arange(preds.shape[1])).long() if preds.shape[1] > 1 else target[:, None]
        weights = weights[:, None].expand(preds.shape) if weights.ndim == 1 else weights
        if average == "micro":
            preds, target, weights = (x.reshape(-1, 1) for x in (preds, target, weights))
        if thresholds is not None:
            preds = count_thresholds(preds, thresholds)
        columns = zip(*(x.t().tolist() for x in (preds, target, weights)), strict=True)
        values = [oracles.weighted_average_precision(*column) for column in columns]
        values = [undefined if x is None else float(x) for x in values]
        return [statistics.fmean(x for x in values if x is not None)] if average == "macro" else values

    return value


def count_thresholds(scores: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
    """Count the thresholds that each score reaches."""
    return (scores[..., None].double() >= thresholds.double()).sum(-1)


def own_thresholds(drawn: Arguments) -> float:
    """Sum precision times the gain in recall over the thresholds; scores below all of them are never retrieved."""
    reached, target = count_thresholds(drawn["preds"], torch.tensor(cases.OWN)), drawn["target"]
    total, before = 0.0, 0
    for least in range(len(cases.OWN), 0, -1):
        hits, items = int(target[reached >= least].sum()), int((reached >= least).sum())
        total += (hits - before) * hits / items if items else 0.0
        before = hits
    return total / int(target.sum()) if target.any() else 0.0


def best_threshold(
    *,
    recall: Fraction | None = None,
    precision: Fraction | None = None,
    undefined: float = 0.0,
    thresholds: torch.Tensor | None = None,
) -> Definition:
    """Return the best ratio with a minimum of the other, and the highest threshold with it, of each column."""

    def best(scores: list[float], target: list[int], weights: list[Fraction]) -> tuple[float, float]:
        total, found = sum(w for w, hit in zip(weights, target, strict=True) if hit), []
        for threshold in set(scores) if thresholds is None else thresholds.tolist():
            chosen = [(w, hit) for s, w, hit in zip(scores, weights, target, strict=True) if s >= threshold]
            hits, items = sum(w for w, hit in chosen if hit), sum(w for w, _ in chosen)
            if hits and recall is not None and hits >= recall * total:
                found.append((hits / items, hits / total, threshold))
            if hits and precision is not None and hits >= precision * items:
                found.append((hits / total, hits / items, threshold))
        value, _, threshold = max(found, default=(0 if total else undefined, 0, float("nan")))
        return float(value), threshold

    def value(drawn: Arguments) -> tuple[list[float], list[float]]:
        preds, target = drawn["preds"], drawn["target"]
        preds = preds[:, None] if preds.ndim == 1 else preds
        if target.ndim == 1:
            target = (target[:, None] == torch.arange(preds.shape[1])).long() if preds.shape[1] > 1 else target[:, None]
        weights = drawn.get("weights", torch.ones(preds.shape))
        weights = weights[:, None].expand(preds.shape) if weights.ndim == 1 else weights
        columns = [
            best(s.tolist(), t.tolist(), [Fraction(x) for x in w.tolist()])
            for s, t, w in zip(preds.double().t(), target.t(), weights.t(), strict=True)
        ]
        return [x for x, _ in columns], [x for _, x in columns]

    return value


# -- queries


def lists_of(drawn: Arguments, level: int = 1) -> list[tuple[list[float], list[int], int]]:
    """Return the scores, relevance and m of each query, by its index or row."""
    preds, target = drawn["preds"], drawn["target"]
    index = drawn.get("indexes", torch.arange(len(preds))[:, None].expand(preds.shape) if preds.ndim == 2 else None)
    kept = drawn.get("mask", torch.ones_like(preds, dtype=torch.bool)) & (target >= 0)
    judged = drawn.get("num_relevant")
    found = []
    for query in index[kept].unique().tolist():
        mine = kept & (index == query)
        relevant = (target[mine] >= level).long().tolist()
        m = sum(relevant)
        if isinstance(judged, dict):
            m = judged[query]
        elif judged is not None:
            m = int(judged[query]) if preds.ndim == 2 else int(judged[mine][0])
        found.append((preds[mine].tolist(), relevant, m))
    return found


def over_queries(
    measure: Callable[..., Any] | None = None,
    ties: str = "expected",
    level: int = 1,
    of_scores: Callable[..., Any] | None = None,
    empty: float | None = 0.0,
    average: Callable[[list[float]], float] = statistics.fmean,
    is_empty: Callable[[list[int], int], bool] = lambda _, m: m == 0,
) -> Definition:
    """Average a measure over queries; its arguments are the order and m, or the scores, relevance and m."""

    def query_value(scores: list[float], relevant: list[int], m: int) -> float | None:
        if is_empty(relevant, m):
            return empty
        if of_scores is not None:
            return float(of_scores(scores, relevant))
        return float(queries.over_orders(lambda order: measure(order, m), scores, relevant, ties))

    def value(drawn: Arguments) -> float:
        values = [query_value(*query) for query in lists_of(drawn, level)]
        return average([x for x in values if x is not None])

    return value


def ndcg(k: int | None = None, gains: str = "linear", ties: str = "expected", m: int | None = None) -> Definition:
    """Return the mean nDCG over queries, over all orders of tied items or over the orders that the rule selects."""

    def value(drawn: Arguments) -> float:
        preds, target = drawn["preds"], drawn["target"]
        index = drawn.get("indexes", torch.arange(len(preds))[:, None].expand(preds.shape) if preds.ndim == 2 else None)
        ranked, values = drawn.get("retrieved", torch.ones_like(preds, dtype=torch.bool)), []
        for query in index[target >= 0].unique().tolist():
            mine = (index == query) & (target >= 0)
            judged, seen = target[mine].tolist(), mine & ranked
            if m is not None:
                judged += [1] * (m + query // 10**9 - sum(y > 0 for y in judged))
            case = (preds[seen].tolist(), target[seen].tolist())
            values.append(queries.normalized_dcg(*case, judged, k=k, gains=gains, ties=ties))
        return statistics.fmean(values)

    return value


def levels(*given: float) -> Callable[..., Any]:
    return lambda scores, relevant: oracles.interpolated_average_precision(scores, relevant, given)


def geometric(values: list[float]) -> float:
    return statistics.geometric_mean([max(x, 1e-5) for x in values])  # the floor of trec_eval


def measure_at_k(k: int, measure: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """Return a measure of the top k that ignores m."""
    return lambda order, _: measure(order, k, **more)


# -- images

STATS = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large"]
STATS += ["mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"]


def _as_list(side: Any) -> list[dict[str, torch.Tensor]]:
    if isinstance(side, list):
        return side
    sizes = side["counts"].tolist()
    split = {key: x.split(sizes) for key, x in side.items() if key != "counts"}
    return [{key: parts[i] for key, parts in split.items()} for i in range(len(sizes))]


def coco(drawn: Arguments, one_class: bool = False) -> dict[str, float]:
    """Return the twelve numbers that pycocotools prints."""
    preds, target = _as_list(drawn["preds"]), _as_list(drawn["target"])
    if one_class:
        preds, target = (
            [{**image, "labels": torch.zeros_like(image["labels"])} for image in side] for side in (preds, target)
        )
    evaluation = pycocotools_eval(preds, target)
    evaluation.summarize()
    return dict(zip(STATS, evaluation.stats.tolist(), strict=True))


def coco_own_levels(drawn: Arguments) -> dict[str, float]:
    found = pycocotools_eval(
        drawn["preds"], drawn["target"], thresholds=[0.3, 0.5], levels=[0.1, 0.5, 0.9], limits=[2, 20]
    )

    def mean(numbers: Any) -> float:
        return float(numbers[numbers > -1].mean()) if (numbers > -1).any() else -1.0

    precision, recall = found.eval["precision"], found.eval["recall"]
    return {
        "map": mean(precision[..., 0, -1]),
        "map_50": mean(precision[1, ..., 0, -1]),
        "mar_20": mean(recall[..., 0, -1]),
    }


def lvis(drawn: Arguments, most: int = 300) -> dict[str, float]:
    """Return the thirteen numbers that the lvis package prints."""
    sides = [_as_list(drawn[side]) for side in ("preds", "target")]
    found = lvis_eval(*as_files(*sides, frequencies_of(3)), most=most).results
    return {name: float(found.get(theirs, found.get(f"{theirs}@{most}"))) for name, theirs in LVIS_NAMES.items()}


def voc(thresholds: tuple[float, ...] = (0.5,), eleven: bool = False, strict: bool = False) -> Definition:
    """Return the mean of the devkit's AP over thresholds and classes, one detection after another."""

    def value(drawn: Arguments) -> dict[str, float]:
        preds, target = _as_list(drawn["preds"]), _as_list(drawn["target"])
        labels = sorted({int(x) for side in (preds, target) for image in side for x in image["labels"]})
        each = [
            voc_ap(preds, target, label, threshold, pixel=1.0, strict=strict, eleven=eleven)
            for threshold in thresholds
            for label in labels
        ]
        known = [x for x in each if x == x]
        return {"map": statistics.fmean(known) if known else float("nan")}

    return value


DEFINITIONS: dict[str, Definition] = {
    "binary_prevalence": at_prevalence(0.05),
    "binary_groups": ignore_weights("binary"),
    "binary_num_relevant": unscored_positives(10_000),
    "binary_weighted": weighted(),
    "binary_sigmoid": ignore_weights("binary"),
    "binary_weighted_adaptive": weighted(),
    "multilabel_scores_weighted_thresholds": weighted("macro", thresholds=cases.FIVE),
    "binary_weighted_thresholds": weighted(thresholds=cases.FIVE),
    "binary_own_thresholds": own_thresholds,
    "binary_unchecked": ignore_weights("binary"),
    "task_binary": ignore_weights("binary"),
    "binary_precision_at_recall": best_threshold(recall=Fraction(1, 2)),
    "binary_recall_at_precision": best_threshold(precision=Fraction(2, 5), thresholds=cases.FIVE),
    "multiclass_precision_at_recall": best_threshold(recall=Fraction(3, 5), undefined=float("nan")),
    "multiclass_recall_at_precision": best_threshold(precision=Fraction(3, 10), undefined=float("nan")),
    "multilabel_precision_at_recall": best_threshold(recall=Fraction(3, 10)),
    "multilabel_recall_at_precision": best_threshold(precision=Fraction(1, 2)),
    "multiclass_softmax": lambda drawn: cases.CASES["multiclass"].oracle(
        drawn["preds"].softmax(1), drawn["target"]
    ),
    "multiclass_items_weighted": weighted("macro", None),
    "multiclass_pessimistic": ignore_weights(
        measure=cases.ties("pessimistic"), average="macro", undefined=None
    ),
    "multilabel_expected_at_3": ignore_weights(measure=cases.expected(3), average="macro"),
    "multilabel_items_weighted": weighted("macro"),
    "multilabel_scores_weighted": weighted("macro"),
    "multilabel_micro_scores_weighted": weighted("micro"),
    **dict.fromkeys(
        ("query_map", "query_map_rows", "query_map_mask", "query_map_judged_rows", "query_map_judged_items",
         "query_map_judged_queries", "query_map_ignored", "query_map_groups", "query_map_groups_of_queries",
         "query_map_groups_of_rows"),
        over_queries(queries.average_precision),
    ),
    "query_map_graded": over_queries(queries.average_precision, level=2),
    "query_map_grouped_at_3": over_queries(
        of_scores=lambda s, r: oracles.average_precision(s, r, "grouped", 3, "found"), average=geometric
    ),
    "query_map_101_point": over_queries(of_scores=oracles.coco_average_precision),
    "query_map_own_levels": over_queries(of_scores=levels(0.0, 0.3, 0.75)),
    "query_map_at_r": over_queries(lambda order, m: queries.average_precision(order, m, m)),
    "query_precision_at_several": lambda drawn: [
        over_queries(lambda order, m, k=k: queries.precision(order, k or m))(drawn) for k in (1, 4, None)
    ],
    "query_precision": over_queries(measure_at_k(3, queries.precision, adaptive=True)),
    "query_recall": over_queries(lambda order, m: queries.recall(order, m, 2), average=statistics.median_low),
    "query_f_beta": over_queries(lambda order, m: queries.f_beta(order, m, oracles.Fraction(2), 3)),
    "query_fall_out": over_queries(
        measure_at_k(2, queries.fall_out), "pessimistic", empty=1.0, is_empty=lambda relevant, _: all(relevant)
    ),
    "query_hit_rate": over_queries(measure_at_k(2, queries.hit_rate), "optimistic"),
    "query_mrr": over_queries(measure_at_k(10**6, queries.reciprocal_rank), empty=None),
    "query_r_precision": over_queries(queries.r_precision),
    "query_auroc": over_queries(
        lambda order, _: queries.auroc(order), is_empty=lambda relevant, m: not m or all(relevant)
    ),
    "query_rbp": over_queries(measure_at_k(5, queries.rank_biased_precision, p=Fraction(3, 5))),
    "query_ranks": lambda drawn: (
        [over_queries(measure_at_k(k, queries.precision, adaptive=True))(drawn) for k in range(1, 5)],
        [over_queries(lambda order, m, k=k: queries.recall(order, m, k))(drawn) for k in range(1, 5)],
        [1, 2, 3, 4],
    ),
    "query_ndcg": ndcg(),
    "query_ndcg_rows": ndcg(3, "exponential"),
    "query_ndcg_retrieved": ndcg(ties="optimistic"),
    "query_ndcg_retrieved_rows": ndcg(ties="grouped"),
    "query_ndcg_judged": ndcg(4, ties="pessimistic", m=1000),
    "query_ndcg_ignored": ndcg(),
    "coco": coco,
    "lvis": lvis,
    "lvis_matched": lvis,
    "coco_packed": coco,
    "coco_matched": coco,
    "coco_groups": coco,
    "coco_extended": coco,
    "coco_micro": lambda drawn: coco(drawn, one_class=True),
    "coco_own_levels": coco_own_levels,
    "voc": voc(),
    "voc_packed": voc(),
    "voc_matched": voc(),
    "voc_11_point": voc((0.5, 0.75), eleven=True, strict=True),
}  # fmt: skip

WITHOUT_DEFINITION = {
    "embeddings": "compared with its function, and that with the whole matrix, in `test_embeddings`",
    "embeddings_gallery": "as embeddings",
    "embeddings_tags": "as embeddings",
    "query_ranks_judged": "as without judgements; the function is compared rank by rank",
    "query_recall_at_precision": "it is read off the curve, and compared with torchmetrics",
    "binary_weighted_learnt": "which bins are learnt is no definition; bounds and counts are compared elsewhere",
    "query_auroc_at_4": "the mean over the orders for which it is defined is tested with the function",
    "binary_weighted_101_point": "interpolated precision of weights is compared with scikit-learn's curve elsewhere",
    "query_map_11_point": "trec_eval's levels are compared with its program's own numbers",
    **dict.fromkeys(("lvis_packed", "lvis_fixed", "lvis_of_8", "lvis_masks"), "see `test_lvis`"),
    "coco_masks": "masks are compared with pycocotools where they are coded",
    "coco_boundary": "boundaries are compared with the rule in test_boundaries",
    "coco_codes": "as masks",
    "coco_given_ious": "nobody else takes them",
    **dict.fromkeys(("coco_rotated", "coco_quadrilaterals", "coco_intervals", "coco_function"), "see `test_shapes`"),
    **dict.fromkeys(("coco_ultralytics", "ultralytics", "ultralytics_matched"), "see `test_ultralytics`"),
    **dict.fromkeys(("voc_rotated", "voc_intervals", "voc_function", "voc_masks"), "see `test_shapes`"),
    "coco_keypoints": "keypoints are compared with pycocotools in `test_keypoints`",
    "voc_keypoints": "keypoints are compared with pycocotools in `test_keypoints`",
    "coco_own_iou": "nobody else takes one",
    "voc_101_point": "nobody else has it",
    **dict.fromkeys(("open_images", "open_images_ignored", "voc_40_point"), "see `test_detection_rules`"),
    **dict.fromkeys(("nuscenes", "nuscenes_packed"), "see `test_detection_rules`"),
}
