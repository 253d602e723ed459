"""What is wrong with a case without running it is refused before Spark starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from ds_dagster.testing.runner import run_case

CASE = """
title: t
sql: |
  CREATE STREAM a (x BIGINT) WITH ('topic' = 'clicks', 'value.format' = 'json');
  CREATE STREAM b AS SELECT x FROM a;
stores: {s: memory}
steps:
  - expect: {relation: aa, rows: []}
expect: {relation: c, rows: []}
"""


def no_session() -> SparkSession:
    raise AssertionError("Spark was asked for")


def test_unknown_relations_of_expect_are_all_named(write_case: Callable[[str], Path]) -> None:
    result = run_case(write_case(CASE), no_session)
    assert ["[UNKNOWN_RELATION]" in failure.text for failure in result.failures] == [True, True]
    assert [failure.span.line for failure in result.failures if failure.span] == [8, 9]


TOPICS = """
title: t
sql: |
  CREATE STREAM a (x BIGINT) WITH ('store' = 'one', 'topic' = 'clicks', 'value.format' = 'json');
  CREATE STREAM b WITH ('store' = 'two', 'topic' = 'clicks') AS SELECT x FROM a;
stores: {one: memory, two: memory}
steps:
  - send: {topic: click, rows: []}
  - send: {topic: clicks, rows: []}
  - send: {topic: clicks, store: one, rows: []}
expect: {topic: b, records: []}
"""


def test_unknown_and_ambiguous_topics_are_all_named(write_case: Callable[[str], Path]) -> None:
    result = run_case(write_case(TOPICS), no_session)
    names = ["CASE_TOPIC_UNKNOWN", "CASE_TOPIC_AMBIGUOUS", "CASE_TOPIC_UNKNOWN"]
    assert [name in failure.text for name, failure in zip(names, result.failures, strict=True)] == [True] * 3
    assert [failure.span.line for failure in result.failures if failure.span] == [8, 9, 11]
