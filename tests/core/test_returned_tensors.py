"""Tensors that methods return: writing into them changes neither the metric nor its later results."""

import dataclasses
import warnings

import torch

from tests.support.each import each
from tests.support.every_metric import METRICS

IMAGES = {name: row for name, row in METRICS.items() if row.kind == "images"}
METHODS = {
    "compute": (),
    "curve": ("threshold",),
    "operating_points": ("threshold",),
    "confusion_matrix": ("threshold",),
    "per_class": (),
    "per_image": (),
    "per_slice": ({"first": [10, 11], "second": [12]},),
    "per_threshold": (),
    "detections_table": (),
    "errors": (),
    "lrp": (),
}
OF_SHAPES = {name: lambda metric: metric._has_errors for name in ("detections_table", "errors", "lrp")}
OF_SHAPES["confusion_matrix"] = lambda metric: metric._keeps_shapes and not getattr(metric, "hierarchy", None)


def tensors(found):
    """Return all tensors in a result."""
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, dict | list | tuple):
        for part in found.values() if isinstance(found, dict) else found:
            yield from tensors(part)
    elif dataclasses.is_dataclass(found):
        yield from tensors(vars(found))


def overwrite(x):
    if x.dtype == torch.bool:
        x.logical_not_()
    else:
        x.fill_(77)


@each("name", list(IMAGES))
def test_writing_into_results_changes_no_metric(name):
    row = IMAGES[name]
    metric = row.new(compute_with_cache=False)  # torchmetrics caches the tensor that it returned
    (batch,) = row.batches(1)
    metric.update(**batch, sample_ids=torch.tensor([10, 11, 12]))
    threshold, called = metric._settings.thresholds[0], set()
    value = [x.clone() for x in tensors(metric.compute())]
    for method, given in METHODS.items():
        if not hasattr(metric, method):
            continue
        arguments = [threshold if x == "threshold" else x for x in given]

        def call(of=method, arguments=arguments):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                return getattr(metric, of)(*arguments)

        if method in OF_SHAPES and not OF_SHAPES[method](metric):
            continue
        found = list(tensors(call()))
        before = [x.clone() for x in found]
        for x in found:
            overwrite(x)
        for of, old in ((metric.compute, value), (call, before)):
            new = list(tensors(of()))
            assert len(new) == len(old)
            for one, other in zip(new, old, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True, msg=method)
        called.add(method)
    assert len(called) >= 5
