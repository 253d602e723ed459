"""Fetch and build what first starts would: jars, operators, the local Kinesis server, the stand-in for
Snowflake, and an archive of classes that
makes them faster. Later starts are offline."""

from __future__ import annotations

import sys

from ds_dagster.class_archive import record
from ds_dagster.errors import DsError
from ds_dagster.jars import operator_jar, resolve
from ds_dagster.local import snowflake
from ds_dagster.local.kinesis import find_node, install


def main() -> int:
    """Do it all, one line of progress per step; 1 when something is missing."""
    try:
        for name in ("spark-kafka", "kafka-broker"):
            resolve(name, _tell)
        operator_jar(_tell)
        record(_tell)
        install(find_node(), _tell)
        snowflake.install(_tell)
    except DsError as problem:
        _tell(str(problem))
        return 1
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
