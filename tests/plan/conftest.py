"""Relations that the plan tests read, and how a text is compiled with them."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from ds_dagster.plan.nodes.node import Node
from ds_dagster.project import load
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings

PRELUDE = """
CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE warehouse WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD}');
CREATE STREAM clicks (at BIGINT, url VARCHAR, userid VARCHAR, seen TIMESTAMP, amount DECIMAL(10, 2), ok BOOLEAN)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE STREAM views (at BIGINT, url VARCHAR, userid VARCHAR)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE STREAM copies (url VARCHAR, at BIGINT)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE STREAM people (id BIGINT, contact STRUCT<city VARCHAR, zip INTEGER>, tags ARRAY<VARCHAR>, counts MAP<VARCHAR,
BIGINT>)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE CHANGELOG users (userid VARCHAR, name VARCHAR, at BIGINT, PRIMARY KEY (userid))
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE CHANGELOG accounts (userid VARCHAR, name VARCHAR, PRIMARY KEY (userid))
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE CHANGELOG prices (shop VARCHAR, item VARCHAR, price DOUBLE, PRIMARY KEY (shop, item))
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
"""
Compile = Callable[..., LoadedProject]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a project with code: a module, one that does not parse, a jar with one class."""
    (tmp_path / "code.py").write_text("def slug(text, joint='-'):\n    return text\n")
    (tmp_path / "broken.py").write_text("def slug(:\n")
    with zipfile.ZipFile(tmp_path / "x.jar", "w") as jar:
        jar.writestr("com/acme/Slug.class", b"")
    return Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="kafka")


_read = lru_cache(maxsize=1)(load.parse_file)
"""Declarations are frozen: those of the prelude are read once."""


@pytest.fixture
def compile_sql(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Compile:
    parse = load.parse_file
    monkeypatch.setattr(
        load, "parse_file", lambda *given, **more: (_read if given[1:] == (PRELUDE,) else parse)(*given, **more)
    )

    def run(sql: str, prelude: str = PRELUDE) -> LoadedProject:
        return compile_texts([("prelude.sql", prelude), ("a.sql", sql)], settings)

    return run


def node_classes() -> set[type[Node]]:
    """All classes of plan nodes that a plan can hold. Slots make a dataclass twice; the first is not counted."""

    def below(base: type[Node]) -> Iterator[type[Node]]:
        for child in base.__subclasses__():
            yield child
            yield from below(child)

    real = {kind for kind in below(Node) if kind is getattr(sys.modules[kind.__module__], kind.__name__, None)}
    return {kind for kind in real if kind.__module__.startswith("ds_dagster.") and not kind.__subclasses__()}
