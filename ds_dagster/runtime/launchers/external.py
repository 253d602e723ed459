"""The launcher for engines that are started elsewhere (systemd, Kubernetes, a client-mode driver): it starts nothing
and reports a missing engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ds_dagster.clock import Clock
from ds_dagster.errors import error
from ds_dagster.runtime.status import EngineStatus


@dataclass(frozen=True, slots=True)
class ExternalLauncher:
    """Waits and reports."""

    clock: Clock
    name: str = "external"
    shares_host: bool = False

    def for_pool(self, _: str) -> ExternalLauncher:
        """The same launcher: it does not depend on the engine."""
        return self

    def ensure(self, watch: Callable[[], EngineStatus], seconds: float) -> EngineStatus:
        """Wait for the engine. Raises: ExternalError ENGINE_NOT_ANSWERING if no engine answers within ``seconds``."""
        end = self.clock.monotonic() + seconds
        while (status := watch()).state not in ("RUNNING", "STARTING"):
            if self.clock.monotonic() >= end:
                raise error("ENGINE_NOT_ANSWERING", seconds=int(seconds), state=status.state)
            self.clock.sleep(0.25)
        return status
