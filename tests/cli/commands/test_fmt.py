"""``ds fmt``: what is written, what is only said, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_dagster.cli.main import run

GOOD, BAD = "CREATE DATABASE d;\n", "create   database d;\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ds.toml").write_text("")
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(BAD)
    (tmp_path / "sql" / "b.sql").write_text(GOOD)
    return tmp_path


def test_files_are_written_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fmt", "--project", str(folder)]) == 0
    assert (folder / "sql" / "a.sql").read_text() == GOOD
    assert "2 files, 1 changed, 0 with mistakes" in capsys.readouterr().err
    assert run(["fmt", "--check", "--project", str(folder)]) == 0


def test_check_and_diff_write_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "sql" / "a.sql"
    assert run(["fmt", "--check", str(file)]) == 1
    assert f"would lay out {file}" in capsys.readouterr().err
    assert run(["fmt", "--diff", str(folder / "sql")]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["-" + BAD.strip(), "+" + GOOD.strip()]
    assert run(["fmt", "--check", "--diff", str(folder / "sql"), "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert [(Path(one["file"]).name, one["changed"]) for one in shown["files"]] == [("a.sql", True), ("b.sql", False)]
    assert file.read_text() == BAD


def test_a_file_with_mistakes_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "sql" / "a.sql").write_text("create   strem s;\n")
    (folder / "sql" / "c.sql").write_bytes(b"-- \xff\n")
    assert run(["fmt", "--project", str(folder)]) == 1
    said = capsys.readouterr().err
    assert "[CREATE_UNKNOWN]" in said and "[SQL_FILE_UNREADABLE]" in said
    assert (folder / "sql" / "a.sql").read_text() == "create   strem s;\n"
    assert run(["fmt", "nowhere.sql"]) == 2
