"""Interrupts and a lack of memory: the state afterwards is the state before or after the call."""

import copy
import faulthandler
import functools
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch

import torch_ap
from tests.support.each import each
from tests.support.every_metric import METRICS
from tests.support.modes import same

PACKAGE = pathlib.Path(torch_ap.__file__).parent
# the frames that change states; kernels have none
STATE_FILES = {
    *(str(PACKAGE / "core" / "metric" / f"{name}.py") for name in ("base", "state", "sync")),
    str(PACKAGE / "classification" / "state.py"),
}
TRIALS, SIGNALS = 16, 60  # interrupts of one method of one metric
KINDS = [  # one row for each way of changing a state
    *("binary", "binary_64_bins", "binary_weighted_thresholds", "binary_weighted_learnt", "multilabel_ignored_64_bins"),
    *("query_map", "query_ndcg_judged", "embeddings_gallery", "coco", "coco_matched"),
]


@pytest.fixture(autouse=True)
def _ignore_warnings_of_undefined_values():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def snapshot(metric):
    """Copy all states, the number of updates and the settings that ``forward`` changes temporarily."""
    state = {name: torch.cat(x) if isinstance(x, list) and x else copy.copy(x) for name, x in states_of(metric).items()}
    settings = metric._state_before_forward, metric._to_sync, metric.compute_on_cpu, metric._is_synced
    return {**state, "update count": metric.update_count, "settings": settings}


def states_of(metric):
    return {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in metric.metric_state.items()}


def is_same(state, other):
    try:
        same(state, other)
    except AssertionError:
        return False
    return True


@functools.cache
def batches_of(name, size):
    return METRICS[name].batches(2, size)


def outcomes_of(name, way, size=16):
    """Return the outcomes of a method of a metric that has one batch."""
    row, (first, second) = METRICS[name], batches_of(name, size)
    metric, other = row.new(), row.new()
    metric.update(**first)
    metric.compute()
    other.update(**second)
    other.persistent(True)
    checkpoint = other.state_dict()
    calls = {
        "update": lambda metric: metric.update(**second),
        "forward": lambda metric: metric(**second),
        "merge_state": lambda metric: metric.merge_state(other),
        "reset": lambda metric: metric.reset(),
        "load_state_dict": lambda metric: metric.load_state_dict(checkpoint),
        "compute": lambda metric: (setattr(metric, "_computed", None), metric.compute()),
        "sync": sync_and_unsync,
    }
    return Outcomes(metric, calls[way])


def sync_and_unsync(metric):
    metric._computed, metric.distributed_available_fn = None, lambda: True
    metric.dist_sync_fn = lambda tensor, group=None: [tensor, tensor]  # noqa: ARG005 - two processes with one state
    try:
        with metric.sync_context(dist_sync_fn=metric.dist_sync_fn):
            pass
    finally:
        metric.dist_sync_fn, metric.distributed_available_fn = None, lambda: False


WAYS = ("update", "forward", "merge_state", "reset", "load_state_dict", "compute", "sync")


class Interrupt:
    """KeyboardInterrupt before the n-th instruction of the code that changes states."""

    def __init__(self, place):
        self.place, self.count = place, 0

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in STATE_FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.count += 1
            if self.count == self.place:
                raise KeyboardInterrupt
        return self

    def run(self, call, metric):
        """Call with interrupts and return whether there was one."""
        tracer = sys.gettrace()
        sys.settrace(self)
        try:
            call(metric)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(tracer)
        return False


class Outcomes:
    """States of a metric before and after a call, and the values of both."""

    def __init__(self, filled, call):
        self.metric, self.call = filled, call
        metric = copy.deepcopy(filled)
        call(metric)
        self.whole = []
        for whole in (filled, metric):
            state = snapshot(whole)
            whole._computed = None
            self.whole.append((state, whole.compute()))

    def check(self, metric):
        """Assert that a metric has one of the two states and no value of another state."""
        left = snapshot(metric)
        values = [value for state, value in self.whole if is_same(left, state)]
        assert values
        assert metric._computed is None or any(is_same(metric._computed, value) for value in values)


@pytest.mark.no_cover
@each("name, way", {f"{name}-{way}": (name, way) for name in KINDS for way in WAYS})
def test_an_interrupt_before_any_instruction_leaves_a_whole_state(name, way):
    outcomes, counter = outcomes_of(name, way), Interrupt(0)
    counter.run(outcomes.call, copy.deepcopy(outcomes.metric))
    places = random.Random(name + way).sample(range(1, counter.count + 1), min(TRIALS, counter.count))
    interrupts = 0
    for place in places:
        metric = copy.deepcopy(outcomes.metric)
        interrupts += Interrupt(place).run(outcomes.call, metric)
        outcomes.check(metric)
    assert interrupts >= len(places) // 2  # caches make some runs shorter than the counted run


SIGNAL_KINDS = ("binary", "query_map")


