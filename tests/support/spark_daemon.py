"""Start of Spark's Python processes, which fork from one that has imported the package."""

import pandas  # noqa: F401

import torch_ap.engines.spark  # noqa: F401 - each process would need seconds for these
from torch_ap import BinaryAveragePrecision, MeanAveragePrecision, MulticlassAveragePrecision  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
