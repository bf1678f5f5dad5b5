"""MAP and nDCG of many queries, measures of nested dicts, and reading of a long run file, compared with peers.

    python -m benchmarks.many_rankings [--skip NAME ...] [--lines N] [--only map | evaluate]

Each number is the minimum processor time of a few rounds. The contenders run in turns, and several short calls are
timed together. Each ratio is the time of a peer as a multiple of torch_ap for the same layout. The benchmark also
compares the values.
Peers that are not installed are left out: torchmetrics, pytrec_eval, ranx, ir-eval-numba, scikit-learn, ir_measures,
pytorch-metric-learning.
"""

import importlib
import importlib.util
import tempfile
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import torch_ap
from benchmarks.timing import machine, milliseconds, parser, print_head, print_peer_head, print_row, time_in_turns
from torch_ap.functional import retrieval_average_precision, retrieval_normalized_dcg
from torch_ap.retrieval import RetrievalMAP, RetrievalNormalizedDCG
from torch_ap.retrieval.runs.trec import read_run

Judgements = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

SMALL = ((1, 10), (1, 1000), (10, 10), (100, 100), (7000, 100), (1000, 1000), (7000, 1000))
SHAPES = (
    *((1, 10, 0.3), (1, 100, 0.1), (1, 1000, 0.1), (10, 10, 0.3), (10, 100, 0.1), (100, 10, 0.3), (100, 100, 0.1)),
    *((1000, 10, 0.3), (7000, 100, 0.1), (1000, 1000, 0.1), (7000, 1000, 0.002)),
)
DICTS = (
    *((1, 10, 0.3), (1, 100, 0.1), (1, 1000, 0.1), (10, 10, 0.3), (10, 100, 0.1), (100, 10, 0.3), (100, 100, 0.1)),
    *((1000, 10, 0.3), (1000, 100, 0.1), (1000, 1000, 0.01), (7000, 100, 0.1), (7000, 1000, 0.01)),
)
PEERS = (
    *("torchmetrics", "pytrec_eval", "ranx", "ir_eval_numba", "ir_measures", "pytorch_metric_learning", "sklearn"),
)
DISTRIBUTIONS = {"pytrec_eval": "pytrec_eval-terrier", "sklearn": "scikit-learn"}  # if named unlike the module
SHORT = 5000  # items; several calls of fewer items are timed together


def minimum_times(works: Sequence[Callable[[], object]], rounds: int, calls: int = 1) -> list[float]:
    """Return the minimum processor time of each function, in seconds per call."""
    contenders = {str(index): work for index, work in enumerate(works)}
    return [*time_in_turns(contenders, rounds, time.process_time, statistic=min, calls=calls).values()]


def rounds_and_calls(items: int) -> tuple[int, int]:
    """Return the number of rounds for this number of items, and the number of calls that are timed together."""
    return max(2, min(60, 100_000 // items)), max(1, min(20, SHORT // items))


def torchmetrics_map(preds: Tensor, target: Tensor, indexes: Tensor) -> float:
    """Return the value of torchmetrics' metric."""
    from torchmetrics.retrieval import RetrievalMAP as Theirs

    metric = Theirs()
    metric.update(preds, target, indexes)
    return float(metric.compute())


def metric_map(preds: Tensor, target: Tensor, indexes: Tensor | None = None) -> float:
    """Return the value of torch_ap's metric."""
    metric = RetrievalMAP()
    metric.update(preds, target, indexes)
    return float(metric.compute())


def function_map(preds: Tensor, target: Tensor, indexes: Tensor | None = None) -> float:
    """Return the value of torch_ap's function."""
    if len(preds) == 1:
        return float(retrieval_average_precision(preds[0], target[0]))
    return float(retrieval_average_precision(preds, target, indexes=indexes, dtype=torch.float64).mean())


def pytrec_eval_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """Return the call of pytrec_eval. The dicts are prepared before."""
    import pytrec_eval

    docs = [f"d{index}" for index in range(preds.shape[1])]
    run = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(preds.tolist())}
    qrels = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(target.int().tolist())}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"map"})
    return lambda: float(np.mean([x["map"] for x in evaluator.evaluate(run).values()]))


