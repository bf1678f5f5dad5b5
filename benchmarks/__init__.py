"""Speed and memory, compared with other packages in one run: ``python -m benchmarks.<name>``."""
