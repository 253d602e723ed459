"""Questions that read nothing: SELECT without FROM, and VALUES."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.answers import ask_text
from ds_dagster.questions.checking import question_mistakes
from ds_dagster.settings import Settings
from tests.tables import check_every

SETTINGS = Settings(Path("/p"), Path("/p/sql"), Path("/p/.ds"))
VIEW = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM s (k VARCHAR, n INTEGER) WITH ('store' = 'm', 'topic' = 's');
"""
ANSWERS: list[tuple[str, list[dict[str, Any]]]] = [
    ("SELECT 1", [{"column_1": 1}]),
    ("SELECT UPPER('a') AS x, 1 + 1 AS two", [{"x": "A", "two": 2}]),
    ("SELECT 1 AS n UNION ALL SELECT 2", [{"n": 1}, {"n": 2}]),
    ("SELECT 1 AS n WHERE FALSE", []),
    ("SELECT COUNT(*) AS n", [{"n": 1}]),
    ("SELECT (SELECT 7) AS n", [{"n": 7}]),
    ("VALUES (1, 'a'), (2, 'b')", [{"column_1": 1, "column_2": "a"}, {"column_1": 2, "column_2": "b"}]),
    ("SELECT * FROM (VALUES (1, 'a')) AS t(n, w)", [{"n": 1, "w": "a"}]),
    (
        "SELECT n + 1 AS m, w FROM (VALUES (1, 'a'), (NULL, 'b'), (2.5, NULL)) t(n, w) ORDER BY m DESC",
        [{"m": Decimal("3.5"), "w": None}, {"m": Decimal("2.0"), "w": "a"}, {"m": None, "w": "b"}],
    ),
    ("WITH t AS (VALUES (1), (2)) SELECT SUM(column_1) AS s FROM t", [{"s": 3}]),
    ("SELECT 3 IN (VALUES (1), (3)) AS b, 'values' IN ('values') AS c", [{"b": True, "c": True}]),
    ("SELECT n FROM (VALUES (1), (2)) t(n) WHERE EXISTS (SELECT 1 WHERE t.n = 2)", [{"n": 2}]),
    ("SELECT x.n, y.m FROM (VALUES (1)) x(n) JOIN (VALUES (1), (2)) y(m) ON x.n < y.m", [{"n": 1, "m": 2}]),
    (
        'SELECT a."b$c" AS p, "a$b".c AS q FROM (VALUES (1)) AS a("b$c") JOIN (VALUES (2)) AS "a$b"(c) '
        'ON a."b$c" < "a$b".c',
        [{"p": 1, "q": 2}],
    ),
    (
        'SELECT a_b.c AS p, "a$b".c AS q FROM (VALUES (1)) AS a_b(c) JOIN (VALUES (2)) AS "a$b"(c) ON TRUE',
        [{"p": 1, "q": 2}],
    ),
    ("VALUES (2), (3), (1) ORDER BY 1 DESC LIMIT 1 OFFSET 1", [{"column_1": 2}]),
    ("VALUES (2, 'b'), (1, 'a') ORDER BY column_2 LIMIT 1", [{"column_1": 1, "column_2": "a"}]),
    ("VALUES (7) ORDER BY 1 LIMIT 5", [{"column_1": 7}]),
    ("VALUES (1) UNION ALL VALUES (3), (2) ORDER BY 1 DESC LIMIT 2", [{"column_1": 3}, {"column_1": 2}]),
    ("SELECT SUM(n) AS s FROM (VALUES (1), (2), (3) ORDER BY 1 DESC LIMIT 2) t(n)", [{"s": 5}]),
    ("SELECT 3 IN (VALUES (1), (3) LIMIT 1) AS b", [{"b": False}]),
    ("VALUES ((SELECT 1)), (2)", [{"column_1": 1}, {"column_1": 2}]),
    ("SELECT 1 AS n EXCEPT (SELECT 2 UNION SELECT 1)", []),
    ("(SELECT 1 AS n UNION SELECT 2) INTERSECT SELECT 2", [{"n": 2}]),
    ("(SELECT 1 AS n UNION ALL SELECT 2 ORDER BY n LIMIT 1) UNION ALL SELECT 3", [{"n": 1}, {"n": 3}]),
    (
        "(SELECT CHAR_LENGTH(t.k) AS n FROM (VALUES ('abc', 1)) t(k, i) EXCEPT SELECT 4) UNION ALL SELECT 0.5",
        [{"n": Decimal("3.0")}, {"n": Decimal("0.5")}],
    ),
    ("SELECT 1 AS n UNION ALL SELECT 2 ORDER BY ((n)) DESC", [{"n": 2}, {"n": 1}]),
    ("SELECT -a AS m FROM (VALUES (1), (2)) t(a) ORDER BY (m), (1)", [{"m": -2}, {"m": -1}]),
    ("SELECT (SELECT SUM(n) FROM (VALUES (1), (2)) t(n)) AS s", [{"s": 3}]),
    ("SELECT DISTINCT a + 1 AS b FROM (VALUES (1, 2), (2, 1)) t(a, b) ORDER BY b DESC", [{"b": 3}, {"b": 2}]),
    (
        "SELECT DISTINCT -a AS m, b FROM (VALUES (1, 2), (2, 1)) t(a, b) ORDER BY -a",
        [{"m": -2, "b": 1}, {"m": -1, "b": 2}],
    ),
    ("SELECT DISTINCT t.a FROM (VALUES (1), (2)) t(a) ORDER BY a DESC, 1", [{"a": 2}, {"a": 1}]),
    ("SELECT DISTINCT a, COUNT(*) AS c FROM (VALUES (1)) t(a) GROUP BY a ORDER BY COUNT(*)", [{"a": 1, "c": 1}]),
    ('SELECT t.a AS b, t."A" AS "B" FROM (VALUES (1, 2)) t(a, "A")', [{"b": 1, "B": 2}]),
    ('SELECT t.a + "T".a AS "Sum" FROM (VALUES (1)) t(a) JOIN (VALUES (2)) "T"(a) ON TRUE', [{"Sum": 3}]),
    ('SELECT t."^a" AS p, t."A" AS q FROM (VALUES (1, 2)) t("^a", "A")', [{"p": 1, "q": 2}]),
]
KEPT_ROWS: list[tuple[str, object]] = [
    ("SUM(CAST(k AS INTEGER)) FILTER (WHERE k <> 'x')", 3),
    ("SUM(DISTINCT CAST(k AS INTEGER)) FILTER (WHERE k <> 'x')", 3),
    ("AVG(CAST(k AS DOUBLE)) FILTER (WHERE k <> 'x')", 1.5),
    ("COUNT(CAST(k AS INTEGER)) FILTER (WHERE k <> 'x')", 2),
    ("SUM(MOD(10, n)) FILTER (WHERE n <> 0)", 1),
    ("SUM(10 / n) FILTER (WHERE n <> 0)", 13),
    ("ARRAY_AGG(CAST(k AS INTEGER)) FILTER (WHERE k = '2')", [2]),
    ("COUNT(*) FILTER (WHERE k <> 'x')", 2),
    ("MAX(MAX(CAST(k AS INTEGER)) FILTER (WHERE k <> 'x')) OVER ()", 2),
    ("SUM(CASE WHEN k <> 'x' THEN CAST(k AS INTEGER) END)", 3),
]
"""An aggregate over ('1', 1), ('2', 3), ('x', 0) → its value; the arguments fail for the row that FILTER leaves out."""
REFUSED: list[tuple[str, str, int]] = [
    ("SELECT a", "FROM_MISSING", 8),
    ("SELECT *", "FROM_MISSING", 8),
    ("SELECT t.*", "FROM_MISSING", 8),
    ("VALUES (1), (a)", "FROM_MISSING", 14),
    ("VALUES (NULL), (NULL)", "NULL_WITHOUT_TYPE", 9),
    ("VALUES (1), (2) ORDER BY n", "UNKNOWN_COLUMN", 26),
    ("VALUES (1), (2) ORDER BY 2", "QUESTION_ORDER_POSITION", 26),
    ("VALUES (1), (2) ORDER BY column_1 LIMIT 1 UNION SELECT 1", "SYNTAX_UNEXPECTED", 43),
    ("SELECT DISTINCT a FROM (VALUES (1, 2)) t(a, b) ORDER BY b", "ORDER_BY_NOT_SELECTED", 57),
    ("SELECT DISTINCT a FROM (VALUES (1, 2)) t(a, b) ORDER BY a, -a DESC", "ORDER_BY_NOT_SELECTED", 61),
    ("SELECT DISTINCT a FROM (VALUES (1)) t(a) GROUP BY a ORDER BY COUNT(*)", "ORDER_BY_NOT_SELECTED", 62),
    ("SELECT a FROM (SELECT DISTINCT a FROM (VALUES (1, 2)) t(a, b) ORDER BY b) q", "ORDER_BY_NOT_SELECTED", 72),
    ("SELECT 1 AS a UNION SELECT 2 AS b ORDER BY b", "UNKNOWN_COLUMN", 44),
    ("SELECT a FROM (VALUES (1)) t(a) UNION SELECT 2 ORDER BY t.a", "ORDER_BY_NOT_SELECTED", 57),
    ("SELECT 1 AS a UNION SELECT 2 ORDER BY 'a'", "ORDER_BY_NOT_SELECTED", 39),
    ("SELECT 1 AS a UNION SELECT 2 ORDER BY -a", "ORDER_BY_NOT_SELECTED", 40),
    ('SELECT 1 AS "ABS" UNION SELECT 2 ORDER BY ABS(a)', "ORDER_BY_NOT_SELECTED", 43),
    ("VALUES (1), ('a')", "BRANCH_TYPES_DIFFER", 1),
    ("SELECT b FROM (VALUES (1)) AS t(a)", "UNKNOWN_COLUMN", 8),
]


