"""A changelog in Kafka gets a result of its groups while records come, with the state it has: the engine is killed at
once, and again when it runs. Then the result goes, and comes back. A plain count has all records, and those since."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ds_dagster.project.load import load_project
from tests.e2e.changing.test_versions import CHANGED, WORDS, ds
from tests.e2e.feeding import WAIT, House, Row, until

NAME = "counted_log"


@pytest.fixture
def write(house: House) -> Iterator[Callable[[str], None]]:
    path = house.root / "sql" / "versions.sql"
    old = path.read_text()

    def write(columns: str) -> None:
        lines = old.splitlines()
        path.write_text("\n".join(x.replace("COUNT(*) AS n FROM", columns) if f" {NAME} AS" in x else x for x in lines))
        house.project = load_project(house.root, settings=house.settings, strict=True)

    yield write
    path.write_text(old)
    house.project = load_project(house.root, settings=house.settings, strict=True)
    house.stop(NAME)


def send(house: House, first: int, words: str) -> None:
    house.send("counted", [{"id": first + i, "word": words[i % len(words)], "size": i} for i in range(20)])


def shown(house: House) -> dict[str, Row]:
    """The newest record of each word. Totals of all records never fall."""
    values: dict[str, list[Row]] = {}
    for record in house.records(NAME):
        assert record.value
        values.setdefault(record.value["word"], []).append(record.value)
    for rows in values.values():
        numbers = [row["n"] for row in rows]
        assert numbers == sorted(set(numbers)), numbers
    return {word: rows[-1] for word, rows in values.items()}


@pytest.mark.slow
def test_a_changelog_gets_a_result_and_keeps_its_counts(house: House, write: Callable[[str], None]) -> None:
    house.start(NAME)
    send(house, 0, "".join(WORDS))
    expected = {word: {"word": word, "n": 4} for word in WORDS}
    until(lambda: shown(house) == expected, "it counts")
    write(CHANGED)
    code, out, err = ds(house, "plan", NAME)
    assert "new version" in out and f"`ds restart {NAME} --allow partial`" in out and "SUM(size)" in out, (out, err)
    code, out, err = ds(house, "restart", NAME)
    assert code == 1 and "--allow partial" in out + err, (out, err)
    asked = house.control.ensure(house.project, [NAME], "restart", "test", allow=("partial",))
    house.kill_engine()
    send(house, 20, "abx")
    house.recover()
    (status,) = house.control.wait([NAME], {NAME: asked[0].generation}, WAIT)
    assert status.state == "RUNNING" and status.checkpoint_version == 1, status
    assert house.control.log_path(NAME).read_text().count("results are added to 5 groups") == 1
    sizes = {word: [i for i in range(20) if "abx"[i % 3] == word] for word in "abx"}
    for word, values in sizes.items():
        before = expected.get(word, {"n": 0})["n"]
        expected[word] = {"word": word, "n": before + len(values), "total": sum(values)}
    until(lambda: shown(house) == expected, "it counts all records and adds those since the change")
    house.kill_engine()
    send(house, 40, "c")
    house.recover()
    expected["c"] = {"word": "c", "n": 24, "total": sum(range(20))}
    until(lambda: shown(house) == expected, "it goes on with both after a kill")
    write("COUNT(*) AS n FROM")
    assert ds(house, "apply", NAME, "--allow", "restart")[0] == 0
    send(house, 60, "c")
    expected["c"] = {"word": "c", "n": 44}
    until(lambda: shown(house) == expected, "without the result it still counts")
    write(CHANGED)
    assert ds(house, "apply", NAME, "--allow", "restart")[0] == 0
    send(house, 80, "c")
    expected["c"] = {"word": "c", "n": 64, "total": 3 * sum(range(20))}
    until(lambda: shown(house) == expected, "it has added what came meanwhile")
