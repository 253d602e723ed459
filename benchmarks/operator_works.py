"""What the item ``operators`` measures: one statement per operator, and the nearest plan that Spark has of its own.

Where Spark has none the peer is a *floor*: its own sum by the same key over the same rows, in the same state store,
which is the price of a shuffle and of one value of state per key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

Rows = Callable[[str], DataFrame]
"""Topic → its rows: ``id``, ``grp``, ``amount``, ``at`` and ``timestamp``."""

DECLARED = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE CHANGELOG rows_ (id BIGINT, grp BIGINT, amount BIGINT, PRIMARY KEY(id))
  WITH ('topic' = 'rows', 'value.format' = 'json');
CREATE CHANGELOG groups_ (grp BIGINT, amount BIGINT, PRIMARY KEY(grp))
  WITH ('topic' = 'groups', 'value.format' = 'json');
CREATE STREAM events (id BIGINT, grp BIGINT, amount BIGINT) WITH ('topic' = 'events', 'value.format' = 'json');
CREATE STREAM timed (at BIGINT, id BIGINT, amount BIGINT)
  WITH ('topic' = 'events', 'value.format' = 'json', 'timestamp' = 'at');
CREATE STREAM others (id BIGINT, grp BIGINT, amount BIGINT) WITH ('topic' = 'others', 'value.format' = 'json');
"""
FLOOR = "floor"
NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Work:
    """One plan.

    Attributes:
        sql: of the query ``q``.
        peer: a plan of Spark's own over frames of rows.
        like: ``native``: the peer gives the same or nearly; ``floor``: it only touches the same keys.
        parts: topic → its share of a batch.
        target: rows per second of two idle cores that the operator has to reach; 0: none.
        peer_mode: output mode of the peer.
        peer_store: whether the peer keeps its state in RocksDB, as ours has to.
    """

    sql: str
    peer: Callable[[Rows], DataFrame]
    like: str = NATIVE
    parts: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({"rows": 1.0}))
    target: int = 0
    peer_mode: str = "update"
    peer_store: bool = True


def _sums(topic: str, key: str) -> Callable[[Rows], DataFrame]:
    """Appended rows: the same sums without taking anything back."""
    return lambda rows: rows(topic).groupBy(key).agg(sf.count("*"), sf.sum("amount"))


def _extremes(rows: Rows) -> DataFrame:
    return rows("rows").groupBy("grp").agg(sf.min("amount"), sf.max("amount"))


def _interval(rows: Rows) -> DataFrame:
    left = rows("events").withWatermark("timestamp", "10 seconds")
    right = rows("others").withWatermark("timestamp", "10 seconds")
    right = right.select(sf.col("id").alias("other"), sf.col("timestamp").alias("time"), sf.col("amount").alias("more"))
    second = sf.expr("INTERVAL 1 SECOND")
    near = sf.col("time").between(sf.col("timestamp") - second, sf.col("timestamp") + second)
    return left.join(right, (sf.col("id") == sf.col("other")) & near).select("id", "amount", "more")


def _windows(rows: Rows) -> DataFrame:
    sides = []
    for topic, name in (("events", "l"), ("others", "r")):
        timed = rows(topic).withWatermark("timestamp", "10 seconds")
        window = sf.window("timestamp", "2 seconds").alias(f"w{name}")
        sides.append(timed.select(window, sf.col("id").alias(f"i{name}"), sf.col("amount").alias(f"a{name}")))
    together = (sf.col("il") == sf.col("ir")) & (sf.col("wl") == sf.col("wr"))
    return sides[0].join(sides[1], together).select("il", "al", "ar")


def _distinct(rows: Rows) -> DataFrame:
    return rows("events").select("grp", "amount").dropDuplicates(["grp", "amount"])


EVENTS = MappingProxyType({"events": 1.0})
VERSIONED = MappingProxyType({"events": 0.95, "rows": 0.05})
TWO_STREAMS = MappingProxyType({"events": 0.5, "others": 0.5})
TEMPORAL = """CREATE STREAM q AS SELECT e.id, e.amount, r.grp AS current
  FROM events e JOIN rows_ r ON e.id = r.id QUERY WITH ('temporal.join.mode' = '{mode}');"""

