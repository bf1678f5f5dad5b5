"""Speed and memory beside those of peers, measured in one run: ``python -m benchmarks.<name>``."""
