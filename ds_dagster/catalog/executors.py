"""How many cores the executors of one engine have on a Spark cluster, by the properties that bound them.

A standalone master gives an application all cores unless ``spark.cores.max`` bounds them; YARN and Kubernetes start
``spark.executor.instances`` executors (2 by default) of ``spark.executor.cores`` (1 by default); ``local-cluster`` has
both numbers in its URL. Source: Spark's configuration page, version 4.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

from ds_dagster.settings import Settings

INSTANCES = "spark.executor.instances"
EXECUTOR_CORES = "spark.executor.cores"
MOST_CORES = "spark.cores.max"
_INSTANCES, _EXECUTOR_CORES = "2", "1"
"""Spark's defaults on YARN and Kubernetes."""
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]")


def cores_of(settings: Settings) -> int | None:
    """Cores of all executors of an engine on a cluster; None: all that a standalone master has."""
    master = settings.engine.master
    local = _LOCAL_CLUSTER.fullmatch(master)
    if local:
        return int(local[1]) * int(local[2])
    if _is_standalone(master):
        most = settings.spark.get(MOST_CORES)
        return None if most is None else int(most)
    return int(settings.spark.get(INSTANCES, _INSTANCES)) * executor_size(settings)


def executor_size(settings: Settings) -> int:
    """Cores of one executor. On a standalone master without ``spark.executor.cores`` executors have different sizes,
    and any number of cores can be divided among them: 1."""
    local = _LOCAL_CLUSTER.fullmatch(settings.engine.master)
    return int(local[2] if local else settings.spark.get(EXECUTOR_CORES, _EXECUTOR_CORES))


def with_cores(settings: Settings, cores: int) -> Settings:
    """The settings of an engine on the same cluster whose executors have that many cores.

    Args:
        settings: of the project.
        cores: a multiple of :func:`executor_size`.
    """
    executors = cores // executor_size(settings)
    local = _LOCAL_CLUSTER.fullmatch(settings.engine.master)
    if local:
        master = f"local-cluster[{executors},{local[2]},{local[3]}]"
        return replace(settings, engine=replace(settings.engine, master=master))
    spark = {name: value for name, value in settings.spark.items() if name != INSTANCES}
    if _is_standalone(settings.engine.master):
        spark[MOST_CORES] = str(cores)
    if EXECUTOR_CORES in settings.spark or not _is_standalone(settings.engine.master):
        spark[INSTANCES] = str(executors)
    return replace(settings, spark=MappingProxyType(spark))


def _is_standalone(master: str) -> bool:
    return master.startswith("spark://")
