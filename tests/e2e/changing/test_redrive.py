"""``ds redrive`` of what an engine has left out: each record is back once, in a topic and in a stream of Kinesis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.feeding import WAIT, House, until

pytestmark = pytest.mark.slow
HOUR_MILLIS = 3_600_000


def redrive(house: House, relation: str, *options: str) -> Any:
    """What it says in JSON, from a process of its own."""
    command = (Path(sys.executable).with_name("ds"), "redrive", relation, "--json", *options)
    done = subprocess.run(command, cwd=house.root, capture_output=True, text=True, timeout=WAIT, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "{}")


def repair(house: House, relation: str, file: Path, column: str) -> None:
    """Export the entries, and write a whole number into each."""
    redrive(house, relation, "--export", str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line["value"] = json.loads(line["value"]) | {column: "7"}
    file.write_text("\n".join(map(json.dumps, lines)))


def ids(house: House, topic: str) -> Counter[int]:
    return Counter((record.value or {})["id"] for record in house.records(topic))


@pytest.mark.parametrize(
    ("source", "result", "column"), [("priced", "prices", "price"), ("weighed", "weights", "weight")]
)
def test_records_whose_rows_failed(house: House, tmp_path: Path, source: str, result: str, column: str) -> None:
    house.topic(f"{result}_row_errors", 1)
    house.start(result)
    rows = [{"id": n, column: "x" if n % 3 == 0 else str(n)} for n in range(10)]
    if source == "weighed":
        house.put(source, rows, key="id")
    else:
        house.send(source, rows, key="id")
    until(lambda: len(house.records(f"{result}_row_errors")) == 4, "four rows have failed")

    repair(house, source, tmp_path / "repairs.jsonl", column)
    options = ("--from", str(tmp_path / "repairs.jsonl"))
    told = redrive(house, source, *options, "--dry-run")
    assert (len(told["sent"]), told["hindrances"]) == (4, [])
    assert len(redrive(house, source, *options)["sent"]) == 4
    again = redrive(house, source, *options)
    assert (again["sent"], again["sent_before"]) == ([], 4)
    until(lambda: len(house.records(result)) == 10, "all rows are there")
    assert ids(house, result) == Counter(range(10))
    assert len(house.records(f"{result}_row_errors")) == 4
    house.stop(result)


def test_records_that_were_late_by_their_own_time(house: House) -> None:
    job = "visitors_by_second"
    house.topic("visitors", 1, **{"message.timestamp.type": "CreateTime"})  # the project's own have the broker's time
    house.start(job)
    begin = int(time.time() * 1000) - 60_000
    visit(house, (1, begin), (2, begin + 20_000))
    until(lambda: counted(house) == 1, "the window of the first record is closed")
    visit(house, (3, begin - HOUR_MILLIS))
    until(lambda: ids(house, "visitors_late") == Counter([3]), "the third record is late")

    assert len(redrive(house, "visitors")["sent"]) == 1
    assert redrive(house, "visitors")["sent_before"] == 1
    visit(house, (4, int(time.time() * 1000) + 20_000))
    until(lambda: counted(house) == 3, "it is in a window of its new time")
    assert ids(house, "visitors_late") == Counter([3])
    house.stop(job)


def visit(house: House, *visitors: tuple[int, int]) -> None:
    """Records with times of their own."""
    for id_, at in visitors:
        house.producer.produce("visitors", json.dumps({"id": id_}), timestamp=at)
    assert house.producer.flush(WAIT) == 0


def counted(house: House) -> int:
    return sum((record.value or {})["n"] for record in house.records("visitors_by_second"))
