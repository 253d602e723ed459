"""Imports point one way: the layer table of the house, held against the syntax trees."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions

import pytest

from tests.architecture.trees import ROOT, Import, Module, code_of, modules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Layer:
    """What an area may import besides the standard library, the base and itself.

    ``ours`` and ``third`` at any time, ``inside`` in functions only, ``typing`` for type checkers only.
    """

    ours: frozenset[str] = frozenset()
    third: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()
    typing: frozenset[str] = frozenset()


def layer(ours: str = "", *, third: str = "", inside: str = "", typing: str = "") -> Layer:
    return Layer(*(frozenset(text.split()) for text in (ours, third, inside, typing)))


DRIVERS = (
    "adbc_driver_manager adbc_driver_postgresql boto3 botocore confluent_kafka cryptography databricks deltalake "
    "google psycopg2 pyarrow snowflake urllib3"
)
COMPILER = "sql catalog functions stores plan project"

PACKAGES_OF_THE_BASE: Mapping[str, Layer] = {
    "settings": layer(third="tomli"),
    "aws_session": layer(inside="boto3 botocore"),
    "places": layer(inside="botocore"),
    "kinesis_aggregates": layer(inside="google"),
    "python_code": layer(inside="pyarrow", typing="pyarrow"),
}
"""File of the base → packages it may import."""
ROOMS: Mapping[str, Layer] = {
    "sql": layer(third="sqlglot"),
    "catalog": layer("sql", third="sqlglot", inside="google", typing="pyarrow"),
    "files": layer(inside="orjson pyarrow", typing="pyarrow"),
    "stores": layer(
        "catalog files", third="sqlglot", inside=f"{DRIVERS} tenacity", typing="confluent_kafka psycopg2 pyarrow"
    ),
    "functions": layer("sql", third="sqlglot", typing="pyspark"),
    "plan": layer("sql catalog functions", third="sqlglot"),
    "project": layer("sql catalog stores plan", third="sqlglot"),
    "observation": layer("catalog project"),
    "spark": layer(
        "catalog files functions plan",
        third="pyspark py4j pyarrow numpy pybase64 sqlglot orjson",
        inside="boto3 botocore urllib3 psycopg2 adbc_driver_manager",
        typing="pyarrow",
    ),
    "runtime": layer("catalog plan project", third="sqlalchemy dotenv", typing="pyspark"),
    "engine": layer(f"{COMPILER} spark runtime", third="pyspark py4j", inside=DRIVERS, typing="pyarrow"),
    "testing": layer(
        f"{COMPILER} spark runtime",
        third="pyspark py4j pyarrow sqlglot yaml pytest _pytest pluggy",
        inside=DRIVERS,
    ),
    "orchestration": layer(
        "sql catalog plan project observation runtime local",
        third="dagster dagster_shared pydantic",
        inside="questions spark_resource adbc_driver_postgresql boto3 confluent_kafka databricks deltalake psycopg2 "
        "snowflake",
        typing="questions dagster_pyspark pyarrow pyspark boto3 confluent_kafka psycopg2 spark_resource",
    ),
    "questions": layer(f"{COMPILER} runtime", third="sqlglot duckdb", inside="pyarrow duckdb", typing="pyarrow duckdb"),
    "editor": layer(f"{COMPILER} questions", third="pygls lsprotocol", inside="questions"),
    "demo": layer(
        "questions cli sql catalog plan project runtime local", inside="boto3 confluent_kafka psycopg2 dagster"
    ),
    "spark_resource": layer(third="dagster_pyspark pydantic", inside="engine"),
    "local": layer(inside="confluent_kafka psycopg2 boto3 botocore"),
    "cli": layer(
        f"{COMPILER} questions observation runtime local testing orchestration demo editor",
        third="click prometheus_client prompt_toolkit sqlglot",
        inside="spark dagster dagster_graphql pytest confluent_kafka boto3 psycopg2",
    ),
    "__init__": layer(typing="orchestration"),
}
"""Area → what it may know. An area is a folder of the package or a file at its top."""
BASE = frozenset(module.area for module in modules()) - set(ROOMS)
"""Everybody may know it, and it knows nothing of the house: whatever has no row above."""
LAYERS: Mapping[str, Layer] = {**dict.fromkeys(sorted(BASE), layer()), **PACKAGES_OF_THE_BASE, **ROOMS}
STARTS_ENGINE = frozenset({"runtime/backfill.py", "runtime/control.py", "runtime/engine.py"})
"""Who starts them, inside a function: a range that is computed again, a load in the step's own session, the engine's
process."""


def target_area(found: Import) -> str:
    parts = found.target.split(".")
    return parts[1] if parts[1:] else "__init__"


def wrong_imports(module: Module, area: str) -> Iterator[str]:
    """What a module imports and may not, as lines for people."""
    rule = LAYERS[area]
    for found in module.imports():
        if found.is_standard or _is_allowed(found, area, rule, module.path):
            continue
        yield f"{module.path}:{found.line}: {area} may not import {found.target} ({found.when})"


def _is_allowed(found: Import, area: str, rule: Layer, path: str) -> bool:
    if not found.is_ours:
        extra = {"load": frozenset(), "call": rule.inside, "typing": rule.typing}[found.when]
        return found.top in rule.third | extra
    target = target_area(found)
    if target == "engine" and area == "runtime":
        return path in STARTS_ENGINE and found.when == "call"
    lazily = {"call": rule.inside, "typing": rule.typing}.get(found.when, frozenset())
    return target in {area, "__init__"} | BASE | rule.ours | lazily


def test_every_area_has_a_line_in_the_table() -> None:
    areas = {module.area for module in modules()}
    assert areas <= set(LAYERS), f"add to LAYERS: {sorted(areas - set(LAYERS))}"
    assert set(LAYERS) <= areas, f"remove from LAYERS: {sorted(set(LAYERS) - areas)}"


@pytest.mark.parametrize("area", LAYERS)
def test_imports_point_one_way(area: str) -> None:
    wrong = [line for module in modules() if module.area == area for line in wrong_imports(module, area)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("area", "source", "allowed"),
    [
        ("plan", "from ds_dagster.stores.kafka.kind import Kafka", False),
        ("plan", "from ds_dagster.catalog import relation", True),
        ("stores", "import psycopg2", False),
        ("stores", "def f():\n    import psycopg2", True),
        ("spark", "from ds_dagster.runtime.journals.journal import Journal", False),
        ("runtime", "from pyspark.sql import SparkSession", False),
        ("runtime", "def f():\n    from ds_dagster.spark.session import build", False),
        ("runtime", "def f():\n    from ds_dagster.engine.worker import start", False),
        ("engine", "from ds_dagster.orchestration import assets", False),
        ("engine", "from ds_dagster.spark.compiler import compile_plan", True),
        ("cli", "from ds_dagster.engine.worker import run", False),
        ("cli", "import pyspark", False),
        ("orchestration", "from ds_dagster.stores.registry import KINDS", False),
        ("errors", "from ds_dagster.sql.statements import Statement", False),
    ],
)
def test_the_rule_sees_what_it_forbids(area: str, source: str, allowed: bool) -> None:
    assert (not list(wrong_imports(code_of(source), area))) == allowed


def test_the_base_does_not_import_upwards_among_itself() -> None:
    """conditions and diagnostics below errors, errors below the rest: no circle can start there."""
    below = {
        "conditions": {"conditions"},
        "documentation": {"conditions", "documentation"},
        "diagnostics": {"diagnostics", "documentation"},
        "names": {"names"},
        "version": set(),
    }
    for module in modules():
        if module.area in below:
            ours = {target_area(found) for found in module.imports() if found.is_ours}
            assert ours <= below[module.area], module.path


def test_no_import_cycles() -> None:
    """Over imports at load; those inside functions break a circle on purpose and stay visible there."""
    edges = {
        module.name: {found.target for found in module.imports() if found.is_ours and found.when == "load"}
        for module in modules()
    }
    assert not cycle_in(edges), " → ".join(cycle_in(edges))


def cycle_in(edges: Mapping[str, set[str]]) -> list[str]:
    """The first circle found, as a path that ends where it begins; empty when there is none."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(edges.get(name, ())):
            found = walk(target, [*path, name])
            if found:
                return found
        done.add(name)
        return []

    return next((found for name in sorted(edges) if (found := walk(name, []))), [])


