"""Option values: each value of each option gives the value of its definition, and every other value raises."""

import functools
import gc
import inspect
import typing
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from tests.support import oracles
from tests.support import oracles_retrieval as queries
from tests.support.each import each
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS, Row, one_each
from tests.support.tolerances import REORDERED
from torch_ap import curves, functional, retrieval
from torch_ap.core.base import checks, options
from torch_ap.core.base.options import allowed_values
from torch_ap.core.measures import average_precision, averaging, convention
from torch_ap.core.measures.measure import Measure
from torch_ap.core.measures.ties import DENOMINATORS, TIE_RULES, TIES
from torch_ap.core.ranking import builders
from torch_ap.retrieval import settings as query_evaluation
from torch_ap.retrieval.measures import at_rank, gain
from torch_ap.retrieval.runs import measure_names

UNKNOWN = "midpoint"
QUERY_OPTIONS = ("missing_queries", "empty_target_action")  # metrics over queries take them as keywords
CALLS = {**FUNCTIONS, **INFERENCE, **METRICS}


def names_in(hint):
    """Return the strings in a type hint."""
    parts = [x for x in typing.get_args(hint) if not isinstance(x, list)]
    if typing.get_origin(hint) is typing.Literal:
        return [x for x in parts if isinstance(x, str)]
    return [name for part in parts for name in names_in(part)]


def named_options(call):
    """Return the parameters of a function or class that take a name from a list."""
    made_by = call.__new__ if "__new__" in vars(call) else call.__init__ if inspect.isclass(call) else call
    hints = typing.get_type_hints(made_by)
    found = {name for name, hint in hints.items() if name != "return" and names_in(hint)}
    if inspect.isclass(call) and call.__name__.startswith("Retrieval"):
        found |= {*QUERY_OPTIONS, "aggregation"}
    return sorted(found)


def every_option():
    for name in (x for rows in (FUNCTIONS, INFERENCE, METRICS) for x in one_each(rows)):
        for option in named_options(CALLS[name].call):
            yield f"{name}, {option}", (CALLS[name], option)


def call_with(row: Row, option, value=UNKNOWN):
    """Construct the metric, or call the function, with an unknown value of one option."""
    changed = replace(row, settings={**row.settings, option: value})
    return changed.new() if inspect.isclass(row.call) else changed.value(row.batches(1)[0])


@each("row, option", dict(every_option()))
def test_unknown_values_raise_and_name_the_argument(row: Row, option):
    with pytest.raises(ValueError, match=rf"`{option}`.*{UNKNOWN}"):
        call_with(row, option)


@each("row, option", {name: x for name, x in every_option() if x[1] not in ("bins", "frequencies")})
def test_values_without_a_truth_value_raise_and_name_the_argument(row: Row, option):
    for value in (torch.tensor([]), torch.tensor([1, 2]), np.array([1, 2])):
        with pytest.raises((TypeError, ValueError), match=f"`{option}`"):
            call_with(row, option, value)


def test_the_law_covers_the_options():
    covered = {option for _, (_, option) in every_option()}
    assert {"ties", "denominator", "interpolation", "average", "gains", "aggregation", *QUERY_OPTIONS} <= covered


@pytest.fixture
def _another_tie_rule(monkeypatch):
    """Register a tie rule that no measure lists."""
    monkeypatch.setitem(TIE_RULES, UNKNOWN, replace(TIE_RULES["grouped"], name=UNKNOWN))


@pytest.mark.usefixtures("_another_tie_rule")
def test_a_registered_rule_raises_where_a_measure_does_not_list_it():
    rows = [row for _, (row, option) in every_option() if option == "ties"]
    assert len(rows) > 30
    for row in rows:
        with pytest.raises(ValueError, match=rf"`ties` .*{UNKNOWN}"):
            call_with(row, "ties")


SETTINGS = {"ratio": "recall", "what": "hit_rate", "level": 0.1, "version": 10}


