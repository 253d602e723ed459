"""The SQL slice of every query of every case compiles alone to the same plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.project import compile_slice, slice_of
from ds_dagster.testing.case import Case
from ds_dagster.testing.compiling import compile_case
from ds_dagster.testing.format import load_case

CASES = [load_case(path) for path in sorted((Path(__file__).parents[1] / "cases").rglob("*.case.yaml"))]
OWN = [case for case in CASES if case.error is None]


@pytest.mark.parametrize("case", OWN, ids=[case.path.stem for case in OWN])
def test_a_slice_is_the_same_query(case: Case, tmp_path: Path) -> None:
    """``tmp_path``: a project without declarations of stores, which would be preferred to those of the slice."""
    project = compile_case(case, tmp_path).project
    settings = replace(project.settings, sql=tmp_path)
    for query in project.queries.values():
        again = compile_slice(slice_of(project, query), settings)
        shown = {name: (one.fingerprint, one.state_signature) for name, one in again.queries.items()}
        assert shown == {query.name: (query.fingerprint, query.state_signature)}, again.diagnostics


def test_most_cases_are_seen() -> None:
    assert len(OWN) > 200
