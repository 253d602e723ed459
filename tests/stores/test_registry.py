"""The list of store kinds: complete, every kind found by all its names, others' kinds added or refused by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ds_dagster.catalog.properties.table import PROPERTIES
from ds_dagster.errors import DsError
from ds_dagster.stores.memory.kind import Memory
from ds_dagster.stores.registry import GROUP, KINDS, built_in, by_name, load_kinds

OTHER = """
from ds_dagster.stores.memory.kind import Memory

class Other(Memory):
    name = "OTHER"
    aliases = ("ANOTHER",)
"""
"""What a package of somebody else's brings."""


def point(value: str) -> EntryPoint:
    return EntryPoint(name="other", value=value, group=GROUP)


def test_a_kind_is_found_by_all_its_names() -> None:
    for kind in built_in():
        assert all(KINDS[name].name == kind.name for name in (kind.name, *kind.aliases))


def test_kinds_name_properties_of_the_one_table() -> None:
    for kind in built_in():
        assert {*kind.store_properties, *kind.relation_properties} <= set(PROPERTIES)


def test_a_kind_that_is_built_says_where_data_may_go() -> None:
    for kind in built_in():
        able = kind.capabilities
        uses = (able.reads_streams, able.writes_streams, able.writes_tables, able.serves_views)
        assert any(uses) != bool(able.not_yet), kind.name
        assert able.not_yet or (able.dagster_kinds and able.storage_kind), kind.name


def test_kinds_of_others_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package_of_others.py").write_text(OTHER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = load_kinds([point("package_of_others:Other")])
    assert set(found) - set(KINDS) == {"OTHER", "ANOTHER"}
    assert found["ANOTHER"].name == "OTHER"


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(DsError) as refused:
        by_name((*built_in(), Memory()))
    assert refused.value.condition == "STORE_KIND_TWICE"
    assert "MEMORY" in str(refused.value)


@pytest.mark.parametrize(
    "value", ["no_such_package:Kind", "ds_dagster.stores.memory.kind:NoKind", "ds_dagster.names:fold"]
)
def test_a_package_that_cannot_be_loaded_is_named(value: str) -> None:
    with pytest.raises(DsError) as refused:
        load_kinds([point(value)])
    assert refused.value.condition == "STORE_KIND_BROKEN"
    assert value in str(refused.value)
