"""The protocol of launchers, which make sure that an engine runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ds_dagster.runtime.status import EngineStatus


class Launcher(Protocol):
    """Reacts when an engine does not run."""

    @property
    def name(self) -> str:
        """``local`` or ``external``."""

    @property
    def shares_host(self) -> bool:
        """Whether locks and log files of the engine are on this machine."""

    def for_pool(self, pool: str, /) -> Launcher:
        """The launcher for the engine of a compute pool."""

    def ensure(self, watch: Callable[[], EngineStatus], seconds: float) -> EngineStatus:
        """Make sure an engine runs.

        Args:
            watch: returns the engine's present status.
            seconds: how long to wait until the engine is ready; 0: return after it was started. An engine that lives
                but is not ready then is not a failure: its state is STARTING.

        Raises:
            DsError: ENGINE_START_FAILED, ENGINE_START_SLOW, ENGINE_NOT_ANSWERING.
        """
