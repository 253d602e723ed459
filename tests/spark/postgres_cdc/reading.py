"""A loop around one reader of changes, in place of Spark's: plans, reads, keeps the offset log over restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from ds_dagster.errors import DsError
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from ds_dagster.spark.postgres_cdc.source import ChangesReader

Row = dict[str, Any]


class Reader:
    """Spark's loop around one reader: plans, reads in a task of its own, keeps the offset log over restarts."""

    def __init__(self, options: CdcOptions) -> None:
        self.options = options
        self.reader = ChangesReader(options)
        self.position: Any = self.reader.initialOffset()
        self.rows: list[Row] = []
        self.sizes: list[int] = []
        self.shared = 0
        self.planned = 0

    def plan(self) -> Any:
        end = json.loads(json.dumps(self.reader.latestOffset(self.position, self.reader.getDefaultReadLimit())))
        return None if end == self.position else end

    def read(self, end: Any) -> list[Row]:
        task = ChangesReader(self.options)
        parts = self.reader.partitions(self.position, end)
        self.shared += sum(getattr(part.value, "live", None) is not None for part in parts)
        planned = self.reader.rows_of(parts)
        rows = [row for part in parts for batch in task.read(part) for row in batch.to_pylist()]
        if planned is not None:
            self.planned += 1
            assert [row for batch in planned for row in batch.to_pylist()] == rows, "as a task reads them"
        return rows

    def step(self) -> bool:
        self.reader._next_look = 0.0
        end = self.plan()
        if end is None:
            return False
        rows = self.read(end)
        self.rows += rows
        self.sizes.append(len(rows))
        self.position = end
        self.reader.commit(end)
        return True

    def crash(self) -> bool:
        """Like :meth:`step`, but the batch is read twice: the process ends before it is committed."""
        self.reader._next_look = 0.0
        end = self.plan()
        if end is None:
            return False
        first = self.read(end)
        self.restart()
        again = self.read(end)
        assert again == first, "a batch that is repeated has the same rows"
        self.rows += again
        self.position = end
        return True

    def drain(self) -> list[Row]:
        """Everything there is; the rows that came."""
        before = len(self.rows)
        while self.step():
            pass
        return self.rows[before:]

    def restart(self) -> None:
        self.reader.stop()
        self.reader = ChangesReader(self.options)

    def folded(self, *key: str) -> list[Row]:
        found: dict[tuple[Any, ...], Row] = {}
        for row in sorted(self.rows, key=lambda r: (r["commit_lsn"], r["sequence"])):
            assert row["bad"] is None, row["bad"]
            at = tuple(row["row"][name] for name in key)
            found.pop(at, None)
            if not row["deleted"]:
                found[at] = row["row"]
        return [found[at] for at in sorted(found)]


BIG, TEXT = LongType(), StringType()


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields.items()])


KEYED = struct(id=BIG, v=TEXT)
ENVELOPE = struct(op=TEXT, before=struct(id=BIG, v=TEXT), after=struct(id=BIG, v=TEXT))
TABLE = "CREATE TABLE s.t (id bigint PRIMARY KEY, v text)"


def condition(step: Callable[[], object]) -> str:
    with pytest.raises(DsError) as caught:
        step()
    return caught.value.condition
