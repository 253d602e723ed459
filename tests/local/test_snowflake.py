"""The stand-in for Snowflake: installed apart, started by pid, found healthy by its login, ended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ds_dagster.errors import DsError
from ds_dagster.local import servers, snowflake
from ds_dagster.local.ports import assign_ports, is_listening
from ds_dagster.local.server import Home, running, start_server, stop_server
from ds_dagster.project.load import load_project, store_admin


def home(state: Path) -> Home:
    return Home(state, "snowflake", assign_ports(state, ("snowflake",)))


@pytest.mark.servers
def test_it_starts_answers_and_ends(tmp_path: Path) -> None:
    place = home(tmp_path)
    told: list[str] = []
    try:
        record = start_server(snowflake.SERVER, place, told.append)
        assert snowflake.ailment(place) is None
        assert start_server(snowflake.SERVER, place, told.append) == record, "nothing to do for one that runs"
    finally:
        stop_server(snowflake.SERVER, place)
    assert running(place) is None
    assert not is_listening(place.port)
    assert snowflake.ailment(place) is not None


@pytest.mark.servers
def test_an_installation_that_fails_shows_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DsError) as refused:
        snowflake.install(lambda _: None)
    assert refused.value.condition == "SNOWFLAKE_SERVER_INSTALL_FAILED"
    assert "fakesnow" in refused.value.detail
    assert not (snowflake.installed_folder() / "complete").exists()


@pytest.mark.servers
def test_it_is_started_by_name_only_and_stores_point_at_it(tmp_path: Path) -> None:
    state = tmp_path / ".ds"
    sql = tmp_path / "sql"
    sql.mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.ds-dagster]\n", encoding="utf-8")
    (sql / "a.sql").write_text(
        "CREATE STORE sf WITH ('type' = SNOWFLAKE, 'snowflake.account_id' = 'myorg-acme', "
        "'snowflake.warehouse_name' = 'WH', 'snowflake.client.key_file' = '@keys/loader.p8', "
        "'snowflake.username' = 'loader');",
        encoding="utf-8",
    )
    assert "snowflake" not in servers.KINDS
    try:
        assert set(servers.up(state, only=["snowflake"]).json()) == {"snowflake"}
        found = {server.name: server.state for server in servers.status(state)}
        assert found["snowflake"] == "running"
        project = load_project(tmp_path)
        assert not project.errors
        with closing(store_admin(project, "sf", lambda value: str(value.value))) as admin:
            assert admin.probe().ok
    finally:
        assert servers.down(state) == ("snowflake",)
