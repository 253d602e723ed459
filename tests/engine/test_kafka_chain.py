"""A chain of queries over a topic that exists, of whose sizes the SQL says nothing: applied in one go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewTopic

from ds_dagster.cli.main import run
from ds_dagster.local.servers import down
from ds_dagster.runtime.engine import stop_engine
from tests.engine.test_kafka_engine import House
from tests.engine.test_spark_engine import WAIT

pytestmark = [pytest.mark.servers, pytest.mark.spark]
SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STREAM src (n BIGINT) WITH ('store'='k', 'topic'='src', 'value.format'='json');
CREATE STREAM r1 AS SELECT n FROM src;
CREATE STREAM r2 AS SELECT n FROM r1;
CREATE STREAM r3 AS SELECT n FROM r2;
CREATE MATERIALIZED VIEW counts AS SELECT n, COUNT(*) AS c FROM r3 GROUP BY n;
"""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("chain"), SQL)
    admin = made.admin()
    admin.create_topics([NewTopic("src", 3, 1)])["src"].result(30)
    yield made
    stop_engine(made.settings, 60, kill=True)
    down(made.root / ".ds")


def test_a_reader_alone_waits_for_its_writer_and_makes_nothing(chain: House) -> None:
    chain.control.ensure_engine(WAIT)
    chain.control.ensure(chain.project, ["r2"])
    found = chain.control.wait(["r2"], {"r2": 1}, 20.0)[0]
    assert (found.state, found.condition) == ("WAITING", "WAITS_FOR_WRITER")
    assert "waits for r1" in found.message
    assert "r1" not in chain.admin().list_topics(timeout=30).topics


def test_a_chain_is_applied_in_one_go(chain: House) -> None:
    assert run(["apply", "--project", str(chain.root), "--timeout", str(WAIT)]) == 0
    assert {status.state for status in chain.control.statuses()} == {"RUNNING"}
    topics = chain.admin().list_topics(timeout=30).topics
    assert {name: len(topics[name].partitions) for name in ("r1", "r2", "r3")} == {"r1": 3, "r2": 3, "r3": 3}
    never = [t for s in chain.control.statuses() for t in chain.control.transitions(s.name) if t.target == "FAILED"]
    assert not never
