"""One session of ``ds sql``: a project, the names set by USE, and the executor of each statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.catalog.store import StoreAdmin, StoreDefinition
from ds_dagster.cli.shell.output import SqlOutput
from ds_dagster.errors import DsError, InternalError, error
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import LoadedProject, load_project, store_admin
from ds_dagster.runtime.connecting import resolver
from ds_dagster.settings import Settings
from ds_dagster.sql.commands import Command
from ds_dagster.sql.statements import Context, Statement, Use, WrittenName

Executor = Callable[["Session", Any], None]
PUBLIC = "public"


@dataclass(slots=True)
class Session:
    """State of one run of ``ds sql``. Every statement loads the project again, so that edits in its files take
    effect."""

    settings: Settings
    output: SqlOutput
    context: Context = field(default_factory=Context)
    is_timed: bool = False

    def project(self) -> LoadedProject:
        """The project; names of USE complete unqualified names."""
        loaded = load_project(self.settings.root, settings=self.settings)
        database = self.context.database or self.settings.database
        schema = self.context.schema or (PUBLIC if self.context.database else self.settings.schema)
        return replace(loaded, settings=replace(loaded.settings, database=database, schema=schema))

    def execute(self, statement: Command | Statement, text: str = "") -> None:
        """Execute one statement and show its answer.

        Args:
            statement: the parsed statement.
            text: of the whole script, to show the line of a mistake.

        Raises:
            DsError: the statement is refused or fails.
        """
        try:
            executors().get(type(statement), _refuse_definition)(self, statement)
        except InternalError:
            raise
        except DsError as problem:
            from ds_dagster.questions.binding import with_fragment

            raise with_fragment(problem, text) from problem

    def store(self, written: WrittenName | None) -> StoreDefinition:
        """The store of a statement: the written one, else that of USE, else that of the settings, else the only one
        that the project declares.

        Raises:
            UserError: UNKNOWN_STORE, STORE_NOT_CHOSEN.
        """
        project = self.project()
        name = str(written) if written else self.context.store or self.settings.store
        if name:
            return project.catalog.store(name, written.span if written else None)
        declared = [store for store in project.catalog.stores.values() if store.origin.text]
        if len(declared) != 1:
            raise error("STORE_NOT_CHOSEN", stores=sorted(store.name for store in declared) or ["(none)"])
        return declared[0]

    @contextmanager
    def admin(self, store: StoreDefinition) -> Iterator[StoreAdmin]:
        """A connection to a store for one statement."""
        with closing(store_admin(self.project(), store.name, resolver(self.settings, store.name))) as admin:
            yield admin

    @contextmanager
    def operations(self, store: StoreDefinition) -> Iterator[EntityOperations]:
        """Entity operations of a store for one statement."""
        with self.admin(store) as admin, closing(admin.operations()) as operations:
            yield operations


def use(session: Session, statement: Use) -> None:
    """USE DATABASE, SCHEMA or STORE: check the name and keep it for the session."""
    project, parts, span = session.project(), statement.name.parts, statement.name.span
    schemas = project.catalog.schemas
    databases = sorted({database for database, _ in schemas})
    if statement.what == "store":
        session.context = replace(session.context, store=project.catalog.store(parts[0], span).name)
    elif statement.what == "database":
        if parts[0] not in databases:
            raise error("UNKNOWN_DATABASE", span=span, name=parts[0], nearest=did_you_mean(parts[0], databases))
        session.context = replace(session.context, database=parts[0], schema="")
    else:
        database = parts[0] if len(parts) == 2 else project.settings.database
        if (database, parts[-1]) not in schemas:
            name, names = f"{database}.{parts[-1]}", [f"{a}.{b}" for a, b in sorted(schemas)]
            raise error("UNKNOWN_SCHEMA", span=span, name=name, nearest=did_you_mean(name, names))
        session.context = replace(session.context, database=database, schema=parts[-1])
    session.output.done("USE", statement.what, str(statement.name), f"{statement.what} {statement.name} is used now")


def executors() -> Mapping[type, Executor]:
    """Record of a statement → function that executes it."""
    from ds_dagster.cli.shell import describe as sql_describe
    from ds_dagster.cli.shell import entities as sql_entities
    from ds_dagster.cli.shell import lists as sql_lists
    from ds_dagster.cli.shell import queries as sql_queries

    return {
        Use: use,
        **sql_lists.EXECUTORS,
        **sql_describe.EXECUTORS,
        **sql_entities.EXECUTORS,
        **sql_queries.EXECUTORS,
    }


def _refuse_definition(_: Session, statement: Any) -> None:
    words = " ".join(statement.origin.text.split()[:2]).upper()
    remedy = "put DESCRIBE before it to check it, then write it"
    raise error("DEFINITION_IN_SHELL", span=statement.origin.span, statement=words, remedy=remedy)
