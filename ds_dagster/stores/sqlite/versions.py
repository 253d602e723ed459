"""Versions of a view, a file each, and a link with the public name.

SQLite follows the link when it opens the view, and writes its log next to the file itself, so a reader sees one version
or the other, never a mixture. The first version is the public file itself until another version takes over; then the
file gets a second name, and the link replaces the public one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlglot import exp

from ds_dagster.catalog.properties.tables import CHANGED_AT
from ds_dagster.durable import force_names
from ds_dagster.errors import error
from ds_dagster.stores.sqlite.loader import transaction, view_error
from ds_dagster.stores.sqlite.views import SUFFIX

MARK = "@"
"""Sign between a view's file name and the number of a version; in a name itself it is spelled ``%40``."""
READER_SECONDS = 5.0
"""How long to wait for a reader inside a transaction; after that the hand-over is retried."""
BESIDE = ("-wal", "-shm", "-journal")


def version_file(file: str, version: int) -> str:
    """Name of the file of a version that does not serve."""
    return f"{file.removesuffix(SUFFIX)}{MARK}{version}{SUFFIX}"


def count(folder: Path, target: tuple[str, ...], version: int) -> int:
    """See ``catalog.versions.KeepsVersions.count_version``. ``target``: file and table of the public view."""
    file, table = target
    path = folder / (version_file(file, version) if version else file)
    try:
        if not path.is_file():
            return 0
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=READER_SECONDS)) as view:
            rows = exp.select(exp.Count(this=exp.Star())).from_(exp.table_(table, quoted=True))
            return int(view.execute(rows.sql(dialect="sqlite")).fetchone()[0])
    except (sqlite3.Error, OSError) as problem:
        raise view_error(problem, path) from problem


def serve(folder: Path, file: str, former: int, version: int) -> None:
    """See ``catalog.versions.KeepsVersions.serve_version``."""
    public, new = folder / file, folder / version_file(file, version)
    try:
        if public.is_symlink() and public.readlink().name == new.name:
            return
        if not new.is_file():
            raise error("VIEW_MISSING", view=new.name)
        if public.is_file() and not public.is_symlink():
            _name_again(public, folder / version_file(file, former))
        link = folder / f"{file}.next"
        link.unlink(missing_ok=True)
        link.symlink_to(new.name)
        link.replace(public)
        force_names(folder)
    except (sqlite3.Error, OSError) as problem:
        raise view_error(problem, public) from problem


def rename(folder: Path, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    """See ``catalog.versions.RenamesTables.rename_table``. ``old``, ``new``: file and table of the public view.

    Renames the file behind a link first, then makes the new link, so that the time without a valid link is short; last
    the table in the file.
    """
    before, after = folder / old[0], folder / new[0]
    try:
        if before.exists() and after.exists() and not before.samefile(after):
            raise error("RENAME_TARGET_TAKEN", former=old[1], name=new[1])
        if before.is_symlink():
            shown = before.readlink().name
            version = shown.removesuffix(SUFFIX).rpartition(MARK)[2]
            target = folder / version_file(new[0], int(version))
            _move(folder / shown, target)
            after.unlink(missing_ok=True)
            after.symlink_to(target.name)
            before.unlink()
        else:
            _move(before, after)
        force_names(folder)
        if after.is_file():
            _rename_inside(after, old[1], new[1])
    except (sqlite3.Error, OSError) as problem:
        raise view_error(problem, after) from problem


def _move(file: Path, to: Path) -> None:
    """Rename a file. A file that does not exist has its new name already, or was never written."""
    if file.is_file():
        _empty_log(file)
        file.replace(to)
        for suffix in BESIDE:
            file.with_name(file.name + suffix).unlink(missing_ok=True)


def _rename_inside(file: Path, old: str, new: str) -> None:
    """Rename the table in a file. Drops the index of a view with a retention; the loader makes it again under its new
    name."""
    with closing(sqlite3.connect(file, timeout=READER_SECONDS, isolation_level=None)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if old == new or (old,) not in tables:
            return
        renamed = exp.AlterRename(this=exp.table_(new, quoted=True))
        statement = exp.Alter(this=exp.table_(old, quoted=True), kind="TABLE", actions=[renamed])
        index = exp.Drop(tables=[exp.table_(f"{old} {CHANGED_AT}", quoted=True)], kind="INDEX", exists=True)
        with transaction(connection):
            connection.execute(index.sql(dialect="sqlite"))
            connection.execute(statement.sql(dialect="sqlite"))


def drop(folder: Path, file: str, version: int) -> None:
    """See ``catalog.versions.KeepsVersions.drop_version``."""
    public, old = folder / file, folder / version_file(file, version)
    try:
        if public.is_symlink() and public.readlink().name == old.name:
            raise error("INTERNAL", where=f"version {version} of {file} serves and is not dropped")
        for path in (old, *(old.with_name(old.name + suffix) for suffix in BESIDE)):
            path.unlink(missing_ok=True)
    except OSError as problem:
        raise view_error(problem, old) from problem


def _name_again(public: Path, path: Path) -> None:
    """Give the public file a second name. Empties its log first, since the log has the first name."""
    _empty_log(public)
    if path.exists() and path.samefile(public):
        return
    path.unlink(missing_ok=True)
    os.link(public, path)
    force_names(public.parent)


def _empty_log(file: Path) -> None:
    with closing(sqlite3.connect(file, timeout=READER_SECONDS, isolation_level=None)) as connection:
        is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise error("TARGET_LOCKED", table=file.name, reason="a reader has a long transaction on it")
