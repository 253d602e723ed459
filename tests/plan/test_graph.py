"""What reads what: order, circles, relations that declare an entity again."""

from __future__ import annotations

import random

import pytest

from ds_dagster.names import QualifiedName
from ds_dagster.plan.graph import ordered
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from tests.plan.conftest import PRELUDE, Compile

CHAIN = {
    "a.sql": "CREATE STREAM a AS SELECT url, at FROM clicks;",
    "b.sql": "CREATE CHANGELOG b AS SELECT url, COUNT(*) AS n FROM a GROUP BY url;",
    "c.sql": "CREATE STREAM b_stream (url VARCHAR, n BIGINT) WITH ('topic' = 'b', 'value.format' = 'json',"
    " 'topic.partitions' = 2, 'topic.replicas' = 1);",
    "d.sql": "CREATE MATERIALIZED VIEW d AS SELECT url, MAX(n) AS n FROM b_stream GROUP BY url;",
    "e.sql": "INSERT INTO copies SELECT url, n FROM b_stream;",
    "f.sql": "CREATE STREAM f AS SELECT * FROM copies;",
}


def name(text: str) -> QualifiedName:
    return QualifiedName("default", "public", text)


@pytest.mark.parametrize("seed", range(5))
def test_files_load_in_any_order(seed: int, settings: Settings) -> None:
    texts = list(CHAIN.items())
    random.Random(seed).shuffle(texts)
    renamed = [(f"{position}_{seed}.sql", text) for position, (_, text) in enumerate(texts)]
    project = compile_texts([("zz.sql", PRELUDE), *renamed], settings)
    assert not project.diagnostics
    order = list(project.queries)
    assert sorted(order) == ["a", "b", "copies", "d", "f"]
    assert order.index("a") < order.index("b")
    assert order.index("copies") < order.index("f")
    assert project.depends_on[name("b_stream")] == (name("b"),)
    assert project.depends_on[name("b")] == (name("a"),)
    assert project.depends_on[name("copies")] == (name("b_stream"),)
    assert project.depends_on[name("clicks")] == ()
    assert set(project.downstream[name("b")]) == {"copies", "d"}
    assert set(project.downstream[name("b_stream")]) == {"copies", "d"}
    assert project.downstream[name("copies")] == ("f",)
    assert project.downstream[name("f")] == ()
    assert [query.name for query in project.queries_of(name("copies"))] == ["copies"]


def test_a_circle_names_both_ends(compile_sql: Compile) -> None:
    project = compile_sql("CREATE STREAM a AS SELECT * FROM b;\nCREATE STREAM b AS SELECT * FROM a;")
    (found,) = project.diagnostics
    assert found.message == "a and b depend on one another"
    assert (found.span and found.span.line, [span.line for span in found.related]) == (1, [2])
    assert {broken.name.name for broken in project.broken} == {"a", "b"}
    assert not project.queries


def test_order_and_circles_of_a_graph() -> None:
    a, b, c, d = (name(text) for text in "abcd")
    assert ordered({a: [b], b: [c], d: [a]}) == ([c, b, a, d], [])
    order, circles = ordered({a: [b], b: [a], c: [a]})
    assert circles == [[a, b]]
    assert order.index(a) < order.index(c)


def test_a_deep_chain_needs_no_recursion() -> None:
    names = [name(f"r{n}") for n in range(5000)]
    order, circles = ordered({names[n + 1]: [names[n]] for n in reversed(range(4999))})
    assert order == names and not circles


def test_a_broken_insert_leaves_its_relation_usable(compile_sql: Compile) -> None:
    project = compile_sql(
        "INSERT INTO copies SELECT url, nothing FROM clicks;\nCREATE STREAM f AS SELECT * FROM copies;"
    )
    assert [d.condition for d in project.diagnostics] == ["UNKNOWN_COLUMN"]
    assert list(project.queries) == ["f"]
    assert [broken.name for broken in project.broken] == [name("copies")]
    assert name("copies") in project.catalog.relations


def test_names_of_queries_are_short_only_in_the_default_schema(compile_sql: Compile) -> None:
    project = compile_sql(
        "CREATE DATABASE other;\nUSE DATABASE other;\nCREATE STREAM s AS SELECT * FROM default.public.clicks;"
    )
    assert not project.diagnostics
    assert list(project.queries) == ["other.public.s"]


def test_two_create_as_into_one_topic(compile_sql: Compile) -> None:
    project = compile_sql(
        "CREATE STREAM a AS SELECT url FROM clicks;\nCREATE STREAM b WITH ('topic' = 'a') AS SELECT url FROM clicks;"
    )
    (found,) = project.diagnostics
    assert found.condition == "ENTITY_SHARED" and len(found.related) == 1
