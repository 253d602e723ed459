"""Whether a job can go on from what its sinks have: where every row is there once afterwards, and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip, ends_text
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.deciding.from_sink import (
    MOST_BATCHES,
    CheckpointLog,
    FromSink,
    SinkEnd,
    from_sink,
    needs_its_checkpoint,
)
from ds_dagster.settings import Settings

SQL = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM s (id BIGINT) WITH ('store' = 'm', 'value.format' = 'json');
CREATE STREAM copy AS SELECT id FROM s;
CREATE STREAM logged AS SELECT id FROM s WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG');
CREATE MATERIALIZED VIEW v AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
BEGIN APPLICATION two
  CREATE STREAM a AS SELECT id FROM s;
  CREATE STREAM b AS SELECT id FROM s;
END APPLICATION;
BEGIN APPLICATION counting
  CREATE STREAM c AS SELECT id FROM s;
  CREATE MATERIALIZED VIEW d AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
END APPLICATION;
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    folder: Path = tmp_path_factory.mktemp("repair")
    made = compile_texts([("a.sql", SQL)], Settings(root=folder, sql=folder, state=folder, store="m"))
    assert not made.errors
    return made


def tip(batch: int, offset: int | None = None) -> Tip:
    """A batch that ends at an offset, by default ten times its number."""
    offsets = f'[{{"t":{{"0":{batch * 10 if offset is None else offset}}}}}]'
    return Tip(batch, hashlib.sha256(offsets.encode()).hexdigest(), ends_text(offsets, "{}"))


def end(entity: str, batch: int = 7, offset: int | None = None, *, restorable: bool = True) -> SinkEnd:
    return SinkEnd(entity, tip(batch, offset), "", restorable, entity.removeprefix("m."))


def log(finished: int, *, first: int = 0, states: bool = True) -> CheckpointLog:
    """Of a checkpoint that keeps the batches since the first."""
    numbers = range(first, finished + 1)
    return CheckpointLog(finished, {n: replace(tip(n), ends="") for n in numbers}, frozenset(numbers if states else ()))


def found(project: LoadedProject, query: str, ends: Sequence[SinkEnd], *rest: object) -> FromSink:
    return from_sink(project.queries[query], ends, *rest)  # type: ignore[arg-type]


def test_a_query_without_state_goes_on_from_its_sink(project: LoadedProject) -> None:
    made = found(project, "copy", [end("m.copy")])
    assert (made.tip, made.rewinds, made.following) == (tip(7), False, None)
    assert "ends at batch 7, where m.copy ends, from the offsets in its ledger" in made.does


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([SinkEnd("m.copy")], "has no batch of this checkpoint version"),
        ([SinkEnd("m.copy", Tip(7, "aa"))], "keeps no offsets (batch 7)"),
        ([SinkEnd("m.copy", unknown="m.copy keeps no ledger")], "m.copy keeps no ledger"),
        ([end("m.copy"), end("m.other", 7, 5)], "m.copy at batch 7, m.other at batch 7"),
        ([end("m.copy"), end("m.other", 6), end("m.third", 5)], "do not end at one batch, nor at two"),
    ],
)
def test_what_is_not_exact_is_told_with_its_reason(project: LoadedProject, ends: list[SinkEnd], reason: str) -> None:
    made = found(project, "copy", ends)
    assert made.tip is None and reason in made.reason


def test_state_is_in_the_checkpoint_alone(project: LoadedProject) -> None:
    made = found(project, "v", [end("m.v")])
    assert made.tip is None and "keeps state that only its checkpoint has (" in made.reason
    assert not needs_its_checkpoint(project.queries["copy"])


@pytest.mark.parametrize("query", ["copy", "v"])
def test_a_sink_that_lost_its_end_takes_the_checkpoint_back(project: LoadedProject, query: str) -> None:
    """State or not: the checkpoint keeps the batch."""
    made = found(project, query, [end(f"m.{query}", 4)], log(9))
    assert (made.tip, made.following, made.rewinds) == (tip(4), None, True)
    assert f"ends at batch 4, where m.{query} ends, and read later records again" in made.does


def test_a_batch_that_the_checkpoint_does_not_keep_comes_from_the_ledger(project: LoadedProject) -> None:
    made = found(project, "copy", [end("m.copy", 4)], log(200, first=100))
    assert (made.tip, made.rewinds) == (tip(4), False)


@pytest.mark.parametrize(
    ("kept", "what"),
    [
        (log(200, first=100), "an older batch"),
        (log(9, states=False), "a batch whose state is gone"),
        (replace(log(9), batches={4: tip(4, 41)}), "a batch of other offsets"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_state_that_is_gone_does_not_come_back(project: LoadedProject, kept: CheckpointLog, what: str) -> None:
    made = found(project, "v", [end("m.v", 4)], kept)
    assert made.tip is None and "its checkpoint does not have that of batch 4" in made.reason, what


def test_a_checkpoint_does_not_end_at_a_batch_it_never_finished(project: LoadedProject) -> None:
    planned = replace(log(9), finished=8)
    assert not found(project, "copy", [end("m.copy", 9)], planned).rewinds
    assert found(project, "v", [end("m.v", 9)], replace(planned, states=frozenset(range(10)))).tip is None


def test_a_ledger_without_offsets_names_no_state(project: LoadedProject) -> None:
    made = found(project, "v", [SinkEnd("m.v", Tip(4), "", True, "v")], log(9))
    assert made.tip is None and "its checkpoint does not have that of batch 4" in made.reason


def test_a_ledger_of_its_own_does_not_vouch_for_rows(project: LoadedProject) -> None:
    """In Kafka rows and marker are two topics, in S3 two files: rows may be there that the ledger does not know."""
    made = found(project, "copy", [end("m.copy", 4, restorable=False)], log(9))
    assert made.tip is None and "rows may be in m.copy that its ledger does not know" in made.reason
    assert found(project, "copy", [end("m.copy", 12, restorable=False)], log(9)).tip == tip(12), "it does not go back"


def test_a_source_that_forgets_is_not_read_again(project: LoadedProject) -> None:
    made = found(project, "copy", [end("m.copy", 4)], log(9), "the slot drops them")
    assert (made.tip, made.reason) == (None, "the slot drops them")
    assert found(project, "copy", [end("m.copy", 12)], log(9), "the slot drops them").tip == tip(12)


@pytest.mark.parametrize("query", ["logged"])
def test_a_row_log_is_not_taken_back(project: LoadedProject, query: str) -> None:
    made = found(project, query, [end("m.logged", 4)], log(9))
    assert made.tip is None and "it is not known which of the rows" in made.reason


def test_sinks_that_are_one_batch_apart_end_in_it(project: LoadedProject) -> None:
    """The crash between two sinks of a batch whose checkpoint is lost: one has it and skips, the other takes it."""
    made = found(project, "two", [end("m.a", 7, restorable=False), end("m.b", 6, restorable=False)])
    assert (made.tip, made.following, made.renumbered, made.rewinds) == (tip(6), tip(7), (), False)
    assert "ends at batch 6 and has begun batch 7, which some of m.a, m.b have" in made.does


def test_a_checkpoint_with_state_goes_back_between_two_sinks(project: LoadedProject) -> None:
    made = found(project, "counting", [end("m.c", 9), end("m.d", 8)], log(9))
    assert (made.tip, made.following, made.rewinds) == (tip(8), tip(9), True)
    refused = found(project, "counting", [end("m.c", 9), end("m.d", 6)], log(9))
    assert refused.tip is None and "m.c at batch 9, m.d at batch 6; and the query keeps state" in refused.reason


def test_batches_that_one_sink_lacks_become_one(project: LoadedProject) -> None:
    """Its own number is the newest one's, which the other sink skips; the ledger of the first counts up to it."""
    made = found(project, "two", [end("m.a", 9, restorable=False), end("m.b", 4)], log(9))
    assert (made.tip, made.following, made.renumbered) == (replace(tip(4), batch=8), tip(9), ("b",))
    assert not made.rewinds
    for ends, reason in (
        ([end("m.a", 9), end("m.b", 4, restorable=False)], "rows may be in m.b"),
        ([end("m.a", 6 + MOST_BATCHES), end("m.b", 4)], f"more than {MOST_BATCHES} batches apart"),
        ([end("m.a", 9), SinkEnd("m.b", replace(tip(4), ends=""), "", True, "b")], "keeps no offsets"),
    ):
        refused = found(project, "two", ends, log(9))
        assert refused.tip is None and reason in refused.reason
