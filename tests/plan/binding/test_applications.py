"""Applications: what is refused, at which place, and what several queries become as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.conditions.sql import applications
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.application import Virtual, readings
from ds_dagster.plan.nodes.delta import DeltaAggregate, Fold
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.project import cache as project_cache
from ds_dagster.project.load import compile_slice, load_project, slice_of
from ds_dagster.settings import Settings
from ds_dagster.sql import print_statement
from tests.plan.conftest import PRELUDE, Compile
from tests.plan.test_refused import FOLDER, places

WARNINGS = ("UNBOUNDED_STATE", "DISTINCT_STATE")
CONSEQUENCES = ("UPSTREAM_FAILED", "APPLICATION_REFUSED")
TEXT = (FOLDER.parent / "application" / "applications.sql").read_text("utf-8")
CASES = [(title, sql) for title, _, sql in (part.partition("\n") for part in TEXT.split("-- case: ")[1:])]
APPLICATION = """
BEGIN APPLICATION a
  CREATE VIRTUAL STREAM v AS SELECT url, userid, amount FROM clicks WHERE ok;
  CREATE STREAM s AS SELECT url, amount FROM v;
  CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n FROM v GROUP BY url;
  CREATE CHANGELOG w AS SELECT window_start, window_end, userid, COUNT(*) AS n
    FROM TUMBLE(clicks, SIZE 1 MINUTE) GROUP BY window_start, window_end, userid;