def send_signals():
    """Send signals at random times during each method, in its own process, and print the number of calls."""
    warnings.simplefilter("ignore", UserWarning)
    faulthandler.dump_traceback_later(300, exit=True)
    sys.unraisablehook = lambda _: None  # Python ignores an interrupt of a finalizer
    armed = []

    def interrupt(*_):
        if armed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for name, way in product(SIGNAL_KINDS, WAYS):
        outcomes, draw, interrupts = outcomes_of(name, way), random.Random(name + way), 0
        metric, start = copy.deepcopy(outcomes.metric), time.perf_counter()
        outcomes.call(metric)
        duration = time.perf_counter() - start
        for _ in range(SIGNALS):
            metric = copy.deepcopy(outcomes.metric)
            try:
                armed.append(True)
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, draw.random() * duration))
                outcomes.call(metric)
                armed.clear()
            except KeyboardInterrupt:
                armed.clear()
                interrupts += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            outcomes.check(metric)
        print(name, way, interrupts)


@pytest.mark.no_cover
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_signal_leaves_a_whole_state():
    lines = run_in_process("send_signals")
    assert [tuple(line[:2]) for line in lines] == list(product(SIGNAL_KINDS, WAYS))
    assert any(int(line[2]) for line in lines)


def run_in_process(function, **environment):
    """Run a function of this file in a process of its own and return the words of the lines that it prints."""
    code = f"from tests.laws.test_interrupts import {function}; {function}()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=PACKAGE.parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.split() for line in done.stdout.splitlines()]


@each("name", KINDS)
def test_a_failed_move_leaves_all_states_on_their_device(name):
    metric = METRICS[name].new()
    metric.update(**batches_of(name, 16)[0])
    before, calls = snapshot(metric), []
    copy.deepcopy(metric)._apply(lambda tensor: calls.append(tensor) or tensor)
    for last in range(len(calls)):
        moved = []

        def move(tensor, last=last, moved=moved):
            if len(moved) == last:
                raise MemoryError
            moved.append(tensor)
            return tensor.to("meta")

        with pytest.raises(MemoryError):
            metric._apply(move)
        assert metric.device.type == "cpu"
        same(snapshot(metric), before)
    metric.update(**batches_of(name, 16)[1])
    metric.reset()


# -- a lack of memory

FREE = (1, 6)  # blocks of each size available to a call
LIMITED_WAYS = ("update", "forward", "merge_state", "reset", "compute")
# NumPy 2.4 crashes without memory for the buffer of a cast, which the precision of detections needs
CRASHING = {(name, way) for name in ("coco", "coco_matched") for way in ("forward", "compute")}
CRASH = -1
STATM = pathlib.Path("/proc/self/statm")


def use_memory(blocks):
    """Allocate all memory below the limit, except some blocks of each size."""
    used = []
    for size in (1 << 18, 1 << 16, 1 << 14, 1 << 12):
        same_size = []
        try:
            while True:
                same_size.append(torch.empty(size, dtype=torch.uint8))
        except RuntimeError:
            used += same_size[: len(same_size) - blocks]
            del same_size
    return used


def run_out_of_memory():
    """Call each method with little memory left, in its own process, and print the number of failures.

    The calls run in a thread, because its stack is allocated beforehand; the stack of the process would grow.
    """
    warnings.simplefilter("ignore", UserWarning)
    torch.set_num_threads(1)
    with ThreadPoolExecutor(1) as pool:
        for name, way in product(KINDS, LIMITED_WAYS):
            outcomes = outcomes_of(name, way, 800 if name.startswith(("coco", "embed")) else 4000)
            run = call_in_fork if (name, way) in CRASHING else call_without_memory
            print(name, way, *(pool.submit(run, outcomes, blocks).result() for blocks in FREE), flush=True)


def call_in_fork(outcomes, blocks):
    """Return the result of :func:`call_without_memory` in a fork of this process, or CRASH."""
    child = os.fork()
    if not child:
        os._exit(call_without_memory(outcomes, blocks))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return CRASH if code < 0 else code


def call_without_memory(outcomes, blocks):
    """Return 1 if a method ran out of memory, 0 if it did not, and 2 if the state is neither of the two states."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    metric, failed = copy.deepcopy(outcomes.metric), 0
    used = int(STATM.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (blocks << 16), most))
    ballast = []
    try:
        ballast = use_memory(blocks)
        outcomes.call(metric)
    except (MemoryError, RuntimeError) as error:
        failed = int(isinstance(error, MemoryError) or "memory" in str(error))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    del ballast
    try:
        outcomes.check(metric)
    except AssertionError:
        traceback.print_exc()
        return 2
    return failed


@pytest.mark.no_cover
@pytest.mark.skipif(not STATM.exists(), reason="needs the memory map of Linux")
def test_a_lack_of_memory_leaves_a_whole_state():
    lines = run_in_process("run_out_of_memory", OMP_NUM_THREADS="1", MALLOC_ARENA_MAX="1")
    failures = {(name, way): set(map(int, counts)) for name, way, *counts in lines}
    assert list(failures) == list(product(KINDS, LIMITED_WAYS))
    assert {pair for pair, codes in failures.items() if CRASH in codes} <= CRASHING
    assert not {pair for pair, codes in failures.items() if codes - {CRASH, 0, 1}}
    for name in KINDS:
        assert any(1 in failures[name, way] for way in LIMITED_WAYS), name
