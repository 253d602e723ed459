"""The Dagster surface end to end: ``dagster dev``, the engine and the servers are real, GraphQL is the user.

One ``dagster dev`` lives through the whole file; tests run in the order they stand in.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.orchestration.health.report import HEARTBEAT_SECONDS
from tests.e2e.clickstream import CLICKSTREAM, clicks, user
from tests.e2e.dagster_dev import MARKED_SECRET, DagsterHouse, path_of
from tests.e2e.feeding import KINESIS_SECRET, until

STREAMS = {*CLICKSTREAM, "pageviews_kafka", "pageviews_enriched"}
DECLARED = {"clicks", "users", "pageviews_kinesis", "users_kafka"}
LIVE = {"url_visits", "user_clicks", "desktop_clicks"}
"""Those that run to the end of the file. The others stop after the loads: each takes one and a half percent of a
processor while it waits, and a second of it when the engine is back."""
LOADS = {"region_clicks", "page_visits"}
COUNT = 400
GOOD = dict.fromkeys(("running", "lag", "progress", "definition_current", "fresh"), "passed")
"""Every check of ``desktop_clicks``, which has ``@freshness``, when all is well."""
NOT_KNOWN = {"lag": "WARN", "progress": "WARN", "fresh": "WARN"}
"""Checks whose answers are those of a query that runs, while it does not."""
CHANCE = random.Random(7)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterHouse]:
    house = DagsterHouse(tmp_path_factory.mktemp("studio"))
    try:
        house.dev.wait_ready()
        yield house
    finally:
        house.close()


def until_outcomes(studio: DagsterHouse, wanted: dict[str, str]) -> None:
    """Wait until every check of ``desktop_clicks`` says what is wanted."""
    until(lambda: studio.dev.outcomes("desktop_clicks") == wanted, f"the checks are {wanted}", pause=1.0)


def until_all_pass(studio: DagsterHouse) -> None:
    """Wait until every check of every query that runs passes."""
    until(lambda: studio.dev.all_pass(LIVE), "every check passes", pause=1.0)


def events_of(run: dict[str, Any]) -> str:
    return json.dumps(run["eventConnection"]["events"])


def test_the_project_loads_as_a_graph(studio: DagsterHouse) -> None:
    nodes = studio.dev.nodes()
    assert set(nodes) == STREAMS | DECLARED | LOADS | {"click_sample", "ds_engine"}
    assert {name for name, node in nodes.items() if node["isMaterializable"]} == STREAMS | LOADS | {"click_sample"}
    assert {name for name, node in nodes.items() if node["isObservable"]} == DECLARED
    assert nodes["user_clicks"]["groupName"] == "clickstream"
    assert sorted(nodes["user_clicks"]["kinds"]) == ["kafka", "spark", "stream"]
    sources = {key["path"][-1] for key in nodes["user_clicks"]["dependencyKeys"]}
    assert sources == {"clicks", "users"}
    assert not (studio.state / "journal.db").exists(), "loading starts nothing"


def test_one_stream_is_materialized(studio: DagsterHouse) -> None:
    run = studio.dev.materialize("url_visits")
    assert run["status"] == "SUCCESS", events_of(run)
    assert studio.control.status("url_visits").state == "RUNNING"
    assert studio.dev.metadata("url_visits")["ds_dagster/outcome"] == "started"
    good = dict.fromkeys(("running", "lag", "progress", "definition_current"), True)
    until(lambda: studio.dev.checks("url_visits") == good, "all checks are green", pause=1.0)


def test_rows_are_told_by_the_sensor(studio: DagsterHouse) -> None:
    studio.send("clicks", clicks(CHANCE, COUNT, 0))
    until(lambda: sum(row["visits"] for row in studio.view("url_visits")) == COUNT, "the view has counted all clicks")
    reason = studio.dev.until_tick(lambda text: "engine running (pid " in text, "the sensor has ticked")
    assert "1 running" in reason

    def rows() -> int:
        found = [studio.dev.metadata("url_visits")] if studio.dev.asset("url_visits")["assetMaterializations"] else []
        return int(found[0].get("ds_dagster/rows") or 0) if found else 0

    until(lambda: rows() == COUNT, "a heartbeat tells the rows", pause=1.0)
    told = studio.dev.metadata("url_visits")
    assert told["ds_dagster/lag_records"] == 0
    assert told["ds_dagster/state"] == "RUNNING"
    made = studio.dev.asset("url_visits")["assetMaterializations"]
    tags = [{t["key"]: t["value"] for t in event["tags"]} for event in made[:2]]
    assert tags[0]["dagster/code_version"] == tags[1]["dagster/code_version"], "a heartbeat keeps the tags"
    assert studio.dev.checks("url_visits")["running"] is True


def test_everything_is_materialized_in_one_run(studio: DagsterHouse) -> None:
    studio.run("user_clicks")  # makes the stream of users, so that it can be fed
    studio.put("users", [user(f"User_{number}", 1) for number in range(40)], key="userid")
    run = studio.dev.materialize(*STREAMS, "region_clicks")
    assert run["status"] == "SUCCESS", events_of(run)
    assert {s.name: s.state for s in studio.control.statuses() if s.name in STREAMS} == dict.fromkeys(
        STREAMS, "RUNNING"
    )
    assert next(seen["outcome"] for seen in studio.dev.observed("url_visits") if "outcome" in seen) == "adopted"
    made = studio.dev.asset("url_visits")["assetMaterializations"]
    assert run["runId"] not in {event["runId"] for event in made}, "adopting is no new data"
    assert studio.dev.nodes()["region_clicks"]["opNames"] == ["load_clickstream_db_public_region_clicks"]


def test_an_incremental_load_reports_its_rows(studio: DagsterHouse) -> None:
    studio.send("clicks", clicks(CHANCE, COUNT, COUNT))
    until(lambda: sum(row["visits"] for row in studio.view("url_visits")) == 2 * COUNT, "all clicks are counted")
    run = studio.dev.materialize("region_clicks")
    assert run["status"] == "SUCCESS", events_of(run)
    loaded = studio.dev.metadata("region_clicks")
    rows = studio.table("SELECT click_url, user_regionid, url_region_click_count FROM region_clicks")
    assert rows
    assert loaded["ds_dagster/rows_loaded"] >= 1
    assert loaded["ds_dagster/refresh"] == "incremental"


def test_a_load_in_the_step_reports_the_rows_of_its_table(studio: DagsterHouse) -> None:
    before = studio.dev.metadata("region_clicks")["ds_dagster/rows_loaded"]
    run = studio.dev.materialize("page_visits", "region_clicks")
    assert run["status"] == "SUCCESS", events_of(run)
    assert before > 0
    assert studio.dev.metadata("region_clicks")["ds_dagster/rows_loaded"] == 0, "nothing came since"
    rows = studio.table("SELECT url, device_id, click_count FROM page_visits")
    wanted = {(row["url"], row["device_id"]): row["visits"] for row in studio.view("url_device_visits")}
    assert {(row["url"], row["device_id"]): row["click_count"] for row in rows} == wanted
    assert studio.dev.metadata("page_visits")["dagster/row_count"] == len(rows)
    studio.stop(*(STREAMS - LIVE))


def test_run_config_restarts_stops_and_resets(studio: DagsterHouse) -> None:
    def act(action: str) -> dict[str, Any]:
        return studio.dev.materialize("desktop_clicks", ds_streams={"action": action, "allow_duplicates": True})

    before = studio.control.status("desktop_clicks")
    assert act("restart")["status"] == "SUCCESS"
    restarted = studio.control.status("desktop_clicks")
    assert restarted.incarnation != before.incarnation
    assert restarted.checkpoint_version == before.checkpoint_version
    until_outcomes(studio, GOOD)
    until(lambda: studio.dev.freshness("desktop_clicks") == "HEALTHY", "Dagster has asked for its freshness", pause=1.0)
    stopping = act("stop")
    assert stopping["status"] == "SUCCESS"
    until(lambda: studio.control.status("desktop_clicks").state == "STOPPED", "it is stopped")
    until_outcomes(studio, {**GOOD, **NOT_KNOWN, "running": "WARN"})
    materializations = studio.dev.asset("desktop_clicks")["assetMaterializations"]
    assert stopping["runId"] not in {event["runId"] for event in materializations}, "a stop is no new data"
    until(  # a look at a query that is stopping says so, as a warning too
        lambda: studio.dev.verdicts("desktop_clicks")["running"][1] == "stopped on request",
        "the check says so",
        pause=1.0,
    )
    assert studio.dev.verdicts("desktop_clicks")["fresh"][1] == "stopped: no new data comes"
    assert studio.dev.freshness("desktop_clicks") == "HEALTHY", "Dagster asks for the age of a materialization alone"
    until(lambda: ("STOPPING", "STOPPED") in studio.dev.incidents("desktop_clicks"), "the stop is an event", pause=1.0)
    assert studio.dev.asset("desktop_clicks")["assetMaterializations"] == materializations, "no heartbeat while stopped"
    assert act("reset")["status"] == "SUCCESS"
    reset = studio.control.status("desktop_clicks")
    assert (reset.state, reset.checkpoint_version) == ("RUNNING", before.checkpoint_version + 1)


@pytest.mark.parametrize(
    ("mistake", "condition"),
    [
        pytest.param(("SELECT * FROM", "SELECT *,, FROM"), "SYNTAX", id="syntax", marks=pytest.mark.slow),
        pytest.param(("= 'desktop'", "= desktop"), "UNKNOWN_COLUMN", id="binding"),
    ],
)
def test_a_broken_statement_and_a_broken_file_hide_nothing(
    studio: DagsterHouse, mistake: tuple[str, str], condition: str
) -> None:
    """Of a query that runs, and of one that is new. Each reload starts a code server: both mistakes have one."""
    before, node = studio.control.status("desktop_clicks"), studio.dev.nodes()["desktop_clicks"]
    statement = "CREATE STREAM desktop_clicks AS\n  SELECT * FROM clicks WHERE device_id = 'desktop';"
    broken = studio.root / "sql" / "broken.sql"
    studio.rewrite(statement, statement.replace(*mistake))
    broken.write_text("CREATE STREAM wrong AS SELECT urll FROM clicks;\n")
    try:
        studio.dev.reload()
        nodes = studio.dev.nodes()
        assert set(nodes) == STREAMS | DECLARED | LOADS | {"click_sample", "ds_engine", "wrong"}
        assert nodes["desktop_clicks"] == node, "key, dependencies, kinds, group and op"
        until_outcomes(studio, {**GOOD, "definition_current": "WARN", "compiles": "ERROR"})
        told = studio.dev.verdicts("desktop_clicks")
        assert condition in told["compiles"][1]
        assert "runs on with its last definition" in told["definition_current"][1]
        after = studio.control.status("desktop_clicks")
        assert (after.state, after.incarnation) == ("RUNNING", before.incarnation)
        assert "orphans" not in studio.dev.ticks()[0]["skipReason"]
        fails_alone(studio, "wrong", "UNKNOWN_COLUMN", "broken.sql:1")
    finally:
        studio.rewrite(statement.replace(*mistake), statement)
        broken.unlink()
        studio.dev.reload()
    assert "wrong" not in studio.dev.nodes()
    until_outcomes(studio, GOOD)


def fails_alone(studio: DagsterHouse, name: str, *texts: str) -> None:
    """An asset that does not compile fails with these texts; other queries are materialized, and a user's own asset
    uses the client of a store."""
    run = studio.dev.materialize(name)
    assert run["status"] == "FAILURE"
    assert [text for text in texts if text not in events_of(run)] == []
    assert studio.dev.checks(name) == {"compiles": False}
    run = studio.dev.wait_run(studio.dev.launch([path_of("url_visits"), ["click_sample"]]))
    assert run["status"] == "SUCCESS", events_of(run)
    assert {step["stepKey"]: step["status"] for step in run["stepStats"]}["click_sample"] == "SUCCESS"


def test_the_sensor_brings_a_killed_engine_back(studio: DagsterHouse) -> None:
    before, old = studio.control.status("url_visits"), studio.dev.ended_ticks()
    for pid in (studio.python(), studio.jvm()):
        os.kill(pid, signal.SIGKILL)
    reason = studio.dev.until_tick(
        lambda text: "engine was gone, started again" in text, "the sensor starts the engine", old
    )
    assert "url_visits" not in reason
    outage = {**NOT_KNOWN, "running": "ERROR"}.items()
    until(lambda: outage <= studio.dev.outcomes("desktop_clicks").items(), "the outage is on the page", pause=1.0)

    def runs_again() -> bool:
        """What the dead engine wrote last says RUNNING too."""
        now = studio.control.status("url_visits")
        return now.state == "RUNNING" and now.incarnation != before.incarnation

    until(runs_again, "the queries run again")
    until(lambda: ("RUNNING", "ABSENT") in studio.dev.incidents("url_visits"), "the outage is an event", pause=1.0)
    until_outcomes(studio, GOOD)
    told = studio.dev.incidents("url_visits")
    assert told.count(("RUNNING", "ABSENT")) == 1, "once"
    until_all_pass(studio)
    outages = {name: studio.dev.incidents(name).count(("RUNNING", "ABSENT")) for name in LIVE}
    assert outages == dict.fromkeys(LIVE, 1), "an event of every query, once"
    until(lambda: studio.dev.verdicts("ds_engine")["up"][0] == "passed", "the engine's own asset is well", pause=0.5)
    states = [entry["state"] for entry in studio.dev.observed("ds_engine")]
    assert states[0] == "RUNNING"
    assert "GONE" in states, "its outage is an event, too"
    after = studio.control.status("url_visits")
    assert after.checkpoint_version == before.checkpoint_version
    studio.send("clicks", clicks(CHANCE, COUNT, 2 * COUNT))
    until(lambda: sum(row["visits"] for row in studio.view("url_visits")) >= 3 * COUNT, "clicks are counted again")
    assert sum(row["visits"] for row in studio.view("url_visits")) == 3 * COUNT, "nothing doubled"


def test_queries_outlive_dagster_dev_and_are_adopted(studio: DagsterHouse) -> None:
    studio.until_running(sorted(LIVE))
    before = {status.name: status.incarnation for status in studio.control.statuses()}
    pid = studio.python()
    history = {event["timestamp"] for event in studio.dev.asset("url_visits")["assetMaterializations"]}
    assert history
    until_all_pass(studio)
    incidents = {name: studio.dev.incidents(name) for name in LIVE}
    studio.dev.kill()
    studio.send("clicks", clicks(CHANCE, COUNT, 3 * COUNT))
    until(
        lambda: sum(row["visits"] for row in studio.view("url_visits")) == 4 * COUNT, "counting goes on without Dagster"
    )
    studio.restart_dev()
    run = studio.dev.materialize("url_visits", "user_clicks", "desktop_clicks")
    assert run["status"] == "SUCCESS", events_of(run)
    assert next(seen["outcome"] for seen in studio.dev.observed("url_visits") if "outcome" in seen) == "adopted"
    until_all_pass(studio)
    assert {name: studio.dev.incidents(name) for name in LIVE} == incidents, "adopting is no incident"
    assert studio.python() == pid
    assert {status.name: status.incarnation for status in studio.control.statuses()} == before
    later = {event["timestamp"] for event in studio.dev.asset("url_visits")["assetMaterializations"]}
    assert history <= later, "history is kept"


RESOURCES = """query R($selector: ResourceSelector!) { topLevelResourceDetailsOrError(resourceSelector: $selector) {
  ... on ResourceDetails { configuredValues { key value type } configFields { name isSecret } } } }"""


SECRETS = {"password", "client_secret", "client_key_password"}
"""Fields of a Kafka store's resource that Dagster masks."""


