"""``ds query`` over views: one answer, typed by the catalog, while the view is written."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.names import QualifiedName
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.status import JobStatus
from ds_dagster.stores.sqlite.views import view_path
from tests.runtime.fakes import engine_says

VISITS = [
    ("./home", "mobile", 7), ("./home", "desktop", 3), ("./cart", "mobile", 2), ("./about", "desktop", 9),
    (None, "tablet", 1),
]  # fmt: skip
PAID = [("ann", Decimal("10.50"), 1), ("bob", Decimal("0.10"), 2), ("cy", Decimal("0.20"), 3)]


def moment(second: int) -> datetime:
    return datetime(2024, 1, 31, 12, 0, second, 250_000, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def filled(views) -> None:
    columns = list(zip(*VISITS, strict=True))
    views.write("visits", {"url": columns[0], "device": columns[1], "n": columns[2]})
    users, totals, seconds = zip(*PAID, strict=True)
    decimals = pa.array(totals, pa.decimal128(38, 2))
    times = pa.array([moment(s) for s in seconds], pa.timestamp("us", "UTC"))
    views.write("paid", {"userid": users, "total": decimals, "latest": times})


QUESTIONS = [
    "SELECT * FROM visits ORDER BY n",
    "SELECT url, n FROM visits WHERE device = 'mobile' ORDER BY n DESC LIMIT 1",
    "SELECT url, sum(n) AS total FROM visits GROUP BY url ORDER BY total DESC, url",
    "SELECT device, min(n) AS low, max(n) AS high, avg(n) AS mean FROM visits GROUP BY device ORDER BY 1",
    "SELECT url, count(*) AS c FROM visits GROUP BY url HAVING sum(n) > 5 ORDER BY url",
    "SELECT DISTINCT device FROM visits ORDER BY device",
    "SELECT count(DISTINCT device) AS c FROM visits",
    "SELECT count(*) FILTER (WHERE n > 2) AS many FROM visits",
    "SELECT a.url, a.n AS one, b.n AS two FROM visits a JOIN visits b ON a.url = b.url WHERE a.device < b.device",
    "SELECT a.url, b.n AS n FROM visits a LEFT JOIN visits b ON a.n = b.n + 1 ORDER BY a.n",
    "SELECT t.url FROM (SELECT url, sum(n) AS s FROM visits GROUP BY url) t WHERE t.s >= 9 ORDER BY t.url",
    "SELECT url FROM visits WHERE url IS NULL OR n BETWEEN 2 AND 3 ORDER BY n LIMIT 2 OFFSET 1",
    "SELECT n FROM visits ORDER BY n OFFSET 2",
    "SELECT t.n FROM (SELECT n FROM visits ORDER BY n DESC OFFSET 1) t ORDER BY t.n LIMIT 3",
    "SELECT url FROM visits WHERE url LIKE './%o%' AND url NOT LIKE '%HOME%' ORDER BY url",
    "SELECT CASE WHEN n > 5 THEN 'many' ELSE 'few' END AS how, count(*) AS c FROM visits "
    "GROUP BY CASE WHEN n > 5 THEN 'many' ELSE 'few' END ORDER BY how",
    "SELECT n / 2 AS half, n % 4 AS rest, -n AS minus, CAST(n AS DOUBLE) * 0.25 AS more FROM visits ORDER BY n",
    "SELECT n FROM visits WHERE device IN ('mobile', 'tablet') AND NOT n = 7 ORDER BY n",
    "SELECT n, ROW_NUMBER() OVER (PARTITION BY device ORDER BY n DESC) AS place FROM visits ORDER BY n",
    "SELECT n, SUM(n) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM visits ORDER BY n",
    "SELECT n, LAG(n) OVER (ORDER BY n) AS before, COUNT(*) OVER () AS rows_in_all FROM visits ORDER BY n",
    "SELECT url, sum(n) AS s, RANK() OVER (ORDER BY sum(n) DESC) AS r FROM visits GROUP BY url ORDER BY r, url",
    "SELECT n FROM visits WHERE n IN (SELECT max(n) FROM visits) OR n NOT IN (SELECT n FROM visits WHERE n > 1)",
    "SELECT n, (SELECT count(*) FROM visits) AS rows_in_all FROM visits WHERE n > (SELECT avg(n) FROM visits)",
    "SELECT a.n FROM visits a WHERE EXISTS (SELECT b.n FROM visits b WHERE b.url = a.url AND b.n < a.n) ORDER BY a.n",
    "SELECT a.n FROM visits a WHERE a.n = (SELECT max(b.n) FROM visits b WHERE b.url = a.url) ORDER BY a.n",
    "SELECT url FROM visits UNION SELECT device FROM visits ORDER BY url LIMIT 4",
    "SELECT url FROM visits EXCEPT SELECT url FROM visits WHERE n > 5 ORDER BY 1",
    "WITH big AS (SELECT url, n FROM visits WHERE n > 2) SELECT count(*) AS c FROM big x JOIN big y ON x.n > y.n",
]  # fmt: skip


def oracle(text: str) -> list[tuple[Any, ...]]:
    """SQLite over the same rows; NULL is the smallest value there as well, division of whole numbers truncates."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA case_sensitive_like = ON")
        connection.execute("CREATE TABLE visits (url VARCHAR, device VARCHAR, n BIGINT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", VISITS)
        return connection.execute(re.sub(r"(n|DESC) (OFFSET \d)", r"\1 LIMIT -1 \2", text)).fetchall()


