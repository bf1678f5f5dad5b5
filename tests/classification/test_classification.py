"""The classification functions and classes against scikit-learn and torchmetrics, and invalid input."""

import re
import warnings

import pytest
import torch
import torchmetrics
import torchmetrics.functional.classification as theirs
from sklearn.metrics import average_precision_score
from sklearn.metrics import precision_recall_curve as sklearn_curve
from torchmetrics import classification as their_classes

import torch_ap
from tests.support.tolerances import FEW_TERMS, REORDERED, SINGLE
from torch_ap import curves
from torch_ap import functional as ours
from torch_ap.core.items.settings import APSettings, inputs_and_bins
from torch_ap.curves import hit_curve

SIZES = [10, 100, 3000]
OLD_TORCHMETRICS = torchmetrics.__version__ < "1.8"  # it returned 0 for 0 / 0 at thresholds


def sample(n, columns, generator, steps=None):
    """Draw probabilities that depend on the target; ``steps`` makes ties."""
    shape = (n, columns) if columns else (n,)
    target = (torch.rand(shape, generator=generator) < 0.3).long()
    target[0] = 1
    preds = torch.sigmoid(torch.randn(shape, generator=generator) + target)
    return (preds if steps is None else (preds * steps).round() / steps), target


@pytest.mark.parametrize("steps", [None, 8])
@pytest.mark.parametrize("n", SIZES)
class TestPeers:
    def test_binary(self, n, steps, generator):
        preds, target = sample(n, None, generator, steps)
        weights = torch.rand(n, generator=generator)
        value = ours.binary_average_precision(preds, target, dtype=torch.float64).item()
        assert value == pytest.approx(average_precision_score(target, preds), abs=FEW_TERMS)
        assert value == pytest.approx(theirs.binary_average_precision(preds, target).item(), abs=SINGLE)
        weighted = ours.binary_average_precision(preds, target, weights=weights, dtype=torch.float64).item()
        assert weighted == pytest.approx(average_precision_score(target, preds, sample_weight=weights), abs=REORDERED)

    @pytest.mark.parametrize("average", ["macro", "weighted", None])
    def test_multiclass(self, n, steps, average, generator):
        preds = torch.softmax(torch.randn(n, 6, generator=generator), 1)
        preds = preds if steps is None else (preds * steps).round() / steps
        target = torch.randint(6, (n,), generator=generator)
        target[:6] = torch.arange(6)
        one_hot = torch.nn.functional.one_hot(target, 6)
        value = ours.multiclass_average_precision(preds, target, 6, average, dtype=torch.float64)
        expected = torch.tensor(average_precision_score(one_hot, preds, average=average), dtype=torch.float64)
        torch.testing.assert_close(value, expected, rtol=0, atol=FEW_TERMS)
        peer = theirs.multiclass_average_precision(preds, target, 6, average)
        torch.testing.assert_close(value.float(), peer, rtol=0, atol=SINGLE)

    @pytest.mark.parametrize("average", ["macro", "weighted", "micro", None])
    def test_multilabel(self, n, steps, average, generator):
        preds, target = sample(n, 5, generator, steps)
        weights = torch.rand(n, generator=generator).double()  # scikit-learn sums float32 weights in float32
        value = ours.multilabel_average_precision(preds, target, 5, average, dtype=torch.float64)
        expected = torch.tensor(
            average_precision_score(target.numpy(), preds.numpy(), average=average), dtype=torch.float64
        )
        torch.testing.assert_close(value, expected, rtol=0, atol=FEW_TERMS)
        peer = theirs.multilabel_average_precision(preds, target, 5, average)
        torch.testing.assert_close(value.float(), peer, rtol=0, atol=SINGLE)
        weighted = ours.multilabel_average_precision(preds, target, 5, average, weights=weights, dtype=torch.float64)
        expected = torch.tensor(
            average_precision_score(target.numpy(), preds.numpy(), average=average, sample_weight=weights.numpy()),
            dtype=torch.float64,
        )
        torch.testing.assert_close(weighted, expected, rtol=0, atol=REORDERED)
        each = weights[:, None].expand(n, 5)
        again = ours.multilabel_average_precision(preds, target, 5, average, weights=each, dtype=torch.float64)
        assert torch.equal(again, weighted)

    @pytest.mark.parametrize("thresholds", [2, 11, 200, [0.3, 0.5, 0.9], torch.tensor([0.9, 0.1])])
    def test_thresholds(self, n, steps, thresholds, generator):
        preds, target = sample(n, 5, generator, steps)
        classes = torch.randint(5, (n,), generator=generator)
        classes[:5] = torch.arange(5)
        # torchmetrics keeps the order of a tensor of thresholds, and is wrong unless it ascends
        their_thresholds = thresholds.sort().values if isinstance(thresholds, torch.Tensor) else thresholds
        for name, args in {
            "binary_average_precision": (preds[:, 0], target[:, 0]),
            "multiclass_average_precision": (preds, classes, 5, None),
            "multilabel_average_precision": (preds, target, 5, None),
        }.items():
            value = getattr(ours, name)(*args, thresholds=thresholds)
            peer = getattr(theirs, name)(*args, thresholds=their_thresholds)
            torch.testing.assert_close(value, peer, rtol=0, atol=SINGLE)


