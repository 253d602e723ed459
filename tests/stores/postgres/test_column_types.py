"""Types of columns as DESCRIBE ENTITY and GENERATE COLUMNS propose them; see docs/how-to/stores/postgres-cdc.md."""

from __future__ import annotations

import pytest

from ds_dagster.stores.postgres.entities import column_type


@pytest.mark.parametrize(
    ("native", "type_"),
    [
        ("integer", "INTEGER"),
        ("numeric(10,2)", "DECIMAL(10,2)"),
        ("numeric", "VARCHAR"),
        ("timestamp(3) with time zone", "TIMESTAMP_LTZ"),
        ("mood", "VARCHAR"),
        ('shop."My Mood"', "VARCHAR"),
        ("int4range", "VARCHAR"),
        ("citext", "VARCHAR"),
        ("cidr", "VARCHAR"),
        ("interval", "VARCHAR"),
        ("bit(3)", "VARCHAR"),
        ("bit varying(3)", "VARCHAR"),
        ("integer[]", "ARRAY<INTEGER>"),
        ("mood[]", "ARRAY<VARCHAR>"),
        ("character varying(3)[]", "ARRAY<VARCHAR>"),
    ],
)
def test_every_type_has_one_of_ours(native: str, type_: str) -> None:
    assert str(column_type(native)) == type_
