"""A project with one file, and a cursor in its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ds_dagster.editor.project import Snapshot, compiled

STORES = "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'b:9092');\n"
CLICKS = """-- Clicks on the site.
CREATE STREAM clicks (ts BIGINT, userid VARCHAR NOT NULL, url VARCHAR)
  WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
CREATE CHANGELOG users (userid VARCHAR, region VARCHAR, PRIMARY KEY (userid))
  WITH ('store' = 'k', 'topic' = 'users', 'value.format' = 'json');
CREATE STREAM home AS SELECT c.url, u.region FROM clicks c JOIN users u ON c.userid = u.userid;
"""
At = Callable[[str], tuple[Snapshot, str, int]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    (tmp_path / "ds.toml").write_text('store = "k"\n')
    (tmp_path / "sql" / "stores.sql").write_text(STORES)
    (tmp_path / "sql" / "clicks.sql").write_text(CLICKS)
    return tmp_path


@pytest.fixture
def at(root: Path) -> At:
    """The project with a third file whose text has a cursor, written as ``|``."""

    def snapshot(marked: str) -> tuple[Snapshot, str, int]:
        texts = {"sql/new.sql": marked.replace("|", "", 1)}
        return compiled(root, texts), "sql/new.sql", marked.index("|")

    return snapshot
