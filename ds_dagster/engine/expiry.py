"""One thread per engine that deletes rows of views by their age ('retention.millis'), whether new ones come or not.

No query waits long for it: rows that a batch writes at this moment are left to the next round (Postgres), or the
batch's transaction is waited for (a file). Readers of ours leave out what is too old by themselves; this gives the room
back, and keeps tables right for those who read them without us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ds_dagster.catalog.io_spec import ExpiringLoader
from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.rounds import Rounds

ROUND_SECONDS = 1.0
LONGEST_SECONDS = 60.0
"""Rows go at most so long after their time, or a tenth of the retention where that is less, but at least a round."""


class ExpiryRounds(Rounds):
    """Deletes old rows of the views that running queries fill.

    Args:
        jobs: those of this engine now.
        monotonic: seconds.
    """

    def __init__(self, jobs: Callable[[], Sequence[HostedQuery]], monotonic: Callable[[], float]) -> None:
        super().__init__("ds-expiry", ROUND_SECONDS, "old rows of its view stay for now")
        self.jobs = jobs
        self.monotonic = monotonic
        self._due: dict[ExpiringLoader, float] = {}

    def round(self) -> None:
        """Every view that is due, once. One that cannot be reached is reported once; its query is not touched."""
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
    """Between two rounds of one view."""
    return min(max(retention_millis / 10_000, ROUND_SECONDS), LONGEST_SECONDS)
