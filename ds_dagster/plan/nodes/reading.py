"""Fields that nodes read and make: their names through expressions, projections and joins."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import BoundExpression, Bounds, ColumnSource, Field, Named, Names, Node, Sources


def plain_name(expression: BoundExpression) -> str:
    """Internal name of the field if an expression is a plain column, else empty."""
    return expression.tree.name if isinstance(expression.tree, exp.Column) else ""


def columns_read(expressions: Iterable[BoundExpression | None]) -> Names:
    """All fields that some expressions read."""
    return frozenset().union(*(part.columns() for part in expressions if part is not None))


def merged(below: Sources, expressions: Iterable[BoundExpression | None]) -> tuple[ColumnSource, ...]:
    """Source columns of a field that is computed from these expressions."""
    sources: dict[ColumnSource, None] = {}
    for expression in expressions:
        for name in sorted(expression.columns()) if expression is not None else ():
            sources.update(dict.fromkeys(below[name]))
    return tuple(sources)


def lineage_of(below: Sources, columns: Iterable[Named]) -> Sources:
    """Source columns of each computed column."""
    return {named.name: merged(below, [named.expression]) for named in columns}


def renamed(names: Names, columns: Iterable[Named]) -> Names:
    """Names after a projection of the fields that it passes on."""
    trees = ((named.name, named.expression.tree) for named in columns)
    return frozenset(name for name, tree in trees if isinstance(tree, exp.Column) and tree.name in names)


def renamed_bounds(windows: Iterable[Bounds], columns: Iterable[Named]) -> tuple[Bounds, ...]:
    """The windows whose bounds a projection passes on, under their new names."""
    names: dict[str, list[str]] = {}
    for named in columns:
        if isinstance(named.expression.tree, exp.Column):
            names.setdefault(named.expression.tree.name, []).append(named.name)
    return tuple(
        Bounds(start, end) for pair in windows for start in names.get(pair.start, ()) for end in names.get(pair.end, ())
    )


def require(node: Node, names: frozenset[str], what: str) -> None:
    """Check that the input has the fields that an expression reads.

    Raises:
        InternalError: INTERNAL.
    """
    if not names:
        return
    missing = sorted(names - node.names)
    if missing:
        present = [field.name for field in node.output]
        raise error("INTERNAL", where=f"{what}: fields {missing} are not in {present}")


def or_null(node: Node, may_be_absent: bool) -> tuple[Field, ...]:
    """A side's fields; all may be NULL if an outer join may give a row without this side."""
    return tuple(Field(f.name, f.type, f.nullable or may_be_absent) for f in node.output)
