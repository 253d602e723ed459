"""A bucket of checkpoints in Spark: settings of Hadoop's S3 client, its keys, and whether every executor reaches it.

Keys are given to the running JVM, never as an argument of its command line; executors get them with their tasks, like
the logins of other stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from ds_dagster.places.bucket import BucketAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""Spark's setting for the class that writes the files of checkpoints."""
_FILES = "dsdagster.fs.BucketCheckpointFiles"
_S3A = "fs.s3a."
_OWN_CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""Environment, web identity, profile, container and instance role, in this order, as in boto3."""
_KEY, _TEMPORARY_KEY = (f"org.apache.hadoop.fs.s3a.{name}AWSCredentialsProvider" for name in ("Simple", "Temporary"))
CLIENT: Mapping[str, str] = MappingProxyType(
    {
        # one request for a new file: the file manager says itself what may be replaced
        "performance.flags": "create,mkdir",
        "connection.establish.timeout": "15s",
        "connection.timeout": "30s",
        "attempts.maximum": "5",
        "retry.limit": "4",
    }
)
"""Settings of the S3 client, without their prefix. A request is repeated a few times; then the job fails, and is
retried like any other."""


def bucket_settings(address: BucketAddress) -> Mapping[str, str]:
    """Spark properties for checkpoints in a bucket, without keys."""
    values = {**CLIENT, "endpoint.region": address.region_name}
    if address.endpoint_url:
        values |= {"endpoint": address.endpoint_url, "path.style.access": "true"}
    provider = _TEMPORARY_KEY if address.session_token else _KEY
    values["aws.credentials.provider"] = provider if address.access_key_id else _OWN_CREDENTIALS
    return {FILE_MANAGER: _FILES, **{f"spark.hadoop.{_S3A}{name}": value for name, value in values.items()}}


def give_keys(session: SparkSession, address: BucketAddress) -> None:
    """Give the JVM the key of the bucket; does nothing if hosts use their own credentials."""
    keys = {
        "access.key": address.access_key_id,
        "secret.key": address.secret_access_key,
        "session.token": address.session_token,
    }
    hadoop = cast(Any, session.sparkContext)._jsc.hadoopConfiguration()
    for name, value in keys.items():
        if value:
            hadoop.set(f"{_S3A}{name}", value)
