"""A chain of queries over Kinesis streams: who reads waits for who writes, and makes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from ds_dagster.cli.main import run
from ds_dagster.local.servers import down, up
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.settings import load_settings
from tests.engine.spark_jobs import WAIT
from tests.engines import SHORT_LIVED

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
SQL = """
CREATE STORE n WITH ('type' = KINESIS, 'availability_zone' = 'us-east-2',
  'uris' = 'https://kinesis.us-east-2.amazonaws.com:443',
  'kinesis.access_key_id' = '${AWS_ACCESS_KEY_ID:-none}',
  'kinesis.secret_access_key' = '${AWS_SECRET_ACCESS_KEY:-none}');
CREATE STREAM src (n BIGINT) WITH ('store'='n', 'topic'='src', 'value.format'='json');
CREATE STREAM r1 AS SELECT n FROM src;
CREATE STREAM r2 AS SELECT n FROM r1;
CREATE MATERIALIZED VIEW counts AS SELECT n, COUNT(*) AS c FROM r2 GROUP BY n;
"""


class Chain:
    """The project, its server, and the vendor's client."""

    def __init__(self, root: Path) -> None:
        (root / "sql").mkdir()
        (root / "sql" / "all.sql").write_text(SQL)
        (root / "ds.toml").write_text('store = "n"\n[engine]\ncores = 2\nmemory = "600m"\n[spark]\n' + SHORT_LIVED)
        self.root = root
        endpoint = str(up(root / ".ds", only=["kinesis"]).kinesis)
        login = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        self.client: Any = boto3.client("kinesis", endpoint_url=endpoint, region_name="us-east-2", **login)
        self.client.create_stream(StreamName="src", ShardCount=2)
        self.client.get_waiter("stream_exists").wait(StreamName="src", WaiterConfig={"Delay": 1})
        self.settings = load_settings(root)
        self.project = load_project(root, settings=self.settings, strict=True)
        self.control = Control.open(self.settings)

    def streams(self) -> dict[str, int]:
        """Open shards of every stream."""
        names = self.client.list_streams()["StreamNames"]
        return {name: len(self.client.list_shards(StreamName=name)["Shards"]) for name in names}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    made = Chain(tmp_path_factory.mktemp("chain"))
    yield made
    stop_engine(made.settings, 60, kill=True)
    down(made.root / ".ds")


def test_a_reader_alone_waits_for_its_writer_and_makes_nothing(chain: Chain) -> None:
    chain.control.ensure_engine(WAIT)
    chain.control.ensure(chain.project, ["r2"])
    found = chain.control.wait(["r2"], {"r2": 1}, 30.0)[0]
    assert (found.state, found.condition) == ("WAITING", "WAITS_FOR_WRITER"), found
    assert "waits for r1" in found.message
    assert chain.streams() == {"src": 2}


def test_a_chain_is_applied_in_one_go(chain: Chain) -> None:
    assert run(["apply", "--project", str(chain.root), "--timeout", str(WAIT)]) == 0
    assert {status.state for status in chain.control.statuses()} == {"RUNNING"}
    assert chain.streams() == {"src": 2, "r1": 2, "r2": 2}
    never = [t for s in chain.control.statuses() for t in chain.control.transitions(s.name) if t.target == "FAILED"]
    assert not never


def test_a_number_that_is_not_in_the_stream_ends_the_first_start(chain: Chain) -> None:
    answers = [chain.client.put_record(StreamName="src", PartitionKey=f"k{n}", Data=b'{"n": 1}') for n in range(5)]
    shard, number = int(answers[-1]["ShardId"][-12:]), int(answers[-1]["SequenceNumber"])
    begin = (
        "CREATE STREAM {} AS SELECT n FROM src WITH ('starting.position' = offsets, 'starting.offsets' = '{}:{}');\n"
    )
    added = begin.format("wrong", shard, number + 1) + begin.format("at", shard, number)
    (chain.root / "sql" / "added.sql").write_text(added)
    project = load_project(chain.root, settings=chain.settings, strict=True)
    chain.control.ensure_engine(WAIT)
    chain.control.ensure(project, ["wrong", "at"])
    wrong, at = chain.control.wait(["wrong", "at"], {"wrong": 1, "at": 1}, float(WAIT))
    assert (wrong.state, wrong.condition) == ("FAILED", "STARTING_OFFSET_UNKNOWN"), wrong
    assert f"partition {shard} of n.src at {number + 1}" in wrong.message
    assert at.state == "RUNNING", at
