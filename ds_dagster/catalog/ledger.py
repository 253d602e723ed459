"""Compares a sink's ledger with a checkpoint: the one place that decides whether a job may go on.

A checkpoint knows which batches were planned and which are finished; a sink's ledger knows which batches were written.
Both remember a batch by its number and by a digest of the offsets it ends at, so that a batch which was planned again
with other offsets is not mistaken for the batch that was written. Nothing here does I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ds_dagster.errors import error

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Tip:
    """One batch.

    Attributes:
        batch: its number, from 0.
        offsets: digest of its end offsets, hex; empty in ledgers of older versions.
        ends: JSON object of the ``offsets`` themselves and of their ``sources`` (name → identity, which differs from a
            later source of the same name), so that a checkpoint can be made that ends here; empty where the ledger
            does not have it.
    """

    batch: int
    offsets: str = ""
    ends: str = field(default="", compare=False, repr=False)

    def is_same(self, other: Tip) -> bool:
        """Whether both are the same batch. An empty digest equals any other; a shortened one (some ledgers store only
        the beginning) equals every digest that begins with it."""
        short, long = sorted((self.offsets, other.offsets), key=len)
        return self.batch == other.batch and long.startswith(short)


def batch_text(tip: Tip | None) -> str:
    """How messages show a batch."""
    return f"batch {tip.batch}" if tip else "no batch"


def ends_text(offsets: str, sources: str) -> str:
    """:attr:`Tip.ends` of two JSON texts. They are taken as they are: the digest is of the text of the offsets."""
    return f'{{"offsets":{offsets},"sources":{sources}}}'


@dataclass(frozen=True, slots=True)
class CheckpointTip:
    """Where a checkpoint ends.

    Attributes:
        committed: the last finished batch, None before the first. The batch before a planned one is finished, even if
            the commit log does not have it.
        planned: the one batch that was started and not finished, or None.
        is_older: not compared with its sinks yet: an older version of the package wrote it, whose stream sinks had no
            ledger before the first row.
    """

    committed: Tip | None = None
    planned: Tip | None = None
    is_older: bool = False

    def __post_init__(self) -> None:
        if self.committed and self.planned and self.planned.batch != self.committed.batch + 1:
            raise error("INTERNAL", where=f"batch {self.planned.batch} does not follow batch {self.committed.batch}")

    @classmethod
    def at(cls, batch: Tip) -> CheckpointTip:
        """The tip while a batch runs: that batch is planned and all before it are finished."""
        return cls(Tip(batch.batch - 1) if batch.batch else None, batch)


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """State of a sink, as its store reports it.

    Attributes:
        tip: the newest batch in its ledger of this job and checkpoint version, or None.
        version: the newest checkpoint version of this job in its ledger, or None.
        exists: the target is there.
        is_table: the object with the target's name is a table that can be written.
        differs: the target has another shape than the rows.
        has_others: rows of another job are in the target and none of this one's.
        keeps: condition that forbids replacing the rows of an earlier version, empty without one.
    """

    tip: Tip | None = None
    version: int | None = None
    exists: bool = True
    is_table: bool = True
    differs: bool = False
    has_others: bool = False
    keeps: str = ""


@dataclass(frozen=True, slots=True)
class SinkVerdict:
    """Verdict on a job's sink.

    Attributes:
        condition: why it may not go on, empty where it may.
        skip: the planned batch, where the sink has it already: it is run again for its state and not written.
        replaces: the first batch replaces rows of an earlier checkpoint version.
    """

    condition: str = ""
    skip: Tip | None = None
    replaces: bool = False


def decide(checkpoint: CheckpointTip, sink: SinkFacts, version: int) -> SinkVerdict:
    """Whether a job may go on from a checkpoint with a sink.

    Args:
        checkpoint: where the checkpoint ends.
        sink: state of the sink.
        version: checkpoint version of the job.

    Returns:
        A verdict whose ``condition`` is LEDGER_NEWER, TARGET_NOT_A_TABLE, TARGET_DIFFERS, TARGET_OF_OTHER_JOB, the
        condition in ``sink.keeps``, TARGET_GONE, SINK_BEHIND_CHECKPOINT, CHECKPOINT_BEHIND_SINK, or empty. The first
        that applies is given.
    """
    replaces = sink.version is not None and sink.version < version
    refusals: Mapping[str, bool] = MappingProxyType(
        {
            "LEDGER_NEWER": sink.version is not None and sink.version > version,
            "TARGET_NOT_A_TABLE": not sink.is_table,
            "TARGET_DIFFERS": sink.differs,
            "TARGET_OF_OTHER_JOB": sink.has_others,
            sink.keeps: replaces and bool(sink.keeps),
            "TARGET_GONE": not sink.exists and (sink.tip is not None or checkpoint.committed is not None),
        }
    )
    for condition, applies in refusals.items():
        if applies:
            return SinkVerdict(condition)
    return _compared(checkpoint, sink.tip, replaces)


def _compared(checkpoint: CheckpointTip, tip: Tip | None, replaces: bool) -> SinkVerdict:
    """The verdict from comparing the two tips."""
    committed, planned = checkpoint.committed, checkpoint.planned
    if tip is None:
        return SinkVerdict("SINK_BEHIND_CHECKPOINT") if committed else SinkVerdict(replaces=replaces)
    if planned and planned.is_same(tip):
        return SinkVerdict(skip=planned)
    if committed and tip.batch < committed.batch:
        return SinkVerdict("SINK_BEHIND_CHECKPOINT")
    if committed and committed.is_same(tip):
        return SinkVerdict()
    return SinkVerdict("CHECKPOINT_BEHIND_SINK")


def within_run(batch: Tip, sink: SinkFacts, version: int, skip: Tip | None) -> SinkVerdict:
    """Like :func:`decide`, for one batch of a run.

    Args:
        batch: the next batch.
        sink: state of the sink, read in the transaction of this batch.
        version: checkpoint version of the job.
        skip: the batch to skip that :func:`decide` returned when the run started; no other batch may be skipped.
    """
    answer = decide(CheckpointTip.at(batch), sink, version)
    if answer.skip is not None and (skip is None or not skip.is_same(batch)):
        return SinkVerdict("CHECKPOINT_BEHIND_SINK")
    return answer
