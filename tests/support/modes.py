"""Helpers for the tests of modes: bitwise comparison and the life cycle of a metric."""

import dataclasses
import warnings

import torch


def same(value, expected, dtype=True):
    """Assert that nested results are bitwise equal, NaN included; ``dtype=False`` casts to the expected dtype."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(value, torch.Tensor)
        if not dtype:
            value = value.to(expected.dtype)
        assert not value.requires_grad
        same_tensor(value, expected)
    elif isinstance(expected, dict):
        assert value.keys() == expected.keys()
        for name, x in expected.items():
            same(value[name], x, dtype)
    elif isinstance(expected, list | tuple):
        assert len(value) == len(expected)
        for x, y in zip(value, expected, strict=True):
            same(x, y, dtype)
    elif dataclasses.is_dataclass(expected):
        same(vars(value), vars(expected), dtype)
    else:
        assert value == expected or (value != value and expected != expected)


def same_tensor(value, expected):
    """Assert that two tensors are bitwise equal, thirty times as fast as ``assert_close`` when they are."""
    if value.dtype == expected.dtype and value.device == expected.device:
        if torch.equal(value, expected):
            return
        missing = value.isnan()
        if torch.equal(missing, expected.isnan()) and torch.equal(value[~missing], expected[~missing]):
            return
    torch.testing.assert_close(value, expected, rtol=0, atol=0, equal_nan=True)


def life(metric, batches):
    """Return the results of ``update``, ``compute`` and ``forward`` in turn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # small samples lack positives
        metric.update(**batches[0])
        first = metric.compute()
        batch = metric(**batches[1])
        return first, batch, metric.compute()


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*args, **kwargs)


GIVEN_ONCE = {"_rows_unseen", "_warned_of_two_scores"}  # flags of warnings that a metric gives once in its lifetime


def not_reset(metric, new):
    """Return the attributes of a reset metric that differ from `new`, their values before the first use."""
    known = {*metric._defaults, *GIVEN_ONCE}
    new = {name: getattr(type(metric), name, None) for name in vars(metric)} | new
    return {name for name, x in vars(metric).items() if name not in known and x is not new[name]}
