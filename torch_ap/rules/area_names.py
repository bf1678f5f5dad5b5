"""What an area range may be called: numbers have its name behind map_ and mar_, where none may have another's."""

TAKEN = ("low", "high", "chance", "rare", "common", "frequent")
RULE = f"no whole number, none of {', '.join(TAKEN)}, and nothing with iou_ in front or per_class behind"


def is_taken(name: str) -> bool:
    """Whether another number has that name, as ``map_50``, ``map_low``, ``mar_iou_75`` and ``map_per_class``."""
    return name in TAKEN or name.isdigit() or name.startswith("iou_") or name.endswith("per_class")
