"""Fetches and builds in advance what the first start would: jars, the Java operators, the archives of the classes that
Spark and the broker load, and the programs of the local servers. Later starts need no network and are faster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ds_dagster.class_archive import BROKER, record
from ds_dagster.jars import Progress, operator_jar, resolve


def prepare(progress: Progress, *, servers: bool = True) -> None:
    """Fetch and build everything that is missing.

    Args:
        progress: receives a line per step, from two threads with ``servers``.
        servers: also fetch the programs of the local servers (Kafka, Kinesis, the stand-in for Snowflake).

    Raises:
        DsError: Java, a jar or a program is missing and cannot be fetched.
    """
    resolve("spark-kafka", progress)
    resolve("s3a", progress)
    operator_jar(progress)
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(_prepare_servers, progress) if servers else None
        record(progress)
        if beside is not None:
            beside.result()


def _prepare_servers(progress: Progress) -> None:
    from ds_dagster.local import snowflake
    from ds_dagster.local.kinesis import find_node, install

    record(progress, BROKER)
    install(find_node(), progress)
    snowflake.install(progress)
