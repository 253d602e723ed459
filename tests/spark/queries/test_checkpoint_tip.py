"""Where a checkpoint ends, read from the logs Spark writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.errors import DsError
from ds_dagster.runtime.checkpoint_files import EVOLUTION, put_checkpoint
from ds_dagster.spark.queries.checkpoint_tip import batch_tip, checkpoint_tip
from tests.spark.conftest import elsewhere

pytestmark = pytest.mark.spark
META = '{"batchWatermarkMs":7,"batchTimestampMs":8,"conf":{"a":"b"}}'


def entry(*sources: str, version: str = "v1", meta: str = META) -> str:
    return "\n".join([version, meta, *sources])


def digest(json: str) -> str:
    return hashlib.sha256(json.encode()).hexdigest()


def checkpoint(folder: Path, offsets: Mapping[int, str], commits: int) -> str:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch, text in offsets.items():
        (folder / "offsets" / str(batch)).write_text(text)
        (folder / "offsets" / f".{batch}.crc").write_text("")
    for batch in range(commits):
        (folder / "commits" / str(batch)).write_text("v1\n{}")
    (folder / "commits" / ".9.0f.tmp").write_text("")
    return str(folder)


@pytest.mark.parametrize(
    ("lines", "version", "canonical"),
    [
        (['{"t":{"1":5,"0":4}}'], "v1", '[{"t":{"0":4,"1":5}}]'),
        (['{"t":{"0":4}}', "-", "12"], "v1", '[{"t":{"0":4}},null,12]'),
        (['clicks:{"t":{"0": 4}}', "a_b:17"], "v2", '{"a_b":17,"clicks":{"t":{"0":4}}}'),
        (["no json"], "v1", '["no json"]'),
        (['"1.10"', "1.10"], "v1", '["1.10",1.10]'),
    ],
)
def test_the_digest_is_of_the_offsets_alone(
    spark: SparkSession, tmp_path: Path, lines: list[str], version: str, canonical: str
) -> None:
    first = checkpoint(tmp_path / "a", {0: entry(*lines, version=version)}, 1)
    later = checkpoint(tmp_path / "b", {0: entry(*lines, version=version, meta='{"batchWatermarkMs":9}') + "\n"}, 1)
    expected = Tip(0, digest(canonical))
    found = batch_tip(spark, first, '{"s":"id"}', 0)
    assert found == expected
    assert found.ends == f'{{"offsets":{canonical},"sources":{{"s":"id"}}}}'
    assert batch_tip(spark, later, "{}", 0) == expected


def test_the_tip_on_any_file_system(spark: SparkSession, tmp_path: Path) -> None:
    assert checkpoint_tip(spark, str(tmp_path / "none")) == CheckpointTip()
    tips = [Tip(n, digest(f"[{n}]")) for n in range(3)]
    texts = {n: entry(str(n)) for n in range(3)}
    begun = checkpoint(tmp_path / "begun", texts, 2)
    assert checkpoint_tip(spark, begun) == CheckpointTip(tips[1], tips[2])
    done = checkpoint(tmp_path / "done", texts, 3)
    session, url = elsewhere(spark, tmp_path)
    for place in (done, f"file:{done}", f"{url}/done"):
        assert checkpoint_tip(session, place) == CheckpointTip(tips[2])
    first = checkpoint(tmp_path / "first", {0: texts[0]}, 0)
    assert checkpoint_tip(spark, first) == CheckpointTip(None, tips[0])


@pytest.mark.parametrize(
    ("offsets", "commits"),
    [({0: entry("0"), 1: entry("1"), 2: entry("2")}, 1), ({0: entry("0")}, 2), ({0: ""}, 0), ({0: "v7\n{}\n1"}, 0)],
    ids=["two batches ahead", "behind the commits", "cut off", "an unknown format"],
)
def test_logs_that_spark_does_not_write(
    spark: SparkSession, tmp_path: Path, offsets: Mapping[int, str], commits: int
) -> None:
    with pytest.raises(DsError) as problem:
        checkpoint_tip(spark, checkpoint(tmp_path / "c", offsets, commits))
    assert problem.value.condition == "CHECKPOINT_UNREADABLE"


def beats(session: SparkSession, place: Path, batches: int) -> dict[int, list[int]]:
    """The rows of so many batches and more, by batch."""
    read: dict[int, list[int]] = {}
    source = session.readStream.format("rate-micro-batch").name("beats").option("rowsPerBatch", 2).load()

    def keep(rows: DataFrame, epoch: int) -> None:
        read[epoch] = [row["value"] for row in rows.collect()]

    query = source.writeStream.foreachBatch(keep).option("checkpointLocation", place.as_uri()).start()
    while len(read) < batches:
        assert query.isActive, query.exception()
    query.stop()
    return read


@pytest.mark.parametrize("version", ["1", "2"])
def test_spark_goes_on_from_a_checkpoint_of_ours(spark: SparkSession, tmp_path: Path, version: str) -> None:
    """Made of the last batch alone, with nothing of the one that is lost: the next batch begins where that ended."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", version)
    lost = tmp_path / "lost"
    before = beats(session, lost, 3)
    end = checkpoint_tip(session, str(lost)).committed
    assert end is not None
    made = tmp_path / "made"
    named = session.conf.get(EVOLUTION) == "true"
    put_checkpoint(made, batch_tip(session, str(lost), "{}", end.batch), named=named)
    assert checkpoint_tip(session, str(made)) == CheckpointTip(end)
    known = {epoch: rows for epoch, rows in before.items() if epoch <= end.batch}
    after = beats(session, made, 2)
    assert min(after) == end.batch + 1, "no batch is run again"
    values = [value for rows in (known | after).values() for value in rows]
    assert sorted(values) == list(range(len(values)))


@pytest.mark.parametrize("version", ["1", "2"])
def test_spark_runs_the_planned_batch_of_a_checkpoint_of_ours(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    """Some sinks of an application have it: it is the very batch it was."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", version)
    lost, made = tmp_path / "lost", tmp_path / "made"
    before = beats(session, lost, 3)
    end = checkpoint_tip(session, str(lost)).committed
    assert end is not None
    named = session.conf.get(EVOLUTION) == "true"
    tips = [batch_tip(session, str(lost), "{}", batch) for batch in (end.batch - 1, end.batch)]
    put_checkpoint(made, *tips, named=named)
    assert checkpoint_tip(session, str(made)) == CheckpointTip(*tips)
    after = beats(session, made, 2)
    assert min(after) == end.batch and after[end.batch] == before[end.batch]


@pytest.mark.parametrize("version", ["1", "2"])
def test_what_spark_itself_writes(spark: SparkSession, tmp_path: Path, version: str) -> None:
    """Both formats of the offset log; the second names its sources."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", version)
    place = (tmp_path / "cp").as_uri()
    source = session.readStream.format("rate-micro-batch").name("beats").option("rowsPerBatch", 2).load()
    query = source.writeStream.foreachBatch(lambda *_: None).option("checkpointLocation", place).start()
    while checkpoint_tip(session, place).committed is None:
        assert query.isActive
    query.stop()
    tip = checkpoint_tip(session, place)
    assert tip.committed == batch_tip(session, place, "{}", tip.committed.batch)
    text = (tmp_path / "cp" / "offsets" / "0").read_text()
    assert text.startswith(f"v{version}\n")
    assert ("beats:" in text) == (version == "2")
