"""``ds plan``: what a reviewer reads of a change, on a terminal, as Markdown, and from a state file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.entity_operations import EntityColumn
from ds_dagster.catalog.reading.extent import Extent, Landing
from ds_dagster.catalog.reading.starting import Offsets
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.cli import plan_online
from ds_dagster.errors import error
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import bump_revision
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.planning.planned import planned_changes
from ds_dagster.runtime.planning.running import Running
from ds_dagster.runtime.status import JobStatus
from tests.avro_registry import AvroRegistry
from tests.command_line import Ds

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'kafka.sasl.username' = 'u',
  'kafka.sasl.password' = '${PASSWORD:-hunter2}', 'kafka.sasl.hash_function' = PLAIN);
CREATE STREAM s (n BIGINT, t VARCHAR) WITH ('store'='k', 'topic'='s', 'value.format'='json', 'topic.partitions'=1);
CREATE STREAM a AS SELECT n FROM s WHERE n > 1;
CREATE CHANGELOG counts WITH ('delivery' = 'at_least_once') AS SELECT t, COUNT(*) AS n FROM s GROUP BY t;
CREATE STREAM b AS SELECT n FROM a;
"""
CHANGED = (
    SQL.replace("n > 1;", "n > 2;")
    .replace("t, COUNT(*) AS n", "t, COUNT(*) AS n, MAX(n) AS most")
    .replace("STREAM b AS", "STREAM c AS")
)


@pytest.fixture
def applied(project: Path) -> Path:
    """The first version is asked for; the files have the second one."""
    file = project / "sql" / "all.sql"
    file.write_text(SQL)
    (project / "ds.toml").write_text('store = "k"\n')
    loaded = load_project(project, strict=True)
    Control.open(loaded.settings).ensure(loaded, list(loaded.queries))
    file.write_text(CHANGED)
    return project


def lines(ds: Ds, *words: str) -> dict[str, Any]:
    return {line["name"]: line for line in ds("plan", "--json", *words).json}


def test_each_change_says_what_it_touches(applied: Path, ds: Ds) -> None:
    found = lines(ds)
    verdicts = {name: line["verdict"] for name, line in found.items()}
    assert verdicts == {
        "a": "keeps_checkpoint", "counts": "needs_new_checkpoint", "c": "new", "b": "orphan",
    }  # fmt: skip
    assert found["a"]["sql"] == [
        "@@ -1,2 +1,2 @@",
        found["a"]["sql"][1],
        "-CREATE STREAM a AS SELECT n FROM s WHERE n > 1;",
        "+CREATE STREAM a AS SELECT n FROM s WHERE n > 2;",
    ]
    assert found["a"]["downstream"] == ["c"]
    assert found["counts"]["columns"] == ["most: added, BIGINT"]
    assert {name: line["partial"] for name, line in found.items()} == {"a": [], "counts": ["MAX(n)"], "c": [], "b": []}
    assert found["c"]["creates"] == ["k.c"]
    assert found["c"]["renamed_from"] == "b"
    assert found["b"]["state"] == "ABSENT" and found["c"]["state"] is None
    assert all(line["waits"] for line in found.values())


def test_people_read_the_same(applied: Path, ds: Ds) -> None:
    shown = ds("plan").out
    assert "b, which has no statement any more, runs the same query" in shown
    assert "    -CREATE STREAM a AS SELECT n FROM s WHERE n > 1;" in shown
    assert "  column most: added, BIGINT" in shown
    assert "  downstream: c" in shown
    assert "  or: `ds restart counts --allow partial` keeps the state; in groups that exist, MAX(n) is then" in shown
    markdown = ds("plan", "--markdown").out
    assert markdown.startswith("**Streaming SQL**: 4 of 4 queries need an action.\n")
    assert "| a | keeps checkpoint |" in markdown
    assert "```diff\n@@ -1,2 +1,2 @@" in markdown
    assert ds("plan", "--markdown", "--json").code == 2


