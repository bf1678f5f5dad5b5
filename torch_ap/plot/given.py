"""What the pictures take: curves, metrics that have them, lists of these, or dicts by name."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from torch import Tensor, nn

from torch_ap.functional import Curve, QueryCurve
from torch_ap.rules.class_names import ClassNames
from torch_ap.rules.messages import shown

Curves: TypeAlias = Any  # a curve, a metric that has `curve()`, a list of them, or a dict of them by name


def curves_of(given: Curves, class_names: ClassNames = None) -> list[Curve]:
    """The curves of single rankings, each under its name: that of a dict's key, of its class, or both.

    Raises:
        TypeError: for what has no curves, and for those of queries.
    """
    found = []
    for curve in all_curves_of(given, class_names):
        if isinstance(curve, QueryCurve):
            raise TypeError("`curves` must be of single rankings; that of queries is a mean, for `precision_recall`")
        found.append(curve)
    return found


def all_curves_of(given: Curves, class_names: ClassNames = None) -> list[Curve | QueryCurve]:
    """The same with those of queries."""
    if isinstance(given, Curve | QueryCurve):
        return [given]
    if isinstance(given, Mapping | nn.ModuleDict):
        found = [(str(name), all_curves_of(one, class_names)) for name, one in given.items()]
        return [_named(x, name if len(each) == 1 else f"{name}: {x.name}") for name, each in found for x in each]
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Tensor | type | nn.Module):
        return [curve for one in given for curve in all_curves_of(one, class_names)]
    if not isinstance(given, type) and callable(of_metric := getattr(given, "curve", None)):
        takes_names = class_names is not None and "class_names" in inspect.signature(of_metric).parameters
        found_here = all_curves_of(of_metric(class_names=class_names) if takes_names else of_metric())
        return [_named(x, with_kind(given, x.name)) for x in found_here]
    got = f"the class {given.__name__}; give an instance" if isinstance(given, type) else shown(given)
    if isinstance(given, Tensor):
        got = "a tensor; give `torch_ap.functional.curve(preds, target)`"
    raise TypeError(f"`curves` must be a Curve, a metric that has `curve()`, a list or a dict of them, got {got}")


def with_kind(metric: Any, name: str) -> str:
    """The name of a class; of one that has only a number, with the word for what it is the number of."""
    kind = getattr(metric, "plot_legend_name", None)
    return f"{kind.lower()} {name}" if kind and name.isdigit() else name


def _named(curve: Curve | QueryCurve, name: str) -> Curve | QueryCurve:
    return replace(curve, name=name)
