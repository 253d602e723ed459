"""A person who clicks and looks: sends clicks at a steady rate and notes when each is counted in a view.

Runs in a process of its own, the same for both sides. Every page is clicked in turn, so the n-th click of a page is
visible when the page's count is n more than at the beginning. Prints the milliseconds from sending to seeing, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ds_dagster.demo.data import compact

PAGES = 50
POLL_SECONDS = 0.001
LAST_SECONDS = 20.0
QUIET_SECONDS = 3.0


@dataclass
class Watch:
    """The view's counts, read whenever the file has changed."""

    connection: sqlite3.Connection
    question: str
    version: int = -1
    waiting: dict[str, deque[float]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    millis: list[tuple[float, float]] = field(default_factory=list)

    def begin(self) -> None:
        """Wait until nothing changes any more, then count from here."""
        quiet_since, version = time.perf_counter(), -1
        while time.perf_counter() - quiet_since < QUIET_SECONDS:
            now = self.connection.execute("PRAGMA data_version").fetchone()[0]
            if now != version:
                quiet_since, version = time.perf_counter(), now
            time.sleep(20 * POLL_SECONDS)
        self.version = version
        self.seen = self._counts()

    def sent(self, page: str, at: float) -> None:
        self.waiting.setdefault(page, deque()).append(at)

    def look(self) -> None:
        """Take in what has become visible."""
        version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        if version == self.version:
            return
        self.version = version
        counts, now = self._counts(), time.perf_counter()
        for page, count in counts.items():
            for _ in range(count - self.seen.get(page, 0)):
                if self.waiting.get(page):
                    at = self.waiting[page].popleft()
                    self.millis.append((at, 1000 * (now - at)))
        self.seen = counts

    def _counts(self) -> dict[str, int]:
        return dict(self.connection.execute(self.question).fetchall())


def main() -> int:
    """Click, look, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--view", type=Path, required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm", type=float, default=10, help="seconds at the beginning that do not count")
    asked = parser.parse_args()
    with closing(sqlite3.connect(f"file:{asked.view}?mode=ro", uri=True, isolation_level=None)) as connection:
        watch = Watch(connection, f"SELECT url, visits FROM {asked.table}")
        watch.begin()
        begun = time.perf_counter()
        _click(watch, asked, begun)
    counted = [millis for at, millis in watch.millis if at - begun >= asked.warm]
    missing = sum(map(len, watch.waiting.values()))
    json.dump({"millis": counted, "missing": missing}, sys.stdout)
    return 0


def _click(watch: Watch, asked: argparse.Namespace, begun: float) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": asked.bootstrap, "linger.ms": 0})
    total, sent = int(asked.rate * (asked.seconds + asked.warm)), 0
    end = begun + asked.seconds + asked.warm + LAST_SECONDS
    while len(watch.millis) < total and time.perf_counter() < end:
        due = min(total, int((time.perf_counter() - begun) * asked.rate))
        for position in range(sent, due):
            page = f"./page/{position % PAGES}"
            now = int(1000 * time.time())
            value = {"event_time": now, "device_id": "mobile", "url": page, "userid": f"User_{position % 20}"}
            watch.sent(page, time.perf_counter())
            producer.produce(asked.topic, compact(value).encode(), partition=position % 2)
            producer.poll(0)
        sent = max(sent, due)
        watch.look()
        time.sleep(POLL_SECONDS)
    producer.flush(5)


if __name__ == "__main__":
    sys.exit(main())
