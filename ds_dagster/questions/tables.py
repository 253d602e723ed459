"""Answers from tables of stores that keep tables: one reader per kind of storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.catalog.io_spec import TableTarget
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.table_properties import CHANGED_AT
from ds_dagster.errors import DsError, error
from ds_dagster.project import Project, kind_of_store
from ds_dagster.questions.binding import Question, table_name
from ds_dagster.questions.connecting import resolver
from ds_dagster.questions.pull_dialects import table_of, tables_of
from ds_dagster.questions.pull_engines import Engine
from ds_dagster.questions.pull_postgres import POSTGRES, shown_rows
from ds_dagster.questions.pull_warehouses import DATABRICKS, DATAFUSION, SNOWFLAKE
from ds_dagster.stores.databricks_admin import DatabricksAdmin
from ds_dagster.stores.delta_connection import LakeAddress
from ds_dagster.stores.delta_query import open_table, select
from ds_dagster.stores.postgres_admin import PostgresAdmin
from ds_dagster.stores.snowflake_admin import SnowflakeAdmin
from ds_dagster.stores.snowflake_names import column_name, shown_path

Rows = Sequence[tuple[Any, ...]]
OF_LOADS = ("shared", "store")
"""Options of a write spec that connect to nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables of a question are.

    Attributes:
        store: its name.
        settings: what connects, resolved; secrets in them.
        targets: by relation, in the order of FROM.
    """

    store: str
    settings: Mapping[str, str]
    targets: Sequence[tuple[Relation, TableTarget]]

    @classmethod
    def of(cls, project: Project, relations: Sequence[Relation]) -> Place:
        """Of relations of one store."""
        store = project.catalog.store(relations[0].store)
        kind = kind_of_store(project, relations[0])
        resolve = resolver(project.settings, store.name)
        specs = [kind.write_spec(store, relation, "continuous") for relation in relations]
        options = {name: value for name, value in specs[0].options.items() if name not in OF_LOADS}
        settings = {name: resolve(value) for name, value in options.items()}
        made = [(r, spec.table) for r, spec in zip(relations, specs, strict=True) if spec.table is not None]
        return cls(store.name, settings, made)

    def check(self, exists: Callable[[TableTarget], bool]) -> None:
        """Every table is there.

        Raises:
            UserError: TABLE_NOT_LOADED.
        """
        for relation, target in self.targets:
            if not exists(target):
                table = ".".join(target.path)
                raise error("TABLE_NOT_LOADED", table=table, store=self.store, relation=relation.name.name)

    def tree(
        self,
        engine: Engine,
        question: Question,
        name: Callable[[TableTarget], exp.Table | exp.Subquery] | None = None,
    ) -> exp.Expression:
        """The question over these tables, for an engine."""
        paths = {relation.name: target for relation, target in self.targets}
        make = name or (lambda target: table_of(*target.path))
        return engine.tree(question, tables_of(question.relations, lambda relation: make(paths[relation.name])))


def from_postgres(project: Project, question: Question) -> Rows:
    """The server answers."""
    place = Place.of(project, question.relations)
    with closing(PostgresAdmin(place.store, place.settings)) as admin:
        place.check(lambda target: admin.describe(".".join(target.path)) is not None)

        def table(target: TableTarget) -> exp.Table | exp.Subquery:
            has_age = target.retention_millis and admin.has_column(target.path, CHANGED_AT)
            return shown_rows(target) if has_age else table_of(*target.path)

        return admin.select(place.tree(POSTGRES, question, table).sql(dialect=POSTGRES.dialect))[1]


def newest_in_postgres(project: Project, relation: Relation) -> float | None:
    """When a table or view was last written (seconds since the epoch), None where nobody says."""
    try:
        place = Place.of(project, [relation])
        with closing(PostgresAdmin(place.store, place.settings)) as admin:
            return admin.newest(place.targets[0][1].path)
    except DsError:
        return None


def from_snowflake(project: Project, question: Question) -> Rows:
    """The account's warehouse answers."""
    place = Place.of(project, question.relations)
    with closing(SnowflakeAdmin(place.store, place.settings)) as admin:
        place.check(lambda target: admin.describe(shown_path(target.path)) is not None)
        asked = place.tree(SNOWFLAKE, _with_stored_names(question))
        return admin.select(asked.sql(dialect=SNOWFLAKE.dialect))


def from_databricks(project: Project, question: Question) -> Rows:
    """The workspace's SQL warehouse answers."""
    place = Place.of(project, question.relations)
    admin = DatabricksAdmin(place.store, place.settings)
    place.check(lambda target: admin.address.location(target.path) is not None)
    return admin.select(place.tree(DATABRICKS, question))


def from_delta(project: Project, question: Question) -> Rows:
    """delta-rs answers from the table's files."""
    place = Place.of(project, question.relations)
    address = LakeAddress.of(place.store, place.settings)
    found = {t.path: open_table(address, address.place(*t.path)) for _, t in place.targets}
    place.check(lambda target: found[target.path] is not None)
    names = {path: f"t{number}" for number, path in enumerate(found)}
    asked = place.tree(DATAFUSION, question, lambda target: table_of(names[target.path]))
    return select(address, {names[path]: table for path, table in found.items()}, asked.sql(DATAFUSION.dialect))


READERS: Mapping[str, Callable[[Project, Question], Rows]] = MappingProxyType(
    {
        "postgres": from_postgres,
        "snowflake": from_snowflake,
        "databricks": from_databricks,
        "deltalake": from_delta,
    }
)
"""Kind of storage → who reads it."""


def _with_stored_names(question: Question) -> Question:
    """Columns of tables under the names Snowflake keeps them by; those of sub-selects are quoted as they are."""
    tree = question.tree.copy()
    known = {table_name(relation) for relation in question.relations}
    for one in tree.find_all(exp.Select):
        sources = [one.args["from_"].this, *(join.this for join in one.args.get("joins") or ())]
        aliases = {s.alias for s in sources if isinstance(s, exp.Table) and s.name in known}
        for found in one.find_all(exp.Column):
            if found.table in aliases and found.parent_select is one:
                found.set("this", exp.to_identifier(column_name(found.name), quoted=True))
    return Question(tree, question.columns, question.relations)
