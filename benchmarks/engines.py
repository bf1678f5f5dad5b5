"""Rows per second of the functions for Dask, Ray and Spark, compared with the engine's own count of the rows.

    python -m benchmarks.engines [--quick]

Each engine reads a folder of Parquet files with two processes. Each row of the tables is the fastest of two runs, in
wall time; "per core" is half of the rows per second.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

import torch_ap
from benchmarks.timing import machine, parser, print_head, print_row, time_in_turns

PROCESSES, FILES = 2, 8
POSITIVES = (0.02, 0.5)  # shares of positive labels; at most a tenth can be counted without a complete sort


def write_files(folder: Path, rows: int, share: float) -> None:
    """Write files of scores and labels, with this share of positive labels."""
    random = np.random.default_rng(0)
    for number in range(FILES):
        label = random.random(rows // FILES) < share
        score = (random.normal(size=len(label)) + 2 * label).astype(np.float32)
        pyarrow.parquet.write_table(
            pa.table({"score": score, "label": label.astype(np.int8)}), folder / f"{number}.parquet"
        )


@contextmanager
def on_dask(folder: Path) -> Iterator[tuple[Any, Any, Callable[[], Any]]]:
    """Yield the module, the data and a function that counts the rows, after the workers have started."""
    import dask.dataframe

    from torch_ap.engines import dask as module

    distributed: Any = import_module("dask.distributed")
    settings = {"n_workers": PROCESSES, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster):
        data = dask.dataframe.read_parquet(folder)
        yield module, data, lambda: data["score"].count().compute()


@contextmanager
def on_ray(folder: Path) -> Iterator[tuple[Any, Any, Callable[[], Any]]]:
    """Yield what :func:`on_dask` yields."""
    import ray

    from torch_ap.engines import ray as module

    keep = {"idle_worker_killing_time_threshold_ms": 600_000}  # default 1,000, after which a task imports torch again
    ray.init(num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False, _system_config=keep)
    ray.data.DataContext.get_current().enable_progress_bars = False
    data = ray.data.read_parquet(str(folder))
    yield module, data, lambda: data.sum("score")  # `count` reads only the metadata of the files
    ray.shutdown()


@contextmanager
def on_spark(folder: Path) -> Iterator[tuple[Any, Any, Callable[[], Any]]]:
    """Yield what :func:`on_dask` yields."""
    from pyspark.sql import SparkSession, functions

    from torch_ap.engines import spark as module

    builder = SparkSession.builder.master(f"local[{PROCESSES}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    data = session.read.parquet(str(folder))
    yield module, data, lambda: data.agg(functions.count("score")).collect()
    session.stop()


ENGINES = {"Dask": on_dask, "Ray": on_ray, "Spark": on_spark}


def print_engine(name: str, folder: Path, rows: int, share: float) -> None:
    """Print the table of one engine for files with this share of positive labels."""
    with ENGINES[name](folder) as (module, data, count):
        aggregate = partial(module.aggregate, data, preds="score", target="label")
        edges = torch.linspace(-4, 6, 2000)
        contenders: dict[str, Callable[[], Any]] = {
            "count of the scores": count,
            "`aggregate`, 2,000 edges": partial(aggregate, metric=torch_ap.BinaryAveragePrecision(bins=edges)),
            '`aggregate`, `"adaptive"`': partial(aggregate, metric=torch_ap.BinaryAveragePrecision(bins="adaptive")),
            "`binary_average_precision`": partial(module.binary_average_precision, data, "score", "label"),
        }
        seconds = time_in_turns(contenders, 2, statistic=min)
    own = seconds["count of the scores"]
    print_head(f"{name}, {share:.0%} positive", "work", "million rows per second", "per core", "multiple of the count")
    for what, took in seconds.items():
        speed = rows / took / 1e6
        print_row(what, f"{speed:.3g}", f"{speed / PROCESSES:.3g}", f"{took / own:.3g}")


def main() -> None:
    """Write the files, and print the tables."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=8_000_000)
    options.add_argument("--engines", nargs="+", default=[*ENGINES], choices=[*ENGINES])
    args = options.parse_args()
    rows = 80_000 if args.quick else args.rows
    print(machine("torch", "dask", "ray", "pyspark", "pyarrow"))
    with tempfile.TemporaryDirectory() as folder:
        for share in POSITIVES:
            files = Path(folder, f"{share}")
            files.mkdir()
            write_files(files, rows, share)
            for name in args.engines:
                print_engine(name, files, rows, share)


if __name__ == "__main__":
    main()
