"""Examples of aggregates and of functions of other rows give in a question what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.errors import DsError
from ds_dagster.functions.function import Function
from ds_dagster.functions.group_function import EXAMPLE_COLUMNS, EXAMPLE_ROWS, OnlyOver
from ds_dagster.functions.table import FUNCTIONS, GROUP_FUNCTIONS
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.duck_types import arrow_type
from ds_dagster.questions.engine import QuestionEngine
from ds_dagster.questions.relations import table_name
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_select
from tests.tables import check_every

NAMES = [column.split()[0] for column in EXAMPLE_COLUMNS.split(", ")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    folder: Path = tmp_path_factory.mktemp("examples")
    sql = f"""CREATE STORE m WITH ('type' = MEMORY);
      CREATE STREAM s ({EXAMPLE_COLUMNS}) WITH ('topic' = 's', 'value.format' = 'json');"""
    return compile_texts([("a.sql", sql)], Settings(root=folder, sql=folder, state=folder, store="m"))


def ask(project: LoadedProject, text: str) -> list[dict[str, Any]]:
    question = bind_question(project, parse_select(text))
    relation = question.relations[0]
    columns = {
        column.name: pa.array(
            [value_of(row[NAMES.index(column.name)], column.type) for row in EXAMPLE_ROWS], arrow_type(column.type)
        )
        for column in relation.columns
    }
    with QuestionEngine() as engine:
        rows: list[dict[str, Any]] = engine.answer(
            engine.prepare(question), {table_name(relation): pa.table(columns)}
        ).to_pylist()
    return rows


def of_kind(kind: str) -> list[Function]:
    return [function for function in FUNCTIONS.values() if function.kind == kind]


def test_aggregates(project: LoadedProject) -> None:
    def check_example(function: Function) -> None:
        for example in function.examples:
            (row,) = ask(project, f"SELECT {example.call} AS x, {example.gives} AS y FROM s")
            assert row["x"] == pytest.approx(float(row["y"])) if isinstance(row["x"], float) else row["x"] == row["y"]

    asked = [one for one in GROUP_FUNCTIONS.values() if not isinstance(one.question, OnlyOver)]
    check_every(asked, check_example, name=lambda function: function.name)


def test_values_by_time_are_refused_without_an_order(project: LoadedProject) -> None:
    for function in GROUP_FUNCTIONS.values():
        if isinstance(function.question, OnlyOver):
            with pytest.raises(DsError) as caught:
                ask(project, f"SELECT {function.examples[0].call} AS x FROM s")
            assert caught.value.condition == "QUESTION_AGGREGATE"


def test_functions_of_other_rows(project: LoadedProject) -> None:
    """Of the rows with values, in their order."""

    def check_example(function: Function) -> None:
        (example,) = function.examples
        rows = ask(project, f"SELECT {example.call} AS x, n FROM s WHERE n IS NOT NULL ORDER BY n")
        assert ", ".join("NULL" if row["x"] is None else str(row["x"]) for row in rows) == example.gives

    check_every(of_kind("window"), check_example, name=lambda function: function.name)


def test_grouping(project: LoadedProject) -> None:
    (example,) = FUNCTIONS["GROUPING"].examples
    rows = ask(project, f"SELECT {example.call} AS x FROM s GROUP BY ROLLUP (k) ORDER BY x")
    assert ", ".join(str(row["x"]) for row in rows) == example.gives


@pytest.mark.parametrize("name", [function.name for function in of_kind("metadata")])
def test_metadata_of_records_is_refused(project: LoadedProject, name: str) -> None:
    with pytest.raises(DsError):
        ask(project, f"SELECT {name}() AS x FROM s")
