"""Valid names of area ranges: the keys map_<name> and mar_<name> must not collide with other result keys."""

RESERVED = ("low", "high", "chance", "rare", "common", "frequent")
RULE = f"not an integer, none of {', '.join(RESERVED)}, without the prefix iou_ and the suffix per_class"


def is_taken(name: str) -> bool:
    """Return whether a result key has that name, as ``map_50``, ``map_low``, ``mar_iou_75`` and ``map_per_class``."""
    return name in RESERVED or name.isdigit() or name.startswith("iou_") or name.endswith("per_class")
