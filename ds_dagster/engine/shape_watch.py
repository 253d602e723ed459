"""One thread per engine that looks once a minute whether the sources of running queries have another shape: a new
version of the schema of their records, other columns of a table. It never waits for a query, and no query waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.rounds import Rounds
from ds_dagster.engine.shapes import WatchedShape
from ds_dagster.errors import DsError

ROUND_SECONDS = 5.0
"""Pause between rounds: a query is looked at for the first time so soon after it runs."""
PAUSE_SECONDS = 60.0
"""Pause between two looks at the sources of one query: one request for each."""


class ShapeWatch(Rounds):
    """Looks at the shapes of sources.

    Args:
        jobs: those of this engine now.
        monotonic: seconds.
    """

    def __init__(self, jobs: Callable[[], Sequence[HostedQuery]], monotonic: Callable[[], float]) -> None:
        super().__init__("ds-shapes", ROUND_SECONDS, "whether it has a new version is not known")
        self.jobs = jobs
        self.monotonic = monotonic
        self._due: dict[str, float] = {}

    def round(self) -> None:
        """Look at the sources of every query that is due. A connection that fails is reported once, and is not used
        again in this round; no query is touched. Connections live for one round: a client of a registry keeps what it
        was told."""
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
