"""Files of views: names, columns, readers beside the writer."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.reading.tables import VIEW
from ds_dagster.datatypes import BIGINT, BOOLEAN, DOUBLE, VARCHAR, ArrayType, DataType, decimal
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.stores.sqlite.loader import SqliteLoader
from ds_dagster.stores.sqlite.lookup import read_table
from ds_dagster.stores.sqlite.reader import SqliteAdmin, open_views, view_columns
from ds_dagster.stores.sqlite.views import FOLDER, SqliteViews, file_name, view_path
from tests.driven import Driven

NAME = QualifiedName("db", "public", "visits")


def column(name: str, type_: DataType) -> TableColumn:
    native = SqliteViews().native_type(type_)
    return TableColumn(name, type_, native or "TEXT", True, native is None)


def loader(folder: Path, name: QualifiedName = NAME, version: int = 1, columns: tuple[TableColumn, ...] = ()) -> Driven:
    chosen = columns or (column("url", VARCHAR), column("n", BIGINT))
    target = TableTarget((file_name(name), name.name), chosen, ("url",), "upsert")
    made = Driven(SqliteLoader(view_path(folder, name), target, SinkIdentity("j", version)))
    made.prepare()
    return made


def rows(*pairs: tuple[str, int]) -> pyarrow.Table:
    marks = pyarrow.array([False] * len(pairs))
    return pyarrow.table({"url": [u for u, _ in pairs], "n": [n for _, n in pairs], "__deleted": marks})


def test_file_names_never_collide() -> None:
    names = [QualifiedName("a", "b.c", "d"), QualifiedName("a.b", "c", "d"), QualifiedName("a", "b", "c.d"),
             QualifiedName("a", "b", "../d"), QualifiedName("a", "b", "D"), QualifiedName("a", "b", "d")]  # fmt: skip
    found = {file_name(name) for name in names}
    assert len(found) == len(names)
    assert not any("/" in name for name in found)


def test_a_reader_sees_whole_batches_while_the_job_writes(tmp_path: Path) -> None:
    writer = loader(tmp_path)
    writer.load(rows(("./a", 1), ("./b", 1)), 0)
    reader = open_views(tmp_path, {"main": NAME})
    reader.execute("BEGIN")
    assert reader.execute("SELECT sum(n) FROM visits").fetchone() == (2,)
    writer.load(rows(("./a", 5)), 1)
    assert reader.execute("SELECT sum(n) FROM visits").fetchone() == (2,), "one snapshot per transaction"
    reader.execute("COMMIT")
    assert reader.execute("SELECT sum(n) FROM visits").fetchone() == (6,)
    reader.close()
    writer.close()


def test_readers_cannot_write(tmp_path: Path) -> None:
    loader(tmp_path).close()
    reader = open_views(tmp_path, {"main": NAME})
    with pytest.raises(Exception, match=r"readonly|read-only|attempt to write"):
        reader.execute("DELETE FROM visits")
    reader.close()


def test_views_join(tmp_path: Path) -> None:
    other = QualifiedName("db", "public", 'odd "name')
    for name in (NAME, other):
        made = loader(tmp_path, name)
        made.load(rows(("./a", 3)), 0)
        made.close()
    reader = open_views(tmp_path, {"first": NAME, "second": other})
    found = reader.execute('SELECT a.n + b.n FROM visits a JOIN "second"."odd ""name" b ON a.url = b.url').fetchall()
    assert found == [(6,)]
    reader.close()


def test_columns_keep_their_types(tmp_path: Path) -> None:
    columns = (
        column("url", VARCHAR), column("n", BIGINT), column("ok", BOOLEAN), column("tags", ArrayType(VARCHAR)),
        column("m", decimal(10, 2)), column("big", decimal(38, 6)),
    )  # fmt: skip
    made = loader(tmp_path, columns=columns)
    batch = rows(("./a", 1)).append_column("ok", pyarrow.array([True])).append_column("tags", pyarrow.array(['["x"]']))
    for name, precision, scale, value in (("m", 10, 2, "1.25"), ("big", 38, 6, "12345678901234567890.000001")):
        typed = pyarrow.array([value]).cast(pyarrow.decimal128(precision, scale))
        batch = batch.append_column(name, typed)
    made.load(batch, 0)
    made.close()
    found = view_columns(tmp_path, NAME)
    assert [(c.name, c.type, c.key) for c in found] == [
        ("url", "VARCHAR", True), ("n", "BIGINT", False), ("ok", "BOOLEAN", False), ("tags", "ARRAY<VARCHAR>", False),
        ("m", "DECIMAL(10,2)", False), ("big", "DECIMAL(38,6)", False),
    ]  # fmt: skip
    reader = open_views(tmp_path, {"main": NAME})
    assert reader.execute("SELECT * FROM visits").fetchone() == (
        "./a", 1, 1, '["x"]', 1.25, "12345678901234567890.000001"
    )  # fmt: skip
    reader.close()


def test_nan_is_a_value_and_a_key(tmp_path: Path) -> None:
    """SQLite itself makes NULL of it, and of NULL keys as many rows as it is given."""
    target = TableTarget((file_name(NAME), NAME.name), (column("d", DOUBLE), column("n", DOUBLE)), ("d",), "upsert")
    made = Driven(SqliteLoader(view_path(tmp_path, NAME), target, SinkIdentity("j", 1)))
    made.prepare()

    def load(epoch: int, keys: list[float | None], numbers: list[float | None], *, deleted: bool = False) -> None:
        columns = {"d": pyarrow.array(keys, pyarrow.float64()), "n": pyarrow.array(numbers, pyarrow.float64())}
        made.load(pyarrow.table({**columns, "__deleted": [deleted] * len(keys)}), epoch)

    def shown() -> str:
        options = {FOLDER: str(tmp_path), VIEW: str(NAME)}
        batches = read_table(options, (file_name(NAME), NAME.name), (("d", "DOUBLE"), ("n", "DOUBLE")))
        return str(pyarrow.Table.from_batches(batches).sort_by("n").to_pylist())

    load(0, [math.nan, None, 1.5], [math.nan, 5.0, math.inf])
    load(1, [math.nan], [7.0])
    assert shown() == "[{'d': None, 'n': 5.0}, {'d': nan, 'n': 7.0}, {'d': 1.5, 'n': inf}]"
    load(2, [None, 1.5], [math.nan, 2.0])
    load(3, [math.nan], [None], deleted=True)
    made.close()
    assert shown() == "[{'d': 1.5, 'n': 2.0}, {'d': None, 'n': nan}]"


def test_another_shape(tmp_path: Path) -> None:
    loader(tmp_path).load(rows(("./a", 1)), 0)
    other = (column("url", VARCHAR), column("n", VARCHAR))
    with pytest.raises(DsError) as problem:
        loader(tmp_path, columns=other)
    assert problem.value.condition == "TARGET_DIFFERS"
    assert "n is BIGINT, not VARCHAR" in problem.value.message
    loader(tmp_path, version=2, columns=other).close()
    assert [c.type for c in view_columns(tmp_path, NAME)] == ["VARCHAR", "VARCHAR"]


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(DsError) as problem:
        view_columns(tmp_path, NAME)
    assert problem.value.condition == "VIEW_MISSING"
    view_path(tmp_path, NAME).write_bytes(b"no database at all, but long enough to be looked at" * 40)
    with pytest.raises(DsError) as broken:
        view_columns(tmp_path, NAME)
    assert broken.value.condition == "VIEW_UNREADABLE"
    with pytest.raises(DsError) as unwritable:
        loader(tmp_path)
    assert unwritable.value.condition == "VIEW_UNREADABLE"


def test_admin(tmp_path: Path) -> None:
    admin = SqliteAdmin("sqlite", tmp_path)
    assert admin.probe().ok
    assert admin.describe(str(NAME)) is None
    made = loader(tmp_path)
    made.load(rows(("./a", 1), ("./b", 1)), 0)
    made.close()
    assert [(facts.name, facts.size) for facts in admin.entities()] == [("db.public.visits", 2)]


def test_a_folder_that_cannot_be_written_is_not_healthy(tmp_path: Path) -> None:
    (tmp_path / "views").write_text("in the way")
    for folder in (tmp_path / "views", tmp_path / "views" / "deep", Path("/proc/ds/views")):
        probe = SqliteAdmin("sqlite", folder).probe()
        assert not probe.ok, folder
        assert str(folder) in probe.message
        assert probe.hint


def test_a_file_that_is_no_database_is_not_healthy(tmp_path: Path) -> None:
    admin = SqliteAdmin("sqlite", tmp_path / "views")
    assert admin.probe().ok, "the first view creates it"
    assert not (tmp_path / "views").exists(), "a probe creates nothing"
    loader(tmp_path / "views").close()
    assert admin.probe().ok
    view_path(tmp_path / "views", NAME).write_bytes(b"no database at all, but long enough to be looked at" * 40)
    probe = admin.probe()
    assert (probe.ok, "db.public.visits" in probe.message) == (False, True)


def test_a_ledger_of_an_earlier_package_is_taken_over(tmp_path: Path) -> None:
    """It knew batches by number alone."""
    made = loader(tmp_path)
    made.load(rows(("./a", 1)), Tip(0, "aa"))
    made.close()
    with closing(sqlite3.connect(view_path(tmp_path, NAME))) as connection:
        connection.execute("ALTER TABLE ds_ledger DROP COLUMN offsets")
        connection.execute("ALTER TABLE ds_ledger DROP COLUMN ends")
    again = loader(tmp_path)
    assert again.load(rows(("./a", 9)), Tip(0, "bb")).replayed, "compared by number"
    again.load(rows(("./b", 1)), Tip(1, "cc"))
    with pytest.raises(DsError) as problem:
        again.load(rows(("./b", 9)), Tip(1, "dd"))
    assert problem.value.condition == "CHECKPOINT_BEHIND_SINK"
    again.close()


def test_a_refused_start_makes_no_empty_view(tmp_path: Path) -> None:
    made = loader(tmp_path)
    made.load(rows(("./a", 1)), 0)
    made.close()
    for path in view_path(tmp_path, NAME).parent.glob("*.db*"):
        path.unlink()
    with pytest.raises(DsError) as problem:
        made.prepare(CheckpointTip(Tip(0)))
    assert problem.value.condition == "TARGET_GONE"
    assert not view_path(tmp_path, NAME).exists()
