"""Containers and wrappers of torchmetrics, and fixes of its base class."""

import inspect
import warnings

import matplotlib
import pytest
import torch
import torchmetrics
from torchmetrics import ClasswiseWrapper, MetricCollection, MetricTracker
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC
from torchmetrics.utilities.exceptions import TorchMetricsUserError
from torchmetrics.wrappers import BootStrapper

import torch_ap
from torch_ap.core.base import tensors
from torch_ap.functional import binary_average_precision, multiclass_average_precision

matplotlib.use("Agg")


@pytest.fixture
def batches(generator):
    return [(torch.rand(20, generator=generator), torch.randint(2, (20,), generator=generator)) for _ in range(4)]


def two_of_it(tensor, group=None):  # noqa: ARG001
    """Gather over two ranks with equal tensors."""
    return [tensor, tensor]


def whole(batches):
    return [torch.cat(x) for x in zip(*batches, strict=True)]


class TestCollection:
    def test_conventions_share_one_state(self, batches):
        collection = MetricCollection(
            {
                "ap": torch_ap.BinaryAveragePrecision(),
                "ap_expected": torch_ap.BinaryAveragePrecision(ties="expected"),
                "ap_at_5": torch_ap.BinaryAveragePrecision(top_k=5),
                "accuracy": BinaryAccuracy(),
                "auroc": BinaryAUROC(),
            }
        )
        for preds, target in batches:
            collection.update(preds, target)
        groups = {frozenset(group) for group in collection.compute_groups.values()}
        assert frozenset({"ap", "ap_expected", "ap_at_5"}) in groups
        assert len(groups) == 3
        values = collection.compute()
        assert values["ap"] == binary_average_precision(*whole(batches))
        assert values["ap_expected"] == binary_average_precision(*whole(batches), ties="expected")
        assert values["ap_at_5"] == binary_average_precision(*whole(batches), top_k=5)
        collection.reset()
        collection.update(*batches[0])
        assert collection.compute()["ap"] == binary_average_precision(*batches[0])

    def test_other_settings_share_nothing(self):
        """All states are equal after this first update, but not after later ones."""
        collection = MetricCollection(
            {
                "plain": torch_ap.BinaryAveragePrecision(),
                "ignoring": torch_ap.BinaryAveragePrecision(ignore_index=0),
                "other": torch_ap.BinaryAveragePrecision(ignore_index=-1),
            }
        )
        preds = torch.rand(5)
        collection.update(preds, torch.ones(5, dtype=torch.int64))
        assert len(collection.compute_groups) == 3

    @pytest.mark.parametrize("thresholds", [None, 5])
    def test_weights_that_a_member_of_the_group_cannot_take(self, batches, thresholds):
        """After the first update only the first member of a group checks; the others raise at compute."""
        names = {"a": {}, "at_3": {"top_k": 3}}
        metrics = {name: torch_ap.BinaryAveragePrecision(thresholds, **given) for name, given in names.items()}
        collection = MetricCollection(metrics)
        collection.update(*batches[0])
        assert len(collection.compute_groups) == 1
        collection.reset()
        collection.update(*batches[0], weights=torch.rand(20))
        with pytest.raises(ValueError, match="`weights` require `top_k=None`"):
            collection["at_3"].compute()
        assert 0 < collection["a"].compute() < 1

    def test_checked_and_unchecked_metrics_share_nothing(self, batches):
        checked, unchecked = (torch_ap.BinaryAveragePrecision(validate_args=validate) for validate in (True, False))
        collection = MetricCollection({"checked": checked, "unchecked": unchecked})
        collection.update(*batches[0])
        assert len(collection.compute_groups) == 2

    def test_forward_then_update(self, batches):
        collection = MetricCollection([torch_ap.BinaryAveragePrecision()])
        twin = MetricCollection({"a": torch_ap.BinaryAveragePrecision(), "b": torch_ap.BinaryAveragePrecision(top_k=3)})
        for preds, target in batches[:2]:
            value = collection(preds, target)["BinaryAveragePrecision"]
            assert value == binary_average_precision(preds, target)
            twin(preds, target)
        for preds, target in batches[2:]:
            collection.update(preds=preds, target=target)
            twin.update(preds, target)
        assert collection.compute()["BinaryAveragePrecision"] == binary_average_precision(*whole(batches))
        assert twin.compute()["a"] == binary_average_precision(*whole(batches))
        assert twin.compute()["b"] == binary_average_precision(*whole(batches), top_k=3)
        twin(*batches[0])  # states were shared; each member must add the batch once
        assert twin.compute()["a"] == binary_average_precision(*whole([*batches, batches[0]]))

    def test_weights_reach_the_metrics_that_take_them(self, batches):
        collection = MetricCollection([torch_ap.BinaryAveragePrecision(), BinaryAccuracy()])
        weights = torch.rand(20)
        collection.update(preds=batches[0][0], target=batches[0][1], weights=weights)
        assert collection.compute()["BinaryAveragePrecision"] == binary_average_precision(*batches[0], weights=weights)


