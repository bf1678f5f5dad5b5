"""Input of the plots: curves, metrics that have curves, lists of them, or dicts by name."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from torch import Tensor, nn

from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.messages import short_repr
from torch_ap.curves import Curve
from torch_ap.functional import QueryCurve

Curves: TypeAlias = Any  # a curve, a metric that has `curve()`, a list of them, or a dict of them by name


def curves_of(source: Curves, class_names: ClassNames = None) -> list[Curve]:
    """Return the curves of single rankings, each named by its key in a dict, its class, or both.

    Raises:
        TypeError: for an object without curves, and for curves of queries.
    """
    curves = []
    for curve in all_curves_of(source, class_names):
        if isinstance(curve, QueryCurve):
            raise TypeError(
                "`curves` must be curves of single rankings, got a mean over queries; only `precision_recall` draws it"
            )
        curves.append(curve)
    return curves


def all_curves_of(source: Curves, class_names: ClassNames = None) -> list[Curve | QueryCurve]:
    """Return the curves of single rankings and of queries."""
    if isinstance(source, Curve | QueryCurve):
        return [source]
    if isinstance(source, Mapping | nn.ModuleDict):
        groups = [(str(name), all_curves_of(x, class_names)) for name, x in source.items()]
        return [_rename(x, name if len(group) == 1 else f"{name}: {x.name}") for name, group in groups for x in group]
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | Tensor | type | nn.Module):
        return [curve for x in source for curve in all_curves_of(x, class_names)]
    if not isinstance(source, type) and callable(method := getattr(source, "curve", None)):
        takes_names = class_names is not None and "class_names" in inspect.signature(method).parameters
        curves = all_curves_of(method(class_names=class_names) if takes_names else method())
        return [_rename(x, with_kind(source, x.name)) for x in curves]
    got = f"the class {source.__name__}; pass an instance" if isinstance(source, type) else short_repr(source)
    if isinstance(source, Tensor):
        got = "a tensor; pass `torch_ap.functional.binary_curve(preds, target)`"
    raise TypeError(f"`curves` must be a Curve, a metric that has `curve()`, a list or a dict of them, got {got}")


def with_kind(metric: Any, name: str) -> str:
    """Return the name of a class; a name that is only a number is preceded by its kind, such as "class"."""
    kind = getattr(metric, "plot_legend_name", None)
    return f"{kind.lower()} {name}" if kind and name.isdigit() else name


def _rename(curve: Curve | QueryCurve, name: str) -> Curve | QueryCurve:
    return replace(curve, name=name)
