"""The table of scalar meaning on Spark: one job for the rows of a file that have an answer, one for those that fail."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ds_dagster.datatypes import DataType
from ds_dagster.project import compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.compiler import PlanCompiler
from ds_dagster.spark.formats import SourceFrame
from ds_dagster.spark.sources import PROVIDED
from tests.scalars import COLUMNS, ERROR, answer_of, scalar_rows, topics, wrong_answers

NOT_FOLDED = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
"""Left out: literals are computed by the code that computes columns."""
LEAST_ROWS = 600


def columns_of(folder: Path, expressions: Sequence[str]) -> tuple[object, dict[str, DataType]]:
    """The plan of a query over the table's record with a column per expression, and the columns' types."""
    declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    listed = ", ".join(f"{text} AS c{n}" for n, text in enumerate(expressions))
    sql = f"""CREATE STORE m WITH ('type' = MEMORY);
      CREATE STREAM s ({declared}) WITH ('topic' = 's', 'value.format' = 'json');
      CREATE STREAM d AS SELECT {listed} FROM s;"""
    project = compile_texts([("test.sql", sql)], Settings(root=folder, sql=folder, state=folder, store="m"))
    assert not project.errors, "\n".join(found.text() for found in project.errors)
    root = project.queries["d"].root
    return root, {field.name: field.type for field in root.output}


def record(spark: SparkSession) -> SourceFrame:
    """The table's record as a source gives it."""
    value = json.dumps({name: value for name, (_, value) in COLUMNS.items()}).encode()
    frame = spark.createDataFrame(
        [(None, bytearray(value), datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), "0", "0")],
        "key binary, value binary, timestamp timestamp, partition string, `order` string",
    )
    return SourceFrame(frame, PROVIDED, "m.s")


@pytest.fixture
def answers(spark, tmp_path) -> Callable[[Sequence[str]], list[str]]:
    session = spark.newSession()
    session.conf.set("spark.sql.optimizer.excludedRules", NOT_FOLDED)
    source = record(spark)

    def of(expressions: Sequence[str]) -> list[str]:
        root, types = columns_of(tmp_path, expressions)
        frame = PlanCompiler(session, "job", lambda _: source).compile(root)
        row = frame.toArrow().to_pylist()[0]
        return [answer_of(row[name], type_) for name, type_ in types.items()]

    return of


@pytest.mark.parametrize("topic", topics())
def test_answers(answers, topic):
    rows = [row for row in scalar_rows(topic) if row.expected != ERROR]
    wrong = wrong_answers(rows, answers)
    assert not wrong, "\n".join(wrong)
