"""Real-time mode: plans that Spark allows are accepted, every other step is refused, also one that is new."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ds_dagster.catalog.properties.latency import realtime_millis
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.diagnostics import Span
from ds_dagster.plan.binding.sources import World
from ds_dagster.plan.checks.realtime import ALLOWED, WORDS, check_realtime, refused_step
from ds_dagster.plan.explain import explain_plan
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.query import Part
from ds_dagster.project.load import LoadedProject
from ds_dagster.stores.registry import KINDS
from tests.plan.conftest import Compile, node_classes
from tests.plan.identity.test_signatures import programs

REALTIME = "'delivery' = 'at_least_once', 'latency.mode' = 'realtime'"
ACCEPTED = (
    f"CREATE STREAM s WITH ({REALTIME}) AS SELECT url, UPPER(userid) AS u FROM clicks WHERE ok;",
    f"CREATE STREAM s WITH ({REALTIME}, 'latency.checkpoint.millis' = 5000) AS SELECT * FROM clicks;",
    f"CREATE STREAM s WITH ({REALTIME}) AS SELECT p.id, t.tag FROM people p CROSS JOIN UNNEST(p.tags) AS t(tag);",
    f"CREATE CHANGELOG s WITH ({REALTIME}) AS SELECT userid, name FROM users WHERE at > 5;",
    f"CREATE STREAM s WITH ({REALTIME}) AS SELECT url FROM clicks WITH "
    "('source.deserialization.error.handling' = 'IGNORE') QUERY WITH ('row.error.handling' = 'IGNORE');",
    f"CREATE STREAM s (url VARCHAR, CONSTRAINT short CHECK (LENGTH(url) < 9) ON VIOLATION DROP) WITH ({REALTIME}, "
    "'topic.partitions' = 1, 'topic.replicas' = 1, 'value.format' = 'json'); INSERT INTO s SELECT url FROM clicks;",
)
NOWHERE = Span("a.sql", 1, 1)


def refused(project: LoadedProject, part: Part) -> list[str]:
    """Reasons against the same plan in real-time mode."""
    values = {"latency.mode": PropertyValue("realtime"), "delivery": PropertyValue("at_least_once")}
    relation = replace(part.sink, properties={**part.sink.properties, **values})
    world = World(project.catalog, project.settings, KINDS)
    root = replace(part.root, relation=relation)
    problems = check_realtime(root, part.error_log, world, NOWHERE, in_application=False)
    return [str(problem.params.get("reason", problem.condition)) for problem in problems]


@pytest.mark.parametrize("sql", ACCEPTED)
def test_stateless_plans_of_the_jvm_are_accepted(compile_sql: Compile, sql: str) -> None:
    project = compile_sql(sql)
    assert not project.diagnostics, [found.text() for found in project.diagnostics]
    (query,) = project.queries.values()
    assert realtime_millis(query.sink) == (5000 if "5000" in sql else 10_000)


def test_the_guarantee_is_named_where_a_query_is_shown(compile_sql: Compile) -> None:
    (query,) = compile_sql(ACCEPTED[1]).queries.values()
    assert "real-time, at least once" in explain_plan(query.parts[0])
    assert "every 5 s" in explain_plan(query.parts[0])


def test_every_kind_of_node_is_allowed_by_name_or_refused_in_words() -> None:
    """A new node is refused by its own name until it is listed."""

    class Novel(Node):
        is_base = True

    assert refused_step(Novel) == "Novel"
    assert {kind for kind in node_classes() if not refused_step(kind)} == ALLOWED
    assert not ALLOWED & WORDS.keys()
    assert WORDS.keys() <= set(node_classes())


def test_every_plan_with_another_node_is_refused(compile_sql: Compile) -> None:
    """All programs of the record, which hold every kind of node, as if each were in real-time mode."""
    kinds: set[type[Node]] = set()
    for title, sql in programs():
        project = compile_sql(sql)
        for query in project.queries.values():
            for part in query.parts:
                steps = {type(node) for node in part.root.walk()}
                kinds |= steps
                reasons = refused(project, part)
                assert bool(steps - ALLOWED) <= bool(reasons), (title, query.name, steps)
                for step in steps - ALLOWED:
                    assert any(refused_step(step) in reason for reason in reasons), (title, query.name, reasons)
    assert len(kinds) > len(ALLOWED)


def test_no_query_of_an_application_is_accepted(compile_sql: Compile) -> None:
    project = compile_sql(
        "BEGIN APPLICATION a;\n"
        f"CREATE STREAM s WITH ({REALTIME}) AS SELECT url FROM clicks;\n"
        "CREATE STREAM t AS SELECT url FROM views;\nEND APPLICATION;"
    )
    found = [problem for problem in project.diagnostics if problem.condition == "REALTIME_UNSUPPORTED"]
    assert [problem.message for problem in found] == [
        "the query of s cannot run in real-time mode: an application has several sinks"
    ]


def test_sources_of_other_stores_are_named(compile_sql: Compile) -> None:
    project = compile_sql(
        "CREATE STORE kin WITH ('type' = KINESIS, 'access_region' = 'eu-west-1', 'uris' = 'https://localhost:4567');\n"
        "CREATE STREAM k (url VARCHAR) WITH ('store' = 'kin', 'topic' = 'k', 'value.format' = 'json');\n"
        f"CREATE STREAM s WITH ({REALTIME}, 'store' = 'kafka', 'topic.partitions' = 1, 'topic.replicas' = 1) AS "
        "SELECT url FROM k;"
    )
    (found,) = (problem for problem in project.diagnostics if problem.condition == "REALTIME_UNSUPPORTED")
    assert "it reads k in store kin (KINESIS), not a topic of KAFKA" in found.message
