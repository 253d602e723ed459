"""Checkpoints in a bucket, on a cluster whose executors share no folder with the driver: every row once, whatever is
killed. The bucket is a stand-in for Amazon S3 in this process, or a real one, see :func:`bucket`."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ds_dagster.places.bucket import Bucket, BucketAddress
from ds_dagster.places.bucket_path import BucketPath
from ds_dagster.places.trees import Place, names_in
from tests.e2e.cluster.standalone import Standalone
from tests.e2e.cluster.test_spark_cluster import DOUBLING, SETTINGS, SQL, Feed, check
from tests.e2e.feeding import ROOT, WAIT, House, Stream, until
from tests.fixtures.lake import s3_bucket

JOBS = ("copied", "windows", "joined")
"""An exactly-once copy, event time with state, and a join with state of two sources."""
REAL = "DS_TEST_S3_URL"
"""Variable with ``s3://bucket/prefix`` of a real bucket (opt-in); its region is in ``AWS_REGION``, the key in
``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``. Objects below the prefix are deleted at the end."""
KEY, SECRET = "marked-checkpoint-key", "marked-checkpoint-secret-91c4"
KILLS = int(os.environ.get("DS_TEST_BUCKET_KILLS", "6"))
SEED = int(os.environ.get("DS_TEST_SEED", "17"))


@pytest.fixture(scope="module")
def bucket() -> Iterator[Mapping[str, str]]:
    """Settings of [checkpoints] and the values of its key."""
    url = os.environ.get(REAL, "")
    if url:
        key = {name: os.environ[f"AWS_{name.upper()}"] for name in ("access_key_id", "secret_access_key")}
        yield {"url": f"{url}/{uuid.uuid4().hex}", "region": os.environ["AWS_REGION"], **key}
        return
    with s3_bucket("checkpoints") as options:
        endpoint = options["endpoint_url"]
        key = {"access_key_id": KEY, "secret_access_key": SECRET}
        yield {"url": "s3://checkpoints/of-a-test", "endpoint_url": endpoint, **key}


@pytest.fixture(scope="module")
def place(bucket: Mapping[str, str]) -> Iterator[BucketPath]:
    """Where the checkpoints are."""
    name, _, prefix = bucket["url"].removeprefix("s3://").partition("/")
    login = {field: text for field, text in bucket.items() if field != "url"}
    path = BucketPath(Bucket(BucketAddress(name, **login)), prefix)
    yield path
    path.delete_all()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("spark"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def house(cluster: Standalone, bucket: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    written = {name: text for name, text in bucket.items() if "key" not in name}
    written |= {"access_key_id": "${CHECKPOINT_KEY}", "secret_access_key": "${CHECKPOINT_SECRET}"}
    section = "[checkpoints]\n" + "".join(f'{name} = "{text}"\n' for name, text in written.items())
    settings = SETTINGS.format(master=cluster.url).replace("[engine]", f"{section}[engine]")
    root = tmp_path_factory.mktemp("house")
    (root / "doubling.py").write_text(DOUBLING)
    house = House(root, {"cluster.sql": SQL}, settings=settings, servers=("kafka", "postgres"))
    with (root / ".env").open("a") as variables:
        key, secret = bucket["access_key_id"], bucket["secret_access_key"]
        variables.write(f"CHECKPOINT_KEY={key}\nCHECKPOINT_SECRET={secret}\n")
    try:
        house.topic("replies", 2)
        house.start(*JOBS)
        yield house
    finally:
        house.close()


@pytest.fixture(scope="module")
def feed(house: House) -> Feed:
    return Feed(house)


def checkpoint(place: Place, job: str) -> Place:
    (root,) = names_in(place)
    return place / root / job / "v1"


def batches(place: Place, job: str) -> tuple[int, int]:
    """The last batch that was begun and the last that was finished, by the checkpoint."""
    logs = [names_in(checkpoint(place, job) / part) for part in ("offsets", "commits")]
    begun, finished = (max((int(name) for name in names if name.isdecimal()), default=-1) for names in logs)
    return begun, finished


def until_in_batch(place: Place, job: str) -> None:
    before = batches(place, job)[1]

    def runs() -> bool:
        begun, finished = batches(place, job)
        return begun > max(before, finished)

    until(runs, f"a batch of {job} runs", pause=0.01)


def ds(house: House, *arguments: str) -> str:
    line = [str(Path(sys.executable).with_name("ds")), *arguments, "--project", str(house.root)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=WAIT, env=environment)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_an_executor_or_the_driver_is_killed(
    house: House, cluster: Standalone, feed: Feed, place: BucketPath, number: int
) -> None:
    chance = random.Random(f"{SEED}-{number}")
    victim, job = ("driver", "executor")[number % 2], chance.choice(JOBS)
    print(f"seed {SEED}, kill {number}: {victim} in a batch of {job}")
    with Stream(feed.send, pause=0.5):
        until_in_batch(place, job)
        if victim == "driver":
            house.kill_engine()
            house.recover()
        else:
            cluster.kill_executor(chance.randrange(len(cluster.executors())))
    house.until_running(JOBS)
    check(house, JOBS)


@pytest.mark.slow
def test_a_query_goes_on_from_a_savepoint(house: House, feed: Feed, place: BucketPath) -> None:
    """The savepoint is on this host's disk; its query goes on in a new folder of the bucket, and repeats no row."""
    feed.send()
    check(house, JOBS)
    (saved,) = json.loads(ds(house, "savepoint", "joined", "--name", "one", "--json"))
    feed.send()
    check(house, JOBS)
    house.stop("joined")
    assert json.loads(ds(house, "restore", "joined", "one", "--json"))["state"] == "RUNNING"
    feed.send()
    check(house, JOBS)
    assert Path(saved["folder"]).is_dir()
    assert "v2.current" in names_in(checkpoint(place, "joined").parent)
    left = json.loads(ds(house, "gc", "--yes", "--json"))
    assert [Path(item["path"]).name for item in left if "path" in item] == ["v1"]


@pytest.mark.slow
def test_checkpoints_and_keys_are_nowhere_else(house: House, cluster: Standalone, bucket: Mapping[str, str]) -> None:
    assert not (house.state / "checkpoints").exists()
    secret = bucket["secret_access_key"].encode()
    folders = [house.state, cluster.folder]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files and not [path for path in files if secret in path.read_bytes()]
    processes = [house.python(), house.jvm(), *cluster.executors()]
    assert not [pid for pid in processes if secret in Path(f"/proc/{pid}/cmdline").read_bytes()]