class TestWrappers:
    def test_tracker(self, batches):
        tracker = MetricTracker(torch_ap.BinaryAveragePrecision(), maximize=None)
        for preds, target in batches:
            tracker.increment()
            tracker.update(preds, target)
        values = [binary_average_precision(*batch).item() for batch in batches]
        best, step = tracker.best_metric(return_step=True)
        assert best == pytest.approx(max(values))
        assert step == values.index(max(values))
        assert tracker.compute_all().tolist() == pytest.approx(values)

    def test_classwise(self, generator):
        preds, target = torch.rand(30, 3, generator=generator), torch.randint(3, (30,), generator=generator)
        metric = ClasswiseWrapper(torch_ap.MulticlassAveragePrecision(3, average=None), labels=["a", "b", "c"])
        metric.update(preds, target)
        each = multiclass_average_precision(preds, target, 3, None)
        assert list(metric.compute().values()) == each.tolist()
        assert list(metric.compute()) == [f"multiclassaverageprecision_{name}" for name in "abc"]

    def test_bootstrapper(self, batches):
        torch.manual_seed(0)
        wrapper = BootStrapper(torch_ap.BinaryAveragePrecision(), num_bootstraps=50)
        for preds, target in batches:
            wrapper.update(preds, target)
        values = wrapper.compute()
        assert values["mean"].item() == pytest.approx(
            binary_average_precision(*whole(batches)).item(),
            abs=3 * values["std"].item(),  # 3 standard errors
        )
        assert values["std"] > 0

    def test_composition(self, batches):
        half = torch_ap.BinaryAveragePrecision() / 2
        half.update(*batches[0])
        assert half.compute() == binary_average_precision(*batches[0]) / 2


