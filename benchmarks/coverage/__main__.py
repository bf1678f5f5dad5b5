"""The whole report.

python -m benchmarks.coverage > benchmarks/coverage.md
"""

import argparse
import os

from benchmarks.coverage import (
    at_rank,
    band,
    chance,
    detectors,
    equals,
    few_misses,
    images,
    perfect,
    queries,
    rankings,
    systems,
    thresholds,
)
from benchmarks.coverage.expected import LAW_TRIALS, TRIALS
from benchmarks.coverage.tasks import Options, run_all

_PARTS = {
    "rankings": rankings, "perfect": perfect, "few-misses": few_misses, "band": band, "at-rank": at_rank,
    "thresholds": thresholds, "chance": chance, "systems": systems, "queries": queries, "images": images,
    "detectors": detectors, "equals": equals,
}  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description="Coverage and size of tests.")
    options.add_argument("--repetitions", type=int, default=5000, help="of each configuration (default 5000)")
    options.add_argument("--resampled", type=int, default=600, help="of what resamples itself (default 600)")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one a core")
    options.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS), help="these parts (default: all)")
    given = options.parse_args()
    size = Options(given.repetitions, given.resampled)
    only = "" if len(given.only) == len(_PARTS) else " --only " + " ".join(given.only)
    print(
        "# Coverage of the intervals and size of the tests\n\n"
        f"Made by `python -m benchmarks.coverage --repetitions {size.repetitions} --resampled {size.resampled}{only}`."
        "\n\n"
        "Hits score as N(d', 1), misses as N(0, 1), and coverage is of the limit of AP. Where one row is of many "
        "configurations (3,000 and 10,000 items, 50, 245 and 1,000 hits, d' of 0, 1, 2 and 3, where nothing else is "
        "said), it has the least, median and greatest share over them. \"s.e.\" is the Monte Carlo standard error of a "
        "share p of R repetitions, sqrt(p (1 - p) / R); in a row of many configurations the largest of theirs.\n\n"
        "The independent simulation is other code for the same methods. Its figures agree where they differ from ours "
        f"by at most three standard errors of the difference, and rounding; where it does not say how many repetitions "
        f"it had, {TRIALS} are supposed, and {LAW_TRIALS} for the laws of AP."
    )  # fmt: skip
    sections = [section for name in _PARTS if name in given.only for section in _PARTS[name].sections(size)]
    for lines in run_all(sections, given.processes):
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
