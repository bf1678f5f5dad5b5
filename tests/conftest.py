"""What all tests share: drawing rankings with ties, the folder of public data, and accelerators."""

import contextlib
import gc
import os
import pathlib

import pytest

gc.disable()  # what is imported and collected stays; looking for garbage among it takes a seventh of the time of both
os.environ.setdefault("OMP_NUM_THREADS", "1")  # which processes that tests start inherit
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # of ranx: compiling takes longer than the few queries that it is given


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """With ``-n``, workers steal tests from one another; an option in setup.cfg would need pytest-xdist without it."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_sessionstart(session):
    """How torch and hypothesis run; a process that only deals the tests to workers would import them for nothing."""
    if getattr(session.config.option, "numprocesses", None):
        gc.enable()
        return
    import torch
    from hypothesis import settings

    settings.register_profile("here", deadline=None, max_examples=60, derandomize=True)
    settings.load_profile("here")
    torch.set_num_threads(1)  # on a busy machine more spend ten times as long, waiting for one another


def pytest_generate_tests(metafunc):
    """Tests for accelerators run on the emulated one, and on a real one where there is one."""
    if metafunc.definition.get_closest_marker("gpu"):
        import torch

        kinds = ["emulated", *(["cuda"] if torch.cuda.is_available() else [])]
        metafunc.parametrize("accelerator", kinds, indirect=True)


@pytest.fixture(autouse=True)
def accelerator(request):
    """What made the host wait for the emulated device, on tests that are marked ``gpu``; else None."""
    if getattr(request, "param", None) != "emulated":
        return None
    from tests import emulated

    stack = contextlib.ExitStack()
    request.addfinalizer(stack.close)  # noqa: PT021 - of a generator each test would wait for the end
    return stack.enter_context(emulated.device())


@pytest.fixture(autouse=True, scope="session")
def _threads_whatever_the_machine():
    """Large inputs are shared among threads even on a machine with one processor."""
    from torch_ap.ranking import order

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "workers", lambda size: 2 if size >= order._THREADING_PAYS else 1)
        yield


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(20040826)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """No file of tests is read a second time, in search of examples in docstrings: those are in the package."""
    return [collector for collector in (yield) if type(collector).__name__ != "DoctestModule"]


def _needs_ranks(item):
    return "ranks" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def ranks(request):
    """Runs a function on two gloo processes, which are started once."""
    from tests import two_ranks

    # by their place below the folder that the processes start in, the one place where Python 3.11 looks
    pool = two_ranks.Ranks({f"tests.{item.module.__name__}" for item in request.session.items if _needs_ranks(item)})
    yield pool
    pool.close()


def pytest_collection_finish():
    """What is there before the first test stays, and is not looked through for garbage again and again.

    Nor is what tests make, nearly all of which is gone when its last user is: to look every 700 objects takes 4%.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_collection_modifyitems(items):
    """What needs the two ranks comes first, so that of several workers one runs it; what takes long comes next."""
    items.sort(key=lambda item: (not _needs_ranks(item), item.get_closest_marker("slow") is None))


@pytest.fixture
def public_data():
    """The folder of public test data, which is not part of the repository."""
    folder = os.environ.get("TORCH_AP_TEST_DATA")
    if not folder:
        pytest.skip("TORCH_AP_TEST_DATA does not name the folder of public test data")
    return pathlib.Path(folder)