@pytest.mark.parametrize("ignore_index", [-1, 0, 1])
def test_ignored_items_as_torchmetrics(ignore_index, generator):
    preds, target = sample(200, 4, generator)
    target[torch.rand(200, 4, generator=generator) < 0.2] = ignore_index
    target[:2] = torch.tensor([0, 1])[:, None] if ignore_index == -1 else 1 - ignore_index
    args = {"ignore_index": ignore_index}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for average in ("macro", "micro", None):
            value = ours.multilabel_average_precision(preds, target, 4, average, **args)
            peer = theirs.multilabel_average_precision(preds, target, 4, average, **args)
            torch.testing.assert_close(value, peer, rtol=0, atol=SINGLE)
        value = ours.binary_average_precision(preds, target, **args)
        torch.testing.assert_close(value, theirs.binary_average_precision(preds, target, **args), rtol=0, atol=SINGLE)


def test_several_values_of_ignore_index_as_one(generator):
    preds, labels = torch.rand(60, 4, generator=generator), torch.randint(-1, 4, (60,), generator=generator)
    single = labels.masked_fill((labels == 0) | (labels == 2), -1)
    target = labels.clamp(max=1).masked_fill(labels == 3, 255)
    function, skip = ours.multiclass_average_precision, {"empty_target_action": "skip"}
    for values in ([-1, 0, 2], (2, 0, -1, 2)):
        several = function(preds, labels, 4, ignore_index=values, **skip)
        assert several == function(preds, single, 4, ignore_index=-1, **skip)
    for function in (ours.binary_average_precision, ours.binary_curve, ours.binary_precision_recall_curve, hit_curve):
        several, kept = function(preds[:, 0], target, ignore_index=[255, -1]), (target >= 0) & (target < 2)
        assert str(several) == str(function(preds[kept, 0], target[kept]))
    metric = torch_ap.BinaryAveragePrecision(ignore_index=[255, -1])
    metric.update(preds[:, 0], target)
    loaded = torch_ap.load(metric.to_bytes())
    assert (loaded.ignore_index, loaded.compute()) == ((-1, 255), metric.compute())
    assert ours.binary_average_precision(preds[:, 0], target, ignore_index=[0, -1, 255]) == 1
    for values, stored in ([], None), ([7, 7], 7), (range(2, 4), (2, 3)):
        assert torch_ap.BinaryAveragePrecision(ignore_index=values).ignore_index == stored


class TestPositivesWithoutScore:
    @pytest.mark.parametrize("n", [5, 60, 3000])
    def test_as_in_retrieval(self, n, generator):
        preds, target = torch.randint(n, (n,), generator=generator).double(), (torch.arange(n) % 3 == 0).long()
        options = [{"ties": ties} for ties in ("grouped", "expected", "optimistic", "pessimistic")]
        options += [{"top_k": 3, "denominator": x} for x in ("min", "relevant", "found")]
        options += [{"interpolation": x} for x in ("11-point", "101-point", "all-points")]
        for more in options:
            more = {"ties": "grouped", **more}
            value = ours.binary_average_precision(preds, target, num_relevant=n + 7, **more)
            peer = ours.retrieval_average_precision(preds, target, num_relevant=n + 7, **more)
            torch.testing.assert_close(value, peer.double(), rtol=0, atol=SINGLE)
            metric = torch_ap.BinaryAveragePrecision(num_relevant=n + 7, **more)
            for batch in zip(preds.split(20), target.split(20), strict=True):
                metric.update(*batch)
            assert metric.compute() == value == metric.curve().average_precision
            assert torch_ap.load(metric.to_bytes()).compute() == value

    def test_average_precision_times_share_of_scored_positives(self, generator):
        """For each column, and within the bounds of bins."""
        preds, target = sample(200, 3, generator)
        share = torch.tensor([0.5, 1.0, 0.25])
        counts = (target.sum(0) / share).long().tolist()
        for task in ("multilabel", "multiclass"):
            labels = target if task == "multilabel" else torch.arange(200) % 3
            function = getattr(ours, f"{task}_average_precision")
            every = [round(float(x)) for x in torch.bincount(torch.arange(200) % 3) / share]
            each = function(preds, labels, 3, None, num_relevant=counts if task == "multilabel" else every)
            scored = function(preds, labels, 3, None)
            torch.testing.assert_close(each, scored * share, rtol=SINGLE, atol=SINGLE)
        total = int(target.sum()) * 2
        micro = ours.multilabel_average_precision(preds, target, 3, "micro", num_relevant=total)
        assert micro == ours.binary_average_precision(preds, target, num_relevant=total)
        metric = torch_ap.BinaryAveragePrecision(bins=1 << 12, tolerance=1.0, num_relevant=total)
        metric.update(preds, target)
        bounds = metric.bounds()
        assert bounds.low <= micro <= bounds.high
        assert bounds.estimate.float() == metric.compute()

    def test_corners(self):
        preds, target = torch.tensor([0.9, 0.1]), torch.tensor([0, 0])
        assert ours.binary_average_precision(preds, target, num_relevant=3) == 0
        assert ours.binary_average_precision(preds, target, num_relevant=0, empty_target_action="pos") == 1
        nothing = ours.binary_average_precision(preds[:0], target[:0], num_relevant=3, empty_target_action="nan")
        assert nothing.isnan()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"num_relevant": 1}, "`num_relevant` must be at least .*, 2, got 1"),
            ({"num_relevant": -1}, "`num_relevant` must be an int"),
            ({"num_relevant": [2]}, "`num_relevant` must be an int"),
            ({"num_relevant": 3, "prevalence": 0.5}, "`prevalence` must be None with `num_relevant`, got 0.5"),
            ({"num_relevant": 3, "weights": torch.ones(3)}, "`num_relevant` must be None with `weights`, got 3"),
        ],
    )
    def test_invalid(self, settings, message):
        preds, target = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1, 0, 1])
        with pytest.raises(ValueError, match=message):
            ours.binary_average_precision(preds, target, **settings)

    @pytest.mark.parametrize("counts", [3, [3], [3, 4, 5], [3, 0.5], "34"])
    def test_invalid_of_columns(self, counts):
        with pytest.raises(ValueError, match="`num_relevant` must be"):
            torch_ap.MultilabelAveragePrecision(2, num_relevant=counts)

    def test_no_inference(self):
        metric = torch_ap.BinaryAveragePrecision(num_relevant=3)
        metric.update(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1, 0, 1]))
        for method in (metric.confidence_interval, metric.chance_level, metric.summary):
            with pytest.raises(ValueError, match="`num_relevant` cannot be combined"):
                method()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int16])
