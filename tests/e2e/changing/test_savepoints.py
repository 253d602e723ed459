"""``ds savepoint`` of running queries, ``ds restore`` after their checkpoints are lost, and a fork into another
environment: every row is in every sink once, by what the source's topic holds."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from ds_dagster.runtime.engine import stop_engine
from ds_dagster.settings import load_settings
from tests.command_line import called_json
from tests.e2e.feeding import WAIT, House, until

JOBS = ("saved_on", "saved_rows", "saved_words", "saved_windows")
NUMBERS = count()
WORDS = ("a", "b", "c")
FORK = """
USE DATABASE clickstream_db;
CREATE STREAM saved (id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='saved', 'value.format'='json',
  'topic.partitions'=2, 'topic.replicas'=1);
CREATE CHANGELOG saved_windows WITH ('topic'='{topic}') AS
  SELECT window_start, window_end, word, COUNT(*) AS n, SUM(id) AS ids
  FROM TUMBLE(saved, SIZE 1 SECOND) GROUP BY window_start, window_end, word;
"""


def send(house: House, rows: int) -> None:
    house.send("saved", [{"id": next(NUMBERS), "word": WORDS[number % len(WORDS)]} for number in range(rows)])


def windows(house: House, topic: str) -> list[tuple[Any, ...]]:
    values = [{**json.loads(record.key or "{}"), **(record.value or {})} for record in house.records(topic)]
    return sorted((value["word"], value["n"], value["ids"]) for value in values)


def sinks(house: House) -> dict[str, list[tuple[Any, ...]]]:
    """What every sink holds, by plain clients."""
    on = [record.value or {} for record in house.records("saved_on")]
    return {
        "saved_on": sorted((row["id"], row["word"]) for row in on),
        "saved_rows": sorted((row["id"], row["word"]) for row in house.table("SELECT id, word FROM saved_rows")),
        "saved_words": sorted((row["word"], row["n"]) for row in house.view("saved_words")),
        "saved_windows": windows(house, "saved_windows"),
    }


def wanted_windows(house: House, since: int = 0) -> list[tuple[Any, ...]]:
    """By the time that the broker gave each record."""
    groups: dict[tuple[int, str], list[int]] = {}
    for record in house.records("saved"):
        row = record.value or {}
        if record.at // 1000 >= since:
            groups.setdefault((record.at // 1000, row["word"]), []).append(row["id"])
    return sorted((word, len(ids), sum(ids)) for (_, word), ids in groups.items())


def wanted(house: House) -> dict[str, list[tuple[Any, ...]]]:
    rows = [record.value or {} for record in house.records("saved")]
    return {
        "saved_on": sorted((row["id"], row["word"].upper()) for row in rows),
        "saved_rows": sorted((row["id"], row["word"]) for row in rows),
        "saved_words": sorted(Counter(row["word"] for row in rows).items()),
        "saved_windows": wanted_windows(house),
    }


def checkpoint(house: House, job: str, version: int) -> Path:
    (place,) = (house.state / "checkpoints").glob(f"*/{job}/v{version}")
    return place


def settled(house: House) -> None:
    until(lambda: sinks(house) == wanted(house), "every sink has every row once")


def saved_while_running(house: House, folder: Path) -> None:
    """Savepoints of each query, and two more of one."""
    place = ("--to", str(folder))
    for number, jobs in enumerate((JOBS, ("saved_words",), ("saved_words",))):
        send(house, 7)
        for job in jobs:
            code, (saved,), said = called_json(house.root, "savepoint", job, "--name", f"s{number}", *place)
            assert (code, saved["name"]) == (0, f"s{number}"), said
    assert "SAVEPOINT_REFUSED" in called_json(house.root, "savepoint", "saved_on", "--name", "s0", *place)[2]
    _, listed, _ = called_json(house.root, "savepoint", "--list", *place)
    assert [row["query"] for row in listed] == sorted((*JOBS, "saved_words", "saved_words"))
    assert "RESTORE_WHILE_RUNNING" in called_json(house.root, "restore", "saved_on", "s0", "--from", str(folder))[2]


def lose_checkpoints(house: House, folder: Path) -> None:
    """All but that of the windows, without which their event time is not known."""
    for job in JOBS:
        place = checkpoint(house, job, 1)
        shutil.move(place, folder / f"lost-{job}")
        code, shown, said = called_json(house.root, "restore", job, "s0", "--from", str(folder), "--dry-run")
        if job == "saved_windows":
            assert code == 1 and "RESTORE_REFUSED" in said and "event time" in said, said
            shutil.move(folder / f"lost-{job}", place)
        else:
            assert (code, shown["how"]) == (0, "after_sink"), said


def test_lost_checkpoints_come_back_from_savepoints(house: House, tmp_path: Path) -> None:
    house.start(*JOBS)
    send(house, 20)
    settled(house)
    saved_while_running(house, tmp_path)
    send(house, 11)
    settled(house)
    house.stop(*JOBS)
    lose_checkpoints(house, tmp_path)
    send(house, 5)
    for job in JOBS:
        code, shown, said = called_json(house.root, "restore", job, "s0", "--from", str(tmp_path))
        assert (code, shown["how"], shown["state"]) == (0, "after_sink", "RUNNING"), said
    settled(house)
    code, _, said = called_json(house.root, "savepoint", "saved_windows", "--name", "later", "--to", str(tmp_path))
    assert code == 0, said
    house.kill_engine()
    house.recover()
    house.until_running(JOBS)
    send(house, 3)
    settled(house)
    house.stop("saved_words")
    code, shown, said = called_json(house.root, "restore", "saved_words", "s2", "--from", str(tmp_path))
    assert (code, shown["how"]) == (0, "after_sink"), f"of the same history, before the last restore: {said}"
    send(house, 3)
    settled(house)
    lose_a_restored_checkpoint(house, tmp_path)
    fork(house, tmp_path)
    house.stop(*JOBS)


def lose_a_restored_checkpoint(house: House, folder: Path) -> None:
    """A checkpoint that a restore has made is lost, too: its savepoints, and those from before it, still fit."""
    code, _, said = called_json(house.root, "savepoint", "saved_rows", "--name", "restored", "--to", str(folder))
    assert code == 0, said
    for savepoint in ("restored", "s0"):
        send(house, 3)
        settled(house)
        house.stop("saved_rows")
        place = checkpoint(house, "saved_rows", 2 if savepoint == "restored" else 3)
        shutil.move(place, folder / f"lost-{place.name}")
        code, shown, said = called_json(house.root, "restore", "saved_rows", savepoint, "--from", str(folder))
        assert code == 0, said
        assert (shown["how"], shown["state"]) == ("after_sink", "RUNNING")
        shutil.move(folder / f"lost-{place.name}", place)  # `ds gc` was not called
        send(house, 3)
        settled(house)


def fork(house: House, savepoints: Path) -> None:
    """Another environment goes on with windows of its own topic; nothing is written into the first one's."""
    root = house.root.parent / "forked"
    (root / "sql").mkdir(parents=True)
    (root / ".ds").mkdir()
    stores = (house.root / "sql" / "stores.sql").read_text()
    (root / "sql" / "stores.sql").write_text(stores)
    (root / ".env").write_text((house.root / ".env").read_text())
    (root / ".ds" / "local.toml").write_text((house.state / "local.toml").read_text())
    (root / "ds.toml").write_text((house.root / "ds.toml").read_text() + 'environment = "fork"\n')
    place = root / "sql" / "fork.sql"
    place.write_text(FORK.format(topic="saved_windows"))
    code, _, err = called_json(root, "restore", "saved_windows", "later", "--from", str(savepoints))
    assert code == 1 and "RESTORE_REFUSED" in err and "writes prod_kafka.saved_windows, too" in err, err
    place.write_text(FORK.format(topic="forked_windows"))
    try:
        code, shown, err = called_json(root, "restore", "saved_windows", "later", "--from", str(savepoints))
        assert (code, shown["how"], shown["state"]) == (0, "fork", "RUNNING"), (shown, err)
        send(house, 6)
        settled(house)
        all_windows = wanted_windows(house)
        forked = until(lambda: windows(house, "forked_windows"), "windows after the savepoint")
        until(
            lambda: (
                not Counter(windows(house, "forked_windows")) - Counter(all_windows)
                and Counter(windows(house, "forked_windows")) >= Counter(newest(house))
            ),
            f"the newest windows and no wrong one: {forked}",
        )
    finally:
        stop_engine(load_settings(root), WAIT)


def newest(house: House) -> list[tuple[Any, ...]]:
    return wanted_windows(house, max(record.at for record in house.records("saved")) // 1000)