@pytest.mark.parametrize("text", QUESTIONS)
def test_answers_as_another_engine_does(ds, text: str) -> None:
    found = ds("query", text, "--json")
    assert found.code == 0, found.err
    names = [column["name"] for column in found.json["columns"]]
    rows = [tuple(row[name] for name in names) for row in found.rows]
    wanted = [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in oracle(text)]
    if "ORDER BY" in text:
        assert rows == wanted
    else:
        assert Counter(rows) == Counter(wanted)


def test_document_has_columns_with_types_of_the_catalog_and_rows_by_name(ds) -> None:
    found = ds("query", "SELECT userid, total, latest FROM paid WHERE userid = 'ann'", "--json")
    assert found.json["columns"] == [
        {"name": "userid", "type": "VARCHAR"},
        {"name": "total", "type": "DECIMAL(38,2)"},
        {"name": "latest", "type": "TIMESTAMP_LTZ(3)"},
    ]
    assert found.rows == [{"userid": "ann", "total": "10.50", "latest": "2024-01-31T12:00:01.250Z"}]


def test_decimals_are_added_and_compared_as_decimals(ds) -> None:
    assert ds("query", "SELECT sum(total) AS s FROM paid", "--json").rows == [{"s": "10.80"}]
    found = ds("query", "SELECT userid FROM paid WHERE total > 0.15 ORDER BY total", "--json")
    assert [row["userid"] for row in found.rows] == ["cy", "ann"]


def test_times_compare_with_literals_and_move_by_intervals(ds) -> None:
    text = "SELECT userid FROM paid WHERE latest >= '2024-01-31 12:00:02' ORDER BY latest"
    assert [row["userid"] for row in ds("query", text, "--json").rows] == ["bob", "cy"]
    text = "SELECT latest + INTERVAL '1' DAY AS later, EXTRACT(SECOND FROM latest) AS s FROM paid WHERE userid = 'cy'"
    assert ds("query", text, "--json").rows == [{"later": "2024-02-01T12:00:03.250Z", "s": 3}]
    text = "SELECT DATE_FORMAT(latest, 'yyyy-MM-dd''T''HH:mm:ss.SSS') AS t FROM paid WHERE userid = 'cy'"
    assert ds("query", text, "--json").rows == [{"t": "2024-01-31T12:00:03.250"}]


def test_booleans_and_quoted_names_keep_their_form(ds, views) -> None:
    columns = {"at": pa.array([moment(1)], pa.timestamp("us", "UTC")), "url": ["./x"], "Device": ["tv"]}
    views.write("log", columns | {"price": pa.array([Decimal("1.25")], pa.decimal128(10, 2)), "paid": [True]})
    (row,) = ds("query", 'SELECT paid, "Device", price, NOT paid AS unpaid FROM log WHERE paid', "--json").rows
    assert row == {"paid": True, "Device": "tv", "price": 1.25, "unpaid": False}


def test_functions_mean_what_the_dialect_says(ds) -> None:
    text = """SELECT UPPER(url) AS a, SUBSTRING(url, 3) AS b, CHAR_LENGTH(url) AS c, SPLIT_INDEX(url, '/', 1) AS d,
      url || '!' AS e, COALESCE(NULLIF(device, 'mobile'), 'phone') AS f, POSITION('h' IN url) AS g, MD5(url) AS h,
      REGEXP_EXTRACT(url, '([a-z]+)$', 1) AS i, CAST(n AS VARCHAR) AS j, ROUND(n / 2.0, 0) AS k, GREATEST(n, 100) AS l
      FROM visits WHERE n = 7""".replace("POSITION('h' IN url)", "POSITION('h', url)")
    (row,) = ds("query", text, "--json").rows
    assert row == {
        "a": "./HOME", "b": "home", "c": 6, "d": "home", "e": "./home!", "f": "phone", "g": 3,
        "h": "00835b1c40edeed3d9c5e9b5ab3fef37", "i": "home", "j": "7", "k": "4", "l": 100,
    }  # fmt: skip


