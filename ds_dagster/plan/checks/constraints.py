"""``CONSTRAINT … CHECK``: conditions over the columns of a relation, bound for a query that reads or writes its rows.

A condition is BOOLEAN, reads only columns of its relation, has no aggregate and gives the same result for the same row:
a batch that is replayed must leave out the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import QUARANTINE_STORE, check_log, quarantine
from ds_dagster.catalog.user_function import UserCode
from ds_dagster.errors import error
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.plan.binding.scope import Scope, Source, Visible
from ds_dagster.plan.constraint import Constraint
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.nodes.node import Field
from ds_dagster.sql.statements import ConstraintDefinition

if TYPE_CHECKING:
    from ds_dagster.plan.binding.sources import World


def bound_constraints(
    relation: Relation, fields: Mapping[str, str], functions: UserCode, findings: Findings
) -> tuple[Constraint, ...]:
    """The constraints of a relation over the fields of one node; their mistakes go to the findings.

    Args:
        relation: whose constraints they are.
        fields: column → internal name of its field.
        functions: those of the user.
        findings: CONDITION_NOT_BOOLEAN, CONSTRAINT_NOT_REPEATABLE, and those of expressions.
    """
    columns = {c.name: Visible(c.name, fields[c.name], c.type, c.nullable) for c in relation.columns}
    source = Source(relation.name.name, relation.name.name, columns)
    constraints = (
        findings.collect(lambda written=written: _bound(written, relation, source, functions))  # type: ignore[misc]
        for written in relation.constraints
    )
    return tuple(constraint for constraint in constraints if constraint is not None)


def bound_quarantine(relation: Relation, world: World, *, records: bool) -> Relation | None:
    """The relation for rows that violate a constraint, None without one.

    Args:
        relation: whose constraints they are.
        world: the project that the query is bound against.
        records: True: it keeps records of a source as they were read; False: rows of a result.

    Raises:
        UserError: QUARANTINE_UNUSED, and those of :func:`~ds_dagster.catalog.row_log.check_log`.
    """
    log = quarantine(relation)
    if log is not None:
        check_log(log, relation, world.catalog, world.kinds, records=records, store_property=QUARANTINE_STORE)
    return log


def check_constraints(relation: Relation, functions: UserCode, findings: Findings) -> None:
    """Report mistakes in the constraints of a declared relation, also if no query reads it."""
    names = {column.name: column.name for column in relation.columns}
    bound_constraints(relation, names, functions, findings)


def _bound(written: ConstraintDefinition, relation: Relation, source: Source, functions: UserCode) -> Constraint:
    shown = {"name": written.name, "relation": relation.name.name}
    scope = Scope(written.condition_span, [source], functions=functions)
    condition = ExpressionBinder(scope, f"CHECK of constraint {written.name}").condition(written.condition)
    for call in condition.tree.find_all(exp.Anonymous):
        if not FUNCTIONS[str(call.this)].deterministic:
            raise error("CONSTRAINT_NOT_REPEATABLE", span=written.condition_span, **shown, function=call.this)
    return Constraint(written.name, condition, written.on_violation)


def output_fields(relation: Relation, output: tuple[Field, ...]) -> Mapping[str, str]:
    """Column → name of its field. ``output``: begins with the relation's columns, in order."""
    return {column.name: field.name for column, field in zip(relation.columns, output, strict=False)}
