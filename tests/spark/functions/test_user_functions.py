"""Functions of the user in the JVM: a jar compiled here, loaded without a restart, its types and its failures."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ds_dagster import jars
from ds_dagster.errors import DsError
from ds_dagster.spark.queries import query as face

pytestmark = [pytest.mark.spark]

SLUG = """
package com.acme;
public class Slug {
  private int calls;
  public String evaluate(String text, int most) {
    calls++;
    return text == null ? "none" : text.toLowerCase().replace(' ', '%s').substring(0, Math.min(most, text.length()));
  }
}
"""
TYPES = """
package com.acme;
import java.math.BigDecimal;
import java.time.*;
public class Types {
  public static class Days { public LocalDate eval(LocalDate day, Integer n) { return day.plusDays(n); } }
  public static class Half { public BigDecimal evaluate(BigDecimal x) { return x.divide(new BigDecimal(2)); } }
  public static class Later { public Instant evaluate(Instant t, long s) { return t.plusSeconds(s); } }
  public static class Local { public LocalDateTime evaluate(LocalDateTime t) { return t.plusHours(1); } }
  public static class Bytes { public byte[] evaluate(byte[] b) { return new byte[] {b[0], 65}; } }
  public static class Not { public boolean evaluate(boolean b) { return !b; } }
  public static class Fails { public double evaluate(double d) { throw new IllegalStateException("secret " + d); } }
  public static class Bare { public long count(long n) { return n; } }
  public static class Needs { public Needs(int n) {} public long evaluate(long n) { return n; } }
}
"""


def build(folder: Path, target: Path, **sources: str) -> None:
    """A jar of these classes."""
    classes = folder / "classes"
    classes.mkdir(parents=True)
    for name, text in sources.items():
        (folder / f"{name}.java").write_text(text, encoding="utf-8")
    files = [str(folder / f"{name}.java") for name in sources]
    subprocess.run([*jars._compiler(None)[1], "-d", str(classes), *files], check=True, capture_output=True)
    with zipfile.ZipFile(target, "w") as jar:
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, path.relative_to(classes).as_posix())


def function(name: str, arguments: str, returns: str, entry: str) -> str:
    with_ = f"WITH ('source.name' = jars, 'class.name' = 'com.acme.{entry}')"
    return f"CREATE FUNCTION {name}({arguments}) RETURNS {returns} LANGUAGE JAVA {with_};\n"


SOURCE = "CREATE FUNCTION_SOURCE jars WITH ('file' = '@x.jar');\n"
PAGES = "CREATE STREAM pages (title VARCHAR, n BIGINT) WITH ('topic' = 'pages', 'value.format' = 'json');\n"
SLUGS = function("slug", "a VARCHAR, b INTEGER", "VARCHAR", "Slug")


def test_a_jar_that_changed_is_loaded_anew_without_a_restart(bench: Any, tmp_path: Path) -> None:
    sql = SOURCE + SLUGS + PAGES + "CREATE STREAM s AS SELECT slug(title, CAST(n AS INTEGER)) AS t FROM pages;"
    fingerprints = []
    bench.send("pages", {"title": "Big News", "n": 5}, {"title": None, "n": 5}, {"title": "x", "n": None})
    for round_, joint in enumerate("-_"):
        build(tmp_path / str(round_), tmp_path / "x.jar", Slug=SLUG % joint)
        fingerprints.append(bench.compile(sql).queries["s"].fingerprint)
        bench.records.clear()
        query = bench.start("s")
        query.processAllAvailable()
        bench.stop()
        (tmp_path / "checkpoints").rename(tmp_path / f"checkpoints_{round_}")
        assert bench.values == [{"t": f"big{joint}n"}, {"t": "none"}, {"t": None}]
    assert len(set(fingerprints)) == 2


CALLS = {
    "days": ("a DATE, n INTEGER", "DATE", "Days", "days(DATE '2024-02-28', 2)", "2024-03-01"),
    "half": ("a DECIMAL(10, 2)", "DECIMAL(10, 1)", "Half", "half(3.5)", 1.8),
    "later": (
        "t TIMESTAMP_LTZ, s BIGINT",
        "TIMESTAMP_LTZ",
        "Later",
        "later(TO_TIMESTAMP_LTZ(0, 3), 90)",
        "1970-01-01 00:01:30.000Z",
    ),
    "local_": (
        "t TIMESTAMP",
        "TIMESTAMP",
        "Local",
        "local_(TIMESTAMP '2024-01-01 23:30:00')",
        "2024-01-02 00:30:00.000",
    ),
    "bytes_": ("b VARBINARY", "VARBINARY", "Bytes", "CAST(bytes_(CAST('xyz' AS VARBINARY)) AS VARCHAR)", "xA"),
    "negated": ("b BOOLEAN", "BOOLEAN", "Not", "negated(n > 1)", True),
}


def test_values_of_every_type(bench: Any, tmp_path: Path) -> None:
    build(tmp_path / "a", tmp_path / "x.jar", Types=TYPES)
    made = "".join(function(name, a, r, f"Types${entry}") for name, (a, r, entry, _, _) in CALLS.items())
    items = ", ".join(f"{call} AS c_{name}" for name, (_, _, _, call, _) in CALLS.items())
    bench.compile(SOURCE + made + PAGES + f"CREATE STREAM s AS SELECT {items} FROM pages;")
    bench.send("pages", {"title": "x", "n": 1})
    (row,) = bench.run("s")
    assert row == {f"c_{name}": expected for name, (*_, expected) in CALLS.items()}


def test_what_a_class_throws_is_told_without_its_text(bench: Any, tmp_path: Path) -> None:
    build(tmp_path / "a", tmp_path / "x.jar", Types=TYPES)
    made = function("fails", "d DOUBLE", "DOUBLE", "Types$Fails")
    bench.compile(SOURCE + made + PAGES + "CREATE STREAM s AS SELECT fails(n) AS x FROM pages;")
    query = bench.start("s")
    bench.send("pages", {"title": "x", "n": 7})
    fault = bench.fault(query)
    assert fault.condition == "FUNCTION_FAILED"
    assert "IllegalStateException" in str(fault)
    assert "secret" not in str(fault)


def test_rows_that_a_class_fails_on_can_be_left_out(bench: Any, tmp_path: Path) -> None:
    build(tmp_path / "a", tmp_path / "x.jar", Types=TYPES)
    made = function("fails", "d DOUBLE", "DOUBLE", "Types$Fails")
    select = "SELECT n, CASE WHEN n > 5 THEN fails(n) ELSE n END AS x FROM pages"
    bench.compile(SOURCE + made + PAGES + f"CREATE STREAM s AS {select} QUERY WITH ('row.error.handling' = IGNORE);")
    query = bench.start("s")
    bench.send("pages", {"n": 5}, {"n": 6}, {"n": None}, {"n": 7})
    query.processAllAvailable()
    assert bench.values == [{"n": 5, "x": 5.0}, {"n": None, "x": None}]
    assert sum(face.read_progress(p.json).bad_records for p in query.recentProgress) == 2


@pytest.mark.parametrize(
    ("entry", "arguments", "returns", "reason"),
    [
        ("Types$Bare", "n BIGINT", "BIGINT", "no public method evaluate"),
        ("Types$Needs", "n BIGINT", "BIGINT", "constructor"),
        ("Types$Not", "b VARCHAR", "BOOLEAN", "no public method evaluate"),
        ("Types$Not", "b BOOLEAN", "BIGINT", "no public method evaluate"),
    ],
)
def test_a_class_that_is_no_such_function(
    bench: Any, tmp_path: Path, entry: str, arguments: str, returns: str, reason: str
) -> None:
    build(tmp_path / "a", tmp_path / "x.jar", Types=TYPES)
    call = "f(NULL)"
    sql = (
        SOURCE + function("f", arguments, returns, entry) + PAGES + f"CREATE STREAM s AS SELECT {call} AS x FROM pages;"
    )
    bench.compile(sql)
    with pytest.raises(DsError) as refused:
        bench.prepare("s")
    assert refused.value.condition == "FUNCTION_CLASS_UNFIT"
    assert reason in str(refused.value)
