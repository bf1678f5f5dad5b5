"""Tests of former names and keywords."""

import sys
import types

import pytest

from torch_ap.core.base.deprecated import former_names, renamed_keywords
from torch_ap.core.base.lazy import lazy_exports


@renamed_keywords(batch="chunk_size")
def resample(n: int, *, chunk_size: int | None = None) -> tuple[int, int | None]:
    """Return the arguments."""
    return n, chunk_size


def test_a_former_keyword_works_with_a_warning() -> None:
    """A former keyword is passed on under its current name, with a warning that names both."""
    with pytest.warns(FutureWarning, match="`batch` is deprecated: use `chunk_size`"):
        assert resample(3, batch=5) == (3, 5)
    assert resample(3, chunk_size=5) == (3, 5)
    assert resample(3) == (3, None)


def test_both_names_of_a_keyword_raise() -> None:
    """Both names at once raise TypeError, as a keyword given twice does."""
    with pytest.raises(TypeError, match="use `chunk_size` alone"):
        resample(3, batch=5, chunk_size=5)


def test_a_former_name_works_with_a_warning() -> None:
    """A renamed object is found under its former name; a removed name names its replacement."""
    find = former_names("torch_ap.old", {"rooted": "math:sqrt"}, {"cbrt": "`pow`"})
    with pytest.warns(FutureWarning, match=r"`torch_ap.old.rooted` is deprecated: use `math.sqrt`"):
        assert find("rooted")(4) == 2
    with pytest.raises(AttributeError, match=r"`torch_ap.old.cbrt` was removed: use `pow`"):
        find("cbrt")
    with pytest.raises(AttributeError, match=r"module 'torch_ap\.old' has no attribute 'sine'"):
        find("sine")


def test_a_lazy_package_stores_the_names_of_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("lazy_package")
    monkeypatch.setitem(sys.modules, "lazy_package", package)
    get, _ = lazy_exports("lazy_package", (), (), objects={"root": "math:sqrt"})
    assert get("root")(9) == 3
    assert vars(package)["root"](9) == 3
