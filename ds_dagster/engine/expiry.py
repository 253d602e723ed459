"""One thread per engine that deletes old rows of views ('retention.millis'), even if no new rows arrive.

No query waits long for it: a round leaves rows that a batch is writing to the next round (Postgres), or it waits for
the batch's transaction (SQLite file). `ds query` filters old rows by itself; the deletion frees space, and keeps the
tables right for other readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ds_dagster.catalog.io_spec import ExpiringLoader
from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.rounds import Rounds

ROUND_SECONDS = 1.0
LONGEST_SECONDS = 60.0
"""Longest pause between two rounds of one view; for short retentions the pause is a tenth of the retention."""


class ExpiryRounds(Rounds):
    """Deletes old rows of the views that running queries fill.

    Args:
        jobs: returns the jobs that this engine runs now.
        monotonic: returns seconds.
    """

    def __init__(self, jobs: Callable[[], Sequence[HostedQuery]], monotonic: Callable[[], float]) -> None:
        super().__init__("ds-expiry", ROUND_SECONDS, "old rows of its view are not deleted yet")
        self.jobs = jobs
        self.monotonic = monotonic
        self._due: dict[ExpiringLoader, float] = {}

    def round(self) -> None:
        """Delete old rows of every view that is due. An unreachable view is logged once; its query is not affected."""
        views = list(self._views())
        for name, loader in views:
            now = self.monotonic()
            if now < self._due.get(loader, now) or self.is_closing:
                continue
            self._due[loader] = now + pause_seconds(loader.target.retention_millis)
            with self.guarded(name):
                loader.expire()
        current = {loader for _, loader in views}
        self._due = {loader: due for loader, due in self._due.items() if loader in current}

    def _views(self) -> Iterator[tuple[str, ExpiringLoader]]:
        for job in self.jobs():
            if job.phase != "running" or job.prepared is None:
                continue
            for loader in job.prepared.loaders:
                if isinstance(loader, ExpiringLoader) and loader.target.retention_millis:
                    yield job.order.name, loader


def pause_seconds(retention_millis: int) -> float:
    """Pause between two rounds of one view: a tenth of the retention, from 1 to 60 seconds."""
    return min(max(retention_millis / 10_000, ROUND_SECONDS), LONGEST_SECONDS)
