"""`ds errors`: every condition explained without a network, a project or Spark."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

from ds_dagster.cli.main import run
from ds_dagster.conditions import CONDITIONS, TOPICS
from ds_dagster.documentation import address
from ds_dagster.documentation.address import base_url, condition_url
from ds_dagster.documentation.conditions import HEADINGS, examples, explained, topic_of
from ds_dagster.errors import error

SITE = "https://docs.example.com/ds"


@pytest.fixture(autouse=True)
def unpublished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No address from the machine's own environment, and a folder without a project."""
    monkeypatch.delenv("DS_DOCS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    address._published.cache_clear()
    yield
    address._published.cache_clear()


@pytest.mark.parametrize("name", ["UNKNOWN_COLUMN", "unknown_column", "[UNKNOWN_COLUMN]"])
def test_a_condition_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["errors", name]) == 0
    said = capsys.readouterr().out
    assert "no column is called {name} in" in said
    assert "What to do:" in said
    assert "FROM clicks;\n" in said and "      ^" in said, "a statement that raises it, with the place"
    assert "http" not in said, "no address while nothing is published"


def test_every_condition_can_be_explained() -> None:
    assert {topic.__name__.rpartition(".")[2] for topic in TOPICS} == set(HEADINGS)
    for name in CONDITIONS:
        found = explained(name)
        assert found.message and found.meaning and HEADINGS[topic_of(name)] == found.topic
    assert set(examples()) <= set(CONDITIONS)
    assert len(examples()) > 200


def test_the_list_has_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["errors", "--json"]) == 0
    assert {found["name"] for found in json.loads(capsys.readouterr().out)} == set(CONDITIONS)
    assert run(["errors"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CONDITIONS) + 1


def test_an_unknown_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["errors", "UNKNOWN_COLUM"]) == 1
    said = capsys.readouterr().err
    assert "CONDITION_UNKNOWN" in said
    assert "did you mean UNKNOWN_COLUMN" in said


def test_a_name_that_is_near_none_gets_no_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["errors", "NAME"]) == 1
    said = capsys.readouterr().err
    assert "did you mean" not in said
    assert "hint: `ds errors` lists all of them" in said


def test_the_address_is_printed_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = error("CONDITION_UNKNOWN", name="x", nearest="Y")
    assert "see:" not in problem.diagnostic().text()
    assert problem.diagnostic().json()["url"] is None
    monkeypatch.setenv("DS_DOCS_URL", SITE + "/")
    assert problem.diagnostic().text().endswith(f"\n  see: {SITE}/reference/errors/CONDITION_UNKNOWN/")
    assert run(["errors", "CONDITION_UNKNOWN", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["url"] == f"{SITE}/reference/errors/CONDITION_UNKNOWN/"


def test_a_published_package_says_where_its_pages_are(monkeypatch: pytest.MonkeyPatch) -> None:
    published = Message()
    published["Project-URL"] = "Homepage, https://example.com"
    published["Project-URL"] = f"Documentation, {SITE}"
    monkeypatch.setattr(importlib.metadata, "metadata", lambda _name: published)
    address._published.cache_clear()
    assert condition_url("X") == f"{SITE}/reference/errors/X/"
    monkeypatch.setenv("DS_DOCS_URL", "https://intern.example.com")
    assert base_url() == "https://intern.example.com", "the environment wins"
