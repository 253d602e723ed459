"""Programs that are long, as programs write them: they compile, in time that grows with their length."""

from __future__ import annotations

import time

import pytest

from ds_dagster.plan.binding import assemble
from ds_dagster.plan.explain import explain_plan, explain_statement, plan_json
from ds_dagster.project.load import compile_slice, slice_of
from tests.plan.conftest import Compile


def program(kind: str, count: int) -> str:
    terms = [f"at = {number}" for number in range(count)]
    return {
        "or": lambda: f"CREATE STREAM r AS SELECT at FROM clicks WHERE {' OR '.join(terms)};",
        "and": lambda: f"CREATE STREAM r AS SELECT at FROM clicks WHERE {' AND '.join(terms)};",
        "having": lambda: (
            "CREATE CHANGELOG r AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url HAVING "
            + " OR ".join(f"COUNT(*) = {number}" for number in range(count))
            + ";"
        ),
        "sum": lambda: f"CREATE STREAM r AS SELECT {' + '.join(['at'] * count)} AS x FROM clicks;",
        "sum of sums": lambda: (
            f"CREATE CHANGELOG r AS SELECT url, {' + '.join(['SUM(at)'] * count)} AS x FROM clicks GROUP BY url;"
        ),
        "differences": lambda: f"CREATE STREAM r AS SELECT {' - at + '.join(['at'] * (count // 2))} AS x FROM clicks;",
        "like": lambda: (
            "CREATE STREAM r AS SELECT at FROM clicks WHERE "
            + " OR ".join(f"url LIKE '%{number}'" for number in range(count))
            + ";"
        ),
        "union": lambda: "CREATE STREAM r AS " + " UNION ALL ".join(["SELECT at FROM clicks"] * (count // 10)) + ";",
        "columns": lambda: (
            f"CREATE STREAM wide ({', '.join(f'c{number} BIGINT' for number in range(count // 2))}) "
            "WITH ('topic.partitions' = 1, 'topic.replicas' = 1, 'value.format' = 'json');"
            "CREATE STREAM r AS SELECT * FROM wide WHERE c0 > 1;"
        ),
    }[kind]()


COUNTS = {"or": 10_000, "sum": 10_000, "union": 10_000, "columns": 10_000}
"""Lengths that are promised; the other kinds share their code, a tenth of it shows that they are read the same way."""
KINDS = ("or", "and", "having", "sum", "sum of sums", "differences", "like", "union", "columns")


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_program_compiles_and_comes_back(kind: str, compile_sql: Compile) -> None:
    project = compile_sql(program(kind, COUNTS.get(kind, 1_000)))
    assert not project.errors, [d.text()[:500] for d in project.errors]
    (query,) = project.queries.values()
    (part,) = query.parts
    assert explain_plan(part)
    assert plan_json(part)
    assert explain_statement(part)
    again = compile_slice(slice_of(project, query), project.settings)
    assert [one.fingerprint for one in again.queries.values()] == [query.fingerprint]


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_time_grows_with_the_length(kind: str, compile_sql: Compile) -> None:
    """Ten times the length takes less than thirty times the time: a quadratic step would take a hundred."""

    def seconds(count: int) -> float:
        text = program(kind, count)
        started = time.process_time()
        compile_sql(text)
        return time.process_time() - started

    base = min(seconds(10) for _ in range(3))
    short, long = min(seconds(200) for _ in range(3)), seconds(2_000)
    assert long - base < 60 * max(short - base, 0.01), (base, short, long)


def test_a_bug_spoils_its_own_statement(compile_sql: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    bind = assemble.bind_query

    def failing(named: object, world: object) -> object:
        if named.target.name == "bad":  # type: ignore[attr-defined]
            raise RecursionError("too deep")
        return bind(named, world)  # type: ignore[arg-type]

    monkeypatch.setattr(assemble, "bind_query", failing)
    project = compile_sql(
        "CREATE STREAM bad AS SELECT at FROM clicks;\n"
        "CREATE STREAM after AS SELECT at FROM bad;\n"
        "CREATE STREAM good AS SELECT at FROM clicks;"
    )
    assert list(project.queries) == ["good"]
    first, second = project.errors
    assert (first.condition, second.condition) == ("INTERNAL", "UPSTREAM_FAILED")
    assert first.span is not None and first.span.line == 1
    assert "RecursionError" in first.detail and "too deep" in first.detail
