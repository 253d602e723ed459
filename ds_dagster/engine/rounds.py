"""A thread of the engine that repeats one task next to the queries."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from ds_dagster.errors import DsError

_LOG = logging.getLogger(__name__)


class Rounds(ABC):
    """Calls :meth:`round` in a daemon thread; each task is a subclass.

    Args:
        thread: name of the thread.
        seconds: pause between two rounds.
        lacks: effect of a failure; the log shows it after the name of the failed step.
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
        """End the thread after the current step; does not wait for it."""
        self._closing.set()

    @property
    def is_closing(self) -> bool:
        """Whether a round should end early."""
        return self._closing.is_set()

    @abstractmethod
    def round(self) -> None:
        """One round. An exception outside of :meth:`guarded` ends the thread."""

    @contextmanager
    def guarded(self, name: str) -> Iterator[None]:
        """The boundary of one step: a failure is logged once, until a step of this name succeeds; queries are not
        affected, and the round goes on. The text of an exception that is not a condition may hold secrets, so only its
        type is logged."""
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
