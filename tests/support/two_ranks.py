"""Two gloo processes that wait for work: every distributed test runs on the same two."""

import multiprocessing
import pathlib
import tempfile
import traceback
from collections.abc import Callable, Iterable
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any

import torch
import torch.distributed as dist

WORLD = 2
PATIENCE = timedelta(seconds=60)  # a collective that hangs fails; the slowest test takes a few seconds


class RankError(AssertionError):
    """An error that a rank raised, with its traceback."""


class Ranks:
    """Two processes of one gloo group, which start with the first work.

    A failure on one rank can leave the other waiting in a collective, so both restart after a failure.

    Args:
        modules: names of the modules of the work, which are imported once before the processes fork.
    """

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self.modules = ["tests.support.two_ranks", "torch.distributed.tensor", *modules]  # imported by `assert_close`
        self.processes: list[Any] = []
        self.pipes: list[Any] = []

    def __call__(self, work: Callable[..., Any], *args: Any) -> list[Any]:
        """Return the results of ``work(rank, *args)`` on all ranks; ``work`` is a module-level function.

        Raises:
            RankError: with the traceback of the rank that raised first.
        """
        if not self.processes:
            self._start()
        for pipe in self.pipes:
            pipe.send((work, args))
        answers: dict[int, Any] = {}
        while len(answers) < WORLD:
            waiting = [pipe for rank, pipe in enumerate(self.pipes) if rank not in answers]
            for pipe in wait(waiting, 2 * PATIENCE.total_seconds()) or waiting[:1]:
                rank = self.pipes.index(pipe)
                done, answers[rank] = self._answer(pipe)
                if not done:
                    self.close()
                    raise RankError(f"rank {rank}: {answers[rank]}")
        return [answers[rank] for rank in range(WORLD)]

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(self.modules)
        self.folder = tempfile.TemporaryDirectory()
        store = pathlib.Path(self.folder.name, "store")
        for rank in range(WORLD):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(rank, f"file://{store}", there), daemon=True)
            process.start()
            there.close()
            self.processes.append(process)
            self.pipes.append(here)

    def _answer(self, pipe: Any) -> tuple[bool, Any]:
        if not pipe.poll():
            return False, "no answer in time"
        try:
            return pipe.recv()
        except EOFError:
            return False, "the process ended"

    def close(self) -> None:
        """End both processes."""
        for process, pipe in zip(self.processes, self.pipes, strict=True):
            pipe.close()
            process.terminate()
            process.join()
        if self.processes:
            self.folder.cleanup()
        self.processes, self.pipes = [], []


def _serve(rank: int, store: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD, timeout=PATIENCE)
    while True:
        try:
            work, args = pipe.recv()
        except EOFError:
            return
        try:
            answer = True, work(rank, *args)
        except BaseException:
            answer = False, traceback.format_exc()
        pipe.send(answer)
