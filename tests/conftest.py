"""Fixtures and hooks shared by all tests: random generators, public data, accelerators and processes."""

import contextlib
import gc
import os
import pathlib

import pytest

pytest.register_assert_rewrite("tests.support.pages")
gc.disable()  # imported modules and collected tests stay; garbage collection among them takes a seventh of both times
os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by the processes that tests start
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # for ranx: compilation takes longer than its few queries


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Let the workers of ``-n`` steal tests; an option in setup.cfg would require pytest-xdist without ``-n``."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_sessionstart(session):
    """Configure torch and hypothesis, except in a process that only distributes tests to workers."""
    if getattr(session.config.option, "numprocesses", None):
        gc.enable()
        return
    import torch
    from hypothesis import settings

    settings.register_profile("here", deadline=None, max_examples=60, derandomize=True)
    settings.load_profile("here")
    torch.set_num_threads(1)  # with more threads on a busy machine, tests take ten times as long


def pytest_generate_tests(metafunc):
    """Run accelerator tests on the emulated device, and on a real one if there is one."""
    if metafunc.definition.get_closest_marker("gpu"):
        import torch

        kinds = ["emulated", *(["cuda"] if torch.cuda.is_available() else [])]
        metafunc.parametrize("accelerator", kinds, indirect=True)


@pytest.fixture(autouse=True)
def accelerator(request):
    """Return the record of host waits of the emulated device in tests marked ``gpu``, else None."""
    if getattr(request, "param", None) != "emulated":
        return None
    from tests.support import emulated

    stack = contextlib.ExitStack()
    request.addfinalizer(stack.close)  # noqa: PT021 - of a generator each test would wait for the end
    return stack.enter_context(emulated.device())


@pytest.fixture(autouse=True, scope="session")
def _threads_whatever_the_machine():
    """Share large inputs among threads even on a machine with one processor."""
    from torch_ap.core.ranking import order

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "workers", lambda size: 2 if size >= order._THREADING_PAYS else 1)
        yield


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(20040826)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Skip the doctest collectors of test files: only the package contains examples in docstrings."""
    return [collector for collector in (yield) if type(collector).__name__ != "DoctestModule"]


def _needs_ranks(item):
    return "ranks" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def ranks(request):
    """Return a callable that runs a function on two gloo processes, which start once."""
    from tests.support import two_ranks

    # module names relative to the start folder of the processes; Python 3.11 searches only there
    pool = two_ranks.Ranks({f"tests.{item.module.__name__}" for item in request.session.items if _needs_ranks(item)})
    yield pool
    pool.close()


def pytest_collection_finish():
    """Exclude the objects that exist before the first test from garbage collection.

    Tests create few reference cycles, so a collection at every 700 objects, which takes 4% of the time, is not
    needed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_collection_modifyitems(items):
    """Sort the tests that need two processes first, so that one worker runs them all, then the slow tests."""
    items.sort(key=lambda item: (not _needs_ranks(item), item.get_closest_marker("slow") is None))


@pytest.fixture
def public_data():
    """Return the folder of public test data, which is not part of the repository."""
    folder = os.environ.get("TORCH_AP_TEST_DATA")
    if not folder:
        pytest.skip("TORCH_AP_TEST_DATA does not name the folder of public test data")
    return pathlib.Path(folder)
