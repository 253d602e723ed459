"""A SELECT for one answer → a tree of bound expressions with resolved names and types (``trees.py``).

Tables in the tree have the qualified name of their relation as one quoted identifier; columns are ``alias.column``,
both quoted. So no text that a user typed reaches a store unquoted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import DataType
from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import LoadedProject
from ds_dagster.questions.selecting import BoundSelect
from ds_dagster.sql.statements import SelectBody


@dataclass(frozen=True, slots=True)
class Question:
    """A bound SELECT.

    Attributes:
        tree: bound tree; the names of its tables are from :func:`table_name`.
        columns: result columns in order, with unique names.
        relations: relations that it reads, in the order of FROM.
    """

    tree: exp.Query
    columns: tuple[tuple[str, DataType], ...]
    relations: tuple[Relation, ...]

    def limited(self, limit: int | None) -> Question:
        """The question with at most ``limit`` rows; None changes nothing."""
        written = limit_of(self.tree)
        if limit is None or (written is not None and written <= limit):
            return self
        tree = self.tree.copy()
        tree.set("limit", exp.Limit(expression=exp.Literal.number(limit)))
        return replace(self, tree=tree)


def limit_of(tree: exp.Expr) -> int | None:
    """The number after LIMIT, None without LIMIT."""
    limit = tree.args.get("limit")
    return None if limit is None else int(str(limit.expression.this))


def bind_question(project: LoadedProject, body: SelectBody) -> Question:
    """Resolve and check a SELECT against the catalog.

    Raises:
        UserError: QUESTION_CLAUSE; UNKNOWN_RELATION and UNKNOWN_COLUMN with nearest names and position; all conditions
            of expressions.
        ProjectError: a relation that it reads has mistakes.
    """
    if body.partition_by:
        raise error("QUESTION_CLAUSE", span=body.partition_by[0].span, clause="PARTITION BY")
    if body.query_properties:
        raise error("QUESTION_CLAUSE", span=body.query_properties[0].span, clause="QUERY WITH")
    relations: dict[QualifiedName, Relation] = {}
    tree, columns = BoundSelect(project, body.span, relations).bind(body.tree, top=True)
    return Question(tree, columns, tuple(relations.values()))


def with_fragment(problem: DsError, text: str) -> DsError:
    """The error as a ProjectError that shows the line of the question; unchanged if it has no position."""
    span = problem.span
    lines = text.splitlines()
    if span is None or isinstance(problem, ProjectError) or not 1 <= span.line <= len(lines):
        return problem
    return ProjectError([replace(problem.diagnostic(), fragment=lines[span.line - 1])])
