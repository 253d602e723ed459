"""The table of scalar meaning on Spark: one job for the rows of a file that have an answer, one for all that fail."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.rows import Project
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.compiler import NOTHING, PlanCompiler
from ds_dagster.spark.expressions import compile_expression
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.sources import PROVIDED
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.records.formats import SourceFrame
from tests.scalars import COLUMNS, ERROR, Answer, Engine, answer_of, scalar_rows, topics, wrong_answers

NOT_FOLDED = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
"""Left out: literals are computed by the code that computes columns."""
LEAST_ROWS = 600


def compiled(folder: Path, statements: Sequence[str]) -> LoadedProject:
    """The project of statements over the table's record, a stream ``s``."""
    declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    sql = f"""CREATE STORE m WITH ('type' = MEMORY);
      CREATE STREAM s ({declared}) WITH ('topic' = 's', 'value.format' = 'json');"""
    settings = Settings(root=folder, sql=folder, state=folder, store="m")
    return compile_texts([("test.sql", "\n".join([sql, *statements]))], settings)


def record(spark: SparkSession) -> SourceFrame:
    """The table's record as a source gives it."""
    value = json.dumps({name: value for name, (_, value) in COLUMNS.items()}).encode()
    frame = spark.createDataFrame(
        [(None, bytearray(value), datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), "0", "0")],
        "key binary, value binary, timestamp timestamp, partition string, `order` string",
    )
    return SourceFrame(frame, PROVIDED, "m.s")


@pytest.fixture
def answers(spark, tmp_path) -> Engine:
    session = not_folding(spark)
    source = record(session)

    def of(expressions: Sequence[str]) -> list[Answer]:
        listed = ", ".join(f"{text} AS c{n}" for n, text in enumerate(expressions))
        project = compiled(tmp_path, [f"CREATE STREAM d AS SELECT {listed} FROM s;"])
        assert not project.errors, "\n".join(found.text() for found in project.errors)
        root = project.queries["d"].root
        frame = PlanCompiler(session, "job", lambda _: source).compile(root)
        row = frame.toArrow().to_pylist()[0]
        return [answer_of(row[field.name], field.type) for field in root.output]

    return of


@pytest.fixture
def failures(spark, tmp_path) -> Engine:
    """ERROR for expressions that are refused or whose row fails: each guarded by itself, in one job over one record."""
    session = not_folding(spark)
    source = record(session)

    def of(expressions: Sequence[str]) -> list[Answer]:
        ignoring = "QUERY WITH ('row.error.handling' = 'IGNORE')"
        made = [f"CREATE STREAM d{n} AS SELECT {e} AS c FROM s {ignoring};" for n, e in enumerate(expressions)]
        read = f"CREATE STREAM read AS SELECT {', '.join(COLUMNS)} FROM s;"
        queries = dict(compiled(tmp_path, [*made, read]).queries)
        (scan,) = queries.pop("read").scans
        decoded = PlanCompiler(session, "job", lambda _: source).visit(scan, NOTHING).frame
        row = session.createDataFrame(decoded.collect(), decoded.schema)
        reasons = row.select(*[reason(row, query).alias(name) for name, query in queries.items()]).collect()[0].asDict()
        return ["a value" if reasons.get(f"d{n}", ERROR) is None else ERROR for n in range(len(expressions))]

    return of


def reason(row: DataFrame, query: BoundQuery) -> Column:
    """Why the row of a query that ignores row errors has no value, NULL where it has one."""
    project = query.root.input
    assert isinstance(project, Project)
    column = compile_expression(row, project.columns[0].expression).alias("c")
    fields = sf.struct(*[field(name) for name in row.columns])
    return operators(row.sparkSession).guard(fields, row.schema, [column]).getField("reason")


def not_folding(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.optimizer.excludedRules", NOT_FOLDED)
    return session


def test_the_table_is_large_and_says_why_it_differs() -> None:
    rows = [row for topic in topics() for row in scalar_rows(topic)]
    assert len(rows) >= LEAST_ROWS
    assert all(row.source and bool(row.ours) == bool(row.reason) for row in rows)
    assert all(row.ours != row.flink for row in rows)


@pytest.mark.parametrize("topic", topics())
def test_answers(answers, topic):
    wrong = wrong_answers([row for row in scalar_rows(topic) if row.expected != ERROR], answers)
    assert not wrong, "\n".join(wrong)


def test_failures(failures):
    rows = [row for topic in topics() for row in scalar_rows(topic) if row.expected == ERROR]
    wrong = wrong_answers(rows, failures)
    assert not wrong, "\n".join(wrong)


def test_a_value_is_no_failure(failures):
    expressions = ["1", "1 / 0", "st->a", "CAST(v AS INTEGER)", "gone(1)"]
    assert failures(expressions) == ["a value", ERROR, "a value", "a value", ERROR]
