"""How sure a number is: its baseline, its interval, and whether one system beats another."""

from torch_ap.inference.interval import Interval
from torch_ap.inference.intervals import average_precision_interval
from torch_ap.inference.resampling import Resampling

__all__ = ["Interval", "Resampling", "average_precision_interval"]
