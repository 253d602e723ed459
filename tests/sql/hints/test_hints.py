"""What to do about slips of the first hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import DsError
from ds_dagster.sql.printing import print_statement
from ds_dagster.sql.script import parse_file, parse_statement

SLIPS = {
    "CREATE STREAM s AS SELECT k FORM t": "did you mean FROM instead of FORM?",
    "CREATE STREAM s AS SELECT k FRM t": "did you mean FROM instead of FRM?",
    "CREATE STREAM s AS SELECT k FROM t WHER k = 1": "did you mean WHERE instead of WHER?",
    "CREATE CHANGELOG s AS SELECT COUNT(*) AS n FROM TUMBLE(t, SIZE '1 minute') GROUP BY n": "write it without quotes: "
    "5 MINUTES",
    "CREATE CHANGELOG s AS SELECT k, COUNT(*) AS n FROM t GROUP YB k": "did you mean BY instead of YB?",
    "CREATE STREAM s AS SELECT k FROM t LEFT JION u ON t.k = u.k": "did you mean JOIN instead of JION?",
    "CREATE STREAM s AS SELECT k FROM t JOIN u OM t.k = u.k": "did you mean ON instead of OM?",
    "CREATE STREAM s AS SELECT k FROM t JOIN t v WITHN 5 DAYS ON t.k = v.k": "did you mean WITHIN instead of WITHN?",
    "CREATE STREAM s AS SELECT k FROM t WHERE k BETWEEN 1 ADN 2": "did you mean AND instead of ADN?",
    "CREATE STREAM s AS SELECT k FROM t JOIN u ON t.k = u.k WITHIN 5 MINUTES": "write it before ON: WITHIN n unit ON …",
    "CREATE CHANGELOG s AS SELECT COUNT(*) AS n FROM TUMBLE(t, SIZ 1 DAY) GROUP BY n": "did you mean SIZE instead of "
    "SIZ?",
    "CREATE CHANGELOG s AS SELECT COUNT(*) AS n FROM TUMBLE(t SIZE 1 DAY) GROUP BY n": "write a comma before SIZE",
    "CREATE STREAM s AS SELECT CONCAT(k, (k FROM t": "write ) before FROM",
    "CREATE STREAM s AS SELECT k, FROM t": "remove the comma before FROM",
    "CREATE STREAM s AS SELECT order FROM t": 'quote the name if it is a column: "order"',
    "CREATE STREAM s AS SELECT k FROM t WHERE k == 'a'": "write = once",
    "CREATE CHANGELOG s AS SELECT k, COUNT() AS n FROM t GROUP BY k": "write COUNT(*)",
    "CREATE STREAM s (a VARCHAR) WITH ('topic' = 'd' 'value.format' = 'json')": "write a comma before it",
    "CREATE STREAM s (a VARCHAR) ('topic' = 'd')": "write WITH before it",
    "CREATE CHANGELOG s AS SELECT COUNT(*) AS n FROM TUMBLE(t, 1 MINUTE) GROUP BY n": "write SIZE before it",
    "CREATE STREAM s AS SELECT j->>'a' AS x FROM t": "for a JSON text write JSON_VALUE(text, '$.name')",
    "CREATE STREAM s AS SELECT j:a AS x FROM t": "for a JSON text write JSON_VALUE(text, '$.name'); "
    "for a STRUCT write value->name",
    "CREATE STREAM s AS SELECT k FROM t WHERE k = 'it's'": "close it with ', and write '' for one inside the text",
}


@pytest.mark.parametrize("sql", SLIPS)
def test_slips(sql: str) -> None:
    with pytest.raises(DsError) as caught:
        parse_statement(sql)
    assert caught.value.hint == SLIPS[sql]


def test_a_name_behind_with_that_nothing_reads_is_a_warning() -> None:
    parsed = parse_file("a.sql", "CREATE STREAM s AS WITH q AS (SELECT k FROM t) SELECT k FROM t;")
    assert [(found.condition, found.severity) for found in parsed.diagnostics] == [("CTE_UNUSED", "warning")]
    assert len(parsed.statements) == 1 and not parsed.broken


def test_a_key_that_is_not_enforced_is_a_key() -> None:
    written = "CREATE CHANGELOG s (k VARCHAR, PRIMARY KEY (k){}) WITH ('topic' = 's')"
    one, other = (parse_statement(written.format(words)) for words in (" NOT ENFORCED", ""))
    assert print_statement(one) == print_statement(other)


def rewritten_cases() -> list[tuple[str, str]]:
    """Statements of other dialects with the same in ours; empty for those that get the form alone."""
    text = (Path(__file__).parents[2] / "fixtures" / "rewritten.sql").read_text(encoding="utf-8")
    return [tuple(part.split("-- here:\n")) for part in text.split("-- case:\n")[1:]]  # type: ignore[misc]


@pytest.mark.parametrize(("sql", "ours"), rewritten_cases())
def test_a_statement_of_another_dialect_is_written_as_one_of_ours(sql: str, ours: str) -> None:
    with pytest.raises(DsError) as caught:
        parse_statement(sql)
    _, _, shown = caught.value.hint.partition(". This statement: ")
    assert shown == ours.strip()
    assert not ours or parse_statement(ours)
    assert "hunter2" not in caught.value.hint + caught.value.message
