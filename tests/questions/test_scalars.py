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

        def asked(expressions: Sequence[str]) -> list[Answer]:
            items = ", ".join(f"{expression} AS c{n}" for n, expression in enumerate(expressions))
            question = bind_question(project, parse_select(f"SELECT {items} FROM s"))
            (row,) = duck.answer(duck.prepare(question), tables).to_pylist()
            return [answer_of(row[name], type_) for name, type_ in question.columns]

        def of(expressions: Sequence[str]) -> list[Answer]:
            """One question; by halves where it is refused or its row fails."""
            try:
                return asked(expressions)
            except DsError:
                if len(expressions) == 1:
                    return [ERROR]
            middle = len(expressions) // 2
            return [*of(expressions[:middle]), *of(expressions[middle:])]

        yield of


@pytest.mark.sweep
@pytest.mark.parametrize("topic", topics())
def test_answers(answers: Engine, topic: str) -> None:
    rows = scalar_rows(topic)
    wrong = wrong_answers([row for row in rows if row.expected != ERROR], answers)
    for row in rows:
        wrong += wrong_answers([row], answers) if row.expected == ERROR else []
    assert not wrong, "\n".join(wrong)
