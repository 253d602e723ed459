# ruff: noqa: E501 - statements stay on one line
"""Values of every type go through every step that keeps rows, and a restart, and come out as they went in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.datatypes import Scalar, is_comparable, is_orderable
from ds_dagster.plan.binding.running import TOTALS, VALUES
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.testing.runner import run_case
from ds_dagster.testing.session import shared_session
from tests.spark.functions.calls_of_types import COLUMNS, KINDS
from tests.spark.records.values_of_types import COLUMN_TYPES, value_of

pytestmark = pytest.mark.cases

END = 10_000_000
"""Every window is closed by then, in epoch milliseconds."""
SENT = {"id": 1, **{column: value_of(type_, None) for column, type_ in COLUMN_TYPES.items()}}
ALL = list(COLUMN_TYPES)
EACH_KIND = [COLUMNS[type_] for type_ in KINDS]
WITH_TIME = {column for type_, column in COLUMNS.items() if "TIME" in type_.replace("TIMESTAMP", "")}
"""Columns that steps of ours cannot keep (``plan/checks/kept_types.py``)."""
DECLARED = ", ".join(f"{column} {text}" for text, column in COLUMNS.items())
SOURCES = "".join(
    f"CREATE STREAM {name} (id INTEGER, at BIGINT, {DECLARED}) "
    f"WITH ('topic' = '{name}', 'value.format' = 'json', 'timestamp' = 'at');\n"
    for name in ("s", "r")
) + "".join(
    f"CREATE CHANGELOG {name} (id INTEGER, at BIGINT, {DECLARED}, PRIMARY KEY (id)) "
    f"WITH ('topic' = '{name}', 'value.format' = 'json', 'timestamp' = 'at');\n"
    for name in ("c", "e")
)
FRAMES: Mapping[str, str] = {
    "until_now": "OVER (PARTITION BY id ORDER BY at)",
    "rows": "OVER (PARTITION BY id ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "seconds": "OVER (PARTITION BY id ORDER BY at RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW)",
}

LIKE_ANOTHER = frozenset(
    ("partitions", "different", "intersection", "matches_by_all", "windows", "pairs", "partners", "elements")
)
"""Steps that keep rows the way another one does, or none: of the long tier."""
PICKING = frozenset(("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"))
"""Functions that give one of the values."""


@dataclass(frozen=True)
class Step:
    """A statement without ``CREATE``, its name as ``{}``; what each of its rows has; how many rows."""

    statement: str
    row: Mapping[str, Any]
    rows: int


def same_values(columns: Iterable[str]) -> Mapping[str, Any]:
    """Columns as they were sent."""
    return {column: SENT[column] for column in columns}


def listed(form: str, columns: Iterable[str], between: str = ", ") -> str:
    """The form once for each column, which it calls ``{}``."""
    return between.join(form.replace("{}", column) for column in columns)


def steps(columns: Sequence[str]) -> Mapping[str, Step]:
    """Name → step over these columns."""
    comparable = [column for column in columns if is_comparable(COLUMN_TYPES[column])]
    orderable = [column for column in columns if is_orderable(COLUMN_TYPES[column])]
    scalars = [column for column in columns if isinstance(COLUMN_TYPES[column], Scalar)]
    equal, same = listed("x.{} = y.{}", comparable, " AND "), listed("{} AS {}", columns)
    of_right, listed_comparable = listed("y.{} AS {}", columns), listed("{}", comparable)
    listed_scalars = listed("{}", scalars)
    elements = listed("ARRAY_AGG({})[1] AS {}", comparable)
    return {
        "lag": Step(
            f"STREAM {{}} AS SELECT id, {listed('LAG({}) OVER (PARTITION BY id ORDER BY at) AS {}', columns)} FROM s",
            {},
            2,
        ),
        "partitions": Step(
            f"STREAM {{}} AS SELECT COUNT(*) OVER (PARTITION BY {listed_comparable} ORDER BY at ROWS 1 PRECEDING) AS n, {same} FROM s",
            same_values(columns),
            2,
        ),
        "ranks": Step(
            f"CHANGELOG {{}} AS SELECT id, {same} FROM (SELECT id, {same}, ROW_NUMBER() OVER "
            f"(PARTITION BY id ORDER BY {listed('{}', orderable)}) AS n FROM s) q WHERE n = 1",
            same_values(columns),
            1,
        ),
        "different": Step(
            f"STREAM {{}} AS SELECT DISTINCT {listed('{} AS {}', comparable)} FROM s", same_values(comparable), 1
        ),
        "intersection": Step(
            f"CHANGELOG {{}} AS SELECT id, {elements} FROM "
            f"(SELECT id, {listed_comparable} FROM s INTERSECT SELECT id, {listed_comparable} FROM c) q GROUP BY id",
            same_values(comparable),
            1,
        ),
        "changing_groups": Step(
            f"CHANGELOG {{}} AS SELECT id, {elements} FROM "
            f"(SELECT id, {listed_comparable}, COUNT(*) AS n FROM c GROUP BY id, {listed_comparable}) q GROUP BY id",
            same_values(comparable),
            1,
        ),
        "latest": Step(
            f"CHANGELOG {{}} AS SELECT id, {listed('LAST_VALUE({}) AS {}', comparable)} FROM c GROUP BY id",
            same_values(comparable),
            1,
        ),
        "picked": Step(
            f"CHANGELOG {{}} AS SELECT id, {listed('FIRST_VALUE({}) AS {}', columns)} FROM s GROUP BY id",
            same_values(columns),
            1,
        ),
        "window_pairs": Step(
            f"STREAM {{}} AS SELECT x.id, {of_right} FROM TUMBLE(s, SIZE 1 HOUR) x JOIN TUMBLE(r, SIZE 1 HOUR) y "
            f"ON x.window_start = y.window_start AND x.window_end = y.window_end AND {equal}",
            same_values(columns),
            4,
        ),
        "matches_by_all": Step(
            f"STREAM {{}} AS SELECT {listed_scalars} FROM s MATCH_RECOGNIZE (PARTITION BY {listed_scalars} "
            "ORDER BY at MEASURES COUNT(*) AS n PATTERN (A B) WITHIN 1 HOUR DEFINE A AS A.at > 0)",
            same_values(scalars),
            1,
        ),
        "windows": Step(
            f"CHANGELOG {{}} AS SELECT window_start, window_end, {listed('{}', scalars)}, "
            f"{listed('LAST_VALUE({}) AS l{}', columns)} FROM TUMBLE(s, SIZE 1 HOUR) "
            f"GROUP BY window_start, window_end, {listed('{}', scalars)}",
            same_values(scalars),
            1,
        ),
        "pairs": Step(
            f"STREAM {{}} AS SELECT x.id, {of_right} FROM s x LEFT JOIN r y WITHIN 1 HOUR ON {equal}",
            same_values(columns),
            4,
        ),
        "versions": Step(
            f"STREAM {{}} AS SELECT x.id, {of_right} FROM s x LEFT JOIN c y ON x.id = y.id", same_values(columns), 2
        ),
        "both": Step(
            f"CHANGELOG {{}} AS SELECT x.id, y.id AS other, {of_right} FROM c x JOIN e y ON {equal}",
            same_values(columns),
            1,
        ),
        "partners": Step(
            f"CHANGELOG {{}} AS SELECT x.id, {listed('x.{} AS {}', columns)} FROM c x WHERE EXISTS (SELECT 1 FROM e y WHERE {equal})",
            same_values(columns),
            1,
        ),
        "matches": Step(
            f"STREAM {{}} AS SELECT {listed('{}', columns)} FROM s MATCH_RECOGNIZE (PARTITION BY id ORDER BY at "
            f"MEASURES {listed('FIRST(A.{}) AS {}', columns)} PATTERN (A B) WITHIN 1 HOUR DEFINE A AS A.at > 0)",
            same_values(columns),
            1,
        ),
        "elements": Step(
            f"STREAM {{}} AS SELECT {of_right} FROM s x CROSS JOIN UNNEST(ARRAY[STRUCT({listed('x.{} AS {}', columns)})]) AS y",
            same_values(columns),
            2,
        ),
    }


def over(frame: str, calls: Sequence[tuple[str, str]]) -> Step:
    """Functions of columns over a frame of equal rows."""
    named = [f"{function}({column}) {frame} AS x{n}" for n, (function, column) in enumerate(calls)]
    row = {f"x{n}": SENT[column] for n, (function, column) in enumerate(calls) if function in PICKING}
    return Step(f"STREAM {{}} AS SELECT {', '.join(named)} FROM s", row, 2)


@dataclass(frozen=True)
class Checked:
    """What the compiler accepts in a folder, of these columns."""

    folder: Path
    columns: Sequence[str]

    def project(self, statements: Mapping[str, str]) -> LoadedProject:
        """Statements (without ``CREATE``) over the sources, each in a file of its name."""
        texts = [("sources", f"CREATE STORE m WITH ('type' = MEMORY);\n{SOURCES}")]
        texts += [(name, f"CREATE {statement.format(name)};") for name, statement in statements.items()]
        return compile_texts(texts, Settings(root=self.folder, sql=self.folder, state=self.folder, store="m"))

    def calls(self, frame: str) -> list[tuple[str, str]]:
        """Functions over a frame and the columns of every type that they take."""
        calls = [(function, column) for function in sorted((TOTALS | VALUES) - {"LAG"}) for column in self.columns]
        queries = self.project({f"t{n}": over(frame, [call]).statement for n, call in enumerate(calls)}).queries
        return [call for n, call in enumerate(calls) if f"t{n}" in queries]

    def steps(self) -> Mapping[str, Step]:
        """Steps over columns of every type; without TIME where that is refused as a type which a step cannot keep."""
        whole = steps(self.columns)
        kept = steps([column for column in self.columns if column not in WITH_TIME])
        project = self.project({name: step.statement for name, step in whole.items()})
        refused = {problem.span.file: problem.condition for problem in project.errors if problem.span}
        assert set(refused.values()) == {"STATE_TYPE_NOT_YET"}, refused
        return {name: kept[name] if name in refused else step for name, step in whole.items()}


def sent(at: int) -> dict[str, Any]:
    """A step that sends the row to every source."""
    rows = [{"key": {"id": 1}, "value": {**SENT, "at": at}, "at": at}]
    return {"send": [{"topic": topic, "rows": rows} for topic in "scre"]}


def expected(name: str, step: Step) -> dict[str, Any]:
    """The rows of a step's relation."""
    return {"relation": name, "columns": "subset", "rows": [step.row] * step.rows}


