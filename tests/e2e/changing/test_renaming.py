"""Queries get other names while records come: views in a file and in Postgres, a changelog in Kafka and its reader. The
engine is killed in between. Every row is there once, under the new names alone; then the old names come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest

from ds_dagster.project.load import load_project
from tests.e2e.changing.test_versions import WORDS, ds
from tests.e2e.feeding import WAIT, House, until

FORMER: Mapping[str, str] = {
    "renamed_file": "counted_file",
    "renamed_table": "counted_table",
    "renamed_log": "counted_log",
}
SUMS = "counted_sums"
TOPIC = "WITH ('topic' = 'counted_log') AS"


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """The statements with other names, and the line that says so above each."""
    lines = []
    for line in sql.splitlines():
        for name, former in names.items():
            if line.startswith("CREATE") and f" {former} " in line:
                line = f"-- @renamed_from {former}\n{line}"
            line = line.replace(f" {former} ", f" {name} ")
        lines.append(line)
    return "\n".join(lines)


@pytest.fixture
def write(house: House) -> Iterator[Callable[[str], None]]:
    path = house.root / "sql" / "versions.sql"
    old = path.read_text()

    def write(sql: str) -> None:
        path.write_text(sql)
        house.project = load_project(house.root, settings=house.settings, strict=True)

    yield write
    write(old)
    house.stop(*(s.name for s in house.control.statuses() if s.of in (*FORMER.values(), SUMS)))


def send(house: House, first: int) -> None:
    house.send("counted", [{"id": first + i, "word": WORDS[i % 5], "size": i} for i in range(20)])


def check(house: House, file: str, table: str) -> None:
    """Each record is counted once, and each key of the topic has one record for each value it had."""
    sent = Counter(record.value["word"] for record in house.records("counted") if record.value)

    def counts(rows: list[dict[str, int]]) -> Counter[str]:
        return Counter({row["word"]: row["n"] for row in rows})

    def logged() -> Counter[str]:
        values: dict[str, list[int]] = {}
        for record in house.records("counted_log"):
            assert record.value
            values.setdefault(record.value["word"], []).append(record.value["n"])
        assert all(numbers == sorted(set(numbers)) for numbers in values.values()), values
        return Counter({word: numbers[-1] for word, numbers in values.items()})

    until(lambda: counts(house.view(file)) == sent, "the view in a file counts each record once")
    until(lambda: counts(house.table(f"SELECT word, n FROM {table}")) == sent, "the view in Postgres does")
    until(lambda: logged() == sent, "the changelog does")
    until(lambda: sum(row["n"] for row in house.view(SUMS)) == sum(sent.values()), "its reader does")


def restore(house: House) -> None:
    """Savepoints of the former names, gone on from under the new ones."""
    house.stop(*FORMER)
    for name in FORMER:
        code, out, err = ds(house, "restore", name, "before")
        assert code == 0 and "up to the end of its sinks without writing" in out + err, (out, err)
    send(house, 50)


@pytest.mark.slow
def test_queries_go_on_under_other_names(house: House, write: Callable[[str], None]) -> None:
    old = (house.root / "sql" / "versions.sql").read_text()
    house.start(*FORMER.values(), SUMS)
    send(house, 0)
    check(house, "counted_file", "counted_table")
    for name in FORMER.values():
        assert ds(house, "savepoint", name, "--name", "before")[0] == 0
    new = renamed(old, FORMER)
    write(new)
    code, out, err = ds(house, "plan", *FORMER)
    assert (out.count("  renamed  "), out.count("rename refused")) == (2, 1) and "'topic' = 'counted_log'" in out, out
    new = new.replace("renamed_log AS", f"renamed_log {TOPIC}")
    write(new)
    code, out, err = ds(house, "plan", *FORMER, SUMS)
    assert out.count("  renamed  ") == 3 and out.count("unchanged") == 1, (out, err)
    asked = house.control.ensure(house.project, list(FORMER), "restart", "test")
    house.kill_engine()
    send(house, 20)
    house.recover()
    generations = {ensured.name: ensured.generation for ensured in asked}
    assert {s.state for s in house.control.wait(list(FORMER), generations, WAIT)} == {"RUNNING"}
    assert house.control.ensure(house.project, [SUMS], "restart", "test")[0].outcome == "requested"
    send(house, 40)
    check(house, "renamed_file", "renamed_table")
    assert not list((house.state / "views").glob("*counted_file*"))
    names = house.table(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname IN ('counted_table', 'renamed_table')"
    )
    assert [row["relname"] for row in names] == ["renamed_table"]
    reasons = [moved.reason for moved in house.control.transitions("renamed_file")]
    assert "renamed from counted_file" in reasons and len(reasons) > 5
    restore(house)
    check(house, "renamed_file", "renamed_table")
    back = renamed(new.replace("-- @renamed_from", "-- was"), {former: name for name, former in FORMER.items()})
    write(back)
    code, out, err = ds(house, "apply", *FORMER.values(), SUMS, "--allow", "restart")
    assert code == 0, (out, err)
    send(house, 60)
    check(house, "counted_file", "counted_table")
