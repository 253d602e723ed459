"""Counts and logs records that a query skipped because the stream no longer has them."""

from __future__ import annotations

import logging
import threading

_LOG = logging.getLogger(__name__)


class Losses:
    """Records that one query has skipped since it started.

    A gap at a position counts as one record: Kinesis does not report how many records are missing.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._records = 0

    @property
    def records(self) -> int:
        """Least number of skipped records."""
        with self._lock:
            return self._records

    def gap(self, shard: str, after: str) -> None:
        """Report that an unknown number of records after the record ``after`` no longer exist."""
        self._count(1)
        _LOG.warning("stream %s: records of shard %s after %s are gone and skipped", self._stream, shard, after or "-")

    def missing(self, shard: str, count: int) -> None:
        """Report that ``count`` records of a repeated batch no longer exist."""
        if count:
            self._count(count)
            _LOG.warning("stream %s: %d records of shard %s are gone and skipped", self._stream, count, shard)

    def _count(self, records: int) -> None:
        with self._lock:
            self._records += records
