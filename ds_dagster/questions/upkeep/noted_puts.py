"""Sends repaired records to a store without transactions, each once as far as that can be known.

A note of each record is in Kafka, next to the logs: ``sending`` is committed before the record is sent, ``sent`` or
``refused`` after the answer. A run that opens the notes fences earlier runs: these can write no notes, so they begin no
request. If a run ends with a record in state ``sending`` (killed, or without an answer), the next run searches the
stream for a record with the same bytes that arrived after the note.
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
"""If writing the note takes longer, the note is written again before the request begins."""
SETTLED_SECONDS = 60.0
"""After this long, the request of a note has ended, and its records can no longer arrive."""
MARGIN_SECONDS = 2.0
"""Added to the known difference between the clocks of this machine and of the store."""
ATTEMPTS, PAUSE_SECONDS = 6, 0.5
"""Attempts for records that are refused temporarily, and the first pause; pauses double."""
SENDING, SENT, REFUSED = "sending", "sent", "refused"


def digest(key: bytes | None, value: bytes | None) -> str:
    """Digest of a record's bytes; no value and an empty value have the same digest."""
    parts = (key or b"", value or b"")
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).hexdigest()


class NotedPuts:
    """See ``catalog.redriving.Redriver``."""

    def __init__(self, way: ByNotes, entity: str, notes: Notes) -> None:
        """``way``: settings; ``entity``: gets the records; ``notes``: notes of its records."""
        self.admin, self.puts, self.store = way.admin, way.puts, way.store
        self.clock, self.may_double = way.clock, way.may_double
        self.entity, self.notes = entity, notes
        skew = self.admin.skew([entity]) if isinstance(self.admin, TellsTime) else None
        self._ahead = (skew.at_most or 0.0) if skew is not None else 0.0

    def sent(self) -> frozenset[str]:
        """See ``catalog.redriving.Redriver``. Searches for records that an earlier run left in state ``sending``.

        Raises:
            DsError: REDRIVE_UNDER_WAY, REDRIVE_UNCERTAIN, or a store fails.
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
        """Refuse while another run may still send, and if the stream no longer has records of that time.

        Raises:
            UserError: REDRIVE_UNDER_WAY, REDRIVE_UNCERTAIN.
        """
        now, begun = self._now(), [note["since"] for note in pending.values()]
        wait = max(begun) + SETTLED_SECONDS + MARGIN_SECONDS - now
        if wait > 0:
            raise error("REDRIVE_UNDER_WAY", entity=self.entity, count=len(pending), seconds=int(wait) + 1)
        lost = [since for since in begun if since < now - self.puts.kept_seconds(self.entity)]
        if lost and not self.may_double:
            first = next(id_ for id_, note in pending.items() if note["since"] == min(lost))
            raise error("REDRIVE_UNCERTAIN", entity=self.entity, count=len(lost), first=first.rpartition("/")[0])

    def _arrived(self, pending: Mapping[str, Any], others: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Pairs of id and place, for the records that are in the stream.

        Args:
            pending: notes of records that may be in the stream.
            others: sequence numbers of records that are known to be other records.
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
        """See ``catalog.redriving.Redriver``. A kill leaves whole requests, but the store may accept a part of one;
        records that it refuses temporarily are sent again.

        Raises:
            DsError: a store fails.
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
                continue  # too late: another run may have searched the stream already
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
        """Close the notes' connection."""
        self.notes.close()


def _accounted_for(notes: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Sequence numbers of records that were left out or are known to be sent; their bytes may be equal to those of a
    searched record."""
    replaced = (id_.split("/")[1].partition(".")[0] for id_ in notes)
    return frozenset((*replaced, *(note["place"].partition("/")[2] for note in notes.values() if "place" in note)))


def _is_between(record: RawRecord, since: float) -> bool:
    """Whether a record arrived in the time in which the request of a note may have arrived."""
    arrival = record.timestamp_millis / 1000
    return since - MARGIN_SECONDS <= arrival <= since + SETTLED_SECONDS + MARGIN_SECONDS


def parsed(notes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Parse the JSON of notes, by id."""
    return {id_: json.loads(text) for id_, text in notes.items()}


def sent_of(notes: Mapping[str, Mapping[str, object]]) -> frozenset[str]:
    """The ids of records that are known to be sent."""
    return frozenset(id_ for id_, note in notes.items() if note.get("state") == SENT)


@dataclass(frozen=True, slots=True)
class ByNotes:
    """See ``catalog.redriving.Redrives``.

    Attributes:
        admin, puts: admin and operations of the store that gets the records.
        store: name of that store.
        clock: clock of this machine.
        may_double: send a record again if it is unknown whether it was sent.
        keeps: operations of the store with the notes.
        like: entity in that store whose settings the notes' topic copies.
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
