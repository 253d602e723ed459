"""How fast Avro records of a registry become columns: our operator in the JVM against Confluent's AvroDeserializer.

The same records with six fields. Ours: Spark on two cores over records that are in memory. The peer: one Python process
that calls the deserializer record by record, which is what a consumer written by hand does; it uses one core. Both ask
one small registry in a process of its own, once.
"""

from __future__ import annotations

import http.server
import io
import json
import multiprocessing
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from benchmarks.measure import Pairs, Result, Size, results

SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "url", "type": "string"},
        {"name": "userid", "type": ["null", "string"]},
        {"name": "device", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "n", "type": "int"},
    ],
}
COLUMNS = "event_time TIMESTAMP NOT NULL, url STRING, userid STRING, device STRING, price DOUBLE, n INT"
DISTINCT = 20_000


def serve(pipe: Pipe, schema: dict[str, str]) -> None:
    answer = json.dumps(schema).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            is_known = self.path.startswith("/schemas/ids/")
            body = answer if is_known else b'{"error_code": 404, "message": "not found"}'
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def registry_process(schema: dict[str, str]) -> Iterator[str]:
    """URL of a registry in a process of its own, which answers every id with one schema."""
    ours_end, server_end = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(server_end, schema), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours_end.recv()}"
    finally:
        server.terminate()
        server.join()


def records() -> list[bytes]:
    import fastavro

    parsed = fastavro.parse_schema(SCHEMA)
    made = []
    for n in range(DISTINCT):
        user = f"user-{n % 5000}" if n % 7 else None
        row = {"event_time": 1_700_000_000_000 + n, "url": f"./page/{n % 500}", "userid": user, "device": "desktop"}
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, {**row, "price": n / 8, "n": n})
        made.append(struct.pack(">bI", 0, 1) + body.getvalue())
    return made


def by_ours(spark: Any, url: str, rows: int, path: Path) -> Callable[[], float]:
    """Seconds to decode all rows on the session's cores."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    from ds_dagster.spark.jvm import operators
    from ds_dagster.spark.records.schemas import HEADERS

    made = operators(spark).avro_columns(
        sf.col("value"),
        sf.lit(None).cast(HEADERS),
        settings=json.dumps({"name": "bench", "addresses": [url]}),
        schema_id=1,
        columns=StructType.fromDDL(COLUMNS),
        reason="reason",
        kind="value",
    )
    return decoded_by(spark, made, records(), rows, path)


def decoded_by(spark: Any, decoded: Any, given: list[bytes], rows: int, path: Path) -> Callable[[], float]:
    """Seconds of a column that decodes ``value``, over records that are in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import functions as sf

    pq.write_table(pa.table({"value": pa.array(given, pa.binary())}), path)
    times = spark.range(rows // DISTINCT).select()
    frame = spark.read.parquet(str(path)).crossJoin(times).repartition(2).cache()
    assert frame.count() == rows

    def run() -> float:
        """A plan of its own each time: Spark keeps the shuffled rows of one that was run before."""
        found = frame.select(decoded.alias("r")).agg(sf.count("r.url"), sf.count("r.reason"), sf.sum("r.n"))
        begun = time.monotonic()
        (row,) = found.collect()
        assert (row[0], row[1]) == (rows, 0), row
        return time.monotonic() - begun

    return run


def by_confluent(url: str, rows: int) -> Callable[[], float]:
    """Seconds of a loop over AvroDeserializer."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer

    return looped(AvroDeserializer(SchemaRegistryClient({"url": url})), records(), rows)


def looped(read: Callable[..., Any], given: list[bytes], rows: int) -> Callable[[], float]:
    """Seconds of a loop over a deserializer."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("clicks", MessageField.VALUE)
    read(given[0], context)

    def run() -> float:
        begun = time.monotonic()
        for position in range(rows):
            read(given[position % DISTINCT], context)
        return time.monotonic() - begun

    return run


def decode(size: Size) -> list[Result]:
    """Both, in turns."""
    from ds_dagster.jars import driver_jars
    from ds_dagster.settings import EngineSettings, load_settings
    from ds_dagster.spark.session import build_session

    rows, peer_rows = size.of(2_000_000, 200_000), size.of(50_000, 20_000)
    with registry_process({"schema": json.dumps(SCHEMA)}) as url, tempfile.TemporaryDirectory() as folder:
        settings = replace(load_settings(Path(__file__).parents[1], state=Path(folder)), engine=EngineSettings(cores=2))
        spark = build_session(settings, jars=driver_jars(), app_name="avro")
        try:
            ours, peer = by_ours(spark, url, rows, Path(folder, "r.parquet")), by_confluent(url, peer_rows)
            for _ in range(2):
                ours()
            found = Pairs("Avro decode (peer: AvroDeserializer loop)", "records per second", True)
            for _ in range(size.runs):
                found.add(rows / ours(), peer_rows / peer())
        finally:
            spark.stop()
    return results((found,))
