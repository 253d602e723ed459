"""One query on PyFlink; runs under Flink's own Python and imports nothing of ours.

    PYTHON flink_job.py LINES RELATIONS.sql QUERY.sql CHECKPOINTS

Two cores, state in the heap, a checkpoint every ten seconds, rows thrown away at the sink. The second of two runs
counts. Prints one JSON object: its seconds, CPU seconds of the JVM that ran it, and marks, each the seconds since its
start and the records that its sources had read, from Flink's REST interface.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

LOOK_SECONDS = 0.25


def main() -> int:
    """Run it."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

    lines, relations, query, checkpoints = sys.argv[1:]
    config, port = Configuration(), str(free_port())
    for name, value in {
        "parallelism.default": "2",  # as many as cores, and as partitions of ours
        "state.backend.type": "hashmap",  # the suite has rocksdb; faster than that, as long as state fits into the heap
        "execution.checkpointing.interval": "10 s",  # ours has one for each batch
        "execution.checkpointing.dir": Path(checkpoints).absolute().as_uri(),
        "table.local-time-zone": "UTC",
        # the suite's own: rows of a key are combined before state is read and written
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
        "table.optimizer.distinct-agg.split.enabled": "true",  # the suite's: hot keys of COUNT(DISTINCT)
        # its REST interface, for the marks
        "rest.address": "localhost",
        "rest.port": port,
        "rest.bind-port": port,
        "metrics.fetcher.update-interval": str(round(1000 * LOOK_SECONDS)),
    }.items():
        config.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(config).build()
    table = TableEnvironment.create(settings)
    text = Path(relations).read_text(encoding="utf-8").replace("${lines}", Path(lines).absolute().as_uri())
    for statement in text.split(";"):
        if statement.strip():
            table.execute_sql(statement)
    seconds = cpu = 0.0
    marks: list[tuple[float, int]] = []
    for _ in range(2):
        begun, cpu_begun = time.perf_counter(), cpu_seconds()
        found = table.sql_query(Path(query).read_text(encoding="utf-8"))
        running = found.execute_insert(TableDescriptor.for_connector("blackhole").build())
        job, marks = f"http://localhost:{port}/jobs/{running.get_job_client().get_job_id()}", []
        ended = threading.Event()
        looking = threading.Thread(target=look, args=(job, begun, marks, ended))
        looking.start()
        running.wait()
        seconds, cpu = time.perf_counter() - begun, cpu_seconds() - cpu_begun
        ended.set()
        looking.join()
    print(json.dumps({"seconds": seconds, "cpu_s": cpu, "marks": marks}), flush=True)
    return 0


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def look(job: str, begun: float, marks: list[tuple[float, int]], ended: threading.Event) -> None:
    """Add a mark for each look at a job, until it ends. Flink ends its interface with the job."""
    while not ended.wait(LOOK_SECONDS):
        try:
            with urlopen(job, timeout=5) as answer:
                vertices = json.load(answer)["vertices"]
        except OSError:
            continue
        read = sum(vertex["metrics"]["read-records"] for vertex in vertices if "Source: " in vertex["name"])
        marks.append((time.perf_counter() - begun, read))


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
