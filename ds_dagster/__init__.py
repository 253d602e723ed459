"""Streaming SQL as Dagster assets, on Spark. Importing this starts no JVM, opens no socket and imports no driver.

The names of :mod:`ds_dagster.orchestration` are here too; Dagster is imported when one of them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ds_dagster.version import __version__ as __version__

if TYPE_CHECKING:
    from ds_dagster.orchestration import *  # the same names for type checkers

__all__ = [
    "__version__",
    "DatabricksStoreResource",
    "DeltaStoreResource",
    "DsControlResource",
    "DsLoadConfig",
    "DsProject",
    "DsProjectComponent",
    "DsRunConfig",
    "DsTranslator",
    "FilesStoreResource",
    "KafkaStoreResource",
    "KinesisStoreResource",
    "OpOptions",
    "PostgresStoreResource",
    "RelationProps",
    "SnowflakeStoreResource",
    "StoreResource",
    "build_ds_asset_specs",
    "build_ds_assets",
    "build_ds_checks",
    "build_ds_definitions",
    "build_ds_health_sensor",
    "build_pyspark_resource",
    "ds_assets",
    "ensure_streams",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("ds_dagster.orchestration"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
