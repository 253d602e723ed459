"""What the dialect needs of sqlglot."""

from __future__ import annotations

import pytest
import sqlglot.parser

from ds_dagster.errors import UserError
from ds_dagster.sql.command_script import parse_commands
from ds_dagster.sql.script import parse_file


def test_the_compiled_build_of_sqlglot_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlglot.parser, "__file__", "site-packages/sqlglot/parser.cpython-311-x86_64-linux-gnu.so")
    with pytest.raises(UserError) as of_files:
        parse_file("all.sql", "CREATE DATABASE d;")
    with pytest.raises(UserError) as of_commands:
        list(parse_commands("-", "LIST STORES;"))
    assert {of_files.value.condition, of_commands.value.condition} == {"SQLGLOT_COMPILED"}
