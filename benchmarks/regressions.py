"""Compare the speed of two commits, and print what has become slower.

    python -m benchmarks.regressions BASE [HEAD] [--only WORD] [--rounds N] [--tolerance 0.1]

BASE and HEAD are commits; without HEAD, the files of this folder are measured. Each side runs in a process of its own,
from a worktree in a temporary folder. The cases of ``regression_cases.py`` run on both sides in turns; weak and good
data, sparse and dense labels, small and large. A number is the minimum processor time of one thread. A case that seems
slower is measured again with more rounds. The exit status is 1 if any case has become slower.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.timing import machine, milliseconds, print_head, print_row

ROOT = Path(__file__).parent.parent
CASES = Path(__file__).parent / "regression_cases.py"
MORE_ROUNDS = 4  # times as many rounds for a case that seems slower


class Side:
    """A process that runs cases with the package of one folder.

    Args:
        name: "base" or "head", for messages.
        folder: a folder with the package.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder

    def __enter__(self) -> "Side":
        """Start the process."""
        words = [sys.executable, "-W", "ignore", "-c", f"exec(compile(open({str(CASES)!r}).read(), 'cases', 'exec'))"]
        environment = os.environ | {"PYTHONPATH": str(self._folder), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            words, cwd=self._folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.__exit__(kind, error, trace)

    def _ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline() or '{"error": "the process has ended"}')
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {request}: {answer['error']}")
        return answer["result"]

    def cases(self) -> list[str]:
        """Return the names of all cases."""
        names: list[str] = self._ask(what="cases")
        return names

    def seconds_of(self, case: str, calls: int) -> float:
        """Return the seconds per call of a case.

        Raises:
            RuntimeError: if the case fails, for example because the commit lacks the function.
        """
        return float(self._ask(what="time", case=case, calls=calls))


def compare_case(case: str, base: Any, head: Any, *, rounds: int, seconds: float) -> tuple[float, float]:
    """Return the minimum seconds per call of both sides, which take turns and are first in turns.

    Args:
        case: the name of a case.
        base: a :class:`Side`.
        head: another side.
        rounds: number of rounds after a round that does not count.
        seconds: least duration of the calls that are timed together.
    """
    longest = max(side.seconds_of(case, 1) for side in (base, head))
    calls = max(1, round(seconds / max(longest, 1e-7)))
    times: dict[Any, list[float]] = {base: [], head: []}
    for turn in range(rounds):
        for side in (base, head) if turn % 2 == 0 else (head, base):
            times[side].append(side.seconds_of(case, calls))
    return min(times[base]), min(times[head])


def slower(times: Mapping[str, tuple[float, float]], tolerance: float) -> list[str]:
    """Return the cases whose second time exceeds the first by more than this share."""
    return [case for case, (base, head) in times.items() if head > base * (1 + tolerance)]


def add_worktree(commit: str, folder: Path, stack: ExitStack) -> Path:
    """Check a commit out in a folder, until the stack is closed."""
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(folder), commit], cwd=ROOT, check=True)
    remove = ["git", "worktree", "remove", "--force", str(folder)]
    stack.callback(subprocess.run, remove, cwd=ROOT, check=True)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two commits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="the earlier commit")
    parser.add_argument("head", metavar="HEAD", nargs="?", help="the later commit (default: the files of this folder)")
    parser.add_argument("--only", default="", metavar="WORD", help="only cases whose name contains this word")
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds of each case (default 7)")
    parser.add_argument("--tolerance", type=float, default=0.1, help="share above which a case is slower (default 0.1)")
    parser.add_argument("--seconds", type=float, default=0.02, help="least duration of a round (default 0.02)")
    options = parser.parse_args(arguments)
    times: dict[str, tuple[float, float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base_folder = add_worktree(options.base, folder / "base", stack)
        head_folder = ROOT if options.head is None else add_worktree(options.head, folder / "head", stack)
        base, head = (stack.enter_context(Side(*x)) for x in (("base", base_folder), ("head", head_folder)))
        print(machine("torch", "numpy"))
        print_head(f"{options.base} and {options.head or 'this folder'}", "case", "base, ms", "head, ms", "head / base")
        for case in head.cases():
            if options.only not in case:
                continue
            try:
                pair = compare_case(case, base, head, rounds=options.rounds, seconds=options.seconds)
                if slower({case: pair}, options.tolerance):
                    more = MORE_ROUNDS * options.rounds
                    pair = compare_case(case, base, head, rounds=more, seconds=options.seconds)
            except RuntimeError as error:
                print_row(case, "", "", str(error).splitlines()[-1])
                continue
            times[case] = pair
            print_row(case, *map(milliseconds, pair), f"{pair[1] / pair[0]:.2f}")
    found = slower(times, options.tolerance)
    print(f"\n{len(found)} of {len(times)} cases are slower by more than {options.tolerance:.0%}" + ":" * bool(found))
    print("\n".join(f"- {case}: {times[case][1] / times[case][0]:.2f} times" for case in found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
