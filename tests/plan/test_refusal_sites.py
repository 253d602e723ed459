"""Every place of plan/ that refuses something is met by a fixture or a refused case."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from ds_dagster import errors, plan
from ds_dagster.conditions import CONDITIONS
from ds_dagster.plan.checks.joins import JOIN_FORMS
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from ds_dagster.testing.compiling import compile_case
from ds_dagster.testing.format import load_case
from tests.architecture.trees import modules
from tests.plan.conftest import PRELUDE
from tests.plan.test_refused import places

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "ds_dagster" / "plan"
FIXTURES = ROOT / "tests" / "fixtures" / "refused"
RAISING = ("error", "refuse")
"""Functions and methods that make an error of a condition that stands in the call."""
GUARDS: Mapping[tuple[str, str], str] = {
    ("joins/static.py", "LOOKUP_NOT_YET"): "every kind of ours has a reader; for one of a user (test_view_lookup.py)",
    ("binding/sources.py", "SOURCE_UNSUPPORTED"): "the grammar refuses it before",
}
"""(file, condition) of places that no statement alone leads to → why they are there. May only shrink."""


class Site(NamedTuple):
    """One call that refuses."""

    file: str
    first: int
    last: int
    condition: str

    def __str__(self) -> str:
        return f"plan/{self.file}:{self.first} {self.condition}"


def sites() -> Iterator[Site]:
    for module in modules():
        for node in module.nodes() if module.area == "plan" else ():
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                condition = CONDITIONS.get(str(node.args[0].value))
                if name in RAISING and condition is not None and condition.kind != "internal":
                    last = node.end_lineno or node.lineno
                    yield Site(module.path.removeprefix("plan/"), node.lineno, last, condition.name)


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int, str]]:
    """(file, line, condition) of every error that plan/ makes from now on."""
    found: set[tuple[str, int, str]] = set()
    original = errors.error

    def spy(condition: str, /, **params: Any) -> errors.DsError:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name in RAISING:
            frame = frame.f_back
        if frame is not None:
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(FOLDER):
                found.add((str(file.relative_to(FOLDER)), frame.f_lineno, condition))
        return original(condition, **params)

    for info in pkgutil.walk_packages(plan.__path__, f"{plan.__name__}."):
        module = importlib.import_module(info.name)
        if getattr(module, "error", None) is original:
            monkeypatch.setattr(module, "error", spy)
    return found


def refuse_everything(settings: Settings) -> list[str]:
    """Compile all that is meant to be refused; the texts of what was said."""
    said = []
    for path in sorted(FIXTURES.glob("*/*.sql")):
        for part in path.read_text(encoding="utf-8").split("-- case: ")[1:]:
            sql, _ = places(part.partition("\n")[2])
            said += [
                found.text() for found in compile_texts([("p.sql", PRELUDE), ("a.sql", sql)], settings).diagnostics
            ]
    for path in sorted((ROOT / "tests" / "cases").rglob("*.case.yaml")):
        case = load_case(path)
        if case.error is not None and not case.error.query:
            said += [found.text() for found in compile_case(case, settings.state).project.diagnostics]
    return said


@pytest.mark.sweep
def test_every_refusal_has_a_fixture_or_a_case(met: set[tuple[str, int, str]], settings: Settings) -> None:
    said = refuse_everything(settings)
    unmet = [
        site
        for site in sites()
        if not any(
            file == site.file and site.first <= line <= site.last and condition == site.condition
            for file, line, condition in met
        )
    ]
    assert [str(site) for site in unmet if (site.file, site.condition) not in GUARDS] == []
    idle = {(site.file, site.condition) for site in sites()} - {(site.file, site.condition) for site in unmet}
    assert not idle & set(GUARDS), "what is met is no guard"
    for (left, right), (form, _) in JOIN_FORMS.items():
        shown = [text for text in said if f"join of {left} " in text and f" with {right} " in text]
        assert form or shown, f"no case joins a {left} with a {right}"


def test_a_place_that_refuses_is_seen() -> None:
    found = list(sites())
    assert any(site.condition == "JOIN_CONDITION" for site in found)
    assert len(found) > 50