def ranx_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """Return the call of ranx on arrays, compiled before. The time includes the sort of the run."""
    from ranx.metrics import average_precision

    scores, relevant = preds.double().numpy(), target.numpy()
    judged = np.zeros((len(scores), max(1, relevant.sum(1).max()), 2))
    for row, flags in zip(judged, relevant, strict=True):
        documents = np.flatnonzero(flags)
        row[: len(documents), 0], row[: len(documents), 1] = documents, 1
        row[len(documents) :, 0] = -1

    def work() -> float:
        order = np.argsort(-scores, axis=1)
        return float(average_precision(judged, np.stack([order, np.take_along_axis(scores, order, 1)], 2)).mean())

    work()
    return work


def ir_eval_numba_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """Return the call of ir-eval-numba on arrays, compiled before. The time includes the sort and the list."""
    from numba.typed import List

    metrics = importlib.import_module("ir_eval_numba.metrics")
    scores, depth = preds.numpy(), preds.shape[1]
    relevant = List([np.flatnonzero(row) for row in target.numpy()])

    def work() -> float:
        order = np.argsort(-scores, axis=1)
        if len(order) == 1:
            return float(metrics.average_precision(relevant[0], order[0], depth))
        return float(metrics.mean_average_precision(relevant, List(list(order)), depth))

    work()
    return work


def ir_measures_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """Return the call of ir_measures. The dicts and judgements are prepared before."""
    import ir_measures

    docs = [f"d{index}" for index in range(preds.shape[1])]
    run = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(preds.tolist())}
    qrels = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(target.int().tolist())}
    evaluator = ir_measures.evaluator([ir_measures.AP], qrels)
    return lambda: float(evaluator.calc_aggregate(run)[ir_measures.AP])


def pytorch_metric_learning_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """Return the call of pytorch-metric-learning on labels by rank. The time includes the sort of the scores.

    The label of a query and of its relevant items is the number of these items, so that there are few labels.
    """
    from pytorch_metric_learning.utils.accuracy_calculator import mean_average_precision

    found = target.sum(1, keepdim=True)
    labels, distinct = (target * found)[..., None], torch.from_numpy(np.unique(found))

    def same(queries: Tensor, ranked: Tensor) -> Tensor:
        return (queries[:, None] == ranked).all(-1)

    def work() -> float:
        ranked = labels.gather(1, preds.argsort(1, descending=True)[..., None])
        return float(mean_average_precision(ranked, found, False, (distinct[:, None], distinct), False, False, same))

    return work


def sklearn_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """Return a loop over scikit-learn's function."""
    from sklearn.metrics import average_precision_score

    rows = list(zip(target.numpy(), preds.numpy(), strict=True))
    return lambda: float(np.mean([average_precision_score(y, s) if y.any() else 0.0 for y, s in rows]))


def compare(queries: int, docs: int, share: float, peers: list[str]) -> None:
    """Print the time of MAP for each layout and peer."""
    generator = torch.Generator().manual_seed(0)
    size = queries * docs
    preds = (torch.randperm(size, generator=generator).float() + 1).div_(size).reshape(queries, docs)
    target = torch.rand(queries, docs, generator=generator) < share
    target[:, 0] = True
    order = torch.randperm(size, generator=generator)
    flat = (preds.flatten(), target.flatten(), torch.arange(queries).repeat_interleave(docs))
    shuffled = tuple(x[order] for x in flat)
    layouts = {"(Q, D)": (preds, target), "contiguous": flat, "shuffled": shuffled}
    value, (rounds, calls) = function_map(preds, target), rounds_and_calls(size)
    assert all(abs(function_map(*layout) - value) < 1e-7 for layout in layouts.values())
    multiples: dict[tuple[str, str], str] = {}
    for name, work, layout_name in peer_runs(peers, preds, target, flat, shuffled):
        ours, theirs = minimum_times([partial(function_map, *layouts[layout_name]), work], rounds, calls)
        assert abs(work() - value) < 1e-5, (name, work(), value)
        multiples[name, layout_name] = f"{theirs / ours:.2g}"
    for first, layout_name in ((f"{queries:,} x {docs:,}, {share:.1%}", "(Q, D)"), ("shuffled", "shuffled")):
        works = [partial(function_map, *layouts[layout_name]), partial(metric_map, *layouts[layout_name])]
        ours, metric = minimum_times(works, rounds, calls)
        names = [(x, "contiguous" if x == "torchmetrics" and layout_name == "(Q, D)" else layout_name) for x in peers]
        cells = (multiples.get(name, "") for name in names)
        print_row(first, milliseconds(ours), f"{metric / ours:.2g}", *cells)


