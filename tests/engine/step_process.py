"""A Dagster step without Dagster: ``step_process.py ROOT QUERY`` runs a finite query in its own Spark session, prints
the result."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from ds_dagster import jars
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.settings import load_settings
from ds_dagster.spark.session import build_session


def main() -> None:
    root, name = Path(sys.argv[1]), sys.argv[2]
    settings = load_settings(root)
    spark = build_session(settings, jars=jars.driver_jars(), app_name="step")
    try:
        project = load_project(root, settings=settings, strict=True)
        result = Control.open(settings).run_in_session(project, name, spark, "step", catch_up=20)
        print(json.dumps(dataclasses.asdict(result)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
