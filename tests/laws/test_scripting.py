"""``torch.jit.script`` skips metrics, as it skips torchmetrics' own, and scripts modules that contain them."""

import functools
import inspect

import pytest
import torch
from lightning.pytorch import LightningModule
from torchmetrics import MetricCollection

from tests.support.every_metric import METRICS, one_by, updated
from tests.support.modes import life, same

pytestmark = [
    pytest.mark.no_cover,
    pytest.mark.filterwarnings("ignore:.*TorchScript:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*to_torchscript.*"),
    pytest.mark.filterwarnings(
        "ignore:.*Metric.updated_called:DeprecationWarning"
    ),  # torchmetrics' own class warns too
]
each_update = pytest.mark.parametrize("name", [*one_by(METRICS, updated), "binary_64_bins", "binary_weighted_learnt"])


@pytest.fixture(scope="module", autouse=True)
def _sources_are_read_once():
    """Cache the source lines: scripting reads the same classes repeatedly, which takes most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "getsourcelines", functools.cache(inspect.getsourcelines))
        yield


class Model(LightningModule):
    def __init__(self, metric):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.metric = metric
        self.metrics = MetricCollection({"one": metric.clone()})

    def forward(self, x):
        return self.layer(x)


@each_update
def test_a_metric_and_its_module_are_scripted(name):
    row = METRICS[name]
    metric = row.new()
    life(metric, row.batches(2))
    torch.jit.script(metric)
    model, x = Model(metric), torch.ones(1, 2)
    same(model.to_torchscript()(x).detach(), model(x).detach())
    same(metric.compute(), life(row.new(), row.batches(2))[2])


@pytest.mark.parametrize("metric", list({type(row.new()): None for row in METRICS.values()}))
def test_no_property_is_scripted(metric):
    """Metrics list all properties as unused, also those of subclasses.

    Scripting reads every property outside this list.
    """
    properties = {name for base in metric.__mro__ for name, x in vars(base).items() if isinstance(x, property)}
    assert properties <= set(metric.__jit_unused_properties__)

    class Later(metric):
        @property
        def later(self):
            return dict.fromkeys("ab", 1)  # a property that cannot be scripted

    assert "later" in Later.__jit_unused_properties__
