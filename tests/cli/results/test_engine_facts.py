"""``ds doctor`` compares every engine that this machine starts with the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.cli.results.engine_facts import Machine, engine_facts
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.settings import load_settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'tls.disabled' = TRUE);
CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 8, 'compute_pool.memory' = '6g');
CREATE COMPUTE_POOL small WITH ('compute_pool.memory' = '256m');
CREATE COMPUTE_POOL refused WITH ('compute_pool.memory' = 'much');
CREATE STREAM clicks (url VARCHAR) WITH ('store' = 'k', 'topic' = 'clicks', 'value.format' = 'json');
CREATE MATERIALIZED VIEW a AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;
CREATE MATERIALIZED VIEW b AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url QUERY WITH ('compute_pool' = 'heavy');
"""
BIG, LITTLE = Machine(16, 65_536.0), Machine(2, 4096.0)


@pytest.fixture
def loaded(project: Path) -> LoadedProject:
    (project / "sql" / "all.sql").write_text(SQL)
    return load_project(project, settings=load_settings(project))


def test_each_pool_is_compared_with_the_machine(loaded: LoadedProject) -> None:
    found = {fact.name: fact for fact in engine_facts(loaded, LITTLE)}
    assert {name for name, fact in found.items() if fact.ok} == {"engine"}
    assert found.keys() == {"engine", "compute pool heavy", "compute pool small", "engines together"}
    assert found["compute pool heavy"].found == "8 cores, heap 6g"
    assert "compute_pool.cores to 2" in found["compute pool heavy"].fix
    assert "compute_pool.memory below 4.0 GiB" in found["compute pool heavy"].fix
    assert "512m" in found["compute pool small"].fix
    assert found["engines together"].found == "heaps of 2 engines 7.0 GiB, this machine 4.0 GiB"


def test_engines_that_fit_are_fine(loaded: LoadedProject) -> None:
    assert {fact.name for fact in engine_facts(loaded, BIG) if not fact.ok} == {"compute pool small"}
    assert all(fact.ok for fact in engine_facts(loaded, Machine(1, None)) if fact.name == "engine")


def test_the_engine_of_the_settings_is_compared_too(loaded: LoadedProject) -> None:
    engine = replace(loaded.settings.engine, cores=32, memory="100g")
    larger = replace(loaded, settings=replace(loaded.settings, engine=engine))
    (fact,) = (fact for fact in engine_facts(larger, BIG) if fact.name == "engine")
    assert not fact.ok
    assert fact.fix.startswith("set engine.cores to 16, the cores of this machine; engine.memory below 64.0 GiB")


def test_engines_that_run_elsewhere_are_not_compared(loaded: LoadedProject) -> None:
    engine = replace(loaded.settings.engine, launcher="external")
    assert engine_facts(replace(loaded, settings=replace(loaded.settings, engine=engine)), LITTLE) == ()


def test_the_doctor_shows_pools(ds, loaded: LoadedProject) -> None:
    facts = {fact["name"]: fact for fact in ds("doctor", "--json").json["facts"]}
    assert facts["engine"]["found"] == f"2 cores, heap {loaded.settings.engine.memory}"
    assert not facts["compute pool small"]["ok"]
