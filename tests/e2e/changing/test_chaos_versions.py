"""Versions are staged, promoted, rolled back, promoted again and abandoned by the command line, while records come and
something is killed in each step: the engine, the broker, the database, or the command itself. Readers see the answers
of a plain model of the first records for one definition, the same command again converges, and a stream has each row
once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import count, groupby

import pytest

from ds_dagster.orchestration import DsProject
from ds_dagster.project.load import load_project
from ds_dagster.runtime.deciding.versions import is_halted, is_settled
from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.runtime.versioning import Versions
from tests.command_line import called
from tests.e2e.feeding import WAIT, House, Row, Stream, until

VIEWS = ("stroke_file", "stroke_table")
STREAM = "stroke_rows"
QUERIES = (*VIEWS, STREAM)
WORDS = ("a", "b", "c", "d", "e")
STEP = 1_000_000_000
"""Between the numbers that definitions add to the largest ``id``."""
IDS = count(1)
TIMEOUT = int(WAIT)
"""Seconds that a command waits for a version: after them the old one serves, and the command is called again."""
IDLE = 19
"""A reader waits so many times as long as its last read took."""

Answer = frozenset[tuple[str, int, int, int]]
Moment = Callable[[], bool]


@dataclass(frozen=True)
class Kill:
    """What is killed in a step, and when: a moment's name, or seconds after the command began."""

    victim: str
    moment: str | float


def of_rows(rows: Sequence[Row]) -> Answer:
    answer = frozenset((row["word"], row["n"], row["total"], row["last"]) for row in rows)
    assert len(answer) == len(rows), "a row is doubled"
    return answer


class Reading:
    """Reads the views all the time and keeps what each reader saw, in order. There may be no answer of the database
    while it is down."""

    def __init__(self, house: House) -> None:
        project = DsProject(house.root)
        columns = "SELECT word, n, total, last FROM"
        self.readers: Mapping[str, Callable[[], list[Row]]] = {
            "file": lambda: house.view("stroke_file"),
            "server": lambda: house.table(f"{columns} stroke_table"),
            "question of the file": lambda: project.ask(f"{columns} stroke_file").to_pylist(),
            "question of the server": lambda: project.ask(f"{columns} stroke_table").to_pylist(),
        }
        self.house, self.failures = house, list[str]()
        self.answers: dict[str, list[Answer]] = {name: [] for name in self.readers}
        self.reads = self.kills = 0
        self.is_down = False
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(name,)) for name in self.readers]

    def _read(self, name: str) -> None:
        took, kills = 0.0, self.kills
        while not self._end.wait(max(0.02, IDLE * took)):
            begin = time.monotonic()
            try:
                answer = of_rows(self.readers[name]())
            except Exception as problem:  # noqa: BLE001, a reader never fails
                if "server" in name and (self.is_down or kills != self.kills):
                    continue
                self.failures.append(f"{name}: {problem!r}")
                return
            kills = kills if self.is_down else self.kills
            self.reads, took = self.reads + 1, time.monotonic() - begin
            if self.answers[name][-1:] != [answer]:
                self.answers[name].append(answer)

    def __enter__(self) -> Reading:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(WAIT)

    def kill_server(self, name: str) -> None:
        """kill -9, and start it again."""
        self.is_down, self.kills = True, self.kills + 1
        self.house.kill_server(name)
        self.house.up(name)
        self.is_down = False

    def check(self, records: Sequence[Row], definitions: Sequence[int]) -> None:
        """Each answer is that of the first records of the topic for one of the definitions, and never of fewer than
        the answer before."""
        assert not self.failures, self.failures
        assert self.reads > 50
        model = answers_of(records, definitions, {size(one) for answers in self.answers.values() for one in answers})
        for name, answers in self.answers.items():
            before = 1
            for answer in answers:
                assert size(answer) >= before, f"{name}: {size(answer)} records after {before}"
                assert answer in model, (
                    f"{name}: {sorted(answer)} is of none of {definitions} and {size(answer)} records"
                )
                before = size(answer)


def size(answer: Answer) -> int:
    """Number of records that an answer has counted."""
    return sum(n for _, n, _, _ in answer)


