"""Records the broker's class archive: ``python -m ds_dagster.local.recording FILE`` (see
:mod:`ds_dagster.class_archive`).

A broker in a temporary folder takes and returns records as our jobs write and read them (a transaction, a group that
reads committed records), and writes the archive when its JVM ends.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ds_dagster.jars import silent
from ds_dagster.local.kafka import OPTIONS, SERVER
from ds_dagster.local.ports import HOST, assign_ports
from ds_dagster.local.processes import StopStep
from ds_dagster.local.server import Home, start_server, stop_server

TOPIC, RECORDS = "recording", 100
CALL_SECONDS = 30.0
EXIT_SECONDS = 120.0


def main() -> int:
    """Record into the file of the first argument."""
    os.environ[OPTIONS] = shlex.join((f"-XX:ArchiveClassesAtExit={sys.argv[1]}", "-Xlog:disable"))
    with tempfile.TemporaryDirectory(prefix="ds-record-") as folder:
        state = Path(folder)
        home = Home(state, SERVER.name, assign_ports(state, SERVER.ports))
        start_server(SERVER, home, silent)
        try:
            _exercise(f"{HOST}:{home.port}")
        finally:
            stop_server(replace(SERVER, stop=(StopStep(signal.SIGTERM, EXIT_SECONDS), *SERVER.stop[1:])), home)
    return 0


def _exercise(servers: str) -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    connection: dict[str, str | int | float | bool] = {"bootstrap.servers": servers}
    admin = AdminClient(connection)
    for future in admin.create_topics([NewTopic(TOPIC, 2, 1)]).values():
        future.result(CALL_SECONDS)
    producer = Producer({**connection, "transactional.id": TOPIC})
    producer.init_transactions(CALL_SECONDS)
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(TOPIC, key=str(number), value=b"{}")
    producer.commit_transaction(CALL_SECONDS)
    settings = {"group.id": TOPIC, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**connection, **settings, "isolation.level": "read_committed"})
    try:
        consumer.subscribe([TOPIC])
        if consumer.consume(RECORDS, CALL_SECONDS):
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()


if __name__ == "__main__":
    sys.exit(main())
