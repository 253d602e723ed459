"""How two definitions of one query differ, as text for a reviewer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff

from ds_dagster.catalog.relation import Relation
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.definition_text import definition_lines
from ds_dagster.project.load import SliceStatement


def sql_diff(old: Sequence[SliceStatement], new: Sequence[SliceStatement]) -> tuple[str, ...]:
    """The statements of two slices as lines of a unified diff, without its file names; empty if the texts are equal.

    Args:
        old: of the running definition; empty for a new query.
        new: of the new definition; empty for an orphan.
    """
    lines = unified_diff(definition_lines(old), definition_lines(new), n=2, lineterm="")
    return tuple(line for line in lines if not line.startswith(("---", "+++")))


def column_changes(old: BoundQuery, new: BoundQuery) -> tuple[str, ...]:
    """How columns and keys of the relations that a query fills differ: ``n: added, BIGINT``, ``n: BIGINT →
    INTEGER``."""
    before = {sink.name: sink for sink in old.sinks}
    return tuple(line for sink in new.sinks if sink.name in before for line in _column_lines(before[sink.name], sink))


def breaking_changes(old: BoundQuery, new: BoundQuery) -> tuple[str, ...]:
    """The :func:`column_changes` that affect readers of the old columns: all except new columns."""
    return tuple(line for line in column_changes(old, new) if ": added, " not in line)


def _column_lines(old: Relation, new: Relation) -> Iterator[str]:
    before, after = column_types(old), column_types(new)
    for name in dict.fromkeys((*before, *after)):
        if name not in after:
            yield f"{name}: removed, {before[name]}"
        elif name not in before:
            yield f"{name}: added, {after[name]}"
        elif before[name] != after[name]:
            yield f"{name}: {before[name]} → {after[name]}"
    if old.primary_key != new.primary_key:
        yield f"key: ({', '.join(old.primary_key)}) → ({', '.join(new.primary_key)})"


def column_types(relation: Relation) -> Mapping[str, str]:
    """Column → its type, with ``NOT NULL``."""
    return {column.name: f"{column.type}{'' if column.nullable else ' NOT NULL'}" for column in relation.columns}
