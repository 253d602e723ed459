"""The journal's connection: SQLite in the state folder, or Postgres by URL, with every failure as a named condition.

All writes are short transactions that take the write lock first (``BEGIN IMMEDIATE``), so a transaction never fails
half way because of another writer. Readers see a snapshot and block no writer.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc, func, insert, inspect, select, text, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool, StaticPool

from ds_dagster.catalog.properties.values import resolve_text
from ds_dagster.errors import DsError, error
from ds_dagster.runtime.deciding.identity import Identity, new_journal_id
from ds_dagster.runtime.journals import schema
from ds_dagster.settings import Settings
from ds_dagster.version import __version__

BUSY_SECONDS = 5.0
SMALLEST_BYTES = 65_536
NETWORK_FILE_SYSTEMS = frozenset(
    (
        "nfs", "nfs4", "cifs", "smbfs", "smb2", "smb3", "afs", "afpfs", "ncpfs", "glusterfs", "lustre", "beegfs",
        "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse",
    )
)  # fmt: skip
_SQLITE_FAULTS: tuple[tuple[str, str], ...] = (
    ("locked", "JOURNAL_LOCKED"),
    ("busy", "JOURNAL_LOCKED"),
    ("readonly", "JOURNAL_READ_ONLY"),
    ("full", "JOURNAL_DISK_FULL"),
    ("malformed", "JOURNAL_CORRUPT"),
    ("not a database", "JOURNAL_CORRUPT"),
    ("no such table", "JOURNAL_CORRUPT"),
    ("no such column", "JOURNAL_CORRUPT"),
    ("disk i/o error", "JOURNAL_UNREADABLE"),
    ("unable to open", "JOURNAL_UNREADABLE"),
)
"""Part of SQLite's error text → condition. The texts are part of SQLite's interface; Python has its error codes only
since 3.11."""


@dataclass(slots=True)
class Journal:
    """One journal. Cheap to create: nothing is opened before the first read or write.

    Attributes:
        shown: its place without credentials.
        local: the SQLite file, None for Postgres.
    """

    shown: str
    local: Path | None
    environment: str
    _engine: Engine
    _identity: Identity | None = field(default=None, init=False)

    @classmethod
    def open(cls, settings: Settings, environment: Mapping[str, str] | None = None, *, keep: bool = False) -> Journal:
        """The journal of a project.

        Args:
            settings: of the project.
            environment: where references in the journal's URL are looked up; the process's own by default.
            keep: hold one connection open (the engine) instead of one per transaction.

        Raises:
            UserError: JOURNAL_URL_INVALID, JOURNAL_NETWORK_FILE_SYSTEM, ENVIRONMENT_REFERENCE_MISSING.
        """
        variables = os.environ if environment is None else environment
        url = resolve_text(settings.journal, variables, "the setting journal")
        if url == "sqlite":
            refuse_network_file_system(settings.state)
            path = settings.state / "journal.db"
            return cls(str(path), path, settings.environment, _sqlite(path, keep))
        target = _postgres_url(url)
        shown = target.set(username=None, password=None, query={}).render_as_string()
        return cls(shown, None, settings.environment, _postgres(target, keep))

    # -- transactions ------------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction over one snapshot. Raises: the JOURNAL_… conditions."""
        with self._named(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction, committed at the end. Raises: the JOURNAL_… conditions; nothing is written then."""
        with self._named(), self._engine.connect() as plain:
            connection = plain.execution_options(ds_begin="BEGIN IMMEDIATE")
            with connection.begin():
                self._lock(connection)
                yield connection

    def mark(self) -> object:
        """A value that differs after every write to a local journal; a call takes microseconds. For a journal on a
        server always None."""
        return None if self.local is None else mark_of(self.local)

    def close(self) -> None:
        """Close connections that are kept open."""
        self._engine.dispose()

    # -- life of the schema ------------------------------------------------------------------------------------------

    def exists(self, *, older: bool = False) -> bool:
        """Whether the journal was created; False is not a failure (nothing was started in the project yet).

        Args:
            older: accept a journal of an older version, for readers that only use :data:`schema.ENGINES`.

        Raises:
            UserError: JOURNAL_NEWER, JOURNAL_OLDER.
        """
        if self._identity is not None:
            return True
        if self.local is not None and not self.local.is_file():
            return False
        with self.read() as connection:
            if not inspect(connection).has_table(schema.META.name):
                self._refuse_foreign(connection)
                return False
            if not older:
                self._check_version(connection)
            return True

    def create(self) -> Identity:
        """Create the journal if it does not exist; returns the identity of its jobs.

        Raises:
            UserError: JOURNAL_NEWER, JOURNAL_OLDER (this never migrates).
        """
        if self._identity is None and not self.exists():
            if self.local is not None:
                self._make_file(self.local)
            with self.write() as connection:
                if not inspect(connection).has_table(schema.META.name):
                    schema.create(connection)
                    first = {"schema": str(schema.SCHEMA_VERSION), "journal": new_journal_id(), "revision": "0"}
                    connection.execute(insert(schema.META), [{"name": k, "value": v} for k, v in first.items()])
        return self.identity()

    def identity(self) -> Identity:
        """The identity of its jobs; the journal must exist. Raises: JOURNAL_NEWER, JOURNAL_OLDER."""
        if self._identity is None:
            with self.read() as connection:
                self._check_version(connection)
                self._identity = Identity(self.environment, meta(connection, "journal"))
        return self._identity

    def migrate(self) -> None:
        """Migrate an older schema to today's. Only for an engine while no other engine lives. Raises: JOURNAL_NEWER."""
        with self.write() as connection:
            current = int(meta(connection, "schema"))
            self._refuse_newer(current)
            for version in range(current, schema.SCHEMA_VERSION):
                schema.MIGRATIONS[version](connection)
            connection.execute(
                update(schema.META).where(schema.META.c.name == "schema").values(value=str(schema.SCHEMA_VERSION))
            )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check_version(self, connection: Connection) -> None:
        version = int(meta(connection, "schema"))
        self._refuse_newer(version)
        if version < schema.SCHEMA_VERSION:
            raise error("JOURNAL_OLDER", journal=self.shown, found=version, known=schema.SCHEMA_VERSION)

    def _refuse_newer(self, version: int) -> None:
        if version > schema.SCHEMA_VERSION:
            own = schema.SCHEMA_VERSION
            raise error("JOURNAL_NEWER", journal=self.shown, found=version, known=own, version=__version__)

    def _refuse_foreign(self, connection: Connection) -> None:
        """An SQLite file with other tables is not a journal."""
        if self.local is not None and inspect(connection).get_table_names():
            raise error("JOURNAL_CORRUPT", journal=self.shown)

    def _make_file(self, path: Path) -> None:
        """Create folder and file, with a write-ahead log, so that readers and the writer never block each other."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise error("JOURNAL_UNREADABLE", journal=self.shown, detail=str(problem)) from problem
        with self._named(), closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")

    def _lock(self, connection: Connection) -> None:
        """On Postgres: allow one writer at a time, as SQLite does; released with the transaction."""
        if self.local is None:
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": "ds_dagster.journal"})

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (exc.SQLAlchemyError, sqlite3.Error) as problem:
            raise self._condition(problem) from problem

    def _condition(self, problem: Exception) -> DsError:
        text = str(getattr(problem, "orig", None) or problem)
        if self.local is None:
            return error("JOURNAL_UNREACHABLE", journal=self.shown, detail=_without_credentials(text))
        lower = text.lower()
        name = next((condition for part, condition in _SQLITE_FAULTS if part in lower), "JOURNAL_UNREADABLE")
        if name == "JOURNAL_UNREADABLE" and _is_full(self.local.parent):
            name = "JOURNAL_DISK_FULL"
        if name == "JOURNAL_UNREADABLE" and _is_read_only(self.local.parent):
            name = "JOURNAL_READ_ONLY"
        return error(name, journal=self.shown, seconds=int(BUSY_SECONDS), detail=text)


def mark_of(path: Path) -> object:
    """:meth:`Journal.mark` of a file; an empty list if there is no file."""
    files = (path, path.with_name(path.name + "-wal"))
    return [(facts.st_mtime_ns, facts.st_size) for file in files if (facts := _stat(file))]


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def meta(connection: Connection, name: str) -> str:
    """A value of the meta table, which must exist."""
    return str(connection.execute(select(schema.META.c.value).where(schema.META.c.name == name)).scalar_one())


def bump_revision(connection: Connection) -> None:
    """Notify the engine that desired state has changed."""
    raised = str(int(meta(connection, "revision")) + 1)
    connection.execute(update(schema.META).where(schema.META.c.name == "revision").values(value=raised))


def database_now(connection: Connection, fallback: float) -> float:
    """Seconds since the epoch by the server's clock (Postgres), else ``fallback``."""
    if not is_on_server(connection):
        return fallback
    return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())


