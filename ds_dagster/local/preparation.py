"""Fetches and builds in advance what the first start would: jars, the Java operators, the archives of the classes that
Spark and the broker load, and the programs of the local servers. Later starts need no network and are faster."""

from __future__ import annotations

from ds_dagster.class_archive import BROKER, record
from ds_dagster.jars import Progress, operator_jar, resolve


def prepare(progress: Progress, *, servers: bool = True) -> None:
    """Fetch and build everything that is missing.

    Args:
        progress: receives a line per step.
        servers: also fetch the programs of the local servers (Kafka, Kinesis, the stand-in for Snowflake).

    Raises:
        DsError: Java, a jar or a program is missing and cannot be fetched.
    """
    resolve("spark-kafka", progress)
    operator_jar(progress)
    record(progress)
    if servers:
        from ds_dagster.local import snowflake
        from ds_dagster.local.kinesis import find_node, install

        record(progress, BROKER)
        install(find_node(), progress)
        snowflake.install(progress)
