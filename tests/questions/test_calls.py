"""Functions in questions: every one of the dialect has a meaning, and gives what its examples say."""

from __future__ import annotations

import zipfile
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.errors import DsError
from ds_dagster.functions.operators import OPERATORS
from ds_dagster.functions.table import ROW_FUNCTIONS
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.arrow import value_of
from ds_dagster.questions.binding import bind_question
from ds_dagster.questions.duck_types import arrow_type
from ds_dagster.questions.engine import QuestionEngine
from ds_dagster.questions.relations import table_name
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_select

ROOT = Path(__file__).parents[2]
"""The user's code stands below it."""
SQL = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM s (k VARCHAR, n INTEGER, b BIGINT, d DECIMAL(10,2), f DOUBLE, t TIMESTAMP_LTZ(3), tags ARRAY<VARCHAR>,
  place STRUCT<city VARCHAR, zip INTEGER>, counts MAP<VARCHAR, INTEGER>, day DATE,
  items ARRAY<STRUCT<sku VARCHAR, n INTEGER>>) WITH ('store' = 'm', 'topic' = 's');
CREATE FUNCTION slug(text VARCHAR) RETURNS VARCHAR LANGUAGE PYTHON WITH ('module' = 'tests.cases.user_functions.code');
CREATE FUNCTION doubled(n INTEGER) RETURNS INTEGER LANGUAGE PYTHON
  WITH ('module' = 'tests.cases.user_functions.code', 'vectorized' = TRUE);
CREATE FUNCTION share(a DECIMAL(10,2), b DECIMAL(11,2)) RETURNS DOUBLE LANGUAGE PYTHON
  WITH ('module' = 'tests.cases.user_functions.code');
