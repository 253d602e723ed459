"""Every function is one whole record: called somehow, computed by both engines, described and shown.

The types of the records ask for their meanings; examples are evaluated in ``test_examples.py`` and, on Spark, in
``tests/spark/functions``.
"""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

from sqlglot import exp

from ds_dagster.functions.constants import ConstantKind
from ds_dagster.functions.families.plan_functions import PlanFunction
from ds_dagster.functions.families.window_functions import WindowFunction
from ds_dagster.functions.function import FAMILIES, Function, RowFunction
from ds_dagster.functions.group_function import GroupFunction, MadeOf
from ds_dagster.functions.operators import OPERATORS
from ds_dagster.functions.table import ALIASES, FUNCTIONS, GROUP_FUNCTIONS, KNOWN_LATER, OTHER_ROWS
from ds_dagster.plan.expressions.binder import VISITORS
from ds_dagster.plan.expressions.constants import CHECKS
from ds_dagster.plan.nodes.aggregate import AggregateFunction
from tests.tables import check_every

RECORDS = {
    "scalar": RowFunction,
    "aggregate": GroupFunction,
    "metadata": PlanFunction,
    "grouping": PlanFunction,
    "window": WindowFunction,
}
"""Kind of function → its record, which says what each engine does."""


def name_of(function: Function) -> str:
    return function.name


def test_every_function_is_a_record_of_its_kind() -> None:
    def check_record(function: Function) -> None:
        assert type(function) is RECORDS[function.kind]
        assert function.signatures
        for form in function.signatures:
            assert {word.rstrip("?+*") for word in form.words} <= set(FAMILIES)
            assert form.accepts_count(form.least)

    check_every(FUNCTIONS.values(), check_record, name=name_of)


def test_every_function_is_described_and_shown() -> None:
    def check_texts(function: Function) -> None:
        assert function.meaning
        assert not function.meaning.endswith(".")
        assert function.examples
        has_own_form = "`" in function.meaning  # AT TIME ZONE, FLOOR(time TO unit)
        assert any(function.name in example.call for example in function.examples) or has_own_form

    check_every(FUNCTIONS.values(), check_texts, name=name_of)


def test_aggregates_are_known_to_plans_or_made_of_those() -> None:
    known = set(get_args(AggregateFunction))
    for function in GROUP_FUNCTIONS.values():
        base = function.spark.aggregate if isinstance(function.spark, MadeOf) else function.name
        assert base in known, function.name
        assert (function.name in known) is not isinstance(function.spark, MadeOf)


def test_what_questions_refuse_has_a_reason() -> None:
    refused = {name for name, function in FUNCTIONS.items() if isinstance(function, PlanFunction)} - {"GROUPING"}
    assert refused == {name for name, function in FUNCTIONS.items() if getattr(function, "no_question", "")}
    assert set(OTHER_ROWS) - {"FIRST_VALUE", "LAST_VALUE"} == {
        name for name, function in FUNCTIONS.items() if function.kind == "window"
    }


NO_OPERATORS = {
    *(exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Paren),
    *(exp.Anonymous, exp.Coalesce, exp.Trim, exp.Extract),
    *(exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Filter, exp.ArrayAgg),
    *(exp.VariancePop, exp.Variance, exp.StddevPop, exp.StddevSamp),
    *(exp.Window, exp.Subquery, exp.Exists),
}
"""Trees that are bound and are leaves, calls or queries."""


def test_every_operator_is_a_record() -> None:
    assert {operator.node for operator in OPERATORS} == set(VISITORS) - NO_OPERATORS
    assert len({operator.node for operator in OPERATORS}) == len(OPERATORS)
    assert all(operator.meaning and operator.examples for operator in OPERATORS)


def test_constants_are_arguments_that_are_checked() -> None:
    assert set(CHECKS) | {"unit", "precision"} == set(get_args(ConstantKind))
    for function in FUNCTIONS.values():
        most = max(len(form.words) for form in function.signatures)
        assert all(constant.at < most for constant in function.constants), function.name


def test_names_are_names_of_one_function() -> None:
    assert not set(ALIASES) & set(FUNCTIONS)
    assert not set(KNOWN_LATER) & (set(FUNCTIONS) | set(ALIASES))
    assert sum(len(function.aliases) for function in FUNCTIONS.values()) == len(ALIASES)
    assert all(name == name.upper() for name in (*FUNCTIONS, *ALIASES))


def test_families_are_read_without_the_helpers_of_questions() -> None:
    """A project loads the table: what questions alone compute is not part of that."""
    code = "import sys, ds_dagster.functions.table; print([n for n in sys.modules if '.functions.values' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