def concrete_measures(base=Measure):
    """Yield the measures of the package that have no abstract method."""
    for measure in base.__subclasses__():
        yield from concrete_measures(measure)
        if measure.__module__.startswith("torch_ap") and not inspect.isabstract(measure):
            yield measure


RECORDS = [x for x in concrete_measures() if "ties" in vars(x)["__match_args__"]]


@pytest.mark.usefixtures("_another_tie_rule")
@pytest.mark.parametrize("record", RECORDS)
def test_measures_raise_for_a_registered_rule_that_they_do_not_list(record):
    settings = {x.name: SETTINGS[x.name] for x in fields(record) if x.name in SETTINGS}
    supported = {x for x in record.supported_ties if x is not None}
    assert {record(**settings, ties=ties).ties for ties in supported} == supported
    with pytest.raises(ValueError, match=rf"`ties` .*{UNKNOWN}"):
        record(**settings, ties=UNKNOWN)


SCORES, RELEVANT = [0.9, 0.5, 0.5, 0.5, 0.2, 0.2, 0.1], [0, 1, 0, 1, 1, 0, 1]
TIED = torch.tensor([SCORES, SCORES], dtype=torch.float64), torch.tensor([RELEVANT, [0] * len(RELEVANT)])
DISPATCHED = {
    "ties": (
        lambda x: functional.retrieval_average_precision(*TIED, 3, ties=x),
        lambda x: functional.retrieval_average_precision(*TIED, ties=x, interpolation="11-point"),
        lambda x: functional.retrieval_precision(*TIED, 3, ties=x),
        lambda x: functional.retrieval_reciprocal_rank(*TIED, ties=x),
        lambda x: functional.retrieval_hit_rate(*TIED, 3, ties=x),
        lambda x: functional.retrieval_auroc(*TIED, ties=x),
        lambda x: functional.retrieval_normalized_dcg(*TIED, ties=x),
        lambda x: curves.area_under_hit_curve(TIED[0][0], TIED[1][0], ties=x),
        lambda x: functional.binary_average_precision(TIED[0][0], TIED[1][0], top_k=3, ties=x),
    ),
    "denominator": (
        lambda x: functional.retrieval_average_precision(*TIED, 3, denominator=x),
        lambda x: functional.binary_average_precision(TIED[0][0], TIED[1][0], top_k=3, denominator=x),
    ),
    "interpolation": (lambda x: functional.retrieval_average_precision(*TIED, interpolation=x, ties="grouped"),),
    "gains": (lambda x: functional.retrieval_normalized_dcg(*TIED, gains=x),),
    "average": (lambda x: functional.multilabel_average_precision(TIED[0].T, TIED[1][[0, 0]].T, 2, average=x),),
    "empty_target_action": (lambda x: functional.retrieval_precision(*TIED, empty_target_action=x),),
    "missing_queries": (
        lambda x: functional.retrieval_precision(
            TIED[0][0],
            TIED[1][0],
            indexes=torch.zeros(7, dtype=torch.long),
            num_relevant={0: 4, 1: 2},
            missing_queries=x,
        ),
    ),
    "aggregation": (lambda x: mean_average_precision(x),),
}


def mean_average_precision(aggregation):
    metric = retrieval.RetrievalMAP(aggregation=aggregation)
    metric.update(*TIED)
    return metric.compute()


@pytest.fixture
def _clear_caches_afterwards():
    """Clear the cached settings, which the test creates while the checks are disabled."""
    yield
    for cache in [x for x in gc.get_objects() if isinstance(x, functools._lru_cache_wrapper)]:
        if (cache.__module__ or "").startswith("torch_ap"):
            cache.cache_clear()


@pytest.mark.usefixtures("_clear_caches_afterwards")
@pytest.mark.parametrize("call", [call for calls in DISPATCHED.values() for call in calls])
def test_nothing_falls_through_to_a_default(call, monkeypatch):
    """Without the check of the argument, an unknown value still does not return the value of another one."""
    monkeypatch.setattr(checks, "one_of", lambda *_, **__: None)
    monkeypatch.setattr(averaging, "ACTIONS", (*averaging.ACTIONS, UNKNOWN))
    with pytest.raises((KeyError, ValueError), match=UNKNOWN):
        call(UNKNOWN)


