"""The node that exists in a test alone runs on Spark once the table of compilers knows it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.node import Node
from ds_dagster.spark import compiler
from ds_dagster.spark.compiler import PlanCompiler, Wants
from ds_dagster.spark.flow import Flow
from ds_dagster.spark.records.columns import field
from tests.plan.nodes.test_new_node import Sampled

pytestmark = pytest.mark.spark

DECLARED = "CREATE STREAM clicks (at BIGINT, url VARCHAR) WITH ('topic' = 'clicks', 'value.format' = 'json');"
SQL = f"{DECLARED} CREATE STREAM s AS SELECT url FROM clicks;"


def compile_sampled(plan: PlanCompiler, node: Sampled, wants: Wants) -> Flow:
    flow = plan.visit(node.input, wants)
    return Flow(flow.frame.where(sf.pmod(field(node.column), sf.lit(node.every)) == 0), flow.timed)


def test_it_runs(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**compiler.COMPILERS, Sampled: compile_sampled}
    monkeypatch.setattr(compiler, "COMPILERS", MappingProxyType(known))
    project = bench.compile(SQL)
    query = project.queries["s"]

    def above(node: Node) -> Node:
        return node.with_inputs(above) if node.inputs else Sampled(node, "clicks$at", 3)

    (part,) = query.parts
    root = part.root.with_inputs(above)
    part = replace(part, root=root.pruned(root.names))
    bench.project = replace(project, queries=MappingProxyType({"s": replace(query, parts=(part,))}))
    bench.send("clicks", *[{"at": number, "url": f"u{number}"} for number in range(10)])
    assert sorted(row["url"] for row in bench.run("s")) == [f"u{number}" for number in range(10) if number % 3 == 0]


def test_a_node_that_the_table_lacks_is_named(bench: Any) -> None:
    root = bench.compile(SQL).queries["s"].parts[0].root
    root = replace(root, input=Sampled(root.input, root.input.output[0].name, 3))
    with pytest.raises(KeyError, match="Sampled"):
        PlanCompiler(bench.spark, "job", lambda _scan: None).compile(root)  # type: ignore[arg-type, return-value]
