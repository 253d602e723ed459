"""``ds doctor --online``: what does not answer, what refuses, and that no secret is told."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SQL = """
CREATE SECRET there WITH ('type' = environment, 'variable' = 'MARKED');
CREATE SECRET gone WITH ('type' = file, 'secret_file' = 'nothing');
CREATE SCHEMA_REGISTRY closed WITH ('type' = CONFLUENT, 'uris' = 'http://127.0.0.1:1');
CREATE STORE lake WITH ('type' = DELTA, 'uris' = 'file://{folder}');
CREATE STORE closed_pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = there);
CREATE STORE silent WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:{port}/db', 'postgres.username' = 'u');
CREATE STORE unset WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${{NOT_SET}}');
"""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.sweep
def test_every_connection_is_asked_at_the_same_time(
    ds, project: Path, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKED", "marked-value")
    (project / "tables").mkdir()
    (project / "sql" / "all.sql").write_text(SQL.format(port=silent_port, folder=project / "tables"))
    began = time.monotonic()
    found = ds("doctor", "--online", "--timeout", "8", "--json")
    assert time.monotonic() - began < 24
    facts = {fact["name"]: fact for fact in found.json["facts"]}
    assert found.code == 1
    assert {name for name, fact in facts.items() if fact["ok"]} >= {"secret there", "store lake", "python"}
    wrong = {
        "secret gone": "nothing",
        "registry closed": "127.0.0.1:1",
        "store closed_pg": "127.0.0.1:1",
        "store silent": "no answer in 8 s",
        "store unset": "NOT_SET",
    }
    for name, text in wrong.items():
        assert not facts[name]["ok"]
        assert text in facts[name]["found"]
        assert facts[name]["fix"], name
    assert "it is retried" in facts["store closed_pg"]["fix"], "says that it is tried again"
    assert "marked-value" not in found.out + found.err


def test_refused_declarations_are_facts_too(ds, project: Path) -> None:
    text = "CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h/d', 'x' = 1);"
    (project / "sql" / "all.sql").write_text(text)
    found = ds("doctor", "--online", "--json")
    (fact,) = (one for one in found.json["facts"] if one["name"].startswith("at "))
    assert not fact["ok"]
    assert "unknown property x" in fact["found"]


def test_the_store_of_views_is_asked_too(ds, project: Path) -> None:
    text = """
    CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'tls.disabled' = TRUE);
    CREATE STREAM clicks (url VARCHAR) WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
    CREATE MATERIALIZED VIEW counts AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;
    """
    (project / "sql" / "all.sql").write_text(text)

    def fact() -> dict[str, object]:
        found = ds("doctor", "--online", "--timeout", "2", "--json")
        return next(one for one in found.json["facts"] if one["name"] == "store sqlite")

    assert fact()["ok"]
    (project / ".ds").mkdir(exist_ok=True)
    (project / ".ds" / "views").write_text("in the way")
    assert not fact()["ok"]
    checked = ds("check", "--online", "--json")
    assert ["sqlite" in one["message"] for one in checked.json["diagnostics"]
            if one["condition"] == "STORE_NOT_USABLE"] == [False, True]  # fmt: skip
    (project / "sql" / "all.sql").write_text(text.partition("CREATE MATERIALIZED")[0])
    names = {one["name"] for one in ds("doctor", "--online", "--timeout", "2", "--json").json["facts"]}
    assert "store sqlite" not in names, "nothing is in it"


def test_online_needs_a_project(ds, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = ds("doctor", "--online", "--json", "--project", str(tmp_path_factory.mktemp("empty")))
    assert found.code != 0
    assert found.conditions == ["PROJECT_NOT_FOUND"]
