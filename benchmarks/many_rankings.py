"""MAP and nDCG of many queries, measures of a run as nested dicts, and reading a long run file, beside the peers in one
run.

    python -m benchmarks.many_rankings [--skip NAME ...] [--lines N] [--only map | evaluate]

Each figure is the least of a few times, of the processor; the contenders take turns, and short calls are timed several
together. Each ratio is a peer's time over ours for the same layout; values are compared. Peers that are not installed
are left out: torchmetrics, pytrec_eval, ranx, ir-eval-numba, scikit-learn, ir_measures, pytorch-metric-learning.
"""

import argparse
import importlib
import importlib.util
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import torch_ap
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
SHORT = 5000  # items up to which calls are timed together


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The least of several times."""
    return by_turns([work], repeats)[0]


def by_turns(works: Sequence[Callable[[], object]], repeats: int, together: int = 1) -> list[float]:
    """The least of several times of a call of each, after one that does not count; so many calls are timed together."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(repeats + 1):
        for work, found in zip(works, times, strict=True):
            start = time.process_time()
            for _ in range(together):
                work()
            if turn:
                found.append((time.process_time() - start) / together)
    return [min(found) for found in times]


def repeats_of(items: int) -> tuple[int, int]:
    """How often to run what takes so many items, and how many calls together."""
    return max(2, min(60, 100_000 // items)), max(1, min(20, SHORT // items))


def torchmetrics_map(preds: Tensor, target: Tensor, indexes: Tensor) -> float:
    from torchmetrics.retrieval import RetrievalMAP as Theirs

    metric = Theirs()
    metric.update(preds, target, indexes)
    return float(metric.compute())


def metric_map(preds: Tensor, target: Tensor, indexes: Tensor | None = None) -> float:
    metric = RetrievalMAP()
    metric.update(preds, target, indexes)
    return float(metric.compute())


def function_map(preds: Tensor, target: Tensor, indexes: Tensor | None = None) -> float:
    if len(preds) == 1:
        return float(retrieval_average_precision(preds[0], target[0]))
    return float(retrieval_average_precision(preds, target, indexes=indexes, dtype=torch.float64).mean())


def pytrec_eval_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """pytrec_eval, with its dicts made beforehand."""
    import pytrec_eval

    docs = [f"d{place}" for place in range(preds.shape[1])]
    run = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(preds.tolist())}
    qrels = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(target.int().tolist())}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"map"})
    return lambda: float(np.mean([x["map"] for x in evaluator.evaluate(run).values()]))


def ranx_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """ranx from arrays, compiled beforehand; sorting the run is part of the work."""
    from ranx.metrics import average_precision

    scores, relevant = preds.double().numpy(), target.numpy()
    judged = np.zeros((len(scores), max(1, relevant.sum(1).max()), 2))
    for row, one in zip(judged, relevant, strict=True):
        places = np.flatnonzero(one)
        row[: len(places), 0], row[: len(places), 1] = places, 1
        row[len(places) :, 0] = -1

    def work() -> float:
        order = np.argsort(-scores, axis=1)
        return float(average_precision(judged, np.stack([order, np.take_along_axis(scores, order, 1)], 2)).mean())

    work()
    return work


def ir_eval_numba_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """ir-eval-numba from arrays, compiled beforehand; sorting the run and making its list are part of the work."""
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
    """ir_measures, with its dicts made and its judgements read beforehand."""
    import ir_measures

    docs = [f"d{place}" for place in range(preds.shape[1])]
    run = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(preds.tolist())}
    qrels = {str(q): dict(zip(docs, row, strict=True)) for q, row in enumerate(target.int().tolist())}
    evaluator = ir_measures.evaluator([ir_measures.AP], qrels)
    return lambda: float(evaluator.calc_aggregate(run)[ir_measures.AP])


def pytorch_metric_learning_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    """pytorch-metric-learning's function of labels by rank, which are made of scores as part of the work.

    The label of a query, and of what is relevant to it, is how many that are: so the labels are few.
    """
    from pytorch_metric_learning.utils.accuracy_calculator import mean_average_precision

    found = target.sum(1, keepdim=True)
    labels, known = (target * found)[..., None], torch.from_numpy(np.unique(found))

    def same(queries: Tensor, ranked: Tensor) -> Tensor:
        return (queries[:, None] == ranked).all(-1)

    def work() -> float:
        ranked = labels.gather(1, preds.argsort(1, descending=True)[..., None])
        return float(mean_average_precision(ranked, found, False, (known[:, None], known), False, False, same))

    return work


