"""``ds backfill`` of a table whose source is a folder: as a plain model of the files that the table has, by the command
and by a partition of Dagster."""

from __future__ import annotations

import os
import random
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.command_line import called, called_json
from tests.e2e.changing.test_backfill import DAY, NUMBERS, damage, inside, killed, moment, outside, stored
from tests.e2e.changing.test_partitions import materialized
from tests.e2e.feeding import House

TABLE = "arrivals_rows"
BEGIN = round(datetime(2023, 11, 15, tzinfo=timezone.utc).timestamp() * 1000)
Rows = list[tuple[Any, ...]]


def arrive(house: House, chance: random.Random, files: int) -> Rows:
    """Files with rows of two days in any order, and with any modification times. Returns the table's rows of them."""
    folder, rows = house.root / "lake" / "arrivals", list[tuple[Any, ...]]()
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(files):
        values = [
            (BEGIN + chance.randrange(2 * DAY), next(NUMBERS), chance.choice(("a", "b")))
            for _ in range(chance.randrange(1, 40))
        ]
        path = folder / f"{chance.randrange(10**9)}.csv"
        path.write_text("".join(["at,id,word\n", *(f"{at},{number},{word}\n" for at, number, word in values)]))
        os.utime(path, (BEGIN // 1000 + chance.randrange(10**6),) * 2)
        rows += [(moment(at), number, word.upper()) for at, number, word in values if number % 7]
    return rows


@pytest.mark.slow  # four commands start Spark
def test_a_range_is_as_the_stream_computes_it(house: House) -> None:
    chance = random.Random(31)
    house.recover()
    rows = arrive(house, chance, 9)
    house.load(TABLE)
    assert stored(house, TABLE) == sorted(rows, key=str)
    later = arrive(house, chance, 3)  # not loaded yet: they are no part of the table
    damage(house, TABLE)
    damaged = stored(house, TABLE)
    begin, end = sorted(BEGIN + chance.randrange(2 * DAY) for _ in range(2))
    span = ("--from", moment(begin).isoformat(), "--to", moment(end).isoformat())
    killed(house, span, TABLE)
    assert stored(house, TABLE) == damaged, "a run that is killed changes nothing"
    said = called(house.root, "backfill", TABLE, *span, "--dry-run")
    assert said.code == 0 and "9 files (0.0 MB) of 9 files (0.0 MB) are read again" in said.err, said
    assert stored(house, TABLE) == damaged
    code, told, problems = called_json(house.root, "backfill", TABLE, *span)
    assert (code, told["files"], told["records"], told["before_start"]) == (0, 9, None, 0), problems
    assert told["bytes"] > 0 and told["rows"]["deleted"] == len(inside(damaged, begin, end))
    assert inside(stored(house, TABLE), begin, end) == sorted(inside(rows, begin, end), key=str)
    assert outside(stored(house, TABLE), begin, end) == outside(damaged, begin, end)

    before = stored(house, TABLE)
    result = materialized(house, TABLE, "2023-11-16")  # it loads the later files before it replaces rows
    (event,) = result.get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    begin, end, every = BEGIN + DAY, BEGIN + 2 * DAY, [*rows, *later]
    assert inside(stored(house, TABLE), begin, end) == sorted(inside(every, begin, end), key=str)
    added = outside(later, begin, end)
    assert outside(stored(house, TABLE), begin, end) == sorted([*outside(before, begin, end), *added], key=str)
    assert metadata["dagster/partition_row_count"].value == len(inside(every, begin, end))
    assert metadata["ds_dagster/files_read"].value == 12 and "ds_dagster/records_read" not in metadata
