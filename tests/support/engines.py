"""Real engines of small size for tests: Dask and Ray with two processes, and Spark in local mode."""

import contextlib
import dataclasses
import logging
import os
import pathlib
import shutil
import signal
import unittest.mock

import pandas as pd
import pyarrow as pa
import pytest

from torch_ap.engines.metrics import ItemJob

INTERRUPTED = "the task was interrupted"
JAVA_REQUIRED = os.environ.get("TORCH_AP_TEST_JAVA") == "required"  # as in CI, which installs a runtime
_LIMIT = 600  # seconds of an engine's tests, which took 136 with ten times as many rows on two busy cores

SEARCHED = os.pathsep.join(
    x for x in (str(pathlib.Path(__file__).parents[2]), os.environ.get("PYTHONPATH")) if x
)  # by processes of the engines, which import this package and the tests


class Dask:
    """Two worker processes of dask.distributed."""

    def __init__(self):
        from dask.distributed import Client, LocalCluster

        from torch_ap.engines import dask

        self.module = dask
        self.cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="2GB", dashboard_address=None, silence_logs=logging.CRITICAL
        )
        self.client = Client(self.cluster)

    def data(self, frames):
        """Return a data set with a partition per DataFrame."""
        import dask.dataframe
        from dask import delayed

        return dask.dataframe.from_delayed([delayed(x) for x in frames], meta=frames[0].iloc[:0])

    def images(self, parts):
        """Return a data set of rows with dicts of tensors, a partition per list of rows."""
        import dask.bag
        from dask import delayed

        return dask.bag.from_delayed([delayed(x) for x in parts])

    def reduce(self, data, job, columns):
        """Return the merged result of a job."""
        import dask

        with dask.annotate(retries=1):
            return self.module._reduce(data, job, columns)

    def close(self):
        """Stop the workers."""
        self.client.close()
        self.cluster.close()


class Ray:
    """Two processes of Ray."""

    def __init__(self):
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray

        from torch_ap.engines import ray as on_ray

        self.ray, self.module = ray, on_ray
        quiet = {"include_dashboard": False, "logging_level": logging.CRITICAL, "log_to_driver": False}
        os.environ["PYTHONPATH"] = SEARCHED
        # on a busy machine, nice processes do not run
        os.environ.update({"RAY_raylet_start_wait_time_s": "300", "RAY_worker_niceness": "0"})
        idle = {"idle_worker_killing_time_threshold_ms": 600_000}  # default 1,000; a new worker imports torch
        ray.init(num_cpus=2, object_store_memory=200_000_000, _system_config=idle, **quiet)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars, context.default_hash_shuffle_parallelism = False, 4
        context.retried_map_errors, context.max_map_retries = [INTERRUPTED], 1
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)

    def data(self, frames):
        """Return a data set with a block per DataFrame."""
        return self.ray.data.from_arrow([pa.Table.from_pandas(x, preserve_index=False) for x in frames])

    def images(self, parts):
        """Return a data set of rows with structs, a block per list of rows."""
        return self.ray.data.from_arrow([pa.Table.from_pylist(arrow_rows(x), IMAGES) for x in parts])

    def reduce(self, data, job, columns):
        """Return the merged result of a job."""
        return self.module._reduce(self.module._select(data, columns), job)

    def close(self):
        """Stop the processes."""
        self.ray.shutdown()


class Spark:
    """Spark in local mode with two threads, a Python process each; a failed task is repeated once."""

    def __init__(self):
        if shutil.which("java") is None and not JAVA_REQUIRED:
            pytest.skip("there is no Java, which Spark needs")
        from pyspark.sql import SparkSession

        from torch_ap.engines import spark

        self.module = spark
        os.environ["PYTHONPATH"] = SEARCHED
        settings = {
            "spark.python.daemon.module": "tests.support.spark_daemon",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # quick start, few threads
            "spark.sql.shuffle.partitions": "4",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master("local[2,2]").appName("torch_ap")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")

    def data(self, frames):
        """Return a data set with a partition per DataFrame."""
        return self._partitions([pa.Table.from_pandas(x, preserve_index=False) for x in frames])

    def images(self, parts):
        """Return a data set of rows with structs, a partition per list of rows."""
        return self._partitions([pa.Table.from_pylist(arrow_rows(x), IMAGES) for x in parts])

    def _partitions(self, tables):
        from pyspark.sql.pandas.types import from_arrow_schema

        def rows(batches):
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from tables[number].to_batches(max_chunksize=100_000)

        numbers = self.session.range(0, len(tables), 1, len(tables))
        return numbers.mapInArrow(rows, from_arrow_schema(tables[0].schema))

    def reduce(self, data, job, columns):
        """Return the merged result of a job."""
        return self.module._reduce(self.module._select(data, columns), job)

    def close(self):
        """Stop Java."""
        self.session.stop()


@dataclasses.dataclass(frozen=True)
class FailingOnce(ItemJob):
    """A job that fails once, at a partition with rows: its process ends, or it raises an error."""

    flag: str = ""
    ends: bool = False

    def partial(self, batches, partition):
        batches = [x for x in batches if x.num_rows]
        if batches and not pathlib.Path(self.flag).exists():
            pathlib.Path(self.flag).touch()
            if self.ends:
                os._exit(1)
            raise ConnectionError(INTERRUPTED)
        return super().partial(batches, partition)


_BOXES = pa.struct(
    {"boxes": pa.list_(pa.list_(pa.float32())), "scores": pa.list_(pa.float32()), "labels": pa.list_(pa.int64())}
)
_TRUTHS = pa.struct({"boxes": pa.list_(pa.list_(pa.float32())), "labels": pa.list_(pa.int64())})
IMAGES = pa.schema({"preds": _BOXES, "target": _TRUTHS})


def arrow_rows(rows):
    """Return rows of dicts of tensors as rows of dicts of lists."""
    return [{side: {key: x.tolist() for key, x in image.items()} for side, image in row.items()} for row in rows]


@contextlib.contextmanager
def running(kind):
    """Start an engine, and stop it afterwards; at the limit of time every check raises TimeoutError."""

    def interrupt(*_):
        raise TimeoutError(f"the tests of {kind.__name__} took more than {_LIMIT} seconds")

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, _LIMIT, 5)
    try:
        with unittest.mock.patch.dict(os.environ):
            engine = kind()
            try:
                yield engine
            finally:
                signal.setitimer(signal.ITIMER_REAL, 60)
                engine.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def split(frame, sizes):
    """Return the rows of a DataFrame in parts of these sizes."""
    ends = pd.Series(sizes).cumsum().tolist()
    return [frame.iloc[end - size : end] for end, size in zip(ends, sizes, strict=True)]
