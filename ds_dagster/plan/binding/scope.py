"""Names visible at a point of a query: sources with their aliases, columns with their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ds_dagster.catalog.user_function import NO_CODE, UserCode
from ds_dagster.datatypes import DataType, StructType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.plan.expressions.bound_trees import Typed
from ds_dagster.plan.nodes.node import Field
from ds_dagster.sql.lowering import span_of


@dataclass(frozen=True, slots=True)
class Visible:
    """One column as a query sees it. ``field``: internal name in the plan."""

    name: str
    field: str
    type: DataType
    nullable: bool


@dataclass(frozen=True, slots=True)
class Source:
    """One source of FROM or JOIN. ``shown``: its name in messages; ``rowtime``: internal name of the record's
    timestamp, empty without records (sub-selects); ``beside``: the scan's metadata fields by name (``rowkey()``,
    ``rowmetadata()``, ``order()``), if it has them; ``is_part_of_row``: UNNEST, elements of a row to the left."""

    alias: str
    shown: str
    columns: Mapping[str, Visible]
    rowtime: str = ""
    beside: Mapping[str, Field] = field(default_factory=dict)
    is_part_of_row: bool = False

    def nullable(self) -> Source:
        """The source with columns that may be NULL: on the right of a LEFT JOIN."""
        columns = {name: Visible(c.name, c.field, c.type, True) for name, c in self.columns.items()}
        beside = {name: replace(f, nullable=True) for name, f in self.beside.items()}
        return replace(self, columns=columns, beside=beside)


def visible(pairs: Iterable[tuple[str, Field]]) -> Mapping[str, Visible]:
    """Columns by visible name from (name, field) pairs; the first of a name wins."""
    columns: dict[str, Visible] = {}
    for name, f in pairs:
        columns.setdefault(name, Visible(name, f.name, f.type, f.nullable))
    return columns


@dataclass(slots=True)
class Scope:
    """Sources of one SELECT, left to right. ``span``: where the SELECT begins, for nodes without a position.
    ``functions``: those of the user; ``values``: of sub-selects and GROUPING, by the ``id`` of their node."""

    span: Span
    sources: list[Source] = field(default_factory=list)
    functions: UserCode = NO_CODE
    values: dict[int, Typed] = field(default_factory=dict)

    def add(self, source: Source, node: exp.Expression) -> None:
        """Add a source. Raises: UserError DUPLICATE_ALIAS."""
        if any(other.alias == source.alias for other in self.sources):
            raise error("DUPLICATE_ALIAS", span=self.place(node), name=source.alias)
        self.sources.append(source)

    def place(self, node: exp.Expression) -> Span:
        """Position of a node in its file."""
        if isinstance(node, exp.Identifier) and node.meta:
            meta = node.meta
            line, column = meta["line"], meta["col"]
            return Span(self.span.file, line, column, line, column + meta["end"] - meta["start"] + 1)
        return span_of(node, self.span)

    def source(self, alias: str, node: exp.Expression) -> Source:
        """The source of an alias. Raises: UserError UNKNOWN_ALIAS."""
        for source in self.sources:
            if source.alias == alias:
                return source
        fix = ""
        for source in self.sources:
            column = source.columns.get(alias)
            if column is not None and isinstance(column.type, StructType):
                fix = f"; a field of the struct {alias} is written {alias}->field"
        aliases = ", ".join(source.alias for source in self.sources)
        raise error("UNKNOWN_ALIAS", span=self.place(node), name=alias, known=aliases, fix=fix)

    def resolve(self, node: exp.Column) -> Visible:
        """The column a reference means.

        Raises:
            UserError: UNKNOWN_ALIAS, UNKNOWN_COLUMN, AMBIGUOUS_COLUMN.
        """
        name = node.name
        if node.table:
            source = self.source(node.table, node)
            visible_column = source.columns.get(name)
            if visible_column is None or node.args.get("db"):
                shown = ".".join(part.name for part in node.parts) if node.args.get("db") else name
                raise self._unknown(node.this, shown, source.shown, source.columns)
            return visible_column
        holders = [source for source in self.sources if name in source.columns]
        if len(holders) == 1:
            return holders[0].columns[name]
        if holders:
            aliases = [source.alias for source in holders]
            raise error(
                "AMBIGUOUS_COLUMN", span=self.place(node), name=name, sources=aliases, example=f"{aliases[0]}.{name}"
            )
        names = [column for source in self.sources for column in source.columns]
        raise self._unknown(node, name, ", ".join(source.shown for source in self.sources), names)

    def _unknown(self, node: exp.Expression, name: str, where: str, names: Iterable[str]) -> Exception:
        nearest = did_you_mean(name, dict.fromkeys(names))
        if isinstance(node, exp.Column) and node.this.args.get("quoted") and name not in nearest:
            nearest = f"'{name}' (a text is written in single quotes)"
        if name in ("window_start", "window_end"):
            nearest = "TUMBLE(relation, SIZE n unit) in FROM, which gives it"
        return error("UNKNOWN_COLUMN", span=self.place(node), name=name, where=where, nearest=nearest)

    def all_columns(self) -> Iterator[Visible]:
        """The columns of ``*``: every column of every source, in order."""
        for source in self.sources:
            yield from source.columns.values()
