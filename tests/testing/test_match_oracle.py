"""Random patterns over random rows: what comes out is what a plain search by the standard's rules gives."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.testing.seeds import BETWEEN, is_usual, seed

pytestmark = [pytest.mark.cases, pytest.mark.usefixtures("buckets")]

SEED = seed(20261122)
DECLARED = """
  CREATE STREAM events (id INTEGER, t BIGINT, k VARCHAR, x INTEGER, v INTEGER, d DECIMAL(8, 2), f DOUBLE)
    WITH ('topic' = 'events', 'value.format' = 'json', 'timestamp' = 't');
"""
Row = dict[str, Any]
Taken = list[tuple[str, Row]]


# --- what is asked --------------------------------------------------------------------------------------------------


def of(taken: Taken, variable: str) -> list[Row]:
    return [row for name, row in taken if variable in ("", name)]


def values(taken: Taken, variable: str, column: str) -> list[Any]:
    return [row[column] for row in of(taken, variable) if row[column] is not None]


def last(taken: Taken, variable: str, column: str, offset: int = 0) -> Any:
    rows = of(taken, variable)
    return rows[-1 - offset][column] if len(rows) > offset else None


def less(left: Any, right: Any) -> bool:
    return left is not None and right is not None and left < right


# SQL → the same in Python over the rows taken, the one in question last
CONDITIONS: tuple[tuple[str, Callable[[Taken], bool]], ...] = (
    ("x = 1", lambda taken: taken[-1][1]["x"] == 1),
    ("x IN (1, 2)", lambda taken: taken[-1][1]["x"] in (1, 2)),
    ("x > 0", lambda taken: taken[-1][1]["x"] > 0),
    ("v IS NULL OR v > 3", lambda taken: taken[-1][1]["v"] is None or taken[-1][1]["v"] > 3),
    ("v > LAST(v, 1)", lambda taken: less(last(taken, "", "v", 1), taken[-1][1]["v"])),
    ("v < A.v OR A.v IS NULL", lambda taken: below_a(taken)),
    ("COUNT(B.id) <= 2", lambda taken: len(of(taken, "B")) <= 2),
    ("COALESCE(SUM(v), 0) < 12", lambda taken: sum(values(taken, "", "v")) < 12),
    ("x <> FIRST(x) OR COUNT(*) = 1", lambda taken: taken[-1][1]["x"] != taken[0][1]["x"] or len(taken) == 1),
    ("AVG(A.d) <= 5 OR MAX(A.f) > 6", lambda taken: average_or_most(taken)),
)
MEASURES = """COUNT(*) AS n, FIRST(id) AS first_id, LAST(id) AS last_id, LAST(A.id) AS a, FIRST(B.id, 1) AS b,
  COUNT(C.v) AS c, SUM(A.v) AS s, MIN(B.v) AS lo, MAX(f) AS hi, AVG(C.d) AS m"""


def below_a(taken: Taken) -> bool:
    known = last(taken, "A", "v")
    return known is None or less(taken[-1][1]["v"], known)


def average_or_most(taken: Taken) -> bool:
    prices, numbers = values(taken, "A", "d"), values(taken, "A", "f")
    return bool(prices and sum(prices) / len(prices) <= 5) or bool(numbers and max(numbers) > 6)


def measured(key: str, taken: Taken) -> Row:
    first_b = of(taken, "B")
    amounts, prices = values(taken, "A", "v"), values(taken, "C", "d")
    return {
        "k": key,
        "n": len(taken),
        "first_id": taken[0][1]["id"],
        "last_id": taken[-1][1]["id"],
        "a": last(taken, "A", "id"),
        "b": first_b[1]["id"] if len(first_b) > 1 else None,
        "c": len(values(taken, "C", "v")),
        "s": sum(amounts) if amounts else None,
        "lo": min(values(taken, "B", "v"), default=None),
        "hi": max(values(taken, "", "f"), default=None),
        "m": round(sum(prices) / len(prices) + 1e-9, 6) if prices else None,
    }


# --- patterns -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """``kind``: a variable's name, or ``seq``, ``or``, ``times`` (of one part)."""

    kind: str
    parts: tuple[Part, ...] = ()
    least: int = 1
    most: int | None = 1
    reluctant: bool = False

    def __str__(self) -> str:
        if self.kind == "seq":
            return " ".join(f"({part})" if part.kind == "or" else str(part) for part in self.parts)
        if self.kind == "or":
            return " | ".join(map(str, self.parts))
        if self.kind == "times":
            most = "" if self.most is None else self.most
            return f"({self.parts[0]}){{{self.least},{most}}}" + ("?" if self.reluctant else "")
        return self.kind


