"""The table of scalar meaning in questions, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.duck_types import arrow_type
from ds_dagster.questions.engine import QuestionEngine as Duck
from ds_dagster.questions.relations import table_name
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_select
from tests.scalars import COLUMNS, ERROR, Answer, Engine, answer_of, scalar_rows, topics, wrong_answers


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    folder: Path = tmp_path_factory.mktemp("scalars")
    declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    sql = f"""CREATE STORE m WITH ('type' = MEMORY);
      CREATE STREAM s ({declared}) WITH ('topic' = 's', 'value.format' = 'json');"""
    return compile_texts([("a.sql", sql)], Settings(root=folder, sql=folder, state=folder, store="m"))


@pytest.fixture(scope="module")
def answers(project: LoadedProject) -> Iterator[Engine]:
    relation = next(iter(project.catalog.relations.values()))
    values = {name: value for name, (_, value) in COLUMNS.items()}
    columns = {c.name: pa.array([value_of(values[c.name], c.type)], arrow_type(c.type)) for c in relation.columns}
    tables = {table_name(relation): pa.table(columns)}

    with Duck() as duck:

        def answer(expression: str) -> Answer:
            try:
                question = bind_question(project, parse_select(f"SELECT {expression} AS c FROM s"))
                (value,) = duck.answer(duck.prepare(question), tables).column(0).to_pylist()
            except DsError:
                return ERROR
            return answer_of(value, question.columns[0][1])

        def of(expressions: Sequence[str]) -> list[Answer]:
            return [answer(expression) for expression in expressions]

        yield of


@pytest.mark.parametrize("topic", topics())
def test_answers(answers: Engine, topic: str) -> None:
    wrong = wrong_answers(scalar_rows(topic), answers)
    assert not wrong, "\n".join(wrong)
