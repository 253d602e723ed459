"""Streams and questions give random expressions the same answers, and fail for the same rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, InternalError
from ds_dagster.plan.binding.scope import Scope, Source, visible
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.nodes.node import BoundExpression, Field
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.duck_types import arrow_type
from ds_dagster.questions.engine import QuestionEngine
from ds_dagster.questions.relations import table_name
from ds_dagster.settings import Settings
from ds_dagster.spark.compiler import PlanCompiler
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.sources import PROVIDED
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.sql.script import parse_select
from tests.scalars import ERROR, Answer, answer_of, same_answer
from tests.spark.functions.random_expressions import COLUMNS, LITERALS, TYPES, Expressions

pytestmark = pytest.mark.spark
ROWS = 4
AT_ONCE = 60
"""Expressions of one Spark job."""
Answers = list[Answer]


@dataclass(frozen=True)
class Bound:
    """A text that the dialect accepts."""

    text: str
    bound: BoundExpression

    @property
    def type(self) -> DataType:
        return self.bound.type


@pytest.fixture
def project(tmp_path: Path) -> LoadedProject:
    declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    sql = f"""CREATE STORE m WITH ('type' = MEMORY);
      CREATE STREAM s (n INTEGER, {declared}) WITH ('topic' = 's', 'value.format' = 'json');
      CREATE STREAM d AS SELECT * FROM s;"""
    return compile_texts([("a.sql", sql)], Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="m"))


def records() -> list[dict[str, object]]:
    return [{"n": row, **{name: values[row] for name, (_, values) in COLUMNS.items()}} for row in range(ROWS)]


@pytest.fixture
def streamed(spark: SparkSession, project: LoadedProject) -> Callable[[Sequence[Bound]], list[Answers]]:
    """The answers of a stream for each row, every expression guarded by itself."""
    session = spark.newSession()
    session.conf.set("spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.ConstantFolding")
    at = datetime(2026, 1, 2, tzinfo=timezone.utc)
    sent = [(None, bytearray(json.dumps(record).encode()), at, "0", str(record["n"])) for record in records()]
    columns = "key binary, value binary, timestamp timestamp, partition string, `order` string"
    source = SourceFrame(session.createDataFrame(sent, columns).coalesce(1), PROVIDED, "m.s")
    decoded = PlanCompiler(session, "job", lambda _: source).compile(project.queries["d"].root)
    rows = session.createDataFrame(decoded.collect(), decoded.schema).coalesce(1)
    row = sf.struct(*[sf.col(f"`{name}`") for name in rows.columns])

    def of(batch: Sequence[Bound]) -> list[Answers]:
        guarded = [
            operators(session).guard(row, rows.schema, [compile_expression(rows, one.bound).alias("x")])
            for one in batch
        ]
        parts = [
            part.alias(f"{name}{n}")
            for n, guard in enumerate(guarded)
            for name, part in (("x", guard.getField("result").getField("x")), ("reason", guard.getField("reason")))
        ]
        values = rows.select(*parts).toArrow().to_pylist()
        return [[answer(value, n, one.type) for value in values] for n, one in enumerate(batch)]

    def answer(value: dict[str, object], place: int, type_: DataType) -> Answer:
        return ERROR if value[f"reason{place}"] is not None else answer_of(value[f"x{place}"], type_)

    return of


@pytest.fixture
def asked(project: LoadedProject) -> Iterator[Callable[[Bound], Answers]]:
    """The answers of a question for each row."""
    relation = next(one for one in project.catalog.relations.values() if one.name.name == "s")
    table = pa.table(
        {
            column.name: pa.array(
                [value_of(record[column.name], column.type) for record in records()], arrow_type(column.type)
            )
            for column in relation.columns
        }
    )
    with QuestionEngine() as engine:

        def asked_of(one: Bound, rows: pa.Table) -> Answers:
            question = bind_question(project, parse_select(f"SELECT {one.text} AS c FROM s"))
            column = engine.answer(engine.prepare(question), {table_name(relation): rows}).column(0)
            return [answer_of(value, question.columns[0][1]) for value in column.to_pylist()]

        def of(one: Bound) -> Answers:
            try:
                return asked_of(one, table)
            except InternalError:
                raise
            except DsError:
                return [single(one, table.slice(row, 1)) for row in range(ROWS)]

        def single(one: Bound, row: pa.Table) -> Answer:
            try:
                return asked_of(one, row)[0]
            except DsError:
                return ERROR

        yield of


def bound(text: str) -> Bound | None:
    """None for what the dialect refuses."""
    scope = Scope(Span("random.sql", 1))
    scope.sources.append(
        Source("s", "s", visible([(name, Field(name, type_, True)) for name, type_ in TYPES.items()]), "", {})
    )
    try:
        tree = parse_select(f"SELECT {text} AS x FROM s").tree.expressions[0].this
        return Bound(text, ExpressionBinder(scope, "SELECT").expression(tree))
    except InternalError:
        raise
    except DsError:
        return None


_FLOAT = re.compile(r"(?<![\w.])-?\d+\.\d+(?:E-?\d+)?(?![\w.])")
"""A number with a point, as it stands within the text of a nested value."""


def same(left: Answer, right: Answer) -> bool:
    """Floats by value; within nested values, too, where the last digits of a float may differ as well."""
    if isinstance(left, float):
        return same_answer(left, str(right))
    if left == right or not left.startswith(("[", "{", "(")):
        return left == right
    others = _FLOAT.findall(str(right))
    return _FLOAT.sub("#", left) == _FLOAT.sub("#", str(right)) and all(
        same_answer(float(number), other) for number, other in zip(_FLOAT.findall(left), others, strict=True)
    )


def differences(
    count: int,
    seed: int,
    streamed: Callable[[Sequence[Bound]], list[Answers]],
    asked: Callable[[Bound], Answers],
) -> list[str]:
    """So many accepted expressions; what streams and questions answer differently."""
    expressions, wrong, done = Expressions(seed), [], 0
    expressions.first += [(text, one.type) for text in LITERALS if (one := bound(text)) is not None]
    expressions.parts = list(expressions.first)
    while done < count:
        batch: list[Bound] = []
        while len(batch) < AT_ONCE:
            one = bound(expressions.next())
            batch += [one] if one is not None else []
        done += len(batch)
        for one, answers in zip(batch, streamed(batch), strict=True):
            others = asked(one)
            if not all(map(same, answers, others)):
                wrong.append(f"{one.text} ({one.type}): streams {answers}, questions {others}")
            elif ERROR not in answers:
                expressions.learn(one.text, one.type)
    return wrong


def test_random_expressions(streamed, asked):
    wrong = differences(AT_ONCE, 7, streamed, asked)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_thousand_random_expressions(streamed, asked, seed):
    wrong = differences(240, seed, streamed, asked)
    assert not wrong, "\n".join(wrong)
