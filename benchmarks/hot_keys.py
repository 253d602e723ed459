"""What a batch costs when one key has what a few batches bring and when it has a million rows: the same batches of 100
and of 5,000 rows over a new checkpoint (the peer) and over a filled one, in turns. A ratio of 1.0 is flat; below 0.8 a
batch costs what is kept.

All rows have one key and stay kept: sources allow an hour of lateness, frames reach an hour back. The state is filled
in batches of 50,000 first.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.batches import Amount, Bench, compiled, made_rows, open_bench, plan_mode, planned, run, timed
from benchmarks.measure import Pairs, Result, Size, results, say
from ds_dagster.plan.query import BoundQuery

KEPT = 1_000_000
BATCHES = (100, 5_000)
FILLING = 50_000
WARM, COUNTED = 10, 20
DECLARED = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM events (at BIGINT, id BIGINT, seq BIGINT, amount BIGINT)
  WITH ('topic' = 'events', 'value.format' = 'json', 'timestamp' = 'at');
CREATE STREAM others (at BIGINT, id BIGINT, seq BIGINT, amount BIGINT)
  WITH ('topic' = 'others', 'value.format' = 'json', 'timestamp' = 'at');
CREATE CHANGELOG versions (id BIGINT, at BIGINT, seq BIGINT, amount BIGINT, PRIMARY KEY(id))
  WITH ('topic' = 'versions', 'value.format' = 'json', 'timestamp' = 'at');
CREATE CHANGELOG facts (seq BIGINT, id BIGINT, amount BIGINT, PRIMARY KEY(seq))
  WITH ('topic' = 'events', 'value.format' = 'json');
CREATE CHANGELOG groups_ (id BIGINT, amount BIGINT, PRIMARY KEY(id))
  WITH ('topic' = 'groups', 'value.format' = 'json');
CREATE CHANGELOG moved (seq BIGINT, id BIGINT, amount BIGINT, PRIMARY KEY(seq))
  WITH ('topic' = 'moved', 'value.format' = 'json');
"""
LATE = "WITH ('source.allow.latency.millis' = 3600000)"
HOUR = "OVER (PARTITION BY id ORDER BY at RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)"
MATCH = """MATCH_RECOGNIZE (PARTITION BY id ORDER BY at MEASURES FIRST(a.amount) AS low, LAST(b.amount) AS high
  PATTERN ({0}) WITHIN 1 HOUR DEFINE b AS amount < 0) AS m"""
WORKS: Mapping[str, str] = MappingProxyType(
    {
        "interval join": f"""CREATE STREAM q AS SELECT e.seq, o.seq AS other
            FROM events e {LATE} LEFT JOIN others o {LATE} WITHIN 5 MILLISECONDS ON e.id = o.id;""",
        "OVER an hour": f"""CREATE STREAM q AS SELECT id, SUM(amount) {HOUR} AS s, MAX(amount) {HOUR} AS hi
            FROM events;""",
        "OVER rows that wait": f"""CREATE STREAM q AS SELECT id, SUM(amount) OVER (PARTITION BY id ORDER BY at) AS s
            FROM events {LATE};""",
        "temporal join": f"""CREATE STREAM q AS SELECT e.seq, v.amount
            FROM events e {LATE} JOIN versions v {LATE} ON e.id = v.id;""",
        "temporal join at once": """CREATE STREAM q AS SELECT e.seq, v.amount
            FROM events e JOIN versions v ON e.id = v.id QUERY WITH ('temporal.join.mode' = 'immediate');""",
        "changelog ⋈ changelog": """CREATE CHANGELOG q AS SELECT f.seq, g.amount
            FROM facts f LEFT JOIN groups_ g ON f.id = g.id;""",
        "MATCH rows that wait": f"""CREATE STREAM q AS SELECT id, low, high
            FROM events {LATE} {MATCH.format("a b")};""",
        "MATCH a long search": f"""CREATE STREAM q AS SELECT id, low, high
            FROM events {MATCH.format("a c* b")};""",
        "changelog → min, max": """CREATE CHANGELOG q AS SELECT id, MIN(amount) AS lo, MAX(amount) AS hi
            FROM moved GROUP BY id;""",
        "changelog → top 3": """CREATE CHANGELOG q AS SELECT seq, amount FROM (SELECT seq, amount,
              ROW_NUMBER() OVER (PARTITION BY id ORDER BY amount) AS rn FROM moved) m WHERE rn <= 3;""",
    }
)
"""Name → what is run."""
FEW: Mapping[str, str] = MappingProxyType(
    {"others": "value % 20 = 0", "versions": "value % 20 = 0", "groups": "value = 0"}
)
"""Topic → which rows are in it; the others have all."""
MOVED = "IF(value % 10 = 9, value DIV 10, value)"
"""Of ten rows one takes the place of the oldest: the smallest amount, which counts up, goes again and again."""


