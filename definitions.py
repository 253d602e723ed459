"""What Dagster loads: the streaming SQL in sql/ as assets."""

from pathlib import Path

from ds_dagster import DsProject, build_ds_definitions

defs = build_ds_definitions(DsProject(Path(__file__).parent))
