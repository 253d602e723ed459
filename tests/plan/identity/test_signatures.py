"""Fingerprints and state signatures that journals hold: recorded once, equal after every change of the code.

``RECORD_SIGNATURES=1`` adds the lines of new programs to the record; it never changes one. A line that has to change
needs a new version of the algorithm.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ds_dagster.plan.query import BoundQuery
from tests.plan.conftest import Compile, node_classes

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORD = FIXTURES / "signatures.tsv"


def programs() -> Iterator[tuple[str, str]]:
    """Name → SQL of every program whose signatures are recorded."""
    for path in sorted((FIXTURES / "plans").rglob("*.sql"), key=lambda path: path.stem):
        yield path.stem, path.read_text(encoding="utf-8")
    for part in (FIXTURES / "signatures.sql").read_text(encoding="utf-8").split("-- case: ")[1:]:
        title, _, sql = part.partition("\n")
        yield title, sql


def bound(compile_sql: Compile) -> Iterator[tuple[str, BoundQuery]]:
    """The queries of all programs, by program and name."""
    for title, sql in programs():
        project = compile_sql(sql)
        assert not project.errors, [problem.text() for problem in project.errors]
        yield from ((f"{title}/{name}", query) for name, query in sorted(project.queries.items()))


def recorded() -> Mapping[str, list[str]]:
    lines = RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else []
    return {name: hashes for name, *hashes in (line.split("\t") for line in lines)}


def test_signatures_are_those_that_journals_hold(compile_sql: Compile) -> None:
    now = {
        name: [query.fingerprint, query.state_signature, *query.earlier_signatures]
        for name, query in bound(compile_sql)
    }
    known = recorded()
    if os.environ.get("RECORD_SIGNATURES"):
        lines = ["\t".join((name, *hashes)) for name, hashes in sorted({**now, **known}.items())]
        RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")
        known = recorded()
    assert now == known


def test_every_node_is_in_a_program_of_the_record(compile_sql: Compile) -> None:
    """A node without a recorded signature could change its own unnoticed."""
    used = {type(node) for _, query in bound(compile_sql) for node in query.plan.walk()}
    used |= {type(table) for _, query in bound(compile_sql) for table in query.tables}
    assert {kind.__name__ for kind in node_classes()} == {kind.__name__ for kind in used}
