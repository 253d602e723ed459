"""Checks of this machine for ``ds doctor``: what is installed, missing or too old.

Each check returns its :class:`Fact` records; none changes, fetches or raises anything. The list :data:`CHECKS` gives
the order.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.class_archive import BROKER, location
from ds_dagster.errors import DsError
from ds_dagster.jars import (
    built_operator_jar,
    cache_folder,
    is_resolved,
    java_command,
    java_version,
    locked_sets,
    operator_sources,
    resolve,
    set_folder,
)
from ds_dagster.local.kinesis import find_node, installed_folder
from ds_dagster.local.postgres import find_binaries, server_version
from ds_dagster.local.servers import status
from ds_dagster.version import __version__

PYTHON_NEEDED = (3, 10)
DISK_BYTES = 3 * 1024**3
MEMORY_BYTES = 2 * 1024**3
CLOCK_SECONDS = 2.0
OLDEST_YEAR = 2025
OPTIONAL_SETS = ("ecj", "s3a", "spark-compile")
DISTRIBUTION = "ds-dagster"


@dataclass(frozen=True, slots=True)
class Fact:
    """Result of one check.

    Attributes:
        name: of the checked thing.
        ok: whether it is as required.
        found: its version or state, as text.
        fix: what to do; empty when ok.
    """

    name: str
    ok: bool
    found: str
    fix: str = ""


def examine(state: Path) -> tuple[Fact, ...]:
    """All facts about this machine, this environment and a project's state folder (which need not exist)."""
    return tuple(fact for check in CHECKS for fact in check(state.absolute()))


def _python(_state: Path) -> list[Fact]:
    version = ".".join(map(str, sys.version_info[:3]))
    needed = ".".join(map(str, PYTHON_NEEDED))
    ok = sys.version_info[:2] >= PYTHON_NEEDED
    return [Fact("python", ok, f"{version} at {sys.prefix}", "" if ok else f"use Python {needed} or newer")]


def _packages(_state: Path) -> list[Fact]:
    """Compare the environment with this package's requirements; extras are checked only if they are installed."""
    try:
        wanted = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return [Fact("packages", False, f"{DISTRIBUTION} is not installed", "pip install ds-dagster")]
    wrong = [text for text in map(_unmet, wanted) if text]
    fix = "pip install --upgrade ds-dagster, in an environment of its own" if wrong else ""
    return [Fact("packages", not wrong, ", ".join(wrong) or f"{DISTRIBUTION} {__version__} and what it needs", fix)]


def _unmet(requirement: str) -> str:
    """``name version, needs …`` if an installed or required distribution does not fit; empty if it does."""
    head, _, marker = requirement.partition(";")
    match = re.match(r"\s*([\w.\-]+)(?:\[[^]]*])?\s*\(?([^)]*)\)?\s*$", head)
    if match is None or "python_version" in marker:
        return ""
    name, bounds = match.group(1), match.group(2).strip()
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "" if "extra ==" in marker else f"{name} is missing, needs {bounds or 'any'}"
    fits = all(_fits(version, bound.strip()) for bound in bounds.split(",") if bound.strip())
    return "" if fits else f"{name} {version}, needs {bounds}"


def _fits(version: str, bound: str) -> bool:
    match = re.match(r"(==|>=|<=|<|>|!=|~=)\s*(.+)", bound)
    if match is None:
        return True
    operator, have, want = match.group(1), _release(version), _release(match.group(2))
    have, want = (part + (0,) * (4 - len(part)) for part in (have, want))
    return {
        "==": have == want,
        "!=": have != want,
        ">=": have >= want,
        "<=": have <= want,
        "<": have < want,
        ">": have > want,
        "~=": have >= want,
    }[operator]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:4])


def _java(_state: Path) -> list[Fact]:
    try:
        path = java_command()
        return [Fact("java", True, f"{java_version(path)} at {path}")]
    except DsError as problem:
        return [Fact("java", False, problem.message, problem.hint)]


def _jars(_state: Path) -> list[Fact]:
    facts = []
    for name, artifacts in locked_sets().items():
        there = is_resolved(name)
        megabytes = sum(artifact.size for artifact in artifacts) / 1e6
        missing = f"not fetched yet ({len(artifacts)} jars, {megabytes:.0f} MB)"
        ok = there or name in OPTIONAL_SETS
        shown = f"{len(artifacts)} jars in {set_folder(name)}" if there else missing
        facts.append(Fact(f"jars {name}", ok, shown, "" if ok else "they are fetched at first use: `ds up`"))
    return facts