@each(
    "table, option",
    {
        "ties": (TIES, options.Ties),
        "tie rules": (tuple(TIE_RULES), options.Ties),
        "ties of commands": (measure_names.TIE_RULES, options.Ties),
        "denominator": (DENOMINATORS, options.Denominator),
        "interpolation": (convention.INTERPOLATIONS, options.Interpolation),
        "gains": (tuple(gain.GAINS), options.Gains),
        "actions": (averaging.ACTIONS, options.Action),
        "missing": (tuple(query_evaluation.MISSING), options.MissingQueries),
    },
)
def test_the_tables_define_the_public_names(table, option):
    assert set(table) == set(allowed_values(option))


# -- definitions

WITHOUT_M = {
    "retrieval_precision": queries.precision,
    "retrieval_fall_out": queries.fall_out,
    "retrieval_hit_rate": queries.hit_rate,
    "retrieval_reciprocal_rank": queries.reciprocal_rank,
}
WITH_M = {
    "retrieval_recall": queries.recall,
    "retrieval_f_beta": lambda order, m, k: queries.f_beta(order, m, Fraction(1), k),
    "retrieval_average_precision": queries.average_precision,
}
CUTS = (None, 1, 2, 3, 4, 6)


def exact(measure, ties):
    return float(queries.over_orders(measure, SCORES, RELEVANT, ties))


@each("ties, k", {f"{ties}, {k}": (ties, k) for ties, k in product(("expected", "optimistic", "pessimistic"), CUTS)})
def test_ordered_rules_give_the_value_of_their_orders(ties, k):
    preds, target = TIED[0][0], TIED[1][0]
    m = sum(RELEVANT)
    for name, measure in {**WITHOUT_M, **{name: partial(f, m=m) for name, f in WITH_M.items()}}.items():
        found = getattr(functional, name)(preds, target, k, ties=ties)
        assert found.item() == pytest.approx(exact(partial(measure, k=k), ties), abs=REORDERED), name
    for denominator in DENOMINATORS:
        found = functional.retrieval_average_precision(preds, target, k, ties=ties, denominator=denominator)
        measure = partial(queries.average_precision, m=m, k=k, denominator=denominator)
        assert found.item() == pytest.approx(exact(measure, ties), abs=REORDERED)
    for gains in gain.GAINS:
        found = functional.retrieval_normalized_dcg(preds, target, k, ties=ties, gains=gains)
        wanted = queries.normalized_dcg(SCORES, RELEVANT, RELEVANT, k=k, gains=gains, ties=ties)
        assert found.item() == pytest.approx(wanted, abs=REORDERED)


def test_grouped_gives_the_value_of_thresholds():
    preds, target = TIED[0][0], TIED[1][0]
    for k, denominator in product(CUTS, DENOMINATORS):
        found = functional.retrieval_average_precision(preds, target, k, ties="grouped", denominator=denominator)
        wanted = oracles.average_precision(SCORES, RELEVANT, "grouped", k, denominator)
        assert found.item() == pytest.approx(float(wanted), abs=REORDERED)
    curve = builders.from_scores(preds, target)
    # the first hit is at the end of its group, at rank 4
    assert at_rank.FirstHit("reciprocal_rank")(curve).tolist() == [1 / 4]
    assert [at_rank.FirstHit("hit_rate", k)(curve).item() for k in (3, 4)] == [0, 1]
    assert average_precision.area(curve, ties="grouped").item() == pytest.approx(
        float(queries.over_orders(area, SCORES, RELEVANT, "expected")), abs=REORDERED
    )


def area(order):
    """Return the area under h(t) / n over t / n along straight lines."""
    n = len(order)
    return sum((Fraction(2 * (n - t) + 1, 2) for t, y in enumerate(order, 1) if y), Fraction(0)) / n**2
