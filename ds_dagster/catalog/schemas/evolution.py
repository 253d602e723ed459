"""What a new shape of a source means for the declared columns: a new version of the schema of its records, or other
columns of its table. Pure.

A shape is the fields of records, or the columns of a table, as the registry or the database has them. Its effect
follows from the rules by which columns are read: by name, else by an alias or the number of a field, else a default,
else NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ds_dagster.catalog.relation import Column
from ds_dagster.datatypes import DataType, Scalar


@dataclass(frozen=True, slots=True)
class RecordShape:
    """One version of a source's shape.

    Attributes:
        fields: name → type as people read it, in order. Empty where records have no fields (a number, a text): then no
            column is unknown.
        types: name → SQL type; fields that no SQL type holds are left out.
        names: name → other identifiers of the field: its aliases, its number.
        rules: declared column → its aliases, default and number; columns that are read by name alone are left out.
    """

    fields: Mapping[str, str]
    types: Mapping[str, DataType] = field(default_factory=lambda: MappingProxyType({}))
    names: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    rules: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def unknown(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Columns without a field: NULL in every record that is written with this shape."""
        return tuple(name for name in columns if self.fields and name not in self.fields)


@dataclass(frozen=True, slots=True)
class Evolution:
    """Difference between two shapes.

    Attributes:
        added, removed: names of fields, renamed fields excluded.
        renamed: name now → name before.
        retyped: name → types before and now, as people read them; ``types``: SQL types now.
        ruled: declared columns whose aliases, default or number changed.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    types: Mapping[str, DataType] = field(default_factory=lambda: MappingProxyType({}))
    ruled: tuple[str, ...] = ()

    @classmethod
    def between(cls, old: RecordShape, new: RecordShape) -> Evolution:
        """The difference from an old shape to a new one."""
        gone = [name for name in old.fields if name not in new.fields]
        come = [name for name in new.fields if name not in old.fields]
        renamed = {name: before for name in come if (before := _before(name, gone, old, new))}
        same = [(name, old.fields[name], type_) for name, type_ in new.fields.items() if name in old.fields]
        rules = {**old.rules, **new.rules}
        return cls(
            added=tuple(name for name in come if name not in renamed),
            removed=tuple(name for name in gone if name not in renamed.values()),
            renamed=MappingProxyType(renamed),
            retyped=MappingProxyType({name: (was, is_) for name, was, is_ in same if was != is_}),
            types=new.types,
            ruled=tuple(name for name in rules if old.rules.get(name) != new.rules.get(name)),
        )

    @property
    def _differing(self) -> frozenset[str]:
        """Names of changed fields, of renamed ones both names."""
        return frozenset((*self.added, *self.removed, *self.renamed, *self.renamed.values(), *self.retyped))

    def affected(self, columns: Sequence[Column]) -> tuple[str, ...]:
        """Declared columns that are read in another way with the new shape."""
        touched = self._differing.union(self.ruled)
        return tuple(column.name for column in columns if column.name in touched)

    def text(self) -> str:
        """The difference in words."""
        parts = [f"{name} is new" for name in self.added]
        parts += [f"{name} is gone" for name in self.removed]
        parts += [f"{before} is called {name}" for name, before in self.renamed.items()]
        parts += [f"{name} was {was}, is {is_}" for name, (was, is_) in self.retyped.items()]
        ruled = (name for name in self.ruled if name not in self._differing)
        parts += [f"{name} has another alias, default or number" for name in ruled]
        return "; ".join(parts) or "its fields are the same"

    def fixes(self, columns: Sequence[Column], relation: str, gone: str) -> Iterator[str]:
        """What to do, one sentence per declared column that needs it.

        Args:
            columns: declared.
            relation: that declares them.
            gone: effect on a column whose field is gone, as words that follow its name.
        """
        declared = {column.name: column.type for column in columns}
        for name in self.removed:
            if name in declared:
                yield f"{name} {gone}: remove it from {relation}, or let the writer keep it"
        for name, before in self.renamed.items():
            if before in declared:
                yield f"rename {before} to {name} in {relation}"
        for name, (_, is_) in self.retyped.items():
            if name in declared and not _is_alike(declared[name], self.types.get(name)):
                yield f"check that {name} {declared[name]} of {relation} holds {is_}; records that do not fit are bad"


def _is_alike(first: DataType, second: DataType | None) -> bool:
    """Whether values of both types are read without loss as the other; lengths and digits of scalars do not count."""
    if isinstance(first, Scalar) and isinstance(second, Scalar):
        return first.name == second.name
    return first == second


def _before(name: str, gone: Sequence[str], old: RecordShape, new: RecordShape) -> str:
    """The name that a field had before; empty for a new field."""
    others = new.names.get(name, frozenset())
    return next((other for other in gone if others & ({other} | old.names.get(other, frozenset()))), "")


def described(
    evolution: Evolution, columns: Sequence[Column], relation: str, gone: str, unlisted: str = ""
) -> Mapping[str, str]:
    """Parameters of the condition that reports a change: ``relation``, ``difference``, ``columns`` and ``fix``.

    Args:
        evolution: the change.
        columns: declared.
        relation: that declares them.
        gone: see :meth:`Evolution.fixes`.
        unlisted: words that follow the advice to add a column: how a relation without a column list gets it.
    """
    affected = ", ".join(evolution.affected(columns))
    news = ", ".join((*evolution.added, *evolution.renamed))
    idle = "nothing has to be done"
    idle += f"; to read {news}, add it to the columns of {relation}{unlisted}" if news and not affected else ""
    fixes = "; ".join(evolution.fixes(columns, relation, gone))
    return MappingProxyType(
        {
            "relation": relation,
            "difference": evolution.text(),
            "columns": affected or "no declared column",
            "fix": fixes or idle,
        }
    )
