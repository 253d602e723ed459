"""The class archive: what a Spark driver's JVM loads, parsed and verified once (Java's class-data sharing).

Half of the processor time in which an engine starts goes into classes. With an archive in the cache every driver maps
them instead; without one, or with one that Java refuses because a jar has changed, it starts as usual. Measured in
``docs/performance.md``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.jars import Progress, cache_folder, driver_jars, file_lock, java_command, pyspark_home

RECORDER = "ds_dagster.testing.recording"
"""Module that runs every operator once in a driver and leaves the archive behind."""

RECORD_SECONDS = 300.0
KEPT = 3
"""Number of archives of other versions that are not deleted (about 190 MB each)."""


def location(jars: Sequence[Path]) -> Path:
    """Path of the archive for this Java, this Spark and these jars, whether it exists or not. Its name is a hash of
    their paths, sizes and times, since Java accepts an archive only for the same files at the same paths.

    Raises:
        UserError: JAVA_MISSING, JAVA_TOO_OLD, PYSPARK_MISSING.
    """
    java = Path(java_command()).resolve()
    parts = [java, pyspark_home() / "jars", *jars]
    facts = [f"{path} {(stat := path.stat()).st_size} {stat.st_mtime_ns}" for path in parts]
    return cache_folder() / "classes" / f"{hashlib.sha256(chr(10).join(facts).encode()).hexdigest()[:16]}.jsa"


def java_options(jars: Sequence[Path]) -> str:
    """Options of a driver's JVM that use the archive; empty without one."""
    if not all(jar.is_file() for jar in jars):
        return ""
    archive = location(jars)
    return (
        f'-XX:SharedArchiveFile="{archive}" -Xshare:auto -Xlog:disable -Xlog:all=error:stderr'
        if archive.is_file()
        else ""
    )


def record(progress: Progress, *, jars: Sequence[Path] | None = None) -> Path:
    """Make the archive unless it is there; takes about a minute.

    Raises:
        ExternalError: CLASS_ARCHIVE_FAILED; what :func:`ds_dagster.jars.driver_jars` and :func:`location` raise.
    """
    jars = driver_jars() if jars is None else jars
    target = location(jars)
    with file_lock(target.parent / "record.lock"):
        if not target.is_file():
            progress("recording the classes that Spark loads, so that engines start faster (about a minute)")
            _record(target)
            _remove_old(target)
            progress("recorded the classes")
    return target


def _record(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".record-") as folder:
        archive = Path(folder, target.name)
        command = [sys.executable, "-m", RECORDER, str(archive)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=RECORD_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as problem:
            raise error("CLASS_ARCHIVE_FAILED", detail=f"not done after {RECORD_SECONDS:.0f} s") from problem
        if done.returncode or not archive.is_file():
            raise error("CLASS_ARCHIVE_FAILED", detail=(done.stdout + done.stderr).strip()[-4000:])
        archive.replace(target)


def _remove_old(newest: Path) -> None:
    others = sorted((p for p in newest.parent.glob("*.jsa") if p != newest), key=os.path.getmtime, reverse=True)
    for path in others[KEPT:]:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.stdout.write(f"{record(lambda line: None)}\n")  # noqa: ARG005, only the path is printed
