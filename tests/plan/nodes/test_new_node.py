"""A node that exists here alone goes through everything that plans go through; no other file knows it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ds_dagster.catalog.records import Findings
from ds_dagster.plan.binding.rewrites import rewrite
from ds_dagster.plan.checks.repeatable import not_repeatable
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.checks.unbounded import warn_unbounded
from ds_dagster.plan.explain import explain_plan, plan_json
from ds_dagster.plan.identity.compatibility import verdict
from ds_dagster.plan.identity.fingerprint import fingerprint, state_signature
from ds_dagster.plan.nodes.node import Names, Node
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Filter, Passing, Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.shaping import Shaper
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.plan.query import BoundQuery
from tests.plan.conftest import Compile

SQL = "CREATE STREAM s AS SELECT url, userid FROM clicks WITH ('timestamp' = 'at') WHERE ok;"


@dataclass(frozen=True, slots=True)
class Sampled(Passing):
    """Rows whose ``column``, a whole number, is a multiple of ``every``."""

    column: str
    every: int

    def shape(self, shaper: Shaper) -> Shape:
        return [shaper.position(self.column), self.every]

    def about(self) -> str:
        return f"one of {self.every}"

    def own_columns(self) -> Names:
        return frozenset((self.column,))


def sampled(query: BoundQuery, every: int) -> BoundQuery:
    """The query over a sample of its source: what a binder would make of ``TABLESAMPLE``."""

    def above(node: Node) -> Node:
        if not node.inputs:
            return Sampled(node, "clicks$at", every)
        return node.with_inputs(above)

    (part,) = query.parts
    root = rewrite(part.root.with_inputs(above))
    shape = fingerprint(root, refresh=part.refresh, settings=part.settings, store_kinds={})
    signature = state_signature(root, store_kinds={})
    part = replace(
        part, root=root, fingerprint=shape, state_signature=signature, earlier_signatures=(), lineage=root.all_lineage()
    )
    return replace(query, parts=(part,), fingerprint=shape, state_signature=signature, earlier_signatures=())


def bound(compile_sql: Compile, sql: str = SQL) -> BoundQuery:
    project = compile_sql(sql)
    assert not project.errors, [problem.text() for problem in project.errors]
    return project.queries["s"]


def test_identity(compile_sql: Compile) -> None:
    query = bound(compile_sql)
    half, third = sampled(query, 2), sampled(query, 3)
    assert half.fingerprint == sampled(query, 2).fingerprint
    assert len({query.fingerprint, half.fingerprint, third.fingerprint}) == 3
    assert half.state_signature == third.state_signature
    assert verdict(half, third).verdict == "keeps_checkpoint"
    counts = bound(compile_sql, "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;")
    assert verdict(sampled(counts, 2), sampled(counts, 3)).verdict == "needs_new_checkpoint"


def test_description_and_lineage(compile_sql: Compile) -> None:
    query = sampled(bound(compile_sql), 2)
    assert "Sampled one of 2\n" in explain_plan(query.parts[0])
    assert "Sampled" in {node["node"] for node in plan_json(query.parts[0])["nodes"]}  # type: ignore[attr-defined]
    assert {name: [column for _, column in sources] for name, sources in query.parts[0].lineage.items()} == {
        "url": ["url"],
        "userid": ["userid"],
    }


def test_pruning(compile_sql: Compile) -> None:
    """It reads its own column, which nothing above needs."""
    query = sampled(bound(compile_sql, SQL.replace(" WITH ('timestamp' = 'at')", "")), 2)
    (scan,) = query.scans
    assert {column.name for column in scan.read_columns} == {"at", "url", "userid", "ok"}


def test_traits_and_checks(compile_sql: Compile) -> None:
    query = sampled(bound(compile_sql), 2)
    (node,) = [node for node in query.plan.walk() if isinstance(node, Sampled)]
    assert (node.untimed, node.is_ordered, node.only_grows, node.is_bounded, node.one_source) == ("", *(True,) * 4)
    assert not node.is_plain, "it did not say that it treats rows one by one"
    for step in ("a window", "a pattern match", "an OVER aggregate", "a join of streams"):
        check_over(step, node, query.sink.span)  # type: ignore[arg-type]
    assert weighted(node).changelog == "weighted"
    findings = Findings()
    warn_unbounded(query.parts[0].root, findings, query.sink.span)
    assert not findings.diagnostics
    assert not list(not_repeatable(query.parts[0].root, query.sink.span))


def test_a_filter_stays_above_it(compile_sql: Compile) -> None:
    steps = [type(node) for node in sampled(bound(compile_sql), 2).parts[0].root.walk()]
    assert steps == [Sink, Project, Filter, Sampled, Scan]
