"""Replication slots of a project's jobs on a server: found by their prefix, dropped with their publications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from ds_dagster.catalog.reading.slots import Slot
from ds_dagster.stores.postgres.connection import CONTROL_MILLIS, PostgresAddress

SLOTS_QUERY = """
    SELECT slot_name::text, database::text, active,
        coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, coalesce(wal_status, '')
    FROM pg_replication_slots WHERE starts_with(slot_name::text, %s) AND NOT temporary ORDER BY 1
"""


def find_slots(store: str, settings: Mapping[str, str], prefix: str) -> Sequence[Slot]:
    """Slots whose names have a prefix, by name.

    Raises:
        DsError: conditions of :class:`PostgresAddress`.
    """
    address = PostgresAddress.of(store, settings)
    rows = _run(address, "look at its replication slots", SLOTS_QUERY, (prefix,))
    return [Slot(store, address.shown, *row) for row in rows]


def drop_slot(slot: Slot, settings: Mapping[str, str]) -> None:
    """Drop a slot and the publication of its name; does nothing if they do not exist.

    Raises:
        DsError: conditions of :class:`PostgresAddress`; a slot in use cannot be dropped.
    """
    from psycopg2 import sql

    address = replace(PostgresAddress.of(slot.store, settings), database=slot.database)
    statement = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    _run(address, f"drop the replication slot {slot.name}", statement, (slot.name,))
    publication = sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(slot.name))
    _run(address, f"drop the publication {slot.name}", publication, ())


def _run(address: PostgresAddress, action: str, statement: Any, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    import psycopg2

    with closing(address.control(CONTROL_MILLIS)) as connection:
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return list(cursor.fetchall()) if cursor.description else []
        except psycopg2.Error as problem:
            raise address.failure(problem, action) from None
