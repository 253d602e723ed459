"""Compares the streams that a query writes with its checkpoint, before the first batch.

A transactional sink stores the number and offsets of its last batch (the marker). For any other stream only its
identity can be compared, so only TARGET_GONE is detected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import SinkIdentity, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, Tip, batch_text, decide
from ds_dagster.errors import error
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.gateway import package
from ds_dagster.spark.jvm import NO_REPLAY
from ds_dagster.spark.queries.source_identity import TARGETS, remember, remembered

HELD = "held"
"""Entry that a checkpoint has next to its targets (``store.entity``) after its sinks were compared with it."""
LOOSE = "without_marker"
"""Entry with the streams (JSON) that the last run wrote at least once: the marker of such a stream may be older."""


@dataclass(frozen=True, slots=True)
class Account:
    """The checkpoint and the targets of a run that is about to begin.

    Attributes:
        session: session of the job.
        checkpoint: location of the checkpoint.
        tip: its last batches.
        targets: entity (``store.entity``) → its identity, which a later entity of that name does not share; without
            unknown ones.
        before: the targets that the checkpoint remembers.
        entities: sources and sinks of the job, for messages.
        sources: JSON object: source → its identity.
        is_muted: the run writes no rows; then the marker in a sink may be ahead of a checkpoint that was reset.
        loose: the settled streams that this run writes at least once.
    """

    session: SparkSession
    checkpoint: str
    tip: CheckpointTip
    targets: Mapping[str, str]
    before: Mapping[str, str]
    entities: str = ""
    sources: str = "{}"
    is_muted: bool = False
    loose: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        session: SparkSession,
        checkpoint: str,
        tip: CheckpointTip,
        targets: Mapping[str, str],
        entities: str = "",
        sources: Mapping[str, str] = MappingProxyType({}),
        *,
        is_muted: bool = False,
    ) -> Account:
        """Read the targets that the checkpoint remembers.

        Raises:
            ExternalError: CHECKPOINT_UNREADABLE.
        """
        before = remembered(session, checkpoint, TARGETS)
        tip = replace(tip, is_older=tip.committed is not None and HELD not in before)
        return cls(session, checkpoint, tip, targets, before, entities, sources_text(sources), is_muted)

    def settle(self, write: WriteSpec, identity: SinkIdentity, options: Mapping[str, str]) -> Mapping[str, str]:
        """Options of a stream sink for this run.

        Args:
            write: write spec of the sink.
            identity: identity of the job in the sink.
            options: options of the sink with resolved references.

        Raises:
            DsError: CHECKPOINT_BEHIND_SINK, SINK_BEHIND_CHECKPOINT, TARGET_GONE; Kafka's conditions if the marker
                cannot be read.
        """
        settled = dict(options)
        if not write.transactional:
            self.loose.append(write.entity)
        else:
            settled |= {"checkpoint": self.checkpoint, "sources": self.sources}
            was_loose = write.entity in json.loads(self.before.get(LOOSE, "[]"))
            if (self.is_muted or was_loose) and self.tip.committed is not None:
                note_written(self.session, settled, self.tip.committed.batch, self.entities)
        tip = self._marker(write.entity, settled) if write.transactional else self.tip.committed
        facts = SinkFacts(tip, identity.version if tip else None, exists=not self._is_other(write.entity))
        answer = decide(self.tip, facts, identity.version)
        if answer.condition:
            raise error(answer.condition, table=write.entity, sink=batch_text(tip), checkpoint=_end(self.tip))
        if write.transactional:
            settled["replay.epoch"] = str(answer.skip.batch if answer.skip else NO_REPLAY)
        return settled

    def close(self) -> None:
        """Write the targets to the checkpoint; call it when all sinks are settled.

        Raises:
            ExternalError: CHECKPOINT_UNREADABLE.
        """
        loose = {LOOSE: json.dumps(sorted(self.loose))} if self.loose or LOOSE in self.before else {}
        now = {**self.targets, **loose, HELD: "by ledgers"}
        remember(self.session, self.checkpoint, TARGETS, self.before, now)

    def _is_other(self, entity: str) -> bool:
        return self.before.get(entity, "") not in ("", self.targets.get(entity, ""))

    def _marker(self, entity: str, options: Mapping[str, str]) -> Tip | None:
        """The last batch of the sink; opens the sink's transaction.

        In two cases the checkpoint's last committed batch is returned in place of the marker:

        * The marker is missing and no batch was open. It has expired with its consumer group (the topic is the same),
          or an earlier version of the package wrote none because no batch had rows.
        * The marker is from an earlier version of the package and behind: that version wrote none for batches without
          rows.
        """
        transaction = _open_transaction(self.session, options, self.entities)
        marker, committed = Tip(**transaction) if transaction else None, self.tip.committed
        if committed is None:
            return marker
        if marker is None:
            is_known = entity in self.targets and self.before.get(entity) == self.targets[entity]
            return committed if (is_known or self.tip.is_older) and self.tip.planned is None else None
        return committed if not marker.offsets and marker.batch < committed.batch else marker


def sources_text(sources: Mapping[str, str]) -> str:
    """Identities of the sources as compact JSON, as in markers."""
    return json.dumps(dict(sources), sort_keys=True, separators=(",", ":"))


def note_written(session: SparkSession, options: Mapping[str, str], epoch: int, entities: str) -> None:
    """Record a planned batch as the last one in a topic, without writing rows: another job has written them.

    Args:
        session: the engine's session.
        options: options of the transactional sink, with its checkpoint; no query of the job may run.
        epoch: number of the batch.
        entities: sources and sinks of the job, for messages.

    Raises:
        DsError: Kafka's conditions.
    """
    try:
        package(session, "dsdagster.kafka").JobTransactions.noteWritten(dict(options), epoch)
    except SPARK_ERRORS as problem:
        raise classify(problem, entities) from problem


def _open_transaction(session: SparkSession, options: Mapping[str, str], entities: str) -> Mapping[str, Any] | None:
    """Open the transaction of a sink before its first batch; this fences every other owner of its id. Returns the
    marker, see ``dsdagster.kafka.Marker``."""
    try:
        state = package(session, "dsdagster.kafka").JobTransactions.open(dict(options))
    except SPARK_ERRORS as problem:
        raise classify(problem, entities) from problem
    return cast("Mapping[str, Any] | None", json.loads(state))


def _end(tip: CheckpointTip) -> str:
    return batch_text(tip.planned or tip.committed)
