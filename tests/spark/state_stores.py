"""Spark's own housekeeping of state stores, at a moment of the test's choice."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.spark.conftest import eventually

STORES = "org.apache.spark.sql.execution.streaming.state.StateStore$"


def open_stores(spark: SparkSession) -> str:
    """The state stores that Spark has in memory, as text; each with the run it is of."""
    return str(_field(spark, "loadedProviders").keySet().toString())


def maintain(spark: SparkSession) -> None:
    """What Spark does once a minute: write the snapshots that are due."""
    gateway, jvm = _context(spark)
    maintenance = _class(spark).getDeclaredMethod("doMaintenance", gateway.new_array(jvm.java.lang.Class, 0))
    maintenance.setAccessible(True)
    companion = _class(spark).getField("MODULE$").get(None)
    maintenance.invoke(companion, gateway.new_array(jvm.java.lang.Object, 0))
    eventually(lambda: _field(spark, "maintenancePartitions").isEmpty())


def _field(spark: SparkSession, name: str) -> Any:
    field = _class(spark).getDeclaredField(name)
    field.setAccessible(True)
    return field.get(None)


def _class(spark: SparkSession) -> Any:
    _, jvm = _context(spark)
    return jvm.java.lang.Class.forName(STORES)


def _context(spark: SparkSession) -> tuple[Any, Any]:
    context: Any = spark.sparkContext
    return context._gateway, context._jvm
