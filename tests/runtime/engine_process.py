"""An engine with a host of no consequence, as a process of its own: ``engine_process.py ROOT [jvm seconds]``.

With seconds, a child plays the JVM: it holds the JVM's lock and lives on for so long when the engine is killed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ds_dagster.errors import DsError
from ds_dagster.figures import Figures
from ds_dagster.runtime.engine import run_engine
from ds_dagster.runtime.host import Errand, HostContext, Observation, StartOrder
from ds_dagster.settings import Settings

JVM = """
import sys, time
from pathlib import Path
from ds_dagster.runtime.processes.locks import FileLock
lock = FileLock(Path(sys.argv[1]))
assert lock.acquire({})
print("held", flush=True)
sys.stdin.read()
time.sleep(float(sys.argv[2]))
"""


class WorkingHost:
    """Every order works at once."""

    def __init__(self, context: HostContext, jvm_seconds: str) -> None:
        self.seen: dict[str, Observation] = {}
        self.jvm: subprocess.Popen[bytes] | None = None
        if jvm_seconds:
            self.jvm = subprocess.Popen(
                [sys.executable, "-c", JVM, str(context.places.jvm_lock), jvm_seconds],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert self.jvm.stdout is not None
            assert self.jvm.stdout.readline() == b"held\n"

    def ready(self) -> bool:
        return True

    def start(self, order: StartOrder) -> None:
        self.seen[order.name] = Observation(order.incarnation, "running", Figures(batch=0))

    def stop(self, name: str) -> None:
        self.seen[name] = Observation(self.seen[name].incarnation, "stopped")

    def fence(self, order: StartOrder) -> None:
        """Nothing is open."""

    def run_errand(self, errand: Errand) -> None:
        """No job here has versions."""

    def errands(self) -> Mapping[str, DsError | None]:
        return {}

    def forget(self, name: str) -> None:
        self.seen.pop(name, None)

    def observe(self) -> Mapping[str, Observation]:
        return dict(self.seen)

    def close(self) -> None:
        if self.jvm is not None:
            self.jvm.kill()
            self.jvm.communicate()


def main(arguments: Sequence[str]) -> int:
    root = Path(arguments[0])
    seconds = arguments[1] if len(arguments) > 1 else ""
    settings = Settings(root=root, sql=root / "sql", state=root / ".ds")
    return run_engine(settings, make_host=lambda context: WorkingHost(context, seconds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
