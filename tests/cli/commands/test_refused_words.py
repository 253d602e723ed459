"""Words after a command that mean nothing are refused, and an empty answer says that it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.project.load import load_project
from ds_dagster.questions import following
from ds_dagster.runtime.control import Control
from tests.command_line import Ds


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("check", "sql/al.sql"), "'sql/al.sql' does not exist"),
        (("lineage", "visits", "--columns", "--mermaid"), "choose --columns or --mermaid"),
        (("lineage", "--mermaid", "--json"), "choose one"),
        (("logs", "visits", "--pool", "heavy"), "leave QUERY or --pool out"),
    ],
)
def test_words_without_an_effect_are_refused(ds: Ds, words: Sequence[str], text: str) -> None:
    outcome = ds(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert text in outcome.err


def test_check_shows_the_mistakes_of_a_file(ds: Ds, project: Path) -> None:
    (project / "sql" / "wrong.sql").write_text("CREATE STREAM s AS SELECT urll FROM clicks;")
    assert ds("check", "sql/all.sql").code == 0
    assert ds("check", "sql/wrong.sql").code == 1
    assert ds("check", "sql").code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("logs", "visits"),
        ("stop", "visits"),
        ("savepoint", "visits"),
        ("skip", "visits", "--partition", "0", "--offset", "1"),
        ("sql", "-c", "TERMINATE QUERY visits"),
    ],
)
def test_a_query_that_was_never_started_is_known(ds: Ds, words: Sequence[str]) -> None:
    outcome = ds(*words)
    assert outcome.code == 1
    assert "visits was never started, so it has no job [JOB_NOT_STARTED]" in outcome.err
    assert "hint: `ds apply visits` starts it" in outcome.err
    other = ds(*(word.replace("visits", "visit") for word in words))
    assert (other.code, "[JOB_UNKNOWN]" in other.err, "did you mean visits" in other.err) == (1, True, True)


def test_an_empty_answer_says_so(ds: Ds) -> None:
    assert "there is nothing to delete" in ds("gc").err
    assert "there is no log yet: " in ds("logs").err
    assert "[COMPUTE_POOL_UNKNOWN]" in ds("logs", "--pool", "heavy").err


@pytest.mark.parametrize("verb", ["apply", "restart", "reset"])
def test_a_request_without_waiting_says_what_was_requested(
    ds: Ds, project: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(Control, "ensure_engines", lambda self, names, wait=0.0: None)
    loaded = load_project(project, strict=True)
    Control.open(loaded.settings).ensure(loaded, ["visits"])
    outcome = ds(verb, "visits", "--no-wait")
    assert outcome.code == 0
    assert "requested: visits; `ds ps` shows their states" in outcome.err


def test_apply_shows_a_mistake_once(ds: Ds, project: Path) -> None:
    (project / "sql" / "wrong.sql").write_text("CREATE STREAM s AS SELECT urll FROM clicks;")
    outcome = ds("apply")
    assert (outcome.code, outcome.err.count("[UNKNOWN_COLUMN]")) == (1, 1)
    assert ds("apply", "--json").conditions == ["UNKNOWN_COLUMN"]


@pytest.mark.parametrize(("limit", "says"), [("1", False), ("2", False), ("3", True)])
def test_a_stream_that_ends_before_the_limit_says_so(
    ds: Ds, monkeypatch: pytest.MonkeyPatch, limit: str, says: bool
) -> None:
    records = [RawRecord("0", str(n), n, None, b'{"url":"a"}') for n in range(2)]
    admin = SimpleNamespace(records=lambda *_, **__: iter(records), close=lambda: None)
    monkeypatch.setattr(following, "store_admin", lambda *_: admin)
    outcome = ds("query", "SELECT url FROM clicks", "--limit", limit)
    assert (outcome.code, len(outcome.out.splitlines())) == (0, min(int(limit), 2)), outcome.err
    assert ("clicks has no more rows up to its newest record" in outcome.err) is says


def test_commands_of_psql_are_taken_after_c(ds: Ds) -> None:
    assert ds("sql", "-c", r"\d visits").out == ds("sql", "-c", "DESCRIBE RELATION visits").out
    assert ds("sql", "-c", r"\d").out == ds("sql", "-c", "LIST RELATIONS").out


def test_a_view_that_is_not_written_yet_comes_with_the_state_of_its_query(ds: Ds, project: Path) -> None:
    assert "visits is not running: it has no rows yet" in ds("query", "SELECT url FROM visits").err
    loaded = load_project(project, strict=True)
    Control.open(loaded.settings).ensure(loaded, ["visits"])
    outcome = ds("query", "SELECT url FROM visits")
    assert outcome.code == 1 and "[VIEW_MISSING]" in outcome.err
    assert "it has no rows yet" in outcome.err and "visits is not running:" not in outcome.err
