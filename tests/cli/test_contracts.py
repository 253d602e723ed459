"""What every command promises: exit codes, results alone on stdout, shapes of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.cli.commands import jobs as jobs_commands
from ds_dagster.cli.main import COMMANDS, run
from ds_dagster.clock import SystemClock
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.processes.locks import FileLock
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.status import JobStatus
from ds_dagster.settings import load_settings
from ds_dagster.stores.kafka import admin as kafka_admin
from tests.runtime.fakes import engine_says


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(ds, command: str) -> None:
    found = ds(command, "--help")
    assert found.code == 0
    assert "Usage: ds" in found.out


def test_usage_mistakes_exit_2(ds) -> None:
    assert ds("query").code == 2
    assert ds("query", "SELECT 1", "--limit", "0").code == 2
    assert ds("explain", "visits", "--level", "nonsense").code == 2
    found = ds("qury")
    assert found.code == 2
    assert "query" in found.err


def test_mistakes_of_the_project_exit_1_and_leave_stdout_empty(ds) -> None:
    found = ds("query", "SELECT * FROM nothing")
    assert (found.code, found.out) == (1, "")
    assert "UNKNOWN_RELATION" in found.err
    assert "^" in found.err


def test_our_own_mistakes_exit_3(ds, monkeypatch: pytest.MonkeyPatch) -> None:
    from ds_dagster.cli.commands import data as data_commands

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(data_commands, "load_project", broken)
    found = ds("query", "SELECT 1")
    assert found.code == 3
    assert "bug" in found.err


def test_outside_a_project_the_way_in_is_shown(ds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "ds.toml").unlink()
    monkeypatch.chdir(elsewhere)
    found = ds("query", "SELECT 1", "--json")
    assert found.code == 1
    assert found.conditions == ["PROJECT_NOT_FOUND"]
    assert "ds init" in found.json["diagnostics"][0]["hint"]


def test_check_has_the_documented_shape(ds) -> None:
    found = ds("check", "--json").json
    assert set(found) == {"ok", "statements", "relations", "diagnostics"}
    assert found["ok"] is True
    by_name = {relation["fqn"]: relation for relation in found["relations"]}
    assert by_name["d.public.visits"]["key"] == ["url", "device"]
    assert by_name["d.public.clicks"]["columns"][0] == {"name": "at", "type": "TIMESTAMP_LTZ(3)", "nullable": True}


def test_ps_has_the_documented_shape_before_anything_ran(ds) -> None:
    found = ds("ps", "--json").json
    assert set(found) == {"engines", "jobs"}
    assert found["jobs"] == []
    assert found["engines"][0]["log"].endswith("/.ds/logs/engine.log")
    assert "ds: engine default: not running\n" in ds("ps").err


def test_stop_without_an_engine_tells_at_once_what_is_true(ds, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(project)
    control = Control.open(settings)
    control.ensure(load_project(project, settings=settings), ["visits", "paid"])
    monkeypatch.setattr(SystemClock, "sleep", lambda *_: pytest.fail("nobody will answer"))
    found = ds("stop", "visits")
    assert (found.code, found.err) == (
        0, "ds: stopping visits; no engine runs, so none of them does\nds: visits: stopped\n",
    )  # fmt: skip
    assert ds("stop", "visits", "paid", "--json").json == [
        {"name": "visits", "outcome": "nothing", "generation": 2, "state": "STOPPED"},
        {"name": "paid", "outcome": "stopped", "generation": 2, "state": "STOPPED"},
    ]


def test_stop_says_what_has_not_stopped(ds, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(project)
    control = Control.open(settings)
    control.ensure(load_project(project, settings=settings), ["visits"])
    engine_says(control, StatusRow("visits", "RUNNING", generation=1))
    monkeypatch.setattr(jobs_commands, "WAIT_SECONDS", 0.0)
    lock = FileLock(Places.of(settings).python_lock)
    assert lock.acquire({"pid": 1, "token": "t"})
    try:
        found = ds("stop", "visits")
    finally:
        lock.release()
    assert found.code == 1
    assert "visits is still UNKNOWN" in found.err


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (
            "statement",
            "CREATE MATERIALIZED VIEW visits AS SELECT url, device, COUNT(*) AS n FROM clicks GROUP BY url, device",
        ),
        ("plan", "Aggregate by clicks.url VARCHAR, clicks.device VARCHAR"),
        ("stages", "ensure kafka.clicks: topic.partitions = 1, topic.replicas = 1"),
    ],
)
def test_explain_levels_without_a_server(ds, level: str, expected: str) -> None:
    found = ds("explain", "visits", "--level", level)
    assert found.code == 0, found.err
    assert expected in found.out


def test_rows_of_a_store_that_cannot_be_asked_are_refused(ds, project: Path) -> None:
    (project / "sql" / "held.sql").write_text(
        "CREATE STORE here WITH ('type' = MEMORY);\n"
        "CREATE TABLE held WITH ('store' = 'here') AS SELECT url, price FROM clicks;\n"
    )
    found = ds("query", "SELECT url FROM held", "--json")
    assert (found.code, found.conditions) == (1, ["QUESTION_STORE_UNREADABLE"])
    assert "held" in found.json["diagnostics"][0]["message"]
    assert "MEMORY" in found.json["diagnostics"][0]["message"]


def test_explain_stages_tell_the_launch_in_order(ds) -> None:
    steps = [line.split(" ", 1)[1] for line in ds("explain", "orders", "--level", "stages").out.splitlines()]
    words = [step.split()[0].rstrip(":") for step in steps]
    assert words == ["check", "check", "ensure", "prepare", "wait", "open", "start", "report"]


def test_explain_plan_as_data(ds) -> None:
    found = ds("explain", "visits", "--json").json
    plan = found["queries"]["visits"]
    assert [node["node"] for node in plan["nodes"]] == ["Project", "Aggregate", "Scan"]


def test_explain_of_a_declared_relation_is_its_statement(ds) -> None:
    assert ds("explain", "clicks").out.startswith("CREATE STREAM clicks")


def test_lineage_as_json_and_mermaid(ds) -> None:
    edges = ds("lineage", "visits", "--json").json["edges"]
    assert edges == [{"from": "d.public.clicks", "to": "d.public.visits"}]
    assert ds("lineage", "--mermaid").out.startswith("flowchart LR")


def test_up_refuses_unknown_servers(ds) -> None:
    found = ds("up", "--only", "mysql", "--json")
    assert found.code == 1
    assert found.conditions == ["LOCAL_SERVER_UNKNOWN"]


def test_down_without_servers_is_fine(ds) -> None:
    assert ds("down", "--json").json == {"stopped": []}


def test_down_says_that_the_engine_stays(ds, project) -> None:
    lock = FileLock(Places.of(load_settings(project)).python_lock)
    assert lock.acquire({"pid": 1})
    assert "`ds engine stop` ends it" in ds("down").err
    lock.release()
    assert "engine" not in ds("down").err


def test_doctor_names_facts_and_fixes(ds) -> None:
    found = ds("doctor", "--json")
    facts = {fact["name"]: fact for fact in found.json["facts"]}
    assert {"python", "java", "jars spark-kafka", "disk state"} <= set(facts)
    assert found.code == (0 if found.json["ok"] else 1)
    assert all(fact["fix"] for fact in facts.values() if not fact["ok"])


def test_an_overlay_in_force_is_told_on_stderr(ds, project: Path) -> None:
    (project / ".ds").mkdir()
    (project / ".ds" / "local.toml").write_text('[kinds.kafka]\nuris = "127.0.0.1:2"\n')
    found = ds("ls", "stores")
    assert "store addresses come from .ds/local.toml" in found.err
    assert "127.0.0.1:2" in found.out


@pytest.mark.sweep
def test_looking_at_data_imports_neither_spark_nor_dagster_nor_a_driver(project: Path, views) -> None:
    views.write("visits", {"url": ["a"], "device": ["b"], "n": [1]})
    code = (
        "import sys, json; from ds_dagster.cli.main import run; "
        "code = run(['query', 'SELECT * FROM visits', '--json']); "
        "heavy = [m for m in ('pyspark', 'dagster', 'boto3', 'confluent_kafka', 'psycopg2') if m in sys.modules]; "
        "sys.stderr.write('HEAVY ' + json.dumps(heavy)); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.rsplit("HEAVY ", 1)[1]) == []


def test_the_project_may_stand_before_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.chdir(empty)
    assert run(["--project", str(project), "ps"]) == 0
    assert run(["ps", "--project", str(project)]) == 0
    assert run(["--project", str(empty), "ps", "--project", str(project)]) == 0, "the nearer one wins"
    assert run(["ps"]) == 1


@pytest.mark.parametrize(
    ("desired", "state", "down"),
    [
        ("RUNNING", "RUNNING", False), ("RUNNING", "STARTING", False), ("RUNNING", "FAILED", True),
        ("RUNNING", "BACKING_OFF", True), ("RUNNING", "UNKNOWN", True), ("RUNNING", "ABSENT", True),
        ("STOPPED", "STOPPED", False), ("STOPPED", "UNKNOWN", False), ("FINISHED", "FINISHED", False),
        ("FINISHED", "FAILED", True),
    ],
)  # fmt: skip
def test_what_counts_as_down(desired: Any, state: Any, down: bool) -> None:
    assert JobStatus("q", "j", "r", state, desired).is_down is down


def test_the_exit_code_of_ps_and_doctor_tells_of_jobs_that_are_down(
    ds, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ds("ps", "--exit-code").code == 0
    failed = JobStatus("visits", "j", "r", "FAILED", "RUNNING", "X", "no way", "mend it")
    monkeypatch.setattr(Control, "statuses", lambda self, names=None: (failed,))
    assert ds("ps").code == 0
    assert ds("ps", "--exit-code").code == 1
    assert ds("ps", "--exit-code", "--json").code == 1
    state = project / ".ds"
    state.mkdir(exist_ok=True)
    (state / "journal.db").touch()
    told = ds("doctor", "--json")
    assert told.code == 1
    assert {"name": "job visits", "ok": False, "found": "FAILED no way", "fix": "mend it"} in told.json["facts"]


def test_nothing_near_is_not_offered(ds) -> None:
    told = ds("logs", "nosuch")
    assert told.code == 1
    assert "(none)" not in told.err


def test_check_online_asks_the_stores(ds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_admin, "CALL_SECONDS", 1.0)
    told = ds("check", "--online", "--json")
    assert told.code == 1
    assert {"STORE_NOT_USABLE"} <= set(told.conditions)
