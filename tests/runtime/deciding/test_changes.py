"""Stored definitions that today's code no longer accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.engine.start import compiled
from ds_dagster.errors import DsError
from ds_dagster.plan.identity.fingerprint import EARLIER_STATE_VERSIONS
from ds_dagster.project.load import compile_texts
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.deciding.changes import changes_of, recompiled, refused_statement, why_not_over
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.runtime.host import HostContext, StartOrder
from ds_dagster.settings import Settings
from tests.plan.identity.edits import job_row


def test_a_stored_definition_that_does_not_compile(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds")
    with pytest.raises(DsError) as refused:
        recompiled(JobSpec("q", "default.public.q", (), "f", "s", "0.1"), settings)
    assert refused.value.condition == "SLICE_INVALID"
    assert "q" in refused.value.message
    assert "ds restart q" in refused.value.hint


@pytest.mark.parametrize(
    ("change", "unread"),
    [
        (lambda v: v | {"more": 1, "unread": ["x"]}, ("more", "unread")),
        (lambda v: v | {"slice": [v["slice"][0] | {"dialect": "2"}, *v["slice"][1:]]}, ("slice.dialect",)),
        (lambda v: {k: t for k, t in v.items() if k != "slice"} | {"version": 2, "parts": {}}, ("version 2",)),
    ],
)
def test_a_definition_of_a_later_version_is_known_by_name_and_refused(tmp_path: Path, change, unread) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="m")
    project = compile_texts([("a.sql", SQL)], settings)
    query = project.queries["s"]
    text = json.dumps(change(json.loads(job_spec(project, query).to_json()) | {"package_version": "9.1.0"}))
    spec = JobSpec.from_json(text)
    assert (spec.name, spec.relation, spec.unread) == ("s", query.relations, unread)
    for act in (spec.to_json, lambda: recompiled(spec, settings)):
        with pytest.raises(DsError) as refused:
            act()
        assert refused.value.condition == "JOB_SPEC_NEWER"
        assert {"9.1.0", ", ".join(unread)} <= set(refused.value.params.values())
    job = replace(job_row(job_spec(project, query)), spec=text)
    (planned,) = changes_of(project, [query], {"s": job})
    assert (planned.verdict, "JOB_SPEC_NEWER" in planned.rule) == ("needs_new_checkpoint", True)
    broken = compile_texts([("a.sql", "CREATE STREAM s AS SELECT;")], settings)
    assert refused_statement(broken, replace(job, name="s")) is not None
    assert "9.1.0" in why_not_over(project, query, spec)


SQL = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM clicks (url VARCHAR) WITH ('value.format' = 'json');
CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n
  FROM clicks WITH ('source.deserialization.error.handling' = 'IGNORE') GROUP BY url;
"""


def test_a_job_goes_on_with_a_checkpoint_of_an_earlier_algorithm_and_not_with_other_state(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="m")
    project = compile_texts([("a.sql", SQL)], settings)
    spec = job_spec(project, project.queries["s"])
    context = cast(HostContext, SimpleNamespace(settings=settings, redactor=Redactor()))
    earlier = project.queries["s"].earlier_signatures

    def start(signature: str, *, progressed: bool = True) -> str:
        stored = replace(spec, state_signature=signature, package_version="0.0.1")
        order = StartOrder("s", "i", stored, SinkIdentity("s", 1), 1, started=True, progressed=progressed)
        return compiled(order, context).query.name

    assert {signature[:3] for signature in earlier} == {f"{version}:" for version in EARLIER_STATE_VERSIONS}
    assert any(signature[3:] != spec.state_signature[3:] for signature in earlier)
    assert {start(signature) for signature in (*earlier, spec.state_signature)} == {"s"}
    assert start("s1:other", progressed=False) == "s"
    with pytest.raises(DsError) as refused:
        start("s1:other")
    assert refused.value.condition == "CHECKPOINT_OTHER_STATE"
    assert "0.0.1" in refused.value.message
