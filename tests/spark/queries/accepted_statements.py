"""Random statements that the product accepts, with their project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, InternalError
from ds_dagster.plan.binding.scope import Scope, Source, visible
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.nodes.node import Field
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_select
from tests.spark.queries.random_parts import Select, Statements

AT_ONCE = 16
"""SELECTs that are compiled in one project."""
KINDS = {"stream": ("STREAM", "CHANGELOG"), "changelog": ("CHANGELOG", "MATERIALIZED VIEW", "STREAM")}
"""Kind of a SELECT's rows → what is tried to create of them."""
HERE = Span("random.sql", 1)
END = 1_900_000_000_000
NOT_ASKED = ("QUESTION_AGGREGATE",)
"""What a question says of statements that only streams answer."""
STORE = "CREATE STORE m WITH ('type' = MEMORY);\n"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A statement that the product accepts: its query's name, text and SELECT."""

    name: str
    text: str
    select: Select


def expression_type(text: str, columns: Mapping[str, DataType]) -> DataType | None:
    """The type of an expression; None for what the dialect refuses."""
    scope = Scope(Span("random.sql", 1))
    tables: dict[str, list[tuple[str, Field]]] = {}
    for name, type_ in columns.items():
        table, _, column = name.rpartition(".")
        tables.setdefault(table, []).append((column, Field(column, type_, True)))
    for table, fields in tables.items():
        scope.sources.append(Source(table, table, visible(fields), "", {}))
    try:
        tree = parse_select(f"SELECT {text} AS x FROM s").tree.expressions[0].this
        return ExpressionBinder(scope, "SELECT").expression(tree).type
    except InternalError:
        raise
    except DsError:
        return None


def accepted(statements: Statements, settings: Settings) -> tuple[list[Accepted], LoadedProject, list[str]]:
    """Of the next SELECTs those that are accepted, with their project, and what should not have been said."""
    tried = {f"o{n}": statements.next() for n in range(AT_ONCE)}
    created = [
        Accepted(f"{name}_{place}", f"CREATE {kind} {name}_{place} AS {select.text};", select)
        for name, select in tried.items()
        for place, kind in enumerate(KINDS[select.kind])
    ]
    texts = [("a.sql", STORE + statements.declarations()), *((f"{one.name}.sql", one.text) for one in created)]
    project = compile_texts(texts, settings)
    wrong = [f"{error.text()}" for error in project.errors if error.condition == "INTERNAL" or error.span is None]
    right = [one for one in created if one.name in project.queries]
    for one in right:
        relation = project.queries[one.name].sink
        if relation.kind in ("stream", "changelog"):
            columns = {column.name: column.type for column in relation.columns}
            statements.learn(one.select, columns, relation.kind)
    return right, project, wrong


def settings_of(folder: Path) -> Settings:
    return Settings(root=folder, sql=folder, state=folder, store="m")
