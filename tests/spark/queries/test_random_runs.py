"""Random statements and applications give the same rows in one go, cut into pieces with restarts, and as questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ds_dagster.datatypes import ArrayType, DataType, MapType, StructType, is_temporal
from ds_dagster.errors import DsError, InternalError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.duck_types import arrow_type
from ds_dagster.questions.engine import QuestionEngine
from ds_dagster.questions.relations import table_name
from ds_dagster.questions.values import json_rows
from ds_dagster.sql.script import parse_select
from ds_dagster.testing.case import Advance, Case, Expectation, Restart, Row, Send, SendTogether, SentRecord, Step
from ds_dagster.testing.diff import compare
from ds_dagster.testing.golden import Golden
from ds_dagster.testing.runner import CaseRun
from tests.spark.queries.accepted_statements import HERE, STORE, Accepted, accepted, settings_of
from tests.spark.queries.random_applications import random_application
from tests.spark.queries.random_parts import Record, Statements
from tests.spark.queries.random_statements import random_statements

pytestmark = pytest.mark.spark

Contents = Mapping[str, list[Row] | str]
RECORDS = 26
END = 1_900_000_000_000
NOT_ANSWERED = ("QUESTION_AGGREGATE",)
"""What a question says of statements that only streams answer."""


@dataclass(frozen=True, slots=True)
class Drive:
    """Statements over the same records, in one go or in pieces."""

    spark: SparkSession
    project: LoadedProject
    folder: Path

    def contents(self, steps: Sequence[Step]) -> Contents:
        """What each relation holds after the steps, or the condition its query ended with."""
        case = Case(self.folder / "c.case.yaml", "random", (), stores=("m",), steps=(*steps, Advance(HERE, END)))
        contents: dict[str, list[Row] | str] = {}
        folder = self.folder / f"run_{len(list(self.folder.iterdir()))}"
        run = CaseRun(self.spark, case, self.project, folder, Golden(False))

        def look() -> None:
            for running in run.queries:
                for name in (relation.name.name for relation in running.query.sinks):
                    rows = run.rows(Expectation(HERE, relation=name))[0]
                    contents[name] = running.failure.condition if running.failure else list(rows)

        run.run(look)
        return contents


@dataclass(slots=True)
class Tally:
    """What was compared, so that a run in which nothing has rows does not pass.

    Attributes:
        wrong: what differs.
        statements: all.
        filled: those that gave rows.
        asked: those that gave rows as a question too.
    """

    wrong: list[str] = field(default_factory=list)
    statements: int = 0
    filled: int = 0
    asked: int = 0

    def check(self) -> None:
        assert not self.wrong, "\n".join(self.wrong)
        shown = f"{self.filled} with rows and {self.asked} as questions of {self.statements}"
        assert 2 * self.filled >= self.statements, shown
        assert 6 * self.asked >= self.statements, shown


def sends(records: Sequence[Record]) -> list[Send]:
    """One batch for each topic."""
    batches: dict[str, list[SentRecord]] = {}
    for topic, key, value, at in records:
        batches.setdefault(topic, []).append(SentRecord(key, value, at))
    return [Send(HERE, topic, tuple(batch)) for topic, batch in batches.items()]


def in_pieces(records: Sequence[Record], cuts: Sequence[int]) -> Iterator[Step]:
    """Everything restarts between two pieces, each of which is one batch of all topics."""
    for begin, end in pairwise([0, *cuts, len(records)]):
        yield SendTogether(HERE, tuple(sends(records[begin:end])))
        yield Restart(HERE)


def tables(project: LoadedProject, records: Sequence[Record]) -> dict[str, pa.Table]:
    """The rows of the declared relations, as questions read them."""
    rows: dict[str, dict[object, Row]] = {name: {} for name in "srce"}
    for number, (topic, key, value, _) in enumerate(records):
        place = json.dumps(key) if key else number
        rows[topic].pop(place, None)
        if value is not None:
            rows[topic][place] = value
    return {
        table_name(relation): pa.table(
            {
                column.name: pa.array(
                    [value_of(row[column.name], column.type) for row in rows[relation.name.name].values()],
                    arrow_type(column.type),
                )
                for column in relation.columns
            }
        )
        for relation in project.catalog.relations.values()
        if relation.name.name in rows
    }


def one_of_each(statements: Statements, folder: Path) -> tuple[list[Accepted], LoadedProject]:
    """Accepted statements, one for each SELECT, and a project of them in which every topic is read."""
    chosen: dict[str, Accepted] = {}
    for one in accepted(statements, settings_of(folder))[0]:
        chosen.setdefault(one.select.text, one)
    read = [f"CREATE {rows.kind.upper()} all_{name} AS SELECT * FROM {name};" for name, rows in statements.base.items()]
    texts = [STORE + statements.declarations(), *read, *(one.text for one in chosen.values())]
    return list(chosen.values()), compile_texts(
        [(f"{n}.sql", text) for n, text in enumerate(texts)], settings_of(folder)
    )


def compared(spark: SparkSession, folder: Path, seed: int, count: int) -> Tally:
    """What so many statements give otherwise in pieces, or as questions."""
    statements, tally = random_statements(seed), Tally()
    while tally.statements < count:
        chosen, project = one_of_each(statements, folder)
        _compare(Drive(spark, project, folder), chosen, statements, tally)
    return tally


def compared_applications(spark: SparkSession, folder: Path, seed: int, count: int) -> Tally:
    """The same of so many applications, each sink as a question that reads no virtual relation."""
    statements, tally, done = random_statements(seed), Tally(), 0
    while done < count:
        one, said = random_application(statements, settings_of(folder))
        tally.wrong += said
        if one is not None:
            done += 1
            alone = [one.alone(sink) for sink in one.sinks]
            _compare(Drive(spark, one.project, folder), alone, statements, tally)
    return tally


def _compare(drive: Drive, chosen: Sequence[Accepted], statements: Statements, tally: Tally) -> None:
    """What statements of one project give otherwise in pieces, or as questions."""
    inputs = {relation.name.name for query in drive.project.queries.values() for relation in query.inputs}
    records = [record for record in statements.records(RECORDS) if record[0] in inputs]
    whole = drive.contents(sends(records))
    cut = drive.contents([*in_pieces(records, sorted(statements.random.sample(range(1, len(records)), 2)))])
    with QuestionEngine() as engine:
        asked = tables(drive.project, records)
        for one in chosen:
            tally.statements += 1
            tally.filled += bool(whole[one.name])
            tally.asked += bool(whole[one.name]) and not one.select.waits
            for text in _wrong(one, drive.project, whole, cut, engine, asked):
                tally.wrong.append(f"{one.text}\n  {one.name}: {text}")


def spaced(value: Any, type_: DataType) -> Any:
    """A JSON value with times as records have them: a blank between day and hour."""
    if value is None:
        return None
    if isinstance(type_, ArrayType):
        return [spaced(inner, type_.element) for inner in value]
    if isinstance(type_, MapType):
        return {name: spaced(inner, type_.value) for name, inner in value.items()}
    if isinstance(type_, StructType):
        return {part.name: spaced(value[part.name], part.type) for part in type_.fields}
    return value.replace("T", " ") if is_temporal(type_) else value


def _wrong(
    one: Accepted,
    project: LoadedProject,
    whole: Contents,
    cut: Contents,
    engine: QuestionEngine,
    asked: dict[str, pa.Table],
) -> Iterator[str]:
    rows, pieces = whole[one.name], cut[one.name]
    if isinstance(rows, str) or isinstance(pieces, str):
        yield f"ends with {rows if isinstance(rows, str) else pieces}"
        return
    sinks = (relation for query in project.queries.values() for relation in query.sinks)
    types = {
        column.name: column.type for relation in sinks if relation.name.name == one.name for column in relation.columns
    }
    anywhere = Expectation(HERE, relation=one.name)
    text = compare(anywhere, rows, pieces, (), types)
    if text:
        yield f"in pieces:\n{text}"
    if one.select.waits:
        return
    try:
        question = bind_question(project, parse_select(one.select.text))
        answer = engine.answer(engine.prepare(question), asked)
    except InternalError:
        raise
    except DsError as problem:
        if problem.condition not in NOT_ANSWERED:
            yield f"as a question: {problem}"
        return
    answered = [
        {name: spaced(value, types[name]) for name, value in row.items()} for row in json_rows(question.columns, answer)
    ]
    text = compare(anywhere, answered, rows, (), types)
    if text:
        yield f"as a question:\n{text}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_random_statements_run(spark, tmp_path, seed):
    compared(spark, tmp_path, seed, 40).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_random_applications_run(spark, tmp_path, seed):
    compared_applications(spark, tmp_path, seed, 4).check()
