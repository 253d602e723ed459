"""Checkpoints in which the results of aggregates lie as Spark orders them: those of earlier versions of the package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.runtime.deciding.changes import changes_of, recompiled, spec_going_on, why_not_over
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from tests.plan.identity.edits import compiled, job_row
from tests.plan.identity.test_source_names import STREAM

SUB = "(SELECT k, COUNT(*) AS c, SUM(n) AS t FROM a GROUP BY k) q"
PLAIN = "SELECT k, COUNT(*) AS c, SUM(n) AS t FROM a GROUP BY k"
TURNED = f"SELECT k, t, c FROM {SUB}"
PACED = "FROM a WITH ('max.records.per.batch' = 7)"
EARLIER = {
    "as it was": (TURNED, TURNED, "unchanged", False),
    "shown otherwise": (TURNED, f"SELECT k, c, t FROM {SUB}", "needs_new_checkpoint", False),
    "computed with": (TURNED, f"SELECT k, t, c + 1 AS c FROM {SUB}", "needs_new_checkpoint", False),
    "read otherwise": (TURNED, TURNED.replace("FROM a", PACED), "keeps_checkpoint", False),
    "in order": (PLAIN, PLAIN, "unchanged", True),
    "in order, then otherwise": (PLAIN, f"SELECT k, t, c FROM {SUB}", "keeps_checkpoint", True),
    "in order, then less": (PLAIN, PLAIN.replace(", COUNT(*) AS c", ""), "keeps_checkpoint", True),
    "computed, then in order": (PLAIN.replace("SUM(n)", "SUM(n) + 1"), PLAIN, "needs_new_checkpoint", False),
    "no aggregate": ("SELECT k, n FROM a", "SELECT n, k FROM a", "keeps_checkpoint", True),
}  # fmt: skip


def sql(select: str) -> str:
    kind = "STREAM" if "GROUP" not in select else "CHANGELOG"
    return f"{STREAM.format('a', 't')}CREATE {kind} s AS {select};\n"


@pytest.mark.parametrize("case", EARLIER)
def test_a_checkpoint_of_an_earlier_version_is_kept_where_its_order_is_known(tmp_path: Path, case: str) -> None:
    before, after, verdict, ordered = EARLIER[case]
    old, new = compiled(sql(before), tmp_path), compiled(sql(after), tmp_path)
    values = json.loads(job_spec(old, old.queries["s"]).to_json())
    del values["ordered_state"]
    row = job_row(JobSpec.from_json(json.dumps(values)))
    (change,) = changes_of(new, [new.queries["s"]], {"s": row})
    assert change.verdict == verdict
    spec = spec_going_on(new, new.queries["s"], row)
    assert spec.ordered_state is ordered
    refused = why_not_over(new, new.queries["s"], JobSpec.from_json(row.spec))
    assert bool(refused) is (verdict == "needs_new_checkpoint")
    groups = [node for node in recompiled(spec, new.settings)[1].plan.walk() if isinstance(node, Aggregate)]
    assert all(node.held is ordered for node in groups)


def test_a_new_checkpoint_has_the_order_of_the_plan_and_keeps_it(tmp_path: Path) -> None:
    old, new = (compiled(sql(text), tmp_path) for text in (TURNED, f"SELECT k, c, t FROM {SUB}"))
    row = job_row(job_spec(old, old.queries["s"]))
    assert changes_of(new, [new.queries["s"]], {"s": row})[0].verdict == "keeps_checkpoint"
    assert spec_going_on(new, new.queries["s"], row).ordered_state
    earlier = job_row(replace(job_spec(old, old.queries["s"]), ordered_state=False))
    assert changes_of(new, [new.queries["s"]], {"s": earlier})[0].rule.startswith("an earlier version")
