"""Process groups emulated by threads, in any number: the collectives of the package without processes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

import torch

from tests.support import emulated
from torch_ap.core.metric import exchange, sync

PATIENCE = 20  # seconds that a rank waits for the others
SUM, MAX = "sum", "max"


class Threads:
    """Emulated processes whose collectives accept tensors of one kind of device.

    ``sent`` and ``received`` are the bytes that each process exchanges with others; ``collectives`` counts the calls.
    """

    def __init__(self, size, device="cpu", waits=None):
        self.device, self.waits = device, waits
        self.size, self.sent, self.received = size, [0] * size, [0] * size
        self.collectives = 0
        self.barrier, self.box, self.local = threading.Barrier(size), [None] * size, threading.local()

    def __call__(self, work):
        """Return the results of ``work(rank)`` on all ranks, or raise the error of the first rank that fails."""
        with (
            mock.patch.object(exchange, "dist", self._collectives()),
            mock.patch.object(sync, "gather_all_tensors", self.gather),
            ThreadPoolExecutor(self.size) as pool,
        ):
            futures = [pool.submit(self._run, work, rank) for rank in range(self.size)]
            errors = [error for future in futures if (error := future.exception())]
            for error in errors:
                if not isinstance(error, threading.BrokenBarrierError):
                    raise error
            return [future.result() for future in futures]

    def _run(self, work, rank):
        self.local.rank = rank
        torch.set_num_threads(1)
        try:
            with emulated.in_thread(self.waits):
                return work(rank)
        except BaseException:
            self.barrier.abort()
            raise

    def all(self, value):
        """Return the value of each rank."""
        self.collectives += self.local.rank == 0
        assert {x.device.type for x in (value if isinstance(value, tuple) else [value])} == {self.device}
        self.box[self.local.rank] = value
        self.barrier.wait(PATIENCE)
        found = list(self.box)
        self.barrier.wait(PATIENCE)
        return found

    def gather(self, values, **_):
        return [x.clone() for x in self.all(values.clone())]

    def _collectives(self):
        return SimpleNamespace(
            ReduceOp=SimpleNamespace(SUM=SUM, MAX=MAX),
            get_rank=lambda _: self.local.rank,
            get_world_size=lambda _: self.size,
            all_gather=self._all_gather,
            all_reduce=self._all_reduce,
            all_to_all_single=self._all_to_all_single,
        )

    def _all_gather(self, out, values, **_):
        self._count(*[values.nbytes * (self.size - 1)] * 2)
        for place, x in zip(out, self.all(values), strict=True):
            assert (place.shape, place.dtype) == (x.shape, x.dtype)
            place.copy_(x)

    def _all_reduce(self, values, how, **_):
        self._count(values.nbytes, values.nbytes)
        found = torch.stack(self.all(values.clone()))
        values.copy_(found.sum(0) if how == SUM else found.amax(0))

    def _all_to_all_single(self, out, values, coming=None, sent=None, **_):
        sent = sent or [len(values) // self.size] * self.size
        parts, here = values.split(sent), self.local.rank
        received = [x[here] for x in self.all(parts)]
        self._count(*(sum(x.nbytes for rank, x in enumerate(each) if rank != here) for each in (parts, received)))
        assert coming is None or coming == [len(x) for x in received]
        out.copy_(torch.cat(received))

    def _count(self, sent, received):
        self.sent[self.local.rank] += sent
        self.received[self.local.rank] += received