@pytest.mark.parametrize("items", [30, 3000])
@pytest.mark.parametrize("ties", ["grouped", "expected", "optimistic", "pessimistic"])
def test_ignored_cells_leave_each_label_its_other_items(dtype, items, ties, generator):
    """Hits with the lowest of all scores do not tie with ignored items, and one label has no item at all."""
    lowest = -torch.inf if dtype.is_floating_point else torch.iinfo(dtype).min
    preds = torch.randint(0, 6, (items, 5), generator=generator).to(dtype)
    preds[torch.rand(items, 5, generator=generator) < 0.3] = lowest
    target = torch.randint(0, 2, (items, 5), generator=generator)
    target[torch.rand(items, 5, generator=generator) < 0.2] = -1
    target[:, 4] = -1
    args = {"ties": ties, "empty_target_action": "nan", "dtype": torch.float64}
    each = ours.multilabel_average_precision(preds, target, 5, None, ignore_index=-1, **args)
    for label in range(5):
        kept = target[:, label] >= 0
        alone = ours.binary_average_precision(preds[kept, label], target[kept, label], **args)
        torch.testing.assert_close(each[label], alone, rtol=0, atol=FEW_TERMS, equal_nan=True)


def test_nan_scores_of_ignored_items_do_not_matter():
    preds, target = torch.tensor([0.9, torch.nan, 0.1]), torch.tensor([1, -1, 0])
    assert ours.binary_average_precision(preds, target, ignore_index=-1) == 1


@pytest.mark.parametrize(
    ("ours_class", "theirs_class", "positional"),
    [
        (torch_ap.BinaryAveragePrecision, their_classes.BinaryAveragePrecision, (5, -1, False)),
        (torch_ap.MulticlassAveragePrecision, their_classes.MulticlassAveragePrecision, (3, "none", 5, -1, True)),
        (torch_ap.MultilabelAveragePrecision, their_classes.MultilabelAveragePrecision, (3, "micro", 5, -1, True)),
    ],
)
def test_positional_arguments_have_the_order_of_torchmetrics(ours_class, theirs_class, positional, generator):
    mine, peer = ours_class(*positional), theirs_class(*positional)
    preds, target = sample(50, None if ours_class is torch_ap.BinaryAveragePrecision else 3, generator)
    target = target.argmax(1) if ours_class is torch_ap.MulticlassAveragePrecision else target
    for metric in (mine, peer):
        metric.update(preds, target)
    torch.testing.assert_close(mine.compute(), peer.compute(), rtol=0, atol=SINGLE)


def test_logits_are_ranked_whole():
    """torchmetrics' sigmoid saturates: scores 18 to 25 become ties in float32 and lose half the value."""
    preds, target = torch.arange(18.0, 26.0), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    assert ours.binary_average_precision(preds, target) == 1
    assert ours.binary_average_precision(preds, target, normalization="sigmoid") < 0.9
    assert theirs.binary_average_precision(preds, target) < 0.9


