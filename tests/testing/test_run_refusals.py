"""What a case asks for that is not there: told with the place in the case."""

from __future__ import annotations

import pytest

from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session

pytestmark = pytest.mark.cases

SQL = """
title: t
sql: |
  CREATE STREAM a (x BIGINT) WITH ('topic' = 'clicks', 'value.format' = 'json');
  CREATE STREAM b AS SELECT x FROM a;
"""
TWO = """
title: t
sql: |
  CREATE STREAM a (x BIGINT) WITH ('store' = 'one', 'topic' = 'clicks', 'value.format' = 'json');
  CREATE STREAM b WITH ('store' = 'two', 'topic' = 'clicks') AS SELECT x FROM a;
stores: {one: memory, two: memory}
"""
KAFKA = """
title: t
sql: |
  CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
  CREATE STREAM a (x BIGINT) WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
  CREATE STREAM b WITH ('store' = 's') AS SELECT x FROM a;
stores: {s: memory}
"""
MEMORY = "stores: {s: memory}\n"
REFUSED = {
    "CASE_TOPIC_UNKNOWN": SQL
    + MEMORY
    + "steps:\n  - send: {topic: click, rows: []}\nexpect: {relation: b, rows: []}\n",
    "CASE_TOPIC_AMBIGUOUS": TWO + "steps:\n  - send: {topic: clicks, rows: []}\nexpect: {relation: b, rows: []}\n",
    "CASE_STORE_REAL": KAFKA + "expect: {relation: b, rows: []}\n",
    "UNKNOWN_RELATION": SQL + MEMORY + "expect: {relation: c, rows: []}\n",
    "CASE_RECORD_UNREADABLE": SQL
    + MEMORY
    + "steps:\n  - send: {topic: clicks, rows: [{value: oops}]}\nexpect: {relation: a, rows: []}\n"
    + "error: {condition: BAD_RECORD, query: b}\n",
}


GENERATORS = {
    "it is not a SELECT": "DROP TABLE x",
    "it has no column value": "SELECT id AS key FROM range(3)",
    "valu: did you mean value?": "SELECT id AS valu FROM range(3)",
    "`missing`": "SELECT missing AS value FROM range(3)",
    "INVALID": "SELECT 1 AS value FROM range('many')",
    "it is more than one statement": "SELECT 1 AS value; SELECT 2 AS value",
    "Expecting )": "SELECT (1 AS value",
}
"""Text of the reason → what stands behind generate."""


@pytest.mark.parametrize("reason", GENERATORS)
def test_a_generator_that_makes_no_records_says_why(write_case, reason):
    step = f'steps:\n  - send: {{topic: clicks, generate: "{GENERATORS[reason]}"}}\n'
    result = run_case(write_case(SQL + MEMORY + step + "expect: {relation: b, rows: []}\n"), shared_session)
    (failure,) = result.failures
    assert "[CASE_GENERATOR]" in failure.text
    assert reason in failure.text
    assert failure.span is not None
    assert failure.span.line == 8


@pytest.mark.parametrize("condition", REFUSED)
def test_refused_by_name(write_case, condition):
    result = run_case(write_case(REFUSED[condition]), shared_session)
    assert not result.ok
    assert f"[{condition}]" in result.failures[-1].text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("{condition: BAD_RECORD, query: b}", "query b should end with BAD_RECORD, it runs"),
        ("{condition: BAD_RECORD, query: bb}", "no query is called bb; did you mean b?"),
    ],
)
def test_a_failure_that_does_not_come(write_case, error, text):
    result = run_case(write_case(SQL + MEMORY + f"expect: {{relation: b, rows: []}}\nerror: {error}\n"), shared_session)
    assert [failure.text for failure in result.failures] == [text]


def test_a_failure_nobody_expects(write_case):
    steps = "steps:\n  - send: {topic: clicks, rows: [{value: oops}]}\n"
    result = run_case(write_case(SQL + MEMORY + steps + "expect: {relation: b, rows: []}\n"), shared_session)
    (failure,) = result.failures
    assert failure.relation == "b"
    assert "[BAD_RECORD]" in failure.text
    assert "oops" not in failure.text