def peer_runs(
    peers: list[str], preds: Tensor, target: Tensor, flat: tuple[Tensor, ...], shuffled: tuple[Tensor, ...]
) -> list[tuple[str, Callable[[], float], str]]:
    """Return (name, function, layout of torch_ap to compare with) of each peer."""
    runs: list[tuple[str, Callable[[], float], str]] = []
    if "torchmetrics" in peers:
        runs.append(("torchmetrics", lambda: torchmetrics_map(*flat), "contiguous"))
        runs.append(("torchmetrics", lambda: torchmetrics_map(*shuffled), "shuffled"))
    makers = {
        "pytrec_eval": pytrec_eval_map,
        "ranx": ranx_map,
        "ir_eval_numba": ir_eval_numba_map,
        "ir_measures": ir_measures_map,
        "pytorch_metric_learning": pytorch_metric_learning_map,
        "sklearn": sklearn_map,
    }
    runs += [(name, make(preds, target), "(Q, D)") for name, make in makers.items() if name in peers]
    return runs


def compare_ndcg(shapes: Sequence[tuple[int, int]], peers: list[str]) -> None:
    """Print the time of nDCG of grades from 0 to 3: metrics, and functions of one query."""
    from sklearn.metrics import ndcg_score
    from torchmetrics.functional.retrieval import retrieval_normalized_dcg as their_function
    from torchmetrics.retrieval import RetrievalNormalizedDCG as Theirs

    print("\nnDCG, grades 0 to 3, tied scores: milliseconds")
    for queries, docs in shapes:
        generator = torch.Generator().manual_seed(0)
        preds = torch.randint(10 * docs, (queries, docs), generator=generator) / (10 * docs)
        target = torch.randint(4, (queries, docs), generator=generator)
        indexes = torch.arange(queries).repeat_interleave(docs)

        def run(metric: Any, flat: tuple[Tensor, ...] = (preds.flatten(), target.flatten(), indexes)) -> float:
            metric.reset()
            metric.update(*flat)
            return float(metric.compute())

        rounds = 200 if queries * docs < 2000 else 5
        (ours,) = minimum_times([partial(run, RetrievalNormalizedDCG())], rounds)
        print(f"  {queries:>5,} x {docs:>5,}  torch_ap {ours * 1e3:9.3f}", end="")
        if "torchmetrics" in peers:
            (theirs,) = minimum_times([partial(run, Theirs())], max(1, rounds // 3))
            assert abs(run(Theirs()) - run(RetrievalNormalizedDCG())) < 1e-5
            print(f"   torchmetrics {theirs * 1e3:9.3f}, {theirs / ours:6.1f} times", end="")
            if queries == 1:
                works = [partial(x, preds[0], target[0]) for x in (retrieval_normalized_dcg, their_function)]
                ours, theirs = minimum_times(works, 200)
                print(f"   function {theirs / ours:6.1f} times", end="")
        if "sklearn" in peers and queries * docs < 10**6:
            (theirs,) = minimum_times([partial(ndcg_score, target.numpy(), preds.numpy())], 1)
            print(f"   scikit-learn {theirs * 1e3:9.3f}", end="")
        print()


def compare_dicts(queries: int, docs: int, share: float, peers: list[str]) -> None:
    """Print the time of AP, nDCG@10, P@10, R@100 and RR of nested dicts, including their conversion."""
    generator = np.random.default_rng(0)
    names = [f"d{index}" for index in range(3 * docs)]
    qrels, run = {}, {}
    for query in range(queries):
        listed = [names[index] for index in generator.choice(3 * docs, docs, replace=False)]
        run[f"q{query}"] = dict(zip(listed, generator.random(docs).tolist(), strict=True))
        judged = listed[: max(2, int(share * docs))]
        qrels[f"q{query}"] = dict(zip(judged, generator.integers(0, 3, len(judged)).tolist(), strict=True))
    measures = ("AP", "nDCG@10", "P@10", "R@100", "RR")
    runs = dict_runs(qrels, run, measures, peers)
    mean = torch_ap.evaluate(qrels, run, "AP").to_dict()["AP"]
    assert all(abs(work() - mean) < 1e-5 for _, work in runs)
    works = [
        lambda: torch_ap.evaluate(qrels, run, measures).to_dict(),
        *(work for _, work in runs),
        lambda: [bare_places(judged, run[query]) for query, judged in qrels.items()],
    ]
    ours, *theirs = minimum_times(works, *rounds_and_calls(queries * docs))
    print_row(f"{queries:,} x {docs:,}", milliseconds(ours), *(f"{seconds / ours:.2f}" for seconds in theirs))


def bare_places(judged: dict[str, int], listed: dict[str, float]) -> list[int]:
    """Return the place of each judged document, without validation or measures, as any function in Python must."""
    ascending = sorted(listed.values())
    return [bisect_right(ascending, listed[name]) for name in judged if name in listed]


def dict_runs(
    qrels: Judgements, run: Run, measures: tuple[str, ...], peers: list[str]
) -> list[tuple[str, Callable[[], float]]]:
    """Return (name, function) of each peer. The function computes all measures and returns the mean AP."""
    runs: list[tuple[str, Callable[[], float]]] = []
    if "pytrec_eval" in peers:
        import pytrec_eval

        def evaluate() -> float:
            names = {"map", "ndcg_cut.10", "P.10", "recall.100", "recip_rank"}
            values = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run).values()
            means = {name: float(np.mean([x[name] for x in values])) for name in next(iter(values))}
            return means["map"]

        runs.append(("pytrec_eval", evaluate))
    if "ir_measures" in peers:
        import ir_measures

        parsed = [ir_measures.parse_measure(x) for x in measures]
        runs.append(("ir_measures", lambda: float(ir_measures.calc_aggregate(parsed, qrels, run)[parsed[0]])))
    if "ranx" in peers:
        import ranx

        names = ["map", "ndcg@10", "precision@10", "recall@100", "mrr"]
        runs.append(("ranx", lambda: float(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names)["map"])))
    return runs


