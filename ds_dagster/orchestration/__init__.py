"""The Dagster surface: everything a user's ``definitions.py`` imports."""

from ds_dagster.orchestration.assets import DsRunConfig as DsRunConfig
from ds_dagster.orchestration.assets import build_ds_assets as build_ds_assets
from ds_dagster.orchestration.assets import ds_assets as ds_assets
from ds_dagster.orchestration.assets import ensure_streams as ensure_streams
from ds_dagster.orchestration.component import DsProjectComponent as DsProjectComponent
from ds_dagster.orchestration.definitions import build_ds_definitions as build_ds_definitions
from ds_dagster.orchestration.ds_project import DsProject as DsProject
from ds_dagster.orchestration.health.checks import build_ds_checks as build_ds_checks
from ds_dagster.orchestration.health.sensors import build_ds_health_sensor as build_ds_health_sensor
from ds_dagster.orchestration.loads import DsLoadConfig as DsLoadConfig
from ds_dagster.orchestration.loads import OpOptions as OpOptions
from ds_dagster.orchestration.props import RelationProps as RelationProps
from ds_dagster.orchestration.resources import DsControlResource as DsControlResource
from ds_dagster.orchestration.resources import build_pyspark_resource as build_pyspark_resource
from ds_dagster.orchestration.store_resource import StoreResource as StoreResource
from ds_dagster.orchestration.store_resources import DatabricksStoreResource as DatabricksStoreResource
from ds_dagster.orchestration.store_resources import DeltaStoreResource as DeltaStoreResource
from ds_dagster.orchestration.store_resources import FilesStoreResource as FilesStoreResource
from ds_dagster.orchestration.store_resources import KafkaStoreResource as KafkaStoreResource
from ds_dagster.orchestration.store_resources import KinesisStoreResource as KinesisStoreResource
from ds_dagster.orchestration.store_resources import PostgresStoreResource as PostgresStoreResource
from ds_dagster.orchestration.store_resources import SnowflakeStoreResource as SnowflakeStoreResource
from ds_dagster.orchestration.surface import build_ds_asset_specs as build_ds_asset_specs
from ds_dagster.orchestration.translator import DsTranslator as DsTranslator

__all__ = [
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
