"""What the tests of modes share: the same values to the bit, and how a metric is run through its life."""

import dataclasses
import warnings

import torch


def same(value, expected, dtype=True):
    """Nested results are equal, NaN to NaN, to the last bit; with ``dtype=False`` after a cast to what is expected."""
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
    """To the last bit; ``assert_close``, which says where not, takes thirty times as long to see that it is so."""
    if value.dtype == expected.dtype and value.device == expected.device:
        if torch.equal(value, expected):
            return
        missing = value.isnan()
        if torch.equal(missing, expected.isnan()) and torch.equal(value[~missing], expected[~missing]):
            return
    torch.testing.assert_close(value, expected, rtol=0, atol=0, equal_nan=True)


def life(metric, batches):
    """What ``update``, ``compute`` and ``forward`` give, one after the other."""
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


GIVEN_ONCE = {"_rows_unseen"}  # a warning that a metric gives once, whatever it is used for


def not_reset(metric, new):
    """The attributes of a metric that was reset which are not what they were, `new`, before it was first used."""
    known = {*metric._defaults, *GIVEN_ONCE}
    new = {name: getattr(type(metric), name, None) for name in vars(metric)} | new
    return {name for name, x in vars(metric).items() if name not in known and x is not new[name]}
