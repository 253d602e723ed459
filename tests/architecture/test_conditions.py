"""The table of everything that can go wrong: complete, used, tested, and fit to be read by people."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from operator import attrgetter
from typing import Any

import pytest

from ds_dagster import conditions
from ds_dagster.conditions import CONDITIONS, Condition
from ds_dagster.errors import CLASSES, FAULTS, InternalError, error
from tests.architecture.trees import ROOT, modules, texts
from tests.tables import check_every

ALL = tuple(condition for topic in conditions.TOPICS for condition in topic.CONDITIONS)
TESTED_BY = (".py", ".sql", ".yaml", ".java")

PARAMETER = re.compile(r"(?<!\{)\{(\w+)(?:![rs])?\}(?!\})")
PROPER_NAMES = frozenset({"Kafka", "Kinesis", "Postgres", "PySpark", "Spark", "Java", "Dagster", "Python", "Node"})

BETWEEN_OURS = "both sides of it are ours, so only a mixed installation can bring it about"
RARE_SERVER = "needs a server in a state that the local ones cannot be put into"
SLOW_PROCESS = "needs a process that is slower than a limit of half a minute or more"

NOT_TESTED: dict[str, str] = {
    "CLOCK_JSON": BETWEEN_OURS,
    "KAFKA_SINK_OPTION": BETWEEN_OURS,
    "SOURCE_NOT_WRAPPABLE": BETWEEN_OURS,
    "STATE_LAYOUT_UNKNOWN": BETWEEN_OURS,
    "OPERATOR_SETTINGS": BETWEEN_OURS,
    "WEIGHT_NEGATIVE": BETWEEN_OURS,
    "KAFKA_TRANSACTION_TIMEOUT": RARE_SERVER,
    "ENGINE_NOT_STOPPED": SLOW_PROCESS,
    "ENGINE_START_SLOW": SLOW_PROCESS,
    "DEMO_FAILED": "the demo itself is the test; this is what it says when that fails",
    "PRIMITIVE_NEEDS_ONE_COLUMN": "the catalog refuses it before (VALUE_PRIMITIVE); a guard",
}
"""Conditions no test names → why not. May only shrink."""


@lru_cache(maxsize=1)
def raised() -> frozenset[str]:
    """Names that stand in the package's code (outside the table) or in the Java operators."""
    python = {text.value for module in modules() if module.area != "conditions" for text in texts(module.tree)}
    java = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "jvm").rglob("*.java"))
    return frozenset(name for name in CONDITIONS if name in python or f'"{name}"' in java)


@lru_cache(maxsize=1)
def named_by_tests() -> frozenset[str]:
    """Names that stand in a test or a fixture, outside this folder."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in TESTED_BY and path.is_file() and "architecture" not in path.parts:
            found.update(re.findall(r"\b[A-Z][A-Z0-9_]{4,}\b", path.read_text(encoding="utf-8")))
    return frozenset(found & set(CONDITIONS))


def test_names_are_unique() -> None:
    assert not [name for name, count in Counter(condition.name for condition in ALL).items() if count > 1]


def test_every_topic_file_is_in_the_table() -> None:
    files = {path.stem for path in (ROOT / "ds_dagster" / "conditions").rglob("*.py")} - {"__init__", "base"}
    assert files == {topic.__name__.rpartition(".")[2] for topic in conditions.TOPICS}


def test_every_kind_has_a_class_and_a_fault() -> None:
    kinds = {condition.kind for condition in ALL}
    assert kinds == set(CLASSES) == set(FAULTS)
    assert issubclass(CLASSES["internal"], InternalError)


def test_texts_are_fit_to_be_read() -> None:
    check_every(ALL, fit_to_be_read, name=attrgetter("name"))


def fit_to_be_read(condition: Condition) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", condition.name)
    first = condition.message.split(" ")[0].strip("`'\",:")
    assert first in PROPER_NAMES or not first[:2].istitle(), f"begins in lower case: {condition.message}"
    assert not condition.message.endswith("."), "a message has no full stop"
    assert "\n" not in condition.message + condition.hint
    assert condition.hint or condition.kind == "internal", "a hint that can be acted on"
    assert not re.search(r"\b(error occurred|something went wrong|oops)\b", condition.message + condition.hint)


def test_texts_render_with_their_own_parameters() -> None:
    check_every(ALL, renders_with_its_own_parameters, name=attrgetter("name"))


def renders_with_its_own_parameters(condition: Condition) -> None:
    names = set(PARAMETER.findall(condition.message + condition.hint))
    given: dict[str, Any] = dict.fromkeys(names, "x")
    problem = error(condition.name, **given)
    shown = (problem.message + problem.hint).replace("${", "")
    assert not re.search(r"\{\w+\}", shown), "a parameter that cannot be given"
    assert condition.name in str(problem)


@pytest.mark.parametrize("topic", [conditions.stores, conditions.secret, conditions.registry, conditions.spark])
def test_hints_of_external_failures_say_that_the_job_is_retried(topic: Any) -> None:
    """The other kinds are not: a job that met one is FAILED, and `ds ps` says so."""
    external = [condition for condition in topic.CONDITIONS if condition.kind == "external"]
    assert external
    assert not [found.name for found in external if not re.search(r"retried|retries|restarts", found.hint)]


def test_every_condition_is_raised_somewhere() -> None:
    assert not set(CONDITIONS) - raised()


def test_every_condition_is_raised_by_a_test() -> None:
    missing = set(CONDITIONS) - named_by_tests() - set(NOT_TESTED)
    assert not missing, f"no test names {sorted(missing)}"


def test_the_list_of_untested_conditions_only_shrinks() -> None:
    assert not set(NOT_TESTED) & named_by_tests(), "remove them from NOT_TESTED"
    assert set(NOT_TESTED) <= set(CONDITIONS)