def test_a_state_file_stands_for_the_journal(applied: Path, ds: Ds, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    direct = lines(ds, "--save", str(state))
    assert "hunter2" not in state.read_text()
    for file in (applied / ".ds").iterdir():
        if file.is_file():
            file.unlink()
    assert {line["verdict"] for line in lines(ds).values()} == {"new"}, "the journal is gone"
    assert lines(ds, "--against", str(state)) == direct
    assert ds("plan", "--against", str(state), "--exit-code").code == 2


def test_a_failed_query_is_shown_with_the_way_out_of_its_failure(applied: Path) -> None:
    (applied / "sql" / "all.sql").write_text(SQL)
    loaded = load_project(applied, strict=True)
    running = Control.open(loaded.settings).running()
    failed = {"state": "FAILED", "condition": "INPUT_RECREATED", "hint": "reset it"}
    statuses = tuple(replace(status, **failed) for status in running.statuses)  # type: ignore[arg-type]
    line = planned_changes(loaded, Running(running.jobs, statuses, running.taken))[0]
    assert line.because == (
        "the definitions are equal; it is FAILED (INPUT_RECREATED): reset it; `ds apply` only starts it again"
    )


def test_a_query_that_backs_off_is_retried_by_the_engine(applied: Path) -> None:
    (applied / "sql" / "all.sql").write_text(SQL)
    loaded = load_project(applied, strict=True)
    running = Control.open(loaded.settings).running()

    def because(desired: str) -> str:
        backs_off = {"state": "BACKING_OFF", "condition": "STORE_UNREACHABLE", "desired": desired}
        statuses = tuple(replace(status, **backs_off) for status in running.statuses)  # type: ignore[arg-type]
        return planned_changes(loaded, Running(running.jobs, statuses, running.taken))[0].because

    backs_off = "the definitions are equal; it is BACKING_OFF (STORE_UNREACHABLE): "
    assert because("RUNNING") == f"{backs_off}the engine retries it; `ds apply` does so at once"
    assert because("STOPPED") == f"{backs_off}`ds apply` starts it"


def test_a_query_in_a_compute_pool_is_unchanged_against_a_state_file(project: Path, ds: Ds, tmp_path: Path) -> None:
    pool = "CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 1);"
    text = SQL.replace("WHERE n > 1;", "WHERE n > 1 QUERY WITH ('compute_pool' = 'heavy');") + pool
    (project / "sql" / "all.sql").write_text(text)
    (project / "ds.toml").write_text('store = "k"\n')
    loaded = load_project(project, strict=True)
    Control.open(loaded.settings).ensure(loaded, list(loaded.queries))
    state = tmp_path / "state.json"
    direct = lines(ds, "--save", str(state))
    assert lines(ds, "--against", str(state)) == direct
    assert {line["verdict"] for line in direct.values()} == {"unchanged"}


def test_a_state_file_with_a_definition_that_is_none_is_refused(applied: Path, ds: Ds, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    lines(ds, "--save", str(state))
    content = json.loads(state.read_text())
    content["jobs"][0]["spec"] = {}
    state.write_text(json.dumps(content))
    outcome = ds("plan", "--against", str(state), "--json")
    assert (outcome.code, outcome.conditions) == (1, ["STATE_FILE_INVALID"])


def test_a_journal_that_does_not_answer_leaves_verdicts_unknown(applied: Path, ds: Ds, tmp_path: Path) -> None:
    settings = applied / "ds.toml"
    settings.write_text(settings.read_text() + 'journal = "postgresql://u@127.0.0.1:1/none"\n')
    outcome = ds("plan", "--json")
    assert outcome.code == 1 and "JOURNAL_UNREACHABLE" in outcome.err and "--against FILE" in outcome.err
    found = {line["name"]: line for line in outcome.json}
    assert {line["verdict"] for line in found.values()} == {"unknown"} and set(found) == {"a", "c", "counts"}
    assert (found["c"]["creates"], found["a"]["downstream"], found["a"]["waits"]) == (["k.c"], ["c"], True)
    assert "| a | unknown | the journal does not answer |" in ds("plan", "--markdown").out
    save = tmp_path / "state.json"
    assert ds("plan", "--save", str(save)).code == 1 and not save.exists(), "there is nothing to save"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2, "jobs": [], "taken": 0}'])
def test_what_is_no_state_file_is_refused(project: Path, ds: Ds, text: str) -> None:
    state = project / "state.json"
    state.write_text(text)
    outcome = ds("plan", "--against", str(state), "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["diagnostics"][0]["condition"] == "STATE_FILE_INVALID"


def test_apply_changes_what_it_may(applied: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: None)
    refused = ds("apply", "--no-wait")
    assert refused.code == 1
    assert "`ds apply --allow restart` applies all such changes" in refused.err
    assert "`ds apply --allow reset` applies all such changes" in refused.err
    part = ds("apply", "--no-wait", "--json", "--allow", "restart").json
    assert [query["name"] for query in part["queries"]] == ["a", "c"]
    assert part["orphans"] == ["b"]
    whole = ds("apply", "--no-wait", "--json", "--allow", "restart, reset, prune")
    assert (whole.code, whole.json["ok"]) == (0, True)
    statuses = {status.name: status for status in Control.open(load_project(applied).settings).statuses()}
    assert {name: status.desired for name, status in statuses.items()} == {
        "a": "RUNNING", "b": "STOPPED", "c": "RUNNING", "counts": "RUNNING",
    }  # fmt: skip
    assert {line["verdict"] for line in lines(ds).values()} == {"unchanged"}
    assert ds("apply", "--allow", "everything").code == 2


@pytest.mark.parametrize(
    "words", [("apply", "--allow", "restart,partial"), ("restart", "counts", "--allow", "partial")]
)
def test_partial_results_keep_the_checkpoint(
    applied: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: None)
    settings = load_project(applied).settings
    with Control.open(settings).journal.write() as connection:
        rows.save_statuses(
            connection, [StatusRow("counts", "RUNNING", batch=3, generation=1, checkpoint_version=1)], writer="engine"
        )
    refused = ds("restart", "counts", "--no-wait")
    assert refused.code == 1 and "`ds restart counts --allow partial` keeps the state" in refused.err
    assert ds(*words, "--no-wait").code == 0
    with Control.open(settings).journal.read() as connection:
        job = rows.jobs(connection)["counts"]
    assert (job.generation, job.checkpoint_version, job.begins) == (2, 1, "")
    assert JobSpec.from_json(job.spec).grows
    assert lines(ds, "counts")["counts"]["verdict"] == "unchanged"


def test_jobs_of_a_later_version_are_planned_and_refused_alone(
    applied: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: None)
    control = Control.open(load_project(applied).settings)
    with control.journal.write() as connection:
        for name, more in (("a", {"field": 1}), ("b", {"version": 2}), ("counts", {"version": 2})):
            job = rows.jobs(connection, [name])[name]
            spec = json.loads(job.spec) | {"package_version": "9.1.0"} | more
            rows.mark_job(connection, replace(job, spec=json.dumps(spec)))
        bump_revision(connection)
    found = lines(ds)
    assert {name: line["verdict"] for name, line in found.items()} == {
        "a": "needs_new_checkpoint", "counts": "needs_new_checkpoint", "c": "new", "b": "orphan",
    }  # fmt: skip
    assert "JOB_SPEC_NEWER" in found["a"]["because"] and not found["counts"]["sql"]
    assert {job["name"] for job in ds("ps", "--json").json["jobs"]} >= {"a", "b", "counts"}
    answer = ds("apply", "--no-wait", "--allow", "restart")
    assert answer.code == 1
    assert answer.err.count("ds_dagster 9.1.0 defined the job") == 2
    assert [one.outcome for one in control.stop(["a", "b"])] == ["stopped", "stopped"]


def test_a_store_that_does_not_answer_is_named_and_asked_once(
    applied: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def unreachable(_project: object, store: str, _resolve: object) -> None:
        asked.append(store)
        raise error("STORE_UNREACHABLE", store=store, address="127.0.0.1:1", seconds=10)

    monkeypatch.setattr(plan_online, "store_admin", unreachable)
    found = lines(ds, "--online")
    assert {name: line["verdict"] for name, line in found.items()} == {
        name: line["verdict"] for name, line in lines(ds).items()
    }, "the rest of the plan is there"
    effort = found["counts"]["effort"]
    assert (effort["reads"], effort["seconds"], effort["drift"]) == ([], None, [])
    assert effort["unknown"][0].startswith("records of k.s: ") and "drift of k.counts" in effort["unknown"][-1]
    assert asked == ["k"] and found["b"]["effort"] is None
    out = ds("plan", "--online", "counts").out
    assert "unknown: records of k.s" in out and "reads again: k.s from earliest" in out


class Topic:
    """Answers for its store: one partition with eight records."""

    def describe(self, entity: str) -> EntityFacts:
        return EntityFacts(entity)

    def extents(self, entity: str, since: int | None = None) -> dict[str, Extent]:
        return {"0": Extent(0, 0, 8, 1000, 10)}

    def retention_millis(self, entity: str) -> None:
        return

    def operations(self) -> Topic:
        return self

    def close(self) -> None:
        return


@pytest.mark.parametrize(
    ("offset", "records", "unknown"), [(5, 3, ""), (8, 0, ""), (9, None, "at 9, and it ends at 8")]
)
def test_records_from_an_offset_on_are_read_again(
    offset: int, records: int | None, unknown: str, applied: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = f"FROM s WITH ('starting.position' = offsets, 'starting.offsets' = '0:{offset}') GROUP"
    (applied / "sql" / "all.sql").write_text(CHANGED.replace("FROM s GROUP", begun))
    monkeypatch.setattr(plan_online, "store_admin", lambda *_: Topic())
    line = lines(ds, "--online")["counts"]
    assert line["reads_again"] == [f"k.s from offsets 0:{offset}"]
    assert [read["records"] for read in line["effort"]["reads"]] == ([] if records is None else [records])
    assert unknown in " ".join(line["effort"]["unknown"])


@pytest.mark.parametrize(("offset", "records", "unknown"), [(2, 6, ""), (9, None, "at 9, and it ends at 8")])
def test_a_new_query_says_what_it_reads_of_sources_that_no_query_fills(
    offset: int, records: int | None, unknown: str, applied: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = f"WITH ('starting.position' = offsets, 'starting.offsets' = '0:{offset}')"
    added = f"CREATE STREAM later AS SELECT * FROM s {begun};\nCREATE STREAM behind AS SELECT * FROM later;\n"
    (applied / "sql" / "added.sql").write_text(added)
    monkeypatch.setattr(plan_online, "store_admin", lambda *_: Topic())
    found = lines(ds, "--online")
    later, behind = found["later"], found["behind"]
    assert (later["verdict"], behind["verdict"]) == ("new", "new")
    assert [read["records"] for read in later["effort"]["reads"]] == ([] if records is None else [records])
    assert unknown in " ".join(later["effort"]["unknown"])
    assert later["effort"]["seconds"] is None and not any(behind["effort"].values())
    shown = "unknown: " if records is None else "reads 6 records of k.s"
    assert shown in ds("plan", "--online", "later").out
    monkeypatch.setattr(Topic, "describe", lambda self, entity: None)
    assert not any(lines(ds, "--online")["later"]["effort"].values()), "its start makes the topic"


class Stream(Topic):
    """Answers for a store whose records have numbers with gaps."""

    extents = None  # type: ignore[assignment]

    def landings(self, entity: str, offsets: Offsets) -> dict[int, Landing | None]:
        return {0: Landing(dict(offsets)[0] == 50, 50)}


@pytest.mark.parametrize(("offset", "unknown"), [(50, ""), (55, "at 55, and no record there has this number")])
def test_a_record_to_begin_with_is_looked_for(
    offset: int, unknown: str, applied: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = f"WITH ('starting.position' = offsets, 'starting.offsets' = '0:{offset}')"
    (applied / "sql" / "added.sql").write_text(f"CREATE STREAM later AS SELECT * FROM s {begun};\n")
    monkeypatch.setattr(plan_online, "store_admin", lambda *_: Stream())
    effort = lines(ds, "--online")["later"]["effort"]
    assert unknown in " ".join(effort["unknown"]) and bool(effort["unknown"]) == bool(unknown)
    uncounted = {"entity": "k.s", "position": "offsets", "records": None, "bytes": None}
    assert [{name: read[name] for name in uncounted} for read in effort["reads"]] == ([] if unknown else [uncounted])
    text = "reads k.s; its store does not count the records"
    assert (text in ds("plan", "--online", "later").out) == (not unknown)


SOURCES = """
CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = '{url}');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'tls.disabled' = TRUE, 'schema_registry.name' = r);
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h:1/d', 'postgres.username' = 'u');
CREATE STREAM s (n BIGINT, t VARCHAR) WITH ('store'='k', 'topic'='s', 'value.format'='avro', 'topic.partitions'=1);
CREATE CHANGELOG orders (id BIGINT, label VARCHAR, PRIMARY KEY(id)) WITH ('store' = 'pg');
CREATE STREAM a AS SELECT n FROM s WHERE n > 1;
CREATE CHANGELOG o WITH ('topic.partitions' = 1, 'topic.replicas' = 1) AS SELECT id, label FROM orders;
"""


def test_columns_that_no_source_has_any_more_are_drift(project: Path, ds: Ds, monkeypatch: pytest.MonkeyPatch) -> None:
    class Database:
        """Answers for the stores; the table has lost a column."""

        def tables_read(self, relation: Relation) -> dict[str, tuple[Column, ...]]:
            return {"public.orders": relation.columns}

        def columns_of(self, relation: Relation, table: str) -> list[EntityColumn]:
            return [EntityColumn("id", None, "bigint")]

        def describe(self, entity: str) -> EntityFacts:
            return EntityFacts(entity)

        def operations(self) -> Database:
            return self

        def close(self) -> None:
            return

    registry = AvroRegistry()
    registry.start()
    try:
        (project / "sql" / "all.sql").write_text(SOURCES.format(url=registry.url))
        (project / "ds.toml").write_text('store = "k"\n')
        registry.register("s-value", {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})
        loaded = load_project(project, strict=True)
        Control.open(loaded.settings).ensure(loaded, list(loaded.queries))
        monkeypatch.setattr(plan_online, "store_admin", lambda *_: Database())
        drift = {name: line["effort"]["drift"] for name, line in lines(ds, "--online").items()}
        assert "k.s: version 1 of s-value has no t" in drift["a"]
        assert "pg.public.orders: the table public.orders has no label" in drift["o"]
        registry.down = True
        assert "columns of k.s: the schema registry r" in "".join(lines(ds, "--online")["a"]["effort"]["unknown"])
    finally:
        registry.stop()


def test_a_query_whose_columns_no_schema_has_says_so(applied: Path) -> None:
    (applied / "sql" / "all.sql").write_text(SQL)
    loaded = load_project(applied, strict=True)
    control = Control.open(loaded.settings)
    with control.journal.read() as connection:
        jobs = rows.jobs(connection)
    details = {"sources": {"default_public_s": {"unknown_columns": "n"}}}
    status = JobStatus("a", "j", "default.public.a", "RUNNING", "RUNNING", details=details)
    (line,) = planned_changes(loaded, Running(jobs, (status,), 0.0), ["a"])
    assert (line.change.verdict, line.waits) == ("unchanged", False)
    assert line.because.endswith("; columns that no schema has: n of default_public_s")
