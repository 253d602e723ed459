"""Versions of a view in files: the public name shows one or the other, wherever a hand-over stopped."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableTarget
from ds_dagster.datatypes import BIGINT, VARCHAR
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.stores.sqlite.loader import SqliteLoader
from ds_dagster.stores.sqlite.reader import open_views, view_names
from ds_dagster.stores.sqlite.versions import count, drop, rename, serve, version_file
from ds_dagster.stores.sqlite.views import file_name, view_path
from tests.driven import Driven
from tests.stores.sqlite.test_views import NAME, column, loader, rows

FILE = file_name(NAME)


def staged(folder: Path, version: int, *pairs: tuple[str, int]) -> Driven:
    target = TableTarget((FILE, NAME.name), (column("url", VARCHAR), column("n", BIGINT)), ("url",), "upsert")
    identity = SinkIdentity(f"j@{version}", 1)
    driven = Driven(SqliteLoader(folder / version_file(FILE, version), target, identity))
    driven.prepare()
    driven.load(rows(*pairs), 0)
    return driven


def total(folder: Path) -> int:
    with closing(open_views(folder, {"main": NAME})) as connection:
        return int(connection.execute("SELECT sum(n) FROM visits").fetchone()[0])


def test_the_name_shows_another_version_and_readers_are_whole(tmp_path: Path) -> None:
    old = loader(tmp_path)
    old.load(rows(("./a", 1)), 0)
    new = staged(tmp_path, 2, ("./a", 10), ("./b", 0))
    assert (total(tmp_path), view_names(tmp_path)) == (1, [NAME])
    assert [count(tmp_path, (FILE, NAME.name), version) for version in (0, 2, 7)] == [1, 2, 0]
    with closing(open_views(tmp_path, {"main": NAME})) as reader:
        old.close()
        new.close()
        serve(tmp_path, FILE, 1, 2)
        assert total(tmp_path) == 10
        assert reader.execute("SELECT sum(n) FROM visits").fetchone() == (1,), "who opened the old one has it whole"
    assert view_names(tmp_path) == [NAME]


@pytest.mark.parametrize("steps", ["nothing", "second name", "link"])
def test_a_hand_over_that_was_cut_off_is_finished(tmp_path: Path, steps: str) -> None:
    loader(tmp_path).load(rows(("./a", 1)), 0)
    staged(tmp_path, 2, ("./a", 10)).close()
    public = view_path(tmp_path, NAME)
    if steps != "nothing":
        os.link(public, tmp_path / version_file(FILE, 1))
    if steps == "link":
        (tmp_path / f"{FILE}.next").symlink_to(version_file(FILE, 2))
    assert total(tmp_path) == 1
    for _ in range(2):
        serve(tmp_path, FILE, 1, 2)
        assert total(tmp_path) == 10
    serve(tmp_path, FILE, 2, 1)
    assert total(tmp_path) == 1
    serve(tmp_path, FILE, 1, 2)
    assert total(tmp_path) == 10


def test_a_query_that_has_the_name_writes_its_own_version(tmp_path: Path) -> None:
    loader(tmp_path).load(rows(("./a", 1)), 0)
    serving = staged(tmp_path, 2, ("./a", 10))
    serving.close()
    serve(tmp_path, FILE, 1, 2)
    serving.loader.path = view_path(tmp_path, NAME)
    serving.load(rows(("./b", 5)), 1)
    serving.close()
    assert total(tmp_path) == 15
    serve(tmp_path, FILE, 2, 1)
    assert total(tmp_path) == 1


def test_a_reader_in_a_transaction_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ds_dagster.stores.sqlite.versions.READER_SECONDS", 0.1)
    old = loader(tmp_path)
    old.load(rows(("./a", 1)), 0)
    staged(tmp_path, 2, ("./a", 10)).close()
    with closing(open_views(tmp_path, {"main": NAME})) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT sum(n) FROM visits").fetchone()
        old.load(rows(("./b", 1)), 1)
        old.close()
        with pytest.raises(DsError) as refused:
            serve(tmp_path, FILE, 1, 2)
    assert refused.value.condition == "TARGET_LOCKED" and refused.value.fault.hint != "never"
    assert total(tmp_path) == 2
    serve(tmp_path, FILE, 1, 2)
    serve(tmp_path, FILE, 2, 1)
    assert total(tmp_path) == 2, "the last batch of the old one is in its file"


def test_only_versions_that_do_not_serve_are_dropped(tmp_path: Path) -> None:
    loader(tmp_path).load(rows(("./a", 1)), 0)
    staged(tmp_path, 2, ("./a", 10)).close()
    serve(tmp_path, FILE, 1, 2)
    with pytest.raises(DsError):
        drop(tmp_path, FILE, 2)
    for _ in range(2):
        drop(tmp_path, FILE, 1)
    assert total(tmp_path) == 10
    assert not (tmp_path / version_file(FILE, 1)).exists()


def test_a_version_without_a_file_does_not_take_the_name(tmp_path: Path) -> None:
    loader(tmp_path).load(rows(("./a", 1)), 0)
    with pytest.raises(DsError) as refused:
        serve(tmp_path, FILE, 1, 2)
    assert refused.value.condition == "VIEW_MISSING"
    assert total(tmp_path) == 1


NEW = QualifiedName(NAME.database, NAME.schema, "calls")
PATHS = ((FILE, NAME.name), (file_name(NEW), NEW.name))


def called(folder: Path) -> int:
    with closing(open_views(folder, {"main": NEW})) as connection:
        return int(connection.execute("SELECT sum(n) FROM calls").fetchone()[0])


@pytest.mark.parametrize("steps", ["nothing", "file"])
def test_a_view_gets_another_name_wherever_it_was_cut_off(tmp_path: Path, steps: str) -> None:
    old = loader(tmp_path)
    old.load(rows(("./a", 1)), 0)
    old.close()
    if steps == "file":
        view_path(tmp_path, NAME).replace(view_path(tmp_path, NEW))
    for _ in range(2):
        rename(tmp_path, *PATHS)
        assert (called(tmp_path), view_names(tmp_path)) == (1, [NEW])


@pytest.mark.parametrize("steps", ["nothing", "file", "link"])
def test_a_view_with_versions_gets_another_name(tmp_path: Path, steps: str) -> None:
    old = loader(tmp_path)
    old.load(rows(("./a", 1)), 0)
    old.close()
    staged(tmp_path, 2, ("./a", 10)).close()
    serve(tmp_path, FILE, 1, 2)
    drop(tmp_path, FILE, 1)
    if steps != "nothing":
        (tmp_path / version_file(FILE, 2)).replace(tmp_path / version_file(file_name(NEW), 2))
    if steps == "link":
        view_path(tmp_path, NEW).symlink_to(version_file(file_name(NEW), 2))
    for _ in range(2):
        rename(tmp_path, *PATHS)
        assert (called(tmp_path), view_names(tmp_path)) == (10, [NEW])
    files = {path.name for path in tmp_path.iterdir() if path.suffix == ".db"}
    assert files == {file_name(NEW), version_file(file_name(NEW), 2)}


def test_a_name_that_something_has_is_not_taken(tmp_path: Path) -> None:
    for folder_name in (NAME, NEW):
        target = TableTarget((file_name(folder_name), folder_name.name), (column("n", BIGINT),), (), "append")
        driven = Driven(SqliteLoader(view_path(tmp_path, folder_name), target, SinkIdentity("j", 1)))
        driven.prepare()
        driven.close()
    with pytest.raises(DsError) as refused:
        rename(tmp_path, *PATHS)
    assert refused.value.condition == "RENAME_TARGET_TAKEN"
    assert len(view_names(tmp_path)) == 2


def test_a_view_that_was_never_written_has_nothing_to_rename(tmp_path: Path) -> None:
    rename(tmp_path, *PATHS)
    assert not list(tmp_path.iterdir())
