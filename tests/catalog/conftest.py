"""SQL text in, declarations out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from ds_dagster.catalog.declaring.builder import declare
from ds_dagster.catalog.declaring.declared import Declared
from ds_dagster.catalog.declaring.inference import Changelog, infer_sink
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.datatypes import BIGINT, VARCHAR
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.settings import Overlay, Settings
from ds_dagster.sql.script import parse_file
from ds_dagster.sql.statements import CreateAsSelect
from ds_dagster.stores.registry import KINDS

STORES = """
CREATE STORE k WITH ('type'=KAFKA, 'uris'='broker:9092');
CREATE STORE k2 WITH ('type'=CONFLUENT_KAFKA, 'uris'='other:9092');
CREATE STORE kin WITH ('type'=KINESIS, 'access_region'="AWS us-west-2");
CREATE STORE pg WITH ('type'=POSTGRESQL, 'uris'='postgresql://h:5432/db', 'postgres.username'='u');
CREATE STREAM clicks (event_time BIGINT, url VARCHAR, uid VARCHAR)
  WITH ('topic'='clicks', 'topic.partitions'=3,
        'kafka.topic.retention.ms'='1000', 'kafka.topic.cleanup.policy'='compact');
CREATE STREAM views (event_time BIGINT, url VARCHAR) WITH ('store'='kin', 'topic'='views');
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", database="db", store="k")


@pytest.fixture
def declared(settings: Settings) -> Callable[..., Declared]:
    def run(text: str, *, overlay: Mapping[str, Mapping[str, object]] | None = None, stores: str = STORES) -> Declared:
        chosen = settings
        if overlay is not None:
            chosen = replace(settings, overlay=Overlay("local.toml", kinds=MappingProxyType(dict(overlay))))
        files = [parse_file("a.sql", text), parse_file("z_stores.sql", stores)]
        assert not [d for f in files for d in f.diagnostics], [d.text() for f in files for d in f.diagnostics]
        return declare(files, chosen, KINDS)

    return run


@pytest.fixture
def inferred(
    declared: Callable[..., Declared], settings: Settings
) -> Callable[..., tuple[Relation | None, Sequence[Diagnostic]]]:
    """The sink of the one CREATE … AS in a text; its SELECT is taken to yield (url, n)."""

    def run(text: str, left: str = "clicks", key: Sequence[str] = ()) -> tuple[Relation | None, Sequence[Diagnostic]]:
        found = declared(text)
        assert not found.diagnostics, [d.text() for d in found.diagnostics]
        (query,) = found.queries
        assert isinstance(query.statement, CreateAsSelect)
        source = next(relation for relation in found.relations.values() if relation.name.name == left)
        output = [Column("url", VARCHAR), Column("n", BIGINT)]
        changelog: Changelog = "upsert" if key else "append"
        return infer_sink(query.statement, output, changelog, key, source, found.catalog, settings, KINDS)

    return run
