"""Write ds_dagster/jars.lock.json anew: every jar with its exact coordinates, size and SHA-256.

Usage: python scripts/lock_jars.py            (needs pyspark and Java; asks the Maven repository)

Change a version in ROOTS, run this, read the difference, commit both. ``transitive`` sets take the runtime
dependencies as the artifact's own metadata names them; the others are exactly what is written here, because Spark's
class path must not get second copies of what PySpark brings.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

LOCK = Path(__file__).parent.parent / "ds_dagster" / "jars.lock.json"


class Root(NamedTuple):
    """One requested artifact of a set."""

    coordinates: str
    transitive: bool = False


AWS_MODULES = (
    "annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol", "checksums",
    "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws", "http-auth-aws-eventstream",
    "http-auth-spi", "http-client-spi", "identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles",
    "protocol-core", "regions", "retries", "retries-spi", "s3", "s3-transfer-manager", "sdk-core", "sts",
    "third-party-jackson-core", "utils", "utils-lite",
)  # fmt: skip

ROOTS: dict[str, tuple[str, tuple[Root, ...]]] = {
    "spark-kafka": (
        "Spark's Kafka connector with exactly what PySpark does not bring, and the runtime of Protobuf",
        (
            Root("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
            Root("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"),
            Root("org.apache.kafka:kafka-clients:3.9.2"),
            Root("org.apache.commons:commons-pool2:2.13.1"),
            Root("com.google.protobuf:protobuf-java:4.33.2"),
        ),
    ),
    "s3a": (
        "Hadoop's S3 client for checkpoints in a bucket, with the modules of the AWS SDK that it uses (its bundle of "
        "all services has 686 MB); PySpark brings Netty and Apache's HTTP client",
        (
            Root("org.apache.hadoop:hadoop-aws:3.5.0"),
            Root("software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1"),
            *(Root(f"software.amazon.awssdk:{module}:2.35.4") for module in AWS_MODULES),
            Root("software.amazon.eventstream:eventstream:1.0.1"),
            Root("org.reactivestreams:reactive-streams:1.0.4"),
        ),
    ),
    "spark-compile": (
        "what the Java operators are compiled against where PySpark is not installed: the build of a wheel",
        (
            Root("org.apache.spark:spark-catalyst_2.13:4.2.0"),
            Root("org.apache.spark:spark-sql-api_2.13:4.2.0"),
            Root("org.apache.spark:spark-sql_2.13:4.2.0"),
            Root("org.apache.spark:spark-core_2.13:4.2.0"),
            Root("org.apache.spark:spark-common-utils_2.13:4.2.0"),
            Root("org.apache.spark:spark-common-utils-java_2.13:4.2.0"),
            Root("org.apache.spark:spark-unsafe_2.13:4.2.0"),
            Root("org.apache.spark:spark-tags_2.13:4.2.0"),
            Root("org.scala-lang:scala-library:2.13.18"),
            Root("org.scala-lang:scala-reflect:2.13.18"),
            Root("org.apache.hadoop:hadoop-client-api:3.5.0"),
            Root("org.apache.avro:avro:1.12.1"),
            Root("com.fasterxml.jackson.core:jackson-core:2.21.2"),
            Root("com.fasterxml.jackson.core:jackson-databind:2.21.2"),
            Root("org.apache.logging.log4j:log4j-core:2.25.4"),
            Root("com.esotericsoftware:kryo-shaded:4.0.3"),
            Root("com.google.code.findbugs:jsr305:3.0.0"),
        ),
    ),
    "kafka-broker": (
        "the local Kafka broker with its runtime dependencies and a log binding",
        (
            Root("org.apache.kafka:kafka_2.13:4.3.1", transitive=True),
            Root("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"),
        ),
    ),
    "ecj": ("the Java compiler for machines with a runtime only", (Root("org.eclipse.jdt:ecj:3.38.0"),)),
}


def ivy_jar() -> Path:
    """The Ivy inside PySpark."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("pyspark is not installed")
    return next(Path(spec.submodule_search_locations[0], "jars").glob("ivy-*.jar"))


def fetch(root: Root, work: Path) -> list[dict[str, object]]:
    """Resolve one root and describe each jar it brings."""
    out = work / root.coordinates.replace(":", "_")
    pattern = "[organisation]@[artifact]@[revision].[ext]"
    configuration = "default" if root.transitive else "master"
    command = ["java", "-jar", str(ivy_jar()), "-cache", str(work / "cache"), "-confs", configuration]
    command += ["-dependency", *root.coordinates.split(":"), "-retrieve", f"{out}/{pattern}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [
        {
            "coordinates": ":".join(jar.name.removesuffix(".jar").split("@")),
            "size": jar.stat().st_size,
            "sha256": hashlib.sha256(jar.read_bytes()).hexdigest(),
        }
        for jar in out.glob("*.jar")
    ]


def main() -> None:
    """Resolve all sets and write the lock."""
    sets: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (why, roots) in ROOTS.items():
            print(f"resolving {name}", file=sys.stderr)
            jars: list[dict[str, object]] = [jar for root in roots for jar in fetch(root, Path(folder))]
            jars.sort(key=lambda jar: str(jar["coordinates"]))
            sets[name] = {"why": why, "jars": jars}
    LOCK.write_text(json.dumps({"version": 1, "sets": sets}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
