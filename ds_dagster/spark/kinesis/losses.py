"""Records that a query skipped because the stream had dropped them, counted and reported."""

from __future__ import annotations

import logging
import threading

_LOG = logging.getLogger(__name__)


class Losses:
    """What one query has skipped since it started.

    A gap at a position counts as one record: Kinesis does not say how many it held.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._records = 0

    @property
    def records(self) -> int:
        """Skipped records; at least."""
        with self._lock:
            return self._records

    def gap(self, shard: str, after: str) -> None:
        """The record ``after`` and an unknown number after it were dropped."""
        self._count(1)
        _LOG.warning("stream %s: records of shard %s after %s are gone and skipped", self._stream, shard, after or "-")

    def missing(self, shard: str, count: int) -> None:
        """So many records of a batch that is read again were dropped."""
        if count:
            self._count(count)
            _LOG.warning("stream %s: %d records of shard %s are gone and skipped", self._stream, count, shard)

    def _count(self, records: int) -> None:
        with self._lock:
            self._records += records
