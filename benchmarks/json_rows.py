"""How fast JSON becomes columns, and columns JSON: our codec in the JVM against Spark's ``from_json`` and ``to_json``.

Nexmark's bids, seven columns, as records in memory; Spark on two cores on both sides.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from benchmarks.measure import Pairs, Result, Size, results
from benchmarks.nexmark.generator import events

BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, datetime TIMESTAMP, extra STRING"
TYPES = ("BIGINT", "BIGINT", "BIGINT", "VARCHAR", "VARCHAR", "TIMESTAMP_LTZ(3)", "VARCHAR")
DISTINCT = 20_000
TIMES = {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSX", "ignoreNullFields": "false"}


def bids() -> list[bytes]:
    rows = (event for event in events(DISTINCT * 2) if event.kind == "bid")
    return [json.dumps(row.row, default=_shown, separators=(",", ":")).encode() for row in rows][:DISTINCT]


def _shown(at: Any) -> str:
    return str(at.isoformat(sep=" ", timespec="milliseconds"))


def in_memory(spark: Any, frame: Any, times: int) -> Any:
    """The frame's rows so many times, cached."""
    made = frame.crossJoin(spark.range(times).select()).repartition(2).cache()
    assert made.count() == frame.count() * times
    return made


def seconds(frame: Any, column: Callable[[], Any], counted: tuple[str, ...]) -> float:
    """Seconds to make a column of every row. A plan of its own each time: Spark keeps the shuffled rows of one that was
    run before."""
    from pyspark.sql import functions as sf

    found = frame.select(column().alias("r")).agg(*[sf.sum(sf.hash(name)) for name in counted])
    begun = time.monotonic()
    found.collect()
    return time.monotonic() - begun


def codec(size: Size) -> list[Result]:
    """Decode and encode, in turns with Spark's."""
    from ds_dagster.jars import driver_jars
    from ds_dagster.settings import EngineSettings, load_settings
    from ds_dagster.spark.session import build_session

    with tempfile.TemporaryDirectory() as folder:
        settings = replace(load_settings(Path(__file__).parents[1], state=Path(folder)), engine=EngineSettings(cores=2))
        spark = build_session(settings, jars=driver_jars(), app_name="json")
        try:
            return _pairs(spark, size)
        finally:
            spark.stop()


def _pairs(spark: Any, size: Size) -> list[Result]:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    from ds_dagster.spark.functions.java_values import json_columns, json_text

    bid = cast("StructType", StructType.fromDDL(BID))
    times = size.of(50, 5)
    records = in_memory(spark, spark.createDataFrame([(bytearray(one),) for one in bids()], "value BINARY"), times)
    fields = tuple(f"r.{name}" for name in bid.names)
    decoded = records.select(sf.from_json(sf.col("value").cast("string"), bid).alias("r")).select("r.*").limit(DISTINCT)
    rows = in_memory(spark, decoded, times)
    struct = sf.struct(*bid.names)
    sides: dict[str, tuple[Any, tuple[str, ...], Callable[[], Any], Callable[[], Any]]] = {
        "decode": (
            records,
            fields,
            lambda: json_columns(sf.col("value"), bid, list(TYPES), reason="reason", kind="value"),
            lambda: sf.from_json(sf.col("value").cast("string"), bid),
        ),
        "encode": (
            rows,
            ("r",),
            lambda: json_text(struct, bid, separator=" ", digits=3),
            lambda: sf.to_json(struct, TIMES),
        ),
    }
    found = []
    for name, (frame, counted, ours, peer) in sides.items():
        pair = Pairs(f"JSON {name}, bids (peer: Spark's own)", "records per second", True)
        for _ in range(3):
            seconds(frame, ours, counted), seconds(frame, peer, counted)
        for _ in range(size.runs):
            total = frame.count()
            pair.add(total / seconds(frame, ours, counted), total / seconds(frame, peer, counted))
        found.append(pair)
    return results(found)
