"""Intervals and comparisons of detectors on images in groups, against metrics without each group."""

import math

import pytest
import torch

import torch_ap
from torch_ap import MeanAveragePrecision
from torch_ap.inference import best_of_metrics
from torch_ap.inference.record import holm, logit, student_quantile

_IMAGES, _VIDEOS = 36, 12


def draw(seed, noise):
    """Return predictions and ground truths of images, two boxes of two classes each."""
    generator = torch.Generator().manual_seed(seed)
    preds, target = [], []
    for _ in range(_IMAGES):
        corner = torch.rand(2, 2, generator=generator) * 100
        boxes = torch.cat([corner, corner + 40], 1)
        shift = noise * torch.randn(2, 1, generator=generator)
        labels = torch.randint(0, 2, (2,), generator=generator)
        target.append({"boxes": boxes, "labels": labels})
        preds.append({"boxes": boxes + shift, "labels": labels, "scores": torch.rand(2, generator=generator)})
    return preds, target


def metric_of(preds, target, kept=range(_IMAGES)):
    metric = MeanAveragePrecision()
    metric.update([preds[image] for image in kept], [target[image] for image in kept])
    return metric


def explicit_values(preds, target, videos):
    """Return mAP without the images of each video, from new metrics."""
    without = [[image for image in range(_IMAGES) if videos[image] != video] for video in range(_VIDEOS)]
    return torch.stack([metric_of(preds, target, kept).compute()["map"].double() for kept in without])


def error_of(values):
    return math.sqrt((_VIDEOS - 1) / _VIDEOS * float((values - values.mean()).square().sum()))


def test_interval_and_comparison_follow_from_explicit_deletion():
    preds, target = draw(0, 8.0)
    others = draw(0, 8.0)[0]
    for image, pred in enumerate(others):
        pred["scores"] = torch.rand(2, generator=torch.Generator().manual_seed(image))
    videos = {image: image % _VIDEOS for image in range(_IMAGES)}
    metric, other = metric_of(preds, target), metric_of(others, target)
    found = metric.confidence_interval(groups=videos)
    values, other_values = (explicit_values(x, target, videos) for x in (preds, others))
    # the values of compute() are float32
    assert float(found.standard_error) == pytest.approx(error_of(values), rel=1e-5)
    ends = logit(found.estimate, found.standard_error, student_quantile(0.95, found.estimate.new_tensor(_VIDEOS - 1.0)))
    torch.testing.assert_close(torch.stack([found.low, found.high]), torch.stack(ends))
    compared = metric.compare(other, groups=videos)
    # results in float32
    assert float(compared.standard_error) == pytest.approx(error_of(values - other_values), rel=1e-4)
    assert float(metric.compare(metric, groups=videos).p_value) == 1


def test_classes_at_once():
    preds, target = draw(3, 8.0)
    metric, videos = metric_of(preds, target), {image: image % _VIDEOS for image in range(_IMAGES)}
    for options in ({"groups": videos}, {"n_resamples": 200}):
        found = metric.confidence_interval(per_class=True, simultaneous=True, **options)
        single, sidak = (metric.confidence_interval(x, per_class=True, **options) for x in (0.95, 0.95**0.5))
        widths = [x.high - x.low for x in (single, found, sidak)]
        assert (widths[0] < widths[1]).all()
        assert (widths[1] <= widths[2] * 1.005).all()  # random draws
        assert (found.method, found.confidence_level) == ("max-t", 0.95)
        assert torch.equal(found.standard_error, single.standard_error)
    rare = [{**x, "labels": x["labels"] + 1} for x in target]
    rare[0]["labels"] = torch.tensor([0, 1])  # a class in one image has no interval and does not count
    metric = metric_of([{**x, "labels": x["labels"] + 1} for x in preds], rare)
    for options in ({"groups": videos}, {"n_resamples": 200}):
        again = metric.confidence_interval(per_class=True, simultaneous=True, **options)
        assert again.low.isnan().tolist() == [True, False, False]
        joint = metric.confidence_interval(0.95**0.5, per_class=True, **options)
        assert (again.low[1:] > joint.low[1:] - 0.005).all()
    one = metric_of(preds, target, [0]).confidence_interval(per_class=True, simultaneous=True, n_resamples=9)
    assert one.low.isnan().all()
    for options, message in (
        ({"simultaneous": True}, "`simultaneous` requires `per_class=True`"),
        ({"simultaneous": 1, "per_class": True}, "`simultaneous`"),
        ({"simultaneous": True, "per_class": True, "method": "bootstrap-basic"}, "`method`"),
    ):
        with pytest.raises(ValueError, match=message):
            metric.confidence_interval(**options)