def test_table_for_people_shows_null_and_no_separators(ds) -> None:
    found = ds("query", "SELECT url, n * 1000 AS big FROM visits ORDER BY n LIMIT 2")
    assert found.out.splitlines() == ["URL      BIG", "NULL    1000", "./cart  2000"]


def test_limit_of_the_command_wins_when_smaller(ds) -> None:
    assert len(ds("query", "SELECT * FROM visits LIMIT 4", "--limit", "2", "--json").rows) == 2
    assert len(ds("query", "SELECT * FROM visits LIMIT 2", "--limit", "4", "--json").rows) == 2


def test_a_view_that_is_not_updated_says_so_and_answers(ds) -> None:
    found = ds("query", "SELECT count(*) AS c FROM visits", "--json")
    assert found.rows == [{"c": 5}]
    assert re.search(r"visits is not running: its rows are from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", found.err)


def test_a_view_that_ended_with_its_engine_says_so_once(ds, project: Path) -> None:
    loaded = load_project(project)
    control = Control.open(loaded.settings)
    control.ensure(loaded, ["visits"])
    engine_says(control, StatusRow("visits", "ABSENT", generation=1, incarnation="i", batch=3))
    found = ds("query", "SELECT count(*) AS c FROM visits")
    assert "visits ended with the engine: its rows are from" in found.err
    assert found.err.count("ended with") == 1


def test_a_view_that_is_being_built_says_that_rows_are_missing(ds, monkeypatch: pytest.MonkeyPatch) -> None:
    built = JobStatus("visits", "j", "d.public.visits", "RUNNING", "RUNNING", lag_records=1200)
    monkeypatch.setattr(Control, "statuses", lambda *_: (built,))
    found = ds("query", "SELECT count(*) AS c FROM visits")
    assert "visits is being built, its rows are not complete: 1,200 records wait" in found.err


def test_a_view_without_a_file_is_an_error_with_the_way_out(ds) -> None:
    found = ds("query", "SELECT * FROM log", "--json")
    assert found.code == 1
    assert found.conditions == ["VIEW_MISSING"]


@pytest.mark.parametrize(
    ("text", "condition", "column"),
    [
        ("SELECT nn FROM visits", "UNKNOWN_COLUMN", 8),
        ("SELECT v.n FROM visits x", "UNKNOWN_ALIAS", 8),
        ("SELECT * FROM visit", "UNKNOWN_RELATION", 15),
        ("SELECT * FROM sqlite_master", "UNKNOWN_RELATION", 15),
        ("SELECT * FROM ds_ledger", "UNKNOWN_RELATION", 15),
        ('SELECT "n; DROP TABLE visits" FROM visits', "UNKNOWN_COLUMN", 8),
        ("SELECT n FROM visits WHERE url = 5", "OPERATOR_TYPES", 28),
        ("SELECT url, count(*) FROM visits", "COLUMN_NOT_GROUPED", 8),
        ("SELECT * FROM visits GROUP BY url", "STAR_WITH_GROUP", 8),
        ("SELECT n FROM visits WHERE count(*) > 1", "AGGREGATE_MISPLACED", 28),
        ("SELECT n FROM visits ORDER BY 3", "QUESTION_ORDER_POSITION", 31),
        ("SELECT frobnicate(n) FROM visits", "UNKNOWN_FUNCTION", 8),
        ("SELECT n FROM TUMBLE(visits, SIZE 1 MINUTE)", "QUESTION_CLAUSE", 15),
        ("SELECT LAST_VALUE(n) AS rn FROM visits", "QUESTION_AGGREGATE", 8),
        ("SELECT n FROM visits WHERE n IN (SELECT n, url FROM visits)", "QUESTION_ONE_COLUMN", 28),
        ("SELECT n FROM visits WHERE n = (SELECT n, url FROM visits)", "QUESTION_ONE_COLUMN", 33),
        ("SELECT n FROM visits UNION ALL SELECT n, url FROM visits", "QUESTION_SIDES", 22),
        ("SELECT SUM(n) OVER () AS s, count(*) AS c FROM visits", "COLUMN_NOT_GROUPED", 8),
        ("SELECT load_extension('x') FROM visits", "UNKNOWN_FUNCTION", 8),
    ],
)
def test_refusals_have_a_place(ds, text: str, condition: str, column: int) -> None:
    found = ds("query", text, "--json")
    assert found.code == 1
    (diagnostic,) = found.json["diagnostics"]
    assert (diagnostic["condition"], diagnostic["line"], diagnostic["column"]) == (condition, 1, column)


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE visits",
        "DELETE FROM visits",
        "SELECT 1; SELECT 2",
        "ATTACH 'x' AS y",
        "",
        "SELECT n FROM visits WHERE",
    ],
)
def test_only_one_select_is_read(ds, text: str) -> None:
    found = ds("query", text, "--json")
    assert found.code == 1
    assert found.json["diagnostics"]
    assert len(ds("query", "SELECT * FROM visits", "--json").rows) == len(VISITS)


