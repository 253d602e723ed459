"""Statements of a view's SQLite file, printed from trees."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp

from ds_dagster.catalog.io_spec import TableTarget
from ds_dagster.catalog.properties.tables import CHANGED_AT
from ds_dagster.stores.identifiers import quoted


class SqliteStatements:
    """SQL of one view, printed from trees."""

    def __init__(self, target: TableTarget) -> None:
        table = quoted(target.path[1])
        names = written_columns(target)
        values = exp.Tuple(expressions=[exp.Placeholder() for _ in names])
        schema = exp.Schema(this=exp.Table(this=table), expressions=[quoted(name) for name in names])
        insert = exp.Insert(this=schema, expression=exp.Values(expressions=[values]))
        self.drop = _print(_drop(table))
        self.clear = _print(exp.Delete(this=exp.Table(this=table)))
        self.insert = _print(insert)
        self.create = (_print(_create(target)),)
        matches = [exp.Is(this=exp.Column(this=quoted(n)), expression=exp.Placeholder()) for n in target.primary_key]
        self.delete = (
            _print(exp.Delete(this=exp.Table(this=table), where=exp.Where(this=exp.and_(*matches)))) if matches else ""
        )
        self.write = _print(_upsert(insert, target)) if target.mode == "upsert" else self.insert
        changed = exp.Column(this=quoted(CHANGED_AT))
        old = exp.Where(this=exp.LTE(this=changed, expression=exp.Placeholder()))
        self.expire = _print(exp.Delete(this=exp.Table(this=table), where=old))
        self.stamp_all = _print(exp.Update(this=exp.Table(this=table), expressions=[_changed(exp.Placeholder())]))
        self.add_stamp = _print(_add_column(table))
        self.index = _print(_index(table))
        dropped = exp.Drop(tables=[exp.Table(this=_index_name(table))], kind="INDEX", exists=True)
        self.drop_stamp = (_print(dropped), _print(_drop_column(table)))


def written_columns(target: TableTarget) -> list[str]:
    """Columns that are written: the query's, and the time of writing for a view with a retention."""
    names = [column.name for column in target.columns]
    return [*names, CHANGED_AT] if target.retention_millis else names


def shown_rows(table: exp.Table, columns: Sequence[str], after_millis: int) -> exp.Subquery:
    """A view's rows that were written after a moment (epoch milliseconds), as a source of FROM."""
    is_young = exp.GT(this=exp.Column(this=quoted(CHANGED_AT)), expression=exp.Literal.number(after_millis))
    shown = exp.select(*(exp.Column(this=quoted(name)) for name in columns))
    return shown.from_(table).where(is_young).subquery()


def _changed(value: exp.Expression) -> exp.EQ:
    return exp.EQ(this=exp.Column(this=quoted(CHANGED_AT)), expression=value)


def _stamp() -> exp.ColumnDef:
    """Column with the time a row was written, epoch milliseconds."""
    constraints: list[exp.Expression] = [
        exp.ColumnConstraint(kind=exp.NotNullColumnConstraint()),
        exp.ColumnConstraint(kind=exp.DefaultColumnConstraint(this=exp.Literal.number(0))),
    ]
    return exp.ColumnDef(
        this=quoted(CHANGED_AT), kind=exp.DataType.build("INTEGER", dialect="sqlite"), constraints=constraints
    )


def _add_column(table: exp.Identifier) -> exp.Alter:
    return exp.Alter(this=exp.Table(this=table.copy()), kind="TABLE", actions=[_stamp()])


def _drop_column(table: exp.Identifier) -> exp.Alter:
    dropped = exp.Drop(tables=[exp.Column(this=quoted(CHANGED_AT))], kind="COLUMN")
    return exp.Alter(this=exp.Table(this=table.copy()), kind="TABLE", actions=[dropped])


def _index_name(table: exp.Identifier) -> exp.Identifier:
    return quoted(f"{table.name} {CHANGED_AT}")


def _index(table: exp.Identifier) -> exp.Create:
    """An index that finds old rows without a scan."""
    params = exp.IndexParameters(columns=[exp.Ordered(this=exp.Column(this=quoted(CHANGED_AT)), nulls_first=True)])
    index = exp.Index(this=_index_name(table), table=exp.Table(this=table.copy()), params=params)
    return exp.Create(this=index, kind="INDEX", exists=True)


def _drop(table: exp.Identifier) -> exp.Expr:
    tree = sqlglot.parse_one("DROP TABLE IF EXISTS name", dialect="sqlite")
    for name in tree.find_all(exp.Identifier):
        name.replace(table.copy())
    return tree


def _create(target: TableTarget) -> exp.Expression:
    columns: list[exp.Expression] = [
        exp.ColumnDef(
            this=quoted(column.name),
            kind=exp.DataType.build(column.native_type, dialect="sqlite"),
            constraints=[] if column.nullable else [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())],
        )
        for column in target.columns
    ]
    if target.retention_millis:
        columns.append(_stamp())
    if target.mode == "upsert":
        key = exp.Schema(expressions=[quoted(name) for name in target.primary_key])
        columns.append(exp.UniqueColumnConstraint(this=key))
    table = exp.Table(this=quoted(target.path[1]))
    return exp.Create(this=exp.Schema(this=table, expressions=columns), kind="TABLE")


def _upsert(insert: exp.Insert, target: TableTarget) -> exp.Insert:
    """``INSERT … ON CONFLICT (key) DO UPDATE``, or DO NOTHING if the view has only key columns."""
    others = [name for name in written_columns(target) if name not in target.primary_key]
    conflict = exp.OnConflict(
        conflict_keys=[quoted(name) for name in target.primary_key],
        action=exp.var("DO UPDATE" if others else "DO NOTHING"),
        expressions=[
            exp.EQ(this=exp.Column(this=quoted(n)), expression=exp.column(quoted(n), table="excluded")) for n in others
        ]
        or None,
    )
    upsert = insert.copy()
    upsert.set("conflict", conflict)
    return upsert


def _print(tree: exp.Expr) -> str:
    return tree.sql(dialect="sqlite")