def answers_of(records: Sequence[Row], definitions: Sequence[int], sizes: Set[int]) -> Set[Answer]:
    """The plain model: the answers of each definition after so many records of the topic."""
    numbers, sums, latest = Counter[str](), Counter[str](), Counter[str]()
    answers = set[Answer]()
    for number, record in enumerate(records, 1):
        word = record["word"]
        numbers[word] += 1
        sums[word] += record["id"]
        latest[word] = max(latest[word], record["id"])
        for definition in definitions if number in sizes else ():
            rows = ((w, n, sums[w], latest[w] + STEP * definition) for w, n in numbers.items())
            answers.add(frozenset(rows))
    return answers


@dataclass
class Round:
    """A round of changes. ``kills``: step → what dies in it; steps without one are left alone."""

    house: House
    reading: Reading
    kills: Mapping[str, Kill]
    queries: Sequence[str] = QUERIES
    said: list[str] = field(default_factory=list)

    def jobs(self) -> Iterator[JobRow]:
        versions = Versions(self.house.control)
        return (row for name in self.queries for row in versions.jobs(name).values())

    def moments(self) -> Mapping[str, Moment]:
        return {
            "one is halted": lambda: any(is_halted(row) for row in self.jobs()),
            "one is settled": lambda: any(is_settled(row) for row in self.jobs()),
        }

    def step(self, name: str, words: Sequence[str], is_done: Moment) -> None:
        """One command, with a kill in its middle, and the same command again until it has converged."""
        kill = self.kills.get(name)
        if kill is not None:
            self._killed(name, words, is_done, kill)
        end = time.monotonic() + WAIT
        while not is_done():
            assert time.monotonic() < end, f"{name} does not converge: {self.said[-3:]}"
            done = called(self.house.root, *words)
            self._check(name, done.code, done.out + done.err)
        self.house.until_running([row.name for row in self.jobs() if row.desired == "RUNNING"])

    def _killed(self, name: str, words: Sequence[str], is_done: Moment, kill: Kill) -> None:
        command = [sys.executable, "-c", "from ds_dagster.cli.main import main; main()", *words]
        process = subprocess.Popen(
            command, cwd=self.house.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        began = time.monotonic()

        def is_now() -> bool:
            if isinstance(kill.moment, float):
                return time.monotonic() - began >= kill.moment
            return self.moments()[kill.moment]() or is_done() or process.poll() is not None

        print(f"{name}: {kill.victim} is killed, {kill.moment}")
        until(is_now, f"{kill.moment} in {name}", pause=0.02)
        if kill.victim == "ds":
            process.kill()
        elif kill.victim == "engine":
            self.house.kill_engine()
            self.house.recover()
        else:
            self.reading.kill_server(kill.victim)
        out, _ = process.communicate(timeout=WAIT)
        if kill.victim != "ds":
            self._check(name, process.returncode, out)

    def _check(self, name: str, code: int, out: str) -> None:
        self.said.append(f"{name}: {code} {out}")
        print(self.said[-1])
        assert code in (0, 1) and "Traceback" not in out, self.said[-1]

    def version(self, name: str) -> int:
        return self.house.control.status(name).version

    def has_staged(self) -> bool:
        return sum(row.role in ("staged", "promoting") for row in self.jobs()) == len(self.queries)

    def has_none_staged(self) -> bool:
        return not any(row.role in ("staged", "promoting") for row in self.jobs())

    def serves(self, numbers: Mapping[str, int]) -> Moment:
        return lambda: all(self.version(name) == number for name, number in numbers.items())


def write(house: House, definition: int) -> None:
    path = house.root / "sql" / "chaos.sql"
    text = path.read_text()
    (old,) = {line.split("AS version")[0].split()[-1] for line in text.splitlines() if "AS version" in line}
    text = text.replace(f"id + {int(old) * STEP})", f"id + {definition * STEP})")
    text = text.replace(f"{old} AS version", f"{definition} AS version")
    text = text.replace(at(int(old)), at(definition))
    path.write_text(text)
    house.project = load_project(house.root, settings=house.settings, strict=True)


def at(definition: int) -> str:
    return f"2000-01-01 00:{definition // 60:02}:{definition % 60:02}"


def serving(house: House) -> int:
    """The definition in the file, which serves."""
    text = (house.root / "sql" / "chaos.sql").read_text()
    return int(text.split(" AS version")[0].split()[-1])


def send(house: House, number: int) -> None:
    rows = [{"id": next(IDS), "word": WORDS[(number + i * i) % 5]} for i in range(7)]
    house.send("strokes", rows)


def check_round(house: House, kills: Mapping[str, Kill], *, is_whole: bool = True) -> None:
    """A round, from the definition that serves to another one and back; a whole round has the stream as well, promotes
    again, and stages and abandons a third definition."""
    queries = QUERIES if is_whole else VIEWS
    first = serving(house)
    second, third = first + 1, first + 2
    house.start(*queries)
    send(house, 0)
    until(lambda: house.view("stroke_file") and house.table("SELECT word FROM stroke_table"), "the first rows")
    begin = len(house.records(STREAM)) if is_whole else 0
    reading = Reading(house)
    turn = Round(house, reading, kills, queries)
    old = {name: turn.version(name) for name in queries}
    timeout = ("--timeout", str(TIMEOUT))
    with reading, Stream(lambda number: send(house, number), pause=0.3) as flow:
        write(house, second)
        turn.step("stage", ["stage", *queries], turn.has_staged)
        new = {row.of: row.version for row in turn.jobs() if row.role == "staged"}
        turn.step("promote", ["promote", *timeout], turn.serves(new))
        for name in queries[1:]:
            Versions(house.control, "tests").rollback(name, old[name])
        name = queries[0]
        turn.step("roll back", ["rollback", name, "--to", str(old[name]), *timeout], turn.serves({name: old[name]}))
        until(turn.serves(old), "the old versions serve")
        if is_whole:
            turn.step("apply", ["apply", *queries, "--allow", "new-version", *timeout], turn.serves(new))
            write(house, third)
            turn.step("stage another", ["stage", *queries], turn.has_staged)
            turn.step("abandon", ["abandon", *queries], turn.has_none_staged)
        write(house, second if is_whole else first)
        flow.end()
        records = [record.value for record in house.records("strokes") if record.value]
        finals = {f"{name} has everything": reader for name, reader in reading.readers.items()}
        for what, reader in finals.items():
            until(lambda: sum(row["n"] for row in reader()) == len(records), what)  # noqa: B023
    reading.check(records, (first, second))
    if is_whole:
        check_stream(house, records, begin, (first, second, first, second))
    Versions(house.control, "tests").drop_kept()


def check_stream(house: House, records: Sequence[Row], begin: int, order: Sequence[int]) -> None:
    """The stream has each record once, and its definitions wrote in this order from a row on."""
    until(lambda: len(house.records(STREAM)) >= len(records), "the stream has everything")
    rows = [record.value for record in house.records(STREAM) if record.value]
    ids = Counter(row["id"] for row in rows)
    sent = Counter(record["id"] for record in records)
    assert ids == sent, f"missing {sent - ids}, too much {ids - sent}"
    written = [version for version, _ in groupby(row["version"] for row in rows[begin:])]
    left = iter(order)
    assert all(version in left for version in written), f"{written} wrote in turn, not {order}"


@pytest.mark.slow
def test_nobody_sees_what_is_killed(house: House) -> None:
    """Views only, and no engine, whose death costs a start of Spark: the short test of streams has both."""
    check_round(
        house,
        {
            "stage": Kill("ds", 1.5),
            "promote": Kill("ds", "one is halted"),
            "roll back": Kill("postgres", "one is settled"),
        },
        is_whole=False,
    )


STEPS = ("stage", "promote", "roll back", "apply", "stage another", "abandon")
CHANGES = ("promote", "roll back", "apply")
"""Steps in which versions take over."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_nobody_sees_whatever_is_killed(house: House, seed: int) -> None:
    """In each step something dies at some moment."""
    chance = random.Random(seed)
    kills = {}
    for step in STEPS:
        moment: str | float = round(chance.uniform(0.3, 8 if step in CHANGES else 4), 2)
        if step in CHANGES and chance.random() < 0.6:
            moment = chance.choice(("one is halted", "one is settled"))
        kills[step] = Kill(chance.choice(("ds", "engine", "kafka", "postgres")), moment)
    print(seed, kills)
    check_round(house, kills)