@pytest.fixture(scope="module")
def project() -> LoadedProject:
    return compile_texts([("a.sql", VIEW)], SETTINGS)


def test_constants_are_answered(project: LoadedProject) -> None:
    def check(case: tuple[str, list[dict[str, Any]]]) -> None:
        assert ask_text(project, case[0]).to_pylist() == case[1]

    check_every(ANSWERS, check)


def test_filter_keeps_an_argument_from_rows_it_fails_for(project: LoadedProject) -> None:
    def check(case: tuple[str, object]) -> None:
        text = f"SELECT {case[0]} AS v FROM (VALUES ('1', 1), ('2', 3), ('x', 0)) t(k, n)"
        assert ask_text(project, text).to_pylist() == [{"v": case[1]}]

    check_every(KEPT_ROWS, check)
    over = "SELECT k, SUM(CAST(k AS INTEGER)) FILTER (WHERE k <> 'x') OVER () AS s FROM (VALUES ('1'), ('x')) t(k)"
    assert ask_text(project, over).to_pylist() == [{"k": "1", "s": 1}, {"k": "x", "s": 1}]
    with pytest.raises(DsError, match="'x' is not a valid INTEGER"):
        ask_text(project, "SELECT SUM(CAST(k AS INTEGER)) FILTER (WHERE k <> 'y') AS s FROM (VALUES ('x')) t(k)")


def test_the_time_is_that_of_the_question(project: LoadedProject) -> None:
    before = datetime.now(timezone.utc).date()
    answer = ask_text(project, "SELECT CURRENT_DATE").to_pylist()
    assert before <= answer[0]["current_date"] <= datetime.now(timezone.utc).date()
    assert ask_text(project, "SELECT DATE '2024-02-29' AS d").to_pylist() == [{"d": date(2024, 2, 29)}]


def test_a_column_needs_a_relation(project: LoadedProject) -> None:
    def check(case: tuple[str, str, int]) -> None:
        with pytest.raises(DsError) as caught:
            ask_text(project, case[0])
        assert (caught.value.condition, caught.value.span and caught.value.span.column) == case[1:]

    check_every(REFUSED, check)


def test_questions_in_files_are_bound(project: LoadedProject) -> None:
    files = compile_texts([("a.sql", VIEW + "SELECT 1;\nVALUES (1, 2);\nSELECT x;")], SETTINGS)
    assert [mistake.condition for mistake in question_mistakes(files)] == ["FROM_MISSING"]
    assert [d.condition for d in files.diagnostics if d.severity == "warning"] == ["STATEMENT_SKIPPED"] * 3
