"""Which versions are compared, what is said of them, and what is said where none can be compared."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import kind_of_store, load_project
from ds_dagster.questions.upkeep import folding
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.versioning import Versions
from ds_dagster.stores.sqlite.loader import open_loader
from ds_dagster.stores.table_sink import DELETED
from tests.driven import Driven
from tests.questions.upkeep.test_folding import Topics

STAGED = ("count(*) AS n FROM clicks GROUP BY url, device", "count(*) + 1 AS n FROM clicks GROUP BY url, device")


def test_a_staged_view_is_compared_with_the_one_that_serves(project: Path, ds: Any, views: Any) -> None:
    control = Control.open(views.project.settings)
    control.ensure(views.project, ["visits"], requested_by="ann")
    refused = ds("diff", "visits")
    assert refused.code == 1 and "change its statement, then `ds stage visits`" in refused.err
    views.write("visits", {"url": ["a", "b", None], "device": ["m", "m", "d"], "n": [1, 2, 3]})
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text().replace(*STAGED))
    changed = load_project(project, strict=True)
    assert "hint: `ds stage visits` builds the changed definition as a version" in ds("diff", "visits").err
    Versions(control, "ann").stage(changed, "visits")
    missing = ds("diff", "visits").err
    assert "version 2 of visits has not written any rows yet; it is staged, not running" in missing
    assert "does not run: start it with `ds engine start`" in missing
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
    assert "version 2 is staged, not running" in shown.err
    refused = ds("diff", "visits", "--version", "7")
    assert "DIFF_WITHOUT_VERSION" in refused.err and "its versions are: 1 (serving), 2 (staged)" in refused.err
    assert "version 1, which serves" in ds("diff", "visits", "--version", "1").err


def test_views_without_a_key_are_refused(project: Path, ds: Any, views: Any) -> None:
    control = Control.open(views.project.settings)
    control.ensure(views.project, ["log"], requested_by="ann")
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text().replace("SELECT at, url, price", "SELECT at, UPPER(url) AS url, price"))
    Versions(control, "ann").stage(load_project(project, strict=True), "log")
    assert "DIFF_WITHOUT_KEY" in ds("diff", "log").err


def test_columns_come_and_go_and_change_their_type(project: Path, ds: Any, views: Any) -> None:
    control = Control.open(views.project.settings)
    control.ensure(views.project, ["visits"], requested_by="ann")
    views.write("visits", {"url": ["a"], "device": ["m"], "n": [1]})
    file = project / "sql" / "all.sql"
    retyped = "CAST(count(*) AS VARCHAR) AS n, max(price) AS most FROM clicks GROUP BY url, device"
    file.write_text(file.read_text().replace(STAGED[0], retyped))
    changed = load_project(project, strict=True)
    Versions(control, "ann").stage(changed, "visits")
    write_beside(changed, "visits", {"url": ["a"], "device": ["m"], "n": ["1"], "most": [Decimal("1.50")]})
    outcome = ds("diff", "visits", "--json", "--exit-code")
    assert (outcome.code, outcome.json["changed"], outcome.json["columns"]) == (2, 0, {})
    assert outcome.json["types"] == {"n": {"before": "BIGINT NOT NULL", "after": "VARCHAR NOT NULL"}}
    assert (outcome.json["new_columns"], outcome.json["lost_columns"]) == (["most"], [])
    shown = ds("diff", "visits").err
    assert "column n has another type: BIGINT NOT NULL → VARCHAR NOT NULL" in shown
    assert "columns only in version 2: most" in shown and "0 changed" in shown


COUNTS = "CREATE CHANGELOG counts AS SELECT url, count(*) AS n FROM clicks GROUP BY url;"


def key_of(url: str | None) -> bytes:
    return json.dumps({"url": url}, separators=(",", ":")).encode()


def test_a_staged_changelog_is_compared_by_the_rows_of_its_topics(
    project: Path, ds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / "sql" / "all.sql"
    text = file.read_text()
    file.write_text(text + COUNTS)
    loaded = load_project(project, strict=True)
    control = Control.open(loaded.settings)
    control.ensure(loaded, ["counts"], requested_by="ann")
    file.write_text(text + COUNTS.replace("count(*) AS n", "count(*) + 1 AS n, max(price) AS most"))
    assert Versions(control, "ann").stage(load_project(project, strict=True), "counts") == "counts@2"
    topics = {"counts": topic({"a": 1, "b": 2, "c": 3}, gone=("c",))}
    monkeypatch.setattr(folding, "store_admin", lambda *_: Topics(topics))
    assert "DIFF_WITHOUT_ROWS" in ds("diff", "counts").err
    topics["counts-ds-v2"] = topic({"b": 3, "d": 4}, gone=())
    outcome = ds("diff", "counts", "--json", "--exit-code")
    assert outcome.code == 2, outcome
    shown = {name: outcome.json[name] for name in ("rows", "added", "removed", "changed", "columns", "new_columns")}
    assert shown == {
        "rows": {"before": 2, "after": 2},
        "added": 1,
        "removed": 1,
        "changed": 1,
        "columns": {"n": 1},
        "new_columns": ["most"],
    }
    assert '~ {"url": "b"}  {"n": "2"} → {"n": "3"}' in ds("diff", "counts").out
    monkeypatch.setattr(folding, "MOST_ROWS", 2)
    assert "the topic counts has more than 2 keys" in ds("diff", "counts").err


def topic(rows: dict[str, int], gone: tuple[str, ...]) -> list[RawRecord]:
    values = [(url, json.dumps({"url": url, "n": n}).encode()) for url, n in rows.items()]
    records = [*values, *((url, None) for url in gone)]
    return [RawRecord("0", str(place), place, key_of(url), value) for place, (url, value) in enumerate(records)]


IMPOSSIBLE = {
    "clicks": (None, "no query of the project fills it", "`ds print clicks`"),
    "urls": (
        "CREATE STREAM urls AS SELECT url FROM clicks;",
        "versions of this stream write it in turn",
        "`ds plan urls`",
    ),
    "paid": (None, "its query was never started", "`ds apply paid` starts it"),
    "orders": (None, "its query was never started", "`ds apply orders` starts it"),
}


@pytest.mark.parametrize("relation", IMPOSSIBLE)
def test_the_hint_is_possible_where_no_versions_can_be_compared(project: Path, ds: Any, relation: str) -> None:
    statement, reason, hint = IMPOSSIBLE[relation]
    if statement:
        file = project / "sql" / "all.sql"
        file.write_text(file.read_text() + statement)
        loaded = load_project(project, strict=True)
        Control.open(loaded.settings).ensure(loaded, [relation], requested_by="ann")
    refused = ds("diff", relation).err
    assert "DIFF_IMPOSSIBLE" in refused and reason in refused and hint in refused


def test_a_query_that_cannot_have_versions_says_why(project: Path, ds: Any) -> None:
    file = project / "sql" / "all.sql"
    file.write_text(file.read_text() + COUNTS.replace(" AS SELECT", " WITH ('delivery' = 'at_least_once') AS SELECT"))
    loaded = load_project(project, strict=True)
    Control.open(loaded.settings).ensure(loaded, ["counts"], requested_by="ann")
    refused = ds("diff", "counts").err
    assert "is not written exactly once" in refused and "`ds plan counts`" in refused


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
