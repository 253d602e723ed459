"""Entity statements of a store of Delta tables: folders, and tables in them."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityColumn, EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.stores.delta.connection import CONTROL_LIMITS, LakeAddress
from ds_dagster.stores.entity_common import (
    TableOperations,
    jsonable,
    not_found,
    path_invalid,
    record_invalid,
    row_record,
    row_values,
    type_of,
)

if TYPE_CHECKING:
    import pyarrow

R = TypeVar("R")
DIALECT = "databricks"
"""Delta names types as Spark SQL does."""
LOG = "_delta_log"
SHAPE = '"folder"."table", one part per folder below the store\'s'
HIDDEN = ("_", ".")


class DeltaEntities(TableOperations):
    """See ``catalog.entity_operations.EntityOperations``. A path is the table's folder below the store's, one part per
    folder (or one part with slashes)."""

    kind = "DELTA"

    def __init__(self, address: LakeAddress) -> None:
        self._address = address
        self.store = address.store
        self.kind = address.kind

    def path_of(self, relation: Relation) -> EntityPath:
        """The folder's parts."""
        return tuple(relation.entity.split("/"))

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """Folders, and tables in them."""
        parts = self._parts(path)
        names = self._folders(parts)
        if parts and not names:
            raise not_found(self.store, path, self._folders(parts[:-1]))
        if LOG in names and parts:
            raise path_invalid(self.store, path, "the path of a folder: this one is a table")
        visible = [name for name in names if not name.startswith(HIDDEN)]
        tables = {name for name in visible if LOG in self._folders((*parts, name))}
        return [
            EntityNode((*parts, name), "table" if name in tables else "folder", is_level=name not in tables)
            for name in sorted(visible)
        ]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Columns; rows and bytes from the log; the newest version. None without a table."""
        table = self._table(path)
        return None if table is None else self._guarded(lambda: _described(self._parts(path), table))

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Refused: folders are created with their tables, tables by queries."""
        raise self.table_without_columns()

    def drop(self, path: EntityPath) -> None:
        """Delete the files of a table, including its history."""
        self._existing(path)
        *above, name = self._parts(path)
        place = self._address.place(*above) if above else self._address.root
        self._guarded(lambda: self._address.remove_folder(place, name))

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Append one row in one commit; returns the new version of the table."""
        table = self._existing(path)
        schema = _arrow_schema(table)
        values = row_values(path, record, schema.names)
        row = _arrow_row(path, schema, values)

        def step() -> str:
            from deltalake import write_deltalake

            write_deltalake(table, row, mode="append")
            table.update_incremental()
            return str(table.version())

        return self._guarded(step)

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """Some rows."""
        table = self._existing(path)

        def step() -> list[RawRecord]:
            rows = table.to_pyarrow_dataset().head(limit).to_pylist()
            return [row_record(row) for row in rows]

        return self._guarded(step)

    def _parts(self, path: EntityPath) -> tuple[str, ...]:
        parts = tuple(piece for part in path for piece in part.split("/") if piece)
        if any(part in (".", "..") for part in parts):
            raise path_invalid(self.store, path, SHAPE)
        return parts

    def _table(self, path: EntityPath) -> Any | None:
        parts = self._parts(path)
        if not parts:
            raise path_invalid(self.store, path, SHAPE)
        place = self._address.place(*parts)
        return self._guarded(lambda: self._address.table(place, CONTROL_LIMITS))

    def _existing(self, path: EntityPath) -> Any:
        table = self._table(path)
        if table is None:
            raise not_found(self.store, path, self._folders(self._parts(path)[:-1]))
        return table

    def _folders(self, parts: Sequence[str]) -> Sequence[str]:
        place = self._address.place(*parts) if parts else self._address.root
        return self._guarded(lambda: self._address.folders(place, CONTROL_LIMITS))

    def _guarded(self, step: Callable[[], R]) -> R:
        try:
            return step()
        except self._address.errors() as problem:
            raise self._address.failure(problem, "look at its tables") from None


def columns_of(table: Any) -> tuple[EntityColumn, ...]:
    """Columns of a ``deltalake.DeltaTable``."""
    fields = json.loads(table.schema().to_json())["fields"]
    natives = [(field["name"], native_text(field["type"]), bool(field["nullable"])) for field in fields]
    return tuple(EntityColumn(name, type_of(native, DIALECT), native, nullable) for name, native, nullable in natives)


def native_text(type_: Any) -> str:
    """A type of the Delta protocol as Spark SQL writes it, except the protocol's own names of whole numbers."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "array":
        return f"array<{native_text(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{native_text(type_['keyType'])},{native_text(type_['valueType'])}>"
    return "struct<" + ",".join(f"{field['name']}:{native_text(field['type'])}" for field in type_["fields"]) + ">"


def _described(path: EntityPath, table: Any) -> EntityDescription:
    import pyarrow
    import pyarrow.compute as compute

    files = pyarrow.table(table.get_add_actions(flatten=True))
    size = int(compute.sum(files["size_bytes"]).as_py() or 0) if files.num_rows else 0
    settings = {name: str(value) for name, value in table.metadata().configuration.items()}
    facts = EntityFacts("/".join(path), settings=MappingProxyType(settings), size=int(table.count()))
    newest = MappingProxyType({"version": str(table.version())})
    return EntityDescription(path, "table", facts, columns_of(table), bytes=size, newest=newest)


def _arrow_schema(table: Any) -> pyarrow.Schema:
    import pyarrow

    return pyarrow.schema(table.schema().to_arrow())


def _arrow_row(path: EntityPath, schema: pyarrow.Schema, values: Mapping[str, Any]) -> pyarrow.Table:
    """One row with the table's types, read by Arrow's JSON reader.

    Raises:
        UserError: ENTITY_RECORD_INVALID.
    """
    import io

    import pyarrow
    from pyarrow import json as arrow_json

    missing = [field.name for field in schema if not field.nullable and values.get(field.name) is None]
    if missing:
        raise record_invalid(path, f"column {missing[0]} may not be NULL")
    line = json.dumps(values, default=jsonable, ensure_ascii=False).encode()
    plain = pyarrow.schema([schema.field(name).with_nullable(True) for name in values])
    options = arrow_json.ParseOptions(explicit_schema=plain, unexpected_field_behavior="error")
    try:
        row = arrow_json.read_json(io.BytesIO(line), parse_options=options)
        columns = [
            row[field.name].cast(field.type) if field.name in values else pyarrow.nulls(1, field.type)
            for field in schema
        ]
    except pyarrow.ArrowException as problem:
        raise record_invalid(path, str(problem)) from None
    return pyarrow.Table.from_arrays(columns, schema=schema)