def test_normalization_is_applied_to_every_batch_alike(generator):
    preds, target = torch.randn(40, generator=generator), torch.randint(2, (40,), generator=generator)
    metric = torch_ap.BinaryAveragePrecision(thresholds=9, normalization="sigmoid")
    for part in zip(preds.split(4), target.split(4), strict=True):
        metric.update(*part)
    assert metric.compute() == ours.binary_average_precision(preds.sigmoid(), target, thresholds=9)
    logits = torch.randn(40, 3, generator=generator)
    classes = torch.randint(3, (40,), generator=generator)
    value = ours.multiclass_average_precision(logits, classes, 3, normalization="softmax")
    assert value == ours.multiclass_average_precision(logits.softmax(1), classes, 3)


class TestUndefined:
    preds, nothing = torch.tensor([0.9, 0.1]), torch.tensor([0, 0])

    def test_binary_counts_0_with_a_warning_as_torchmetrics(self):
        with pytest.warns(UserWarning, match="No positive target"):
            value = ours.binary_average_precision(self.preds, self.nothing)
        assert value == 0
        assert not torch.signbit(value)

    @pytest.mark.parametrize(("action", "value"), [("neg", 0.0), ("pos", 1.0), ("nan", torch.nan), ("skip", torch.nan)])
    def test_binary_action(self, action, value):
        given = ours.binary_average_precision(self.preds, self.nothing, empty_target_action=action)
        torch.testing.assert_close(given, torch.tensor(value), equal_nan=True)

    def test_error(self):
        with pytest.raises(ValueError, match="`target` must contain a positive"):
            ours.binary_average_precision(self.preds, self.nothing, empty_target_action="error")
        metric = torch_ap.BinaryAveragePrecision(empty_target_action="error")
        metric.update(self.preds, self.nothing)
        with pytest.raises(ValueError, match="`target` must contain a positive"):
            metric.compute()

    @pytest.mark.parametrize("thresholds", [None, 5])
    def test_absent_class_is_left_out(self, thresholds):
        preds, target = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1]]), torch.tensor([0, 1])
        with pytest.warns(UserWarning, match="in class 2:"):
            each = ours.multiclass_average_precision(preds, target, 3, None, thresholds)
        assert each[2].isnan()
        args = (preds, target, 3, "macro", thresholds)
        for action, expected in {"skip": 1.0, "neg": 2 / 3, "pos": 1.0, "nan": torch.nan}.items():
            value = ours.multiclass_average_precision(*args, empty_target_action=action)
            torch.testing.assert_close(value, torch.tensor(expected), equal_nan=True)

    def test_label_without_items_is_nan_for_every_action(self):
        preds, target = torch.tensor([[0.9, 0.2], [0.1, 0.7]]), torch.tensor([[1, -1], [0, -1]])
        args = (preds, target, 2)
        each = ours.multilabel_average_precision(*args, None, ignore_index=-1, empty_target_action="neg")
        torch.testing.assert_close(each, torch.tensor([1.0, torch.nan]), equal_nan=True)
        for action in ("neg", "pos", "skip", "nan", "error"):
            assert ours.multilabel_average_precision(*args, ignore_index=-1, empty_target_action=action) == 1


def test_infinities_are_scores():
    preds, target = torch.tensor([torch.inf, torch.inf, 0.0, -torch.inf]), torch.tensor([1, 0, 1, 0])
    assert ours.binary_average_precision(preds, target).item() == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_half_precision_is_not_widened_into_ties_or_out_of_them():
    preds = torch.tensor([1.0, 1.001], dtype=torch.bfloat16)  # one value in bfloat16
    assert ours.binary_average_precision(preds, torch.tensor([1, 0])) == 0.5
    assert ours.binary_average_precision(preds.double() + torch.tensor([0, 1e-12]), torch.tensor([0, 1])) == 1


