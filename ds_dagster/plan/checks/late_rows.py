"""``'late.rows.relation'``: rows that arrive after their window has closed are written to a stream that the project
declares.

Its columns are columns of the window's source, with their types; any of ``event_time``, ``window_start``,
``window_end`` (TIMESTAMP_LTZ) and ``late_millis`` (BIGINT, by how much the query's time had passed the window's end);
and any of :data:`OF_THE_RECORD` that the source does not have. A row that is too late for several windows is written
once for each.
"""

from __future__ import annotations

from dataclasses import replace

from ds_dagster.catalog.declaring.declared import qualify
from ds_dagster.catalog.declaring.inference import QueryChoices
from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import BIGINT, TIMESTAMP_LTZ, VARCHAR, DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.binding.sources import World
from ds_dagster.plan.expressions.field_names import column_of
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.window import LateRows, Window, Windowed
from ds_dagster.sql.statements import Context, WrittenName

PROPERTY = "late.rows.relation"
TOLD = "late_millis"
OF_THE_WINDOW: dict[str, DataType] = {
    "event_time": TIMESTAMP_LTZ,
    "window_start": TIMESTAMP_LTZ,
    "window_end": TIMESTAMP_LTZ,
    TOLD: BIGINT,
}
"""Columns about the window → their types."""
OF_THE_RECORD: dict[str, str] = {
    "late_query": "query",
    "record_store": "store",
    "record_entity": "entity",
    "record_partition": "partition",
    "record_offset": "offset",
    "record_time": "record_time",
}
"""Columns about the row's record, and about the query it is late for → the column of a row log with this value."""


def keeps_late(root: Sink, choices: QueryChoices, context: Context, world: World) -> Sink:
    """The plan whose windows keep late rows; the plan itself without ``'late.rows.relation'``.

    Raises:
        UserError: LATE_ROWS_WITHOUT_WINDOW, LATE_ROWS_RELATION, UNKNOWN_RELATION.
    """
    written = choices.written.get(PROPERTY)
    if written is None:
        return root
    span = written.span or root.relation.span
    windows = [node for node in root.walk() if isinstance(node, Window)]
    if len(windows) != 1 or windows[0].function == "SESSION" or not _drops_rows(root, windows[0]):
        raise error("LATE_ROWS_WITHOUT_WINDOW", span=span)
    name = WrittenName(tuple(str(written.value).lower().split(".")), span)
    relation = world.catalog.relation(qualify(name, context, world.settings), span)
    late = _checked(relation, windows[0], span, world)
    return root.with_inputs(lambda below: _with_late(below, late))


def _drops_rows(root: Sink, window: Window) -> bool:
    """Whether the window reads rows of a source and its rows are grouped. After a join other rules decide which row is
    late, and a window that closes a second time drops no rows."""
    nodes = list(root.walk())
    grouped = any(isinstance(node, Aggregate) and node.window is not None for node in nodes)
    joined = any(node.is_stateful for node in window.input.walk())
    return grouped and not joined and not any(isinstance(node, Windowed | Union) for node in nodes)


def _checked(relation: Relation, window: Window, span: Span, world: World) -> LateRows:
    fields = {column_of(f.name): f for f in window.input.output}
    of_record = {name: TIMESTAMP_LTZ if name == "record_time" else VARCHAR for name in OF_THE_RECORD}

    def refused(reason: str) -> DsError:
        types = {name: field.type for name, field in fields.items() if "(" not in name} | OF_THE_WINDOW
        types |= {name: type_ for name, type_ in of_record.items() if name not in fields}
        columns = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        return error("LATE_ROWS_RELATION", span=span, relation=relation.name.name, reason=reason, columns=columns)

    able = world.kinds[world.catalog.store(relation.store).kind].capabilities
    if relation.kind != "stream" or not relation.declared or relation.value_format != "json":
        raise refused("it is not a stream of JSON that the project declares with its columns")
    if not able.keeps_row_logs:
        raise refused(f"store {relation.store} cannot hold it")
    pairs, record = [], []
    for column in relation.columns:
        of_source = fields[column.name].type if column.name in fields else None
        wanted = OF_THE_WINDOW.get(column.name) or of_source or of_record.get(column.name)
        if wanted is None:
            raise refused(f"the source has no column {column.name}")
        if not _same(column.type, wanted):
            raise refused(f"{column.name} is of type {column.type}, not {wanted}")
        if column.name in fields and column.name not in OF_THE_WINDOW:
            pairs.append((column.name, fields[column.name].name))
        elif column.name not in OF_THE_WINDOW:
            record.append((column.name, OF_THE_RECORD[column.name]))
    return LateRows(relation, tuple(pairs), relation.column(TOLD) is not None, tuple(record))


def _same(written: DataType, wanted: DataType) -> bool:
    """Whether a column's type is the wanted one, with any precision of a time."""
    return written == wanted or (wanted == TIMESTAMP_LTZ and str(written).startswith("TIMESTAMP_LTZ"))


def _with_late(node: Node, late: LateRows) -> Node:
    rebuilt = node.with_inputs(lambda below: _with_late(below, late))
    return replace(rebuilt, late=late) if isinstance(rebuilt, Window) else rebuilt