WORKS: Mapping[str, Work] = MappingProxyType(
    {
        "changelog → sum": Work(
            "CREATE CHANGELOG q AS SELECT grp, COUNT(*) AS n, SUM(amount) AS s FROM rows_ GROUP BY grp;",
            _sums("rows", "grp"),
            target=250_000,
        ),
        "changelog → min, max": Work(
            "CREATE CHANGELOG q AS SELECT grp, MIN(amount) AS lo, MAX(amount) AS hi FROM rows_ GROUP BY grp;",
            _extremes,
            target=300_000,
        ),
        "changelog ⋈ changelog": Work(
            """CREATE CHANGELOG q AS SELECT r.id, r.amount, g.amount AS more
               FROM rows_ r JOIN groups_ g ON r.grp = g.grp;""",
            _sums("rows", "id"),
            like=FLOOR,
            parts=MappingProxyType({"rows": 0.95, "groups": 0.05}),
            target=250_000,
        ),
        "changelog → top 3": Work(
            """CREATE CHANGELOG q AS SELECT id, grp, amount FROM (SELECT id, grp, amount,
                 ROW_NUMBER() OVER (PARTITION BY grp ORDER BY amount DESC, id) AS rn FROM rows_) r WHERE rn <= 3;""",
            _extremes,
            like=FLOOR,
        ),
        "stream → sum, forgotten after a day": Work(
            """CREATE CHANGELOG q AS SELECT grp, COUNT(*) AS n, SUM(amount) AS s FROM events GROUP BY grp
               QUERY WITH ('state.ttl.millis' = 86400000);""",
            _sums("events", "grp"),
            parts=EVENTS,
        ),
        "stream → top 3": Work(
            """CREATE CHANGELOG q AS SELECT id, grp, amount, rn FROM (SELECT id, grp, amount,
                 ROW_NUMBER() OVER (PARTITION BY id ORDER BY amount DESC, grp) AS rn FROM events) r WHERE rn <= 3;""",
            _sums("events", "id"),
            like=FLOOR,
            parts=EVENTS,
        ),
        "stream → distinct": Work(
            "CREATE STREAM q AS SELECT DISTINCT grp, amount FROM events;",
            _distinct,
            parts=EVENTS,
            peer_mode="append",
        ),
        "temporal join, event time": Work(
            TEMPORAL.format(mode="event_time"), _sums("events", "id"), like=FLOOR, parts=VERSIONED, target=140_000
        ),
        "temporal join, immediate": Work(
            TEMPORAL.format(mode="immediate"),
            _sums("events", "id"),
            like=FLOOR,
            parts=VERSIONED,
            target=600_000,
        ),
        "interval join": Work(
            """CREATE STREAM q AS SELECT e.id, e.amount, o.amount AS more
               FROM events e JOIN others o WITHIN 1 SECONDS ON e.id = o.id;""",
            _interval,
            parts=TWO_STREAMS,
            target=160_000,
            peer_mode="append",
            peer_store=False,
        ),
        "window join": Work(
            """CREATE STREAM q AS SELECT l.id, l.amount, r.amount AS more FROM TUMBLE(events, SIZE 2 SECONDS) l
               JOIN TUMBLE(others, SIZE 2 SECONDS) r ON l.window_end = r.window_end AND l.id = r.id;""",
            _windows,
            parts=TWO_STREAMS,
            target=200_000,
            peer_mode="append",
        ),
        "OVER, five rows": Work(
            """CREATE STREAM q AS SELECT id, SUM(amount) OVER (PARTITION BY id ORDER BY at
                 ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS s FROM timed;""",
            _sums("events", "id"),
            like=FLOOR,
            parts=EVENTS,
        ),
        "MATCH_RECOGNIZE": Work(
            """CREATE STREAM q AS SELECT id, low, high FROM timed MATCH_RECOGNIZE (PARTITION BY id ORDER BY at
                 MEASURES FIRST(a.amount) AS low, LAST(b.amount) AS high PATTERN (a b) WITHIN 5 SECONDS
                 DEFINE a AS amount < 300, b AS b.amount > a.amount + 300);""",
            _sums("events", "id"),
            like=FLOOR,
            parts=EVENTS,
        ),
    }
)
"""Name → what is run."""
