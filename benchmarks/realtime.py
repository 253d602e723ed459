"""How long after a click it is in another topic, at 100 clicks a second, in a real engine: real-time mode, and the same
query in micro-batches as its peer, at least once and exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.house import STORES, House
from benchmarks.latency import WAIT_SECONDS
from benchmarks.measure import Pairs, Result, Size, percentile, results, say
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine

CLICKS_PER_SECOND = 100
LAST_SECONDS = 120.0
SELECT = """AS SELECT sent, url FROM clicks WITH ('starting.position' = 'latest') WHERE device = 'mobile';"""
SQL = f"""
CREATE STREAM clicks (sent DOUBLE, device VARCHAR, url VARCHAR)
  WITH ('topic'='realtime_clicks', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM passed_on WITH ('delivery' = 'at_least_once', 'latency.mode' = 'realtime') {SELECT}
CREATE STREAM in_batches WITH ('delivery' = 'at_least_once') {SELECT}
CREATE STREAM in_transactions {SELECT}
"""
PEERS = {"in_batches": "at least once", "in_transactions": "exactly once"}


def realtime(house: House, size: Size) -> list[Result]:
    """Only one of the queries runs at a time; the first seconds of each stretch of clicking do not count."""
    (house.root / "sql" / "realtime.sql").write_text(STORES + SQL, encoding="utf-8")
    project = load_project(house.root, settings=house.settings, strict=True)
    control = Control.open(house.settings)
    control.ensure_engine(WAIT_SECONDS)
    pairs = {
        (peer, share): Pairs(f"click to topic in real-time mode (peer: batches, {word}), {text}", "ms", False)
        for peer, word in PEERS.items()
        for share, text in ((0.5, "p50"), (0.99, "p99"))
    }
    try:
        for run in range(-1, size.runs):
            found = {name: _measured(house, size, control, project, name) for name in ("passed_on", *PEERS)}
            for (peer, share), pair in pairs.items():
                ours, theirs = percentile(found["passed_on"], share), percentile(found[peer], share)
                say(f"{pair.name}: ours {ours:.0f} ms, peer {theirs:.0f} ms")
                if run >= 0:
                    pair.add(ours, theirs)
        return results(pairs.values())
    finally:
        stop_engine(house.settings)
        (house.root / "sql" / "realtime.sql").unlink()


def _measured(house: House, size: Size, control: Control, project: LoadedProject, name: str) -> list[float]:
    """Milliseconds of one stretch of clicking through a query."""
    with _running(control, project, name):
        return _clicked(house.bootstrap, name, seconds=size.of(20, 5), warm=size.of(10, 5))


@contextmanager
def _running(control: Control, project: LoadedProject, name: str) -> Iterator[None]:
    for asked in control.ensure(project, [name], "ensure", "benchmark"):
        _wait(control, name, asked.generation, "RUNNING")
    yield
    for asked in control.stop([name], "benchmark"):
        _wait(control, name, asked.generation, "STOPPED")


def _wait(control: Control, name: str, generation: int, state: str) -> None:
    (status,) = control.wait([name], {name: generation}, WAIT_SECONDS)
    if status.state != state:
        raise SystemExit(f"{status.name}: {status.state} {status.condition} {status.message} {status.detail}")


def _clicked(bootstrap: str, topic: str, *, seconds: float, warm: float) -> list[float]:
    """Clicks at a steady rate; every one has to arrive."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    reader = Consumer({**settings, "group.id": "b", "fetch.wait.max.ms": 5, "isolation.level": "read_committed"})
    end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    reader.assign([TopicPartition(topic, 0, end)])
    producer = Producer({**settings, "linger.ms": 0})
    begun, total, sent = time.time(), int(CLICKS_PER_SECOND * (seconds + warm)), 0
    millis: dict[float, float] = {}
    while len(millis) < total:
        if time.time() > begun + seconds + warm + LAST_SECONDS:
            raise SystemExit(f"{total - len(millis)} clicks never appeared in {topic}")
        for _ in range(sent, min(total, int((time.time() - begun) * CLICKS_PER_SECOND))):
            click = {"sent": time.time(), "device": "mobile", "url": f"./page/{sent % 50}"}
            producer.produce("realtime_clicks", json.dumps(click).encode())
            sent += 1
        producer.poll(0)
        message = reader.poll(0.002)
        if message is not None and message.error() is None:
            at = float(json.loads(message.value() or b"{}")["sent"])
            if at >= begun:  # a restart repeats the end of the stretch before
                millis.setdefault(at, 1000 * (time.time() - at))
    reader.close()
    return [taken for at, taken in millis.items() if at >= begun + warm]
