"""Aggregates that are added to the state of a checkpoint, with the permission for partial results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.deciding.changes import changes_of, recompiled, spec_going_on
from ds_dagster.runtime.deciding.permissions import action_for, needed
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.runtime.status import Change
from tests.plan.identity.edits import compiled, job_row
from tests.plan.identity.test_source_names import STREAM

COLUMNS = ("n INTEGER)", "n INTEGER, x VARCHAR)")
SOURCE = STREAM.format("a", "t").replace(*COLUMNS)
OLD = "SELECT k, COUNT(*) AS c, MAX(n) AS m FROM a WHERE n > 0 GROUP BY k"
HELD = ["COUNT", "MAX"]
GROWN = {
    "at the end": ("SELECT k, COUNT(*) AS c, MAX(n) AS m, SUM(n) AS t FROM a WHERE n > 0 GROUP BY k", ["SUM"], True),
    "of a column that was not read": (
        "SELECT k, COUNT(*) AS c, MAX(n) AS m, MIN(x) AS o FROM a WHERE n > 0 GROUP BY k",
        ["MIN"],
        True,
    ),
    "at the beginning": (
        "SELECT SUM(n) AS t, k, COUNT(*) AS c, MAX(n) AS m FROM a WHERE n > 0 GROUP BY k",
        ["SUM"],
        False,
    ),
    "in place of another": ("SELECT k, COUNT(*) AS c, MIN(n) AS m FROM a WHERE n > 0 GROUP BY k", ["MIN"], False),
    "with a filter": (
        "SELECT k, COUNT(*) FILTER (WHERE n > 2) AS c, MAX(n) AS m FROM a WHERE n > 0 GROUP BY k",
        ["COUNT"],
        False,
    ),
    "in a condition on groups": (
        "SELECT k, COUNT(*) AS c, MAX(n) AS m FROM a WHERE n > 0 GROUP BY k HAVING SUM(n) > 9",
        ["SUM"],
        True,
    ),
}
SESSIONS = "window_start AS w, window_end AS e, k, COUNT(*) AS c{} FROM SESSION(a, GAP 9 SECONDS) GROUP BY window_start"
KEPT_AWAY = {
    "other rows too": "SELECT k, COUNT(*) AS c, MAX(n) AS m, SUM(n) AS t FROM a WHERE n > 1 GROUP BY k",
    "another key": "SELECT n AS k, COUNT(*) AS c, MAX(n) AS m, SUM(n) AS t FROM a WHERE n > 0 GROUP BY n",
    "another source too": "SELECT k, COUNT(*) AS c, MAX(n) AS m, SUM(n) AS t FROM b WHERE n > 0 GROUP BY k",
}


def made(query: str, kind: str = "CHANGELOG") -> str:
    return f"{SOURCE}{STREAM.format('b', 'u').replace(*COLUMNS)}CREATE {kind} s AS {query};\n"


def change_of(project: LoadedProject, spec: JobSpec) -> Change:
    return changes_of(project, [project.queries["s"]], {"s": job_row(spec)})[0]


def grown(project: LoadedProject, spec: JobSpec) -> JobSpec:
    text = spec_going_on(project, project.queries["s"], job_row(spec), grows=True).to_json()
    return JobSpec.from_json(text)


def functions(query: BoundQuery) -> list[str]:
    (groups,) = [node for node in query.plan.walk() if isinstance(node, Aggregate)]
    assert groups.held
    return [call.function for call in groups.calls]


@pytest.mark.parametrize("edit", GROWN)
def test_added_results_are_behind_those_of_the_state(tmp_path: Path, edit: str) -> None:
    text, added, is_plain = GROWN[edit]
    old, new = compiled(made(OLD), tmp_path), compiled(made(text), tmp_path)
    before = job_spec(old, old.queries["s"])
    change = change_of(new, before)
    assert (change.verdict, len(change.partial)) == ("needs_new_checkpoint", len(added)), change
    spec = grown(new, before)
    assert spec.grows and spec.state_signature != before.state_signature
    assert bool(spec.state_slice) is bool(spec.state_added) is not is_plain
    bound = recompiled(spec, new.settings)[1]
    assert functions(bound) == [*HELD, *added]
    assert bound.keeps_state_of(spec.state_signature)
    assert [field.name for field in bound.root.output] == [field.name for field in new.queries["s"].root.output]
    assert change_of(new, spec).verdict == "unchanged"
    back = change_of(old, spec)
    assert (back.verdict, back.partial) == ("keeps_checkpoint", ())
    returned = JobSpec.from_json(spec_going_on(old, old.queries["s"], job_row(spec)).to_json())
    assert returned.grows and returned.state_signature == spec.state_signature
    assert functions(recompiled(returned, old.settings)[1]) == [*HELD, *added]
    assert change_of(new, returned).verdict == "keeps_checkpoint"


@pytest.mark.parametrize("edit", KEPT_AWAY)
def test_other_changes_need_a_new_version(tmp_path: Path, edit: str) -> None:
    old = compiled(made(OLD), tmp_path)
    new = compiled(made(KEPT_AWAY[edit]), tmp_path)
    change = change_of(new, job_spec(old, old.queries["s"]))
    assert (change.verdict, change.partial) == ("needs_new_checkpoint", ())
    spec = spec_going_on(new, new.queries["s"], job_row(job_spec(old, old.queries["s"])), grows=True)
    assert not spec.state_added


def test_groups_of_a_changelog_with_retractions_need_a_new_version(tmp_path: Path) -> None:
    old, new = (
        made(text).replace("CREATE STREAM a (k INTEGER,", "CREATE CHANGELOG a (k INTEGER, i INTEGER,")
        for text in (OLD, GROWN["at the end"][0])
    )
    key = "x VARCHAR, PRIMARY KEY (i)) WITH ('key.format' = 'json', 'key.type' = 'STRUCT<i INTEGER>',"
    before, after = (compiled(text.replace("x VARCHAR) WITH (", key, 1), tmp_path) for text in (old, new))
    change = change_of(after, job_spec(before, before.queries["s"]))
    assert (change.verdict, change.partial) == ("needs_new_checkpoint", ())


def test_sessions_need_a_new_version(tmp_path: Path) -> None:
    old, new = (
        compiled(made(f"SELECT {SESSIONS.format(text)}, window_end, k"), tmp_path) for text in ("", ", SUM(n) AS t")
    )
    change = change_of(new, job_spec(old, old.queries["s"]))
    assert (change.verdict, change.partial) == ("needs_new_checkpoint", ())


def test_a_function_of_the_window_needs_a_new_version(tmp_path: Path) -> None:
    """Groups are kept by pane, which has no bounds of a window."""
    hops = "window_start AS w, window_end AS e, k, COUNT(*) AS c{} FROM HOP(a, SIZE 9 SECONDS, ADVANCE BY 3 SECONDS) "
    added = {", SUM(n) AS t": ("SUM(n)",), ", MAX(window_end) AS t": ()}
    old, *others = (
        compiled(made(f"SELECT {hops.format(text)} GROUP BY window_start, window_end, k"), tmp_path)
        for text in ("", *added)
    )
    spec = job_spec(old, old.queries["s"])
    assert [change_of(other, spec).partial for other in others] == list(added.values())


def test_columns_of_a_view_belong_to_its_table(tmp_path: Path) -> None:
    view = "MATERIALIZED VIEW"
    old, new = compiled(made(OLD, view), tmp_path), compiled(made(GROWN["at the end"][0], view), tmp_path)
    assert change_of(new, job_spec(old, old.queries["s"])).partial == ()
    other = compiled(made(GROWN["in place of another"][0], view), tmp_path)
    assert change_of(other, job_spec(old, old.queries["s"])).partial == ("MIN(n)",)


def test_results_are_added_one_definition_after_the_other(tmp_path: Path) -> None:
    texts = (
        OLD,
        "SELECT SUM(n) AS t, k, MAX(n) AS m FROM a WHERE n > 0 GROUP BY k",
        "SELECT k, MIN(x) AS o FROM a WHERE n > 0 GROUP BY k",
        "SELECT k, AVG(n) AS v, COUNT(*) AS c FROM a WHERE n > 0 GROUP BY k",
    )
    projects = [compiled(made(text), tmp_path) for text in texts]
    spec = job_spec(projects[0], projects[0].queries["s"])
    for project in projects[1:]:
        spec = grown(project, spec)
    assert len(spec.state_added) == 3
    assert functions(recompiled(spec, projects[0].settings)[1]) == ["COUNT", "MAX", "SUM", "MIN", "AVG"]
    whole = "SELECT k, COUNT(*) AS c, MAX(n) AS m, SUM(n) AS t, MIN(x) AS o, AVG(n) AS v FROM a WHERE n > 0 GROUP BY k"
    last = compiled(made(whole), tmp_path)
    assert change_of(last, spec).verdict == "keeps_checkpoint"
    plain = spec_going_on(last, last.queries["s"], job_row(spec))
    assert plain.grows and not plain.state_slice and not plain.state_added


NOT_NULL = (
    "CREATE CHANGELOG o (k INTEGER, c BIGINT, t BIGINT NOT NULL, PRIMARY KEY (k)) WITH "
    "('topic' = 'o', 'value.format' = 'json', 'key.format' = 'json', 'key.type' = 'STRUCT<k INTEGER>');\n"
    "INSERT INTO o SELECT k, COUNT(*) AS c, {} AS t FROM a GROUP BY k QUERY WITH ('query.name' = 's');"
)


@pytest.mark.parametrize(
    ("added", "partial"), [("SUM(n)", ()), ("COALESCE(SUM(n), 0)", ("SUM(n)",)), ("COUNT(n)", ("COUNT(n)",))]
)
def test_a_partial_result_is_not_written_where_null_is_a_mistake(
    tmp_path: Path, added: str, partial: tuple[str, ...]
) -> None:
    old, new = (compiled(SOURCE + NOT_NULL.format(text), tmp_path) for text in ("COUNT(*)", added))
    assert change_of(new, job_spec(old, old.queries["s"])).partial == partial


def test_partial_results_need_a_permission_of_their_own(tmp_path: Path) -> None:
    old, new = compiled(made(OLD), tmp_path), compiled(made(GROWN["at the end"][0]), tmp_path)
    change = replace(change_of(new, job_spec(old, old.queries["s"])), beside=True)
    assert needed(change) == ("new-version",)
    assert action_for(change, ["restart"]) == action_for(change, ["partial"]) == ("ensure", ())
    assert action_for(change, ["restart", "partial"]) == ("restart", ("partial",))
    assert action_for(change, ["restart", "partial", "new-version"]) == ("new-version", ())
    alone = replace(change, beside=False, doubles=("s",))
    assert needed(alone) == ("reset", "duplicates")
    assert action_for(alone, ["restart", "partial", "reset", "duplicates"]) == ("restart", ("partial",))
    assert action_for(alone, ["reset", "duplicates"]) == ("reset", ("duplicates",))


def test_a_spec_without_added_results_is_read_by_earlier_versions(tmp_path: Path) -> None:
    old, new = compiled(made(OLD), tmp_path), compiled(made(GROWN["at the beginning"][0]), tmp_path)
    before = job_spec(old, old.queries["s"])
    assert "grows" not in before.to_json() and "state_added" not in before.to_json()
    text = grown(new, before).to_json()
    assert JobSpec.from_json(text.replace('"text"', '"newer": 1, "text"')).unread == (
        "slice.newer",
        "state_slice.newer",
        "state_added.newer",
    )
    assert "grows" in text and JobSpec.from_json(text).to_json() == text
