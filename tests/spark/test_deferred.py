"""Calls that make columns wait and are sent together; results, failures and releases are as without waiting."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from py4j import protocol
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType

from ds_dagster.spark.gateway import RELEASED, known_class
from tests.spark.test_gateway import counted

FAILURES = (PySparkException, Py4JJavaError)


def client_of(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm._gateway_client


def bindings(spark: SparkSession) -> Any:
    """The JVM's objects by name."""
    return JavaObject(protocol.GATEWAY_SERVER_OBJECT_ID, client_of(spark)).getGateway().getBindings()


def kept(spark: SparkSession) -> list[str]:
    """Names that Python has given to objects in the JVM."""
    return [name for name in map(str, bindings(spark).keySet().toArray()) if not name.startswith(("o", "t", "p"))]


def target(column: Column) -> str:
    return str(column._jc._target_id)


def test_columns_are_sent_with_the_call_that_needs_them(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(3)
    sent: list[str] = []
    deferred = client_of(spark).send_command
    send = deferred._send

    def told(command: str, *rest: Any) -> Any:
        if threading.current_thread() is threading.main_thread():  # another one gives objects back
            sent.append(command.split("\n")[2])
        return send(command, *rest)

    monkeypatch.setattr(deferred, "_send", told)
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", False)  # as in all sessions of the engine
    number = (sf.col("id") + 1).cast("string")
    text = sf.when(sf.col("id") > 1, sf.concat(number, sf.lit("ü\n\\r"))).otherwise(None)
    found = frame.select(number.alias("n"), text.alias("t"))
    assert sent == ["run", "select"]
    assert [tuple(row) for row in found.collect()] == [("1", None), ("2", None), ("3", "3ü\n\\r")]


def test_a_call_that_fails_does_so_with_the_next_one(spark: SparkSession) -> None:
    frame = spark.range(1)
    bad = sf.col("id").cast("no type")
    with pytest.raises(FAILURES, match="no type"):
        frame.select(bad)
    assert frame.select(sf.col("id") + 1).first() == (1,)


def test_a_failure_is_of_the_thread_that_has_made_it(spark: SparkSession) -> None:
    bad = sf.col("id").cast("no type")
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: spark.range(2).select(sf.col("id").alias("n")).count()).result() == 2
    with pytest.raises(FAILURES):
        spark.range(1).select(bad)


def test_a_thread_has_columns_of_another_one(spark: SparkSession) -> None:
    made = sf.col("id") + 41
    with ThreadPoolExecutor(1) as other:
        more = other.submit(lambda: (made + sf.lit(1)).alias("n")).result()
    assert spark.range(1).select(more).first() == (42,)
    assert spark.range(1).select(made.alias("m")).first() == (41,)


def test_threads_that_share_columns(spark: SparkSession) -> None:
    frame, shared, gate = spark.range(1), [sf.col("id")], threading.Barrier(4)

    def work(number: int) -> int:
        gate.wait()
        for step in range(30):
            shared.append(shared[-1] * 0 + sf.lit(number * 100 + step))
        (row,) = frame.select(shared[-1] * 0 + number).collect()
        return int(row[0])

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [0, 1, 2, 3]


def test_only_what_python_has_is_kept(spark: SparkSession, eventually: Callable[..., None]) -> None:
    eventually(lambda: len(kept(spark)) < 128)  # those of other tests are released in groups
    before = set(kept(spark))
    columns = [(sf.col("id") + number).alias(f"c{number}") for number in range(50)]
    gc.collect()  # a column of which a method was called is in a cycle
    frame = spark.range(1).select(*columns)
    new = set(kept(spark)) - before
    assert new.issuperset(map(target, columns)), "the columns themselves"
    assert len(new) <= len(columns) + 2, "the steps between were released with the message that had them"
    assert frame.first() == tuple(range(50))


def test_what_a_call_that_waits_has_is_not_released(spark: SparkSession, eventually: Callable[..., None]) -> None:
    earlier = sf.col("id") + 1
    spark.range(1).select(earlier).collect()  # sent
    number = sf.col("id").cast(LongType())  # Python has no object for the type behind this call
    (name_of_type,) = (line[1:] for line in commands_of(spark)[-1].split("\n") if line.startswith("ro"))
    name_of_earlier, used = target(earlier), earlier.alias("n")
    del earlier
    with ThreadPoolExecutor(1) as other:  # in this thread, each look would send what waits

        def has(name: str) -> bool:
            return bool(other.submit(lambda: bindings(spark).containsKey(name)).result())

        (forgotten, *_) = other.submit(make_and_forget, spark).result()
        eventually(lambda: not has(forgotten))
        assert has(name_of_earlier) and has(name_of_type)
        assert spark.range(1).select(used, number).first() == (1, 0)
        (forgotten, *_) = other.submit(make_and_forget, spark).result()
        eventually(lambda: not has(forgotten))
        assert not has(name_of_earlier) and not has(name_of_type)


def commands_of(spark: SparkSession) -> list[str]:
    """The calls of this thread that wait."""
    commands: list[str] = client_of(spark).send_command._own().commands
    return commands


def make_and_forget(spark: SparkSession) -> list[str]:
    """Names of more objects than are released at a time, which Python needs no more."""
    objects = [known_class(spark, "java.util.UUID").randomUUID() for _ in range(2 * RELEASED)]
    names = [each._target_id for each in objects]
    del objects
    gc.collect()
    return names


def test_what_nobody_needs_is_not_sent(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        sf.col(f"no {number}").cast("no type")  # would fail
    gc.collect()
    assert not client_of(spark).send_command._waiting
    with counted(spark, monkeypatch) as found:
        known_class(spark, "java.lang.Math").abs(1)
    assert found == Counter({"c": 1})


def test_functions_whose_result_is_no_column(spark: SparkSession) -> None:
    frame: DataFrame = sf.broadcast(spark.range(3))
    assert frame.count() == 3
