"""Public names of a package that are imported on first use."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str,
    names: Sequence[str],
    homes: Sequence[str],
    modules: Sequence[str] = (),
    objects: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package.

    Args:
        package: name of the package.
        names: public names of the package.
        homes: modules that define or export the names, relative to `torch_ap`; the first module with a name is used.
        modules: public modules of the package.
        objects: further public names with their "module:name".

    Returns:
        `__getattr__`, which imports a name and stores it in the package, and `__dir__`.
    """

    def store(name: str, value: Any) -> Any:
        setattr(sys.modules[package], name, value)
        return value

    def import_name(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if objects is not None and name in objects:
            home, _, attribute = objects[name].partition(":")
            return store(name, getattr(import_module(home), attribute))
        if name in names:
            for module in (import_module(f"torch_ap.{home}") for home in homes):
                if name in getattr(module, "__all__", vars(module)):
                    return store(name, getattr(module, name))
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names, *modules})

    return import_name, list_names
