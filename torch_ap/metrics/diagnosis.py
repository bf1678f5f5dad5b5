"""What a detection metric says of its detector beside its value: errors, tables of detections and images, LRP."""

from typing import Any

import torch
from torch import Tensor

from torch_ap.analysis.errors import DetectionErrors, errors_of
from torch_ap.analysis.images import per_image
from torch_ap.analysis.lrp import OptimalLRP, optimal_lrp
from torch_ap.analysis.outcomes import IGNORED, Outcomes, outcomes_of
from torch_ap.inputs.detections import Columns, image_of
from torch_ap.matching.matched import Matches
from torch_ap.metrics.cuts import Cuts, OfClasses
from torch_ap.metrics.image_sample import UncertainImages
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames
from torch_ap.rules.messages import refuse
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_BACKGROUND = 0.1  # TIDE's


class DiagnosedImages(UncertainImages, Cuts):
    """Abstract: a metric whose state is images, and which matches their detections."""

    def _image_ids(self) -> Tensor:
        """(B,) int64, the ids of all images so far, or their places; for concrete classes, as the next one."""
        raise NotImplementedError

    def _matched(self, columns: Columns, iou_type: str | None, per_class: bool = False) -> OfClasses:
        """What matching finds in these images.

        Args:
            columns: of the images.
            iou_type: which one, where there are several.
            per_class: whether classes are apart, however the value averages them.
        """
        raise NotImplementedError

    def errors(
        self,
        iou_threshold: float | None = None,
        background_threshold: float | None = None,
        iou_type: str | None = None,
        class_names: ClassNames = None,
    ) -> DetectionErrors:
        """What the detector gets wrong, by kind, and how much AP each kind costs (TIDE).

        ======================  ========================================================  ==============================
        kind                    a false positive, or a ground truth                       fixed
        ======================  ========================================================  ==============================
        ``localization``        its best IoU with its own class is between the two        gets its ground truth
                                thresholds
        ``classification``      else reaches ``iou_threshold`` with another class         gets that class
        ``duplicate``           else does with its own class: a better one took it        is left out
        ``background``          else has no IoU above ``background_threshold``            is left out
        ``both``                else: another class, and off                              is left out
        ``missed``              a ground truth that is not found, and that no             no longer is to be found
                                localization or classification error is about
        ``false_positives``     all of the first five                                     stand last
        ``false_negatives``     all ground truths not found                               no longer are to be found
        ======================  ========================================================  ==============================

        Of several errors about one ground truth the one of the highest score is fixed, the others are left out; those
        about ground truths that are found are left out too.

        Args:
            iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it. Classes are apart, whatever
                ``average`` is.
            background_threshold: above 0, at most ``iou_threshold``; default 0.1, or that where it is lower.
            iou_type: which one, where there are several; default the first.
            class_names: different names of the labels, a dict, or a list that begins with the name of label 0; default
                those of the metric, where it takes names, else the labels.

        Returns:
            :class:`torch_ap.detection.DetectionErrors`, with a table of all classes.

        Raises:
            ValueError: for a threshold that the metric does not have, and for names that do not fit.

        Equals ``tidecv`` 1.0.1, whose costs (dAP) are in percent, where no scores are tied, no detection lies in a
        crowd, and every class that is detected has ground truths. It differs where ``tidecv`` departs from the paper:
        there ties are taken in another order after fixing than before, detections in a crowd may be errors, and classes
        without ground truths count as an AP of 0. The AP, the limit of detections and the choice among equal IoUs are
        those of the metric: ``tidecv`` has recall levels of x / 100, some of which are one bit off COCO's, and a limit
        on all detections of an image. A function ``iou`` is called for pairs of other classes, too.

        Source: Bolya, Foley, Hays & Hoffman (2020), TIDE: A General Toolbox for Identifying Object Detection Errors.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
            >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
            >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
            >>> errors = metric.errors()
            >>> errors.average_precision, errors.classification, errors.missed
            (tensor(0.5000, dtype=torch.float64), tensor(0.5000, dtype=torch.float64), tensor(0., dtype=torch.float64))
        """
        self._check_shapes_kept("errors")
        place = self._place(iou_threshold)
        thresholds = self._thresholds(place, background_threshold)
        of = self._found(iou_threshold, iou_type, class_names)
        found = self._outcomes(of.columns, iou_type, of.matches, place, thresholds)
        return errors_of(found, of.interpolation, of.labels, of.names, thresholds)

    def detections_table(
        self, iou_threshold: float | None = None, background_threshold: float | None = None, iou_type: str | None = None
    ) -> dict[str, Tensor]:
        """A table with one row per detection: what became of it, and with which ground truth.

        Args:
            iou_threshold, background_threshold, iou_type: as for :meth:`errors`.

        Returns:
            (D,) columns in the order of input: ``image``, its ``sample_ids`` or its place among all; ``detection``,
            the row in its image; ``class``; ``score``; ``kind``, a place in
            ``torch_ap.detection.DETECTION_KINDS``: 0 for a true positive, 1 to 5 for an error of classification,
            localization, both, a duplicate, background, and 6 where it does not count: matched to a crowd, or beyond
            the detection limit; ``ground_truth``, the row in its image of the ground truth that is matched, or that the
            error is about, -1 for none; ``iou`` with it, float64, NaN for none; with a crowd or an Open Images group it
            is the share of the detection's area.

        Raises:
            ValueError: for a threshold that the metric does not have.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
            >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
            >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
            >>> table = metric.detections_table()
            >>> table["kind"], table["ground_truth"]
            (tensor([0, 1]), tensor([0, 1]))
        """
        self._check_shapes_kept("detections_table")
        place = self._place(iou_threshold)
        thresholds = self._thresholds(place, background_threshold)
        columns, ids, matches, *_ = self._all_matched(iou_type)
        found = self._outcomes(columns, iou_type, matches, place, thresholds)
        counts, rows = columns["detections_per_image"], native(matches.ranked.rows)
        images = image_of(counts)
        offsets = (segments.from_counts(columns[f"{side}s_per_image"])[:-1] for side in ("detection", "ground_truth"))
        first = [segments.repeat(each, counts) for each in offsets]
        if (given := columns.get("detection_row")) is not None:  # in images of which some rows were left out
            first[0] = torch.arange(len(images), device=images.device) - given.long()

        def of_rows(values: Tensor, nothing: float) -> Tensor:
            out = arrays.full(len(images), nothing, native(values))
            out[rows] = native(values)
            return arrays.tensor(out)

        truth = of_rows(found.truth, -1)
        return {
            "image": ids[images],
            "detection": torch.arange(len(images), device=images.device) - first[0],
            "class": columns["detection_labels"].clone(),
            "score": columns["detection_scores"].clone(),
            "kind": of_rows(found.outcome, IGNORED),
            "ground_truth": torch.where(truth >= 0, truth - first[1], -1),
            "iou": of_rows(found.iou, torch.nan),
        }

    def per_image(
        self,
        iou_threshold: float | None = None,
        score_threshold: float = float("-inf"),
        iou_type: str | None = None,
    ) -> dict[str, Tensor]:
        """A table with one row per image, so that one can look at the worst.

        Args:
            iou_threshold: one of the IoU thresholds, at which ``f1``, ``tp``, ``fp`` and ``missed`` are counted;
                default 0.5, or the lowest without it.
            score_threshold: the lowest score that counts there.
            iou_type: which one, where there are several; default the first.

        Returns:
            (B,) columns in the order of the images: ``image``, its ``sample_ids`` or its place among all; ``ap``,
            float64, what ``map`` is of this image alone, over all IoU thresholds and each class that it has, NaN where
            it has no ground truths: classes are apart with ``average="micro"`` too, and with LVIS's ``fixed`` the
            detections are those that count among all images; ``f1``, float64, 2 tp / (2 tp + fp + missed), NaN for an
            empty image in which nothing is detected; ``tp``, ``fp`` and ``missed``, int64.

        Raises:
            ValueError: for a threshold that the metric does not have.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 30)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> table = metric.per_image()
            >>> table["ap"], table["missed"]
            (tensor([1., 0.], dtype=torch.float64), tensor([0, 1]))
        """
        place = self._place(iou_threshold)
        score = checks.number("score_threshold", score_threshold)
        _, ids, matches, interpolation, _ = self._all_matched(iou_type)
        return {"image": ids.clone(), **per_image(matches, interpolation, len(ids), place, score)}

    def lrp(
        self, iou_threshold: float | None = None, iou_type: str | None = None, class_names: ClassNames = None
    ) -> OptimalLRP:
        """Localization-recall-precision error at the best score threshold of each class, with its parts (oLRP).

        Args:
            iou_threshold: one of the IoU thresholds, below 1; default 0.5, or the lowest without it. Classes are apart,
                whatever ``average`` is.
            iou_type: which one, where there are several; default the first.
            class_names: as for :meth:`errors`.

        Returns:
            :class:`torch_ap.detection.OptimalLRP`, which has the formula, with a table of all classes: the score
            threshold of each among them.

        Raises:
            ValueError: for a threshold that the metric does not have, or of 1, and for names that do not fit.

        Equals ``olrp``, ``olrp_loc``, ``olrp_fp``, ``olrp_fn`` and ``lrp_opt_thr`` of the authors' ``cocoeval`` where
        no scores are tied: that cuts between equal scores too, as no threshold does, and by the order of input. Its -1
        for classes without ground truths is NaN here.

        Source: Oksuz, Cam, Kalkan & Akbas (2021), One Metric to Measure Them All: Localisation Recall Precision (LRP)
        for Evaluating Visual Detection Tasks.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
            >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
            >>> metric.update([found], [{"boxes": boxes[:1] + 1, "labels": torch.tensor([0])}])
            >>> found = metric.lrp(class_names=["cat"])
            >>> found.lrp, found.per_class["score_threshold"]
            (tensor(0.1882, dtype=torch.float64), tensor([0.9000], dtype=torch.float64))
        """
        self._check_shapes_kept("lrp")
        place = self._place(iou_threshold)
        threshold = self._settings.thresholds[place]
        if threshold == 1:
            refuse("iou_threshold", "must be below 1 for LRP, which divides by its distance from 1", threshold)
        found = self._found(iou_threshold, iou_type, class_names)
        return optimal_lrp(found.matches, place, threshold, found.labels, found.names)

    def _thresholds(self, place: int, background: float | None) -> tuple[float, float]:
        """The threshold of background, and the IoU threshold."""
        upper = self._settings.thresholds[place]
        if not upper:
            refuse("iou_threshold", "must be above 0 to tell errors apart", upper)
        if background is None:
            return min(_BACKGROUND, upper), upper
        checks.positive_fraction("background_threshold", background)
        if background > upper:
            refuse("background_threshold", f"must be at most the IoU threshold {upper:g}", background)
        return float(background), upper

    def _all_matched(self, iou_type: str | None) -> tuple[Columns, Tensor, Matches, Any, Tensor]:
        """The images of all ranks, their ids or places, and what matching finds in each class."""
        with self._all_ranks():
            columns = self._columns()
            return columns, self._image_ids(), *self._matched(columns, iou_type, per_class=True)

    def _outcomes(
        self, columns: Columns, iou_type: str | None, matches: Matches, place: int, thresholds: tuple[float, float]
    ) -> Outcomes:
        return outcomes_of(self._settings, columns, iou_type or self._settings.iou_types[0], matches, place, thresholds)