class TestWeights:
    def test_in_every_update_or_none(self):
        metric = torch_ap.BinaryAveragePrecision()
        preds, target, weights = torch.rand(4), torch.tensor([0, 1, 0, 1]), torch.rand(4)
        metric.update(preds, target, weights)
        with pytest.raises(ValueError, match=r"`weights` .*every update or in none"):
            metric.update(preds, target)
        other = torch_ap.BinaryAveragePrecision()
        other.update(preds, target)
        with pytest.raises(ValueError, match=r"`weights` .*`incoming_state`, or in neither"):
            metric.merge_state(other)
        metric.update(preds, target, weights=weights)
        assert metric.compute() == ours.binary_average_precision(
            torch.cat([preds, preds]), torch.cat([target, target]), weights=torch.cat([weights, weights])
        )

    @pytest.mark.parametrize("normal", [{}, {"ignore_index": -1}])
    def test_thresholds(self, normal, generator):
        preds, target = sample(60, None, generator, 8)
        weights = torch.rand(60, generator=generator)
        metric = torch_ap.BinaryAveragePrecision(thresholds=9, **normal)
        for part in zip(preds.split(20), target.split(20), weights.split(20), strict=True):
            metric.update(*part)
        assert metric.compute().item() == pytest.approx(
            average_precision_score(target, preds, sample_weight=weights), abs=SINGLE
        )

    def test_ignored_rows(self, generator):
        preds = torch.rand(30, 3, generator=generator)
        target = torch.randint(-1, 3, (30,), generator=generator)
        weights = torch.rand(30, generator=generator)
        kept = target >= 0
        value = ours.multiclass_average_precision(preds, target, 3, ignore_index=-1, weights=weights)
        assert value == ours.multiclass_average_precision(preds[kept], target[kept], 3, weights=weights[kept])
        labels = torch.randint(-1, 2, (30, 3), generator=generator)
        value = ours.multilabel_average_precision(preds, labels, 3, None, ignore_index=-1, weights=weights)
        for label in range(3):
            kept = labels[:, label] >= 0
            one = ours.binary_average_precision(preds[kept, label], labels[kept, label], weights=weights[kept])
            torch.testing.assert_close(value[label], one)

    @pytest.mark.parametrize("settings", [{"top_k": 3}, {"ties": "expected"}, {"ties": "optimistic"}])
    def test_refused_where_they_mean_nothing(self, settings):
        with pytest.raises(ValueError, match="`weights` require `top_k=None`"):
            ours.binary_average_precision(torch.rand(3), torch.tensor([1, 0, 1]), weights=torch.ones(3), **settings)

    @pytest.mark.parametrize("weights", [[-1.0, 1.0], [torch.nan, 1.0], [torch.inf, 1.0]])
    def test_bad_values(self, weights):
        with pytest.raises(ValueError, match=r"`weights` .*finite.* got .* at index 0"):
            ours.binary_average_precision(torch.rand(2), torch.tensor([1, 0]), weights=torch.tensor(weights))

    def test_bad_form(self):
        with pytest.raises(ValueError, match=r"`weights` .*shape \(2,\).* got \(3,\)"):
            ours.binary_average_precision(torch.rand(2), torch.tensor([1, 0]), weights=torch.ones(3))
        with pytest.raises(TypeError, match=r"`weights` .*tensor.* got list"):
            ours.binary_average_precision(torch.rand(2), torch.tensor([1, 0]), weights=[1.0, 1.0])


