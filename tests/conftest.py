"""What all tests share: drawing rankings with ties, and skipping what needs an accelerator."""

import os
import pathlib

import pytest
import torch
from hypothesis import settings

settings.register_profile("here", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("here")


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(20040826)


@pytest.fixture
def public_data():
    """The folder of public test data, which is not part of the repository."""
    folder = os.environ.get("TORCH_AP_TEST_DATA")
    if not folder:
        pytest.skip("TORCH_AP_TEST_DATA does not name the folder of public test data")
    return pathlib.Path(folder)
