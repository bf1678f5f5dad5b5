"""Which average precision a number is, and why two programs differ: :func:`torch_ap.explain`."""

from torch_ap.explanation.explain import explain
from torch_ap.explanation.record import Explanation, Step

__all__ = ["Explanation", "Step", "explain"]
