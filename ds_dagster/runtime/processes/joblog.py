"""One log file per job, readable by people, with every secret removed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from ds_dagster.clock import Clock
from ds_dagster.redaction import redact
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.runtime.processes.places import Places

FILE_LIMIT = 5_000_000
"""Size in bytes above which a job's log becomes ``.log.1`` and a new log begins."""

_log = logging.getLogger("ds_dagster.jobs")


@dataclass(frozen=True, slots=True)
class JobLog:
    """Writes lines like ``2026-11-21T07:34:02.123Z INFO RUNNING after 1.2 s: it works``."""

    places: Places
    clock: Clock
    redact: Callable[[str], str] = redact

    def transition(self, moved: Transition, detail: str = "") -> None:
        """Write a transition, with its reason and its condition, if any."""
        text = f"{moved.source} -> {moved.target} after {moved.seconds:.1f} s: {moved.reason}"
        if moved.kind == "shape":
            text = f"{moved.actor} has version {moved.target}"
        if moved.condition:
            text += f" [{moved.condition}] {moved.message}"
        if detail:
            text += "\n" + "\n".join(f"    {line}" for line in detail.splitlines())
        self.line(moved.name, "WARNING" if moved.target in ("FAILED", "BACKING_OFF") else "INFO", text)

    def line(self, name: str, level: str, text: str) -> None:
        """Write one entry. If the log cannot be written (full disk), the job goes on and the engine's log has a
        warning."""
        at = datetime.fromtimestamp(self.clock.now(), tz=timezone.utc).isoformat(timespec="milliseconds")
        entry = f"{at.replace('+00:00', 'Z')} {level} {self.redact(text)}\n"
        path = self.places.job_log(name)
        try:
            _rotate(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(entry)
        except OSError as problem:
            _log.warning("cannot write the log of %s: %s", name, problem)


def _rotate(path: Path) -> None:
    if path.is_file() and path.stat().st_size > FILE_LIMIT:
        path.replace(path.with_suffix(".log.1"))
