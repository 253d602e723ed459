"""Cores of an engine on a cluster, and the properties that give another engine its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.catalog.executors import cores_of, with_cores
from ds_dagster.settings import EngineSettings, Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(tmp_path)


@pytest.mark.parametrize(
    ("master", "spark", "own", "properties"),
    [
        ("spark://h:7077", {}, None, {"spark.cores.max": "4"}),
        ("spark://h:7077", {"spark.cores.max": "8", "spark.executor.instances": "9"}, 8, {"spark.cores.max": "4"}),
        (
            "spark://h:7077",
            {"spark.cores.max": "8", "spark.executor.cores": "2"},
            8,
            {"spark.cores.max": "4", "spark.executor.cores": "2", "spark.executor.instances": "2"},
        ),
        ("yarn", {}, 2, {"spark.executor.instances": "4"}),
        (
            "k8s://https://h:1",
            {"spark.executor.instances": "3", "spark.executor.cores": "4"},
            12,
            {"spark.executor.instances": "1", "spark.executor.cores": "4"},
        ),
    ],
)
def test_an_engine_gets_four_cores(
    settings: Settings, master: str, spark: Mapping[str, str], own: int | None, properties: Mapping[str, str]
) -> None:
    of_project = replace(settings, engine=EngineSettings(master=master), spark=spark)
    of_pool = with_cores(of_project, 4)
    assert (cores_of(of_project), cores_of(of_pool), dict(of_pool.spark)) == (own, 4, properties)


def test_a_local_cluster_has_its_cores_in_the_master(settings: Settings) -> None:
    of_project = replace(settings, engine=EngineSettings(master="local-cluster[3, 2, 512]"))
    of_pool = with_cores(of_project, 4)
    assert (cores_of(of_project), of_pool.engine.master) == (6, "local-cluster[2,2,512]")
