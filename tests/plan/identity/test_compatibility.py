"""What a changed definition means for a checkpoint: a table of cases."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ds_dagster.plan.identity.compatibility import verdict
from tests.plan.conftest import Compile
from tests.plan.identity.test_fingerprint import COUNTS, QUERY, WINDOW, one

COPY = "CREATE STREAM s AS SELECT url, at FROM clicks WHERE ok;"
TABLE = "CREATE TABLE s WITH ('store' = 'warehouse') AS SELECT url, at FROM clicks;"
INTERVAL = "CREATE STREAM s AS SELECT c.url, v.at FROM clicks c JOIN views v WITHIN 1 MINUTE ON c.userid = v.userid;"
VIEW = "CREATE MATERIALIZED VIEW s AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;"
HANDLING = "clicks WITH ('source.deserialization.error.handling' = '{}')"
SKIPPING = HANDLING.format("IGNORE")
LOGGING = HANDLING.format("IGNORE_AND_LOG")
ROW_ERRORS = " QUERY WITH ('row.error.handling' = '{}');"
COPY_AT = COPY.replace("clicks", "clicks WITH ('starting.position' = timestamp, 'starting.timestamp' = {})")
COPY_FROM = COPY.replace("clicks", "clicks WITH ('starting.position' = offsets, 'starting.offsets' = '{}')")
CHECKED = "CREATE STREAM b (a VARCHAR, b VARCHAR, n INTEGER{}) WITH ('topic' = 't', 'value.format' = 'json');"
CONSTRAINTS = (
    ", CONSTRAINT c CHECK (n > 1) ON VIOLATION DROP",
    ", CONSTRAINT c CHECK (n > 2) ON VIOLATION DROP",
    ", CONSTRAINT c CHECK (n > 2) ON VIOLATION WARN",
    ", CONSTRAINT c CHECK (n > 2) ON VIOLATION WARN, CONSTRAINT d CHECK (b <> a)",
    ", CONSTRAINT e CHECK (n > 2) ON VIOLATION WARN, CONSTRAINT d CHECK (b <> a)",
)
OF_CHECKED = (
    "CREATE STREAM s AS SELECT a FROM b;",
    "CREATE CHANGELOG s AS SELECT a, COUNT(*) AS rows_ FROM b GROUP BY a;",
    "CREATE CHANGELOG s AS SELECT a, COUNT(DISTINCT b) AS d FROM b GROUP BY a;",
    "CREATE STREAM s AS SELECT b.a, v.at FROM b JOIN views v WITHIN 1 MINUTE ON b.a = v.userid;",
    "CREATE STREAM s AS SELECT b.a, u.name FROM b JOIN users u ON b.a = u.userid;",
)
"""Results of the stream that do not read the columns of its constraints."""
REALTIME = "'delivery' = 'at_least_once', 'latency.mode' = 'realtime'"
CASES = (
    ("unchanged", COPY, COPY.lower()),
    ("keeps_checkpoint", COPY, COPY.replace("WHERE ok", "WHERE NOT ok")),
    ("keeps_checkpoint", COPY, COPY.replace("url, at", "UPPER(url) AS url, at, userid")),
    ("keeps_checkpoint", COPY, COPY.replace("clicks", "clicks WITH ('max.records.per.batch' = 10)")),
    ("keeps_checkpoint", COPY, COPY.replace("AS SELECT", "WITH ('delivery' = 'at_least_once') AS SELECT")),
    ("keeps_checkpoint", COPY, COPY.replace("AS SELECT", f"WITH ({REALTIME}) AS SELECT")),
    ("keeps_checkpoint", COPY.replace("AS SELECT", f"WITH ({REALTIME}) AS SELECT"), COPY),
    ("needs_new_checkpoint", COPY, COPY.replace("clicks", "views").replace(" WHERE ok", "")),
    ("needs_new_checkpoint", COPY, COPY.replace("AS SELECT", "WITH ('topic' = 'elsewhere') AS SELECT")),
    ("would_lose_data", COPY, COPY.replace("clicks", "clicks WITH ('starting.position' = 'latest')")),
    ("needs_new_checkpoint", COPY, COPY_AT.format(5)),
    ("needs_new_checkpoint", COPY_AT.format(5), COPY_AT.format(6)),
    ("needs_new_checkpoint", COPY, COPY_FROM.format("0:5")),
    ("needs_new_checkpoint", COPY_FROM.format("0:5"), COPY_FROM.format("0:6")),
    ("needs_new_checkpoint", COPY_FROM.format("0:5"), COPY_FROM.format("0:5,1:0")),
    ("unchanged", COPY_FROM.format("0:5,1:7"), COPY_FROM.format("1:7, 0:5")),
    ("needs_new_checkpoint", TABLE, TABLE.replace("'warehouse'", "'warehouse', 'refresh.mode' = 'full'")),
    ("keeps_checkpoint", TABLE, TABLE.replace("'warehouse'", "'warehouse', 'refresh.mode' = 'continuous'")),
    ("keeps_checkpoint", TABLE, TABLE.replace("url, at", "url, at + 1 AS at")),
    ("needs_new_checkpoint", COUNTS, COUNTS.replace("WHERE ok", "WHERE NOT ok")),
    ("needs_new_checkpoint", COUNTS, COUNTS.replace("COUNT(*)", "SUM(at)")),
    ("needs_new_checkpoint", COUNTS, COUNTS.replace("url", "userid")),
    ("keeps_checkpoint", VIEW, VIEW.replace("COUNT(*) AS n", "COUNT(*) * 2 AS n")),
    ("keeps_checkpoint", VIEW, VIEW.replace(";", " HAVING COUNT(*) > 1;")),
    ("keeps_checkpoint", COUNTS, COUNTS.replace("clicks", "clicks WITH ('max.records.per.batch' = 10)")),
    ("unchanged", COUNTS, COUNTS.replace("clicks", HANDLING.format("TERMINATE"))),
    ("keeps_checkpoint", COPY, COPY.replace("clicks", SKIPPING)),
    *(
        ("keeps_checkpoint", sql.replace("clicks", old), sql.replace("clicks", new))
        for sql in (COUNTS, WINDOW, VIEW, COUNTS.replace("COUNT(*)", "COUNT(DISTINCT at)"))
        for old, new in (("clicks", SKIPPING), (SKIPPING, LOGGING), (LOGGING, "clicks"))
    ),
    ("keeps_checkpoint", COUNTS, COUNTS.replace(";", ROW_ERRORS.format("IGNORE"))),
    ("keeps_checkpoint", COUNTS.replace(";", ROW_ERRORS.format("IGNORE_AND_LOG")), COUNTS),
    *(
        ("keeps_checkpoint", CHECKED.format(old) + sql, CHECKED.format(new) + sql)
        for sql in OF_CHECKED
        for old, new in pairwise(("", *CONSTRAINTS, ""))
    ),
    ("keeps_checkpoint", COUNTS, COUNTS.replace("s AS", "s (CONSTRAINT c CHECK (n > 1) ON VIOLATION WARN) AS")),
    ("needs_new_checkpoint", COUNTS, COUNTS.replace("clicks", SKIPPING).replace("WHERE ok", "WHERE NOT ok")),
    ("needs_new_checkpoint", WINDOW, WINDOW.replace("1 MINUTE", "2 MINUTES")),
    ("keeps_checkpoint", WINDOW, WINDOW.replace("> 1", "> 2")),
    ("keeps_checkpoint", QUERY, QUERY.replace("'a%'", "'b%'")),
    ("needs_new_checkpoint", QUERY, QUERY.replace("JOIN users", "LEFT JOIN users")),
    ("needs_new_checkpoint", QUERY, QUERY.replace("p.name", "p.name, p.at AS since")),
    ("keeps_checkpoint", QUERY, QUERY.replace("c.at + 1", "c.at + 2")),
    ("needs_new_checkpoint", INTERVAL, INTERVAL.replace("1 MINUTE", "2 MINUTES")),
    ("keeps_checkpoint", INTERVAL, INTERVAL.replace(";", " WHERE c.url = 'a';")),
)


@pytest.mark.parametrize(("expected", "old", "new"), CASES)
def test_verdict(expected: str, old: str, new: str, compile_sql: Compile) -> None:
    found = verdict(one(compile_sql, old), one(compile_sql, new))
    assert found.verdict == expected, found
    assert found.rule and (found.name, found.relation) == ("s", "default.public.s")
    assert bool(found.hint) == (expected != "unchanged")


def test_never_started(compile_sql: Compile) -> None:
    assert verdict(None, one(compile_sql, COPY)).verdict == "new"


def test_equal_signatures_are_what_keeps_a_checkpoint(compile_sql: Compile) -> None:
    for expected, old, new in CASES:
        same = one(compile_sql, old).state_signature == one(compile_sql, new).state_signature
        if expected in ("unchanged", "keeps_checkpoint"):
            assert same, (old, new)
