"""What every test gets: a mark that says what it costs, from its folder where it names none itself."""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ds_dagster.testing.short_lived import JAVA_OPTIONS
from tests import driven

if TYPE_CHECKING:
    from ds_dagster.local.addresses import LocalAddresses

os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
"""Of the drivers that tests and their child processes start; detached engines have it from ``tests.engines``."""
os.environ.setdefault("DS_KAFKA_OPTIONS", "-XX:TieredStopAtLevel=1")
"""Of the brokers: they start in half of the processor time."""

COSTS = ("spark", "servers", "cases", "conformance", "e2e", "browser", "slow")
NAMED = frozenset(COSTS) - {"slow"}
"""Marks that the file of a test names, or a conftest.py near it."""
FOLDERS = {"spark": "spark", "conformance": "conformance", "e2e": "e2e", "browser": "browser"}
"""Folder below tests/ → mark of every test in it."""
LONG_CASES = "long"
"""Folder of cases that the long tier runs."""
_ONE_OF = re.compile(r"\(?(\w+(?: or \w+)*)\)?(?: and not (?:\w+|\(\w+(?: or \w+)*\)))?")
"""An expression of marks that names all its tests before ``and not``."""
ONE_FOLDER = ("conformance", "e2e", "browser")
"""Marks whose tier looks for tests in the folder of that name alone (scripts/tiers.py)."""


def pytest_configure(config: pytest.Config) -> None:
    """Thousands of tests and syntax trees stay: with Python's own thresholds the cycle collector takes a tenth of the
    unit tier's time to look at them. Where Spark runs, Java's memory waits for what is collected here."""
    if config.getoption("markexpr").startswith("unit"):
        gc.set_threshold(100_000, 50, 100)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A tier imports the files only that name one of its marks, or are in the folder of one: to import all tests takes
    as long as twenty seconds of tests, in each process."""
    wanted = marks_of(config.getoption("markexpr"))
    if not wanted or not collection_path.match("test_*.py"):
        return None
    folder = FOLDERS.get(next(iter(_below(collection_path)), ""))
    return None if folder in wanted or not wanted.isdisjoint(_named(collection_path)) else True


def marks_of(expression: str) -> frozenset[str]:
    """The costs of which a test has to have one, by an expression like ``(spark or servers) and not slow``; empty for
    an expression of another form, and for the tests without a mark."""
    form = _ONE_OF.fullmatch(expression)
    names = frozenset(form[1].split(" or ")) if form else frozenset()
    return names if names <= NAMED else frozenset()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, files that share the project of the end-to-end tests go to one process: in each process
    it has servers and an engine of its own, twenty seconds of processor time. The groups of pytest-xdist 3.8 have no
    effect with pytest 9."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduler: Any = import_module("xdist.scheduler").LoadFileScheduling(config, log)  # without types
    file_of = scheduler._split_scope

    def scope(nodeid: str) -> str:
        file = str(file_of(nodeid))
        return "house" if _shares_house(config.rootpath / file) else file

    scheduler._split_scope = scope
    return scheduler


@cache
def _shares_house(path: Path) -> bool:
    """Whether tests of a file ask for the project that ``tests/e2e/conftest.py`` makes for a whole process."""
    text = path.read_text("utf-8") if _below(path)[:1] == ("e2e",) else ""
    return "house: House" in text and "def house(" not in text


@cache
def _named(path: Path) -> frozenset[str]:
    """Marks that a file of tests names, or one of the ``conftest.py`` it gets fixtures from."""
    folders = [parent for parent in path.parents if parent.is_relative_to(Path(__file__).parent)]
    files = [path, *(file for folder in folders if (file := folder / "conftest.py").is_file())]
    return frozenset(name for file in files for name in re.findall(r"\bmark\.(\w+)", file.read_text("utf-8")))


def _below(path: Path) -> tuple[str, ...]:
    """Folders and name of a file below tests/; empty elsewhere."""
    root = Path(__file__).parent
    return path.relative_to(root).parts if path.is_relative_to(root) else ()


@pytest.fixture(scope="session")
def local_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalAddresses]]:
    """Starts the named servers when they are asked for the first time; all files of this process share them. A broker
    that waits takes two percent of a processor until the session ends: a test that stops servers has its own, and ends
    them."""
    from ds_dagster.local.servers import down, up

    state = tmp_path_factory.mktemp("servers")

    def running(*names: str) -> LocalAddresses:
        return up(state, only=names)

    yield running
    down(state)


def lend(project: Path, addresses: LocalAddresses) -> None:
    """Write the overlay that ``ds up`` would write into a project, of the servers that all files share."""
    from ds_dagster.local.overlay import write_overlay
    from ds_dagster.local.postgres import password_file

    state = project / ".ds"
    state.mkdir(exist_ok=True)
    if addresses.postgres_password_file:
        secret = password_file(state)
        secret.parent.mkdir(exist_ok=True)
        shutil.copy(addresses.postgres_password_file, secret)
    write_overlay(state, addresses)


@pytest.fixture(autouse=True)
def _no_checkpoints() -> None:
    driven.forget()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        below = _below(item.path)
        if item.path.name.endswith(".case.yaml"):
            item.add_marker("cases")
            if LONG_CASES in below:
                item.add_marker("slow")
        elif hidden := {mark for mark in NAMED if item.get_closest_marker(mark)} - _named(item.path):
            raise pytest.UsageError(f"{item.nodeid}: neither its file nor a conftest.py names its mark {hidden.pop()}")
        elif below and below[0] in FOLDERS:
            item.add_marker(FOLDERS[below[0]])
        strays = [mark for mark in ONE_FOLDER if item.get_closest_marker(mark) and mark not in below]
        if strays and not item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid} is marked {strays[0]} and is not below tests/{strays[0]}")
        if not any(item.get_closest_marker(cost) for cost in COSTS):
            item.add_marker("unit")
