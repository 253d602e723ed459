"""Differences of tables by key, against a comparison in plain Python; and which versions are compared."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import kind_of_store, load_project
from ds_dagster.questions.upkeep.difference import MOST_SAMPLES, Difference, compared, document, sample_text
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.versioning import Versions
from ds_dagster.stores.sqlite.loader import open_loader
from ds_dagster.stores.table_sink import DELETED
from tests.driven import Driven

Rows = dict[tuple[object, object], dict[str, object]]


def table(rows: Rows, columns: tuple[str, ...]) -> pa.Table:
    keys = list(rows)
    parts = {"k": pa.array([k for k, _ in keys], pa.int64()), "l": pa.array([other for _, other in keys], pa.string())}
    parts |= {name: pa.array([rows[key][name] for key in keys], pa.float64()) for name in columns}
    return pa.table(parts)


def model(old: Rows, new: Rows, names: tuple[str, ...]) -> tuple[int, int, int, dict[str, int]]:
    both = old.keys() & new.keys()
    by_column = {name: sum(old[key][name] != new[key][name] for key in both) for name in names}
    changed = sum(any(old[key][name] != new[key][name] for name in names) for key in both)
    return len(new.keys() - both), len(old.keys() - both), changed, {n: c for n, c in by_column.items() if c}


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_a_plain_comparison(seed: int) -> None:
    draw = random.Random(seed)
    keys = [(k, other) for k in (None, 1, 2, 3, 4, 5) for other in (None, "a", "b")]
    sides: list[Rows] = [
        {key: {name: draw.choice((None, 0.0, 1.5)) for name in "xy"} for key in keys if draw.random() < 0.7}
        for _ in range(2)
    ]
    result = compared(table(sides[0], ("x", "y")), table(sides[1], ("y", "x")), ["k", "l"])
    assert (result.added, result.removed, result.changed, dict(result.columns)) == model(*sides, ("x", "y"))
    assert (result.rows_before, result.rows_after) == tuple(map(len, sides))
    assert len(result.samples) == min(result.added + result.removed + result.changed, MOST_SAMPLES)


def test_equal_tables_have_no_difference() -> None:
    rows: Rows = {(1, "a"): {"x": None}, (None, None): {"x": 2.0}}
    result = compared(table(rows, ("x",)), table(dict(reversed(rows.items())), ("x",)), ["k", "l"])
    assert result.is_equal and result.samples == ()
    empty = compared(table({}, ("x",)), table({}, ("x",)), ["k", "l"])
    assert empty.is_equal and empty.rows_before == 0


def test_columns_come_and_go_and_change_their_type() -> None:
    before = pa.table({"k": [1, 2], "n": pa.array([1, 2], pa.int32()), "old": ["x", "y"]})
    after = pa.table({"k": [2, 1], "n": pa.array([2, 7], pa.int64()), "new": ["x", "y"]})
    result = compared(before, after, ["k"])
    assert (result.new_columns, result.lost_columns, dict(result.columns)) == (("new",), ("old",), {"n": 1})
    assert result.samples == ({"key": {"k": "1"}, "before": {"n": "1"}, "after": {"n": "7"}},)


def test_samples_say_what_happened() -> None:
    before = pa.table({"a b": [1, 2], "n": [1, 2]})
    after = pa.table({"a b": [2, 3], "n": [5, 6]})
    result = compared(before, after, ["a b"])
    assert [sample_text(sample) for sample in result.samples] == [
        '- {"a b": "1"}  {"n": "1"}',
        '~ {"a b": "2"}  {"n": "2"} → {"n": "5"}',
        '+ {"a b": "3"}  {"n": "6"}',
    ]
    assert document(result)["rows"] == {"before": 2, "after": 2}
    assert isinstance(result, Difference) and not result.is_equal


STAGED = ("count(*) AS n FROM clicks GROUP BY url, device", "count(*) + 1 AS n FROM clicks GROUP BY url, device")


def test_a_staged_view_is_compared_with_the_one_that_serves(project: Path, ds: Any, views: Any) -> None:
    control = Control.open(views.project.settings)
    control.ensure(views.project, ["visits"], requested_by="ann")
    assert ds("diff", "visits").code == 1  # nothing is staged
    views.write("visits", {"url": ["a", "b", None], "device": ["m", "m", "d"], "n": [1, 2, 3]})
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text().replace(*STAGED))
    changed = load_project(project, strict=True)
    Versions(control, "ann").stage(changed, "visits")
    write_beside(changed, "visits", {"url": ["a", None, "c"], "device": ["m", "d", "d"], "n": [1, 4, 5]})

    outcome = ds("diff", "visits", "--json", "--exit-code")
    assert outcome.code == 2
    assert {name: outcome.json[name] for name in ("rows", "added", "removed", "changed", "columns", "versions")} == {
        "rows": {"before": 3, "after": 3},
        "added": 1,
        "removed": 1,
        "changed": 1,
        "columns": {"n": 1},
        "versions": {"before": 1, "after": 2},
    }
    shown = ds("diff", "visits")
    assert shown.code == 0 and "1 added, 1 removed, 1 changed" in shown.err
    assert '~ {"url": null, "device": "d"}  {"n": "3"} → {"n": "4"}' in shown.out
    assert "DIFF_WITHOUT_VERSION" in ds("diff", "visits", "--version", "7").err


def test_views_without_a_key_are_refused(project: Path, ds: Any, views: Any) -> None:
    control = Control.open(views.project.settings)
    control.ensure(views.project, ["log"], requested_by="ann")
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text().replace("SELECT at, url, price", "SELECT at, UPPER(url) AS url, price"))
    Versions(control, "ann").stage(load_project(project, strict=True), "log")
    assert "DIFF_WITHOUT_KEY" in ds("diff", "log").err


def write_beside(project: Any, view: str, columns: dict[str, list[Any]]) -> None:
    """A batch into the second version of a view."""
    relation = project.catalog.relation(QualifiedName("d", "public", view))
    kind = kind_of_store(project, relation)
    spec = kind.write_spec(project.catalog.store(relation.store), relation, "continuous")
    assert spec.table is not None
    beside = replace(spec, table=replace(spec.table, path=kind.version_path(spec.table.path, 2)))
    loader = Driven(open_loader(beside, SinkIdentity(f"dev.{view}@2", 1), lambda value: str(value.value)))
    loader.prepare()
    rows = pa.table(columns)
    loader.load(rows.append_column(DELETED, pa.array([False] * rows.num_rows)), 0)
    loader.close()