class TestBase:
    def test_drop_in_attributes(self):
        for name in ("BinaryAveragePrecision", "MulticlassAveragePrecision", "MultilabelAveragePrecision"):
            ours, theirs = getattr(torch_ap, name), getattr(torchmetrics.classification, name)
            for attribute in ("is_differentiable", "higher_is_better", "full_state_update", "plot_lower_bound"):
                assert getattr(ours, attribute) == getattr(theirs, attribute)
            assert ours.plot_legend_name == theirs.plot_legend_name
            shared = [p for p in inspect.signature(theirs).parameters if p != "kwargs"]
            assert [p for p in inspect.signature(ours).parameters if p in shared] == shared

    def test_settings_can_be_read(self):
        metric = torch_ap.MulticlassAveragePrecision(4, "none", [0.5], -1, False, "softmax")
        assert (metric.num_classes, metric.average, metric.ignore_index) == (4, "none", -1)
        assert (metric.validate_args, metric.normalization, metric.thresholds.tolist()) == (False, "softmax", [0.5])
        assert torch_ap.MultilabelAveragePrecision(3).num_labels == 3
        with pytest.raises(AttributeError):
            metric.average = "macro"
        assert repr(torch_ap.BinaryAveragePrecision(top_k=3, ties="expected")) == (
            "BinaryAveragePrecision(thresholds=None, normalization=None, top_k=3, ties='expected')"
        )
        assert repr(torch_ap.BinaryAveragePrecision()) == "BinaryAveragePrecision(thresholds=None, normalization=None)"

    def test_states_keep_the_dtype_of_scores(self, generator):
        preds, target = torch.rand(1000, generator=generator), torch.randint(2, (1000,), generator=generator)
        for dtype, size in ((torch.float32, 5), (torch.bfloat16, 3), (torch.float64, 9)):
            metric = torch_ap.BinaryAveragePrecision()
            metric.update(preds.to(dtype), target)
            lists = [x for name in ("scores", "targets", "weights") for x in getattr(metric, name)]
            assert sum(x.numel() * x.element_size() for x in lists) == size * 1000
            assert metric.scores[0].dtype == dtype

    @pytest.mark.parametrize(("classes", "dtype"), [(255, torch.uint8), (256, torch.int16), (40_000, torch.int32)])
    def test_class_ids_are_narrow(self, classes, dtype):
        metric = torch_ap.MulticlassAveragePrecision(classes, ignore_index=-1, average="weighted")
        metric.update(torch.eye(2, classes), torch.tensor([0, classes - 1]))
        metric.update(torch.eye(1, classes), torch.tensor([-1]))
        assert metric.targets[0].dtype == dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert metric.compute().item() == pytest.approx(0.75)

    def test_synced_metric_refuses_forward(self, batches):
        metric = torch_ap.BinaryAveragePrecision(sync_on_compute=False)
        metric.update(*batches[0])
        metric.sync(dist_sync_fn=two_of_it, distributed_available=lambda: True)
        assert sum(map(len, metric.scores)) == 40
        with pytest.raises(TorchMetricsUserError, match="synced"):
            metric(*batches[1])
        assert metric.compute() == binary_average_precision(*whole([batches[0], batches[0]]))
        assert sum(map(len, metric.scores)) == 20, "torchmetrics' compute brings the local state back"
        metric.update(*batches[1])
        assert metric.compute() == binary_average_precision(*whole(batches[:2]))

    def test_synced_metric_can_be_reset(self, batches):
        metric = torch_ap.BinaryAveragePrecision()
        metric.update(*batches[0])
        metric.sync(dist_sync_fn=two_of_it, distributed_available=lambda: True)
        metric.reset()
        metric.update(*batches[1])
        assert metric.compute() == binary_average_precision(*batches[1])

    def test_forward_can_sync_on_each_step(self, batches):
        settings = {
            "dist_sync_on_step": True,
            "dist_sync_fn": two_of_it,
            "distributed_available_fn": lambda: True,
        }
        metric = torch_ap.BinaryAveragePrecision(**settings)
        for batch in batches:
            assert metric(*batch) == binary_average_precision(*whole([batch, batch]))
        assert metric.compute() == binary_average_precision(*whole([*batches, *batches]))
        assert sum(map(len, metric.scores)) == 80

    def test_forward_works_in_inference_mode_and_without(self, batches):
        metric = torch_ap.BinaryAveragePrecision()
        with torch.inference_mode():
            metric(*batches[0])
        metric(*batches[1])
        metric.update(*batches[2])
        assert metric.compute() == binary_average_precision(*whole(batches[:3]))

    def test_set_dtype(self, batches):
        metric = torch_ap.BinaryAveragePrecision()
        metric.update(*batches[0])
        assert metric.compute().dtype == torch.float32
        assert metric.set_dtype("torch.float64").compute().dtype == torch.float64
        assert metric.to("cpu").compute().dtype == torch.float64
        assert metric.set_dtype(torch.float16).compute().dtype == torch.float32
        with pytest.raises(ValueError, match="`dst_type`"):
            metric.set_dtype(torch.int64)

    def test_unvalidated_update_looks_at_no_value(self):
        metric = torch_ap.BinaryAveragePrecision(validate_args=False)
        metric.update(torch.tensor([0.5, 0.1]), torch.tensor([7, 0]))
        with pytest.raises(ValueError, match=r"`preds` and `target` .*shape, got \(2,\) and \(3,\)"):
            metric.update(torch.rand(2), torch.rand(3).long())

    def test_loading_a_state_counts_as_an_update(self, batches):
        metric = torch_ap.BinaryAveragePrecision()
        metric.persistent(True)
        metric.update(*batches[0])
        other = torch_ap.BinaryAveragePrecision()
        with pytest.warns(UserWarning, match="before"):
            assert other.compute().isnan()
        other.load_state_dict(metric.state_dict())
        assert other.compute() == metric.compute()

    def test_unknown_keyword(self):
        with pytest.raises(ValueError, match="`threshold`"):
            torch_ap.BinaryAveragePrecision(threshold=3)

    def test_plot(self, generator):
        metric = torch_ap.MulticlassAveragePrecision(3, average=None)
        values = [
            metric(torch.rand(30, 3, generator=generator), torch.randint(3, (30,), generator=generator))
            for _ in range(2)
        ]
        _, axis = metric.plot()
        assert axis.get_ylim()[1] >= 1
        _, axis = metric.plot(values)
        assert len(axis.lines) >= 3
        matplotlib.pyplot.close("all")

    def test_forward_does_not_copy_the_state(self, batches):
        """Forward keeps the stored tensors, without copies.

        The cost of a step does not grow with the state.
        """
        metric = torch_ap.BinaryAveragePrecision()
        metric(*batches[0])
        held = metric.scores[0]
        metric(*batches[1])
        assert metric.scores[0] is held


class TestAccelerator:
    """Values on an accelerator, emulated: flags stay on the device and raise at compute."""

    def test_flags_name_the_first_bad_update(self, batches):
        metric = torch_ap.BinaryAveragePrecision()
        for broken in (None, 1, 0):
            metric.update(*batches[0])
            flags = torch.arange(len(tensors.VALUE_RULES)) == (-1 if broken is None else broken)
            metric.first_violation = metric._violations_after(flags, metric.update_count)
        with pytest.raises(ValueError, match=r"`target` .*from 0 to 1 .* update 2"):
            metric.compute()
        metric.reset()
        metric.update(*batches[0])
        assert metric.compute() == binary_average_precision(*batches[0])

    def test_flags_are_merged(self, batches):
        good, bad = torch_ap.BinaryAveragePrecision(), torch_ap.BinaryAveragePrecision()
        for metric in (good, bad):
            metric.update(*batches[0])
        bad.first_violation = bad._violations_after(torch.arange(len(tensors.VALUE_RULES)) == 0, 1)
        good.merge_state(bad)
        with pytest.raises(ValueError, match=r"`preds` .*NaN"):
            good.compute()