def some_part(dice: random.Random, depth: int) -> Part:
    if depth == 0 or dice.random() < 0.35:
        made = Part(dice.choice("ABC"))
    else:
        kind = dice.choice(["seq", "seq", "or"])
        made = Part(kind, tuple(some_part(dice, depth - 1) for _ in range(dice.randint(2, 3))))
    if dice.random() < 0.5:
        least = dice.randrange(3)
        most = dice.choice([None, max(least, 1), least + 1, least + 2])
        made = Part("times", (made,), least, most, dice.random() < 0.4)
    return made


@dataclass(frozen=True)
class Question:
    pattern: Part
    defined: dict[str, int]
    skip: str
    within: int | None

    def sql(self, name: str) -> str:
        within = "" if self.within is None else f"WITHIN {self.within} MILLISECONDS"
        defined = ", ".join(f"{variable} AS {CONDITIONS[number][0]}" for variable, number in self.defined.items())
        columns = "k, n, first_id, last_id, a, b, c, s, lo, hi, m"
        return f"""CREATE STREAM {name} AS SELECT {columns} FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
          MEASURES {MEASURES} AFTER MATCH SKIP {self.skip} PATTERN ({self.pattern}) {within} DEFINE {defined}) AS m;"""


def questions(dice: random.Random, count: int) -> list[Question]:
    """Patterns the binder accepts: what it refuses has cases of its own."""
    found: list[Question] = []
    skips = ["PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", "TO LAST B", "TO FIRST C"]
    while len(found) < count:
        pattern = some_part(dice, 2)
        used = [name for name in "ABC" if name in str(pattern)]
        numbers = [n for n, (text, _) in enumerate(CONDITIONS) if all(f"{v}." not in text or v in used for v in "ABC")]
        asked = {name: dice.choice(numbers) for name in used if dice.random() < 0.85}
        if len(used) < 3 or not asked:
            continue  # the measures name all three
        question = Question(pattern, asked, dice.choice(skips), dice.choice([None, 1500, 4000]))
        settings = Settings(root=Path(), sql=Path("sql"), state=Path(".ds"), store="s")
        declared = DECLARED.replace("'t')", "'t', 'topic.partitions' = 1, 'topic.replicas' = 1)")
        text = f"CREATE STORE s WITH ('type' = KAFKA, 'uris' = 'localhost:9092'); {declared} {question.sql('m')}"
        project = compile_texts([("a.sql", text)], settings)
        assert {one.condition for one in project.errors} <= {"PATTERN_EMPTY", "PATTERN_OPEN_END", "PATTERN_SKIP"}
        if not project.errors:
            found.append(question)
    return found


# --- the plain search -----------------------------------------------------------------------------------------------


class NeedsMoreError(Exception):
    """Only a row that has not come can tell."""


class Search:
    """All ways of a pattern from one row on, by preference."""

    def __init__(self, question: Question, rows: Sequence[Row], start: int) -> None:
        self.question = question
        self.rows = rows
        self.start = start

    def match(self) -> Taken | None:
        for taken in self.ways(self.question.pattern, []):
            return taken
        return None

    def ways(self, part: Part, taken: Taken) -> Iterator[Taken]:
        if part.kind == "seq":
            yield from self.sequence(part.parts, taken)
        elif part.kind == "or":
            for one in part.parts:
                yield from self.ways(one, taken)
        elif part.kind == "times":
            yield from self.times(part, taken, 0)
        else:
            row = self.next_row(taken)
            if row is not None and self.fits(part.kind, [*taken, (part.kind, row)]):
                yield [*taken, (part.kind, row)]

    def sequence(self, parts: tuple[Part, ...], taken: Taken) -> Iterator[Taken]:
        if not parts:
            yield taken
            return
        for longer in self.ways(parts[0], taken):
            yield from self.sequence(parts[1:], longer)

    def times(self, part: Part, taken: Taken, done: int) -> Iterator[Taken]:
        if done >= part.least and part.reluctant:
            yield taken
        if part.most is None or done < part.most:
            for longer in self.ways(part.parts[0], taken):
                if len(longer) > len(taken) or done < part.least:
                    yield from self.times(part, longer, done + 1)
        if done >= part.least and not part.reluctant:
            yield taken

    def next_row(self, taken: Taken) -> Row | None:
        place = self.start + len(taken)
        within = self.question.within
        if place >= len(self.rows):
            if within is None:
                raise NeedsMoreError
            return None
        row = self.rows[place]
        return row if within is None or row["t"] - self.rows[self.start]["t"] < within else None

    def fits(self, variable: str, taken: Taken) -> bool:
        number = self.question.defined.get(variable)
        return number is None or CONDITIONS[number][1](taken)


