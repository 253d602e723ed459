"""Aggregates whose results are shown in part or in another order, over the state that a checkpoint has."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.runtime.deciding.changes import changes_of, recompiled, spec_going_on
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from tests.plan.identity.edits import compiled, job_row
from tests.plan.identity.test_source_names import STREAM

GROUPS = "CREATE CHANGELOG s AS SELECT k, COUNT(*) AS c, SUM(n) AS t, MAX(n) AS m FROM a WHERE n > 0 GROUP BY k;\n"
SOURCE = STREAM.format("a", "t")
KEPT = {
    "one removed": "SELECT k, COUNT(*) AS c, MAX(n) AS m FROM a WHERE n > 0 GROUP BY k",
    "all but one removed": "SELECT k, MAX(n) AS top FROM a WHERE n > 0 GROUP BY k",
    "another order": "SELECT MAX(n) AS m, k, SUM(n) AS t, COUNT(*) AS c FROM a WHERE n > 0 GROUP BY k",
    "with an alias": "SELECT q.k, SUM(q.n) AS t, COUNT(*) AS c FROM a q WHERE q.n > 0 GROUP BY q.k",
    "with a condition": "SELECT k, SUM(n) AS t FROM a WHERE n > 0 GROUP BY k HAVING COUNT(*) > 2",
    "read in another way": ("SELECT k, SUM(n) AS t FROM a WITH ('max.records.per.batch' = 7) WHERE n > 0 GROUP BY k"),
}
LOST = {
    "added": "SELECT k, COUNT(*) AS c, SUM(n) AS t, MAX(n) AS m, MIN(n) AS o FROM a WHERE n > 0 GROUP BY k",
    "exchanged": "SELECT k, COUNT(*) AS c, MIN(n) AS o FROM a WHERE n > 0 GROUP BY k",
    "of other rows": "SELECT k, COUNT(*) AS c FROM a WHERE n > 1 GROUP BY k",
    "with a filter": "SELECT k, COUNT(*) FILTER (WHERE n > 2) AS c FROM a WHERE n > 0 GROUP BY k",
    "by another group": "SELECT n AS k, COUNT(*) AS c FROM a WHERE n > 0 GROUP BY n",
}


def held(query: str) -> str:
    return f"{SOURCE}CREATE CHANGELOG s AS {query};\n"


@pytest.mark.parametrize("edit", KEPT)
def test_the_state_stays_as_it_is(tmp_path: Path, edit: str) -> None:
    old, new = compiled(SOURCE + GROUPS, tmp_path), compiled(held(KEPT[edit]), tmp_path)
    before = job_spec(old, old.queries["s"])
    (change,) = changes_of(new, [new.queries["s"]], {"s": job_row(before)})
    assert change.verdict == "keeps_checkpoint", change
    spec = JobSpec.from_json(spec_going_on(new, new.queries["s"], job_row(before)).to_json())
    assert spec.state_signature == before.state_signature != new.queries["s"].state_signature
    bound = recompiled(spec, new.settings)[1]
    (groups,) = [node for node in bound.plan.walk() if isinstance(node, Aggregate)]
    assert [call.function for call in groups.calls] == ["COUNT", "SUM", "MAX"] and groups.held
    assert [field.name for field in bound.root.output] == [field.name for field in new.queries["s"].root.output]
    assert bound.scans[0].max_records_per_batch == new.queries["s"].scans[0].max_records_per_batch
    assert changes_of(new, [new.queries["s"]], {"s": job_row(spec)})[0].verdict == "unchanged"
    assert spec_going_on(new, new.queries["s"], job_row(spec)) == spec
    assert changes_of(old, [old.queries["s"]], {"s": job_row(spec)})[0].verdict == "keeps_checkpoint"
    assert spec_going_on(old, old.queries["s"], job_row(spec)).state_signature == before.state_signature


@pytest.mark.parametrize("edit", LOST)
def test_what_the_state_has_no_place_for_needs_a_new_checkpoint(tmp_path: Path, edit: str) -> None:
    old, new = compiled(SOURCE + GROUPS, tmp_path), compiled(held(LOST[edit]), tmp_path)
    (change,) = changes_of(new, [new.queries["s"]], {"s": job_row(job_spec(old, old.queries["s"]))})
    assert change.verdict == "needs_new_checkpoint"


def test_one_of_equal_calls_is_enough(tmp_path: Path) -> None:
    old = compiled(held("SELECT k, SUM(n) AS t, COUNT(*) AS c, SUM(n) + 1 AS u FROM a GROUP BY k"), tmp_path)
    new = compiled(held("SELECT k, SUM(n) + 1 AS u FROM a GROUP BY k"), tmp_path)
    (change,) = changes_of(new, [new.queries["s"]], {"s": job_row(job_spec(old, old.queries["s"]))})
    assert change.verdict == "keeps_checkpoint"


def verdict_of(tmp_path: Path, before: str, after: str) -> str:
    old, new = compiled(before, tmp_path), compiled(after, tmp_path)
    row = job_row(job_spec(old, old.queries["s"]))
    return changes_of(new, [new.queries["s"]], {"s": row})[0].verdict


def test_a_column_that_is_no_longer_declared_cannot_be_computed_on(tmp_path: Path) -> None:
    after = SOURCE.replace(", n INTEGER", "") + "CREATE CHANGELOG s AS SELECT k, COUNT(*) AS c FROM a GROUP BY k;"
    verdict = verdict_of(tmp_path, held("SELECT k, COUNT(*) AS c, SUM(n) AS t FROM a GROUP BY k"), after)
    assert verdict == "needs_new_checkpoint"


def test_rows_under_another_alias_are_never_read_in_the_old_way(tmp_path: Path) -> None:
    before = held("SELECT k, COUNT(*) AS c, SUM(n) AS t FROM a GROUP BY k")
    ignored = "a q WITH ('source.deserialization.error.handling' = 'IGNORE')"
    after = held(f"SELECT q.k, COUNT(*) AS c FROM {ignored} GROUP BY q.k")
    assert verdict_of(tmp_path, before, after) == "needs_new_checkpoint"
    assert verdict_of(tmp_path, before, after.replace("a q WITH", "a WITH").replace("q.", "")) == "keeps_checkpoint"
