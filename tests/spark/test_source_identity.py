"""Which entity a checkpoint belongs to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ds_dagster.catalog.io_spec import Envelope, ReadSpec
from ds_dagster.errors import DsError
from ds_dagster.spark.query import start
from ds_dagster.spark.source_identity import FILE, check_identities

ENVELOPE = Envelope("key", "value", "timestamp", "partition", "order")


def spec(identity: str, entity: str = "k.clicks") -> ReadSpec:
    return ReadSpec("kafka", ENVELOPE, entity, identity=identity)


def test_the_same_entity_and_new_ones_go_on(tmp_path: Path) -> None:
    place = (tmp_path / "v1").as_uri()
    check_identities(place, {"clicks": spec("a")})
    check_identities(place, {"clicks": spec("a"), "users": spec("b", "k.users")})
    check_identities(place, {"users": spec("b", "k.users")})
    with pytest.raises(DsError) as problem:
        check_identities(str(tmp_path / "v1"), {"clicks": spec("a"), "users": spec("c", "k.users")})
    assert (problem.value.condition, problem.value.fault.hint) == ("INPUT_RECREATED", "never")
    assert "k.users" in problem.value.message
    check_identities(str(tmp_path / "v2"), {"users": spec("c", "k.users")})


def test_nothing_is_kept_where_nothing_is_known(tmp_path: Path) -> None:
    check_identities(str(tmp_path / "v1"), {"clicks": spec("")})
    assert not (tmp_path / "v1").exists()
    check_identities("s3a://bucket/v1", {"clicks": spec("a")})
    check_identities(str(tmp_path / "v1"), {"clicks": spec("a")})
    check_identities(str(tmp_path / "v1"), {"clicks": spec("")})
    with pytest.raises(DsError):
        check_identities(str(tmp_path / "v1"), {"clicks": spec("b")})


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(DsError) as problem:
        check_identities(str(tmp_path), {"clicks": spec("a")})
    assert problem.value.condition == "CHECKPOINT_UNREADABLE"


def test_a_query_that_is_not_started_is_closed(tmp_path: Path) -> None:
    closed: list[str] = []
    prepared = SimpleNamespace(
        unnamed=False,
        reads={"clicks": spec("b")},
        clock=False,
        logs=None,
        application=None,
        write=SimpleNamespace(transactional=False),
        loader=SimpleNamespace(close=lambda: closed.append("loader")),
    )
    check_identities(str(tmp_path), {"clicks": spec("a")})
    with pytest.raises(DsError):
        start(prepared, str(tmp_path))  # type: ignore[arg-type]
    assert closed == ["loader"]
