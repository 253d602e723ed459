"""Files of a running project under its state folder, named in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.names import file_name
from ds_dagster.settings import Settings


@dataclass(frozen=True, slots=True)
class Places:
    """Paths of one engine. ``state``: the state folder of the settings; ``pool``: compute pool of the engine, empty for
    the project's own engine."""

    state: Path
    pool: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Places:
        """The places of a project."""
        return cls(settings.state, settings.pool)

    @property
    def python_lock(self) -> Path:
        """Held by the engine's Python."""
        return self._locks / "python.lock"

    @property
    def jvm_lock(self) -> Path:
        """Held by the engine's JVM."""
        return self._locks / "jvm.lock"

    @property
    def start_lock(self) -> Path:
        """Held by the process that starts an engine, so that several starters start only one."""
        return self._locks / "start.lock"

    @property
    def logs(self) -> Path:
        """Folder of all logs."""
        return self.state / "logs"

    @property
    def engine_log(self) -> Path:
        """Log of the engine."""
        return self.logs / f"{self._log_name}.log"

    @property
    def engine_output(self) -> Path:
        """Standard output and error of a detached engine and its JVM."""
        return self.logs / f"{self._log_name}.out"

    @property
    def checkpoints(self) -> Path:
        """Folder of all checkpoints."""
        return self.state / "checkpoints"

    def pool_locks(self) -> Sequence[Path]:
        """Lock files of the Python processes of all pools' engines that ever ran here."""
        return sorted((self.state / "engine" / "pools").glob("*/python.lock"))

    def job_log(self, name: str) -> Path:
        """Log of one job."""
        return self.logs / "jobs" / f"{file_name(name)}.log"

    @property
    def _locks(self) -> Path:
        folder = self.state / "engine"
        return folder / "pools" / file_name(self.pool) if self.pool else folder

    @property
    def _log_name(self) -> str:
        return f"engine-{file_name(self.pool)}" if self.pool else "engine"
