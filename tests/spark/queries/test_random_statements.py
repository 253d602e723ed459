"""Whatever random statement or application the product accepts, Spark plans."""

from __future__ import annotations

import pytest

from ds_dagster.spark.faults import SPARK_ERRORS
from ds_dagster.spark.queries import query as face
from tests.spark.queries.accepted_statements import accepted, expression_type, settings_of
from tests.spark.queries.random_applications import NAME, random_application
from tests.spark.queries.random_statements import random_statements

pytestmark = pytest.mark.spark


def refused_plan(bench, name: str, text: str) -> str:
    """Why Spark does not plan an accepted statement or application, else empty."""
    try:
        prepared = bench.prepare(name)
    except Exception as problem:  # noqa: BLE001 - whatever is said is the finding
        return f"{text}\n    {problem!r}"
    try:
        jvm = bench.spark._jvm
        execution = prepared.frame._jdf.queryExecution()
        modes = jvm.org.apache.spark.sql.streaming.OutputMode
        mode = modes.Update() if prepared.output_mode == "update" else modes.Append()
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        checker.checkForStreaming(execution.analyzed(), mode)
        prepared.frame._jdf.sparkSession().sessionState().optimizer().execute(execution.analyzed())
    except SPARK_ERRORS as problem:
        return f"{text}\n    {str(problem)[:600]}"
    finally:
        face.close(prepared)
    return ""


def planned(bench, seed: int, count: int) -> list[str]:
    statements, wrong, done = random_statements(seed, expression_type), [], 0
    while done < count:
        right, project, said = accepted(statements, settings_of(bench.folder))
        bench.project, done = project, done + len(right)
        wrong += said
        wrong += [reason for one in right if (reason := refused_plan(bench, one.name, one.text))]
    return wrong


def planned_applications(bench, seed: int, count: int) -> list[str]:
    statements, wrong, done = random_statements(seed, expression_type), [], 0
    while done < count:
        one, said = random_application(statements, settings_of(bench.folder))
        wrong += said
        if one is not None:
            bench.project, done = one.project, done + 1
            reason = refused_plan(bench, NAME, one.text)
            wrong += [reason] if reason else []
    return wrong


def test_random_statements_are_planned(bench):
    wrong = planned(bench, 1, 12)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_thousand_random_statements_are_planned(bench, seed):
    wrong = planned(bench, seed, 250)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("seed", "count"), [(2, 1), *(pytest.param(seed, 12, marks=pytest.mark.slow) for seed in range(3, 7))]
)
def test_random_applications_are_planned(bench, seed, count):
    wrong = planned_applications(bench, seed, count)
    assert not wrong, "\n".join(wrong)
