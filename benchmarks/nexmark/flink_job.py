"""One query on PyFlink; runs under Flink's own Python and imports nothing of ours.

    PYTHON flink_job.py LINES RELATIONS.sql QUERY.sql CHECKPOINTS

Two cores, state in RocksDB, a checkpoint every ten seconds, rows thrown away at the sink. The second of two runs
counts. Prints one JSON object: its seconds, and CPU seconds of the JVM that ran it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> int:
    """Run it."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

    lines, relations, query, checkpoints = sys.argv[1:]
    config = Configuration()
    for name, value in {
        "parallelism.default": "2",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": Path(checkpoints).absolute().as_uri(),
        "table.local-time-zone": "UTC",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
        "table.optimizer.distinct-agg.split.enabled": "true",
    }.items():
        config.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(config).build()
    table = TableEnvironment.create(settings)
    text = Path(relations).read_text(encoding="utf-8").replace("${lines}", Path(lines).absolute().as_uri())
    for statement in text.split(";"):
        if statement.strip():
            table.execute_sql(statement)
    seconds = cpu = 0.0
    for _ in range(2):
        begun, cpu_begun = time.perf_counter(), cpu_seconds()
        found = table.sql_query(Path(query).read_text(encoding="utf-8"))
        found.execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
        seconds, cpu = time.perf_counter() - begun, cpu_seconds() - cpu_begun
    print(json.dumps({"seconds": seconds, "cpu_s": cpu}), flush=True)
    return 0


def cpu_seconds() -> float:
    """CPU time that this process and its child, Flink's JVM, have taken."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if os.getpid() in (int(stat.parent.name), int(fields[1])):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
