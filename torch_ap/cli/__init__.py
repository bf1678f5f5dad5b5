"""The command ``torch-ap``, one module per sub-command; :mod:`torch_ap.cli.main` is its entry point."""

from torch_ap.core.base.lazy import lazy_exports

__all__ = ["main"]

__getattr__, __dir__ = lazy_exports(__name__, __all__, (), ("main",))