def test_text_literals_are_values_whatever_stands_in_them(ds, views) -> None:
    evil = "x'; DROP TABLE visits; --"
    views.write("visits", {"url": [evil], "device": ['"'], "n": [1]})
    text = "SELECT device, n FROM visits WHERE url = 'x''; DROP TABLE visits; --'"
    assert ds("query", text, "--json").rows == [{"device": '"', "n": 1}]


def test_a_value_that_does_not_fit_is_named(ds) -> None:
    found = ds("query", "SELECT CAST(url AS INTEGER) AS n FROM visits WHERE url = './home'", "--json")
    assert found.conditions == ["QUESTION_FAILED"]
    assert "'./home' is not a valid INTEGER" in found.json["diagnostics"][0]["message"]
    assert ds("query", "SELECT TRY_CAST(url AS INTEGER) AS n FROM visits WHERE n = 7", "--json").rows == [{"n": None}]


def test_same_names_of_a_join_are_told_apart(ds) -> None:
    found = ds("query", "SELECT a.n, b.n FROM visits a JOIN visits b ON a.url = b.url LIMIT 1", "--json")
    assert [column["name"] for column in found.json["columns"]] == ["n", "n_2"]


def test_views_of_several_files_join(ds, views) -> None:
    views.write("visits", {"url": ["ann"], "device": ["mobile"], "n": [4]})
    text = "SELECT p.total, v.n FROM paid p JOIN visits v ON p.userid = v.url"
    assert ds("query", text, "--json").rows == [{"total": "10.50", "n": 4}]


def test_print_shows_rows_of_a_view_with_their_key(ds) -> None:
    found = ds("print", "visits")
    assert '{"url":"./home","device":"mobile"} | {"url":"./home","device":"mobile","n":7}' in found.out.splitlines()
    assert len(found.out.splitlines()) == len(VISITS)
    assert len(ds("print", "visits", "--limit", "2").out.splitlines()) == 2


def test_answers_are_whole_batches_while_the_job_writes(ds, views) -> None:
    """Each batch sets both rows to its number; an answer never mixes two batches."""
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        loader, first = views.loader("visits"), views.batches["visits", views.version] - 1
        for number in range(1, 100_000):
            if stop.is_set():
                break
            columns = {"url": ["w1", "w2"], "device": ["d", "d"], "n": [number, number], "__deleted": [False, False]}
            loader.load(pa.table(columns), first + number)
            written.append(number)
        loader.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        while len(seen) < 20 or len(written) < 20:
            found = ds("query", "SELECT n FROM visits WHERE url IN ('w1', 'w2')", "--json")
            assert found.code == 0, found.err
            seen.append({row["n"] for row in found.rows})
    finally:
        stop.set()
        writer.join()
    assert all(len(values) <= 1 for values in seen)
    assert len({min(values) for values in seen if values}) > 1


def test_a_question_cannot_write(project, views) -> None:
    from ds_dagster.names import QualifiedName
    from ds_dagster.stores.sqlite.reader import open_views

    connection = open_views(project / ".ds" / "views", {"main": QualifiedName("d", "public", "visits")})
    with pytest.raises(sqlite3.OperationalError, match=r"readonly|query_only"):
        connection.execute("DELETE FROM visits")
    connection.close()


def test_rows_that_are_too_old_are_not_shown(ds, project, views) -> None:
    views.write("recent", {"url": ["./a", "./b"], "n": [1, 2]})
    path = view_path(project / ".ds" / "views", QualifiedName("d", "public", "recent"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE recent SET __changed_at = __changed_at - 3600000 WHERE url = './a'")
    answer = ds("query", "SELECT r.* FROM recent r", "--json")
    assert [column["name"] for column in answer.json["columns"]] == ["url", "n"]
    assert answer.rows == [{"url": "./b", "n": 2}]
    joined = ds("query", "SELECT a.url, b.n FROM recent a LEFT JOIN recent b ON a.url = b.url WHERE a.n > 0", "--json")
    assert joined.rows == [{"url": "./b", "n": 2}]


def test_a_view_that_has_no_ages_yet_shows_all(ds, project, views) -> None:
    """Its query has not run with the retention that the project asks for now."""
    file = project / "sql" / "all.sql"
    with_retention = file.read_text()
    file.write_text(with_retention.replace(" WITH ('retention.millis' = 3600000)", ""))
    replace(views, project=load_project(project, strict=True)).write("recent", {"url": ["./a"], "n": [1]})
    file.write_text(with_retention)
    assert ds("query", "SELECT * FROM recent", "--json").rows == [{"url": "./a", "n": 1}]
