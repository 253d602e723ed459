"""Steps with state get the store that knows its keys, and their checkpoints keep the name of Spark's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

SPARKS = "org.apache.spark.sql.execution.streaming.state"


def loaded(lab: Any, query: StreamingQuery) -> list[str]:
    """The state stores of a query, each with its class."""
    jvm = lab.spark._jvm
    store = jvm.java.lang.Class.forName(f"{SPARKS}.StateStore$")
    stores = jvm.dsdagster.PrivateField.of(store, "loadedProviders").get(None).mkString("\n")
    return [line for line in stores.splitlines() if str(query.runId) in line]


def test_a_step_gets_the_store_that_knows_its_keys(ruled: Any, memory: Callable[[], Any]) -> None:
    ruled.spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{SPARKS}.RocksDBStateStoreProvider")
    source = memory()
    query = ruled.start(source.frame().groupBy("value").count(), mode="update")
    for expected in (1, 2):
        source.add("a")
        assert ruled.step(query) == [("a", expected)]
        assert loaded(ruled, query)
        assert all(" -> dsdagster.state.keys.KnownKeysProvider@" in line for line in loaded(ruled, query))
    logged = Path(ruled.root, "query", "offsets", "1").read_text(encoding="utf-8")
    assert f"{SPARKS}.RocksDBStateStoreProvider" in logged
    assert "KnownKeys" not in logged
