"""Result of pass one over a project's statements, and the rules by which written names become qualified names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.compute_pool import ComputePool
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.descriptors import DescriptorSource
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.catalog.secret import SecretDefinition
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.catalog.user_function import NO_CODE, UserCode
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName, did_you_mean
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import Application, Context, CreateAsSelect, InsertInto, RelationKind, WrittenName

PUBLIC = "public"
KIND_WORDS: Mapping[RelationKind, str] = MappingProxyType(
    {"stream": "STREAM", "changelog": "CHANGELOG", "table": "TABLE", "materialized_view": "MATERIALIZED VIEW"}
)


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A CREATE … AS SELECT or INSERT INTO with the qualified name of the relation it fills."""

    target: QualifiedName
    statement: CreateAsSelect | InsertInto


@dataclass(frozen=True, slots=True)
class Declared:
    """Result of pass one.

    Attributes:
        stores: by folded name, the embedded view store among them.
        relations: declared ones (with columns), by qualified name; relations of CREATE … AS come with pass two.
        schemas: (database, schema) pairs that exist.
        queries: CREATE … AS and INSERT INTO in the order of files; of duplicates the first.
        diagnostics: errors and warnings, in the order of files.
        refused: names of declared relations that were refused (an error of a query that reads them is not a root
            cause).
        refused_stores: folded names of stores that were refused.
        secrets, registries: by folded name.
        functions: user-defined functions.
        descriptors, pools: descriptor sources and compute pools by folded name, None for refused ones. ``pools`` itself
            is None in the slice of a job, which does not carry them.
        applications: in the order of files.
    """

    stores: Mapping[str, StoreDefinition] = field(default_factory=lambda: MappingProxyType({}))
    relations: Mapping[QualifiedName, Relation] = field(default_factory=lambda: MappingProxyType({}))
    schemas: frozenset[tuple[str, str]] = frozenset()
    queries: tuple[NamedQuery, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    refused: frozenset[QualifiedName] = frozenset()
    refused_stores: frozenset[str] = frozenset()
    secrets: Mapping[str, SecretDefinition] = field(default_factory=lambda: MappingProxyType({}))
    registries: Mapping[str, RegistryDefinition] = field(default_factory=lambda: MappingProxyType({}))
    descriptors: Mapping[str, DescriptorSource | None] = field(default_factory=lambda: MappingProxyType({}))
    applications: tuple[Application, ...] = ()
    functions: UserCode = NO_CODE
    pools: Mapping[str, ComputePool | None] | None = field(default_factory=lambda: MappingProxyType({}))

    @property
    def catalog(self) -> Catalog:
        """Lookup over the declared stores, relations and other objects."""
        return Catalog(
            self.stores,
            self.relations,
            self.schemas,
            self.refused_stores,
            self.secrets,
            self.registries,
            self.descriptors,
            self.functions,
            self.pools,
        )


def qualify(written: WrittenName, context: Context, settings: Settings) -> QualifiedName:
    """Complete a written name from USE and the settings.

    Raises:
        UserError: NAME_TOO_LONG.
    """
    if len(written.parts) > 3:
        raise error("NAME_TOO_LONG", span=written.span, name=str(written))
    database = context.database or settings.database.lower()
    schema = context.schema or (PUBLIC if context.database else settings.schema.lower())
    filled = (database, schema, "")[: 3 - len(written.parts)] + written.parts
    return QualifiedName(*filled)


def check_schema(name: QualifiedName, schemas: Iterable[tuple[str, str]], span: Span | None) -> None:
    """Refuse a name whose database or schema does not exist.

    Raises:
        UserError: UNKNOWN_DATABASE, UNKNOWN_SCHEMA with the nearest names.
    """
    pairs = set(schemas)
    if (name.database, name.schema) in pairs:
        return
    databases = sorted({database for database, _ in pairs})
    if name.database not in databases:
        raise error("UNKNOWN_DATABASE", span=span, name=name.database, nearest=did_you_mean(name.database, databases))
    inside = [f"{database}.{schema}" for database, schema in sorted(pairs) if database == name.database]
    full = f"{name.database}.{name.schema}"
    raise error("UNKNOWN_SCHEMA", span=span, name=full, nearest=did_you_mean(full, inside))


def current_store(
    name: QualifiedName,
    kind: RelationKind,
    values: Mapping[str, PropertyValue],
    context: Context,
    settings: Settings,
    catalog: Catalog,
    span: Span,
) -> StoreDefinition:
    """The store of a relation: written, else the current one (USE STORE, settings; for views the setting ``views``).

    Raises:
        UserError: NO_CURRENT_STORE, UNKNOWN_STORE, STORE_REFUSED.
    """
    written = values.get("store")
    fallback = settings.views if kind == "materialized_view" else (context.store or settings.store)
    wanted = str(written.value) if written else fallback.lower()
    if not wanted:
        raise error("NO_CURRENT_STORE", span=span, name=str(name))
    return catalog.store(wanted, written.span if written else span)
