"""Class archives: the classes that a Java program loads, parsed and verified once (Java's class-data sharing).

Half of the processor time in which an engine or a broker starts goes into classes. With an archive in the cache each
start maps them instead; without one, or with one that Java refuses because a jar has changed, the program starts as
usual. Measured in ``docs/performance.md``.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.jars import Progress, cache_folder, driver_jars, file_lock, java_command, pyspark_home, resolve

RECORD_SECONDS = 900.0
KEPT = 3
"""Number of archives of other versions that are not deleted, for each program."""


@dataclass(frozen=True, slots=True)
class Program:
    """A Java program with an archive.

    Attributes:
        folder: of its archives, below the cache's folder ``classes``; empty: that folder itself.
        recorder: module that runs the program once and writes the archive into the file of its argument.
        jars: returns its class path; fetches or builds what is missing.
        loads, takes: texts of the progress: who loads the classes, how long recording takes.
    """

    folder: str
    recorder: str
    jars: Callable[[Progress], Sequence[Path]]
    loads: str
    takes: str


DRIVER = Program("", "ds_dagster.testing.recording", driver_jars, "Spark", "about a minute")
"""A Spark driver; its archive has 190 MB."""
BROKER = Program(
    "broker",
    "ds_dagster.local.recording",
    lambda progress: resolve("kafka-broker", progress),
    "the local Kafka broker",
    "about ten seconds",
)
"""The broker that ``ds up`` starts; its archive has 50 MB."""


def location(jars: Sequence[Path], program: Program = DRIVER) -> Path:
    """Path of the archive for this Java, this Spark and these jars, whether it exists or not. Its name is a hash of
    their paths, sizes and times, since Java accepts an archive only for the same files at the same paths.

    Raises:
        UserError: JAVA_MISSING, JAVA_TOO_OLD, PYSPARK_MISSING.
    """
    java = Path(java_command()).resolve()
    parts = [java, pyspark_home() / "jars", *jars]
    facts = [f"{path} {(stat := path.stat()).st_size} {stat.st_mtime_ns}" for path in parts]
    name = hashlib.sha256(chr(10).join(facts).encode()).hexdigest()[:16]
    return cache_folder() / "classes" / program.folder / f"{name}.jsa"


def java_options(jars: Sequence[Path], program: Program = DRIVER) -> str:
    """Options of the program's JVM that use the archive; empty without one."""
    if not all(jar.is_file() for jar in jars):
        return ""
    archive = location(jars, program)
    return (
        f'-XX:SharedArchiveFile="{archive}" -Xshare:auto -Xlog:disable -Xlog:all=error:stderr'
        if archive.is_file()
        else ""
    )


def record(progress: Progress, program: Program = DRIVER, *, jars: Sequence[Path] | None = None) -> Path:
    """Make the archive unless it exists.

    Raises:
        ExternalError: CLASS_ARCHIVE_FAILED; what ``program.jars`` and :func:`location` raise.
    """
    jars = program.jars(progress) if jars is None else jars
    target = location(jars, program)
    with file_lock(target.parent / "record.lock"):
        if not target.is_file():
            progress(f"recording the classes that {program.loads} loads, so that it starts faster ({program.takes})")
            _record(target, program)
            _remove_old(target)
            progress(f"recorded the classes of {program.loads}")
    return target


def _record(target: Path, program: Program) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".record-") as folder:
        archive = Path(folder, target.name)
        with subprocess.Popen(
            [sys.executable, "-m", program.recorder, str(archive)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as recorder:
            try:
                output, _ = recorder.communicate(timeout=RECORD_SECONDS)
            except subprocess.TimeoutExpired as problem:
                raise error("CLASS_ARCHIVE_FAILED", detail=f"not done after {RECORD_SECONDS:.0f} s") from problem
            finally:
                _end_group(recorder)
        if recorder.returncode or not archive.is_file():
            raise error("CLASS_ARCHIVE_FAILED", detail=output.strip()[-4000:])
        archive.replace(target)


def _end_group(recorder: subprocess.Popen[str]) -> None:
    """End what is left of a recorder and of the programs that it has started: a JVM outlives its Python."""
    with suppress(ProcessLookupError):
        os.killpg(recorder.pid, signal.SIGKILL)


def _remove_old(newest: Path) -> None:
    others = sorted((p for p in newest.parent.glob("*.jsa") if p != newest), key=os.path.getmtime, reverse=True)
    for path in others[KEPT:]:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.stdout.write(f"{record(lambda line: None)}\n")  # noqa: ARG005, only the path is printed
