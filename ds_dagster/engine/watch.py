"""One thread per engine that looks at what running queries have not read yet, and whether it is still what they began
to read. It never waits for a query, and no query waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ds_dagster.catalog.reading.lag import LagProbe, SourceLag
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.engine.lag import LagLook, WatchedSource, positions_of
from ds_dagster.engine.query import HostedQuery
from ds_dagster.errors import DsError, error

LOOK_SECONDS = 5.0
"""Pause between rounds. A round costs a few requests for each source that lags, one for each that does not."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class LagWatch:
    """Looks at the sources of running queries.

    A connection is opened at its first look, with the secrets' values of that moment, and kept while a running query
    has the login it was opened for. After a secret was rotated its looks may be refused: the lag is unknown until the
    query is refused, too, and starts again with the new value.

    Attributes:
        jobs: those of this engine now.
        recreated: called with a query whose entity is another one now.
    """

    jobs: Callable[[], Sequence[HostedQuery]]
    recreated: Callable[[HostedQuery, DsError], None]
    _connections: dict[object, StoreAdmin] = field(default_factory=dict, init=False)
    _told: set[str] = field(default_factory=set, init=False)
    _closing: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the thread; does nothing if it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ds-lag", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End after the request that is under way; does not wait for it."""
        self._closing.set()

    def round(self) -> None:
        """Look at all sources once. A failing look is reported once; the query is not touched."""
        jobs = [job for job in self.jobs() if job.phase == "running" and job.sources]
        for job in jobs:
            try:
                self._look(job)
            except DsError as problem:
                self._tell(job, str(problem))
            except Exception as problem:  # noqa: BLE001 - the boundary of one look; the query runs on
                self._tell(job, type(problem).__name__)
        self._forget(jobs)

    def _run(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            self.round()
        self._forget(())

    def _look(self, job: HostedQuery) -> None:
        batch = job.unread()
        lags: dict[str, SourceLag] = {}
        for name, source in job.sources.items():
            probe = self._connection(source)
            if not isinstance(probe, LagProbe):
                continue
            read = (
                next((progress for progress in batch.sources if progress.name == name), None)
                if batch is not None
                else None
            )
            if read is None:
                identity = probe.identity(source.entity)
            else:
                lags[name] = probe.lag(source.entity, positions_of(read))
                identity = lags[name].identity
            if source.identity and identity and identity != source.identity:
                self.recreated(job, error("INPUT_RECREATED", entity=source.shown))
                return
        self._told.discard(job.order.name)
        if batch is not None and lags:
            job.take(LagLook(batch.batch, job.clock.now(), lags))

    def _connection(self, source: WatchedSource) -> StoreAdmin:
        admin = self._connections.get(source.connection)
        if admin is None:
            admin = self._connections[source.connection] = source.connect()
        return admin

    def _forget(self, jobs: Sequence[HostedQuery]) -> None:
        """Close connections no query needs any more."""
        used = {source.connection for job in jobs for source in job.sources.values()}
        for key in [key for key in self._connections if key not in used]:
            self._connections.pop(key).close()

    def _tell(self, job: HostedQuery, text: str) -> None:
        if job.order.name not in self._told:
            self._told.add(job.order.name)
            _LOG.warning("%s: its lag in seconds is not known: %s", job.order.name, text)
