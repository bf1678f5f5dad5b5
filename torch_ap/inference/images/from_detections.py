"""Matched detections as rankings of items that belong to images, for the bootstrap over images.

The matching inside an image does not depend on how often the image was drawn, so it is done once.
"""

import torch

from torch_ap.inference.images.resampled_rankings import ResampledRankings
from torch_ap.matching.matched import Matches
from torch_ap.ranking import segments


def ranked_images(matches: Matches, images: int, area: int = 0) -> ResampledRankings:
    """The T * K rankings of one area range, those of the first threshold first, over the K categories' detections.

    A matched detection is a hit, or drops out where its ground truth is ignored; any other is a miss, or is no item
    where it lies outside the area range.

    Args:
        matches: of COCO's or VOC's rule.
        images: how many images there are, those without detections and ground truths included.
        area: which area range.
    """
    size, ranked = matches.categories, matches.ranked
    counted = matches.inside[area]
    found, true_positive = (matches.cells.of_range(words, area) for words in (matches.matched, matches.true_positive))
    t, pair = found.nonzero(as_tuple=True)
    item, hit = matches.at[pair], true_positive[t, pair]
    valid = matches.truth_group[matches.valid[area]]
    ranking = t * size + ranked.category[item]
    lists = torch.arange(size, device=item.device)
    return ResampledRankings(
        image=ranked.group // size,
        counted=counted,
        offsets=segments.from_counts(segments.count(ranked.category, size)),
        event_item=item,
        event_hit=hit,
        event_counts=hit,
        event_offsets=segments.from_counts(segments.count(ranking, len(found) * size)),
        ranking_list=lists.repeat(len(found)),
        relevant_image=valid // size,
        relevant_list=valid % size,
        images=images,
    )
