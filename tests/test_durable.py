"""What is forced to disk when a file is written: whatever holds it or its name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ds_dagster.durable import write_whole


def test_the_file_and_every_new_name_are_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[Path] = []

    def note(descriptor: int) -> None:
        forced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    path = tmp_path / "a" / "b" / "c.txt"
    write_whole(path, b"one")
    assert {found.parent for found in forced if found.name.startswith(".c.txt.")} == {path.parent}
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= set(forced)
    assert forced[-1] == path.parent, "its name comes last"
    forced.clear()
    write_whole(path, b"two")
    assert (path.read_bytes(), forced[-1], len(forced)) == (b"two", path.parent, 2)
    assert [found.name for found in path.parent.iterdir()] == ["c.txt"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.txt"
    write_whole(path, b"one")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"two")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("c.txt", b"one")]
