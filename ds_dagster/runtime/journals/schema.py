"""Tables of the journal and the migrations between schema versions.

Only an engine migrates, while no other engine lives; all other processes refuse an older or newer schema
(:mod:`ds_dagster.runtime.journals.journal`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    column,
    insert,
    table,
)

SCHEMA_VERSION = 9

metadata = MetaData()

_IDENTITY = BigInteger().with_variant(Integer, "sqlite")

META = Table(
    "ds_meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""``schema`` (version), ``journal`` (uuid), ``revision`` (counts changes of desired state, so that engines read it only
after a change)."""

ENGINES = Table(
    "ds_engines",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("token", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started", String(128), nullable=False),
    Column("host", String(255), nullable=False),
    Column("version", String(64), nullable=False),
    Column("started", Float, nullable=False),
    Column("beat", Float, nullable=False),
    Column("beats", BigInteger, nullable=False),
    Column("condition", String(64), nullable=False),
    Column("message", Text, nullable=False),
)
"""Leases: one row per engine name. ``token`` changes with every holder; ``beats`` counts heartbeats; ``beat`` is the
time of the last one. No migration changes this table, so that a starter can see whether an engine of an older version
lives."""

JOBS = Table(
    "ds_jobs",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("relation", Text, nullable=False),
    Column("desired", String(16), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("action", String(16), nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("requested_at", Float, nullable=False),
    Column("spec", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("checkpoint_version", Integer, nullable=False),
    Column("skips", Text, nullable=False),
    Column("begins", String(64), nullable=False),
    Column("query", String(255), nullable=False),
    Column("version", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("latest", Integer, nullable=False),
    Column("identity", String(255), nullable=False),
    Column("becomes", Text, nullable=False),
    Column("pool", String(64), nullable=False),
)
"""Desired state. Written by people and Dagster, by compare-and-set on ``generation``; during hand-overs and renamings
also by the engine. ``query`` … ``becomes``: see :class:`ds_dagster.runtime.journals.records.JobRow`. ``skips``: JSON
list of :class:`ds_dagster.catalog.reading.skip.SkippedRecord`. ``begins``: how the checkpoint version begins: names of
:data:`ds_dagster.runtime.status.Consent`, separated by commas. ``pool``: compute pool that the job is placed in; empty:
the project's own engine."""

STATUS = Table(
    "ds_status",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("since", Float, nullable=False),
    Column("condition", String(64), nullable=False),
    Column("message", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("incarnation", String(32), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("checkpoint_version", Integer, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("figures", Text, nullable=False),
    Column("beat", Float),
    Column("next_retry", Float),
    Column("attempts", Integer, nullable=False),
    Column("started", Float),
    Column("writer", String(32), nullable=False),
    Column("streak", Text, nullable=False),
    Column("parameters", Text, nullable=False),
    Column("pool", String(64), nullable=False),
)
"""Observed state. Written by engines, and by Dagster steps that run a finite query. ``writer``: the token of the
engine's lease, or :data:`STEP`; an active state counts only while its writer lives. ``figures``: JSON of
:class:`ds_dagster.figures.Figures`, so that a new figure needs no new schema. ``streak``: JSON of
:class:`ds_dagster.runtime.deciding.decide.Streak`. ``parameters``: JSON of the parameters of ``condition``, here and in
the tables below; ``message`` and ``hint`` are empty then, see :mod:`ds_dagster.runtime.journals.told`. ``pool``: of the
engine that wrote the row."""

STEP = "step"

TRANSITIONS = Table(
    "ds_transitions",
    metadata,
    Column("id", _IDENTITY, primary_key=True, autoincrement=True),
    Column("name", String(255), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("source", String(16), nullable=False),
    Column("target", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("condition", String(64), nullable=False),
    Column("message", Text, nullable=False),
    Column("incarnation", String(32), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("actor", Text, nullable=False),
    Column("parameters", Text, nullable=False),
)
"""Append-only history. ``kind``: ``state`` (by the engine), ``desired`` (by people, and hand-overs) or ``shape`` (a
source has another shape: ``source`` and ``target`` are versions, ``actor`` is the key of the source, ``reason`` is the
text of a :class:`ds_dagster.runtime.host.KnownShape`). ``seconds``: how long the state ``source`` had lasted."""

REQUESTS = Table(
    "ds_requests",
    metadata,
    Column("id", _IDENTITY, primary_key=True, autoincrement=True),
    Column("name", String(255), nullable=False, index=True),
    Column("state", String(16), nullable=False, index=True),
    Column("requested_by", Text, nullable=False),
    Column("requested_at", Float, nullable=False),
    Column("upstream", Text, nullable=False),
    Column("waiting_since", Float, nullable=False),
    Column("deadline", Float, nullable=False),
    Column("started", Float),
    Column("finished", Float),
    Column("rows", BigInteger, nullable=False),
    Column("batches", BigInteger, nullable=False),
    Column("condition", String(64), nullable=False),
    Column("message", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("parameters", Text, nullable=False),
)
"""Finite runs. ``upstream``: JSON list of jobs that still have to catch up, sources first, with the records that
existed at ``waiting_since``. In state ``STEP``, ``waiting_since`` is the time until which the step holds the run."""


def _add_lost_records(connection: Connection) -> None:
    """Version 2: records that were skipped because they were gone, and figures by source."""
    connection.exec_driver_sql("ALTER TABLE ds_status ADD COLUMN lost_records BIGINT NOT NULL DEFAULT 0")
    connection.exec_driver_sql("ALTER TABLE ds_status ADD COLUMN details TEXT NOT NULL DEFAULT ''")


def _add_writer(connection: Connection) -> None:
    """Version 3: the writer of a status. Existing rows have no living writer."""
    connection.exec_driver_sql("ALTER TABLE ds_status ADD COLUMN writer VARCHAR(32) NOT NULL DEFAULT ''")


_STATUS_4 = """
CREATE TABLE ds_status (
    name VARCHAR(255) NOT NULL PRIMARY KEY, state VARCHAR(16) NOT NULL, since FLOAT NOT NULL,
    condition VARCHAR(64) NOT NULL, message TEXT NOT NULL, hint TEXT NOT NULL, detail TEXT NOT NULL,
    incarnation VARCHAR(32) NOT NULL, generation BIGINT NOT NULL, checkpoint_version INTEGER NOT NULL,
    fingerprint TEXT NOT NULL, figures TEXT NOT NULL, beat FLOAT, next_retry FLOAT, attempts INTEGER NOT NULL,
    started FLOAT, writer VARCHAR(32) NOT NULL
)
"""
_FIGURES_4 = (
    "batch", "rows", "rows_per_second", "lag_records", "lag_seconds", "watermark", "state_rows", "state_bytes",
    "late_rows", "bad_records", "lost_records", "progressed", "caught_up",
)  # fmt: skip


def _figures_in_one_column(connection: Connection) -> None:
    """Version 4: thirteen columns of figures and the column ``details`` become one JSON column. The table is created
    again, since old SQLite versions cannot drop columns."""
    old = [dict(row) for row in connection.exec_driver_sql("SELECT * FROM ds_status").mappings()]
    connection.exec_driver_sql("DROP TABLE ds_status")
    connection.exec_driver_sql(_STATUS_4)
    for row in old:
        figures = {name: value for name in _FIGURES_4 if (value := row.pop(name)) is not None}
        details = row.pop("details")
        figures |= {"details": json.loads(details)} if details else {}
        columns = table("ds_status", *(column(name) for name in (*row, "figures")))
        connection.execute(insert(columns).values({**row, "figures": json.dumps(figures)}))


def _add_streak(connection: Connection) -> None:
    """Version 5: failures of the same batch in a row."""
    connection.exec_driver_sql("ALTER TABLE ds_status ADD COLUMN streak TEXT NOT NULL DEFAULT ''")


_ADDED_6 = (
    "ALTER TABLE ds_status ADD COLUMN parameters TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE ds_transitions ADD COLUMN parameters TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE ds_requests ADD COLUMN parameters TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE ds_jobs ADD COLUMN skips TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE ds_jobs ADD COLUMN begins VARCHAR(64) NOT NULL DEFAULT ''",
)


def _add_parameters_and_skips(connection: Connection) -> None:
    """Version 6: failures as parameters instead of texts (existing rows keep their texts), records that a job skips,
    and how a reset begins."""
    for statement in _ADDED_6:
        connection.exec_driver_sql(statement)


_ADDED_7 = (
    "ALTER TABLE ds_jobs ADD COLUMN query VARCHAR(255) NOT NULL DEFAULT ''",
    "ALTER TABLE ds_jobs ADD COLUMN version INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE ds_jobs ADD COLUMN role VARCHAR(16) NOT NULL DEFAULT 'serving'",
    "ALTER TABLE ds_jobs ADD COLUMN latest INTEGER NOT NULL DEFAULT 1",
)


def _add_versions(connection: Connection) -> None:
    """Version 7: several versions of a query; every existing job is the first version of its query."""
    for statement in _ADDED_7:
        connection.exec_driver_sql(statement)


_ADDED_8 = (
    "ALTER TABLE ds_jobs ADD COLUMN identity VARCHAR(255) NOT NULL DEFAULT ''",
    "ALTER TABLE ds_jobs ADD COLUMN becomes TEXT NOT NULL DEFAULT ''",
)


def _add_identity(connection: Connection) -> None:
    """Version 8: jobs whose name differs from the name of their checkpoints and ledgers."""
    for statement in _ADDED_8:
        connection.exec_driver_sql(statement)


_ADDED_9 = (
    "ALTER TABLE ds_jobs ADD COLUMN pool VARCHAR(64) NOT NULL DEFAULT ''",
    "ALTER TABLE ds_status ADD COLUMN pool VARCHAR(64) NOT NULL DEFAULT ''",
)


def _add_pools(connection: Connection) -> None:
    """Version 9: compute pools; every existing job belongs to the project's own engine."""
    for statement in _ADDED_9:
        connection.exec_driver_sql(statement)


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {
    1: _add_lost_records,
    2: _add_writer,
    3: _figures_in_one_column,
    4: _add_streak,
    5: _add_parameters_and_skips,
    6: _add_versions,
    7: _add_identity,
    8: _add_pools,
}
"""Version → migration to the next version; runs in the transaction that also raises the version."""


def create(connection: Connection) -> None:
    """Create all tables that do not exist."""
    metadata.create_all(connection)
