"""A thread of the engine that does one thing again and again beside the queries."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from ds_dagster.errors import DsError

_LOG = logging.getLogger(__name__)


class Rounds(ABC):
    """Calls :meth:`round` in a daemon thread; a class for each thing that is done.

    Args:
        thread: its name.
        seconds: pause between two rounds.
        lacks: the effect of a failure, to follow the name of what failed.
    """

    def __init__(self, thread: str, seconds: float, lacks: str) -> None:
        self._name = thread
        self._seconds = seconds
        self._lacks = lacks
        self._told: set[str] = set()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; does nothing if it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End after what is under way; does not wait for it."""
        self._closing.set()

    @property
    def is_closing(self) -> bool:
        """Whether a round should end early."""
        return self._closing.is_set()

    @abstractmethod
    def round(self) -> None:
        """One round; what is not inside of :meth:`guarded` and raises ends the thread."""

    @contextmanager
    def guarded(self, name: str) -> Iterator[None]:
        """The boundary of one step beside a query: a failure is reported once, until a step of this name succeeds; no
        query is touched, and the round goes on. The text of what is no condition may hold secrets: its type is told."""
        try:
            yield
        except DsError as problem:
            self._tell(name, str(problem))
        except Exception as problem:  # noqa: BLE001 - the boundary of one step; the query runs on
            self._tell(name, type(problem).__name__)
        else:
            self._told.discard(name)

    def _tell(self, name: str, text: str) -> None:
        if name not in self._told:
            self._told.add(name)
            _LOG.warning("%s: %s: %s", name, self._lacks, text)

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            self.round()
