"""Identity of a job: environment + journal uuid + query name.

The id is part of transactional ids, consumer groups and ledgers. Two laptops have two journals and therefore never
fence each other. After a state folder is deleted, the new journal never uses the ledger rows of the old one.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.names import file_name


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of one project in one environment. ``journal``: uuid that the journal got when it was created."""

    environment: str
    journal: str

    def job_id(self, name: str) -> str:
        """``environment.uuid.query``: letters, digits, ``.``, ``_`` and ``-`` only."""
        return f"{_plain(self.environment)}.{self.journal}.{_plain(name)}"

    def sink(self, name: str, version: int) -> SinkIdentity:
        """Identity of a job's writes under one checkpoint version."""
        return SinkIdentity(self.job_id(name), version)

    @property
    def folder(self) -> str:
        """Folder name under ``checkpoints/``: checkpoints of another journal are never used."""
        return f"{_plain(self.environment)}-{self.journal[:12]}"


def new_journal_id() -> str:
    """A fresh journal uuid, 32 hexadecimal digits."""
    return uuid.uuid4().hex


def _plain(text: str) -> str:
    """A part of a job id; dots are kept."""
    return file_name(text, also=".")
