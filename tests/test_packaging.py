"""The wheel: what it carries, that it builds the operators in, and that the files around it agree with each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ds_dagster import jars
from hatch_build import PublishedMetadata, for_an_index
from scripts import tiers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built as for a release, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    environment = {**os.environ, "DS_BUILD_JAR": "require"}
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(ROOT)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.mark.servers
def test_the_wheel_carries_what_is_not_python(wheel: Path) -> None:
    package = wheel / "ds_dagster"
    for name in ("py.typed", "jars.lock.json", "local/kinesalite/package-lock.json", "_jvm/ds-dagster-operators.jar"):
        assert (package / name).is_file(), name
    sources = {path.relative_to(ROOT / "jvm" / "src") for path in (ROOT / "jvm" / "src").rglob("*.java")}
    assert {
        path.relative_to(package / "_jvm" / "src") for path in (package / "_jvm" / "src").rglob("*.java")
    } == sources
    statements = {path.name for path in (ROOT / "sql").rglob("*.sql")}
    assert {path.name for path in (package / "_example" / "sql").rglob("*.sql")} == statements
    assert not (wheel / "tests").exists(), "tests stay in the repository"


@pytest.mark.servers
def test_an_installed_wheel_uses_its_own_jar_without_building(wheel: Path, tmp_path: Path) -> None:
    code = "from ds_dagster import jars; print(jars.__file__); print(jars.operator_jar())"
    environment = {**os.environ, "PYTHONPATH": str(wheel), "DS_CACHE": str(tmp_path / "cache"), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    module, jar = done.stdout.split()
    assert Path(module).is_relative_to(wheel)
    assert Path(jar) == wheel / "ds_dagster" / "_jvm" / jars.OPERATOR_JAR
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("repository", ["", "https://git.example.com/ds-dagster"])
def test_the_readme_on_a_package_index_has_no_link_that_leads_nowhere(repository: str) -> None:
    shown = for_an_index((ROOT / "README.md").read_text(encoding="utf-8"), repository)
    targets = re.findall(r"\]\(([^)]+)\)", shown)
    assert all(re.match(r"https?:", target) for target in targets)
    assert bool(repository) == any(
        target.startswith(f"{repository}/blob/main/docs/") for target in targets if repository
    )
    assert "Your first view" in shown


def test_the_metadata_follow_from_where_the_project_is_published() -> None:
    hook = PublishedMetadata(
        str(ROOT), {"repository": "https://git.example.com/x", "documentation": "https://docs.example.com"}
    )
    metadata: dict[str, Any] = {}
    hook.update(metadata)
    assert metadata["urls"]["Documentation"] == "https://docs.example.com"
    assert metadata["readme"]["content-type"] == "text/markdown"
    unpublished: dict[str, Any] = {}
    PublishedMetadata(str(ROOT), {"repository": "", "documentation": ""}).update(unpublished)
    assert unpublished["urls"] == {}


def test_every_make_target_is_explained() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert targets
    assert all(f"make {target} " in shown for target in targets)
    assert subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout == shown


def test_continuous_integration_runs_what_people_run() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
    for script in (ROOT / "scripts").glob("*.sh"):
        subprocess.run(["sh", "-n", str(script)], check=True)


def test_every_mark_but_unit_belongs_to_a_tier() -> None:
    marks = {line.split(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    chosen = {mark for tier in tiers.TIERS.values() for mark in re.findall(r"\w+", tier.marks)} - {"and", "or", "not"}
    assert chosen == marks


def test_a_missing_tier_is_a_mistake() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "tiers.py"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "known: fast, unit" in done.stderr
