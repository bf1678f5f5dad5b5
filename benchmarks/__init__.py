"""Speed and memory as ratios to peers, measured in one run: ``python -m benchmarks.<name>``."""
