"""The Spark session of an engine or a step, with what its checkpoints need."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ds_dagster import jars
from ds_dagster.jars import Progress, silent
from ds_dagster.places.bucket import Bucket
from ds_dagster.runtime.checkpoints import bucket_address
from ds_dagster.settings import Settings
from ds_dagster.spark.session import build_session


def start_session(settings: Settings, app_name: str, progress: Progress = silent) -> SparkSession:
    """Start Spark; a bucket of checkpoints is checked before.

    Args:
        settings: of the project.
        app_name: shown by Spark.
        progress: receives a line for each fetched jar.

    Raises:
        DsError: Java is missing, jars cannot be fetched, the bucket cannot be used (CHECKPOINT_BUCKET_…), or conditions
            of :func:`build_session`.
    """
    bucket = bucket_address(settings)
    if bucket is not None:
        Bucket(bucket).check(settings.checkpoints.prefix)
    jar_files = jars.driver_jars(progress, in_bucket=bucket is not None)
    return build_session(settings, jars=jar_files, app_name=app_name, bucket=bucket)
