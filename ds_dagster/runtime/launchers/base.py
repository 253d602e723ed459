"""Who makes an engine exist: the protocol of launchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ds_dagster.runtime.status import EngineStatus


class Launcher(Protocol):
    """Reactions to an engine that does not run."""

    @property
    def name(self) -> str:
        """``local`` or ``external``."""

    @property
    def shares_host(self) -> bool:
        """Whether locks and log files of the engine are on this machine."""

    def for_pool(self, pool: str, /) -> Launcher:
        """The same for the engine of a compute pool."""

    def ensure(self, watch: Callable[[], EngineStatus], seconds: float) -> EngineStatus:
        """Make sure an engine runs.

        Args:
            watch: looks at the engine.
            seconds: how long to wait until it is ready; 0 returns after it was started. One that lives and is not
                ready then is not a failure: its state is STARTING.

        Raises:
            DsError: ENGINE_START_FAILED, ENGINE_START_SLOW, ENGINE_NOT_ANSWERING.
        """
