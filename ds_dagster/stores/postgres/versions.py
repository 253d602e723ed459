"""Versions of a view, a table each. The version that serves has the public name; two renames in one transaction give
the name to another version, with the grants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from ds_dagster.catalog.io_spec import Resolver, TableTarget, WriteSpec
from ds_dagster.errors import error
from ds_dagster.stores.postgres.connection import CONTROL_MILLIS, PostgresAddress
from ds_dagster.stores.postgres.loader import PUBLISH_LOCK_MILLIS
from ds_dagster.stores.postgres.shapes import find_table, is_kept
from ds_dagster.stores.postgres.tables import LEDGER, LOCK_SPACE
from ds_dagster.stores.table_sink import opened

NAME_BYTES = 63
COUNT_MILLIS = 60_000
"""Timeout for counting the rows of a version."""
GRANTS_QUERY = """
    SELECT CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee) END, a.privilege_type, a.is_grantable
    FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = %s AND a.grantee <> c.relowner
"""
"""Role (NULL for PUBLIC), privilege, whether it has the grant option."""
Statements = Callable[[Any], None]


def version_table(table: str, version: int) -> str:
    """Name of the table of a version that does not serve, in at most 63 bytes (Postgres' limit)."""
    end = f"__ds_v{version}"
    if len((table + end).encode()) <= NAME_BYTES:
        return table + end
    digest = hashlib.sha256(table.encode()).hexdigest()[:10]
    return table.encode()[: NAME_BYTES - len(end) - 11].decode(errors="ignore") + f"_{digest}{end}"


def count(write: WriteSpec, resolve: Resolver, version: int) -> int:
    """See ``catalog.versions.KeepsVersions.count_version``."""
    import psycopg2
    from psycopg2 import sql

    target, settings = opened(write, resolve)
    schema, table = target.path[0], version_table(target.path[1], version) if version else target.path[1]
    address = PostgresAddress.of(settings["store"], settings)
    try:
        with closing(address.control(COUNT_MILLIS)) as connection, connection, connection.cursor() as cursor:
            if find_table(cursor, (schema, table)) is None:
                return 0
            cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table)))
            return int(cursor.fetchone()[0])
    except psycopg2.Error as problem:
        raise address.failure(problem, "count the rows of a view", table) from None


def serve(write: WriteSpec, resolve: Resolver, former: int, version: int) -> None:
    """See ``catalog.versions.KeepsVersions.serve_version``."""
    target, settings = opened(write, resolve)
    table = target.path[1]
    names = (table, version_table(table, former), version_table(table, version))
    _transaction(settings, table, lambda cursor: _exchange(cursor, target, *names))


def drop(write: WriteSpec, resolve: Resolver, version: int) -> None:
    """See ``catalog.versions.KeepsVersions.drop_version``."""
    target, settings = opened(write, resolve)
    table = version_table(target.path[1], version)

    def step(cursor: Any) -> None:
        from psycopg2 import sql

        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(target.path[0], table)))
        ledger = sql.Identifier(target.path[0], LEDGER)
        cursor.execute(sql.SQL("DELETE FROM {} WHERE target = %s").format(ledger), (table,))

    _transaction(settings, table, step)


def rename(old: WriteSpec, new: WriteSpec, resolve: Resolver) -> None:
    """See ``catalog.versions.RenamesTables.rename_table``."""
    (before, settings), (after, _) = opened(old, resolve), opened(new, resolve)
    schema, (former, name) = before.path[0], (target.path[1] for target in (before, after))

    def step(cursor: Any) -> None:
        from psycopg2 import sql

        source, target = (find_table(cursor, (schema, table)) for table in (former, name))
        if source is None:  # it has its new name, or was never written
            return
        if target is not None:
            raise error("RENAME_TARGET_TAKEN", former=former, name=name)
        statement = sql.SQL("ALTER TABLE {} RENAME TO {}")
        cursor.execute(statement.format(sql.Identifier(schema, former), sql.Identifier(name)))
        ledger = sql.Identifier(schema, LEDGER)
        cursor.execute(sql.SQL("UPDATE {} SET target = %s WHERE target = %s").format(ledger), (name, former))

    _transaction(settings, former, step)


def _exchange(cursor: Any, target: TableTarget, public: str, former: str, new: str) -> None:
    """Give the public name to the new table. If the new table does not exist, it has the public name already."""
    from psycopg2 import sql

    schema = target.path[0]
    serving = find_table(cursor, (schema, public))
    if find_table(cursor, (schema, new)) is None:
        if serving is None:
            raise error("TARGET_GONE", table=f"{schema}.{new}", version=new, checkpoint="", sink="no batch")
        return
    rename = sql.SQL("ALTER TABLE {} RENAME TO {}")
    if serving is not None:
        if is_kept(cursor, serving, replace(target, mode="upsert" if serving.unique else "append"), has_grants=False):
            raise error("VERSION_TABLE_HELD", table=f"{schema}.{public}")
        _copy_grants(cursor, serving.oid, sql.Identifier(schema, new))
        cursor.execute(rename.format(sql.Identifier(schema, public), sql.Identifier(former)))
    cursor.execute(rename.format(sql.Identifier(schema, new), sql.Identifier(public)))
    update = sql.SQL("UPDATE {} SET target = CASE target WHEN %(p)s THEN %(f)s ELSE %(p)s END WHERE target IN %(all)s")
    cursor.execute(update.format(sql.Identifier(schema, LEDGER)), {"p": public, "f": former, "all": (public, new)})


def _copy_grants(cursor: Any, oid: int, table: Any) -> None:
    """Grant on the new table what others may do with the public one."""
    from psycopg2 import sql

    cursor.execute(GRANTS_QUERY, (oid,))
    for role, privilege, is_grantable in cursor.fetchall():
        grantee = sql.SQL("PUBLIC") if role is None else sql.Identifier(role)
        option = sql.SQL(" WITH GRANT OPTION" if is_grantable else "")
        cursor.execute(sql.SQL("GRANT {} ON {} TO {}{}").format(sql.SQL(privilege), table, grantee, option))


def _transaction(settings: Mapping[str, str], table: str, step: Statements) -> None:
    import psycopg2

    address = PostgresAddress.of(settings["store"], settings)
    try:
        with closing(address.control(CONTROL_MILLIS)) as connection, connection, connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", (f"{PUBLISH_LOCK_MILLIS}ms",))
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_SPACE, table))
            step(cursor)
    except psycopg2.Error as problem:
        raise address.failure(problem, "hand over a view", table) from None
