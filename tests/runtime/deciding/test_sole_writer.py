"""A new query never runs next to a job without a statement that makes the same relation: every row would come twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import UserError
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.changes import changes_of
from ds_dagster.settings import load_settings

SOURCE = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM s (n BIGINT) WITH ('store'='k', 'topic'='s', 'value.format'='json', 'topic.partitions'=1);
"""
MADE = "CREATE STREAM a AS SELECT n FROM s;"
NAMED = "CREATE STREAM a AS SELECT n FROM s QUERY WITH ('query.name' = 'other');"
GROUPED = """BEGIN APPLICATION app
CREATE STREAM a AS SELECT n FROM s;
CREATE STREAM b AS SELECT n + 1 AS n FROM s;
END APPLICATION;"""
SAME_TOPIC = "CREATE STREAM b WITH ('topic' = 'a') AS SELECT n FROM s;"
OTHER_TOPIC = "CREATE STREAM a WITH ('topic' = 'a2') AS SELECT n FROM s QUERY WITH ('query.name' = 'other');"
INSERTED = (
    "CREATE STREAM a AS SELECT n FROM s; INSERT INTO a SELECT n + 1 AS n FROM s QUERY WITH ('query.name' = 'more');"
)


def project(root: Path, text: str) -> LoadedProject:
    (root / "sql").mkdir(exist_ok=True)
    (root / "sql" / "all.sql").write_text(SOURCE + text)
    (root / "ds.toml").write_text('store = "k"\n')
    loaded = load_project(root, settings=load_settings(root))
    assert not loaded.errors, loaded.errors
    return loaded


def started(root: Path, text: str) -> Control:
    """The queries of a project have jobs."""
    loaded = project(root, text)
    control = Control.open(loaded.settings)
    control.ensure(loaded, list(loaded.queries))
    return control


@pytest.mark.parametrize(
    ("before", "after", "name", "job"),
    [
        (MADE, NAMED, "other", "a"),
        (NAMED, MADE, "a", "other"),
        (MADE, GROUPED, "app", "a"),
        (GROUPED, MADE, "a", "app"),
        (MADE, SAME_TOPIC, "b", "a"),
    ],
)
def test_the_second_writer_is_refused(tmp_path: Path, before: str, after: str, name: str, job: str) -> None:
    control, loaded = started(tmp_path, before), project(tmp_path, after)
    (change,) = changes_of(loaded, [loaded.queries[name]], control.running().jobs)
    assert (change.verdict, change.written_by) == ("new", job)
    assert f"ds stop {job}" in change.hint
    with pytest.raises(UserError) as refused:
        control.ensure(loaded, [name])
    assert refused.value.condition == "RELATION_HAS_ANOTHER_JOB"
    assert name not in control.running().jobs
    control.stop([job])
    assert control.ensure(loaded, [name])[0].outcome == "requested"


def test_a_stopped_query_starts_only_after_its_former_namesake(tmp_path: Path) -> None:
    """The name of the query is changed and changed back: each time the other job must end first."""
    control = started(tmp_path, MADE)
    control.stop(["a"])
    control.ensure(project(tmp_path, NAMED), ["other"])
    loaded = project(tmp_path, MADE)
    (change,) = changes_of(loaded, [loaded.queries["a"]], control.running().jobs)
    assert change.written_by == "other"
    for action in ("ensure", "restart"):
        with pytest.raises(UserError) as refused:
            control.ensure(loaded, ["a"], action=action)
        assert refused.value.condition == "RELATION_HAS_ANOTHER_JOB"
    control.stop(["other"])
    assert control.ensure(loaded, ["a"])[0].outcome == "requested"


@pytest.mark.parametrize(("before", "after", "name"), [(MADE, OTHER_TOPIC, "other"), (MADE, INSERTED, "more")])
def test_others_are_not(tmp_path: Path, before: str, after: str, name: str) -> None:
    control, loaded = started(tmp_path, before), project(tmp_path, after)
    assert control.ensure(loaded, [name])[0].outcome == "requested"


def test_a_renamed_query_continues_the_job(tmp_path: Path) -> None:
    control, loaded = started(tmp_path, NAMED), project(tmp_path, f"-- @renamed_from other\n{MADE}")
    assert control.ensure(loaded, ["a"], action="restart")[0].outcome == "requested"