def compare_readers(lines: int, peers: list[str]) -> None:
    """Print the time to read a run file of 1,000 documents per query."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.txt"
        generator = np.random.default_rng(0)
        with path.open("w") as file:
            for query in range(lines // 1000):
                scores = np.sort(generator.random(1000) * 20)[::-1].tolist()
                docs = generator.choice(8_841_823, 1000, replace=False).tolist()
                pairs = enumerate(zip(docs, scores, strict=True), 1)
                file.write("".join(f"{query + 1} Q0 {doc} {rank} {score:.6f} run\n" for rank, (doc, score) in pairs))
        (ours,) = minimum_times([lambda: read_run(path)], 3)
        print(
            f"\nreading a run of {lines:,} lines, {path.stat().st_size / 1e6:.0f} MB: seconds\n  torch_ap{ours:22.2f}"
        )
        for name, work in reader_runs(path, peers):
            (theirs,) = minimum_times([work], 1)
            print(f"  {name:<24}{theirs:6.2f}, {theirs / ours:7.1f} times")


def reader_runs(path: Path, peers: list[str]) -> list[tuple[str, Callable[[], object]]]:
    """Return (name, function) of each reader."""
    runs: list[tuple[str, Callable[[], object]]] = []
    if "pytrec_eval" in peers:
        import pytrec_eval

        def parse() -> object:
            with path.open() as file:
                return pytrec_eval.parse_run(file)

        runs.append(("pytrec_eval", parse))
    if "ranx" in peers:
        from ranx import Run

        runs.append(("ranx", lambda: Run.from_file(str(path), kind="trec")))
    return runs


def main() -> None:
    """Print all results."""
    options = parser(__doc__)
    options.add_argument("--skip", nargs="*", default=[], choices=PEERS, help="peers to leave out")
    options.add_argument("--lines", type=int, default=7_000_000, help="lines of the run file; 0 for none")
    options.add_argument("--only", choices=["map", "evaluate"], help="measure only this")
    args = options.parse_args()
    shapes, dicts = (SHAPES[:4], DICTS[:4]) if args.quick else (SHAPES, DICTS)
    warnings.simplefilter("ignore")
    peers = [name for name in PEERS if name not in args.skip and importlib.util.find_spec(name)]
    print(machine("torch", "numpy", *(DISTRIBUTIONS.get(name, name) for name in peers)))
    if args.only != "evaluate":
        columns = ("queries x documents, relevant", "torch_ap, ms", "`RetrievalMAP`", *peers)
        print_head("MAP of many queries", *columns)
        for shape in shapes:
            compare(*shape, peers)
    if args.only is None:
        compare_ndcg(SMALL[:3] if args.quick else SMALL, peers)
    if args.only == "map":
        return
    names = [name for name in ("pytrec_eval", "ir_measures", "ranx") if name in peers]
    print_peer_head("Nested dicts, 5 measures", "queries x documents", [*names, "sorts and lookups in Python"])
    for shape in dicts:
        compare_dicts(*shape, peers)
    if args.lines and args.only is None:
        compare_readers(10_000 if args.quick else args.lines, peers)


if __name__ == "__main__":
    main()