def sklearn_map(preds: Tensor, target: Tensor) -> Callable[[], float]:
    from sklearn.metrics import average_precision_score

    rows = list(zip(target.numpy(), preds.numpy(), strict=True))
    return lambda: float(np.mean([average_precision_score(y, s) if y.any() else 0.0 for y, s in rows]))


def compare(queries: int, docs: int, share: float, peers: list[str]) -> None:
    generator = torch.Generator().manual_seed(0)
    size = queries * docs
    preds = (torch.randperm(size, generator=generator).float() + 1).div_(size).reshape(queries, docs)
    target = torch.rand(queries, docs, generator=generator) < share
    target[:, 0] = True
    places = torch.randperm(size, generator=generator)
    flat = (preds.flatten(), target.flatten(), torch.arange(queries).repeat_interleave(docs))
    shuffled = tuple(x[places] for x in flat)
    layouts = {"(Q, D)": (preds, target), "contiguous": flat, "shuffled": shuffled}
    value, (repeats, together) = function_map(preds, target), repeats_of(size)
    print(f"\n{queries:,} queries x {docs:,} documents, {share:.1%} relevant: milliseconds")
    for name, given in layouts.items():
        alone, through_metric = by_turns(
            [partial(function_map, *given), partial(metric_map, *given)], repeats, together
        )
        print(f"  ours {name:<12}{alone * 1e3:9.3f}   metric {through_metric * 1e3:9.3f}")
        assert abs(function_map(*given) - value) < 1e-7
    for name, work, layout in peer_runs(peers, preds, target, flat, shuffled):
        ours, taken = by_turns([partial(function_map, *layouts[layout]), work], repeats, together)
        assert abs(work() - value) < 1e-5, (name, work(), value)
        print(f"  {name + ' ' + layout:<32}{taken * 1e3:9.3f}   ours is {taken / ours:7.2f} times as fast", flush=True)


def peer_runs(
    peers: list[str], preds: Tensor, target: Tensor, flat: tuple[Tensor, ...], shuffled: tuple[Tensor, ...]
) -> list[tuple[str, Callable[[], float], str]]:
    """(name, work, the layout to compare with)."""
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


