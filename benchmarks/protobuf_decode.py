"""How fast Protobuf records of a registry become columns: our operator in the JVM against Confluent's
ProtobufDeserializer.

The same records with six fields and the same conditions as in ``avro_decode``: Spark on two cores over records that
are in memory, one Python process that calls the deserializer record by record.
"""

from __future__ import annotations

import base64
import json
import struct
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.avro_decode import COLUMNS, DISTINCT, decoded_by, looped, registry_process
from benchmarks.measure import Pairs, Result, Size, results

FIELDS = (("event_time", 11), ("url", 9), ("userid", 9), ("device", 9), ("price", 1), ("n", 5))
"""Names and types (numbers of ``FieldDescriptorProto.Type``)."""


def click_file() -> Any:
    """The file of the message."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="click.proto", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
    message = file.message_type.add(name="Click")
    for number, (name, type_) in enumerate(FIELDS, 1):
        field = message.field.add(name=name, number=number, type=type_, label=1)
        if type_ == 11:
            field.type_name = ".google.protobuf.Timestamp"
    message.field[2].proto3_optional = True
    message.field[2].oneof_index = 0
    message.oneof_decl.add(name="_userid")
    return file


def click_class() -> Any:
    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(click_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Click"))


def records() -> list[bytes]:
    click = click_class()
    made = []
    for n in range(DISTINCT):
        at = {"seconds": 1_700_000_000 + n // 1000, "nanos": n % 1000 * 1_000_000}
        message = click(event_time=at, url=f"./page/{n % 500}", device="desktop", price=n / 8, n=n)
        if n % 7:
            message.userid = f"user-{n % 5000}"
        made.append(struct.pack(">bI", 0, 1) + b"\0" + message.SerializeToString())
    return made


def by_ours(spark: Any, url: str, rows: int, path: Path) -> Callable[[], float]:
    """Seconds to decode all rows on the session's cores."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    from ds_dagster.spark.jvm import operators
    from ds_dagster.spark.records.schemas import HEADERS

    made = operators(spark).protobuf_columns(
        sf.col("value"),
        sf.lit(None).cast(HEADERS),
        settings=json.dumps({"name": "bench", "addresses": [url]}),
        schema_id=1,
        columns=StructType.fromDDL(COLUMNS),
        reason="reason",
        kind="value",
    )
    return decoded_by(spark, made, records(), rows, path)


def by_confluent(url: str, rows: int) -> Callable[[], float]:
    """Seconds of a loop over ProtobufDeserializer."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer

    options = {"use.deprecated.format": False}
    return looped(ProtobufDeserializer(click_class(), options, SchemaRegistryClient({"url": url})), records(), rows)


def decode(size: Size) -> list[Result]:
    """Both, in turns."""
    from ds_dagster.jars import driver_jars
    from ds_dagster.settings import EngineSettings, load_settings
    from ds_dagster.spark.session import build_session

    rows, peer_rows = size.of(2_000_000, 200_000), size.of(50_000, 20_000)
    schema = base64.b64encode(click_file().SerializeToString()).decode("ascii")
    with (
        registry_process({"schemaType": "PROTOBUF", "schema": schema}) as url,
        tempfile.TemporaryDirectory() as folder,
    ):
        settings = replace(load_settings(Path(__file__).parents[1], state=Path(folder)), engine=EngineSettings(cores=2))
        spark = build_session(settings, jars=driver_jars(), app_name="protobuf")
        try:
            ours, peer = by_ours(spark, url, rows, Path(folder, "r.parquet")), by_confluent(url, peer_rows)
            for _ in range(2):
                ours()
            found = Pairs("Protobuf decode (peer: ProtobufDeserializer loop)", "records per second", True)
            for _ in range(size.runs):
                found.add(rows / ours(), peer_rows / peer())
        finally:
            spark.stop()
    return results((found,))
