"""Sources that deliver rows instead of undecoded records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowSource:
    """A source whose rows have the relation's columns in their types already, so that nothing is decoded.

    Attributes:
        row: expression of a STRUCT of the columns that are read.
        deleted: expression that is true for a delete (changelogs).
        bad: expression that gives the fault of a row, NULL for a good row.
        columns_option: option for the columns that are read (JSON of Spark's struct type).
        owner_option: option for the name of the reader: ``job/source name``.
        state_option: option for a folder of the engine's machine with the source's own state.
        shared_option: option that is ``false`` if the source may share no session; empty: it has none.
        wait_option: option that is ``true`` if the query has no other source. The source then waits for a moment when
            it is asked for the next offset, so that Spark learns of a change at once; empty: it never waits.
    """

    row: str
    deleted: str
    bad: str
    columns_option: str
    owner_option: str
    state_option: str
    shared_option: str = ""
    wait_option: str = ""
