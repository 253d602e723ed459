"""Virtual relations: CREATE VIRTUAL … AS inside an application, bound once and read by its queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ds_dagster.catalog.declaring.inference import check_kind
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.expressions.binder import column
from ds_dagster.plan.expressions.field_names import under
from ds_dagster.plan.nodes.application import Virtual
from ds_dagster.plan.nodes.node import BoundExpression, Named
from ds_dagster.plan.nodes.rows import Project
from ds_dagster.sql.statements import CreateAsSelect


@dataclass(frozen=True, slots=True)
class VirtualRelation:
    """A virtual relation.

    Attributes:
        name: qualified.
        application: folded name of its application.
        node: its rows; fields are ``virtual$column``.
        relation: left-most relation it reads.
    """

    name: QualifiedName
    application: str
    node: Virtual
    relation: Relation

    def read_as(self, alias: str) -> Project:
        """Its rows with fields ``alias$column``."""
        renamed = {field.name: under(alias, field.name) for field in self.node.output}
        columns = tuple(
            Named(renamed[field.name], BoundExpression(column(field.name), field.type, field.nullable))
            for field in self.node.output
        )
        return Project(self.node, columns, tuple(renamed[name] for name in self.node.key))


def virtual_relation(
    name: QualifiedName, statement: CreateAsSelect, projected: Project, relation: Relation, findings: Findings
) -> VirtualRelation:
    """The relation of CREATE VIRTUAL over its bound SELECT; RELATION_KIND_MISMATCH goes to the findings."""
    outside: Literal["append", "upsert"] = "append" if projected.changelog == "append" else "upsert"
    check_kind(statement, outside, findings)
    return VirtualRelation(name, statement.origin.application, Virtual(projected, str(name)), relation)


def find_virtual(
    virtuals: Mapping[QualifiedName, VirtualRelation], name: QualifiedName, application: str, place: Span
) -> VirtualRelation | None:
    """The virtual relation of that name for a query of ``application``, None for an ordinary one.

    Raises:
        UserError: VIRTUAL_OF_ANOTHER.
    """
    virtual = virtuals.get(name)
    if virtual is not None and virtual.application != application:
        raise error("VIRTUAL_OF_ANOTHER", span=place, relation=name.name, name=virtual.application)
    return virtual
