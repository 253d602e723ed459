"""Repaired records go back into a store without transactions, each once as far as that can be told.

A note of each record is in Kafka, next to the logs: ``sending`` is committed before the record is sent, ``sent`` or
``refused`` after the answer. Taking the notes ends an earlier run: it can note nothing more, hence begin no request. A
record that is ``sending`` when its run has ended, killed or without an answer, is looked for in the stream: one with
these bytes that arrived since it was noted is it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.reading.skew import TellsTime
from ds_dagster.catalog.redriving import KeepsNotes, Notes, PutsRecords, Redriver, RepairedRecord
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.clock import Clock
from ds_dagster.errors import DsError, error

REQUEST_SECONDS = 20.0
"""A request that has not begun so long after its note is noted again first; by then it has ended, or timed out."""
SETTLED_SECONDS = 60.0
"""After a note, no request that it was for can still arrive."""
MARGIN_SECONDS = 2.0
"""Besides what is known of the clocks of this machine and of the store."""
ATTEMPTS, PAUSE_SECONDS = 6, 0.5
"""Of records that are refused for now; pauses double."""
SENDING, SENT, REFUSED = "sending", "sent", "refused"


def digest(key: bytes | None, value: bytes | None) -> str:
    """Tells a record's bytes; no value and an empty one are the same."""
    parts = (key or b"", value or b"")
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).hexdigest()


