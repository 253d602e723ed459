"""Which entity a checkpoint belongs to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import Envelope, ReadSpec
from ds_dagster.errors import DsError
from ds_dagster.spark.queries.query import start
from ds_dagster.spark.queries.source_identity import SOURCES, check_identities
from tests.spark.conftest import elsewhere

pytestmark = pytest.mark.spark
ENVELOPE = Envelope("key", "value", "timestamp", "partition", "order")


def spec(identity: str, entity: str = "k.clicks") -> ReadSpec:
    return ReadSpec("kafka", ENVELOPE, entity, identity=identity)


@pytest.mark.parametrize("is_local", [True, False])
def test_the_same_entity_and_new_ones_go_on(spark: SparkSession, tmp_path: Path, is_local: bool) -> None:
    session, url = elsewhere(spark, tmp_path)
    root = tmp_path.as_uri() if is_local else url
    place = f"{root}/v1"
    check_identities(session, place, {"clicks": spec("a")})
    check_identities(session, place, {"clicks": spec("a"), "users": spec("b", "k.users")})
    check_identities(session, place, {"users": spec("b", "k.users")})
    with pytest.raises(DsError) as problem:
        check_identities(session, place, {"clicks": spec("a"), "users": spec("c", "k.users")})
    assert (problem.value.condition, problem.value.fault.hint) == ("INPUT_RECREATED", "never")
    assert "k.users" in problem.value.message
    check_identities(session, f"{root}/v2", {"users": spec("c", "k.users")})


def test_nothing_is_kept_where_nothing_is_known(spark: SparkSession, tmp_path: Path) -> None:
    check_identities(spark, str(tmp_path / "v1"), {"clicks": spec("")})
    assert not (tmp_path / "v1").exists()
    check_identities(spark, str(tmp_path / "v1"), {"clicks": spec("a")})
    check_identities(spark, str(tmp_path / "v1"), {"clicks": spec("")})
    with pytest.raises(DsError):
        check_identities(spark, str(tmp_path / "v1"), {"clicks": spec("b")})


def test_a_file_that_is_no_json(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / SOURCES).write_text("{")
    with pytest.raises(DsError) as problem:
        check_identities(spark, str(tmp_path), {"clicks": spec("a")})
    assert problem.value.condition == "CHECKPOINT_UNREADABLE"


def test_a_query_that_is_not_started_is_closed(spark: SparkSession, tmp_path: Path) -> None:
    closed: list[str] = []
    prepared = SimpleNamespace(
        session=spark,
        reads={"clicks": spec("b")},
        clock=False,
        logs=None,
        sinks=(),
        loaders=(SimpleNamespace(close=lambda: closed.append("loader")),),
    )
    check_identities(spark, str(tmp_path), {"clicks": spec("a")})
    with pytest.raises(DsError):
        start(prepared, str(tmp_path))  # type: ignore[arg-type]
    assert closed == ["loader"]
