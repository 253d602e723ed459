"""The stand-in for Snowflake: installed apart, started by pid, found healthy by its login, ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import DsError
from ds_dagster.local import snowflake
from ds_dagster.local.ports import assign_ports, is_listening
from ds_dagster.local.server import Home, running, start_server, stop_server


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