def test_sample_ids_name_the_images():
    preds, target = draw(1, 8.0)
    ids = torch.arange(_IMAGES) * 7 + 100
    metric = MeanAveragePrecision()
    metric.update(preds, target, sample_ids=ids)
    groups = {int(image): f"video {place % _VIDEOS}" for place, image in enumerate(ids)}
    expected = metric_of(preds, target).confidence_interval(groups={x: x % _VIDEOS for x in range(_IMAGES)})
    assert metric.confidence_interval(groups=groups) == expected
    with pytest.raises(ValueError, match="`groups` must contain every image, got none for 100"):
        metric.confidence_interval(groups={0: 1})


def test_few_groups_and_invalid_arguments():
    preds, target = draw(2, 8.0)
    metric = metric_of(preds, target)
    videos = {image: image % _VIDEOS for image in range(_IMAGES)}
    single = metric.confidence_interval(groups=dict.fromkeys(range(_IMAGES), 0))
    assert single.low.isnan()
    assert "fewer than two groups" in single.reason
    assert metric.compare(metric_of(draw(3, 8.0)[0], target), groups=dict.fromkeys(range(_IMAGES), 0)).p_value.isnan()
    with pytest.warns(UserWarning, match="4 groups with ground truths"):
        metric.confidence_interval(groups={image: image % 4 for image in range(_IMAGES)})
    with pytest.warns(UserWarning, match="^`groups`: 2 of 2 classes: 4 groups with ground truths"):
        metric.confidence_interval(groups={image: image % 4 for image in range(_IMAGES)}, per_class=True)
    with pytest.raises(ValueError, match="`method`"):
        metric.confidence_interval(groups=videos, method="bootstrap-basic")
    perfect = metric_of([{**x, "scores": torch.ones(2)} for x in target], target)
    assert perfect.confidence_interval(groups=videos).low.isnan()


def test_classes_follow_from_explicit_deletion():
    (preds, target), (others, _) = draw(4, 8.0), draw(5, 8.0)
    others = [{**x, "scores": y["scores"]} for x, y in zip(preds, others, strict=True)]
    target[0]["labels"][0], target[12]["labels"][0] = 7, 7  # both in video 0: one group has class 7
    videos = {image: image % _VIDEOS for image in range(_IMAGES)}
    metric, other = metric_of(preds, target), metric_of(others, target)
    found = metric.confidence_interval(per_class=True, groups=videos)
    compared = metric.compare(other, per_class=True, groups=videos)
    without = [[image for image in range(_IMAGES) if videos[image] != video] for video in range(_VIDEOS)]
    mine, theirs = (
        torch.tensor(
            [metric_of(x, target, kept).per_class()["ap"][:2].tolist() for kept in without], dtype=torch.float64
        )
        for x in (preds, others)
    )
    for k in (0, 1):
        assert float(found.standard_error[k]) == pytest.approx(error_of(mine[:, k]), rel=1e-5)  # results in float32
        # results in float32
        assert float(compared.standard_error[k]) == pytest.approx(error_of(mine[:, k] - theirs[:, k]), rel=1e-4)
        groups = [sum(int((target[i]["labels"] == k).sum()) for i in videos if videos[i] == v) for v in range(_VIDEOS)]
        df = min(_VIDEOS, sum(groups) ** 2 / sum(x * x for x in groups)) - 1
        ends = logit(found.estimate[k], found.standard_error[k], student_quantile(0.95, found.estimate.new_tensor(df)))
        torch.testing.assert_close(torch.stack([found.low[k], found.high[k]]), torch.stack(ends))
    assert found.low[2].isnan()
    assert compared.p_value[2].isnan()
    assert "1 of 3 classes: fewer than two groups" in found.reason
    assert "7: fewer than two groups" in compared.reason


def test_slices_have_the_numbers_of_their_images():
    (preds, target), (others, _) = draw(6, 8.0), draw(7, 8.0)
    others = [{**x, "scores": y["scores"]} for x, y in zip(preds, others, strict=True)]
    videos = {image: image % _VIDEOS for image in range(_IMAGES)}
    slices = {"late": range(24, _IMAGES), "all": range(_IMAGES), "none": []}
    metric, other = metric_of(preds, target), metric_of(others, target)
    found = metric.confidence_interval(slices=slices, groups=videos)
    compared = metric.compare(other, slices=slices, groups=videos)
    assert found.low[2].isnan()
    assert compared.p_value[2].isnan()
    for place, kept in enumerate([slices["late"], slices["all"]]):
        alone, alone_other = metric_of(preds, target, kept), metric_of(others, target, kept)
        groups = {at: videos[image] for at, image in enumerate(kept)}
        expected = alone.confidence_interval(groups=groups)
        for name in ("estimate", "low", "high", "standard_error"):
            assert getattr(found, name)[place] == getattr(expected, name)
        assert compared.p_value[place] == alone.compare(alone_other, groups=groups).p_value


