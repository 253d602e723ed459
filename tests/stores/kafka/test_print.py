"""``ds print`` on records of a real broker, found by time, key and partition."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.cli.main import run
from ds_dagster.stores.kafka.admin import KafkaAdmin

pytestmark = pytest.mark.servers

START = 1_760_000_000_000  # 2025-10-09 08:53:20
SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{uris}');
CREATE STREAM clicks (url VARCHAR) WITH ('store' = 'k', 'topic' = '{topic}', 'value.format' = 'json');
"""
Print = Callable[..., list[str]]


@pytest.fixture
def printed(tmp_path: Path, kafka_settings: Mapping[str, str], capsys: pytest.CaptureFixture[str]) -> Print:
    """Calls ``ds print`` on a topic of two partitions with four records, one of each second."""
    topic = f"print_{uuid.uuid4().hex[:8]}"
    KafkaAdmin("k", kafka_settings).ensure(EntityPlan(topic, {"topic.partitions": 2, "topic.replicas": 1}))
    producer = Producer(dict(kafka_settings))
    for second, (partition, key) in enumerate([(0, "ann"), (1, '{"id": "bob"}'), (0, "bob"), (1, None)]):
        value = json.dumps({"url": f"/{second}"}).encode()
        producer.produce(topic, value, key, partition=partition, timestamp=START + 1000 * second)
    producer.flush()
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(SQL.format(uris=kafka_settings["bootstrap.servers"], topic=topic))
    (tmp_path / "ds.toml").write_text('store = "k"\n')

    def call(*words: str, code: int = 0) -> list[str]:
        assert run(["print", "clicks", "--project", str(tmp_path), "--limit", "9", *words]) == code
        out, err = capsys.readouterr()
        return [*out.splitlines(), *(line for line in err.splitlines() if code or "no record" in line)]

    return call


def test_records_by_time_key_and_partition(printed: Print) -> None:
    header, *lines = printed("--from-beginning")
    assert header.split() == ["PARTITION", "OFFSET", "TIME", "(UTC)", "KEY", "VALUE"]
    assert sorted(line.split()[0:2] for line in lines) == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    times = sorted(" ".join(line.split()[2:4]) for line in lines)
    assert (times[0], times[-1]) == ("2025-10-09 08:53:20.000", "2025-10-09 08:53:23.000")

    def urls(*words: str) -> list[str]:
        return sorted(json.loads(line)["value"]["url"] for line in printed(*words, "--json"))

    assert urls("--since", "2025-10-09T08:53:22") == ["/2", "/3"]
    assert urls("--since", "2025-10-09T10:53:22+02:00", "--partition", "1") == ["/3"]
    assert urls("--from-beginning", "--key", "bob") == ["/1", "/2"]
    assert urls("--since", "1s") == []
    assert printed("--from-beginning", "--key", "nobody", "--partition", "1") == [
        "ds: no record has the key nobody and the partition 1"
    ]
    assert any("[PRINT_PARTITION_UNKNOWN]" in line for line in printed("--partition", "2", code=1))
