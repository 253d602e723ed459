"""Edits that keep their checkpoint, stopped and started both ways, against a batch query over all records."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import duckdb
import pytest

from ds_dagster.runtime.deciding.changes import recompiled, spec_going_on
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from tests.plan.identity.edits import Definition, Edit, edits, job_row

PHASES: tuple[tuple[int, Mapping[str, tuple[tuple[int, str, str, int, int], ...]]], ...] = (
    (
        80_000,
        {
            "a": (
                *((1, "q", "A1", 1, 10), (2, "b", "A2", 2, 20), (1, "c", "A3", 3, 61)),
                *((3, "d", "A4", 4, 62), (1, "e", "A5", 5, 63)),
            ),
            "b": ((1, "q", "B1", 1, 11), (2, "c", "B2", 2, 64), (3, "d", "B3", 3, 65)),
            "u": ((1, "q", "U1", 1, 1), (2, "b", "U2", 2, 2), (3, "c", "U3", 3, 3)),
            "z": ((1, "r", "Z1", 1, 1), (2, "s", "Z2", 2, 2), (3, "t", "Z3", 3, 3)),
        },
    ),
    (
        170_000,
        {
            "a": ((1, "q", "A6", 6, 95), (2, "z", "A7", 0, 96), (4, "b", "A8", 4, 150), (3, "e", "A9", 9, 151)),
            "b": ((1, "e", "B4", 4, 97), (3, "d", "B5", 5, 98), (4, "q", "B6", 6, 152)),
            "u": ((1, "r", "U4", 4, 92), (2, "q", "U5", 5, 93), (4, "d", "U6", 6, 94)),
            "z": ((2, "q", "Z4", 4, 92), (4, "v", "Z5", 5, 94)),
        },
    ),
    (
        400_000,
        {
            "a": ((1, "f", "A10", 7, 185), (2, "q", "A11", 8, 186), (4, "c", "A12", 1, 187), (3, "q", "A13", 2, 250)),
            "b": ((1, "f", "B7", 7, 188), (2, "g", "B8", 8, 189), (4, "c", "B9", 9, 190), (3, "h", "B10", 1, 251)),
            "u": ((1, "s", "U7", 7, 181), (2, "t", "U8", 8, 182), (3, "q", "U9", 9, 183)),
            "z": ((1, "q", "Z6", 6, 181), (3, "q", "Z7", 7, 182), (4, "d", "Z8", 8, 183)),
        },
    ),
)
"""Watermark at the end of a phase, and its records: four columns and seconds of event time. Restarts lie between rows
that join, within windows, and before updates of a key."""
COLUMNS = {
    "a": ("k", "x", "y", "n", "ts"),
    "b": ("k", "v", "w", "n", "ts"),
    "u": ("k", "p", "q", "n", "ts"),
    "z": ("k", "p", "q", "n", "ts"),
}
KEYED = ("u", "z")
SHORT = (
    "Columns and filters of a stream: another filter",
    "Columns and filters of a changelog: another filter",
    "Groups: an aggregate removed",
    "Groups: state on disk",
    "Groups below a projection: totals in another order",
    "Totals beside distinct values: a wider type of the source's column",
    "Windows: a condition on windows",
    "Joins of streams: a filter on one side",
    "Joins of changelogs: an expression",
)
"""Edits of each run: one per way in which a query keeps its state."""
SHORT_PARTIAL = ("Groups: an aggregate added", "Windows: an aggregate added")
NOTHING: Mapping[str, str] = MappingProxyType({})
NEWEST = "CREATE VIEW {0} AS SELECT * FROM {0}_all QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts DESC) = 1"
VERSIONS = """CREATE VIEW {0}_versions AS
SELECT *, ts AS since, lead(ts, 1, 9000000000000000) OVER (PARTITION BY k ORDER BY ts) AS til FROM {0}_all"""


def records(topic: str, phase: int) -> Iterator[dict[str, Any]]:
    for *values, seconds in PHASES[phase][1][topic]:
        yield dict(zip(COLUMNS[topic], (*values, seconds * 1000), strict=True))


def batch(definition: Definition, phases: int, since: int = 0) -> list[dict[str, Any]]:
    """What the definition makes of the records of the first phases, as DuckDB computes it; without those before
    ``since``."""
    with duckdb.connect() as connection:
        for topic, columns in COLUMNS.items():
            table = f"{topic}_all" if topic in KEYED else topic
            types = {"ts": "BIGINT", "k": "INTEGER", "n": "INTEGER"}
            declared = ", ".join(f"{name} {types.get(name, 'VARCHAR')}" for name in columns)
            connection.execute(f"CREATE TABLE {table} ({declared})")
            for phase in range(since, phases):
                for row in records(topic, phase):
                    connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", list(row.values()))
        for topic in KEYED:
            connection.execute(NEWEST.format(topic))
            connection.execute(VERSIONS.format(topic))
        now = PHASES[phases - 1][0] if phases else 0
        result = connection.execute(definition.model.replace("$now", str(now)))
        names = [column[0] for column in result.description]
        rows = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
        return [{name: value for name, value in row.items() if name != "closes"} for row in rows]


def text_of(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def appended(history: tuple[Definition, ...]) -> Counter[str]:
    """Each phase adds the rows that its definition makes of all records and not of those before it."""
    total: Counter[str] = Counter()
    for phase, definition in enumerate(history):
        now, before = (Counter(map(text_of, batch(definition, n))) for n in (phase + 1, phase))
        total += now - before
    return total


Rows = dict[tuple[Any, ...], dict[str, Any]]


def by_key(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> Rows:
    return {tuple(row[key] for key in keys): row for row in rows}


def mixed(definition: Definition, phases: int, keys: tuple[str, ...], partial: Mapping[str, str]) -> Rows:
    """Rows of the definition whose partial results are those of the records since phase 1."""
    rows = by_key(batch(definition, phases), keys)
    late = by_key(batch(definition, phases, 1), keys) if partial else {}
    for key, row in rows.items():
        for column, call in partial.items():
            row[column] = late[key][column] if key in late else 0 if call.startswith("COUNT") else None
    return rows


def folded(history: tuple[Definition, ...], keys: tuple[str, ...], partial: Mapping[str, str] = NOTHING) -> Rows:
    """The row of a key is that of the last phase whose records changed it; the model shows rows that a filter leaves
    out as missing. ``partial``: results that the definition of phase 1 has added."""
    state: Rows = {}
    for phase, definition in enumerate(history):
        rows = [mixed(definition, n, keys, partial if phase == 1 else NOTHING) for n in (phase + 1, phase)]
        topics = set(re.findall(r"\b(?:FROM|JOIN) (\w)\b", definition.model))
        touched = {(row["k"],) for topic in topics for row in records(topic, phase)} if keys == ("k",) else set()
        now, before = rows
        for key in touched | {key for key in now | before if now.get(key) != before.get(key)}:
            state.pop(key, None)
            state |= {key: now[key]} if key in now else {}
    return state


def rows_of(bench: Any, keys: tuple[str, ...]) -> Any:
    """What the query has written: a bag of rows, or the rows by key."""
    if not keys:
        return Counter(map(text_of, bench.values))
    if bench.rows.loaded:
        return bench.rows.folded(*keys)
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for text, value in bench.folded().items():
        key = json.loads(text)
        rows[tuple(key[name] for name in keys)] = {**key, **value}
    return rows


def send(bench: Any, phase: int) -> None:
    for topic in COLUMNS:
        sent = [({"k": row["k"]} if topic in KEYED else None, row, row["ts"], "0") for row in records(topic, phase)]
        bench.topic(topic).send_all(sent)  # a record by itself would be a task of its own


def run(bench: Any, history: tuple[Definition, ...], *, is_ordered: bool = True, grows: bool = False) -> None:
    """One definition after the other on one checkpoint, each with the records of its phase. A definition goes on as
    its job spec says. ``is_ordered``: False begins with a checkpoint as earlier versions of the package made it;
    ``grows``: the second definition adds results to the state."""
    spec = None
    for phase, definition in enumerate(history):
        project = bench.compile(definition.sql)
        if spec is not None:
            job, is_wide = job_row(spec), grows and phase == 1
            spec = JobSpec.from_json(spec_going_on(project, project.queries["s"], job, grows=is_wide).to_json())
            bench.project = replace(project, queries={"s": recompiled(spec, project.settings)[1]})
        elif not is_ordered:
            spec = replace(job_spec(project, project.queries["s"]), ordered_state=False)
            bench.project = replace(project, queries={"s": recompiled(spec, project.settings)[1]})
        spec = spec or job_spec(project, project.queries["s"])
        query = bench.start("s", grows=spec.grows)
        send(bench, phase)
        bench.settle(query)
        if bench.running[-1][0].clock:
            bench.advance(query, PHASES[phase][0])
        bench.stop()


def cases() -> Iterator[Any]:
    """Some edits in each run, all in the long tier. The reverse of an edit is one, too."""
    for edit in edits():
        if not {edit.verdict, edit.back} & {"keeps", "unchanged"}:
            continue
        is_reversed = edit.verdict not in ("keeps", "unchanged")
        shown = replace(edit, before=edit.after, after=edit.before) if is_reversed else edit
        yield pytest.param(shown, id=edit.title, marks=[] if edit.title in SHORT else [pytest.mark.slow])


@pytest.mark.parametrize("edit", list(cases()))
def test_rows_are_those_of_the_model(bench, edit: Edit) -> None:
    history = (edit.before, edit.after, edit.before)
    run(bench, history)
    expected: Any = folded(history, edit.keys) if edit.keys else appended(history)
    assert rows_of(bench, edit.keys) == expected


def partial_cases() -> Iterator[Any]:
    """Edits in the directions in which they add results."""
    for edit in edits():
        back = replace(edit, before=edit.after, after=edit.before, partial=edit.back_partial)
        for name, shown in (("", edit), (", back", back)):
            if shown.partial:
                title = edit.title + name
                yield pytest.param(shown, id=title, marks=[] if title in SHORT_PARTIAL else [pytest.mark.slow])


@pytest.mark.parametrize("edit", list(partial_cases()))
def test_added_results_count_the_rows_since_the_change(bench, edit: Edit) -> None:
    history = (edit.before, edit.after, edit.before)
    run(bench, history, grows=True)
    assert rows_of(bench, edit.keys) == folded(history, edit.keys, edit.partial)


UPGRADED = {
    "as it was": ("Groups below a projection: totals in another order", False),
    "in order": ("Groups: an aggregate removed", True),
    "windows": ("Windows: a condition on windows", True),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UPGRADED)
def test_a_checkpoint_of_an_earlier_version_goes_on(bench, case: str) -> None:
    title, is_changed = UPGRADED[case]
    edit = next(edit for edit in edits() if edit.title == title)
    history = (edit.before, edit.after if is_changed else edit.before, edit.before)
    run(bench, history, is_ordered=False)
    assert rows_of(bench, edit.keys) == folded(history, edit.keys)


def renewed(bench: Any, old: Definition, new: Definition, keys: tuple[str, ...]) -> tuple[Any, Any]:
    """What the new definition writes from a checkpoint of its own, after the old one has run, and its model. A topic in
    memory forgets what was read, so it is sent again."""
    run(bench, (old,))
    bench.records.clear()
    bench.rows.loaded.clear()
    bench.topics.clear()
    bench.compile(new.sql)
    shutil.rmtree(bench.folder / "checkpoints")
    query = bench.start("s")
    for phase, (now, _) in enumerate(PHASES):
        send(bench, phase)
        bench.settle(query)
        if bench.running[-1][0].clock:
            bench.advance(query, now)
    bench.stop()
    rows = batch(new, len(PHASES))
    expected = {tuple(row[key] for key in keys): row for row in rows} if keys else Counter(map(text_of, rows))
    return rows_of(bench, keys), expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit", [pytest.param(e, id=e.title) for e in edits() if e.verdict in ("new version", "loses")]
)
def test_a_new_version_has_the_rows_of_the_model(bench, edit: Edit) -> None:
    found, expected = renewed(bench, edit.before, edit.after, edit.keys)
    assert found == expected
