"""One thread per engine that measures the lag of running queries and checks that their entities were not recreated.
It never waits for a query, and no query waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ds_dagster.catalog.reading.lag import LagProbe, SourceLag
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.engine.lag import LagLook, WatchedSource, positions_of
from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.rounds import Rounds
from ds_dagster.errors import DsError, error

LOOK_SECONDS = 5.0
"""Pause between rounds. A round costs a few requests for each source that lags, one for each that does not."""


class LagWatch(Rounds):
    """Looks at the sources of running queries.

    A connection is opened for the first look, with the secrets' current values, and stays open while a running query
    uses the same login. After a secret is rotated, the store may refuse looks: the lag is then unknown until the store
    refuses the query too, and the query restarts with the new value.

    Args:
        jobs: returns the jobs that this engine runs now.
        recreated: called with a query whose entity was deleted and created again.
    """

    def __init__(
        self, jobs: Callable[[], Sequence[HostedQuery]], recreated: Callable[[HostedQuery, DsError], None]
    ) -> None:
        super().__init__("ds-lag", LOOK_SECONDS, "its lag in seconds is not known")
        self.jobs = jobs
        self.recreated = recreated
        self._connections: dict[object, StoreAdmin] = {}

    def round(self) -> None:
        """Look at all sources once."""
        jobs = [job for job in self.jobs() if job.phase == "running" and job.sources]
        for job in jobs:
            with self.guarded(job.order.name):
                self._look(job)
        self._forget(jobs)

    def _run(self) -> None:
        super()._run()
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
