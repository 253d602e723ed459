"""A relation that is renamed keeps the name of its source in the checkpoints of its readers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.plan.identity.source_names import kept_names
from ds_dagster.runtime.deciding.changes import changes_of, recompiled, spec_going_on
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from tests.plan.identity.edits import compiled, job_row

STREAM = "CREATE STREAM {0} (k INTEGER, n INTEGER) WITH ('topic' = '{1}', 'value.format' = 'json');\n"
COUNTS = "CREATE CHANGELOG s AS SELECT k, COUNT(*) AS c FROM {0} GROUP BY k;\n"
TWICE = "CREATE STREAM s AS SELECT l.k FROM {0} l JOIN {0} r WITHIN 1 MINUTE ON l.k = r.k;\n"
PAIR = "CREATE STREAM s AS SELECT l.k FROM {0} l JOIN {1} r WITHIN 1 MINUTE ON l.k = r.k;\n"


@pytest.mark.parametrize("query", [COUNTS, TWICE])
def test_a_reader_of_a_renamed_relation_goes_on(tmp_path: Path, query: str) -> None:
    old, new = (compiled(STREAM.format(name, "t") + query.format(name), tmp_path) for name in ("a", "a_2"))
    before = job_spec(old, old.queries["s"])
    (change,) = changes_of(new, [new.queries["s"]], {"s": job_row(before)})
    assert change.verdict == "unchanged"
    spec = spec_going_on(new, new.queries["s"], job_row(before))
    assert spec.state_signature == before.state_signature != new.queries["s"].state_signature
    bound = recompiled(JobSpec.from_json(spec.to_json()), new.settings)[1]
    assert [scan.source_name for scan in bound.scans] == [scan.source_name for scan in old.queries["s"].scans]
    assert spec_going_on(new, new.queries["s"], job_row(spec)) == spec
    assert spec_going_on(old, old.queries["s"], job_row(spec)) == before


def test_a_further_change_of_a_renamed_source_is_judged_by_itself(tmp_path: Path) -> None:
    old = compiled(STREAM.format("a", "t") + COUNTS.format("a"), tmp_path)
    new = compiled(STREAM.format("b", "t") + COUNTS.format("b").replace("BY k", "BY k HAVING k > 1"), tmp_path)
    (change,) = changes_of(new, [new.queries["s"]], {"s": job_row(job_spec(old, old.queries["s"]))})
    assert change.verdict == "keeps_checkpoint"


def test_another_entity_is_another_source(tmp_path: Path) -> None:
    old, new = (compiled(STREAM.format("a", topic) + COUNTS.format("a"), tmp_path) for topic in ("t", "other"))
    assert kept_names(old.queries["s"], new.queries["s"]) == {}
    (change,) = changes_of(new, [new.queries["s"]], {"s": job_row(job_spec(old, old.queries["s"]))})
    assert change.verdict == "needs_new_checkpoint"


def test_relations_that_exchange_their_names_keep_their_sources(tmp_path: Path) -> None:
    old = compiled(STREAM.format("a", "t") + STREAM.format("b", "t2") + PAIR.format("a", "b"), tmp_path)
    new = compiled(STREAM.format("a", "t2") + STREAM.format("b", "t") + PAIR.format("b", "a"), tmp_path)
    names = kept_names(old.queries["s"], new.queries["s"])
    assert names == {"default.public.b": "default_public_a", "default.public.a": "default_public_b"}
    before = job_spec(old, old.queries["s"])
    assert changes_of(new, [new.queries["s"]], {"s": job_row(before)})[0].verdict == "unchanged"
    assert spec_going_on(new, new.queries["s"], job_row(before)).state_signature == before.state_signature


def test_a_name_that_another_source_has_now_is_not_kept(tmp_path: Path) -> None:
    old = compiled(STREAM.format("a", "t") + STREAM.format("b", "t2") + PAIR.format("a", "b"), tmp_path)
    new = compiled(STREAM.format("a", "t3") + STREAM.format("c", "t") + PAIR.format("c", "a"), tmp_path)
    assert kept_names(old.queries["s"], new.queries["s"]) == {}
    (change,) = changes_of(new, [new.queries["s"]], {"s": job_row(job_spec(old, old.queries["s"]))})
    assert change.verdict == "needs_new_checkpoint"


def test_a_definition_that_no_longer_compiles_keeps_no_names(tmp_path: Path) -> None:
    new = compiled(STREAM.format("b", "t") + COUNTS.format("b"), tmp_path)
    spec = job_spec(new, new.queries["s"])
    stored = job_row(replace(spec, slice=(), state_signature="other", fingerprint="other"))
    assert spec_going_on(new, new.queries["s"], stored) == spec
