"""Whether a job goes on from a savepoint, row by row of the rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import compile_texts
from ds_dagster.runtime.deciding.from_sink import SinkEnd
from ds_dagster.runtime.deciding.restoring import SavedState, Surroundings, forking, restoring
from ds_dagster.settings import Settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM topic (id BIGINT) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 1,
  'topic.replicas' = 1);
CREATE STREAM copied AS SELECT id FROM topic;
CREATE MATERIALIZED VIEW counted AS SELECT id, COUNT(*) AS n FROM topic GROUP BY id;
"""
A, B = Tip(7, "aa"), Tip(9, "bb")


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BoundQuery]:
    folder = tmp_path_factory.mktemp("restoring")
    project = compile_texts([("a.sql", SQL)], Settings(root=folder, sql=folder, state=Path(folder), store="k"))
    assert not project.errors
    return dict(project.queries)


def ends(*tips: Tip | None) -> list[SinkEnd]:
    return [SinkEnd(f"k.{number}", tip) for number, tip in enumerate(tips)]


RULES: dict[str, tuple[dict[str, object], list[SinkEnd], str, str]] = {
    "its sinks end there": ({}, ends(A, A), "at_sink", ""),
    "its sinks have more": ({}, ends(B), "after_sink", ""),
    "of an earlier version of the same history": ({"is_same_version": False}, ends(Tip(2, "cc")), "after_sink", ""),
    "of another history": ({"is_same_version": False, "is_same_history": False}, ends(B), "", "reset since"),
    "other offsets": ({}, ends(Tip(7, "ff")), "after_sink", ""),
    "its sinks have less": ({}, ends(Tip(6, "dd")), "", "before the savepoint"),
    "its sinks differ": ({}, ends(A, B), "", "do not end at one batch: k.0 at batch 7, k.1 at batch 9"),
    "an empty ledger": ({}, ends(A, None), "", "the ledger of k.1 has no batch"),
    "an unknown ledger": ({}, [SinkEnd("k.0", unknown="k.0 keeps no ledger")], "", "k.0 keeps no ledger"),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules(queries: dict[str, BoundQuery], rule: str) -> None:
    changes, sinks, how, reason = RULES[rule]
    query = queries["counted"]
    saved = replace(SavedState("", A), **changes)  # type: ignore[arg-type]
    decided = restoring(query, saved, sinks)
    assert (decided.how or "") == how and reason in decided.reason and bool(decided.reason) != bool(how)


def test_records_that_are_gone_are_needed_only_beyond_the_savepoint(queries: dict[str, BoundQuery]) -> None:
    query = queries["counted"]
    saved = SavedState("", A)
    assert restoring(query, saved, ends(A), "files may go").how == "at_sink"
    assert restoring(query, saved, ends(B), "files may go").reason == "files may go"


def test_rows_are_written_twice_into_streams_alone(queries: dict[str, BoundQuery]) -> None:
    saved = {name: SavedState("", A) for name in queries}
    again = {name: restoring(query, saved[name], (), may_double=True) for name, query in queries.items()}
    assert again["copied"].how == "again" and "cannot be taken back" in again["counted"].reason
    gone = restoring(queries["copied"], saved["copied"], (), "files may go", may_double=True)
    assert gone.reason == "files may go"


def test_another_state_is_refused(queries: dict[str, BoundQuery]) -> None:
    other = SavedState("it has another state", A, targets={})
    assert "another state" in restoring(queries["counted"], other, ends(A)).reason
    assert "another state" in forking(queries["copied"], other, Surroundings({})).reason


FORKS: dict[str, tuple[str, Surroundings, str]] = {
    "topics of its own": ("copied", Surroundings({"k.other": "", "k.more": "t2"}), ""),
    "the same topic under another name": ("copied", Surroundings({"k.renamed": "t1"}), "writes k.renamed, too"),
    "a view": ("counted", Surroundings({}), "would be missing"),
    "the same source": ("copied", Surroundings({}, {"k.topic": ("s1", "s1")}), ""),
    "a source of another cluster": ("copied", Surroundings({}, {"k.topic": ("s2", "s1")}), "read another k.topic"),
    "forked before": ("copied", Surroundings({"k.other": "t2"}, written=("t2",)), "rows of its own into k.other"),
    "forked before into another topic": ("copied", Surroundings({"k.third": ""}, written=("t2",), has_worked=True), ""),
    "forked before, it is unknown where": (
        "copied",
        Surroundings({"k.other": "t2"}, has_worked=True),
        "into its topics",
    ),
    "another version": ("copied", Surroundings({"k.copied": "t1"}, version=1), "from version 1 of copied"),
}


@pytest.mark.parametrize("rule", FORKS)
def test_a_fork_writes_streams_of_its_own(queries: dict[str, BoundQuery], rule: str) -> None:
    name, there, reason = FORKS[rule]
    decided = forking(queries[name], SavedState("", A, targets={"k.copied": "t1"}), there)
    assert (decided.how == "fork") == (not reason) and reason in decided.reason