@pytest.mark.parametrize(
    "columns", [pytest.param(EACH_KIND, id="each_kind"), pytest.param(ALL, id="all", marks=pytest.mark.slow)]
)
def test_values_of_every_type_go_through_every_step(columns: Sequence[str], tmp_path: Path) -> None:
    checked = Checked(tmp_path, columns)
    shares = 1 if columns is ALL else len(FRAMES)  # a type of each kind: each function of each of them over one frame
    calls = {name: checked.calls(frame)[n % shares :: shares] for n, (name, frame) in enumerate(FRAMES.items())}
    assert all({function for function, _ in taken} == (TOTALS | VALUES) - {"LAG"} for taken in calls.values())
    kept = {name: step for name, step in checked.steps().items() if columns is ALL or name not in LIKE_ANOTHER}
    steps_ = {**kept, **{name: over(frame, calls[name]) for name, frame in FRAMES.items()}}
    case = {
        "title": "every type through every step",
        "sql": SOURCES + "\n".join(f"CREATE {step.statement.format(name)};" for name, step in steps_.items()),
        "stores": {"m": "memory"},
        "steps": [
            sent(1_000),
            {"restart": {}},
            sent(2_000),
            {"advance": {"to": END}},
        ],
        "expect": [expected(name, step) for name, step in steps_.items() if step.row],
    }
    path = tmp_path / "types.case.yaml"
    (tmp_path / "ds.toml").touch()
    path.write_text(json.dumps(case), encoding="utf-8")
    result = run_case(path, shared_session, root=tmp_path)
    assert result.ok, "\n".join(failure.text for failure in result.failures)