def answer(question: Question, rows: Sequence[Row]) -> list[Row]:
    found = []
    for key in sorted({row["k"] for row in rows}):
        mine = sorted((row for row in rows if row["k"] == key), key=lambda row: row["t"])
        start = 0
        while start < len(mine):
            try:
                taken = Search(question, mine, start).match()
            except NeedsMoreError:
                if question.skip != "TO NEXT ROW":
                    break
                taken = None
            if taken is not None:
                found.append(measured(key, taken))
            start += skipped(question.skip, taken) if taken else 1
    return found


def skipped(skip: str, taken: Taken) -> int:
    if skip == "TO NEXT ROW":
        return 1
    places = [place for place, (name, _) in enumerate(taken) if skip.endswith(name)]
    if skip.startswith("TO FIRST"):
        return places[0]
    return places[-1] if skip.startswith("TO LAST") else len(taken)


# --- the cases ------------------------------------------------------------------------------------------------------


def some_rows(dice: random.Random, count: int) -> list[Row]:
    """Times come twice, and up to three seconds out of order."""
    return [
        {
            "id": number,
            "t": 60_000 + 100 * (number * 2 + dice.randrange(-15, 15)),
            "k": dice.choice("pq"),
            "x": dice.randrange(3),
            "v": dice.choice([None, *range(8)]),
            "d": dice.choice([None, 1.25, 4.5, 9.75]),
            "f": dice.choice([None, 0.5, 6.25, -3.0]),
        }
        for number in range(count)
    ]


def steps_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Batches of uneven size; both kinds of crash between them; in the end time passes everything."""
    steps: list[dict[str, Any]] = []
    cuts = [0, len(rows) // 5, len(rows) * 3 // 5, len(rows)]
    for part, (begin, end) in enumerate(itertools.pairwise(cuts)):
        sent = [{"value": row} for row in rows[begin:end]]
        steps.append({"send": {"topic": "events", "rows": sent, "batches": 1 + part % 3}})
        steps += BETWEEN[part : part + 1]
    return [*steps, {"advance": {"to": 10_000_000}}]


def check(folder: Path, seed: int, count: int) -> None:
    dice = random.Random(seed)
    asked, rows = questions(dice, count), some_rows(dice, 120)
    expected = {f"m{number}": answer(question, rows) for number, question in enumerate(asked)}
    assert not is_usual() or sum(map(bool, expected.values())) >= count / 2, "half of the patterns are found"
    case = {
        "title": "random patterns",
        "sql": DECLARED + "\n".join(question.sql(f"m{number}") for number, question in enumerate(asked)),
        "stores": {"s": "memory"},
        "steps": steps_of(rows),
        "expect": [{"relation": name, "rows": found} for name, found in expected.items()],
    }
    path = folder / "generated.case.yaml"
    (folder / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=folder)
    texts = [f"{asked[int(f.relation[1:])]}\n{f.text}" if f.relation else f.text for f in result.failures]
    assert result.ok, "\n".join(texts)


def test_random_patterns_find_what_a_plain_search_finds(tmp_path: Path) -> None:
    check(tmp_path, SEED, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(7))
def test_many_random_patterns(seed: int, tmp_path: Path) -> None:
    check(tmp_path, SEED + seed, 10)
