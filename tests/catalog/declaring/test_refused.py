"""Declarations that are refused for what they lack, and nothing else is said about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ds_dagster.catalog.declaring.declared import Declared

TWO = "(a BIGINT, b VARCHAR)"


@pytest.mark.parametrize(
    ("text", "condition", "part"),
    [
        ("CREATE CHANGELOG s (a BIGINT);", "PRIMARY_KEY_MISSING", "PRIMARY KEY"),
        ("CREATE STREAM s WITH ('topic'='s');", "COLUMNS_MISSING", "columns"),
        (
            f"CREATE STREAM s {TWO} WITH ('key.columns'='a,b', 'value.columns.exclude'='a,b');",
            "VALUE_COLUMNS_ALL_EXCLUDED",
            "value",
        ),
        (
            "CREATE STORE p WITH ('type'=POSTGRESQL, 'uris'='postgresql://h/d', 'postgres.username'='u', "
            "'tls.disabled'=TRUE, 'postgres.sslmode'=REQUIRE);",
            "STORE_PROPERTIES_CONTRADICT",
            "sslmode",
        ),
        (
            "CREATE STORE q WITH ('type'=KAFKA, 'uris'='h:1', 'tls.disabled'=TRUE, 'tls.ca_cert_file'='ca.pem');",
            "STORE_PROPERTIES_CONTRADICT",
            "tls",
        ),
    ],
)
def test_refused(declared: Callable[..., Declared], text: str, condition: str, part: str) -> None:
    (found,) = declared(text).diagnostics
    assert found.condition == condition
    assert part in found.text()
    assert found.span is not None
    assert found.span.file == "a.sql"
