"""Images in the usual form, whose columns are joined before each value is checked: the same columns and messages."""

import warnings

import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import random_scene
from torch_ap.detection.inputs import rules
from torch_ap.detection.rules.coco_numbers import default_settings

CHANGES = {
    "none": lambda x: x,
    "double": lambda x: x.double(),
    "half": lambda x: x.half(),
    "int64": lambda x: x.long(),
    "uint8": lambda x: x.to(torch.uint8),
    "bool": lambda x: x.bool(),
    "complex": lambda x: x.to(torch.complex64),
    "list": lambda x: x.tolist(),
    "0-d": lambda x: x.sum(),
    "shorter": lambda x: x[:-1],
    "empty": lambda x: x.new_empty(0, dtype=torch.float32),
    "empty (0, 7)": lambda x: x.new_empty(0, 7, dtype=torch.int32),
    "flat": lambda x: x.reshape(-1),
    "column": lambda x: x[..., None],
    "twice": lambda x: x.repeat(2, 1),
    "nan": lambda x: x * torch.nan,
    "2": lambda x: x * 0 + 2,
    "gradient": lambda x: x.float().requires_grad_(),
    "parameter": lambda x: torch.nn.Parameter(x.float()),
    "view": lambda x: x.flip(0),
}


def result(preds, target, check_values, copy):
    """Return the columns, or the message of the error."""
    inputs = default_settings("bbox").inputs
    object.__setattr__(inputs, "check_values", check_values)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return inputs.validate(preds, target, copy=copy)[0]
    except ValueError as error:
        return str(error)
    finally:
        object.__setattr__(inputs, "check_values", True)


@each("change", CHANGES)
@pytest.mark.parametrize("check_values", [True, False])
@pytest.mark.parametrize(("count", "copy"), [(4, True), (1, False)])
def test_columns_and_messages_are_those_of_the_checks_of_each_value(change, check_values, count, copy, monkeypatch):
    cases = [(side, key, at) for side in (0, 1) for key in ("boxes", "labels", "scores", "iscrowd") for at in (0, -1)]
    for side, key, at in cases:
        images = random_scene(12, images=count)
        if key not in images[side][at]:
            continue
        changed = change(images[side][at][key])
        images[side][at][key] = changed
        usual = result(*images, check_values, copy)
        with monkeypatch.context() as patch:
            patch.setattr(rules, "join_usual", lambda *_, **__: None)
            expected = result(*images, check_values, copy)
        if isinstance(expected, str):
            assert usual == expected
            continue
        assert usual.keys() == expected.keys()
        for name, column in usual.items():
            assert column.dtype == expected[name].dtype, name
            assert not column.requires_grad
            assert torch.equal(column.nan_to_num(-1), expected[name].nan_to_num(-1)), name
