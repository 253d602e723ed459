"""Replication slots, with which a store remembers the position of a reader: their names and their state."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ds_dagster.names import safe_name


@dataclass(frozen=True, slots=True)
class Slot:
    """One replication slot of a project's jobs, as its store reports it.

    Attributes:
        store: folded name of one store on its server.
        server: host and port.
        name: of the slot, and of its publication.
        database: it belongs to.
        active: a reader is connected now.
        retained: bytes of log the server keeps for it.
        status: of that log (``reserved``, ``extended``, ``unreserved``, ``lost``).
    """

    store: str
    server: str
    name: str
    database: str
    active: bool
    retained: int
    status: str


def default_slot(job: str, source: str) -> str:
    """Name of a job's own slot for one of its sources: at most 63 lower-case letters, digits and underscores.

    Args:
        job: ``environment.journal.query``.
        source: name of the source in the checkpoint.
    """
    query = safe_name(job.rsplit(".", 1)[-1]).lower()[:28]
    return f"{slot_prefix(job)}{query}_{hashlib.sha256(f'{job}/{source}'.encode()).hexdigest()[:8]}"


def snapshot_slot(slot: str) -> str:
    """Name of the slot that the initial copy of the tables holds during its session; different for each slot."""
    return f"{slot[:20]}_{hashlib.sha256(slot.encode()).hexdigest()[:16]}_snapshot"


def slot_prefix(job: str) -> str:
    """Common prefix of the slots of all jobs of one journal."""
    project = job.rsplit(".", 1)[0]
    return f"ds_{hashlib.sha256(project.encode()).hexdigest()[:10]}_"
