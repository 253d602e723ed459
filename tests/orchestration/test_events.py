"""What the journal knows of jobs, as metadata of assets."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import dagster as dg

from ds_dagster.orchestration.events import status_metadata
from ds_dagster.runtime.control import Control
from tests.orchestration.conftest import Bench
from tests.orchestration.health.test_checks import status


def test_sources_tell_what_no_sum_holds() -> None:
    slot = {"lag_records": 0, "lag_seconds": 0.0, "lost_records": 0, "wal_status": "reserved", "lag_bytes": 17}
    found = status_metadata([status(details={"sources": {"orders": slot}}), status(name="p")])
    assert found["ds_dagster/orders/wal_status"] == "reserved"
    assert found["ds_dagster/orders/lag_bytes"] == 17
    assert "ds_dagster/orders/lag_records" not in found


def test_a_query_links_to_its_log() -> None:
    one, two = status(log="/p/.ds/logs/jobs/q.log"), status(name="p", log="https://logs/web/jobs/p.log")
    assert status_metadata([one])["ds_dagster/log"] == dg.MetadataValue.path("/p/.ds/logs/jobs/q.log")
    assert status_metadata([two])["ds_dagster/log"] == dg.MetadataValue.url("https://logs/web/jobs/p.log")
    assert {name for name in status_metadata([one, two]) if "/log" in name} == {"ds_dagster/log/q", "ds_dagster/log/p"}


def test_a_materialization_links_to_the_log_of_its_query(bench: Bench) -> None:
    (event,) = bench.materialize("desktop").get_asset_materialization_events()
    log = event.materialization.metadata["ds_dagster/log"]
    assert log == dg.MetadataValue.path(str(bench.control.log_path("desktop")))


def test_logs_have_addresses_below_that_of_the_settings(bench: Bench) -> None:
    engine = replace(bench.project.settings.engine, log_url="https://logs.example.com/web/")
    control = Control.open(replace(bench.project.settings, engine=engine), environment={})
    assert control.log_place() == "https://logs.example.com/web/engine.log"
    assert (
        control.log_place("clicks@2") == f"https://logs.example.com/web/jobs/{quote(control.log_path('clicks@2').name)}"
    )
