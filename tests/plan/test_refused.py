"""Every refusal of a query: its condition and the place it points at (a ‸ in the fixture, taken out before
compiling)."""

from __future__ import annotations

from pathlib import Path

from ds_dagster.conditions import CONDITIONS, rows
from ds_dagster.conditions.sql import constants, constraints, patterns, query, sets
from ds_dagster.project.load import LoadedProject
from tests.plan.conftest import Compile
from tests.tables import check_every

WARNINGS = ("PATTERN_STATE", "UNBOUNDED_STATE", "STATEMENT_SKIPPED")
MARK = "‸"
FOLDER = Path(__file__).parent.parent / "fixtures" / "refused" / "plan"
ELSEWHERE = {"SQL_FILE_UNREADABLE", "LOOKUP_NOT_YET"}  # tests/test_project.py, tests/plan/test_view_lookup.py


def cases() -> list[tuple[str, str]]:
    found = []
    for path in sorted(FOLDER.glob("*.sql")):
        for part in path.read_text(encoding="utf-8").split("-- case: ")[1:]:
            title, _, sql = part.partition("\n")
            found.append((title, sql))
    return found


CASES = cases()


def places(marked: str) -> tuple[str, list[tuple[int, int]]]:
    found, text = [], marked
    while MARK in text:
        before, text = text.split(MARK, 1)
        found.append((before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1))
        text = before + text
    return text, found


def test_condition_and_place_and_a_broken_relation(compile_sql: Compile) -> None:
    """Compiled once for both: a refused query is a broken relation too."""

    def check_case(case: tuple[str, str]) -> None:
        title, sql = case
        text, expected = places(sql)
        project = compile_sql(text)
        check_condition_and_place(project, title, expected)
        if title not in WARNINGS and "SELECT" in sql:
            check_broken(project)

    check_every(CASES, check_case, name=" ".join)


def check_condition_and_place(project: LoadedProject, title: str, expected: list[tuple[int, int]]) -> None:
    found = project.diagnostics
    assert sorted(d.condition for d in found) == sorted(title.split()), [d.text() for d in found]
    assert sorted((d.span.line, d.span.column) for d in found if d.span) == sorted(expected)
    for diagnostic in found:
        assert diagnostic.hint
        assert "{" not in diagnostic.message + diagnostic.hint, diagnostic
        assert diagnostic.fragment
        assert diagnostic.span is not None and diagnostic.span.file == "a.sql"
        is_warning = diagnostic.condition in WARNINGS
        assert (diagnostic.severity == "warning") == is_warning
        assert bool(diagnostic.caused_by) == (diagnostic.condition == "UPSTREAM_FAILED")


def check_broken(project: LoadedProject) -> None:
    assert project.broken
    for broken in project.broken:
        assert broken.diagnostics
        assert all(
            query.sink.name != broken.name or len(project.queries_of(broken.name)) > 0
            for query in project.queries.values()
        )


def test_every_condition_of_queries_has_a_case() -> None:
    covered = {name for title, _ in CASES for name in title.split()}
    topics = (query, constants, constraints, patterns, rows, sets)
    of_queries = tuple(condition for topic in topics for condition in topic.CONDITIONS)
    assert {condition.name for condition in of_queries} - covered == ELSEWHERE
    assert covered <= set(CONDITIONS)