BAD_SETTINGS = [
    ({"top_k": 0}, "`top_k` must be an int of at least 1, 'relevant' or None, got 0"),
    ({"top_k": -1}, "`top_k`"),
    ({"top_k": True}, "`top_k` must be an int of at least 1, 'relevant' or None, got True"),
    ({"top_k": 2.0}, "`top_k`"),
    ({"denominator": "k"}, "`denominator` must be one of 'min', 'relevant', 'found', got 'k'"),
    ({"ties": "random"}, "`ties` must be one of"),
    ({"interpolation": "12-point"}, "`interpolation` must be one of"),
    ({"interpolation": torch.tensor([0.5, 1.5])}, "`interpolation` as a tensor must contain recall levels"),
    ({"interpolation": torch.tensor([[0.5]])}, "`interpolation` as a tensor must be 1-D"),
    ({"interpolation": "11-point", "top_k": 3}, "`top_k` cannot be combined with `interpolation`"),
    ({"interpolation": "11-point", "ties": "expected"}, "`interpolation` has no closed form"),
    ({"empty_target_action": "zero"}, "`empty_target_action` must be one of"),
    ({"normalization": "softmax"}, "`normalization` must be one of 'none', 'sigmoid', None, got 'softmax'"),
    ({"thresholds": 1}, "`thresholds` must be an int of at least 2, got 1"),
    ({"thresholds": True}, "`thresholds`"),
    ({"thresholds": []}, "`thresholds` as a list"),
    ({"thresholds": [0.1, float("nan")]}, "`thresholds` as a list"),
    ({"thresholds": torch.tensor([[0.1]])}, "`thresholds` as a tensor"),
    ({"thresholds": "5"}, "`thresholds` must be None"),
    ({"ignore_index": 1.0}, "`ignore_index` must be an int, a sequence of ints or None"),
    ({"ignore_index": [-1, 0.5]}, "`ignore_index` must be an int, a sequence of ints or None"),
    ({"ignore_index": "-1"}, "`ignore_index` must be an int, a sequence of ints or None"),
    ({"validate_args": 1}, "`validate_args` must be a bool"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS, ids=lambda x: str(x)[:40])
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ours.binary_average_precision(torch.rand(3), torch.tensor([1, 0, 1]), **settings)
    with pytest.raises(ValueError, match=re.escape(message)):
        torch_ap.BinaryAveragePrecision(**settings)


BAD_BATCHES = [
    (
        "binary",
        (torch.rand(3), torch.tensor([1, 0])),
        "`preds` and `target` must have the same shape, got (3,) and (2,)",
    ),
    ("binary", (torch.tensor(0.5), torch.tensor(1)), "at least one dimension"),
    ("binary", (torch.rand(2), torch.tensor([1, 2])), "`target` must contain integers from 0 to 1"),
    ("binary", (torch.rand(2), torch.tensor([1, 2])), "got 2 at index 1"),
    ("binary", (torch.rand(2), torch.tensor([1, -1])), "got -1 at index 1"),
    (
        "binary",
        (torch.rand(2), torch.rand(2)),
        "`target` must be an integer or bool tensor (see `target.long()`), got torch.float32",
    ),
    ("binary", (torch.tensor([0.5, torch.nan]), torch.tensor([1, 0])), "`preds` must not contain NaN, got nan at"),
    (
        "binary",
        (torch.rand(2) < 1, torch.tensor([1, 0])),
        "got torch.bool",
    ),
    ("multiclass", (torch.rand(2, 4), torch.tensor([1, 0])), "`preds` must have shape (N, 3, ...) for `num_classes=3`"),
    ("multiclass", (torch.rand(2, 3), torch.tensor([1, 3])), "`target` must contain integers from 0 to 2"),
    ("multiclass", (torch.rand(2, 3), torch.tensor([[1, 0, 0]] * 2)), "without its class dimension, (2,), got (2, 3)"),
    ("multilabel", (torch.rand(2, 3), torch.tensor([1, 0])), "must have the same shape"),
    (
        "multilabel",
        (torch.rand(2, 2), torch.ones(2, 2).int()),
        "`preds` must have shape (N, 3, ...) for `num_labels=3`",
    ),
]


@pytest.mark.parametrize(("task", "batch", "message"), BAD_BATCHES)
def test_bad_batches(task, batch, message):
    width = {"binary": {}, "multiclass": {"num_classes": 3}, "multilabel": {"num_labels": 3}}[task]
    with pytest.raises(ValueError, match=re.escape(message)):
        ours.average_precision(*batch, task, **width)


def test_scores_outside_0_to_1_with_a_number_of_thresholds():
    for preds in (torch.tensor([0.5, 2.0]), torch.tensor([-0.1, 0.5])):
        with pytest.raises(ValueError, match=r"`preds` .*`normalization='sigmoid'`"):
            ours.binary_average_precision(preds, torch.tensor([1, 0]), thresholds=5)
    assert ours.binary_average_precision(torch.tensor([2.0, -3.0]), torch.tensor([1, 0]), [-1.0, 1.0]) == 1


def test_meta_tensors_have_no_values():
    with pytest.raises(ValueError, match=r"`target` is a tensor on the meta device"):
        ours.binary_average_precision(torch.rand(2), torch.tensor([1, 0], device="meta"))


class TestCorners:
    """Inputs that once gave wrong values, or would if a step were done in another order."""

    def test_normalized_scores_are_checked_after_normalization(self):
        preds, target = torch.tensor([[torch.inf, 0.0, 0.0], [0.1, 0.2, 0.3]]), torch.tensor([0, 1])
        with pytest.raises(ValueError, match="`preds` must not contain NaN"):
            ours.multiclass_average_precision(preds, target, 3, normalization="softmax")
        assert ours.binary_average_precision(torch.tensor([3, -3]), torch.tensor([1, 0]), normalization="sigmoid") == 1
        whole = torch.tensor([[3, 1, 0], [0, 2, 1], [0, 0, 4]])
        assert ours.multiclass_average_precision(whole, torch.arange(3), 3, normalization="softmax") == 1

    @pytest.mark.parametrize("ignore_index", [-1, 256, -255, 2**70, (-1, 256, 2**70)])
    def test_ignore_index_does_not_wrap(self, ignore_index):
        preds, target = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1, 0, 1], dtype=torch.uint8)
        value = ours.binary_average_precision(preds, target, ignore_index=ignore_index)
        assert value == ours.binary_average_precision(preds, target)
        with pytest.raises(ValueError, match=r"`target` .*got 255 at index 0"):
            ours.binary_average_precision(preds, target + torch.tensor([254, 0, 0]).byte(), ignore_index=ignore_index)

    @pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.float8_e4m3fn, torch.complex64])
    def test_dtypes_that_torch_cannot_rank(self, dtype):
        with pytest.raises(ValueError, match=r"`preds` .*floating or integer"):
            ours.binary_average_precision(torch.ones(2).to(dtype), torch.tensor([1, 0]))

    @pytest.mark.parametrize("thresholds", [None, 5])
    def test_weights_of_ignored_items_do_not_matter(self, thresholds):
        preds, target = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1, -1, 0])
        weights = torch.tensor([1.0, torch.nan, 2.0])
        for validate in (True, False):
            args = (preds, target, thresholds, -1, validate)
            assert ours.binary_average_precision(*args, weights=weights) == 1

    def test_weights_of_one_column_do_not_blur_another(self):
        preds = torch.tensor([[0.4, 0.4], [0.3, 0.3], [0.2, 0.2], [0.1, 0.1]])
        target = torch.tensor([[1, 1], [0, 0], [1, 1], [0, 0]])
        weights = torch.tensor([[1e17, 1.0]] * 4, dtype=torch.float64)
        value = ours.multilabel_average_precision(preds, target, 2, None, weights=weights)
        torch.testing.assert_close(value, torch.full((2,), 5 / 6))

    @pytest.mark.parametrize("interpolation", ["11-point", "101-point", "all-points", "trapezoid"])
    def test_whole_weights_are_repeats(self, interpolation, generator):
        preds, target = sample(60, None, generator, 16)
        weights = torch.randint(1, 4, (60,), generator=generator)
        weighted = ours.binary_average_precision(
            preds, target, weights=weights, interpolation=interpolation, dtype=torch.float64
        )
        repeated = (x.repeat_interleave(weights) for x in (preds, target))
        assert weighted == ours.binary_average_precision(*repeated, interpolation=interpolation, dtype=torch.float64)

    def test_levels_are_compared_in_their_own_dtype(self):
        preds, target = -torch.arange(40.0), torch.arange(40) % 4 == 3
        value = ours.binary_average_precision(preds, target, interpolation=torch.linspace(0, 1, 11))
        assert value == ours.binary_average_precision(preds, target, interpolation="11-point")

    def test_levels_are_the_callers_no_more(self):
        levels = torch.tensor([0.5, 1.0])
        metric = torch_ap.BinaryAveragePrecision(interpolation=levels)
        metric.update(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1, 0, 1]))
        levels.fill_(0)
        assert metric.compute().item() == pytest.approx((1 + 2 / 3) / 2)

    def test_default_device_does_not_matter(self):
        preds, target = torch.rand(5000, 2), torch.randint(2, (5000, 2))
        expected = ours.multilabel_average_precision(preds, target, 2)
        with torch.device("meta"):
            assert ours.multilabel_average_precision(preds, target, 2) == expected
            assert ours.binary_average_precision(preds, target, thresholds=5) == ours.average_precision(
                preds.clone(), target, "binary", 5
            )
            assert ours.precision_recall_curve(preds[:, 0], target[:, 0]).recall[0] == 1
            assert curves.hit_curve(preds[:, 0], target[:, 0]).hits[-1] == target[:, 0].sum()
            assert ours.counts_at_threshold(preds, target, 0.5).tp == ((preds >= 0.5) & (target == 1)).sum()

    def test_functions_follow_the_device_of_their_input(self):
        """Thresholds follow the device of the scores; meta tensors have no values, so only the devices are checked."""
        inputs, found = inputs_and_bins(5)
        assert APSettings(inputs, bins=found).to(torch.device("meta")).thresholds.is_meta

    def test_metric_on_another_device(self):
        metric = torch_ap.BinaryAveragePrecision(validate_args=False)
        with pytest.raises(ValueError, match=r"`preds` .*device, cpu, got meta"):
            metric._check_device(torch.rand(2, device="meta"), "preds")

    def test_extreme_settings(self):
        preds, target = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0, 1, 1])
        assert ours.counts_at_k(preds, target, 2).f_beta(1e154).item() == pytest.approx(0.5)
        for beta in (1e160, 10**200):
            with pytest.raises(ValueError, match=r"`beta` must be at most 1e\+154, .* got 1"):
                ours.counts_at_k(preds, target, 2).f_beta(beta)
        with pytest.raises(ValueError, match="`top_k`"):
            ours.binary_average_precision(preds, target, top_k=10**30)
        with pytest.raises(ValueError, match="`alpha` must be a number in"):
            ours.counts_at_k(preds, target, 1).effectiveness(7.0)
        assert ours.counts_at_k(torch.zeros(0, 5), torch.zeros(0, 5).long(), 2).precision.shape == (0,)
        assert ours.counts_at_threshold(preds, target, torch.tensor(0.5)).tp.shape == ()