END APPLICATION;
"""


@pytest.mark.parametrize(("title", "sql"), CASES, ids=[f"{n}-{title}" for n, (title, _) in enumerate(CASES)])
def test_condition_and_place(title: str, sql: str, compile_sql: Compile) -> None:
    text, expected = places(sql)
    project = compile_sql(text)
    found = [d for d in project.diagnostics if d.condition not in WARNINGS]
    assert sorted({d.condition for d in found}) == sorted(title.split()), [d.text() for d in found]
    assert sorted({(d.span.line, d.span.column) for d in found if d.span}) == sorted(expected)
    for diagnostic in found:
        assert diagnostic.hint
        assert "{" not in diagnostic.message + diagnostic.hint, diagnostic
        assert bool(diagnostic.caused_by) == (diagnostic.condition in CONSEQUENCES)
    assert "a" not in project.queries or title == "VIRTUAL_OF_ANOTHER"


def test_every_condition_of_applications_has_a_case() -> None:
    covered = {name for title, _ in CASES for name in title.split()}
    assert {condition.name for condition in applications.CONDITIONS} <= covered


def test_one_wrong_statement_and_every_relation_says_why(compile_sql: Compile) -> None:
    project = compile_sql(APPLICATION.replace("FROM v GROUP BY url", "FROM v GROUP BY nothing"))
    assert project.queries == {}
    why = {broken.name.name: broken.diagnostics[0].condition for broken in project.broken}
    assert why == {"c": "UNKNOWN_COLUMN", "s": "APPLICATION_REFUSED", "w": "APPLICATION_REFUSED"}


def test_it_is_one_job_with_one_scan(compile_sql: Compile) -> None:
    project = compile_sql(APPLICATION)
    (query,) = project.queries.values()
    assert query.name == "a"
    assert [sink.name.name for sink in query.sinks] == ["s", "c", "w"]
    assert [scan.source_name for scan in query.scans] == ["default_public_clicks"]
    assert query.scans[0].columns == ("url", "userid", "amount", "ok")
    assert {id(node) for node in query.plan.walk() if isinstance(node, Scan)} == {id(query.scans[0])}
    assert readings(query.plan) == {"virtual default.public.v": 2, "default_public_clicks": 2}
    assert [part.lineage["url"][0][0].name for part in query.parts[:2]] == ["clicks", "clicks"]
    assert {name.name for name in project.catalog.relations} >= {"s", "c", "w"}
    assert "v" not in {name.name for name in project.catalog.relations}


def test_refined_groups_count_weights_beside_other_state(compile_sql: Compile) -> None:
    (query,) = compile_sql(APPLICATION).queries.values()
    kinds = [{type(n) for n in part.root.walk()} & {Aggregate, DeltaAggregate} for part in query.parts]
    assert kinds == [set(), {DeltaAggregate}, {Aggregate}]
    alone = "BEGIN APPLICATION a CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url; "
    (query,) = compile_sql(alone + "CREATE STREAM s AS SELECT url FROM clicks; END APPLICATION;").queries.values()
    assert Aggregate in {type(node) for node in query.plan.walk()}


STATE = "CREATE VIRTUAL CHANGELOG v AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;"


def test_state_of_a_virtual_relation_is_one_for_all_its_readers(compile_sql: Compile) -> None:
    readers = """CREATE CHANGELOG s AS SELECT url, n FROM v; CREATE CHANGELOG m AS SELECT url, n FROM v WHERE n > 1;
      CREATE CHANGELOG t AS SELECT n, COUNT(*) AS urls FROM v GROUP BY n;"""
    (query,) = compile_sql(f"BEGIN APPLICATION a {STATE} {readers} END APPLICATION;").queries.values()
    virtuals = [node for node in query.plan.walk() if isinstance(node, Virtual)]
    assert len(virtuals) == 3
    assert {repr(node) for node in virtuals} == {repr(virtuals[0])}
    assert virtuals[0].changelog == "weighted"
    counts = readings(query.plan)
    assert any(counts.get(node.shared_name, 0) > 1 and not node.is_plain for node in query.plan.walk())
    assert counts == {"virtual default.public.v": 3, "default_public_clicks": 1}
    kinds = [[type(node) for node in part.root.walk()] for part in query.parts]
    assert [Fold in kind for kind in kinds] == [True, True, False]


def test_readers_without_weights_share_upserts(compile_sql: Compile) -> None:
    readers = "CREATE CHANGELOG s AS SELECT url, n FROM v; CREATE CHANGELOG m AS SELECT url, n + 1 AS n FROM v;"
    (query,) = compile_sql(f"BEGIN APPLICATION a {STATE} {readers} END APPLICATION;").queries.values()
    kinds = [[type(node) for node in part.root.walk()] for part in query.parts]
    assert [(DeltaAggregate in kind, Fold in kind) for kind in kinds] == [(True, False), (True, False)]


def test_virtual_relations_of_virtual_relations_share_too(compile_sql: Compile) -> None:
    sql = f"""BEGIN APPLICATION a {STATE}
      CREATE VIRTUAL CHANGELOG w AS SELECT url, n FROM v WHERE n > 1;
      CREATE CHANGELOG s AS SELECT url, n FROM w;
      CREATE CHANGELOG t AS SELECT n, COUNT(*) AS urls FROM w GROUP BY n;
      CREATE CHANGELOG u AS SELECT url, n FROM v;
    END APPLICATION;"""
    (query,) = compile_sql(sql).queries.values()
    for name in ("v", "w"):
        found = {repr(n) for n in query.plan.walk() if isinstance(n, Virtual) and n.name.endswith(f".{name}")}
        assert len(found) == 1, name
    assert readings(query.plan) == {
        "virtual default.public.v": 2,
        "virtual default.public.w": 2,
        "default_public_clicks": 1,
    }


def test_rows_that_fail_are_left_out_in_one_way_where_they_are_made_once(compile_sql: Compile) -> None:
    same = "QUERY WITH ('row.error.handling' = 'IGNORE')"
    sql = f"""BEGIN APPLICATION a
      CREATE VIRTUAL STREAM v AS SELECT url, amount FROM clicks;
      CREATE VIRTUAL STREAM w AS SELECT CAST(url AS INTEGER) AS n FROM clicks;
      CREATE STREAM s AS SELECT url FROM v;
      CREATE STREAM t AS SELECT CAST(url AS INTEGER) AS n FROM v {same};
      CREATE STREAM x AS SELECT n FROM w {same};
      CREATE STREAM y AS SELECT n + 1 AS n FROM w {same};
    END APPLICATION;"""
    assert compile_sql(sql).errors == ()


def test_a_window_over_a_closed_window_stays_the_one_it_is(compile_sql: Compile) -> None:
    sql = """
    BEGIN APPLICATION a
      CREATE STREAM s AS SELECT url FROM clicks;
      CREATE CHANGELOG m AS SELECT window_start, window_end, MAX(n) AS n FROM (
          SELECT window_start, window_end, url, COUNT(*) AS n FROM TUMBLE(clicks, SIZE 1 MINUTE)
          GROUP BY window_start, window_end, url
        ) AS t GROUP BY window_start, window_end;
    END APPLICATION;
    """
    (query,) = compile_sql(sql).queries.values()
    upper, lower = (node for node in query.plan.walk() if isinstance(node, Aggregate))
    assert (type(upper.window), type(lower.window)) == (Windowed, Window)
    assert all(any(node.window is below for below in node.walk()) for node in (upper, lower))


def test_its_slice_compiles_alone(compile_sql: Compile, settings: Settings) -> None:
    sql = APPLICATION.replace("BEGIN APPLICATION a", "USE DATABASE default; BEGIN APPLICATION a INSERT INTO copies")
    project = compile_sql(sql.replace("INTO copies", "INTO copies SELECT url, at FROM clicks;"))
    (query,) = project.queries.values()
    again = compile_slice(slice_of(project, query), settings)
    assert again.errors == ()
    assert (again.queries["a"].fingerprint, again.queries["a"].state_signature) == (
        query.fingerprint,
        query.state_signature,
    )


def test_a_source_beside_a_virtual_relation_over_it_is_read_once_with_what_both_need(compile_sql: Compile) -> None:
    project = compile_sql("""BEGIN APPLICATION a
      CREATE VIRTUAL STREAM v AS SELECT url, userid FROM clicks;
      CREATE STREAM s AS SELECT c.url, c.amount FROM clicks c JOIN v WITHIN 1 MINUTE ON c.userid = v.userid;
    END APPLICATION;""")
    assert not project.errors, [d.text() for d in project.errors]
    (query,) = project.queries.values()
    (columns,) = {node.columns for node in query.plan.walk() if isinstance(node, Scan)}
    assert columns is not None
    assert {"url", "userid", "amount"} <= set(columns)


def test_properties_behind_end_hold_for_queries_that_say_nothing(compile_sql: Compile) -> None:
    sql = APPLICATION.replace(
        "END APPLICATION", "END APPLICATION WITH ('temporal.join.retention.millis' = 1000)"
    ).replace(
        "SELECT url, amount FROM v;",
        "SELECT v.url, u.name FROM v JOIN users u ON v.userid = u.userid"
        " QUERY WITH ('temporal.join.retention.millis' = 5);",
    )
    project = compile_sql(sql)
    assert not project.errors, [d.text() for d in project.errors]
    (query,) = project.queries.values()
    assert [part.settings["temporal.join.retention.millis"] for part in query.parts] == [5, 1000, 1000]


def test_names_are_taken_once(compile_sql: Compile) -> None:
    project = compile_sql(APPLICATION + "CREATE STREAM a AS SELECT url FROM clicks;")
    assert "QUERY_NAME_TAKEN" in {d.condition for d in project.errors}
    assert list(project.queries) == ["a"]
    assert [sink.name.name for sink in project.queries["a"].sinks] == ["a"]


def test_a_kept_project_knows_its_virtual_relations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_cache, "WORTH_SECONDS", -1.0)
    (tmp_path / "ds.toml").write_text('store = "kafka"\n', encoding="utf-8")
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(PRELUDE + APPLICATION, encoding="utf-8")
    made, kept = (load_project(tmp_path).queries["a"] for _ in range(2))
    assert kept is not made
    assert print_statement(kept.statement) == print_statement(made.statement)
    assert kept.plan == made.plan