def is_on_server(connection: Connection) -> bool:
    """Whether the journal is on a server, so that engines of several hosts and state folders may share it."""
    return connection.dialect.name == "postgresql"


def refuse_network_file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> None:
    """Raises: UserError JOURNAL_NETWORK_FILE_SYSTEM if the folder is on one by the system's mount table."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    place = str(folder.resolve())
    best, kind = "", ""
    for columns in (line.split() for line in lines):
        if len(columns) > 2 and _is_within(place, columns[1]) and len(columns[1]) >= len(best):
            best, kind = columns[1], columns[2]
    if kind in NETWORK_FILE_SYSTEMS:
        raise error("JOURNAL_NETWORK_FILE_SYSTEM", folder=place, kind=kind)


def _is_read_only(folder: Path) -> bool:
    """Whether the folder's file system is mounted without writing."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _is_full(folder: Path) -> bool:
    """Whether the disk is (nearly) full. SQLite reports that in many ways, such as a log or index that cannot grow."""
    try:
        return shutil.disk_usage(folder).free < SMALLEST_BYTES
    except OSError:
        return False


def _is_within(place: str, mount: str) -> bool:
    return mount == "/" or place == mount or place.startswith(mount.rstrip("/") + "/")


def _postgres_url(written: str) -> URL:
    try:
        url = make_url(written)
    except exc.ArgumentError as problem:
        raise error("JOURNAL_URL_INVALID") from problem
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise error("JOURNAL_URL_INVALID")
    return url.set(drivername="postgresql+psycopg2")


_LIMITS = {
    "connect_timeout": 4,
    "tcp_user_timeout": 5_000,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
"""Parameters of libpq, in seconds (``tcp_user_timeout`` in milliseconds). If a network silently drops packets, a call
fails after five seconds and a new connection after four. So the engine notices, and ends, before its lease ends
(``SILENT_SECONDS``) and another engine may take it. The time of a statement itself is not limited."""


def _postgres(url: URL, keep: bool) -> Engine:
    options: dict[str, Any] = {"connect_args": {**_LIMITS, "application_name": "ds_dagster"}}
    if keep:
        return create_engine(url, pool_size=1, max_overflow=1, pool_pre_ping=True, **options)
    return create_engine(url, poolclass=NullPool, **options)


def _sqlite(path: Path, keep: bool) -> Engine:
    arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    pool = StaticPool if keep else NullPool
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=pool, connect_args=arguments)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """We begin transactions ourselves. ``synchronous=NORMAL``: a power failure may lose the last transactions, but
    never corrupts the file."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("ds_begin", "BEGIN"))


def _without_credentials(text: str) -> str:
    return re.sub(r"password=\S+|//[^@\s/]+@", "…", text)
