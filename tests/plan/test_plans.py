"""Bound plans as EXPLAIN shows them: fixtures of SQL and expected text. ``UPDATE_FIXTURES=1`` rewrites the expected
part."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ds_dagster.plan.explain import explain_plan, explain_statement, plan_json
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.sql.script import parse_statement
from tests.plan.conftest import Compile

FOLDER = Path(__file__).parent.parent / "fixtures" / "plans"
FILES = sorted(FOLDER.rglob("*.sql"), key=lambda path: path.stem)
HASHES = re.compile(r"\n(fingerprint|state) .*")


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_plan(path: Path, compile_sql: Compile) -> None:
    sql, _, expected = path.read_text(encoding="utf-8").partition("-- plan:\n")
    project = compile_sql(sql)
    assert not project.errors, [d.text() for d in project.errors]
    shown = "\n".join(HASHES.sub("", explain_plan(part)) for query in project.queries.values() for part in query.parts)
    found = "".join(f"-- {line}\n" for line in shown.splitlines())
    if os.environ.get("UPDATE_FIXTURES"):
        path.write_text(f"{sql}-- plan:\n{found}", encoding="utf-8")
        expected = found
    assert found == expected


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_explain_as_data(path: Path, compile_sql: Compile) -> None:
    project = compile_sql(path.read_text(encoding="utf-8"))
    for part in (part for query in project.queries.values() for part in query.parts):
        found = json.loads(json.dumps(plan_json(part)))
        ids = [node["id"] for node in found["nodes"]]
        assert ids == list(range(1, len(ids) + 1))
        used = [number for node in found["nodes"] for number in node["inputs"]]
        assert sorted(used) == ids[1:]
        assert set(found["lineage"]) == {column["name"] for column in found["columns"]}
        again = parse_statement(explain_statement(part))
        assert type(again) is type(part.statement)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_plan_invariants(path: Path, compile_sql: Compile) -> None:
    for query in compile_sql(path.read_text(encoding="utf-8")).queries.values():
        assert [f.name for f in query.root.output] == [c.name for c in query.sink.columns]
        assert [f.type for f in query.root.output] == [c.type for c in query.sink.columns]
        names = [scan.source_name for scan in query.scans]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"\w+", name) for name in names)
        for node in query.root.walk():
            fields = [field.name for field in node.output]
            assert len(set(fields)) == len(fields)
            assert set(node.key) <= {field.name for field in node.output} or node is query.root
            if isinstance(node, Scan):
                assert node.read_columns
                assert {*node.relation.primary_key} <= {c.name for c in node.read_columns}
                assert node.time.column is None or node.has(node.time.column)
