"""The gateway remembers names and sends lists as a whole; types as text mean what types mean."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j import protocol
from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import _parse_datatype_string

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructField, StructType
from ds_dagster.spark.gateway import RELEASED, known_class, quicken
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.memory_records import MemoryRecords
from ds_dagster.spark.queries.prepared import EVOLUTION
from ds_dagster.spark.records.typemap import SCALARS, spark_sql, to_spark
from ds_dagster.spark.session import job_session

NAMES = sorted(SCALARS)
TYPES: list[DataType] = [
    *[Scalar(name) for name in NAMES],  # type: ignore[arg-type]  # the table's keys are the names
    Scalar("DECIMAL", precision=38, scale=18),
    ArrayType(ArrayType(Scalar("TIME"))),
    MapType(Scalar("VARCHAR"), StructType((StructField("a`b c", Scalar("TIMESTAMP")),))),
    StructType((StructField("x.y", ArrayType(Scalar("BIGINT"))), StructField("order", Scalar("DATE")))),
]


@contextmanager
def counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Kinds of commands that are sent: ``c`` calls, ``r`` asks for a name, ``i`` makes an object."""
    client: Any = spark._jvm._gateway_client
    send, found = client.send_command, Counter[str]()

    def told(command: str, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():  # another one gives objects back
            found[command[0]] += 1
        return send(command, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(client, "send_command", told)
        yield found


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 32, 40])
def test_a_list_arrives_as_it_is(spark: SparkSession, size: int) -> None:
    given = [None if index % 5 == 3 else index if index % 2 else f"text {index}" for index in range(size)]
    shown = known_class(spark, "java.util.List").copyOf([item for item in given if item is not None])
    assert list(shown) == [item for item in given if item is not None]
    assert list(known_class(spark, "java.util.Collections").unmodifiableList(given)) == given


def test_lists_in_lists(spark: SparkSession) -> None:
    made = known_class(spark, "java.util.Collections").unmodifiableList([["a"], [], ["b", ["c"]]])
    assert str(made) == "[['a'], [], ['b', ['c']]]"


def test_objects_are_given_back_many_at_a_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    client: Any = spark._jvm._gateway_client
    known = JavaObject(protocol.GATEWAY_SERVER_OBJECT_ID, client).getGateway().getBindings()
    objects = [known_class(spark, "java.util.UUID").randomUUID() for _ in range(1000)]
    names = [each._target_id for each in objects]
    assert all(known.containsKey(name) for name in names)
    send, sent = client.send_command, Counter[tuple[str, bool]]()

    def told(command: str, *args: Any, **kwargs: Any) -> Any:
        sent[command[0], threading.current_thread() is threading.main_thread()] += 1
        return send(command, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(client, "send_command", told)
        objects.clear()
        eventually(lambda: sum(known.containsKey(name) for name in names) < RELEASED)
    assert not sent["m", False] and sent["c", False] < 100
    assert spark.range(3).count() == 3, "what is needed is there"


def test_a_function_is_not_asked_for(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", False)  # as in all sessions of the engine
    with counted(spark, monkeypatch) as found:
        sf.soundex("x")
    assert found == Counter({"c": 2})


def test_what_is_in_a_package_is_asked_for_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(spark)
    jvm: Any = spark._jvm
    assert isinstance(jvm.org.apache.spark.sql.Encoders, JavaClass)
    assert list(jvm.java.util.ArrayList()) == []
    with counted(spark, monkeypatch) as sent:
        assert isinstance(jvm.org.apache.spark.sql.Encoders, JavaClass)
        assert isinstance(jvm.java.util.ArrayList, JavaClass)
    assert not sent
    with counted(spark, monkeypatch) as sent:
        assert not any(isinstance(jvm.org.apache.spark.sql.NoSuchThing, JavaClass) for _ in range(2))
    assert sent == Counter({"r": 2}), "what is no class now may be one later"


def test_a_list_of_columns_is_one_call(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(1)
    columns = [sf.col("id").alias(f"c{index}") for index in range(12)]
    frame.select(*columns)
    with counted(spark, monkeypatch) as found:
        frame.select(*columns)
    assert found == Counter({"c": 3})  # the list, its Seq, select


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_type_as_text_is_the_type(spark: SparkSession, type_: DataType) -> None:
    assert _parse_datatype_string(spark_sql(type_)) == to_spark(type_)
    frame = spark.range(1).select(sf.lit(None).cast(spark_sql(type_)).alias("x"))
    assert frame.schema["x"].dataType == to_spark(type_)


def batch(spark: SparkSession) -> DataFrame:
    rows = [("a", bytearray(b"\x00\xff")), (None, bytearray(b"")), ("ü", None)]
    return spark.createDataFrame(rows, "k string, v binary")


@pytest.mark.parametrize("of_batch", [True, False])
def test_parts_of_a_batch(spark: SparkSession, of_batch: bool) -> None:
    frame = batch(spark) if of_batch else batch(spark).where("true").select("k", "v")
    assert operators(spark).batch_parts(frame, "k", "v") == [(b"a", b"\0\xff"), (None, b""), ("ü".encode(), None)]
    assert operators(spark).batch_parts(frame, "", "k") == [(None, b"a"), (None, None), (None, "ü".encode())]


def test_parts_of_an_empty_batch(spark: SparkSession) -> None:
    assert operators(spark).batch_parts(batch(spark).where("false"), "k", "v") == []


def test_parts_are_text_or_bytes(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="neither text nor bytes: bigint"):
        operators(spark).batch_parts(spark.range(1), "", "id")


def test_records_in_memory_are_read_as_they_were_added(spark: SparkSession, tmp_path: Path) -> None:
    stream = MemoryRecords(job_session(spark, {EVOLUTION: "false"}, "heap"))  # the source has no name
    rows: list[tuple[Any, ...]] = []
    records = [(b"\0\xff", b"", -62135596800001), (None, "ü".encode(), 0), (b"", None, 253402300799999)]
    stream.add((*record, "0", "007") for record in records)
    stream.add(())
    query = (
        stream.frame()
        .select("key", "value", sf.unix_millis("timestamp"), "partition", "order")
        .writeStream.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    assert rows == [(*record, "0", "007") for record in records]
