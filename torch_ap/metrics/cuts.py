"""Where to cut a detector: methods of the detection metrics, from matches at one IoU threshold."""

from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from torch_ap.analysis.confusion import BACKGROUND, ConfusionMatrix, confused
from torch_ap.analysis.operating_points import OperatingPoints, operating_points
from torch_ap.analysis.score_thresholds import Given, score_thresholds
from torch_ap.inference.operating_point import Wanted
from torch_ap.inputs.detections import Columns
from torch_ap.matching.matched import Matches
from torch_ap.matching.shape_settings import place_of_threshold
from torch_ap.metrics.uncertainty import UncertainMetric
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames, check_names, different_names_of


class OfClasses(NamedTuple):
    """What a metric has found.

    Attributes:
        matches: of its images.
        interpolation: how AP is interpolated, an ``InterpolationRule``.
        labels: (K,) of the classes, ascending.
    """

    matches: Matches
    interpolation: Any
    labels: Tensor


class _Found(NamedTuple):
    columns: Columns
    matches: Matches
    interpolation: Any
    place: int
    labels: Tensor
    names: list[str]


class Cuts(UncertainMetric):
    """Abstract: operating points and confusion matrix of a metric of images."""

    _settings: Any
    _threshold_name: ClassVar[str] = "iou_threshold"  # what methods call that of which matches are asked for

    def operating_points(
        self,
        iou_threshold: float | None = None,
        beta: float = 1.0,
        *,
        precision: float | None = None,
        recall: float | None = None,
        score_threshold: Given | None = None,
        per_class: bool = True,
        iou_type: str | None = None,
        class_names: ClassNames = None,
        confidence_level: float = 0.95,
    ) -> OperatingPoints:
        """The score threshold of the best F_beta of each class, or of a wanted precision or recall, and what it gives.

        F_beta = (1 + beta^2) p r / (beta^2 p + r) of the detections with ``scores >= threshold``, which are matched as
        they are for average precision. Of equally good thresholds it is the highest; for a wanted recall the lowest.

        The estimand of the intervals is what the threshold gives in the population of images. Precision, recall and
        F_beta are ratios of sums over images, whose variance the delta method gives; Wilson's interval takes the number
        of trials that has this variance, with the quantile of Student's t. At 95% they cover so much, by the number of
        ground truths of a class (``benchmarks.coverage``):

        =============  =========  ======  ========  ========  ========  ===========
        wanted         of         5 to 9  10 to 19  20 to 49  50 to 99  100 or more
        =============  =========  ======  ========  ========  ========  ===========
        best F1        precision  0.994   0.979     0.957     0.947     0.948
        best F1        recall     0.953   0.940     0.927     0.937     0.948
        best F1        F1         0.960   0.929     0.916     0.921     0.944
        precision 0.8  precision  1.000   0.988     0.976     0.966     0.955
        precision 0.8  recall     0.903   0.928     0.946     0.948     0.945
        precision 0.8  F1         0.908   0.920     0.938     0.942     0.933
        recall 0.4     precision  0.997   0.990     0.976     0.961     0.946
        recall 0.4     recall     0.949   0.944     0.949     0.937     0.934
        recall 0.4     F1         0.951   0.933     0.939     0.937     0.935
        given          precision  0.988   0.986     0.969     0.965     0.955
        given          recall     0.993   0.978     0.966     0.955     0.958
        given          F1         0.966   0.977     0.965     0.955     0.952
        =============  =========  ======  ========  ========  ========  ===========

        The first nine are of thresholds that were chosen on the same images, where the numbers are too good by what the
        choice gains: F1 at its best by 0.094 with 10 to 19 ground truths and by 0.017 with 100 or more.

        Args:
            iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it.
            beta: of F, above 0 and with a finite square; recall counts beta times as much as precision.
            precision: the least precision, in [0, 1]: of the thresholds that have it, that of the highest recall.
            recall: the least recall, in [0, 1]: of the thresholds that have it, that of the highest precision.
            score_threshold: a threshold that is given, or one of each class: operating points of other images, whose
                labels say which is whose; a dict of label to threshold; or (K,) in the order of ``classes``. Every
                class needs one; those that do not occur here are left out.
            per_class: whether each class has a threshold of its own; else there is one for the detections of all
                classes together, each matched in its class, whose counts are added up.
            iou_type: which one, where there are several; default the first.
            class_names: different names of the labels, as for ``errors``.
            confidence_level: nominal coverage of each interval, in (0, 1).

        Returns:
            :class:`torch_ap.detection.OperatingPoints` of (K,) tensors in the order of ``classes``, or of 0-d ones;
            NaN, with a reason, where no threshold does what is wanted, and ends of NaN where all stands in one image.

        Raises:
            TypeError, ValueError: for an argument that breaks one of these rules.

        Equals ``operating_point()`` of each of ``curve()``, but for the intervals, and where no threshold does what is
        wanted: tp, fp and fn are NaN there, and here, of no detections, 0, 0 and all ground truths.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 2), (0.7, 200), (0.6, 300)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> found = metric.operating_points(class_names=["cat"])
            >>> found.names, found.threshold, found.tp, found.fp, found.fn
            (['cat'], tensor([0.8000]), tensor([2]), tensor([0]), tensor([2]))
        """
        wanted = Wanted(beta, precision, recall)
        level = checks.open_fraction("confidence_level", confidence_level)
        checks.boolean("per_class", per_class)
        if score_threshold is not None and (precision is not None or recall is not None):
            raise ValueError(
                "`score_threshold` is a threshold that is given; beside it neither precision nor recall is"
            )
        found = self._found(iou_threshold, iou_type, class_names)
        choice: Wanted | Tensor = wanted
        if score_threshold is not None:
            choice = score_thresholds(score_threshold, found.labels if per_class else None, found.matches.ranked.score)
        return operating_points(
            found.matches,
            found.place,
            choice,
            labels=found.labels,
            names=found.names,
            beta=wanted.beta,
            per_class=per_class,
            confidence_level=level,
        )

    def confusion_matrix(
        self,
        iou_threshold: float | None = None,
        score_threshold: Given = 0.25,
        *,
        iou_type: str | None = None,
        class_names: ClassNames = None,
    ) -> ConfusionMatrix:
        """How many objects of each class were detected as each class, as another, or not at all.

        Detections are matched in their class as they are for average precision, so that the diagonal counts the true
        positives. Of what that leaves in an image, the pairs of two classes that overlap enough are taken in turn
        unless one of the two is taken: by descending IoU; of equal IoUs the detection of the higher score, then the
        first given. The rest is background.

        Only what counts for average precision is looked at: no ground truths that are ignored, such as crowds and
        difficult objects, and no detections that are matched to these in their class; of each class and image the best
        detections up to the limit.

        Args:
            iou_threshold: one of the IoU thresholds, which the IoU of a match reaches; with ``strict`` it exceeds it.
                Default 0.5, or the lowest without it.
            score_threshold: the least score of a detection, or one of each class, as for :meth:`operating_points`: what
                that returns, for instance; of a class whose threshold is NaN there is no detection.
            iou_type: which one, where there are several; default the first.
            class_names: different names of the labels, as for ``errors``.

        Returns:
            :class:`torch_ap.detection.ConfusionMatrix`, true classes down, detected ones across.

        Raises:
            TypeError, ValueError: for an argument that breaks one of these rules.

        Equals ``supervision.ConfusionMatrix`` of version 0.31 where score and IoU choose the same pairs: it takes those
        of one class first too, but by descending IoU (of 15,170 objects in 2,000 random scenes at most 4 stand in
        another cell), and wants an IoU above the threshold. Earlier versions, and ultralytics, pair a detection with
        the ground truth of its highest IoU alone, whatever its class.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision(class_names=["cat", "dog"])
            >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
            >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
            >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
            >>> metric.confusion_matrix().matrix
            tensor([[1, 0, 0],
                    [1, 0, 0],
                    [0, 0, 0]])
        """
        self._check_shapes_kept("confusion_matrix")
        found = self._found(iou_threshold, iou_type, class_names)
        least = score_thresholds(score_threshold, found.labels, found.matches.ranked.score)
        kind = iou_type or self._settings.iou_types[0]
        return ConfusionMatrix(
            matrix=confused(self._settings, found.columns, kind, found.matches, found.place, least, found.labels),
            labels=found.labels,
            names=[*found.names, BACKGROUND],
            score_threshold=least,
            **{"iou_threshold": None, self._threshold_name: float(self._settings.thresholds[found.place])},
        )

    def _found(self, iou_threshold: float | None, iou_type: str | None, class_names: ClassNames) -> _Found:
        """The matches of the images of all ranks, in each class, and the place of an IoU threshold."""
        place = self._place(iou_threshold)
        check_names(class_names)
        with self._all_ranks():
            columns = self._columns()
            matches, interpolation, labels = self._matched(columns, iou_type, per_class=True)
        names = different_names_of(labels, self._class_names if class_names is None else class_names)
        return _Found(columns, matches, interpolation, place, labels.clone(), names)

    def _place(self, iou_threshold: float | None) -> int:
        return place_of_threshold(iou_threshold, self._settings.thresholds, self._threshold_name)

    # -- what the metric has

    @property
    def _class_names(self) -> ClassNames:
        """The names that the metric was given."""
        return None

    def _check_shapes_kept(self, what: str) -> None:
        """Refuse what needs the shapes of images, where they are let go of."""
        raise NotImplementedError

    def _columns(self) -> Columns:
        raise NotImplementedError

    def _matched(self, columns: Columns, iou_type: str | None, per_class: bool = False) -> OfClasses:
        raise NotImplementedError
