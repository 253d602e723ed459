"""What a repository of people for people does not hold: paths of one machine, registries, sleeping tests."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from tests.architecture.trees import ROOT, code_of, name_of, nodes_of

MACHINE = re.compile(r"(?<![\w.$}-])/(?:work|root|home|Users)/[\w.]")
"""A path that only exists on somebody's machine."""
REGISTRY = re.compile(
    r"https?://[\w.-]*(?:registry|mirror|nexus|artifactory|jfrog|repo1?|pypi|npmjs|maven|pythonhosted)[\w.-]*",
    re.IGNORECASE,
)
"""A host packages come from; which one is the business of pip's, npm's and Maven's own configuration."""
HELPERS = re.compile(r"\b(issue #?\d+|seed 00\d|Claude|ChatGPT|Copilot|as an AI)\b")
"""Words of how the work was arranged, which a reader of the code has no use for."""
CONFLICT = re.compile(r"^(<{7}|>{7}|\|{7}) |^={7}$")
"""Lines that a merge leaves for somebody to decide."""

MAY_MATCH: Mapping[str, str] = {
    "tests/architecture/test_hygiene.py": "the rules themselves",
    "LICENSE": "not ours to change",
}


@lru_cache(maxsize=1)
def tracked() -> tuple[tuple[str, str], ...]:
    """Path and text of every tracked text file; a plain copy without git is read as it stands."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = (
        listed.stdout.split("\0") if listed.returncode == 0 else [str(p.relative_to(ROOT)) for p in ROOT.rglob("*.*")]
    )
    found = []
    for name in names:
        path = ROOT / name
        if not name or not path.is_file() or name in MAY_MATCH or ".venv" in path.parts:
            continue
        try:
            found.append((name, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue  # a picture, an archive
    return tuple(found)


def hits(pattern: re.Pattern[str]) -> Iterator[str]:
    for name, text in tracked():
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                yield f"{name}:{number}: {line.strip()[:100]}"


@pytest.mark.parametrize(
    "pattern", [MACHINE, REGISTRY, HELPERS, CONFLICT], ids=["machine path", "registry", "arrangement", "conflict"]
)
def test_no_file_names_what_belongs_to_one_place(pattern: re.Pattern[str]) -> None:
    assert not list(hits(pattern))


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (MACHINE, "cd /home/ana/project", True),
        (MACHINE, "'/root/.m2'", True),
        (MACHINE, "url = './home/x'", False),
        (REGISTRY, "https://registry.npmjs.org/x", True),
        (CONFLICT, ">" * 7 + " main", True),
        (CONFLICT, "=" * 7, True),
        (CONFLICT, "=" * 8, False),
        (REGISTRY, "see https://kafka.apache.org/documentation", False),
    ],
)
def test_the_rules_see_what_they_forbid(pattern: re.Pattern[str], line: str, found: bool) -> None:
    assert bool(pattern.search(line)) == found


def test_no_secret_looking_text_is_tracked() -> None:
    secret = re.compile(r"(AKIA(?!\w+EXAMPLE)[0-9A-Z]{16}|-----BEGIN (RSA |EC )?PRIVATE KEY|ghp_\w{30}|xox[bp]-\w{10})")
    assert not list(hits(secret))


# --- tests ------------------------------------------------------------------------------------------------------------

SLEEPS: Mapping[str, str] = {
    "tests/runtime/fakes.py": "the deadline helper",
    "tests/runtime/engine_process.py": "a process that is meant to stay",
    "tests/spark/conftest.py": "the deadline helper",
    "tests/spark/jvm/conftest.py": "the deadline helper",
    "tests/local/conftest.py": "the deadline helper",
    "tests/engine/spark_jobs.py": "the deadline helper",
    "tests/spark/jvm/test_jvm_clock.py": "an idle clock: that nothing happens can only be seen by looking for a while",
    "tests/conformance/test_streaming_sinks.py": "two brokers stamp arrival by one wall clock, which has to move",
}
"""Where a test may wait for wall time, and why."""


@lru_cache(maxsize=1)
def python_tests() -> list[tuple[str, ast.Module]]:
    names = [(name, text) for name, text in tracked() if name.startswith("tests/") and name.endswith(".py")]
    return [(name, ast.parse(text)) for name, text in names]


def sleeps(tree: ast.Module) -> Iterator[int]:
    """Lines that wait for a fixed time; inside a ``while`` it is a poll, whose deadline ends it."""
    calls = [node for node in nodes_of(tree) if isinstance(node, ast.Call) and name_of(node) in ("time.sleep", "sleep")]
    loops = [node for node in nodes_of(tree) if isinstance(node, ast.While)] if calls else []
    polled = {id(inner) for loop in loops for inner in ast.walk(loop)}
    yield from (node.lineno for node in calls if id(node) not in polled)


@pytest.mark.sweep
def test_tests_do_not_sleep() -> None:
    assert not [f"{name}:{line}" for name, tree in python_tests() if name not in SLEEPS for line in sleeps(tree)]


def test_a_sleep_would_be_found() -> None:
    assert list(sleeps(code_of("import time\ntime.sleep(1)\n").tree)) == [2]
    assert not list(sleeps(code_of("while not done():\n    time.sleep(0.1)\n").tree))


def test_no_test_is_without_a_check() -> None:
    """A test asserts, expects an exception, or calls a helper that does (told by its verb)."""
    verbs = re.compile(
        r"(assert|check|expect|raises|validate|until|wait|equal|same|compare|refus|verify|must|run|warns)"
    )
    empty = []
    for name, tree in python_tests():
        for node in nodes_of(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                calls = " ".join(name_of(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call))
                if not any(isinstance(inner, ast.Assert) for inner in ast.walk(node)) and not verbs.search(calls):
                    empty.append(f"{name}:{node.lineno} {node.name}")
    assert not empty


def test_no_test_is_skipped_for_good() -> None:
    for name, tree in python_tests():
        for node in nodes_of(tree):
            if isinstance(node, ast.Call) and name_of(node) == "pytest.mark.skip":
                raise AssertionError(f"{name}:{node.lineno} is skipped for good")


def test_marks_are_left_where_they_belong() -> None:
    """``noqa`` and ``type: ignore`` name a rule; what remains to be done is an entry of the tracker, not a comment."""
    bare = re.compile(r"# noqa(?!:)|# type: ignore(?!\[)|\b(TODO|FIXME|HACK)\b")
    assert not [line for line in hits(bare) if line.split(":")[0].endswith((".py", ".java", ".sql", ".sh"))]


def test_the_repository_holds_no_large_file() -> None:
    sizes = {name: Path(ROOT / name).stat().st_size for name, _ in tracked()}
    assert not {name: size for name, size in sizes.items() if size > 400_000}
