"""``ds backfill`` of a table whose rows were damaged: inside of a range they are those of a plain model of the topic's
records, outside of it nothing changes, and a run that is killed changes nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.reading.ranges import TimeRange
from ds_dagster.errors import DsError
from ds_dagster.runtime.backfill import Backfill, PlannedRange
from tests.command_line import called, called_json
from tests.e2e.feeding import WAIT, House, until

DAY = 86_400_000
BEGIN = 1_700_000_000_000
FUTURE = BEGIN + 36_500 * DAY
NUMBERS = count()
TABLE = "moments_rows"
WINDOWS, WINDOWS_LAKE = "ticking_windows", "ticking_lake"
LAKE = "late_lake"
"""In Delta."""
DRIFTING = "drifting_rows"
"""Of a topic that gets another partition, which no other test reads."""
Row = tuple[datetime, int, str]


def send(
    house: House, chance: random.Random, rows: int, topic: str = "moments", future: int = 0, partition: int = -1
) -> None:
    """Records whose times are in any order; ``future``: as many of them have times after today."""
    words = ("a", "b", None)
    days = [FUTURE] * future + [BEGIN] * (rows - future)
    house.send(
        topic,
        [{"at": day + chance.randrange(DAY), "id": next(NUMBERS), "word": chance.choice(words)} for day in days],
        partition=partition,
    )


def moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, timezone.utc)


def wanted(house: House, topic: str = "moments") -> list[tuple[Any, ...]]:
    values = [record.value or {} for record in house.records(topic)]
    rows = [(moment(v["at"]), v["id"], v["word"].upper() if v["word"] else None) for v in values if v["id"] % 7]
    return sorted(rows, key=str)


def stored(house: House, table: str = TABLE) -> list[tuple[Any, ...]]:
    rows = house.table(f"SELECT happened, id, word FROM {table}")
    zoned = [(row["happened"].astimezone(timezone.utc), row["id"], row["word"]) for row in rows]
    return sorted(zoned, key=str)


def damage(house: House, table: str = TABLE) -> None:
    """Rows that are wrong, missing and too many, all over the day."""
    with house.warehouse() as cursor:
        cursor.execute(f"UPDATE {table} SET word = 'wrong' WHERE id % 3 = 0")
        cursor.execute(f"DELETE FROM {table} WHERE id % 5 = 1")
        cursor.execute(
            f"INSERT INTO {table} SELECT happened + interval '1 second', id, word FROM {table} WHERE id % 4 = 2"
        )


def inside(rows: list[tuple[Any, ...]], begin: int, end: int) -> list[tuple[Any, ...]]:
    return [row for row in rows if moment(begin) <= row[0] < moment(end)]


def outside(rows: list[tuple[Any, ...]], begin: int, end: int) -> list[tuple[Any, ...]]:
    return [row for row in rows if not moment(begin) <= row[0] < moment(end)]


@pytest.mark.slow  # four commands start Spark: more than a minute of processor time for each seed
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_range_is_as_the_stream_computes_it(house: House, seed: int) -> None:
    chance = random.Random(seed)
    house.recover()
    house.load(TABLE)  # makes the topic
    send(house, chance, 300)
    house.load(TABLE)
    assert stored(house) == wanted(house)
    send(house, chance, 40)  # not loaded yet: they are no part of the table
    loaded = stored(house)
    damage(house)
    damaged = stored(house)
    begin, end = sorted(BEGIN + chance.randrange(DAY) for _ in range(2))
    span = ("--from", moment(begin).isoformat(), "--to", moment(end).isoformat())
    killed(house, span)
    assert stored(house) == damaged, "a run that is killed changes nothing"
    code, told, said = called_json(house.root, "backfill", TABLE, *span)
    assert code == 0, said
    assert told["rows"] == {
        "deleted": len(inside(damaged, begin, end)),
        "inserted": len(inside(loaded, begin, end)),
    }
    assert inside(stored(house), begin, end) == inside(loaded, begin, end)
    assert outside(stored(house), begin, end) == outside(damaged, begin, end)
    whole = ("--from", "2000-01-01", "--to", "2100-01-01T00:00:00+02:00", "--by", "happened")
    overtaken(house)
    code, _, said = called_json(house.root, "backfill", TABLE, *whole)
    assert code == 0, said
    assert stored(house) == wanted(house), "history, and what was loaded meanwhile"
    assert "backfill of happened from" in house.control.transitions(TABLE)[0].reason
    send(house, chance, 20)
    house.load(TABLE)
    assert stored(house) == wanted(house), "loads go on where they were"


def killed(house: House, span: tuple[str, ...], table: str = TABLE) -> None:
    """A run that is killed while it computes rows."""
    command = (str(Path(sys.executable).with_name("ds")), "backfill", table, *span, "--rate", "4")
    process = subprocess.Popen(command, cwd=house.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stages() -> bool:
        assert process.poll() is None
        return bool(house.table("SELECT 1 AS one FROM pg_class WHERE relname = 'ds_range'"))

    try:
        until(stages, "there is a place for rows")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(WAIT)


def overtaken(house: House) -> None:
    """A load between the rows and their exchange: the rows are not those of all its records any more."""
    span = TimeRange("happened", moment(BEGIN), moment(BEGIN + DAY))
    after: list[list[tuple[Any, ...]]] = []

    class Overtaken(Backfill):
        def _rows(self, planned: PlannedRange) -> Iterator[Any]:
            yield from super()._rows(planned)
            house.load(TABLE)
            after.append(stored(house))

    backfill = Overtaken(house.project, house.control, house.project.queries[TABLE], span, "tests")
    planned = backfill.planned()
    with pytest.raises(DsError) as refused:
        backfill.carried_out(planned)
    assert refused.value.condition == "BACKFILL_OVERTAKEN"
    assert [stored(house)] == after


@pytest.mark.slow  # four commands start Spark
def test_history_is_added_to_a_query_that_began_later(house: House) -> None:
    """Times of records from before the beginning and from after it are mixed, and some are in the future: no row is
    missing where the query began, and none is there twice."""
    chance, table = random.Random(11), "late_rows"
    house.topic("beginnings", 2)
    house.recover()
    for partition in range(2):
        send(house, chance, 30, "beginnings", 5, partition)
    house.load(table)
    assert not stored(house, table)
    before = wanted(house, "beginnings")
    for partition in range(2):
        send(house, chance, 30, "beginnings", 5, partition)
    house.load(table)
    rows = wanted(house, "beginnings")
    own = [row for row in rows if row not in before]
    assert stored(house, table) == own
    begin, end = BEGIN + DAY // 4, BEGIN + DAY // 2
    span = ("--from", moment(begin).isoformat(), "--to", moment(end).isoformat())

    code, planned, said = called_json(house.root, "backfill", table, *span, "--dry-run")
    assert (code, planned["records"], planned["before_start"]) == (0, 120, 60), said
    damage(house, table)
    damaged = stored(house, table)
    code, told, said = called_json(house.root, "backfill", table, *span, "--own-records")
    assert (code, told["records"], told["before_start"]) == (0, 60, 0), said
    assert stored(house, table) == sorted(outside(damaged, begin, end) + inside(own, begin, end), key=str)

    code, told, said = called_json(house.root, "backfill", table, "--from", moment(begin).isoformat())
    assert (code, told["before_start"]) == (0, 60), said
    ends = BEGIN + 1000 * 365 * DAY
    assert inside(stored(house, table), begin, ends) == inside(rows, begin, ends), "history, also of the future"
    assert outside(stored(house, table), begin, ends) == outside(damaged, begin, ends)
    send(house, chance, 10, "beginnings")
    house.load(table)
    assert inside(stored(house, table), begin, ends) == inside(wanted(house, "beginnings"), begin, ends), "loads go on"

    in_lake(house, begin)
    lose(house, "beginnings", planned["before_start"] // 4)
    assert "BACKFILL_RECORDS_GONE" in called_json(house.root, "backfill", table, *span, "--dry-run")[2]
    code, told, said = called_json(house.root, "backfill", table, *span, "--own-records", "--dry-run")
    assert (code, told["records"], told["before_start"]) == (0, 70, 0), said  # up to the table's last load


def in_lake(house: House, begin: int) -> None:
    """The same for a Delta table, which begins now."""
    import deltalake

    rows, ends = wanted(house, "beginnings"), BEGIN + 1000 * 365 * DAY

    def lake() -> list[tuple[Any, ...]]:
        found = deltalake.DeltaTable(str(house.root / "lake" / LAKE)).to_pyarrow_dataset().to_table().to_pylist()
        return sorted(((row["happened"], row["id"], row["word"]) for row in found), key=str)

    house.load(LAKE)
    send(house, random.Random(12), 20, "beginnings")
    house.load(LAKE)
    own = [row for row in wanted(house, "beginnings") if row not in rows]
    assert lake() == own
    code, told, said = called_json(house.root, "backfill", LAKE, "--from", moment(begin).isoformat())
    assert (code, told["before_start"], told["rows"]["deleted"]) == (0, 130, len(inside(own, begin, ends))), said
    assert inside(lake(), begin, ends) == inside(wanted(house, "beginnings"), begin, ends)
    assert outside(lake(), begin, ends) == outside(own, begin, ends)


@pytest.mark.slow  # four commands start Spark
def test_whole_windows_are_as_the_stream_has_them(house: House) -> None:
    """TUMBLE in Postgres, HOP in Delta: a range is as before the damage, and windows that are open stay out."""
    house.recover()
    house.load(WINDOWS)  # makes the topic
    for _ in range(4):  # each in seconds of its own
        house.send("ticking", [{"id": next(NUMBERS), "word": "abc"[n * n % 3]} for n in range(30)])
        house.load(WINDOWS)
        house.load(WINDOWS_LAKE)
    before = closed_windows(house)
    lake_before = lake_windows(house)
    assert len(before) >= 3 and not set(before) - set(wanted_windows(house, 1, at_least=2))
    assert len(lake_before) >= 3 and not set(lake_before) - set(wanted_windows(house, 2))
    with house.warehouse() as cursor:
        cursor.execute("UPDATE ticking_windows SET n = n + 1 WHERE word = 'a'")
        cursor.execute("DELETE FROM ticking_windows WHERE word = 'b'")
        cursor.execute("INSERT INTO ticking_windows SELECT window_start, window_end, 'z', 1, 1 FROM ticking_windows")
    damaged = closed_windows(house)
    begin, end = before[0][0], before[-1][0]

    def inside(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for row in rows if begin <= row[0] < end]

    span = ("--from", begin.isoformat(), "--to", end.isoformat())
    code, told, said = called_json(house.root, "backfill", WINDOWS, *span)
    assert (code, told["column"]) == (0, "window_start"), said
    assert told["rows"] == {"deleted": len(inside(damaged)), "inserted": len(inside(before))}
    rest = [row for row in damaged if row not in inside(damaged)]
    assert closed_windows(house) == sorted(inside(before) + rest)
    code, _, said = called_json(house.root, "backfill", WINDOWS, "--from", "2000-01-01", "--by", "window_end")
    assert code == 0 and closed_windows(house) == before, said

    code, told, said = called_json(house.root, "backfill", WINDOWS_LAKE, "--from", "2000-01-01")
    assert (code, told["rows"]) == (0, {"deleted": len(lake_before), "inserted": len(lake_before)}), said
    assert lake_windows(house) == lake_before
    assert "--rate has no effect" in called_json(house.root, "backfill", WINDOWS, *span, "--rate", "5")[2]
    house.send("ticking", [{"id": next(NUMBERS), "word": "a"}])
    house.load(WINDOWS)
    after = closed_windows(house)
    assert set(before) <= set(after) <= set(wanted_windows(house, 1, at_least=2)), "loads go on"


MINUTE = 60_000
FIRST = BEGIN // MINUTE * MINUTE
PACED = {"pacing_windows": False, "pacing_sessions": True}
"""Table of windows over the column of a stream → whether they are sessions."""


@pytest.mark.slow  # four commands start Spark
def test_windows_get_the_records_that_came_too_late(house: House) -> None:
    """TUMBLE and SESSION over a time that producers set: a range has all records, the rest of the table lacks the late
    ones as before."""
    house.recover()
    load_paced(house)  # makes the topic
    chance = random.Random(21)

    def paced(minutes: list[int]) -> list[dict[str, Any]]:
        times = [FIRST + minute * MINUTE + chance.randrange(MINUTE) for minute in minutes]
        return [{"at": at, "id": next(NUMBERS), "word": chance.choice("ab")} for at in times]

    in_time = paced([minute for minute in range(30) for _ in range(2)])
    late = paced([chance.randrange(20) for _ in range(12)])
    ahead = [{"at": FIRST + 60 * MINUTE, "id": next(NUMBERS), "word": "a"}]
    house.send("pacing", in_time)
    load_paced(house)
    house.send("pacing", [*late, *ahead])
    load_paced(house)
    begin = moment(FIRST + 8 * MINUTE)
    for table, is_session in PACED.items():
        had, wanted = paced_windows(in_time, is_session), paced_windows([*in_time, *late], is_session)
        assert table_windows(house, table) == had != wanted
        span = ("--from", begin.isoformat())
        code, _, said = called_json(house.root, "backfill", table, *span)
        assert code == 1 and "--with-late-rows (with_late_rows in Dagster) counts" in said
        code, _, said = called_json(house.root, "backfill", table, *span, "--with-late-rows")
        assert code == 0, said
        repaired = [row for row in wanted if row[0] >= begin]
        assert table_windows(house, table) == sorted([row for row in had if row[0] < begin] + repaired)


def load_paced(house: House) -> None:
    for table in PACED:
        house.load(table)


def table_windows(house: House, table: str) -> list[tuple[Any, ...]]:
    rows = house.table(f"SELECT window_start, window_end, word, n, ids FROM {table}")
    bounds = ("window_start", "window_end")
    return sorted(
        (*(row[b].astimezone(timezone.utc) for b in bounds), row["word"], row["n"], row["ids"]) for row in rows
    )


def paced_windows(rows: list[dict[str, Any]], is_session: bool) -> list[tuple[Any, ...]]:
    """Windows of a minute, or sessions that end after a minute, by word."""
    groups: list[tuple[int, int, list[dict[str, Any]]]] = []
    for row in sorted(rows, key=lambda row: (row["word"], row["at"])):
        start = row["at"] if is_session else row["at"] // MINUTE * MINUTE
        begun, end, members = groups[-1] if groups else (0, 0, [{"word": ""}])
        if members[0]["word"] == row["word"] and (row["at"] < end if is_session else start == begun):
            groups[-1] = (begun, row["at"] + MINUTE if is_session else end, [*members, row])
        else:
            groups.append((start, start + MINUTE, [row]))
    return sorted(
        (moment(begun), moment(end), members[0]["word"], len(members), sum(row["id"] for row in members))
        for begun, end, members in groups
    )


def closed_windows(house: House) -> list[tuple[Any, ...]]:
    rows = house.table("SELECT window_start, word, n, ids FROM ticking_windows")
    return sorted((row["window_start"].astimezone(timezone.utc), row["word"], row["n"], row["ids"]) for row in rows)


def lake_windows(house: House) -> list[tuple[Any, ...]]:
    import deltalake

    rows = deltalake.DeltaTable(str(house.root / "lake" / WINDOWS_LAKE)).to_pyarrow_dataset().to_table().to_pylist()
    return sorted((row["window_start"], row["word"], row["n"], row["ids"]) for row in rows)


def wanted_windows(house: House, seconds: int, at_least: int = 1) -> list[tuple[Any, ...]]:
    """Windows that begin at each second, by the time that the broker gave each record."""
    groups: dict[tuple[int, str], list[int]] = {}
    for record in house.records("ticking"):
        row = record.value or {}
        for start in range(record.at // 1000 - seconds + 1, record.at // 1000 + 1):
            groups.setdefault((start, row["word"]), []).append(row["id"])
    return sorted(
        (moment(start * 1000), word, len(ids), sum(ids))
        for (start, word), ids in groups.items()
        if len(ids) >= at_least
    )


def lose(house: House, topic: str, records: int) -> None:
    """As retention does: the first records of each partition are gone."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    places = [TopicPartition(topic, partition, records) for partition in range(2)]
    admin = AdminClient({"bootstrap.servers": house.bootstrap})
    for gone in admin.delete_records(places).values():
        gone.result(60)


