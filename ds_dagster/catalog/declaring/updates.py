"""UPDATE STORE and UPDATE SCHEMA_REGISTRY: properties that another statement adds to a declaration.

Files have no order, so an update is not a step in time: the declaration holds the properties of its CREATE and
of all its updates. An update wins over CREATE; the same property in two updates is refused, since it
would depend on an order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ds_dagster.catalog.properties.spec import PropertyIndex
from ds_dagster.catalog.records import Findings
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.sql.statements import Property, Statement, UpdateConnection

FIXED = ("type", "access_region")
"""Properties that an update may not change: the rest of a declaration depends on them."""
UNKNOWN: Mapping[str, str] = {"store": "UNKNOWN_STORE", "schema_registry": "UNKNOWN_SCHEMA_REGISTRY"}


def updates_of(
    statements: Iterable[Statement], what: str, declared: Iterable[str], findings: Findings
) -> Mapping[str, tuple[UpdateConnection, ...]]:
    """Updates of stores or of schema registries, by lower-case name; an update of an undeclared name is refused."""
    names = {name.lower(): name for name in declared}
    updates: dict[str, tuple[UpdateConnection, ...]] = {}
    for statement in statements:
        if not isinstance(statement, UpdateConnection) or statement.what != what:
            continue
        name = str(statement.name)
        if name.lower() in names:
            updates[name.lower()] = (*updates.get(name.lower(), ()), statement)
        else:
            nearest = did_you_mean(name, names.values())
            findings.add(error(UNKNOWN[what], span=statement.name.span, name=name, nearest=nearest))
    return updates


def merged(
    properties: Iterable[Property], updates: Iterable[UpdateConnection], index: PropertyIndex
) -> tuple[Property, ...]:
    """Properties of a declaration after its updates."""
    added = {_canonical(item, index): item for update in updates for item in update.properties}
    remaining = (item for item in properties if _canonical(item, index) not in added)
    return (*remaining, *added.values())


def refused_updates(updates: Sequence[UpdateConnection], index: PropertyIndex) -> Iterator[DsError]:
    """Errors of a declaration's updates: UPDATE_NOT_ALLOWED and UPDATE_TWICE."""
    properties: dict[str, Property] = {}
    for update in updates:
        for item in update.properties:
            name = _canonical(item, index)
            if name in FIXED:
                what = update.what.upper()
                yield error("UPDATE_NOT_ALLOWED", span=item.span, name=item.name, what=what, target=str(update.name))
            elif name in properties:
                other = properties[name].span
                yield error("UPDATE_TWICE", span=item.span, name=item.name, target=str(update.name), other=other)
            properties.setdefault(name, item)


def _canonical(item: Property, index: PropertyIndex) -> str:
    spec = index.find(item.name)
    return item.name if spec is None or spec.name.endswith("*") else spec.name