def test_secrets_show_nowhere(studio: DagsterHouse) -> None:
    selector = {
        "repositoryLocationName": studio.dev.location,
        "repositoryName": "__repository__",
        "resourceName": "msk",
    }
    found = studio.dev.ask(RESOURCES, selector=selector)["topLevelResourceDetailsOrError"]
    values = {entry["key"]: (entry["type"], entry["value"]) for entry in found["configuredValues"]}
    assert values["password"] == ("ENV_VAR", "MARKED_SASL_SECRET")
    assert values["username"] == ("VALUE", json.dumps("reader"))
    assert {field["name"] for field in found["configFields"] if field["isSecret"]} >= SECRETS
    for secret in (MARKED_SECRET, KINESIS_SECRET):
        assert files_with(studio.root, secret) == {studio.root / ".env"}


def files_with(root: Path, text: str) -> set[Path]:
    """Files below a folder that hold a text, Dagster's storage and all logs among them."""
    return {
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes()
    }


def test_nothing_is_stale(studio: DagsterHouse) -> None:
    """Once the sensor has looked at the sources that were loaded last."""
    fresh = dict.fromkeys(LIVE, "FRESH")
    until(lambda: studio.dev.stale(LIVE) == fresh, "every stream that runs is fresh", pause=1.0)


def test_the_event_log_stays_small(studio: DagsterHouse) -> None:
    """Runless events are kept for ever: a busy project must not write one per batch."""
    made = studio.dev.asset("url_visits")["assetMaterializations"]
    beats = [int(event["timestamp"]) / 1000 for event in made if not event["runId"]]
    gaps = [newer - older for newer, older in itertools.pairwise(beats)]
    assert beats
    assert all(gap >= HEARTBEAT_SECONDS for gap in gaps), gaps
