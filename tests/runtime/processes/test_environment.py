"""Values for references in SQL: ``.env`` below the process environment, and an error that names an unreadable file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import UserError
from ds_dagster.runtime.processes.environment import engine_environment


def test_the_process_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nexport B='two words' # why\nC\n", encoding="utf-8")
    assert engine_environment(tmp_path, {"A": "process"}) == {"A": "process", "B": "two words"}
    assert engine_environment(tmp_path / "other", {"A": "process"}) == {"A": "process"}


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes("A=grün".encode("latin-1"))
    with pytest.raises(UserError) as refused:
        engine_environment(tmp_path, {})
    assert refused.value.condition == "VALUE_FILE_UNREADABLE"
    assert str(tmp_path / ".env") in refused.value.message and "not UTF-8 text" in refused.value.message
