"""Run the test tiers, each with pytest's own summary; fails when one fails or holds no test.

Usage: python scripts/tiers.py [TIER…] [-- pytest arguments]        without names: all but the long tier

A test belongs to the dearest tier its marks name (see the markers in pyproject.toml). A whole tier leaves its times in
``.cache/tiers`` (JUnit XML, and the processor time of its processes), of which scripts/tier_times.py makes the table of
docs/testing.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO, NamedTuple

ROOT = Path(__file__).parent.parent
TESTS_FAILED, NO_TESTS = 1, 5  # pytest's exit codes
RECORDS = ROOT / ".cache" / "tiers"
"""Files named like their tier: what the last whole run of it took, ``.xml`` by test and ``.cpu`` in processor time."""
MEMORY = Path("/dev/shm")
ROOM = 14 << 30
"""Free memory, in bytes, with which a tier keeps temporary files in it, or runs beside another one."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Tier(NamedTuple):
    """One tier: pytest's mark expression, further arguments, and what runs a second time when tests failed (``tests``,
    or the whole ``files`` where tests build on those before them): those with processes of their own may meet a
    machine that is slow for a moment. A second run is told, never silent."""

    marks: str
    arguments: tuple[str, ...] = ()
    second_run: str = "tests"


TESTS = ROOT / "tests"


def without(*folders: str) -> tuple[str, ...]:
    """Arguments that leave out folders below tests/ which hold tests of dearer tiers only: to import them takes as long
    as half a minute of tests."""
    return tuple(f"--ignore={TESTS / folder}" for folder in folders)


def only(folder: str) -> tuple[str, ...]:
    """Arguments that leave out everything below tests/ but this folder."""
    return without(*(path.name for path in sorted(TESTS.iterdir()) if path.name not in (folder, "conftest.py")))


SIDE_BY_SIDE = ("-n", "2", "--dist", "worksteal")
"""Tests that share nothing."""
BY_FILE = ("-n", "2", "--dist", "loadfile")
"""The tests of a file share what is dear to set up. They wait for batches half of the time; each side has servers and a
session of its own."""
ONE_FOLDER = ("conformance", "e2e", "browser")
"""Tiers whose tests are below the folder of their name, as tests/conftest.py makes sure."""
UNIT = without("spark", "cases", *ONE_FOLDER)
"""Arguments of the tiers of unit tests."""
TIERS: dict[str, Tier] = {
    "fast": Tier("unit and not sweep", (*SIDE_BY_SIDE, *UNIT), second_run=""),
    # one process: to collect the tests takes a tenth of the tier's processor time
    "unit": Tier("unit", UNIT, second_run=""),
    "spark": Tier(
        "(spark or servers or conformance) and not (cases or e2e or browser or slow)",
        (*BY_FILE, *without("cases", "e2e", "browser")),
    ),
    # one process: what a second JVM takes until its code is compiled is a twentieth of the tier's processor time
    "cases": Tier("cases and not (conformance or e2e or browser or slow)", without(*ONE_FOLDER)),
    "conformance": Tier("conformance and not (e2e or browser or slow)", (*BY_FILE, *only("conformance"))),
    "e2e": Tier("e2e and not (browser or slow)", (*BY_FILE, *only("e2e")), second_run="files"),
    "browser": Tier("browser and not slow", only("browser"), second_run="files"),
    "long": Tier("slow", second_run="files"),
}
STANDARD = tuple(name for name in TIERS if name not in ("fast", "conformance", "long"))
"""What runs without names. The spark tier holds the tests of the conformance tier, so that both share sessions and
servers: a JVM of its own is as dear as thirty seconds of tests."""


class Track(NamedTuple):
    """Tiers that run one after the other.

    Attributes:
        tiers: their names.
        room: free memory, in bytes, with which the track runs next to those before it in :data:`TRACKS`; with less its
            tiers run in turn with those.
    """

    tiers: tuple[str, ...]
    room: int


TRACKS = (
    # two of them at a time made local servers drop connections: on two cores they compete for all of the processors
    Track(("spark", "conformance", "e2e", "browser"), 0),
    # cases compute and wait for nobody, in one process
    Track(("cases", "unit"), ROOM),
)
WITHOUT_JAVA = ("fast", "unit")
"""Tiers that start no engine, no session and no broker, or few of them."""
PRIORITIES = {"cases": 3, "unit": 19}
"""Tiers that run at another priority than 0 next to others; 19 is the lowest."""


INSTALLING = Lock()


def ensure_browser() -> str:
    """Why the browser tier cannot run, empty when it can; root on Debian gets the browser installed."""
    with INSTALLING:
        if any(map(shutil.which, BROWSERS)):
            return ""
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            return "no Chromium on the path (Debian: apt-get install chromium)"
        say("installing chromium with apt-get")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ["apt-get", "update", "-q"],
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"],
        ):
            done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
            if done.returncode:
                return f"`{' '.join(command)}` failed"
        return ""


class Result(NamedTuple):
    """What became of a tier: ``passed``, ``second run`` (passed then), ``failed``, ``empty`` or ``skipped: reason``."""

    name: str
    outcome: str
    seconds: float


def prepare(names: Sequence[str]) -> None:
    """Fetch, build and record what is missing since ``make setup``: a changed Java source needs another archive of
    classes, and other checkouts may have removed this one's. Without it each driver takes 5 seconds of processor time
    more."""
    if set(names) <= set(WITHOUT_JAVA):
        return
    script = str(ROOT / "scripts" / "prepare.py")
    if subprocess.run([sys.executable, script], cwd=ROOT, check=False).returncode:
        say("preparing failed: tests that need what is missing say so")


