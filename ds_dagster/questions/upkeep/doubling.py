"""Which queries have processed a record that another query left out, and would process it twice after a redrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.reading import plain_name
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import OVERLAPPING, Window
from ds_dagster.plan.query import BoundQuery
from ds_dagster.questions.records import decode
from ds_dagster.questions.upkeep.left_out import OF_ROWS, LeftOut, same_entity

DECODED = ("json", "primitive")
"""Formats of values that :func:`decode` reads."""


def takers(entry: LeftOut, relation: Relation, readers: Sequence[BoundQuery]) -> tuple[str, ...]:
    """Names of the queries that may have processed a record already.

    Args:
        entry: the record that was left out.
        relation: relation of the record.
        readers: all queries that read the relation's entity.
    """
    return tuple(query.name for query in readers if _takes(query, entry, relation))


def _takes(query: BoundQuery, entry: LeftOut, relation: Relation) -> bool:
    all_kinds = {kind for _, kind in entry.by}
    own_kinds = {kind for name, kind in entry.by if name == query.name}
    scans = [scan for scan in query.scans if same_entity(scan.relation, relation)]
    if own_kinds.intersection(OF_ROWS):
        return has_several_rows(query.plan, relation)
    if "broken" in all_kinds:
        return any(scan.relation.name != relation.name for scan in scans)
    if "undecodable" in all_kinds:
        return any(_decodes(scan, entry, otherwise=not own_kinds) for scan in scans)
    return True


def _decodes(scan: Scan, entry: LeftOut, *, otherwise: bool) -> bool:
    """Whether a source can decode a record that another source cannot, since it may read fewer columns.

    Args:
        scan: the source.
        entry: the record.
        otherwise: result for formats that cannot be decoded here.
    """
    relation = scan.relation
    if relation.value_format not in DECODED or relation.key.exclude or relation.is_changelog:
        return otherwise
    record = RawRecord(entry.partition, entry.position, entry.record_time, entry.key, entry.came)
    return not decode(replace(relation, columns=scan.checked.read_columns), record).problem


def has_several_rows(plan: Node, relation: Relation) -> bool:
    """Whether one record of a relation's entity may become several rows in a plan, below all state: then one of them
    may fail or be late while another one passes."""
    nodes = list(plan.walk())
    count = sum(isinstance(node, Scan) and same_entity(node.relation, relation) for node in nodes)
    return count > 1 or any(_multiplies(node) for node in nodes if node.is_ordered)


def _multiplies(node: Node) -> bool:
    if isinstance(node, Window):
        return node.function in OVERLAPPING
    return isinstance(node, Unnest) or (isinstance(node, StaticJoin) and not _is_lookup(node))


def _is_lookup(join: StaticJoin) -> bool:
    """Whether a row is joined with at most one row of the table."""
    keys = {plain_name(key) for key in join.right_keys}
    key = [join.right.field_name(name) for name in join.right.relation.primary_key]
    return bool(key) and keys.issuperset(key)


def late_for(entry: LeftOut, relation: Relation, readers: Sequence[BoundQuery]) -> Iterator[str]:
    """Columns with the event time in the queries for which the record was late; none if these use its timestamp."""
    late = {name for name, kind in entry.by if kind == "late"}
    for scan in (scan for query in readers if query.name in late for scan in query.scans):
        if same_entity(scan.relation, relation) and scan.time.column is not None:
            yield next(c.name for c in scan.relation.columns if scan.field_name(c.name) == scan.time.column)
