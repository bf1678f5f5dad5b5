"""COCO's metric with ``match="update"``: each batch is matched as it comes.

The state is what matching found, in flat tensors that concatenate like any (see
:mod:`torch_ap.matching.stored`): of each detection its label, score, whether it counts in each area range, and whether
it is matched; of each matched one the IoU thresholds and area ranges in which it is, a bit each, and those in which it
is a true positive; of each ground truth its label and whether it counts in each area range; rows per image. Thresholds,
areas and the last detection limit are part of the state, so that metrics of others do not merge with it.
"""

from torch import Tensor

from torch_ap.inputs.detections import Columns
from torch_ap.matching import coco
from torch_ap.matching.coco_settings import CocoSettings
from torch_ap.matching.stored import StoredMatches
from torch_ap.rules.detections import VALUE_RULES


def matched_batch(settings: CocoSettings, stored: StoredMatches, columns: Columns, broken: Tensor | None) -> Columns:
    """The columns that are kept of a batch.

    Args:
        settings: of the metric.
        stored: the form of what is kept.
        columns: of the images.
        broken: as of ``DetectionInputs.validate``.

    Raises:
        ValueError: for values that break a rule, which cannot wait for ``compute`` where they are matched.
    """
    if broken is not None and bool(broken.any()):
        raise ValueError(VALUE_RULES[int(broken.nonzero()[0])])
    numbers = coco.match(settings, columns, settings.iou_types[0], micro=stored.micro)
    return stored.made(columns, numbers.labels, numbers.matches)


def refuse_beside_matches(extended_summary: bool, classes_of_micro: bool) -> None:
    """Refuse settings whose results need more than matches.

    Raises:
        ValueError: naming the setting.
    """
    if extended_summary:
        raise ValueError("`match='update'` keeps no shapes, which `extended_summary` needs; give `match='compute'`")
    if classes_of_micro:
        raise ValueError("`match='update'` with `average='micro'` knows no classes: `class_metrics` must be False")
