"""Slots that are left over: found once, kept while a query has them, dropped with their publication."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from ds_dagster.catalog.reading.slots import default_slot, slot_prefix
from ds_dagster.cli import slots
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.control import Control
from ds_dagster.settings import Settings
from ds_dagster.stores.postgres.connection import PostgresAddress

pytestmark = pytest.mark.servers

SQL = """
CREATE CHANGELOG t (id BIGINT, PRIMARY KEY(id)) WITH ('store' = 'one');
CREATE MATERIALIZED VIEW kept WITH ('store' = 'one') AS SELECT id FROM t;
"""


def project_in(folder: Path, settings: Mapping[str, str], sql: str) -> LoadedProject:
    (folder / ".env").write_text(f"SLOTS_PASSWORD={settings['password']}\n")
    stores = "".join(
        f"CREATE STORE {name} WITH ('type' = POSTGRESQL, 'uris' = '{settings['url']}', 'tls.disabled' = TRUE, "
        f"'postgres.username' = '{settings['username']}', 'postgres.password' = '${{SLOTS_PASSWORD}}');\n"
        for name in ("one", "two")
    )
    made = Settings(root=folder, sql=folder, state=folder / ".ds", store="one", environment=uuid.uuid4().hex[:8])
    project = compile_texts([("t.sql", stores + sql)], made)
    assert not project.errors, [problem.text() for problem in project.errors]
    return project


def test_left_over_slots(tmp_path: Path, postgres_settings: Mapping[str, str]) -> None:
    project = project_in(tmp_path, postgres_settings, SQL)
    control = Control.open(project.settings)
    assert slots.left_over(project, control) == [], "a project that never ran has none"
    control.journal.create()
    job = control.journal.identity().job_id
    scan = project.queries["kept"].scans[0]
    mine, gone = default_slot(job("kept"), scan.source_name), default_slot(job("gone"), "x")
    assert mine.startswith(slot_prefix(job("kept")))
    connection = PostgresAddress.of("one", postgres_settings).control()
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE IF NOT EXISTS slots_t (id bigint PRIMARY KEY)")
    for name in (mine, gone):
        cursor.execute(f"CREATE PUBLICATION {name} FOR TABLE slots_t")
        cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
    try:
        (left,) = slots.left_over(project, control)
        assert (left.name, left.active, left.database) == (gone, False, "postgres")
        slots.drop(project, left)
        assert slots.left_over(project, control) == []
        cursor.execute("SELECT pubname FROM pg_publication WHERE pubname IN (%s, %s)", (mine, gone))
        assert cursor.fetchall() == [(mine,)]
    finally:
        cursor.execute("SELECT pg_drop_replication_slot(%s)", (mine,))
        cursor.execute(f"DROP PUBLICATION IF EXISTS {mine}")
        cursor.execute("DROP TABLE slots_t")
        connection.close()
