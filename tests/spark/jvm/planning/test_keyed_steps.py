"""Folds without a store, against a plain model, and with the store that their checkpoint has."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.spark.queries.prepared import EVOLUTION
from ds_dagster.spark.session import STATE_STORE_CLASS
from tests.spark.jvm.conftest import STREAMING, Memory
from tests.spark.jvm.planning.conftest import RECORDS, plan_of
from tests.testing.seeds import seed

pytestmark = pytest.mark.spark

Change = tuple[tuple[int | None, str], int, int]
"""Key, value and weight."""


def folded(lab: Any, source: Any) -> DataFrame:
    parts = sf.from_json("value", "a bigint, b string, v bigint, w bigint").alias("p")
    rows = source.frame().select(parts).select("p.*")
    keyed = rows.select("a", "b", sf.struct("a", "b", "v").alias("row"), "w")
    return lab.operators.fold(keyed, 2).select("row.a", "row.b", "row.v", "deleted")


def text(change: Change) -> str:
    (a, b), value, weight = change
    return json.dumps({"a": a, "b": b, "v": value, "w": weight})


def changes(dice: random.Random, current: dict[Any, int]) -> Iterator[Change]:
    """Of some keys one behind the other or mixed; a key may end as it was."""
    for _ in range(60):
        key = (dice.choice([None, 0, 1, 2]), dice.choice(["", "x", "y" * 40]))
        if key in current:
            yield key, current.pop(key), -1
        if dice.random() < 0.7:
            current[key] = dice.randrange(4)
            yield key, current[key], 1


def expected(before: dict[Any, int], after: dict[Any, int], made: list[Change]) -> list[tuple[Any, ...]]:
    """Rows of keys that have changed: what is added more often than retracted, or else what is gone."""
    rows = []
    for key in {key for key, _, _ in made}:
        if before.get(key) != after.get(key):
            rows.append((*key, after.get(key, before.get(key)), key not in after))
    return sorted(rows, key=repr)


@pytest.mark.parametrize("few", ["0", "500"], ids=["compiled", "interpreted"])
def test_folds_are_those_of_the_model(ruled: Any, memory: Callable[[], Any], few: str) -> None:
    ruled.spark.conf.set(RECORDS, few)
    ruled.spark.conf.set("spark.sql.shuffle.partitions", "2")
    dice, source, current = random.Random(seed(18)), memory(), {}
    query = ruled.start(folded(ruled, source))
    for batch in range(6):
        before = dict(current)
        made = list(changes(dice, current))
        source.add(*map(text, made))
        assert ruled.step(query) == expected(before, current, made)
        assert "FoldStep" in plan_of(query)
        assert "TransformWithState" not in plan_of(query)
        if batch == 2:
            query.stop()
            query = ruled.start(folded(ruled, source))
    store = Path(ruled.root, "query", "state", "0", "0")
    assert not [path for path in store.rglob("*") if path.is_file()]


def without_rules(spark: SparkSession) -> SparkSession:
    """A session that plans as versions of this package before the rule did."""
    jvm: Any = spark._jvm
    context = spark.sparkContext
    bare = jvm.org.apache.spark.sql.classic.SparkSession(context._jsc.sc(), jvm.java.util.HashMap())
    session = SparkSession(context, bare)
    for name in (STATE_STORE_CLASS, EVOLUTION, "spark.sql.session.timeZone"):
        session.conf.set(name, spark.conf.get(name))
    return session


def test_a_fold_goes_on_with_its_store(ruled: Any) -> None:
    """Of a checkpoint from before this rule: the store gets a version in each batch, as before."""
    session = ruled.spark
    session.conf.set(STATE_STORE_CLASS, f"{STREAMING}.state.RocksDBStateStoreProvider")
    made: list[Change] = [((1, "x"), 5, 1), ((1, "x"), 5, -1), ((1, "x"), 7, 1)]
    for number, (a, b) in enumerate([(without_rules(session), []), (session, made[:1]), (session, made[:2])]):
        ruled.spark = a
        source = Memory(a)
        for earlier in b:
            source.add(text(earlier))
        source.add(text(made[number]))
        query = ruled.start(folded(ruled, source))
        (_, key), value, weight = made[number]
        assert ruled.step(query) == [(1, key, value, weight < 0)]
        assert "FoldStep" not in plan_of(query)
        assert "TransformWithState" in plan_of(query)
        assert Path(ruled.root, "query", "state", "0", "0", f"{number + 1}.changelog").exists()
        query.stop()


def test_a_key_with_several_rows_is_refused(ruled: Any, memory: Callable[[], Any]) -> None:
    source = memory()
    query = ruled.start(folded(ruled, source))
    source.add(text(((1, "x"), 5, 1)), text(((1, "x"), 6, 1)))
    with pytest.raises(Exception, match="KEY_NOT_UNIQUE"):
        query.processAllAvailable()