def _operators(_state: Path) -> list[Fact]:
    try:
        built = built_operator_jar(operator_sources())
    except DsError as problem:
        return [Fact("operators", False, problem.message, problem.hint)]
    return [Fact("operators", True, str(built or "built at first use"))]


def _classes(_state: Path) -> list[Fact]:
    """The class archives; to have none is not a fault."""
    name = "class archives"
    try:
        built = built_operator_jar(operator_sources())
        of_driver = location((*resolve("spark-kafka"), built)) if built and is_resolved("spark-kafka") else None
        of_broker = location(resolve("kafka-broker"), BROKER) if is_resolved("kafka-broker") else None
    except DsError as problem:
        return [Fact(name, False, problem.message, problem.hint)]
    archives = {"engines": of_driver, "local brokers": of_broker}
    slower = [who for who, archive in archives.items() if archive is None or not archive.is_file()]
    if slower:
        return [Fact(name, True, f"{' and '.join(slower)} start slower; `ds doctor --prepare` records their classes")]
    return [Fact(name, True, ", ".join(str(archive) for archive in archives.values()))]


def _node(_state: Path) -> list[Fact]:
    try:
        node = find_node()
    except DsError as problem:
        return [Fact("node", False, problem.message, problem.hint)]
    there = "installed" if installed_folder().is_dir() else "installed at first use"
    return [Fact("node", True, f"{node.version} at {node.node}; local Kinesis server {there}")]


def _postgres(_state: Path) -> list[Fact]:
    try:
        binaries = find_binaries()
    except DsError as problem:
        return [Fact("postgres", False, problem.message, problem.hint)]
    return [Fact("postgres", True, f"{server_version(binaries)} at {binaries}")]


def _servers(state: Path) -> list[Fact]:
    try:
        statuses = status(state)
    except DsError as problem:
        return [Fact("local servers", False, problem.message, problem.hint)]
    return [
        Fact(
            f"local {server.name}",
            not server.reason,
            f"{server.state}, port {server.port}" + (f": {server.reason}" if server.reason else ""),
            f"`ds up`; logs are in {server.log}" if server.reason else "",
        )
        for server in statuses
        if server.port is not None
    ]


def _clock(state: Path) -> list[Fact]:
    """Compare this machine's clock with the clock that stamps files of the state folder (network disks have their
    own)."""
    try:
        with tempfile.TemporaryFile(dir=_existing(state)) as probe:
            probe.write(b"0")
            probe.flush()
            skew = os.fstat(probe.fileno()).st_mtime - time.time()
    except OSError as problem:
        return [Fact("clock", False, f"{state} cannot be written: {problem}", "give this user the folder")]
    ok = abs(skew) < CLOCK_SECONDS and time.gmtime().tm_year >= OLDEST_YEAR
    shown = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, state folder {skew:+.2f} s"
    return [Fact("clock", ok, shown, "" if ok else "set the clock (NTP), on this machine or on the file server")]


def _disk(state: Path) -> list[Fact]:
    facts = []
    for name, folder in (("disk state", state), ("disk cache", cache_folder())):
        free = shutil.disk_usage(_existing(folder)).free
        ok = free >= DISK_BYTES
        fix = "" if ok else f"free {DISK_BYTES / 1024**3:.0f} GiB, or move it (state setting, DS_CACHE)"
        facts.append(Fact(name, ok, f"{free / 1024**3:.1f} GiB free at {folder}", fix))
    return facts


def _memory(_state: Path) -> list[Fact]:
    free = available_memory()
    if free is None:
        return []
    ok = free >= MEMORY_BYTES
    fix = "" if ok else "end other programs; engine and local Kafka take about 2 GiB"
    return [Fact("memory", ok, f"{free / 1024**3:.1f} GiB available", fix)]


def available_memory() -> int | None:
    """Bytes of memory available to this process on its machine or in its container; None if unknown."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    free = int(match.group(1)) * 1024 if match else None
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except OSError:
        return free
    inside = None if limit == "max" else int(limit) - used
    return min((value for value in (free, inside) if value is not None), default=None)


def total_memory() -> int | None:
    """Bytes of memory of this machine or container; None if unknown."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"MemTotal:\s+(\d+) kB", text)
    whole = int(match.group(1)) * 1024 if match else None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return whole
    return min((size for size in (whole, None if limit == "max" else int(limit)) if size is not None), default=None)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.is_dir())


CHECKS: tuple[Callable[[Path], list[Fact]], ...] = (
    _python,
    _packages,
    _java,
    _jars,
    _operators,
    _classes,
    _node,
    _postgres,
    _servers,
    _clock,
    _disk,
    _memory,
)
"""All checks, in the order in which they are shown."""
