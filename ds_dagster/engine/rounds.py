"""A thread of the engine that does one thing again and again beside the queries."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Rounds(ABC):
    """Calls :meth:`round` in a daemon thread; a class for each thing that is done.

    Args:
        thread: its name.
        seconds: pause between two rounds.
    """

    def __init__(self, thread: str, seconds: float) -> None:
        self._name = thread
        self._seconds = seconds
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
        """One round; what it raises ends the thread."""

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            self.round()
