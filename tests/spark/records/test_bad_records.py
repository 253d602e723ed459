"""What happens with rows that cannot be read or computed may change while a query keeps its state."""

from __future__ import annotations

import pytest

from ds_dagster.plan.identity.compatibility import verdict

CLICKS = """
CREATE STREAM clicks (event_time BIGINT NOT NULL, url VARCHAR NOT NULL, amount INTEGER)
  WITH ('topic' = 'clicks', 'value.format' = 'json', 'timestamp' = 'event_time');
"""
HANDLING = "clicks WITH ('source.deserialization.error.handling' = '{}')"
TOTALS = "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n, SUM(amount) AS total FROM {source} GROUP BY url{query};"
WINDOWS = """CREATE STREAM late (url VARCHAR) WITH ('topic' = 'late', 'value.format' = 'json');
CREATE CHANGELOG s AS SELECT window_start, window_end, url, COUNT(*) AS n, SUM(amount) AS total
  FROM TUMBLE({source}, SIZE 1 MINUTE) GROUP BY window_start, window_end, url{query};"""
NESTED = """CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n, SUM(amount) AS total
  FROM (SELECT DISTINCT event_time, url, amount FROM {source}) AS d GROUP BY url;"""


class Job:
    """One query that is stopped, defined in another way, and started again on its checkpoint."""

    def __init__(self, bench, sql):
        self.bench, self.sql, self.query, self.old = bench, sql, None, None

    def restart(self, handling="TERMINATE", query=""):
        self.bench.stop()
        source = HANDLING.format(handling)
        new = self.bench.compile(CLICKS + self.sql.format(source=source, query=query)).queries["s"]
        if self.old is not None:
            assert verdict(self.old, new).verdict == "keeps_checkpoint"
        self.old, self.query = new, self.bench.start("s")

    def read(self, *values):
        self.bench.send("clicks", *values)
        self.bench.settle(self.query)

    def fails_on(self, value):
        self.bench.send("clicks", value)
        return self.bench.fault(self.query).condition


def click(url, amount, event_time=1):
    return {"event_time": event_time, "url": url, "amount": amount}


def totals(bench):
    return {row["url"]: (row["n"], row["total"]) for row in bench.folded().values()}


@pytest.mark.parametrize(
    ("sql", "handling"),
    [
        pytest.param(TOTALS, "IGNORE_AND_LOG", id="totals-logged"),
        pytest.param(NESTED, "IGNORE", id="nested-ignored"),
        pytest.param(TOTALS, "IGNORE", id="totals-ignored", marks=pytest.mark.slow),
        pytest.param(NESTED, "IGNORE_AND_LOG", id="nested-logged", marks=pytest.mark.slow),
    ],
)
def test_a_query_that_failed_on_a_bad_record_skips_it_and_keeps_its_totals(bench, sql, handling):
    job = Job(bench, sql)
    job.restart()
    job.read(click("a", 1), click("b", 10))
    assert job.fails_on("broken") == "BAD_RECORD"
    job.restart(handling)
    job.read(click("a", 2), {"event_time": 1, "amount": 100})
    assert totals(bench) == {"a": (2, 3), "b": (1, 10)}
    assert sum(map(len, bench.logged.values())) == (2 if handling == "IGNORE_AND_LOG" else 0)
    job.restart()
    job.read(click("b", 20))
    assert totals(bench) == {"a": (2, 3), "b": (2, 30)}
    assert job.fails_on("broken again") == "BAD_RECORD"


def test_a_window_that_is_open_when_a_bad_record_comes_keeps_what_it_has(bench):
    job = Job(bench, WINDOWS)
    job.restart()
    job.read(click("a", 1))
    assert job.fails_on("broken") == "BAD_RECORD"
    job.restart("IGNORE", " QUERY WITH ('late.rows.relation' = 'late')")
    job.read(click("a", 2, 2))
    job.restart()
    job.read(click("a", 3, 3))
    assert not bench.records
    bench.advance(job.query, 200_000)
    assert totals(bench) == {"a": (3, 6)}


@pytest.mark.parametrize("group", ["UPPER(url)", "COALESCE(UPPER(url), 'none')"])
def test_a_query_that_failed_on_a_row_leaves_it_out_and_keeps_its_totals(bench, group):
    sql = TOTALS.replace("SUM(amount)", "SUM(60 / amount)").replace("url, COUNT", f"{group} AS url, COUNT")
    sql = sql.replace("GROUP BY url", f"GROUP BY {group}")
    job = Job(bench, sql)
    job.restart()
    job.read(click("a", 60), click("b", 6))
    assert job.fails_on(click("a", 0)) == "ARITHMETIC_FAILED"
    for handling in ("IGNORE", "IGNORE_AND_LOG"):
        job.restart(query=f" QUERY WITH ('row.error.handling' = '{handling}')")
        job.read(click("a", 30), click("b", 0))
    assert totals(bench) == {"A": (3, 5), "B": (1, 10)}
    assert [len(rows) for rows in bench.logged.values()] == [1]
    job.restart()
    job.read(click("b", 60))
    assert totals(bench) == {"A": (3, 5), "B": (2, 11)}
    assert job.fails_on(click("a", 0)) == "ARITHMETIC_FAILED"
