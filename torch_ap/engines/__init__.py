"""Metrics of data sets of Ray, Dask and Spark: one module per engine, with the same three functions.

==============================  ==============================================================================
function                        result
==============================  ==============================================================================
``aggregate``                   a metric with the rows of all partitions; with ``group`` one metric per group
``binary_average_precision``    the exact AP of one ranking that no process can store or sort
``evaluate_queries``            measures of each query, and their means
==============================  ==============================================================================

Import the module of an engine, which must be installed: ``from torch_ap.engines import dask``.
"""
