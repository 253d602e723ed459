"""dagster-pyspark's lazy Spark session, started as the engine starts its own. This module imports pyspark, so it is
imported only where a project uses it."""

from pathlib import Path
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from ds_dagster.settings import load_settings


class ProjectSparkResource(LazyPySparkResource):
    """A ``LazyPySparkResource`` whose session has the project's settings, the connectors' jars and our operators.

    ``spark_config`` overrides Spark properties of the project's settings.
    """

    project: str = Field(description="folder of the project")
    spark_config: dict[str, Any] = Field(default={}, description="Spark properties")

    def _init_session(self) -> None:
        if self._spark_session is None:
            from ds_dagster.engine.step import open_session

            settings = load_settings(Path(self.project))
            properties = {name: str(value) for name, value in self.spark_config.items()}
            self._spark_session = open_session(settings, properties)