def test_a_plan_says_what_is_read_again_and_what_others_changed(house: House) -> None:
    house.start("drifting_words")
    send(house, random.Random(5), 50, "drifting")
    house.load(DRIFTING)
    records = len(house.records("drifting"))
    until(lambda: sum(row["n"] for row in house.view("drifting_words")) == records, "the words are counted")
    until(lambda: house.control.status("drifting_words").fastest, "a batch was measured")
    house.stop("drifting_words")
    before = planned(house)
    assert {name: line["effort"]["drift"] for name, line in before.items()} == {"drifting_words": [], DRIFTING: []}
    file = house.root / "sql" / "backfills.sql"
    text = file.read_text()
    try:
        file.write_text(text.replace("COUNT(*) AS n", "COUNT(*) AS n, MAX(id) AS newest"))
        with house.warehouse() as cursor:
            cursor.execute(f"ALTER TABLE {DRIFTING} DROP COLUMN word")
        add_partition(house)
        lines = planned(house)
    finally:
        file.write_text(text)
    effort, drift = lines["drifting_words"]["effort"], "prod_kafka.drifting: topic.partitions is 3, not 2"
    (read,) = effort["reads"]
    assert (read["entity"], read["records"], read["is_cut"]) == ("prod_kafka.drifting", records, False)
    assert 0 < read["bytes"] < records * 200 and effort["seconds"] > 0
    assert read["expires"] is None, "local brokers keep records for ever"
    assert effort["drift"] == [drift] and effort["unknown"] == []
    own, column = lines[DRIFTING]["effort"]["drift"]
    assert own == drift and "word" in column, column
    shown = called(house.root, "plan", DRIFTING, "--online", "--markdown").out
    assert "| drifted |" in shown and f"drifted: {drift}" in shown


def planned(house: House) -> dict[str, Any]:
    code, lines, said = called_json(house.root, "plan", "drifting_words", DRIFTING, "--online")
    assert code == 0, said
    return {line["name"]: line for line in lines}


def add_partition(house: House) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": house.bootstrap})
    admin.create_partitions([NewPartitions("drifting", 3)])["drifting"].result(60)
