"""Tests live in the folder of what they test, no folder of them is long, and a comparison compares something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import conftest
from tests.architecture.trees import PACKAGE, ROOT
from tests.e2e.model import difference

TESTS = ROOT / "tests"
DATA = ("cases", "fixtures")
"""Folders of SQL and tables, in folders of their own."""
OWN = {
    "architecture": "rules over the package's texts",
    "benchmarks": "the programs of benchmarks/",
    "browser": "a tier",
    "conformance": "a tier",
    "deploy": "the folder deploy/",
    "docs": "the pages of docs/",
    "e2e": "a tier",
    "e2e/changing": "queries of that tier that change while they run",
    "e2e/cluster": "a Spark cluster",
    "e2e/sql": "the statements of that tier",
    "nexmark": "benchmarks/nexmark",
    "scripts": "the programs of scripts/",
    "spark/jvm": "the Java sources of jvm/",
    "spark/jvm/kafka": "their sources of Kafka",
    "spark/jvm/planning": "their rules over plans",
    "spark/records/avro": "one format of spark/records",
    "spark/records/protobuf": "one format of spark/records",
}
"""Folders below tests/ that are no folder of the package, and what they test."""
LONGEST = 20


def folders() -> list[Path]:
    below = [path for path in TESTS.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    return [TESTS, *(path for path in below if path.relative_to(TESTS).parts[0] not in DATA)]


def strays(names: list[str]) -> list[str]:
    """Names of folders that neither the package nor the list has."""
    return [name for name in names if name not in OWN and not (PACKAGE / name).is_dir()]


def test_every_folder_of_tests_is_a_folder_of_the_package_or_listed() -> None:
    names = [path.relative_to(TESTS).as_posix() for path in folders() if list(path.glob("*.py"))]
    assert not strays(names)
    assert not [name for name in OWN if not (TESTS / name).is_dir()], "remove what is not there from the list"


def test_a_stray_folder_would_be_found() -> None:
    assert strays(["stores/kafka", "spark/jvm", "things", "stores/things"]) == ["things", "stores/things"]


def test_no_folder_of_tests_is_long() -> None:
    sizes = {path.relative_to(ROOT).as_posix(): len(list(path.glob("*.py"))) for path in folders()}
    assert not {name: size for name, size in sizes.items() if size > LONGEST}, "give it folders"


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("(spark or servers) and not (cases or slow)", {"spark", "servers"}),
        ("browser and not slow", {"browser"}),
        ("spark and not slow or servers", set()),
        ("spark and not (slow and e2e) or servers", set()),
        ("unit", set()),
        ("slow", set()),
        ("not spark", set()),
        ("", set()),
    ],
)
def test_an_expression_of_marks_leaves_out_no_file_it_may_choose(expression: str, marks: set[str]) -> None:
    assert conftest.marks_of(expression) == marks


def test_a_model_without_rows_is_refused_unless_that_is_known() -> None:
    assert not difference([{"a": 1}], [{"a": 1}])
    assert difference([], [{"a": 1}]).startswith("1 missing, 0 extra")
    for found in ([], [{"a": 1}]):
        with pytest.raises(AssertionError, match="the model expects no row"):
            difference(found, [])
    assert not difference([], [], may_be_empty=True)
    assert difference([{"a": 1}], [], may_be_empty=True).startswith("0 missing, 1 extra")
