"""Constraints in a project: the quarantine of a relation, and what a slice carries."""

from __future__ import annotations

from ds_dagster.catalog.row_log import COLUMNS
from ds_dagster.project.load import compile_slice, slice_of
from ds_dagster.settings import Settings
from tests.plan.conftest import Compile

JSON = "'topic.partitions' = 1, 'topic.replicas' = 1, 'value.format' = 'json'"
CHECKED = f"""CREATE STREAM s (a INT, b INT, CONSTRAINT c CHECK (b > 1) ON VIOLATION QUARANTINE)
  WITH ({JSON}, 'topic' = 't', 'quarantine.topic' = 'aside');"""


def test_the_quarantine_of_a_declared_relation_is_a_relation(compile_sql: Compile) -> None:
    project = compile_sql(
        CHECKED + "CREATE STREAM r AS SELECT a FROM s; CREATE STREAM q AS SELECT reason FROM s_quarantine;"
    )
    assert not project.errors, [one.text() for one in project.errors]
    (log,) = [relation for name, relation in project.catalog.relations.items() if name.name == "s_quarantine"]
    assert (log.kind, log.store, log.entity, log.columns) == ("stream", "kafka", "aside", COLUMNS)
    assert project.queries["r"].logs == (log,)
    assert project.queries["q"].logs == ()
    assert [str(name) for name in project.depends_on[log.name]] == ["default.public.r"]


def test_a_relation_of_that_name_in_the_project_wins(compile_sql: Compile) -> None:
    own = f"CREATE STREAM s_quarantine (a INT) WITH ({JSON}, 'topic' = 'other');"
    project = compile_sql(CHECKED + own + "CREATE STREAM r AS SELECT a FROM s;")
    assert not project.errors
    (relation,) = [relation for name, relation in project.catalog.relations.items() if name.name == "s_quarantine"]
    assert relation.entity == "other"
    assert [log.entity for log in project.queries["r"].logs] == ["aside"]


def test_a_query_named_like_a_quarantine_is_that_relation(compile_sql: Compile) -> None:
    project = compile_sql(CHECKED + "CREATE STREAM s_quarantine AS SELECT a FROM s;")
    assert not project.errors
    assert project.queries["s_quarantine"].sink.entity == "s_quarantine"


def test_slices_check_what_the_project_checks(compile_sql: Compile, settings: Settings) -> None:
    """Sources and targets of INSERT INTO are checked, a result that is only read is not."""
    result = """CREATE STREAM r (CONSTRAINT d CHECK (a > 2) ON VIOLATION QUARANTINE)
      WITH ('quarantine.topic' = 'x') AS SELECT a FROM s;"""
    more = "INSERT INTO r SELECT a FROM s QUERY WITH ('query.name' = 'more');"
    project = compile_sql(CHECKED + result + more + "CREATE STREAM reader AS SELECT a FROM r;")
    assert not project.errors
    checks = {"r": ("c", "d"), "more": ("c", "d"), "reader": ()}
    for name, expected in checks.items():
        query = project.queries[name]
        alone = compile_slice(slice_of(project, query), settings)
        assert not alone.errors, [one.text() for one in alone.errors]
        again = alone.queries[name]
        assert (again.fingerprint, again.state_signature) == (query.fingerprint, query.state_signature)
        for bound in (query, again):
            names = [c.name for scan in bound.scans for c in scan.constraints] + [
                c.name for c in bound.root.constraints
            ]
            assert tuple(names) == expected, name