CREATE FUNCTION wrong(n INTEGER) RETURNS INTEGER LANGUAGE PYTHON WITH ('module' = 'tests.cases.user_functions.code');
CREATE FUNCTION_SOURCE jar WITH ('file' = '{jar}');
CREATE FUNCTION in_java(text VARCHAR) RETURNS VARCHAR LANGUAGE JAVA WITH ('source.name' = jar, 'class.name' = 'acme.F');
"""
ROW = {
    "k": "key", "n": 7, "b": -3, "d": Decimal("2.50"), "f": 0.5,
    "t": datetime(2024, 2, 29, 12, 30, 15, 250_000, timezone.utc), "tags": ["a", None], "day": "2024-02-29",
    "place": {"city": "Bern", "zip": 3000}, "counts": {"x": 1},
}  # fmt: skip
EXAMPLES = [
    (example.call, example.call, example.gives)
    for one in (*ROW_FUNCTIONS.values(), *OPERATORS)
    for example in one.examples
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    folder: Path = tmp_path_factory.mktemp("functions")
    with zipfile.ZipFile(folder / "f.jar", "w") as jar:
        jar.writestr("acme/F.class", b"")
    made = compile_texts(
        [("a.sql", SQL.replace("{jar}", str(folder / "f.jar")))],
        Settings(root=ROOT, sql=folder, state=folder, store="m"),
    )
    assert not made.errors, made.errors[0].text()
    return made


def ask(project: LoadedProject, text: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    question = bind_question(project, parse_select(text))
    relation = question.relations[0]
    columns = {
        column.name: pa.array(
            [value_of(row.get(column.name), column.type) for row in rows or (ROW,)], arrow_type(column.type)
        )
        for column in relation.columns
    }
    with QuestionEngine() as engine:
        answer = engine.answer(engine.prepare(question), {table_name(relation): pa.table(columns)})
    return answer.to_pylist()


@pytest.mark.sweep
def test_examples_give_what_they_say(project: LoadedProject) -> None:
    """All of them in one question each way; what differs is listed whole."""
    wrong = []
    for name, call, gives in EXAMPLES:
        shown = [f"{call} AS x"] if gives == "NULL" else [f"{call} AS x", f"{gives} AS y"]
        try:
            (row,) = ask(project, f"SELECT {', '.join(shown)} FROM s")
        except DsError as problem:
            wrong.append(f"{name}: {call}: {problem}")
            continue
        if _number(row["x"]) != _number(row.get("y")):
            wrong.append(f"{name}: {call} is {row['x']!r}, not {gives}")
    assert not wrong, "\n".join(wrong)


def _number(value: Any) -> Any:
    """A number that is written in an example is a DECIMAL, a function may give a DOUBLE."""
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("CAST(t AS VARCHAR)", "2024-02-29 12:30:15.250"),
        ("CAST(TRUE AS VARCHAR)", "TRUE"),
        ("CAST(1e10 AS VARCHAR)", "1.0E10"),
        ("CAST(d AS VARCHAR)", "2.50"),
        ("CAST(2.5 AS INTEGER)", 2),
        ("CAST(-2.9e0 AS BIGINT)", -2),
        ("CAST('12' AS DECIMAL(5,1))", Decimal("12.0")),
        ("TRY_CAST('x' AS INTEGER)", None),
        ("n / 2", 3),
        ("b / 2", -1),
        ("b % 2", -1),
        ("d / 3", Decimal("0.8333333333333")),
        ("d * d", Decimal("6.2500")),
        ("f / (f - f)", float("inf")),
        ("tags[1]", "a"),
        ("tags[n - 7]", None),
        ("tags[n - 8]", None),
        ("counts['x']", 1),
        ("place->city", "Bern"),
        ("day + INTERVAL '1' MONTH", "2024-03-29"),
        ("k LIKE '%\\%'", False),
        ("k LIKE 'k!%' ESCAPE '!'", False),
        ("CONCAT(k, NULL)", None),
        ("GREATEST(1, NULL)", None),
        ("UPPER(k) || '!'", "KEY!"),
        ("EXTRACT(SECOND FROM t)", 15),
        ("n IS NOT DISTINCT FROM NULL", False),
    ],
)
def test_values(project: LoadedProject, call: str, value: Any) -> None:
    (row,) = ask(project, f"SELECT {call} AS x FROM s")
    shown = row["x"].isoformat() if hasattr(row["x"], "isoformat") else row["x"]
    assert shown == value


def test_columns_of_two_sub_selects_that_are_called_alike(project: LoadedProject) -> None:
    """The types of a call are those of its own columns."""
    halves = [f"SELECT JSON_STRING(q.x) AS c FROM (SELECT {column} AS x FROM s) q" for column in ("n", "k")]
    shown = " UNION ALL ".join(halves)
    assert [row["c"] for row in ask(project, shown)] == ["7", '"key"']


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("n / (n - 7)", "division by zero"),
        ("d / (d - d)", "division by zero"),
        ("CAST(k AS INTEGER)", "'key' is not a valid INTEGER"),
        ("CAST(300 AS TINYINT)", "type INTEGER with value 300"),
        ("b * 9223372036854775807", "of BIGINT"),
        ("REGEXP_EXTRACT(k, k || '(')", "not a regular expression"),
    ],
)
def test_what_fails_says_why(project: LoadedProject, call: str, reason: str) -> None:
    with pytest.raises(DsError) as caught:
        ask(project, f"SELECT {call} AS x FROM s")
    assert caught.value.condition == "QUESTION_FAILED"
    assert reason.lower() in str(caught.value).lower()


def test_python_functions_of_the_user_are_called(project: LoadedProject) -> None:
    rows = [{"k": "A b", "n": 2, "d": Decimal("1.00")}, {"k": None, "n": None, "d": None}]
    text = "SELECT slug(k) AS x, doubled(n) AS y, share(d, d) AS z FROM s ORDER BY n DESC"
    assert ask(project, text, *rows) == [{"x": "a-b", "y": 4, "z": 1.0}, {"x": None, "y": None, "z": -1.0}]


@pytest.mark.parametrize(
    ("call", "reason"),
    [("share(d, d - d)", "DivisionByZero in line"), ("wrong(n)", "it gave a value that is not a valid int")],
)
def test_a_function_of_the_user_that_fails_is_named(project: LoadedProject, call: str, reason: str) -> None:
    with pytest.raises(DsError) as caught:
        ask(project, f"SELECT {call} AS x FROM s")
    assert caught.value.condition == "QUESTION_FAILED"
    assert reason in str(caught.value)


def test_classes_of_the_user_run_in_spark_alone(project: LoadedProject) -> None:
    with pytest.raises(DsError) as caught:
        ask(project, "SELECT in_java(k) AS x FROM s")
    assert caught.value.condition == "QUESTION_FUNCTION_NOT_THERE"


def test_elements_of_arrays_and_maps_are_rows(project: LoadedProject) -> None:
    rows = [
        {"k": "a", "tags": ["x", None, "x"], "counts": {"p": 1}, "items": [{"sku": "s", "n": 2}, None]},
        {"k": "b", "tags": [], "counts": {}, "items": []},
        {"k": "c", "tags": None, "counts": None, "items": None},
    ]

    def of(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in ask(project, text, *rows)]

    assert of("SELECT k, t.x FROM s CROSS JOIN UNNEST(tags) AS t(x) ORDER BY x") == [
        ("a", None),
        ("a", "x"),
        ("a", "x"),
    ]
    numbered = "SELECT k, x, pos FROM s LEFT JOIN UNNEST(tags) WITH ORDINALITY AS t(x, pos) ON TRUE ORDER BY k, pos"
    assert of(numbered) == [("a", "x", 1), ("a", None, 2), ("a", "x", 3), ("b", None, None), ("c", None, None)]
    assert of("SELECT k, key, value + 1 AS v FROM s, UNNEST(counts) AS e") == [("a", "p", 2)]
    structs = "SELECT sku, i.n, ordinality FROM s CROSS JOIN UNNEST(items) WITH ORDINALITY AS i ORDER BY ordinality"
    assert of(structs) == [("s", 2, 1), (None, None, 2)]
    assert of("SELECT x, COUNT(*) AS c FROM s CROSS JOIN UNNEST(tags) AS t(x) GROUP BY x ORDER BY x") == [
        (None, 1),
        ("x", 2),
    ]
    assert of("SELECT y FROM s CROSS JOIN UNNEST(ARRAY[ARRAY[1, 2], ARRAY[3]]) AS t(x) CROSS JOIN UNNEST(x) AS u(y) "
              "WHERE k = 'a' ORDER BY y") == [(1,), (2,), (3,)]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT x FROM s CROSS JOIN UNNEST(k) AS t(x)", "UNNEST_TYPE"),
        ("SELECT x FROM s CROSS JOIN UNNEST(tags) AS t(x, y)", "UNNEST_COLUMNS"),
        ("SELECT x FROM s LEFT JOIN UNNEST(tags) AS t(x) ON x = 'a'", "UNNEST_CONDITION"),
        ("SELECT k, GROUPING(n) AS g FROM s GROUP BY ROLLUP (k)", "COLUMN_NOT_GROUPED"),
        ("SELECT k FROM s WHERE GROUPING(k) = 1", "GROUPING_ARGUMENT"),
        ("SELECT PERCENTILE(n, n) AS p FROM s", "PERCENTILE_PART"),
        ("SELECT n FROM s WHERE LAG(n) OVER (ORDER BY b) > 1", "OVER_MISPLACED"),
        ("SELECT COUNT(*) AS x FROM s GROUP BY LAG(n) OVER (ORDER BY b)", "OVER_MISPLACED"),
        ("SELECT MAX(n) AS x FROM s HAVING LAG(MAX(n)) OVER (ORDER BY 1) > 1", "OVER_MISPLACED"),
        ("SELECT SUM(LAG(n) OVER (ORDER BY b)) OVER (ORDER BY b) AS x FROM s", "OVER_MISPLACED"),
        ("SELECT SUM(n) OVER (ORDER BY LAG(n) OVER (ORDER BY b)) AS x FROM s", "OVER_MISPLACED"),
        ("SELECT LAST_VALUE(n) FILTER (WHERE n > 1) OVER (ORDER BY b) AS x FROM s", "OVER_FUNCTION"),
        ("SELECT LAG(n) FILTER (WHERE n > 1) OVER (ORDER BY b) AS x FROM s", "OVER_FUNCTION"),
        ("SELECT ROW_NUMBER() FILTER (WHERE n > 1) OVER (ORDER BY b) AS x FROM s", "OVER_FUNCTION"),
    ],
)
def test_refused_forms(project: LoadedProject, text: str, condition: str) -> None:
    with pytest.raises(DsError) as caught:
        ask(project, text)
    assert caught.value.condition == condition


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("ORDER BY b ROWS n PRECEDING", "ROWS takes a whole number"),
        ("ORDER BY b ROWS -1 PRECEDING", "ROWS takes a whole number"),
        ("ORDER BY t ROWS INTERVAL '2' HOUR PRECEDING", "ROWS takes a whole number"),
        ("ORDER BY b RANGE n PRECEDING", "RANGE takes a number or an INTERVAL"),
        ("ORDER BY t RANGE 5 PRECEDING", "RANGE with a number needs one number in ORDER BY"),
        ("ORDER BY b RANGE INTERVAL '2' HOUR PRECEDING", "RANGE with an INTERVAL needs one DATE or TIMESTAMP"),
        ("PARTITION BY b RANGE INTERVAL '2' HOUR PRECEDING", "RANGE with an INTERVAL needs one DATE or TIMESTAMP"),
        ("ORDER BY t, b RANGE INTERVAL '2' HOUR PRECEDING", "RANGE with an INTERVAL needs one DATE or TIMESTAMP"),
    ],
)  # fmt: skip
def test_frames_that_do_not_fit_their_order(project: LoadedProject, frame: str, reason: str) -> None:
    with pytest.raises(DsError) as caught:
        ask(project, f"SELECT SUM(b) OVER ({frame}) AS x FROM s")
    assert caught.value.condition == "OVER_FRAME"
    assert reason in str(caught.value)


def test_frames_of_times_and_numbers(project: LoadedProject) -> None:
    rows = [
        {"b": 1, "day": "2024-02-27", "t": datetime(2024, 2, 29, 12, tzinfo=timezone.utc)},
        {"b": 2, "day": "2024-02-29", "t": datetime(2024, 2, 29, 14, tzinfo=timezone.utc)},
        {"b": 4, "day": "2024-03-01", "t": datetime(2024, 2, 29, 17, tzinfo=timezone.utc)},
    ]
    for frame in (
        "ORDER BY b RANGE 1.5 PRECEDING",
        "ORDER BY day RANGE INTERVAL '2' DAY PRECEDING",
        "ORDER BY t RANGE INTERVAL '2' HOUR PRECEDING",
    ):
        sums = [row["x"] for row in ask(project, f"SELECT SUM(b) OVER ({frame}) AS x FROM s ORDER BY b", *rows)]
        assert sums == ([1, 3, 6] if "day" in frame else [1, 3, 4])


def test_sets_of_groups_percentiles_and_named_windows(project: LoadedProject) -> None:
    rows = [{"k": "a", "n": 1, "b": 1}, {"k": "a", "n": 2, "b": 2}, {"k": None, "n": 2, "b": 7}]

    def of(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in ask(project, text, *rows)]

    rolled = "SELECT k, n, GROUPING_ID(k, n) AS g, COUNT(*) AS c FROM s GROUP BY ROLLUP (k, n) ORDER BY g, k, n"
    assert of(rolled) == [
        (None, 2, 0, 1), ("a", 1, 0, 1), ("a", 2, 0, 1), (None, None, 1, 1), ("a", None, 1, 2), (None, None, 3, 3)
    ]  # fmt: skip
    parts = (
        "SELECT MEDIAN(b) AS m, PERCENTILE(b, 0.25) AS p, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY k) AS d FROM s"
    )
    assert of(parts) == [(2.0, 1.5, "a")]
    windows = "SELECT b, SUM(b) OVER w AS t FROM s WINDOW w AS (ORDER BY b) ORDER BY b"
    assert of(windows) == [(1, 1), (2, 3), (7, 10)]
    made = "SELECT STRUCT(k, b AS more) AS st FROM s WHERE b = 7"
    assert of(made) == [({"k": None, "more": 7},)]
    by_call = "SELECT JSON_STRING(n) AS j, COUNT(*) AS c FROM s GROUP BY JSON_STRING(n) ORDER BY j"
    assert of(by_call) == [("1", 1), ("2", 2)]


def test_aggregates_mean_what_the_dialect_says(project: LoadedProject) -> None:
    rows = [
        {"k": "b", "n": 2, "d": Decimal("0.10"), "f": 1e30},
        {"k": "a", "n": 1, "d": Decimal("0.20"), "f": 1.5},
        {"k": None, "n": None, "d": Decimal("0.03"), "f": -1e30},
    ]
    text = """SELECT LISTAGG(k) AS l, ARRAY_AGG(k) AS a, JSON_ARRAYAGG(n) AS j, SUM(d) AS s, AVG(d) AS m, SUM(f) AS f,
      AVG(n) AS n, COUNT(DISTINCT n) AS c, APPROX_COUNT_DISTINCT(k) AS q, COUNT(*) FILTER (WHERE n > 1) AS w,
      VAR_POP(n) AS v, STDDEV_SAMP(n) AS p, MIN(k) AS lo, LISTAGG(DISTINCT k, '-') AS dl, MAX_BY(k, n) AS of_max,
      ANY_VALUE(k) AS any_one, BOOL_AND(n > 1) AS every_one, BOOL_OR(n > 1) AS some FROM s"""
    (row,) = ask(project, text, *rows)
    assert row == {
        "l": "a,b", "a": ["a", "b"], "j": "[1,2]", "s": Decimal("0.33"), "m": Decimal("0.110000"), "f": 1.5, "n": 1.5,
        "c": 2, "q": 2, "w": 1, "v": 0.25, "p": pytest.approx(0.7071067811865476), "lo": "a", "dl": "a-b",
        "of_max": "b", "any_one": "a", "every_one": False, "some": True,
    }  # fmt: skip
    (none,) = ask(
        project, "SELECT COUNT(*) AS c, SUM(n) AS s, ARRAY_AGG(k) AS a, JSON_ARRAYAGG(k) AS j FROM s WHERE n > 9"
    )
    assert none == {"c": 0, "s": None, "a": None, "j": "[]"}
