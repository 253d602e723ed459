"""What stores refuse or fail with, told apart by codes of their drivers; no server takes part."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ds_dagster.catalog.declaring.declared import qualify
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import Context, WrittenName
from ds_dagster.stores.memory.loader import MemoryAdmin
from ds_dagster.stores.postgres.connection import PostgresAddress

ADDRESS = PostgresAddress("pg", "postgresql://db.example:5432/shop", "ana", "hidden-password")


class DriverError(Exception):
    """As psycopg2 and ADBC raise them: the code is an attribute."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.pgcode = code


@pytest.mark.parametrize(
    ("text", "code", "condition"),
    [
        ("password authentication failed", "28P01", "STORE_LOGIN_REFUSED"),
        ("database shop does not exist", "3D000", "TARGET_DATABASE_MISSING"),
        ("permission denied for schema public", "42501", "STORE_PERMISSION_DENIED"),
        ("could not extend file", "53100", "DISK_FULL"),
        ("server closed the connection", "08006", "STORE_UNREACHABLE"),
        ("terminating connection due to administrator command", "57P01", "STORE_UNREACHABLE"),
        ("null value in column x", "23502", "TARGET_REJECTS_ROWS"),
        ("some other refusal", "0A000", "STORE_CALL_FAILED"),
        ('FATAL: database "shop" does not exist', "", "TARGET_DATABASE_MISSING"),
        ("connection refused", "", "STORE_UNREACHABLE"),
    ],
)
def test_codes_of_postgres(text: str, code: str, condition: str) -> None:
    found = ADDRESS.failure(DriverError(text, code), "write", "public.t")
    assert found.condition == condition
    assert "{" not in found.message + found.hint, "every parameter is given"
    assert "hidden-password" not in f"{found} {found.params} {found.detail} {ADDRESS}"


@pytest.mark.parametrize("package", ["psycopg2", "adbc_driver_manager"])
def test_a_missing_driver_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    connect = ADDRESS.control if package == "psycopg2" else ADDRESS.bulk
    with pytest.raises(DsError) as refused:
        connect()
    assert refused.value.condition == "STORE_DRIVER_MISSING"
    assert "pip install" in refused.value.hint


def test_memory_has_no_records_to_print() -> None:
    with pytest.raises(DsError) as refused:
        MemoryAdmin("m").records("t", from_beginning=True, limit=1, stopped=lambda: True)
    assert refused.value.condition == "STORE_NOT_A_SOURCE"


def test_a_name_of_four_parts_belongs_nowhere(tmp_path: Path) -> None:
    written = WrittenName(("a", "b", "c", "d"), Span("a.sql", 1, 1))
    with pytest.raises(DsError) as refused:
        qualify(written, Context(), Settings(root=tmp_path, sql=tmp_path, state=tmp_path))
    assert refused.value.condition == "NAME_TOO_LONG"
