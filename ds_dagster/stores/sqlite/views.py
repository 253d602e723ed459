"""The embedded view store: one SQLite file per materialized view under ``<state>/views``, written by ``loader.py``,
read by any number of processes while the job writes."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import ReadSpec, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.name_rules import NameRule
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.stores.options import make_options, target_table, word
from ds_dagster.stores.table_sink import opened

LOADER = "ds_dagster.stores.sqlite.loader:open_loader"
FOLDER = "folder"
SUFFIX = ".db"
LONGEST_FILE = 240
"""Most characters of a file's name: file systems take 255, SQLite adds ``-journal``."""
NATIVE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "INTEGER",
        "TINYINT": "INTEGER",
        "SMALLINT": "INTEGER",
        "INTEGER": "INTEGER",
        "BIGINT": "INTEGER",
        "FLOAT": "REAL",
        "DOUBLE": "REAL",
        "DECIMAL": "REAL",
        "VARCHAR": "TEXT",
        "DATE": "TEXT",
        "TIME": "TEXT",
        "TIMESTAMP": "TEXT",
        "TIMESTAMP_LTZ": "TEXT",
        "VARBINARY": "BLOB",
    }
)
"""SQLite's storage by scalar type. Timestamps are text of fixed width (``2024-01-31 23:59:59.000000``), which sorts as
time; true and false are 1 and 0; decimals of up to 15 digits are numbers, longer ones text
(:meth:`SqliteViews.native_type`)."""
MAX_EXACT_DIGITS = 15


class SqliteViews:
    """Materialized views in files of the project's state folder."""

    name = "SQLITE"
    aliases: tuple[str, ...] = ()
    capabilities = Capabilities(
        serves_views=True,
        table_reader="ds_dagster.stores.sqlite.lookup:read_table",
        table_delivery="exactly_once",
        supports_delete=True,
        supports_upsert=True,
        dagster_kinds=("sqlite", "view"),
        storage_kind="sqlite",
        entity_parts=(),
        column_rule=NameRule("no two names that differ in upper and lower case alone", folds_case=True),
        embedded=True,
    )
    store_properties: tuple[PropertySpec, ...] = ()
    relation_properties: tuple[PropertySpec, ...] = ()

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Nothing to configure."""
        return ()

    def native_type(self, type_: DataType) -> str | None:
        """The column's storage; None for ARRAY, MAP and STRUCT, which are stored as JSON text."""
        if not isinstance(type_, Scalar):
            return None
        if type_.name == "DECIMAL" and (type_.precision or 0) > MAX_EXACT_DIGITS:
            return "TEXT"
        return NATIVE_TYPES[type_.name]

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Refused: a view is not a source of a query."""
        raise error("STORE_NOT_A_SOURCE", span=relation.span, relation=str(relation.name), type=self.name)

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Each batch in one transaction with its ledger row."""
        return WriteSpec(
            kind="batch",
            entity=f"{store.name}.{relation.name}",
            delivery=delivery(relation.kind, relation.properties, self),
            options=make_options({FOLDER: store.properties[FOLDER], "store": store.name}),
            loader=LOADER,
            table=target_table(self, relation, refresh, (file_name(relation.name), relation.name.name), "TEXT"),
        )

    def version_path(self, path: tuple[str, ...], version: int) -> tuple[str, ...]:
        """The file of a version, next to the view's."""
        from ds_dagster.stores.sqlite.versions import version_file

        return (version_file(path[0], version), *path[1:])

    def count_version(self, write: WriteSpec, resolve: Resolver, version: int) -> int:
        """Number of rows in the version's file."""
        from ds_dagster.stores.sqlite.versions import count

        target, settings = opened(write, resolve)
        return count(Path(settings[FOLDER]), target.path, version)

    def serve_version(self, write: WriteSpec, resolve: Resolver, former: int, version: int) -> None:
        """Let the link with the view's name point to the version's file."""
        from ds_dagster.stores.sqlite.versions import serve

        target, settings = opened(write, resolve)
        serve(Path(settings[FOLDER]), target.path[0], former, version)

    def drop_version(self, write: WriteSpec, resolve: Resolver, version: int) -> None:
        """Delete the version's file."""
        from ds_dagster.stores.sqlite.versions import drop

        target, settings = opened(write, resolve)
        drop(Path(settings[FOLDER]), target.path[0], version)

    def why_not_renamed(self, old: WriteSpec, new: WriteSpec) -> str:
        """Empty: every view can be renamed."""
        return ""

    def rename_table(self, old: WriteSpec, new: WriteSpec, resolve: Resolver) -> None:
        """Rename the file and the table in it."""
        from ds_dagster.stores.sqlite.versions import rename

        (before, settings), (after, _) = opened(old, resolve), opened(new, resolve)
        rename(Path(settings[FOLDER]), before.path, after.path)

    def check_relation(self, relation: Relation) -> Sequence[Diagnostic]:
        """Check that a file and a table can have the view's name."""
        name = relation.name.name
        if len(file_name(relation.name)) <= LONGEST_FILE and not name.lower().startswith("sqlite_"):
            return ()
        allowed = (
            f"not sqlite_…, and with its database and schema up to {LONGEST_FILE} characters; other signs than plain "
            "letters, digits, _ and - count several times"
        )
        span, store = relation.span, relation.store
        return [error("ENTITY_NAME_INVALID", span=span, entity=name, store=store, allowed=allowed).diagnostic()]

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Only the name: the loader creates the file."""
        return EntityPlan(name=str(relation.name), used_by=str(relation.name))

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``sqlite://path``."""
        return f"sqlite://{view_path(Path(word(store, FOLDER)), relation.name)}"

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Open the folder."""
        from ds_dagster.stores.sqlite.reader import SqliteAdmin

        return SqliteAdmin(store.name, Path(resolve(store.properties[FOLDER])))

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, str]:
        """Empty: files are opened by their path."""
        return {}


def file_name(name: QualifiedName) -> str:
    """One file per view: the qualified name, every character outside letters, digits, ``_`` and ``-`` spelled
    ``%XX``."""
    return ".".join(quote(part, safe="").replace(".", "%2E").replace("~", "%7E") for part in name.parts) + SUFFIX


def view_path(folder: Path, name: QualifiedName) -> Path:
    """Where a view's file is; ``folder`` is ``<state>/views``."""
    return folder / file_name(name)