def compare_ndcg(peers: list[str]) -> None:
    """nDCG of grades from 0 to 3 as metrics, and of one query as functions, beside torchmetrics and scikit-learn."""
    from sklearn.metrics import ndcg_score
    from torchmetrics.functional.retrieval import retrieval_normalized_dcg as their_function
    from torchmetrics.retrieval import RetrievalNormalizedDCG as Theirs

    print("\nnDCG, grades 0 to 3, tied scores: milliseconds")
    for queries, docs in SMALL:
        generator = torch.Generator().manual_seed(0)
        preds = torch.randint(10 * docs, (queries, docs), generator=generator) / (10 * docs)
        target = torch.randint(4, (queries, docs), generator=generator)
        indexes = torch.arange(queries).repeat_interleave(docs)

        def run(metric: Any, flat: tuple[Tensor, ...] = (preds.flatten(), target.flatten(), indexes)) -> float:
            metric.reset()
            metric.update(*flat)
            return float(metric.compute())

        repeats = 200 if queries * docs < 2000 else 5
        ours = seconds(partial(run, RetrievalNormalizedDCG()), repeats)
        print(f"  {queries:>5,} x {docs:>5,}  ours {ours * 1e3:9.3f}", end="")
        if "torchmetrics" in peers:
            taken = seconds(partial(run, Theirs()), max(1, repeats // 3))
            assert abs(run(Theirs()) - run(RetrievalNormalizedDCG())) < 1e-5
            print(f"   torchmetrics {taken * 1e3:9.3f}, {taken / ours:6.1f} times", end="")
            if queries == 1:
                one = partial(retrieval_normalized_dcg, preds[0], target[0])
                ratio = seconds(partial(their_function, preds[0], target[0]), 200) / seconds(one, 200)
                print(f"   function {ratio:6.1f} times", end="")
        if "sklearn" in peers and queries * docs < 10**6:
            taken = seconds(partial(ndcg_score, target.numpy(), preds.numpy()), 1)
            print(f"   scikit-learn {taken * 1e3:9.3f}", end="")
        print()


def compare_dicts(queries: int, docs: int, share: float, peers: list[str]) -> None:
    """AP, nDCG@10, P@10, R@100 and RR of nested dicts, which the peers turn into what they need, too."""
    generator = np.random.default_rng(0)
    names = [f"d{place}" for place in range(3 * docs)]
    qrels, run = {}, {}
    for query in range(queries):
        listed = [names[place] for place in generator.choice(3 * docs, docs, replace=False)]
        run[f"q{query}"] = dict(zip(listed, generator.random(docs).tolist(), strict=True))
        judged = listed[: max(2, int(share * docs))]
        qrels[f"q{query}"] = dict(zip(judged, generator.integers(0, 3, len(judged)).tolist(), strict=True))
    measures = ("AP", "nDCG@10", "P@10", "R@100", "RR")
    runs = dict_runs(qrels, run, measures, peers)
    mean = torch_ap.evaluate(qrels, run, "AP").to_dict()["AP"]
    assert all(abs(work() - mean) < 1e-5 for _, work in runs)
    works = [lambda: torch_ap.evaluate(qrels, run, measures).to_dict(), *(work for _, work in runs)]
    ours, *theirs = by_turns(works, *repeats_of(queries * docs))
    cells = " | ".join(f"{taken / ours:.2f}" for taken in theirs)
    print(f"| {queries:,} x {docs:,} | {ours * 1e3:.3g} | {cells} |", flush=True)


def dict_runs(
    qrels: Judgements, run: Run, measures: tuple[str, ...], peers: list[str]
) -> list[tuple[str, Callable[[], float]]]:
    """(name, what gives the mean AP and computes the others)."""
    runs: list[tuple[str, Callable[[], float]]] = []
    if "pytrec_eval" in peers:
        import pytrec_eval

        def by_pytrec_eval() -> float:
            names = {"map", "ndcg_cut.10", "P.10", "recall.100", "recip_rank"}
            values = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run).values()
            means = {name: float(np.mean([x[name] for x in values])) for name in next(iter(values))}
            return means["map"]

        runs.append(("pytrec_eval", by_pytrec_eval))
    if "ir_measures" in peers:
        import ir_measures

        asked = [ir_measures.parse_measure(x) for x in measures]
        runs.append(("ir_measures", lambda: float(ir_measures.calc_aggregate(asked, qrels, run)[asked[0]])))
    if "ranx" in peers:
        import ranx

        wanted = ["map", "ndcg@10", "precision@10", "recall@100", "mrr"]
        runs.append(("ranx", lambda: float(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), wanted)["map"])))
    return runs


def compare_readers(lines: int, peers: list[str]) -> None:
    """A run file of 1,000 documents per query."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.txt"
        generator = np.random.default_rng(0)
        with path.open("w") as file:
            for query in range(lines // 1000):
                scores = np.sort(generator.random(1000) * 20)[::-1].tolist()
                docs = generator.choice(8_841_823, 1000, replace=False).tolist()
                pairs = enumerate(zip(docs, scores, strict=True), 1)
                file.write("".join(f"{query + 1} Q0 {doc} {rank} {score:.6f} run\n" for rank, (doc, score) in pairs))
        ours = seconds(lambda: read_run(path), 3)
        print(f"\nreading a run of {lines:,} lines, {path.stat().st_size / 1e6:.0f} MB: seconds\n  ours{ours:26.2f}")
        for name, work in reader_runs(path, peers):
            taken = seconds(work, 1)
            print(f"  {name:<24}{taken:6.2f}   ours is {taken / ours:7.1f} times as fast")


def reader_runs(path: Path, peers: list[str]) -> list[tuple[str, Callable[[], object]]]:
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skip", nargs="*", default=[], choices=PEERS, help="peers to leave out")
    parser.add_argument("--lines", type=int, default=7_000_000, help="of the run file; 0 for none")
    parser.add_argument("--only", choices=["map", "evaluate"], help="what alone is measured")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    peers = [name for name in PEERS if name not in args.skip and importlib.util.find_spec(name)]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; peers: {', '.join(peers)}")
    if args.only != "evaluate":
        for shape in SHAPES:
            compare(*shape, peers)
    if args.only is None:
        compare_ndcg(peers)
    if args.only == "map":
        return
    names = [name for name in ("pytrec_eval", "ir_measures", "ranx") if name in peers]
    print(f"\n| nested dicts, 5 measures | ours, ms | {' | '.join(names)} |\n|---|{'---|' * (len(names) + 1)}")
    for shape in DICTS:
        compare_dicts(*shape, peers)
    if args.lines and args.only is None:
        compare_readers(args.lines, peers)


if __name__ == "__main__":
    main()
