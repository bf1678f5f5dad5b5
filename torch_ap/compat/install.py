"""Replacement of pycocotools by this package, for code that imports it."""

import importlib
import sys
from types import ModuleType, TracebackType
from typing import Any

_MODULES = {"coco": "coco", "cocoeval": "coco_eval", "mask": "mask"}  # of pycocotools, and of this package


class _Installed:
    """The replacement of modules; ends with a ``with`` block or :meth:`undo`."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self._before = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)

    def undo(self) -> None:
        """Restore the former modules."""
        for name, module in self._before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        self._before = {}

    def __enter__(self) -> "_Installed":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()


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
    package = ModuleType("pycocotools")
    package.__path__ = []
    modules = {"pycocotools": package}
    for name, home in _MODULES.items():
        source = importlib.import_module(f"torch_ap.compat.{home}")
        module = ModuleType(f"pycocotools.{name}")
        vars(module).update({public: getattr(source, public) for public in source.__all__})
        setattr(package, name, module)
        modules[module.__name__] = module
    return _Installed(modules)
