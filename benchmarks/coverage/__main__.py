"""The whole report.

python -m benchmarks.coverage > benchmarks/coverage.md
"""

import argparse
import os
import pathlib

from benchmarks.coverage import (
    above_chance,
    at_once,
    at_rank,
    averages,
    band,
    best,
    best_in_groups,
    best_of_metrics,
    chance,
    chance_in_groups,
    chance_of_queries,
    cliffs,
    comparison_at_rank,
    cuts,
    detectors,
    differences,
    equals,
    error_costs,
    few_hits,
    few_images,
    few_misses,
    groups,
    groups_at_rank,
    groups_at_threshold,
    images,
    labels,
    operating_points,
    perfect,
    planning,
    queries,
    queries_in_groups,
    rankings,
    simultaneous,
    systems,
    thresholds,
    weighted,
)
from benchmarks.coverage.tasks import Options, run_all

_PARTS = {
    "rankings": rankings, "averages": averages, "perfect": perfect, "few-hits": few_hits, "few-misses": few_misses,
    "weighted": weighted, "above-chance": above_chance, "simultaneous": simultaneous,
    "at-once": at_once, "labels": labels,
    "band": band, "at-rank": at_rank, "cliffs": cliffs, "comparison-at-rank": comparison_at_rank,
    "thresholds": thresholds, "operating-points": operating_points,
    "chance": chance, "chance-in-groups": chance_in_groups, "chance-of-queries": chance_of_queries,
    "systems": systems, "differences": differences,
    "best": best, "best-in-groups": best_in_groups, "best-of-metrics": best_of_metrics, "planning": planning,
    "queries": queries, "queries-in-groups": queries_in_groups, "images": images, "few-images": few_images,
    "detectors": detectors, "cuts": cuts, "error-costs": error_costs,
    "equals": equals, "groups": groups, "groups-at-rank": groups_at_rank,
    "groups-at-threshold": groups_at_threshold,
}  # fmt: skip
# what the report says in short; edit it by hand when the tables change: a test looks for its figures in them
_OPENING = pathlib.Path(__file__).with_name("opening.md")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description="Coverage and size of tests.")
    options.add_argument("--repetitions", type=int, default=5000, help="of each configuration (default 5000)")
    options.add_argument("--resampled", type=int, default=2000, help="of methods that resample (default 2000)")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one per core")
    options.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS), help="these parts (default: all)")
    given = options.parse_args()
    size = Options(given.repetitions, given.resampled)
    only = "" if len(given.only) == len(_PARTS) else " --only " + " ".join(given.only)
    print(
        f"{_OPENING.read_text()}\n"
        f"Made by `python -m benchmarks.coverage --repetitions {size.repetitions} --resampled {size.resampled}{only}`."
        "\n\n"
        'n is the number of items, m the number of hits: "fixed" if every sample has m hits, "random" if each item is '
        "a hit with probability m / n. The scores of hits are N(d', 1), of misses N(0, 1), and the truth is the limit "
        "of AP. A row that combines several configurations has their least, median and greatest share. Unless the "
        "section has its own, the configurations are 3,000 and 10,000 items with 50, 245 and 1,000 hits and d' of 0, "
        '1, 2 and 3. "s.e." is the Monte Carlo standard error of a share p of R repetitions, sqrt(p (1 - p) / R), or '
        "the largest standard error of several configurations."
    )  # fmt: skip
    sections = [section for name in _PARTS if name in given.only for section in _PARTS[name].sections(size)]
    for lines in run_all(sections, given.processes):
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