class NotedPuts:
    """See ``catalog.redriving.Redriver``."""

    def __init__(self, way: ByNotes, entity: str, notes: Notes) -> None:
        """``way``: how; ``entity``: that takes the records; ``notes``: of its records."""
        self.admin, self.puts, self.store = way.admin, way.puts, way.store
        self.clock, self.may_double = way.clock, way.may_double
        self.entity, self.notes = entity, notes
        skew = self.admin.skew([entity]) if isinstance(self.admin, TellsTime) else None
        self._ahead = (skew.at_most or 0.0) if skew is not None else 0.0

    def sent(self) -> frozenset[str]:
        """See ``catalog.redriving.Redriver``. Looks for the records of a run that has ended in between.

        Raises:
            DsError: REDRIVE_UNDER_WAY, REDRIVE_UNCERTAIN, or of the stores.
        """
        notes = parsed(self.notes.read())
        pending = {id_: note for id_, note in notes.items() if note.get("state") == SENDING}
        if pending:
            self._check_age(pending)
            arrived = dict(self._arrived(pending, _accounted_for(notes)))
            outcome = {
                id_: {**notes[id_], "state": SENT, "place": place, "seen": True} for id_, place in arrived.items()
            }
            self._write({id_: outcome.get(id_, {**note, "state": REFUSED}) for id_, note in pending.items()})
            notes |= outcome
        return sent_of(notes)

    def _check_age(self, pending: Mapping[str, Any]) -> None:
        """Refuse while another run may still be sending, and where the stream has forgotten what it has got."""
        now, begun = self._now(), [note["since"] for note in pending.values()]
        wait = max(begun) + SETTLED_SECONDS + MARGIN_SECONDS - now
        if wait > 0:
            raise error("REDRIVE_UNDER_WAY", entity=self.entity, count=len(pending), seconds=int(wait) + 1)
        lost = [since for since in begun if since < now - self.puts.kept_seconds(self.entity)]
        if lost and not self.may_double:
            first = next(id_ for id_, note in pending.items() if note["since"] == min(lost))
            raise error("REDRIVE_UNCERTAIN", entity=self.entity, count=len(lost), first=first.rpartition("/")[0])

    def _arrived(self, pending: Mapping[str, Any], others: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Id → place of the records that are in the stream.

        Args:
            pending: notes of records that may be there.
            others: sequence numbers of records that are something else.
        """
        by_digest: dict[str, list[str]] = {}
        for id_, note in pending.items():
            by_digest.setdefault(note["digest"], []).append(id_)
        for record in self._since(min(note["since"] for note in pending.values())):
            same = by_digest.get(digest(record.key, record.value), [])
            if record.position.partition("/")[0] in others:
                continue
            for id_ in [id_ for id_ in same if _is_between(record, pending[id_]["since"])][:1]:
                same.remove(id_)
                yield id_, f"{record.partition}/{record.position}"

    def _since(self, since: float) -> Iterable[RawRecord]:
        begin = int((since - MARGIN_SECONDS) * 1000)
        return self.admin.records(self.entity, from_beginning=True, limit=1 << 62, stopped=lambda: False, since=begin)

    def send(self, records: Sequence[RepairedRecord]) -> None:
        """See ``catalog.redriving.Redriver``; each request is all or none for what is killed, not for the store: what
        it refuses for now is sent again.

        Raises:
            DsError: of the stores.
        """
        for portion in list(self.puts.portions(self.entity, records)):
            self._send(portion)

    def _send(self, portion: Sequence[RepairedRecord]) -> None:
        failed: DsError | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                self.clock.sleep(PAUSE_SECONDS * 2**attempt)
            began = self.clock.monotonic()
            about = {record.id: json.loads(record.note) | self._intent(record) for record in portion}
            self._write(about)
            if self.clock.monotonic() - began > REQUEST_SECONDS:
                continue  # too late to be sure that nobody else has looked
            put = self.puts.put(self.entity, portion)
            if not put.is_known:
                raise put.failed or error("INTERNAL", where="an unknown outcome without a failure")
            states = {id_: {"state": SENT, "place": put.written[id_]} for id_ in about if id_ in put.written}
            self._write({id_: note | states.get(id_, {"state": REFUSED}) for id_, note in about.items()})
            portion, failed = [record for record in portion if record.id not in put.written], put.failed
            if not portion:
                return
            if failed is not None and not put.is_for_now:
                raise failed
        raise failed or error("STORE_CALL_FAILED", store=self.store, action="keep notes fast enough")

    def _intent(self, record: RepairedRecord) -> dict[str, object]:
        return {"state": SENDING, "since": self._now(), "digest": digest(record.key, record.value)}

    def _write(self, notes: Mapping[str, Mapping[str, object]]) -> None:
        self.notes.write({id_: json.dumps(note) for id_, note in notes.items()})

    def _now(self) -> float:
        """The earliest time that the store's clock may show, epoch seconds."""
        return self.clock.now() - self._ahead

    def close(self) -> None:
        """Disconnect the notes."""
        self.notes.close()


def _accounted_for(notes: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Sequence numbers of the records that were replaced, and of those that are known to be sent: their bytes may be
    those of a record that is looked for."""
    replaced = (id_.split("/")[1].partition(".")[0] for id_ in notes)
    return frozenset((*replaced, *(note["place"].partition("/")[2] for note in notes.values() if "place" in note)))


def _is_between(record: RawRecord, since: float) -> bool:
    """Whether a record arrived while the request of a note may have."""
    arrival = record.timestamp_millis / 1000
    return since - MARGIN_SECONDS <= arrival <= since + SETTLED_SECONDS + MARGIN_SECONDS


def parsed(notes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Notes as objects."""
    return {id_: json.loads(text) for id_, text in notes.items()}


def sent_of(notes: Mapping[str, Mapping[str, object]]) -> frozenset[str]:
    """The ids of records that are known to be sent."""
    return frozenset(id_ for id_, note in notes.items() if note.get("state") == SENT)


@dataclass(frozen=True, slots=True)
class ByNotes:
    """See ``catalog.redriving.Redrives``.

    Attributes:
        admin, puts: of the store that takes the records; its operations.
        store: its name.
        clock: of this machine.
        may_double: send records again of which it cannot be told whether they were sent.
        keeps: operations of the store that keeps the notes.
        like: entity in it, like which they are kept.
    """

    admin: StoreAdmin
    puts: PutsRecords
    store: str
    clock: Clock
    may_double: bool
    keeps: KeepsNotes
    like: str

    def redriven(self, entity: str) -> frozenset[str]:
        """See ``catalog.redriving.Redrives``."""
        return sent_of(parsed(self.keeps.noted(self._name(entity))))

    def redriver(self, entity: str) -> Redriver:
        """See ``catalog.redriving.Redrives``."""
        return NotedPuts(self, entity, self.keeps.notes(self._name(entity), self.like))

    def _name(self, entity: str) -> str:
        return f"{self.store}.{entity}"