def test_groups_of_update_are_those_of_the_argument():
    preds, target = draw(0, 8.0)
    others = [{**x, "scores": x["scores"].flip(0)} for x in preds]
    videos = [image % _VIDEOS for image in range(_IMAGES)]
    mapping = dict(enumerate(videos))

    def metric_with_groups(preds, method="update"):
        metric = MeanAveragePrecision()
        for part in (slice(10), slice(10, _IMAGES)):
            getattr(metric, method)(preds[part], target[part], groups=videos[part])
        return metric

    metric, other, plain = metric_with_groups(preds), metric_with_groups(others), metric_of(preds, target)
    wanted = plain.confidence_interval(groups=mapping)
    assert metric.confidence_interval() == wanted
    assert metric.confidence_interval(groups=dict.fromkeys(range(_IMAGES), 0)).low.isnan()
    assert metric.compare(other) == metric.compare(other, groups=mapping)
    assert metric.confidence_interval(per_class=True) == plain.confidence_interval(per_class=True, groups=mapping)
    with pytest.raises(ValueError, match="`other` must have been updated with the same `groups`"):
        metric.compare(plain)
    assert torch_ap.load(metric.to_bytes()).confidence_interval() == wanted
    assert metric_with_groups(preds, "forward").confidence_interval() == wanted
    metric.reset()
    metric.update(preds, target)
    assert metric.confidence_interval() == plain.confidence_interval()
    with pytest.raises(ValueError, match="`groups` must be given in every update or in none"):
        metric.update(preds, target, groups=videos)
    with pytest.raises(ValueError, match="`groups` must be one per image"):
        MeanAveragePrecision().update(preds, target, groups=videos[1:])


def test_groups_of_repeated_images_are_those_of_the_first_copy():
    preds, target = draw(1, 8.0)
    videos, ids = [image % _VIDEOS for image in range(_IMAGES)], list(range(_IMAGES))
    metric = MeanAveragePrecision()
    metric.update(preds, target, sample_ids=ids, groups=videos)
    metric.update(preds[:2], target[:2], sample_ids=ids[:2], groups=[70, 71])
    assert metric.confidence_interval() == metric_of(preds, target).confidence_interval(groups=dict(enumerate(videos)))


def test_few_images_in_groups_have_the_reason_of_few_images():
    preds, target = draw(2, 8.0)
    metric = metric_of(preds, target)
    videos = {image: image % _VIDEOS for image in range(_IMAGES)}
    for groups in (videos, {image: image for image in range(_IMAGES)}):
        found = metric.confidence_interval(groups=groups)
        assert found.reason == "36 images: likely too narrow, 95% covered .72 to .93 with 20 to 50 images"
    assert not metric.confidence_interval(groups=videos, per_class=True).reason
    few = metric_of(preds, target, range(20)).confidence_interval(groups={image: image // 2 for image in range(20)})
    assert few.reason == "20 images: likely too narrow, 95% covered .73 to .93 with 20 images"
    many = MeanAveragePrecision()
    for _ in range(2):
        many.update(preds, target)
    assert not many.confidence_interval(groups={image: image % _VIDEOS for image in range(2 * _IMAGES)}).reason
    rare = [{**x, "labels": x["labels"] + 2 * (place % 9)} for place, x in enumerate(target * 2)]
    named = MeanAveragePrecision()
    named.update(preds * 2, rare)
    reason = named.confidence_interval(groups={image: image % _VIDEOS for image in range(2 * _IMAGES)}).reason
    assert reason.startswith("most classes are in fewer than 20 images: likely too narrow, 95% covered .70 to .72")


def test_groups_select_the_best_of_several():
    preds, target = draw(2, 8.0)
    metrics = {}
    for name in ("a", "b", "c"):
        scores = torch.Generator().manual_seed(ord(name))
        changed = [{**x, "scores": torch.rand(2, generator=scores)} for x in preds]
        metrics[name] = MeanAveragePrecision()
        metrics[name].update(changed, target, groups=[image % _VIDEOS for image in range(_IMAGES)])
    found = best_of_metrics(metrics)
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    p = torch.stack([metrics[x].compare(metrics[y]).p_value for x, y in pairs])
    adjusted = [found.adjusted_p_value[x][y] for x, y in ((0, 1), (0, 2), (1, 2))]
    assert found.reason.startswith("36 images: likely too narrow")
    # of sums in another order
    torch.testing.assert_close(torch.stack(adjusted), holm(p), rtol=1e-6, atol=1e-9)
