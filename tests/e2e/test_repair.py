"""``ds repair`` of a job whose checkpoint lost its end, or is gone, while its sink has more, and of one whose sink was
put back from an older copy: what it offers, what it does, and every row in the sink once, told by the server itself."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.project.load import load_project
from ds_dagster.runtime.engine import stop_engine
from tests.command_line import called
from tests.e2e.feeding import WAIT, House, Row, until

NUMBERS = count()
WORDS = ("a", "b", "c")


def long(*jobs: str) -> Iterator[Any]:
    """Jobs of the long tier: to Kafka, to Postgres, to a view, an application to two sinks. ``tests/conformance`` holds
    the same of every sink, without an engine."""
    return (pytest.param(job, marks=pytest.mark.slow) for job in jobs)


def rows_of(house: House, job: str) -> list[tuple[Any, ...]]:
    """What the job's sink holds, by a plain client of its server."""
    read: dict[str, Callable[[], list[Row]]] = {
        "handed_on": lambda: [record.value or {} for record in house.records("handed_on")],
        "handed_rows": lambda: house.table("SELECT id, word FROM handed_rows"),
        "handed_view": lambda: house.view("handed_view"),
        "handed_twice": lambda: [
            *(record.value or {} for record in house.records("handed_left")),
            *house.view("handed_right"),
        ],
    }
    return sorted((row["id"], row["word"]) for row in read[job]())


def wanted(house: House, job: str) -> list[tuple[Any, ...]]:
    """The same from what the source's topic holds."""
    values = [record.value or {} for record in house.records("handed")] * (2 if job == "handed_twice" else 1)
    return sorted((row["id"], row["word"].upper() if job == "handed_on" else row["word"]) for row in values)


def counts(house: House) -> list[tuple[Any, ...]]:
    """How often each word is in the source's topic."""
    return sorted(Counter((record.value or {})["word"] for record in house.records("handed")).items())


def send(house: House, job: str, rows: int) -> None:
    """So many records, in a batch or two; returns when they are in the sink."""
    house.send("handed", [{"id": next(NUMBERS), "word": WORDS[number % len(WORDS)]} for number in range(rows)])
    until(lambda: len(rows_of(house, job)) >= len(wanted(house, job)), f"{job} has its rows")


def checkpoint(house: House, job: str) -> Path:
    (found,) = (path for path in (house.state / "checkpoints").glob(f"*/{job}/v*") if path.name[1:].isdecimal())
    return found


