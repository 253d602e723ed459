"""``ds preview`` and ``ds record`` as a user calls them, on records of a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.stores.kafka.admin import KafkaAdmin
from tests.command_line import Ds

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("session_stays")]

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{uris}');
CREATE STREAM clicks (url VARCHAR, userid VARCHAR, ms BIGINT)
  WITH ('store'='k', 'topic'='{topic}_clicks', 'value.format'='json', 'topic.partitions'=1);
CREATE CHANGELOG users (userid VARCHAR, region VARCHAR, PRIMARY KEY (userid))
  WITH ('store'='k', 'topic'='{topic}_users', 'value.format'='json', 'key.format'='json', 'topic.partitions'=1);
CREATE STREAM enriched WITH ('topic'='{topic}_out') AS
  SELECT c.url, c.userid, u.region, c.ms FROM clicks c JOIN users u ON c.userid = u.userid;
"""


@pytest.fixture(scope="module")
def topic(kafka_settings: Mapping[str, str]) -> str:
    """Two users, one of them twice, and three clicks; one is of nobody."""
    name = f"p_{uuid.uuid4().hex[:8]}"
    admin, one = KafkaAdmin("k", kafka_settings), {"topic.partitions": 1, "topic.replicas": 1}
    for suffix in ("clicks", "users"):
        admin.ensure(EntityPlan(f"{name}_{suffix}", one, {"retention.ms": "-1"}))
    producer = Producer(dict(kafka_settings))

    def send(suffix: str, at: int, value: object, key: object = None) -> None:
        encoded = None if key is None else json.dumps(key).encode()
        producer.produce(f"{name}_{suffix}", key=encoded, value=json.dumps(value).encode(), timestamp=START + at)

    for at, region in ((0, "EU"), (2000, "US")):
        send("users", at, {"userid": "u1", "region": region}, {"userid": "u1"})
    for at, user in ((1000, "u1"), (3000, "u1"), (3500, "nobody")):
        send("clicks", at, {"url": "/a", "userid": user, "ms": at})
    producer.flush()
    return name


START = 1_760_000_000_000


@pytest.fixture
def project(tmp_path: Path, kafka_settings: Mapping[str, str], topic: str) -> Path:
    (tmp_path / "sql").mkdir()
    text = SQL.format(uris=kafka_settings["bootstrap.servers"], topic=topic)
    (tmp_path / "sql" / "all.sql").write_text(text)
    (tmp_path / "ds.toml").write_text('store = "k"\n')
    return tmp_path


def test_a_relation_on_recent_records(ds: Ds, kafka_settings: Mapping[str, str], topic: str) -> None:
    done = ds("preview", "enriched", "--since", "9999d", "--json")
    assert done.code == 0, done.out + done.err
    shown = done.json
    assert shown["read"] == {f"k.{topic}_clicks": 3, f"k.{topic}_users": 2}
    (relation,) = shown["relations"]
    assert sorted(relation["rows"], key=lambda row: row["ms"]) == [
        {"url": "/a", "userid": "u1", "region": "EU", "ms": 1000},
        {"url": "/a", "userid": "u1", "region": "US", "ms": 3000},
    ]
    assert KafkaAdmin("k", kafka_settings).describe(f"{topic}_out") is None, "no sink is made"


def test_what_is_not_a_query_is_refused(ds: Ds) -> None:
    wrong = ds("preview", "SELECT userid,\n  nothing FROM clicks", "--json")
    assert wrong.code == 1
    (mistake,) = wrong.json["diagnostics"]
    assert (mistake["condition"], mistake["line"], mistake["column"]) == ("UNKNOWN_COLUMN", 2, 3)
    for words in (("preview", "clicks"), ("record", "nowhere")):
        refused = ds(*words)
        assert (refused.code, "[PREVIEW_NOT_A_QUERY]" in refused.err) == (1, True), refused.err
    assert ds("preview", "enriched", "--since", "soon").code == 2


def test_a_recording_is_a_case_that_passes(ds: Ds, tmp_path: Path) -> None:
    done = ds("record", "enriched", "--since", "9999d", "--mask", "userid", "-o", "tests/enriched.case.yaml")
    assert done.code == 0, done.out + done.err
    text = (tmp_path / "tests" / "enriched.case.yaml").read_text()
    assert "u1" not in text and "nobody" not in text and "masked-" in text
    passed = ds("test")
    assert passed.code == 0, passed.out + passed.err
    assert "[MASK_UNKNOWN]" in ds("record", "enriched", "--since", "9999d", "--mask", "nothing").err