def hot_keys(size: Size, only: str = "") -> list[Result]:
    """Each work whose name holds ``only``, with small and with larger batches.

    Raises:
        SystemExit: no work has such a name, or a query failed.
    """
    works = {name: sql for name, sql in WORKS.items() if only in name}
    if not works:
        raise SystemExit(f"no work is called {only}; known: {', '.join(WORKS)}")
    with open_bench() as bench:
        return [
            line for name, sql in works.items() for rows in BATCHES for line in _measured(bench, name, sql, rows, size)
        ]


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of the median batch, CPU milliseconds of the tasks of a batch."""

    millis: float
    cpu: float


def _measured(bench: Bench, name: str, sql: str, rows: int, size: Size) -> list[Result]:
    query = compiled(bench, DECLARED + sql)
    checkpoint = bench.checkpoint()
    warm, counted = size.of(WARM, 2), size.of(COUNTED, 3)
    kept = size.rows(KEPT, 20_000)
    few = Amount(warm, counted, rows, partitions=1)
    filling = min(FILLING, kept // 4)
    _phase(bench, query, checkpoint, Amount(1, max(1, kept // filling), filling, partitions=1))
    name = f"{name}: one key, batches of {rows:,}"
    times, cpu = Pairs(name, "ms", False), Pairs(f"{name}: CPU", "ms", False)
    _phase(bench, query, bench.checkpoint(), few)
    for _ in range(size.runs):
        early = _phase(bench, query, bench.checkpoint(), few)
        late = _phase(bench, query, checkpoint, few)
        say(f"{name}: {early.millis:,.0f} ms ({early.cpu:,.0f} of CPU) with few rows, "
            f"{late.millis:,.0f} ms ({late.cpu:,.0f}) with {kept:,}")  # fmt: skip
        times.add(late.millis, early.millis)
        cpu.add(late.cpu, early.cpu)
    return results((times, cpu))


def _phase(bench: Bench, query: BoundQuery, checkpoint: Path, amount: Amount) -> Cost:
    """Goes on with a query; what a batch behind the warm ones costs."""

    def rows(session: SparkSession, topic: str) -> DataFrame:
        return _rows(session, topic, amount.rows)

    with planned(bench, query, rows) as (session, frame):
        counted = run(session, frame, plan_mode(query), checkpoint, amount)
    return Cost(statistics.median(counted.millis), 1000 * counted.cpu / len(counted.reports))


def _rows(session: SparkSession, topic: str, count: int) -> DataFrame:
    """Rows with one key, a millisecond apart."""
    made = made_rows(session, topic, count, numPartitions=1, startTimestamp=1_700_000_000_000)
    is_moved = topic == "moved"
    return timed(
        made.where(FEW.get(topic, "true")),
        sf.expr("1700000000000 + value"),
        sf.lit(1).cast("bigint").alias("id"),
        sf.expr(MOVED if is_moved else "value").alias("seq"),
        sf.expr("value" if is_moved else "pmod(hash(value), 1000000)").cast("bigint").alias("amount"),
    )