def test_a_cycle_would_be_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


DOORS = frozenset({"orchestration/__init__.py", "sql/__init__.py", "local/__init__.py", "conditions/__init__.py"})
"""Packages whose ``__init__`` re-exports; all others hold a docstring alone."""
LAZY_DOOR = "__init__.py"
"""Finds the names of the Dagster surface when one is first used: importing the package imports no Dagster."""


def test_init_files_re_export_and_do_no_work() -> None:
    for module in modules():
        if not module.path.endswith("__init__.py"):
            continue
        kinds = {type(node).__name__ for node in module.tree.body}
        if module.path == LAZY_DOOR:
            kinds -= {"If", "Assign", "FunctionDef"}
        allowed = {"Expr", "ImportFrom", "Assign", "AnnAssign"} if module.path in DOORS else {"Expr", "ImportFrom"}
        assert kinds <= allowed, f"{module.path} holds {sorted(kinds - allowed)}"


THROUGH = {
    "cryptography": "snowflake",
    "py4j": "pyspark",
    "botocore": "boto3",
    "pydantic": "dagster",
    "dagster_shared": "dagster",
    "lsprotocol": "pygls",
}
"""Packages that come with a declared one, of which they are the other half."""
EXTRAS = ("snowflake", "delta", "databricks", "editor")
"""Extras without which a store or a command is refused by name (STORE_DRIVER_MISSING, EDITOR_PACKAGE_MISSING)."""
OF_DEVELOPERS = frozenset({"pytest", "_pytest", "pluggy", "dagster_graphql"})
"""Imported where their owner is running already (the pytest plugin) or the extra `webserver` was asked for."""


def test_every_third_party_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    declared = {_distribution(line) for line in [*project["dependencies"], *extras]}
    distributions = packages_distributions()
    found = {item.top for module in modules() for item in module.imports() if not (item.is_ours or item.is_standard)}
    undeclared = {
        top
        for top in found - OF_DEVELOPERS - {"tomli"}
        if not {_distribution(name) for name in distributions.get(THROUGH.get(top, top), (top,))} & declared
    }
    assert not undeclared, f"imported, not in pyproject.toml's dependencies: {sorted(undeclared)}"


def _distribution(requirement: str) -> str:
    name = requirement.split(";")[0].strip()
    for sign in "[<>=!~ ":
        name = name.split(sign)[0]
    return name.lower().replace("_", "-")
