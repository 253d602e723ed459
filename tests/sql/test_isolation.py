"""sqlglot is extended by subclassing only, and files are read in one pass."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from ds_dagster.sql import DeltaStream, parse_file, source, tokens

STOCK = """
import sqlglot, sqlglot.parser, sqlglot.generator, sqlglot.tokens
from sqlglot.dialects import Postgres, Spark, DuckDB
from sqlglot.parser import Parser
from sqlglot.generator import Generator
CLASSES = [Parser, Generator, sqlglot.tokens.Tokenizer, Postgres.Parser, Spark.Generator]
TEXTS = ["SELECT a->'b', c::int FROM t WITH (NOLOCK) /*+ x */", "CREATE TABLE t (a INT PRIMARY KEY)",
    "SELECT TUMBLE(a) FROM t LIMIT 1",
    "SELECT DISTINCT ON (a) * FROM t QUALIFY x", "SHOW TABLES", "SELECT {# c #} 1"]
def seen():
    state = [(cls.__name__, name, id(value)) for cls in CLASSES for name, value in vars(cls).items()]
    sizes = [(name, len(value)) for cls in CLASSES for name, value in vars(cls).items() if hasattr(value, "__len__")]
    printed = []
    for text in TEXTS:
        for dialect in (None, "postgres", "spark", "duckdb", "tsql"):
            try:
                printed.append(repr(sqlglot.parse_one(text, dialect=dialect)))
            except sqlglot.errors.SqlglotError as failure:
                printed.append(str(failure))
    return state, sizes, printed
before = seen()
before = seen()
import ds_dagster.sql
ds_dagster.sql.parse_file("a.sql", "CREATE STREAM s AS SELECT a->b FROM t")
assert seen() == before
print("same")
"""


def test_stock_dialects_behave_the_same_before_and_after_import() -> None:
    done = subprocess.run([sys.executable, "-c", STOCK], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("same\n", 0), done.stderr


def test_the_dialect_works_through_sqlglots_own_doors() -> None:
    tree = sqlglot.parse_one("SELECT a->b FROM t WHERE x BETWEEN 1 AND 2", dialect="deltastream")
    assert tree.sql(dialect=DeltaStream) == "SELECT a->b FROM t WHERE x BETWEEN 1 AND 2"
    assert exp.condition("a->b = 1", dialect=DeltaStream).sql(dialect=DeltaStream) == "a->b = 1"
    with pytest.raises(sqlglot.errors.ParseError):
        sqlglot.parse_one("SELECT a FROM t QUALIFY b", dialect="deltastream")


def test_one_pass_of_the_tokenizer_per_file(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []

    class Counting(tokens.DeltaStreamTokenizer):
        def tokenize(self, sql: str) -> Any:
            passes.append(len(sql))
            return super().tokenize(sql)

    monkeypatch.setattr(source, "DeltaStreamTokenizer", Counting)
    text = "CREATE STREAM s AS SELECT a FROM t WHERE b = 'x';\n" * 200
    parsed = parse_file("a.sql", text)
    assert len(parsed.statements) == 200
    assert passes == [len(text)]


def test_work_grows_with_the_text_and_not_faster() -> None:
    """Calls, not seconds: twice the statements take at most a little more than twice the calls."""
    one = "CREATE STREAM s AS SELECT a, b AS c FROM t x JOIN u y WITHIN 5 MINUTES ON x.a = y.a WHERE b = 'x';\n"

    def calls(count: int) -> int:
        seen = 0

        def count_calls(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal seen
            seen += event == "call"

        sys.setprofile(count_calls)
        try:
            parse_file("a.sql", one * count)
        finally:
            sys.setprofile(None)
        return seen

    calls(1)
    assert calls(80) <= 2.1 * calls(40)
    assert calls(80) / 80 <= 1500
