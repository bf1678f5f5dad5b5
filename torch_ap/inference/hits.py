"""Former name of :mod:`torch_ap.inference.random_ranking`."""

from torch_ap.core.base.deprecated import former_names

__getattr__ = former_names(
    __name__,
    {
        name: f"torch_ap.inference.random_ranking:{name}"
        for name in ("RandomHits", "joint_rank_probability", "rank_probability")
    },
)
