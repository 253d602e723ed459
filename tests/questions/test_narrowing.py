"""What stores are asked for: columns, comparisons with constants, limits; never less than the answer needs."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.narrowing import Reading, readings
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_select

SQL = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM s (k VARCHAR, n INTEGER, d DECIMAL(10,2), t TIMESTAMP_LTZ(3), day DATE, ok BOOLEAN, f DOUBLE)
  WITH ('store' = 'm', 'topic' = 's');
CREATE MATERIALIZED VIEW v AS SELECT * FROM s;
CREATE MATERIALIZED VIEW w AS SELECT k, n FROM s;
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    folder: Path = tmp_path_factory.mktemp("narrowing")
    return compile_texts([("a.sql", SQL)], Settings(root=folder, sql=folder, state=folder, store="m"))


def read(project: LoadedProject, text: str) -> dict[str, Reading]:
    found = readings(bind_question(project, parse_select(text)))
    return {name.rpartition(".")[2]: reading for name, reading in found.items()}


def shown(reading: Reading) -> list[tuple[object, ...]]:
    return [(c.column, c.operator, *c.values) for c in reading.wanted.comparisons]


@pytest.mark.parametrize(
    ("where", "comparisons"),
    [
        ("k = 'a'", [("k", "=", "a")]),
        ("'a' = k AND n >= 5", [("k", "=", "a"), ("n", ">=", 5)]),
        ("5 > n", [("n", "<", 5)]),
        ("n IN (1, 2) AND (d < 1.5 AND n = -3)", [("n", "in", 1, 2), ("d", "<", Decimal("1.5")), ("n", "=", -3)]),
        ("n = 1000000000000", [("n", "=", 1000000000000)]),
        ("t < '2024-01-31 12:00:02'", [("t", "<", datetime(2024, 1, 31, 12, 0, 2))]),  # noqa: DTZ001, in UTC
        ("day = DATE '2024-01-31'", [("day", "=", date(2024, 1, 31))]),
        ("k > 'a'", []),  # stores order texts by their own rules
        ("k LIKE 'a%' AND n = 1", [("n", "=", 1)]),
        ("n = 1 OR n = 2", []),
        ("NOT n = 1", []),
        ("n + 1 = 2", []),
        ("n = 1.5", [("n", "=", Decimal("1.5"))]),
        ("f = 1.5", []),
        ("ok = TRUE", []),
        ("UPPER(k) = 'A'", []),
        ("n = CHAR_LENGTH(k)", []),
        ("n <> 1", []),
        ("CAST(n AS BIGINT) = 1", [("n", "=", 1)]),
        ("TRY_CAST(n AS TINYINT) = 1", []),  # NULL of a number that the type does not hold
        ("CAST(n AS DECIMAL(3, 0)) < 5", []),
    ],
)
def test_comparisons_with_constants(project: LoadedProject, where: str, comparisons: list[object]) -> None:
    assert shown(read(project, f"SELECT k FROM v WHERE {where}")["v"]) == comparisons


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("SELECT k FROM v LIMIT 5", 5),
        ("SELECT k FROM v WHERE n = 1 LIMIT 5 OFFSET 2", 7),
        ("SELECT k FROM v WHERE n + 1 = 2 LIMIT 5", None),
        ("SELECT k FROM v WHERE TRY_CAST(n AS TINYINT) < 5 LIMIT 5", None),
        ("SELECT k FROM v ORDER BY k LIMIT 5", None),
        ("SELECT DISTINCT k FROM v LIMIT 5", None),
        ("SELECT count(*) AS c FROM v LIMIT 5", None),
        ("SELECT k, count(*) OVER () AS c FROM v LIMIT 5", None),
        ("SELECT v.k FROM v JOIN w ON v.k = w.k LIMIT 5", None),
        ("SELECT x.k FROM (SELECT k FROM v) x LIMIT 5", None),
    ],
)
def test_limits(project: LoadedProject, text: str, limit: int | None) -> None:
    assert read(project, text)["v"].wanted.limit == limit


def test_columns_that_are_needed(project: LoadedProject) -> None:
    assert read(project, "SELECT k FROM v WHERE n = 1")["v"].columns == ("k", "n")
    assert read(project, "SELECT count(*) AS c FROM v")["v"].columns == ("k",)
    both = read(project, "SELECT a.k FROM v a JOIN w b ON a.d = b.n WHERE b.k = 'x'")
    assert (both["v"].columns, both["w"].columns) == (("k", "d"), ("k", "n"))


def test_rows_of_an_outer_join_are_not_taken_away(project: LoadedProject) -> None:
    """A condition in WHERE over the side that may be missing is about the joined row."""
    both = read(project, "SELECT a.k FROM v a LEFT JOIN w b ON a.k = b.k WHERE a.n = 1 AND b.n = 2")
    assert shown(both["v"]) == [("n", "=", 1)]
    assert shown(both["w"]) == []
    full = read(project, "SELECT a.k FROM v a FULL JOIN w b ON a.k = b.k WHERE a.n = 1")
    assert shown(full["v"]) == []


def test_a_relation_that_is_read_twice_is_read_whole(project: LoadedProject) -> None:
    twice = read(project, "SELECT a.k FROM v a JOIN v b ON a.n = b.d WHERE a.n = 1")
    assert twice["v"] == Reading(("k", "n", "d"), twice["v"].wanted)
    assert shown(twice["v"]) == []
