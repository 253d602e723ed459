"""One thread per engine that checks once a minute whether sources of running queries have a new shape: a new version
of a record schema, or changed columns of a table. It never waits for a query, and no query waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.rounds import Rounds
from ds_dagster.engine.shapes import WatchedShape
from ds_dagster.errors import DsError

ROUND_SECONDS = 5.0
"""Pause between rounds; the first look at a query's sources is at most this long after it runs."""
PAUSE_SECONDS = 60.0
"""Pause between two looks at the sources of one query; a look costs one request for each source."""


class ShapeWatch(Rounds):
    """Looks at the shapes of sources.

    Args:
        jobs: returns the jobs that this engine runs now.
        monotonic: returns seconds.
    """

    def __init__(self, jobs: Callable[[], Sequence[HostedQuery]], monotonic: Callable[[], float]) -> None:
        super().__init__("ds-shapes", ROUND_SECONDS, "new versions of it are not detected")
        self.jobs = jobs
        self.monotonic = monotonic
        self._due: dict[str, float] = {}

    def round(self) -> None:
        """Look at the sources of every query that is due. A connection that fails is logged once and not used again in
        this round; queries are not affected. Connections live for one round, since a registry client caches answers."""
        now = self.monotonic()
        running = {job.order.incarnation: job for job in self.jobs() if job.phase == "running" and job.shapes}
        due = [job for incarnation, job in running.items() if now >= self._due.get(incarnation, now)]
        self._due = {name: at for name, at in self._due.items() if name in running}
        with ExitStack() as stack:
            clients: dict[object, Any] = {}
            for job in due:
                self._due[job.order.incarnation] = now + PAUSE_SECONDS
                for watched in job.shapes:
                    if not self.is_closing:
                        self._look(job, watched, clients, stack)

    def _look(self, job: HostedQuery, watched: WatchedShape, clients: dict[object, Any], stack: ExitStack) -> None:
        place = watched.connection
        if place in clients and clients[place] is None:
            return
        with self.guarded(watched.key):
            if place not in clients:
                clients[place] = None
                clients[place] = stack.enter_context(closing(watched.connect()))
            try:
                job.look_at(watched, clients[place])
            except DsError as problem:
                if problem.fault.domain != "user":
                    clients[place] = None
                raise