class TestTask:
    def test_function_and_class(self, generator):
        preds, target = sample(30, 3, generator)
        for task, args in {
            "binary": (preds[:, 0], target[:, 0]),
            "multiclass": (preds, target.argmax(1)),
            "multilabel": (preds, target),
        }.items():
            settings = {"num_classes": 3, "num_labels": 3, "average": "macro", "ties": "expected"}
            metric = torch_ap.AveragePrecision(task, **settings)
            metric.update(*args)
            assert metric.compute() == ours.average_precision(*args, task, **settings)
            assert type(metric).__name__ == f"{task.capitalize()}AveragePrecision"

    def test_unknown(self):
        for call in (
            lambda: torch_ap.AveragePrecision("ranking"),
            lambda: ours.average_precision(torch.rand(2), torch.tensor([1, 0]), "ranking"),
        ):
            with pytest.raises(ValueError, match="`task` must be one of"):
                call()

    @pytest.mark.parametrize(("task", "name"), [("multiclass", "num_classes"), ("multilabel", "num_labels")])
    def test_without_its_width(self, task, name):
        with pytest.raises(ValueError, match=f"`{name}` must .*at least 2.* got None"):
            torch_ap.AveragePrecision(task)


class TestPrecisionRecallCurve:
    @pytest.mark.parametrize("steps", [None, 8])
    def test_equals_sklearns(self, steps, generator):
        preds, target = sample(300, None, generator, steps)
        weights = torch.rand(300, generator=generator)
        for settings, theirs_settings in (({}, {}), ({"weights": weights}, {"sample_weight": weights})):
            curve = ours.precision_recall_curve(preds.double(), target, **settings)
            expected = sklearn_curve(target, preds.double(), **theirs_settings)
            for mine, peer in zip(curve, expected, strict=True):
                torch.testing.assert_close(mine, torch.tensor(peer.copy()).double(), rtol=0, atol=REORDERED)

    @pytest.mark.parametrize("thresholds", [None, 7])
    def test_equals_torchmetrics(self, thresholds, generator):
        preds, target = sample(100, 3, generator)
        for task, args in {"multiclass": (preds, target.argmax(1)), "multilabel": (preds, target)}.items():
            settings = {"num_classes": 3, "num_labels": 3, "thresholds": thresholds}
            curve = ours.precision_recall_curve(*args, task, **settings)
            expected = theirs.precision_recall_curve(*args, task, **settings)
            for mine, peer in zip(curve, expected, strict=True):
                ours_there = mine.nan_to_num(0) if thresholds and OLD_TORCHMETRICS else mine
                torch.testing.assert_close(ours_there, peer, rtol=0, atol=SINGLE, equal_nan=True)

    def test_without_positives_recall_is_nan(self):
        curve = ours.precision_recall_curve(torch.tensor([0.2, 0.7]), torch.tensor([0, 0]))
        assert curve.recall[:-1].isnan().all()
        assert curve.precision.tolist() == [0, 0, 1]

    def test_unknown_task(self):
        with pytest.raises(ValueError, match="`task`"):
            ours.precision_recall_curve(torch.rand(2), torch.tensor([1, 0]), "ranking")


