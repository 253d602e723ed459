"""A fingerprint is made of meaning: what changes it, what does not."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from tests.plan.conftest import PRELUDE, Compile

QUERY = """CREATE STREAM s AS SELECT c.url AS u, c.at + 1 AS t, p.name
FROM clicks c JOIN users p ON c.userid = p.userid WHERE c.ok AND c.url LIKE 'a%';"""
COUNTS = "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n FROM clicks WHERE ok GROUP BY url;"
WINDOW = """CREATE CHANGELOG s AS SELECT window_start, window_end, url, SUM(amount) AS total
FROM TUMBLE(clicks, SIZE 1 MINUTE) GROUP BY window_start, window_end, url HAVING COUNT(*) > 1;"""
PATTERN = """CREATE STREAM s AS SELECT userid, n FROM clicks MATCH_RECOGNIZE (PARTITION BY userid ORDER BY at, url
MEASURES COUNT(b.url) AS n AFTER MATCH SKIP TO NEXT ROW PATTERN (a b+ c) WITHIN 1 HOUR
DEFINE a AS ok, b AS amount > a.amount) WITH ('timestamp' = 'at');"""

SAME = (
    (QUERY, QUERY.lower().replace("'a%'", "'a%'")),
    (QUERY, QUERY.replace("\n", " -- why\n  ")),
    (
        QUERY,
        QUERY.replace("c.", "k.").replace("clicks c", "clicks AS k").replace("p.", "q.").replace("users p", "users q"),
    ),
    (QUERY, QUERY.replace("c.ok AND c.url LIKE 'a%'", "(c.ok) AND (c.url LIKE ('a%'))")),
    (QUERY, "-- @owner team:x\n" + QUERY),
    (QUERY, QUERY.replace("clicks c", "default.public.clicks c")),
    (COUNTS, COUNTS.replace("url, COUNT", "clicks.url, COUNT").replace("GROUP BY url", "GROUP BY clicks.url")),
    (COUNTS, COUNTS.replace("FROM clicks WHERE ok", "FROM clicks x WHERE x.ok")),
    (WINDOW, WINDOW.replace("1 MINUTE", "60 SECONDS")),
    (
        "CREATE STREAM s AS SELECT CONCAT(url, 'a') AS x FROM clicks;",
        "CREATE STREAM s AS SELECT url || 'a' AS x FROM clicks;",
    ),
    (
        "CREATE STREAM s AS SELECT SUBSTR(url, 2) AS x FROM clicks;",
        "CREATE STREAM s AS SELECT SUBSTRING(url, 2) AS x FROM clicks;",
    ),
    (QUERY, QUERY.replace(";", " QUERY WITH ('query.name' = other);")),
    (PATTERN, PATTERN.replace("b.url", "x.url").replace("b+", "x+").replace("b AS", "x AS")),
    (PATTERN, PATTERN.replace("1 HOUR", "INTERVAL '60' MINUTES").replace("b+", "b{1,}")),
    (PATTERN, PATTERN.replace("a AS ok, b AS amount > a.amount", "b AS amount > LAST(a.amount), a AS (ok)")),
)
OTHER = (
    *(
        (PATTERN, PATTERN.replace(old, new))
        for old, new in (
            ("b+", "b+?"),
            ("b+", "b*"),
            ("b+", "b | a"),
            ("1 HOUR", "2 HOURS"),
            ("NEXT ROW", "LAST b"),
            ("COUNT(b.url)", "COUNT(a.url)"),
            ("at, url", "at, url DESC"),
            ("a AS ok", "a AS NOT ok"),
            ("> a.amount", "> FIRST(a.amount, 1)"),
            ("PARTITION BY userid", "PARTITION BY userid, url"),
        )
    ),
    (QUERY, QUERY.replace("at + 1", "at + 2")),
    (QUERY, QUERY.replace("'a%'", "'b%'")),
    (QUERY, QUERY.replace("AS u", "AS v")),
    (QUERY, QUERY.replace("JOIN users", "LEFT JOIN users")),
    (QUERY, QUERY.replace("c.ok AND", "NOT c.ok AND")),
    (QUERY, QUERY.replace("CREATE STREAM s AS", "CREATE STREAM s WITH ('topic' = 'other') AS")),
    (QUERY, QUERY.replace("users p ON", "users p WITH ('temporal.join.mode' = 'immediate') ON")),
    (QUERY, QUERY.replace("clicks c", "clicks c WITH ('starting.position' = 'latest')")),
    (COUNTS, COUNTS.replace("COUNT(*)", "COUNT(at)")),
    (COUNTS, COUNTS.replace("COUNT(*)", "COUNT(*) FILTER (WHERE ok)")),
    (COUNTS, COUNTS.replace("WHERE ok ", "")),
    (WINDOW, WINDOW.replace("1 MINUTE", "2 MINUTES")),
    (WINDOW, WINDOW.replace("> 1", "> 2")),
    (WINDOW, WINDOW.replace(";", " QUERY WITH ('emit.mode' = 'updates');")),
    (
        "CREATE STREAM s AS SELECT 1 - (2 - at) AS x FROM clicks;",
        "CREATE STREAM s AS SELECT 1 - 2 - at AS x FROM clicks;",
    ),
    ("CREATE STREAM s AS SELECT at, url FROM clicks;", "CREATE STREAM s AS SELECT url, at FROM clicks;"),
)


def one(compile_sql: Compile, sql: str, prelude: str = PRELUDE) -> BoundQuery:
    project = compile_sql(sql, prelude)
    assert not project.errors, [d.text() for d in project.errors]
    return next(iter(project.queries.values()))


@pytest.mark.parametrize(("first", "second"), SAME)
def test_same_meaning(first: str, second: str, compile_sql: Compile) -> None:
    a, b = one(compile_sql, first), one(compile_sql, second)
    assert (a.fingerprint, a.state_signature) == (b.fingerprint, b.state_signature)


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_other_meaning(first: str, second: str, compile_sql: Compile) -> None:
    assert one(compile_sql, first).fingerprint != one(compile_sql, second).fingerprint


def test_connection_properties_do_not_matter(compile_sql: Compile) -> None:
    moved = PRELUDE.replace("localhost:9092", "other:9092")
    assert one(compile_sql, QUERY).fingerprint == one(compile_sql, QUERY, moved).fingerprint


def test_the_kind_of_a_store_matters(compile_sql: Compile) -> None:
    sql = "CREATE STREAM s AS SELECT url FROM clicks;"
    kinesis = PRELUDE.replace("'type' = KAFKA", "'type' = KINESIS, 'access_region' = 'eu'").replace(
        "'localhost:9092'", "'http://x:1'"
    )
    kinesis = kinesis.replace("'topic.partitions' = 2, 'topic.replicas' = 1", "'topic.shards' = 2")
    assert one(compile_sql, sql).fingerprint != one(compile_sql, sql, kinesis).fingerprint


def test_a_column_nobody_reads_does_not_matter(compile_sql: Compile) -> None:
    more = PRELUDE.replace(
        "(at BIGINT, url VARCHAR, userid VARCHAR, seen", "(at BIGINT, url VARCHAR, more INTEGER, userid VARCHAR, seen"
    )
    assert one(compile_sql, COUNTS).fingerprint == one(compile_sql, COUNTS, more).fingerprint


def test_it_names_its_algorithm(compile_sql: Compile) -> None:
    query = one(compile_sql, QUERY)
    assert query.fingerprint.startswith("v1:") and query.state_signature.startswith("s3:")


SKIPPING = "clicks WITH ('source.deserialization.error.handling' = 'IGNORE')"
BOTH = f"BEGIN APPLICATION s {COUNTS} {COUNTS.replace(' s AS', ' t AS')} END APPLICATION;"


@pytest.mark.parametrize(
    ("sql", "signature"),
    [
        (COUNTS, "d6cad73ae40e8650d03e8a3f5ebd3e99"),
        (COUNTS.replace("clicks", SKIPPING), "6e553511600743548653cad03203a058"),
        (WINDOW, "2e4c125fe3ddd82ef584801d02a9aaba"),
        (WINDOW.replace("clicks", SKIPPING), "ef206f4e8cd9f938de007d58f0b29d52"),
        (QUERY, "bf19ed8e7200a12bae12b8a403d73e91"),
        (BOTH, "c33306b1179edd086a0c884fffd05811"),
        (BOTH.replace("clicks", SKIPPING), "90722709d12fba970331527abf9f6d87"),
    ],
)
def test_signatures_that_journals_hold_are_known(sql: str, signature: str, compile_sql: Compile) -> None:
    """The texts are what the package computed when s1 was its algorithm."""
    query = one(compile_sql, sql)
    assert query.keeps_state_of(f"s1:{signature}") and query.keeps_state_of(query.state_signature)
    assert not query.keeps_state_of("s1:" + "0" * 32)


WORDS = QUERY.replace(";", "").split()
BLANKS = st.sampled_from([" ", "\n", "\t", "  ", " -- note\n", " /* note */ "])


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    blanks=st.lists(BLANKS, min_size=len(WORDS), max_size=len(WORDS)),
    upper=st.lists(st.booleans(), min_size=len(WORDS), max_size=len(WORDS)),
)
def test_formatting_never_matters(blanks: list[str], upper: list[bool], settings: Settings) -> None:
    spelled = [w if "'" in w else (w.upper() if u else w.lower()) for w, u in zip(WORDS, upper, strict=True)]
    text = "".join(blank + word for blank, word in zip(blanks, spelled, strict=True)) + ";"
    plain = compile_texts([("p.sql", PRELUDE), ("a.sql", QUERY)], settings).queries["s"]
    other = compile_texts([("p.sql", PRELUDE), ("a.sql", text)], settings).queries["s"]
    assert plain.fingerprint == other.fingerprint


def test_state_laid_out_anew_is_another_state(compile_sql: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    over = """CREATE STREAM s AS
      SELECT url, COUNT(*) OVER (PARTITION BY url ORDER BY rowtime() ROWS 1 PRECEDING) AS n FROM clicks;"""
    now = [one(compile_sql, sql) for sql in (over, COUNTS)]
    monkeypatch.setattr(Over, "layout", ())
    before = [one(compile_sql, sql) for sql in (over, COUNTS)]
    assert [query.fingerprint for query in now] == [query.fingerprint for query in before]
    assert [a.state_signature == b.state_signature for a, b in zip(now, before, strict=True)] == [False, True]