def ds_json(house: House, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and errors of a command."""
    done = called(house.root, *words, "--json")
    return done.code, json.loads(done.out or "{}"), done.err


def repair(house: House, job: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """The same of ``ds repair``."""
    return ds_json(house, "repair", job, *options)


@pytest.fixture
def older(house: House, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Runs a job over two batches, and stops it; yields the checkpoint between them."""
    started: list[str] = []

    def make(job: str) -> Path:
        started.append(job)
        house.start(job)
        send(house, job, 5)
        house.stop(job)
        copy = tmp_path / job
        shutil.copytree(checkpoint(house, job), copy)
        house.start(job)
        send(house, job, 4)
        send(house, job, 3)
        house.stop(job)
        return copy

    yield make
    house.stop(*started)


def goes_on(house: House, job: str, condition: str) -> None:
    """The job is refused by name; ``ds repair`` offers to go on from the sink and does it; every row is there once."""
    found = house.run(job)[job]
    assert (found.state, found.condition) == ("FAILED", condition), found
    before = rows_of(house, job)
    code, told, _ = repair(house, job)
    way = told["ways"][0]
    assert (code, way["name"], way["exact"]) == (0, "from-sink", True), way
    assert f"ds repair {job} --from-sink" == way["command"] and "ends at batch" in way["does"], way
    assert rows_of(house, job) == before, "to look changes nothing"
    house.send("handed", [{"id": next(NUMBERS), "word": "late"}])
    code, told, err = repair(house, job, "--from-sink")
    assert (code, told["after"]) == (0, "RUNNING"), (told, err)
    send(house, job, 6)
    assert rows_of(house, job) == wanted(house, job)
    house.stop(job)
    house.start(job)
    send(house, job, 2)
    assert rows_of(house, job) == wanted(house, job), "the new checkpoint is one like any other"


@pytest.mark.slow
@pytest.mark.parametrize("job", ["handed_on", "handed_rows", "handed_view", "handed_twice"])
def test_an_older_checkpoint_follows_its_sink(house: House, older: Callable[[str], Path], job: str) -> None:
    copy = older(job)
    place = checkpoint(house, job)
    shutil.rmtree(place)
    shutil.copytree(copy, place)
    goes_on(house, job, "CHECKPOINT_BEHIND_SINK")
    assert len(list(place.parent.glob("v*-replaced-*"))) == 1, "the old one is kept"


@pytest.mark.parametrize("job", ["handed_on", *long("handed_rows", "handed_view", "handed_twice")])
def test_a_lost_checkpoint_follows_its_sink(house: House, older: Callable[[str], Path], job: str) -> None:
    older(job)
    shutil.rmtree(checkpoint(house, job))
    goes_on(house, job, "CHECKPOINT_MISSING")


def test_state_is_not_made_up(house: House) -> None:
    """A count goes on from its checkpoint alone: the way is refused with the reason, the view is reset."""
    house.start("handed_words")
    house.send("handed", [{"id": next(NUMBERS), "word": "a"}])
    until(lambda: house.view("handed_words"), "a count")
    house.stop("handed_words")
    shutil.rmtree(checkpoint(house, "handed_words"))
    assert house.run("handed_words")["handed_words"].condition == "CHECKPOINT_MISSING"
    _, told, _ = repair(house, "handed_words")
    assert told["ways"][0]["name"] == "from-sink" and not told["ways"][0]["exact"]
    code, told, err = repair(house, "handed_words", "--from-sink")
    assert (code, "REPAIR_FROM_SINK_REFUSED" in json.dumps(told) + err) == (1, True)
    assert "keeps state" in json.dumps(told) + err and "--reset" in json.dumps(told) + err
    code, told, err = repair(house, "handed_words", "--reset")
    assert (code, told["after"]) == (0, "RUNNING"), err
    words = [record.value or {} for record in house.records("handed")]
    until(
        lambda: (
            {row["word"]: row["n"] for row in house.view("handed_words")}
            == {word: sum(row["word"] == word for row in words) for word in {row["word"] for row in words}}
        ),
        "the counts",
    )
    house.stop("handed_words")


def restored_rows(house: House, _: Path) -> Callable[[], None]:
    """A copy of the table in Postgres and of its job's ledger, as of one moment."""
    tables = ("handed_rows", "ds_ledger")
    with house.warehouse() as cursor:
        for table in tables:
            cursor.execute(f"DROP TABLE IF EXISTS older_{table}")
            cursor.execute(f"CREATE TABLE older_{table} AS TABLE {table}")

    def back() -> None:
        with house.warehouse() as cursor:
            for table in tables:
                cursor.execute(f"DELETE FROM {table}")
                cursor.execute(f"INSERT INTO {table} SELECT * FROM older_{table}")

    return back


def restored_file(view: str) -> Callable[[House, Path], Callable[[], None]]:
    """A copy of the file of a view."""

    def take(house: House, folder: Path) -> Callable[[], None]:
        (path,) = (house.state / "views").glob(f"*.{view}.db")
        shutil.copy(path, folder / view)

        def back() -> None:
            for stale in path.parent.glob(f"{path.name}*"):
                stale.unlink()
            shutil.copy(folder / view, path)

        return back

    return take


RESTORED: dict[str, tuple[Callable[[House, Path], Callable[[], None]], str]] = {
    "handed_rows": (restored_rows, "go back to the copy of the checkpoint that ends at batch"),
    "handed_words": (restored_file("handed_words"), "go back to the copy of the checkpoint that ends at batch"),
    "handed_twice": (restored_file("handed_right"), "which some of prod_kafka.handed_left, sqlite."),
}
"""Job → how its sink is copied and put back, what ``ds repair`` says. A table, a view of a query with state, and one of
two sinks: the topic has batches that the view lost."""


@pytest.mark.parametrize("job", ["handed_rows", *long("handed_words", "handed_twice")])
def test_a_restored_sink_takes_its_checkpoint_back(house: House, tmp_path: Path, job: str) -> None:
    def settled() -> bool:
        if job != "handed_words":
            return rows_of(house, job) == wanted(house, job)
        return sorted((row["word"], row["n"]) for row in house.view(job)) == counts(house)

    def hand_on(rows: int) -> None:
        house.send("handed", [{"id": next(NUMBERS), "word": WORDS[n % len(WORDS)]} for n in range(rows)])
        until(settled, f"{job} has its rows")

    take, says = RESTORED[job]
    house.start(job)
    hand_on(5)
    house.stop(job)
    back = take(house, tmp_path)
    house.start(job)
    for rows in (4, 1, 3):
        hand_on(rows)
    house.stop(job)
    back()
    found = house.run(job)[job]
    assert (found.state, found.condition) == ("FAILED", "SINK_BEHIND_CHECKPOINT"), found
    code, told, _ = repair(house, job)
    way = told["ways"][0]
    assert (code, way["name"], way["exact"]) == (0, "from-sink", True), way
    assert says in way["does"], way
    house.send("handed", [{"id": next(NUMBERS), "word": "late"}])
    code, told, err = repair(house, job, "--from-sink")
    assert (code, told["after"]) == (0, "RUNNING"), (house.control.status(job), err)
    until(settled, f"{job} has what it lost")
    hand_on(6)
    house.stop(job)
    house.start(job)
    hand_on(2)
    house.stop(job)


def test_a_topic_that_lost_its_end_is_not_filled_again(house: House, tmp_path: Path) -> None:
    """Of a topic nobody knows which rows it has beyond its marker: refused with the reason, nothing is changed."""
    job = "handed_on"
    house.start(job)
    send(house, job, 3)
    house.stop(job)
    place = checkpoint(house, job)
    newest = max(int(path.name) for path in (place / "commits").iterdir() if path.name.isdecimal())
    shutil.copy(place / "commits" / str(newest), place / "commits" / str(newest + 1))
    shutil.copy(place / "offsets" / str(newest), place / "offsets" / str(newest + 1))
    assert house.run(job)[job].condition == "SINK_BEHIND_CHECKPOINT"
    code, told, err = repair(house, job, "--from-sink")
    assert code == 1 and "rows may be in prod_kafka.handed_on that its ledger does not know" in json.dumps(told) + err
    for folder in ("commits", "offsets"):
        (place / folder / str(newest + 1)).unlink()
    house.start(job)
    send(house, job, 2)
    assert rows_of(house, job) == wanted(house, job)
    house.stop(job)


# a poisoned record in Kinesis

PARCELS, PARCELS_IN, PARCELS_BAD = "parcels_on", "parcels", "parcels_bad"
PARCELS_LOGGED = (
    "parcels WITH ('source.deserialization.error.handling'='IGNORE_AND_LOG', "
    f"'source.deserialization.error.log.topic'='{PARCELS_BAD}', 'source.deserialization.error.log.store'='prod_kafka')"
)


def put_parcel(house: House, *, broken: bool = False) -> tuple[str, str, int]:
    """A record with the next number, or one that is not JSON; its shard, sequence number and number."""
    number = next(NUMBERS)
    data = b"\x00 not JSON" if broken else json.dumps({"id": number, "word": "w"}).encode()
    answer = house.kinesis.put_record(StreamName=PARCELS_IN, Data=data, PartitionKey=str(number))
    return answer["ShardId"], answer["SequenceNumber"], number


def handed_parcels(house: House) -> list[int]:
    return sorted((record.value or {})["id"] for record in house.records(PARCELS))


@pytest.fixture
def parcels(house: House) -> Iterator[list[int]]:
    """Numbers of the good records; some are handed on already."""
    house.start(PARCELS)
    good = [put_parcel(house)[2] for _ in range(6)]
    until(lambda: handed_parcels(house) == good, "good records are handed on")
    yield good
    house.stop(PARCELS)


def test_one_poisoned_record_is_passed(house: House, parcels: list[int]) -> None:
    good = parcels
    shard, sequence, _ = put_parcel(house, broken=True)
    good += [put_parcel(house)[2] for _ in range(6)]
    until(lambda: house.control.status(PARCELS).state == "FAILED", "the record ends the job")
    status = house.control.status(PARCELS)
    assert status.condition == "BAD_RECORD" and shard in status.message and sequence in status.message, status
    code, told, err = ds_json(house, "skip", PARCELS, "--shard", shard, "--sequence-number", sequence + "1")
    assert code == 1 and "SKIP_OTHER_RECORD" in json.dumps(told) + err
    place = ("--shard", shard, "--sequence-number", sequence)
    code, told, err = ds_json(house, "skip", PARCELS, *place, "--reason", "ticket 7")
    assert (code, told["outcome"], told["state"]) == (0, "requested", "RUNNING"), (told, err)
    until(lambda: handed_parcels(house) == good, "all others are handed on, once")
    reasons = [transition.reason for transition in house.control.transitions(PARCELS)]
    request = f"skip of record {sequence} of partition {shard} of prod_kinesis.{PARCELS_IN}: ticket 7"
    assert request in reasons, reasons
    code, told, _ = ds_json(house, "skip", PARCELS, *place)
    assert (code, told["outcome"]) == (0, "nothing")
    house.stop(PARCELS)
    house.start(PARCELS)
    good.append(put_parcel(house)[2])
    until(lambda: handed_parcels(house) == good, "the next records too, after a restart")

    shard, sequence, _ = put_parcel(house, broken=True)
    good.append(put_parcel(house)[2])
    until(lambda: house.control.status(PARCELS).state == "FAILED", "the next one ends the job too")
    stop_engine(house.settings, WAIT)
    place = ("--shard", shard, "--sequence-number", sequence)
    code, told, err = ds_json(house, "skip", PARCELS, *place, "--reason", "ticket 8", "--no-wait")
    assert (code, told["outcome"]) == (0, "requested"), (told, err)
    house.topic(PARCELS_BAD, 1)  # nothing tells how many partitions the log of a stream in Kinesis wants
    text = house.root / "sql" / "skips.sql"
    text.write_text(text.read_text().replace("FROM parcels;", f"FROM {PARCELS_LOGGED};"))
    house.control.ensure(load_project(house.root, settings=house.settings, strict=True), [PARCELS], "restart", "tests")
    house.recover()
    until(lambda: handed_parcels(house) == good, "with a row log too")
    (logged,) = until(lambda: house.records(PARCELS_BAD), "the record is in the log")
    row = logged.value or {}
    assert (row["partition"], row["offset"]) == (shard, sequence)
    assert row["reason"].startswith("passed by ds (") and row["reason"].endswith(": ticket 8")
