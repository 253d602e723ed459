"""An application is one op with several assets, and one job behind them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.errors import DagsterInvalidSubsetError

from ds_dagster.orchestration import DsProject, build_ds_definitions
from tests.orchestration.conftest import STORES, STREAMS, Bench, failure_text, key, materialized, write_project
from tests.runtime.fakes import FakeClock

APPLICATION = """
BEGIN APPLICATION shop_front
  CREATE VIRTUAL STREAM phones AS SELECT * FROM clicks WHERE device = 'phone';
  -- Clicks from phones.
  -- @owner team:web
  CREATE STREAM phone_clicks AS SELECT url, at_ms FROM phones;
  CREATE CHANGELOG phone_counts AS SELECT url, COUNT(*) AS n FROM phones GROUP BY url;
END APPLICATION;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", stores=STORES, streams=STREAMS, together=APPLICATION)


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    made = Bench(DsProject(folder), FakeClock(wall=time.time()))
    yield made
    made.kill_engine()
    made.control.journal.close()


def test_one_op_with_several_assets(folder: Path) -> None:
    definitions = build_ds_definitions(DsProject(folder))
    dg.Definitions.validate_loadable(definitions)
    nodes = {node.name for node in definitions.resolve_implicit_global_asset_job_def().graph.node_defs}
    assert nodes == {"ds_streams", "ds_application_shop_front", "ds_sources", "ds_checks", "ds_engine_checks"}
    specs = {spec.key: spec for spec in definitions.resolve_all_asset_specs()}
    assert {dep.asset_key for dep in specs[key("phone_counts")].deps} == {key("clicks")}
    assert specs[key("phone_clicks")].owners == ["team:web"]
    assert key("phones") not in specs
    versions = {specs[key(name)].code_version for name in ("phone_clicks", "phone_counts")}
    assert len(versions) == 1


def test_materializing_runs_one_job_for_both(bench: Bench) -> None:
    result = bench.materialize("phone_clicks", "phone_counts")
    assert result.success
    assert sorted(materialized(result)) == ["phone_clicks", "phone_counts"]
    (status,) = bench.control.statuses()
    assert (status.name, status.state, status.generation) == ("shop_front", "RUNNING", 1)
    assert status.relation == "shop.public.phone_clicks, shop.public.phone_counts"


def test_half_of_it_cannot_be_materialized(bench: Bench) -> None:
    with pytest.raises(DagsterInvalidSubsetError, match="phone_counts"):
        bench.materialize("phone_clicks")


def test_it_fails_as_a_whole(bench: Bench) -> None:
    told = {"condition": "STORE_LOGIN_REFUSED", "message": "refused", "hint": "correct the password"}
    bench.answers["shop_front"] = {"state": "FAILED", **told}
    result = bench.materialize("phone_clicks", "phone_counts")
    assert not result.success
    assert materialized(result) == []
    assert failure_text(result).count("STORE_LOGIN_REFUSED") == 1


def test_a_mistake_in_one_statement_is_told_by_every_asset(folder: Path) -> None:
    write_project(folder, together=APPLICATION.replace("SELECT url, at_ms", "SELECT urll, at_ms"))
    definitions = build_ds_definitions(DsProject(folder))
    job = definitions.resolve_implicit_global_asset_job_def()
    said = {}
    for name in ("phone_clicks", "phone_counts"):
        said[name] = failure_text(job.execute_in_process(asset_selection=[key(name)], raise_on_error=False))
    assert "UNKNOWN_COLUMN" in said["phone_clicks"]
    assert "APPLICATION_REFUSED" in said["phone_counts"]
    assert "together.sql:6" in said["phone_counts"]