class TestCuts:
    def test_rows_are_rankings(self, generator):
        preds, target = sample(40, 6, generator, 8)
        found = ours.counts_at_k(preds, target, 3)
        each = [ours.counts_at_k(p, t, 3) for p, t in zip(preds, target, strict=True)]
        for name in ("tp", "fp", "fn", "tn", "precision", "recall"):
            torch.testing.assert_close(
                getattr(found, name), torch.stack([getattr(x, name) for x in each]), equal_nan=True
            )

    def test_fewer_items_than_k(self):
        preds, target = torch.tensor([0.9, 0.5]), torch.tensor([1, 1])
        at = ours.counts_at_k(preds, target, 4)
        assert (at.precision, at.recall) == (0.5, 1)

    def test_thresholds_in_any_order_and_dtype(self, generator):
        preds, target = sample(50, None, generator)
        thresholds = torch.tensor([0.9, 0.2, 0.5])
        at = ours.counts_at_threshold(preds, target, thresholds, weights=torch.full((50,), 2))
        for place, threshold in enumerate(thresholds.tolist()):
            one = ours.counts_at_threshold(preds, target, threshold)
            assert at.tp[place] == 2 * one.tp
            assert at.tn[place] == 2 * one.tn
            assert one.tp + one.fp == (preds >= threshold).sum()
        assert ours.counts_at_threshold(torch.tensor([3, 1]), torch.tensor([1, 0]), 1.5).precision == 1

    @pytest.mark.parametrize("k", [0, -2, True, 1.5, None])
    def test_bad_k(self, k):
        with pytest.raises(ValueError, match="`top_k` must be an int of at least 1"):
            ours.counts_at_k(torch.rand(3), torch.tensor([1, 0, 1]), k)

    @pytest.mark.parametrize("threshold", [float("nan"), "a", [0.1], True, torch.tensor([[0.1]])])
    def test_bad_threshold(self, threshold):
        with pytest.raises(ValueError, match="`threshold`"):
            ours.counts_at_threshold(torch.rand(3), torch.tensor([1, 0, 1]), threshold)

    def test_bad_input(self):
        for dtype in (torch.int64, "float64"):
            with pytest.raises(ValueError, match=r"`dtype` .*floating torch.dtype"):
                ours.binary_average_precision(torch.rand(3), torch.tensor([1, 0, 1]), dtype=dtype)
        with pytest.raises(ValueError, match="`beta`"):
            ours.counts_at_k(torch.rand(3), torch.tensor([1, 0, 1]), 1).f_beta(-1.0)
        with pytest.raises(ValueError, match="`ties`"):
            ours.counts_at_k(torch.rand(3), torch.tensor([1, 0, 1]), 1, ties="some")
        with pytest.raises(ValueError, match=r"`preds` .*\(N,\) or \(Q, N\)"):
            ours.counts_at_k(torch.rand(3, 1, 1), torch.ones(3, 1, 1).int(), 1)
        with pytest.raises(ValueError, match="`t` must be 1-D with numbers in"):
            curves.hit_curve(torch.rand(3), torch.tensor([1, 0, 1]), torch.tensor([4.0]))
        with pytest.raises(TypeError, match="`t` must be a tensor"):
            curves.hit_curve(torch.rand(3), torch.tensor([1, 0, 1]), [1.0])
