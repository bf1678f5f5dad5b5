"""Replacement of pycocotools and lvis by this package, for code that imports them."""

import importlib
import sys
from contextlib import ExitStack
from types import ModuleType
from typing import Any

_PYCOCOTOOLS = {"coco": "coco", "cocoeval": "coco_eval", "mask": "mask"}  # its modules, and those of this package
_LVIS = {"lvis": "lvis", "results": "lvis", "eval": "lvis_eval"}


class _Installed(ExitStack):
    """The replacement of modules; ends with a ``with`` block or :meth:`undo`."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        super().__init__()
        self.callback(sys.modules.update, {name: sys.modules[name] for name in modules if name in sys.modules})
        for name in modules:
            self.callback(sys.modules.pop, name, None)
        sys.modules.update(modules)

    def undo(self) -> None:
        """Restore the former modules."""
        self.close()


def init_as_pycocotools() -> Any:
    """Replace the modules ``pycocotools``, ``.coco``, ``.cocoeval`` and ``.mask`` for later imports.

    Code that has already imported names of pycocotools keeps them.

    Returns:
        An object whose ``undo()`` restores the former modules; also a context manager.

    Example:
        >>> from torch_ap.compat import init_as_pycocotools
        >>> with init_as_pycocotools():
        ...     from pycocotools.cocoeval import COCOeval
        >>> COCOeval.__module__
        'torch_ap.compat.coco_eval'
    """
    return _install("pycocotools", _PYCOCOTOOLS)


def init_as_lvis() -> Any:
    """Replace the modules ``lvis``, ``.lvis``, ``.results`` and ``.eval`` for later imports.

    Code that has already imported names of lvis keeps them. ``lvis.LVISVis``, which draws images, does not exist.

    Returns:
        An object whose ``undo()`` restores the former modules; also a context manager.

    Example:
        >>> from torch_ap.compat import init_as_lvis
        >>> with init_as_lvis():
        ...     from lvis import LVISEval
        >>> LVISEval.__module__
        'torch_ap.compat.lvis_eval'
    """
    installed = _install("lvis", _LVIS)
    package = sys.modules["lvis"]
    for name in _LVIS:
        vars(package).update({key: x for key, x in vars(sys.modules[f"lvis.{name}"]).items() if key.startswith("LVIS")})
    vars(sys.modules["lvis.eval"])["Params"] = vars(package).pop("LVISParams")
    return installed


def _install(package_name: str, homes: dict[str, str]) -> _Installed:
    """Replace a package by modules with the public names of modules of this package."""
    package = ModuleType(package_name)
    package.__path__ = []
    modules = {package_name: package}
    for name, home in homes.items():
        source = importlib.import_module(f"torch_ap.compat.{home}")
        module = ModuleType(f"{package_name}.{name}")
        vars(module).update({public: getattr(source, public) for public in source.__all__})
        setattr(package, name, module)
        modules[module.__name__] = module
    return _Installed(modules)