def run_all(names: Sequence[str], extra: list[str]) -> list[Result]:
    """The tracks, next to each other as far as there is memory for them; the output of all but one follows at the
    end."""
    tracks = [(track, [name for name in track.tiers if name in names]) for track in TRACKS]
    free = _available()
    beside = [chosen for track, chosen in tracks if chosen and free > track.room][1:]
    waiting = [name for name in names if not any(name in chosen for chosen in beside)]
    with ThreadPoolExecutor(len(TRACKS) + 1) as pool, ExitStack() as outputs:
        if "browser" in names:
            pool.submit(ensure_browser)  # before its tier, which waits for the rest of it
        begun: list[tuple[Future[list[Result]], IO[str]]] = []
        for chosen in beside:
            say(f"=== {', '.join(chosen)}: next to the other tiers, the output follows at the end")
            output = outputs.enter_context(tempfile.TemporaryFile("w+"))
            begun.append((pool.submit(_one_after_the_other, chosen, extra, output), output))
        results = _one_after_the_other(waiting, extra)
        for future, output in begun:
            results += future.result()
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout)
    return results


def _one_after_the_other(names: Sequence[str], extra: list[str], output: IO[str] | None = None) -> list[Result]:
    return [run(name, extra, output, 0 if output is None else PRIORITIES.get(name, 0)) for name in names]


def run(name: str, extra: list[str], output: IO[str] | None = None, nice: int = 0) -> Result:
    """Run one tier; ``output``: where pytest's goes instead of here, ``nice``: its priority."""
    start = time.monotonic()
    outcome = _outcome(name, extra, output, nice)
    return Result(name, outcome, time.monotonic() - start)


def _outcome(name: str, extra: list[str], output: IO[str] | None, nice: int) -> str:
    reason = ensure_browser() if name == "browser" else ""
    if reason:
        say(f"browser tier: {reason}")
        return "failed" if os.environ.get("CI") else f"skipped: {reason}"
    tier = TIERS[name]
    say(f"=== tier {name}: pytest -m '{tier.marks}'")
    cache = f".pytest_cache/{name}"
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "-m", tier.marks]
    command = [*(["nice", "-n", str(nice)] if nice else []), *command, *tier.arguments, *extra]
    record = [] if extra else [f"--junit-xml={RECORDS / name}.xml"]
    counted = [] if extra else [sys.executable, str(ROOT / "scripts" / "counted.py"), f"{RECORDS / name}.cpu"]
    with surroundings() as environment:
        first = [*counted, *command, *record]
        code = subprocess.run(first, cwd=ROOT, env=environment, stdout=output, check=False).returncode
        if code == TESTS_FAILED and tier.second_run:
            say(f"=== tier {name}: what failed runs once more")
            again = [*command, *_what_failed(tier.second_run, cache)]
            if subprocess.run(again, cwd=ROOT, env=environment, stdout=output, check=False).returncode == 0:
                return "second run"
    return {0: "passed", NO_TESTS: "empty"}.get(code, "failed")


@contextmanager
def surroundings() -> Iterator[Mapping[str, str]]:
    """The environment of one tier. Python keeps the byte code of the tests and of the package, also where the machine
    says otherwise: hundreds of processes import them. Temporary files are in memory where there is much of it:
    databases and checkpoints force every commit to the disk."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if "TMPDIR" in environment or not _has_room(MEMORY):
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="ds-tier-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield environment | {"TMPDIR": folder}


@cache
def _has_room(folder: Path) -> bool:
    """Whether files of tiers fit, beside the memory that their processes need; asked before they need any."""
    if not folder.is_dir() or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return min(_available(), shutil.disk_usage(folder).free) > ROOM


def _available() -> int:
    """Memory that processes may take, in bytes; 0 where the machine does not say."""
    figures = Path("/proc/meminfo")
    found = re.search(r"(?m)^MemAvailable: +(\d+) kB", figures.read_text()) if figures.exists() else None
    return int(found[1]) * 1024 if found else 0


def main(arguments: list[str]) -> int:
    """Run the named tiers and print what became of each."""
    names, extra = _split(arguments)
    unknown = [name for name in names if name not in TIERS]
    if unknown:
        say(f"no tier {', '.join(unknown)}; known: {', '.join(TIERS)}")
        return 2
    start = time.monotonic()
    prepare(names or STANDARD)
    results = run_all(names or STANDARD, extra)
    for result in results:
        say(f"{result.name:12} {result.outcome:10} {result.seconds:6.0f} s")
    say(f"{'all':12} {'':10} {time.monotonic() - start:6.0f} s")
    return int(any(result.outcome in ("failed", "empty") for result in results))


def _what_failed(unit: str, cache: str) -> list[str]:
    """Arguments for pytest that choose the tests that failed in the last run, or their files."""
    if unit == "tests":
        return ["--last-failed", "--last-failed-no-failures=none"]
    failed = json.loads((ROOT / cache / "v/cache/lastfailed").read_text())
    return sorted({file for test in failed if (ROOT / (file := test.partition("::")[0])).exists()})


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:cut], arguments[cut + 1 :]


def say(line: str) -> None:
    """One line for a person."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
