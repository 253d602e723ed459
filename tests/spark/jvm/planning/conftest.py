"""A session that plans with the rules of ``dsdagster.planning``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.spark.records import columns as names

RECORDS = "spark.dsdagster.interpretedRecords"


@pytest.fixture
def ruled(lab: Any) -> Any:
    """A lab whose sessions plan with our rules. Sources have no names."""
    lab.operators.plan_with_rules()
    lab.spark = lab.spark.newSession()
    lab.spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false")
    return lab


FIELDS = ("at", "key", "amount", "name")


def text(row: tuple[Any, ...]) -> str:
    """A row of :func:`events` as JSON."""
    return json.dumps(dict(zip(FIELDS, row, strict=True)))


def events(source: Any) -> DataFrame:
    """The rows of a source of :func:`text`, with their event time."""
    parts = sf.from_json("value", "at bigint, key string, amount bigint, name string").alias("p")
    return source.frame().select(parts).select("p.*").withColumn(names.EVENT_TIME, sf.timestamp_millis("at"))


def plan_of(query: StreamingQuery) -> str:
    """The plan of the last batch."""
    return str(query._jsq.streamingQuery().lastExecution().executedPlan().toString())  # type: ignore[attr-defined]
