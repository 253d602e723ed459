"""Tables of the journal and how one schema version becomes the next.

Only the engine that holds the lease migrates; everybody else refuses an older or newer schema
(:mod:`ds_dagster.runtime.journal`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import BigInteger, Column, Connection, Float, Integer, MetaData, String, Table, Text

SCHEMA_VERSION = 3

metadata = MetaData()

_IDENTITY = BigInteger().with_variant(Integer, "sqlite")

META = Table(
    "ds_meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""``schema`` (version), ``journal`` (uuid), ``revision`` (counts changes of desired state, so that the engine reads
only then)."""

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
"""The lease: one row per engine name; ``token`` changes with every holder, ``beats`` counts."""

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
)
"""What is wanted. Written by people and Dagster only, by compare-and-set on ``generation``."""

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
    Column("batch", BigInteger),
    Column("rows", BigInteger, nullable=False),
    Column("rows_per_second", Float, nullable=False),
    Column("lag_records", BigInteger),
    Column("lag_seconds", Float),
    Column("watermark", Float),
    Column("state_rows", BigInteger, nullable=False),
    Column("state_bytes", BigInteger, nullable=False),
    Column("late_rows", BigInteger, nullable=False),
    Column("bad_records", BigInteger, nullable=False),
    Column("lost_records", BigInteger, nullable=False),
    Column("details", Text, nullable=False),
    Column("beat", Float),
    Column("next_retry", Float),
    Column("attempts", Integer, nullable=False),
    Column("started", Float),
    Column("progressed", Float),
    Column("caught_up", Float),
    Column("writer", String(32), nullable=False),
)
"""What is. Written by engines, and by steps that run a finite query; ``writer`` says which: the token of the engine's
lease, or :data:`STEP`. An active state counts only while its writer lives."""

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
)
"""Append-only history: ``kind`` is ``state`` (engine) or ``desired`` (people); ``seconds``: how long ``source`` had
lasted."""

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
)
"""Finite runs. ``upstream``: JSON list of jobs still to catch up, first one first, with what existed at
``waiting_since``."""


def _add_lost_records(connection: Connection) -> None:
    """Version 2: records that were skipped because they were gone, and figures by source."""
    connection.exec_driver_sql("ALTER TABLE ds_status ADD COLUMN lost_records BIGINT NOT NULL DEFAULT 0")
    connection.exec_driver_sql("ALTER TABLE ds_status ADD COLUMN details TEXT NOT NULL DEFAULT ''")


def _add_writer(connection: Connection) -> None:
    """Version 3: who wrote a status. Nobody who lives wrote those that are there."""
    connection.exec_driver_sql("ALTER TABLE ds_status ADD COLUMN writer VARCHAR(32) NOT NULL DEFAULT ''")


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {1: _add_lost_records, 2: _add_writer}
"""From version → statements that lead to the next one; each runs inside the transaction that also raises the
version."""


def create(connection: Connection) -> None:
    """All tables, where they do not exist."""
    metadata.create_all(connection)
