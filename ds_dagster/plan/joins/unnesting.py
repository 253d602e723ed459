"""Binding of UNNEST in FROM: the elements of an ARRAY or MAP of the rows to its left."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ds_dagster.datatypes import INTEGER, ArrayType, DataType, MapType, StructType
from ds_dagster.errors import error
from ds_dagster.plan.binding.scope import Scope, Source, visible
from ds_dagster.plan.binding.sources import Naming
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.expressions.field_names import field_name
from ds_dagster.plan.nodes.node import Field, Node
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.weights import weighted
from ds_dagster.sql.expressions import StreamJoin, UnnestRef

ORDINALITY = "ordinality"


def bind_unnest(scope: Scope, node: Node, join: StreamJoin, naming: Naming) -> Node:
    """The rows of ``node`` with the elements of their array or map; adds the elements' columns to the scope.

    Raises:
        UserError: UNNEST_TYPE, UNNEST_COLUMNS, DUPLICATE_ALIAS, DUPLICATE_COLUMN, and those of expressions.
        UnsupportedError: UNNEST_CONDITION. NotYetError: STATEFUL_CHAIN.
    """
    ref: UnnestRef = join.this
    binder = ExpressionBinder(scope, "UNNEST")
    condition = join.args.get("on")
    if condition is not None and not (isinstance(condition, exp.Boolean) and condition.this):
        raise binder.refuse("UNNEST_CONDITION", condition)
    if node.changelog == "upsert":
        check_over("a step", node, scope.place(ref))
        node = weighted(node)
    value = binder.expression(ref.this)
    outer = join.args.get("side") == "LEFT"
    columns = element_columns(ref, value.type, binder, outer=outer)
    internal = naming.alias(ref.alias)
    fields = [Field(field_name(internal, name), type_, nullable) for name, type_, nullable in columns]
    ordinal = fields.pop() if ref.args.get("ordinality") else None
    unnested = Unnest(node, value, tuple(fields), ordinal, outer)
    pairs = ((name, field) for (name, *_), field in zip(columns, unnested.own, strict=True))
    scope.add(Source(ref.alias, ref.alias, visible(pairs), is_part_of_row=True), ref)
    return unnested


def element_columns(
    ref: UnnestRef, type_: DataType, binder: ExpressionBinder, *, outer: bool
) -> Sequence[tuple[str, DataType, bool]]:
    """(name, type, whether it may be NULL) of each field of an element; the element's number last.

    Raises:
        UserError: UNNEST_TYPE, UNNEST_COLUMNS, DUPLICATE_COLUMN.
    """
    if isinstance(type_, ArrayType) and isinstance(type_.element, StructType):
        parts: list[tuple[str, DataType, bool]] = [(part.name, part.type, True) for part in type_.element.fields]
    elif isinstance(type_, ArrayType):
        parts = [(ref.alias, type_.element, True)]
    elif isinstance(type_, MapType):
        parts = [("key", type_.key, outer), ("value", type_.value, True)]
    else:
        raise binder.refuse("UNNEST_TYPE", ref.this, type=type_)
    if ref.args.get("ordinality"):
        parts.append((ORDINALITY, INTEGER, outer))
    written = [name.name for name in ref.args.get("columns") or ()]
    if written and len(written) != len(parts):
        columns = [name for name, *_ in parts]
        raise binder.refuse("UNNEST_COLUMNS", ref, count=len(written), expected=len(parts), columns=columns)
    names = written or [name for name, *_ in parts]
    twice = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if twice is not None:
        raise error("DUPLICATE_COLUMN", span=binder.scope.place(ref), name=twice, relation=f"UNNEST {ref.alias}")
    return [(name, part, nullable) for name, (_, part, nullable) in zip(names, parts, strict=True)]
