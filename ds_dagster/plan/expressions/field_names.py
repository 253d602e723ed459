"""Internal names of fields, encoded and decoded in this module only.

``alias$column`` is a column of a source under the source's internal alias. Aliases hold no ``$``, so the first one
ends the alias. Two other forms are not columns of a user: a record's metadata (``alias$rowtime()``) and a step's own
field (``alias$$count1``). A column that looks like one of these gets another ``$`` before it. So two fields never share
a name.
"""

from __future__ import annotations

from collections.abc import Set

MARK = "$"


def internal_alias(written: str) -> str:
    """A written alias as the first part of internal names."""
    return written.replace(MARK, "_")


def unused_alias(written: str, taken: Set[str]) -> str:
    """An internal alias, with a number if ``taken`` has it already."""
    base = internal_alias(written)
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def field_name(alias: str, column: str) -> str:
    """Internal name of a column of the user."""
    looks_like_ours = column.startswith(MARK) or column.endswith("()")
    return f"{alias}{MARK}{MARK if looks_like_ours else ''}{column}"


def record_field(alias: str, name: str) -> str:
    """Internal name of a record's metadata: ``rowtime()``."""
    return f"{alias}{MARK}{name}"


def own_field(alias: str, name: str) -> str:
    """Internal name of a step's own field; ``name``: a plain word."""
    return f"{alias}{MARK}{MARK}{name}"


def under(alias: str, name: str) -> str:
    """An internal name with another alias."""
    return alias + name[len(alias_of(name)) :]


def total_key(alias: str) -> str:
    """Internal name of the constant key of a total, which is an aggregate of all rows."""
    return own_field(alias, "all")


def is_total_key(name: str) -> bool:
    """Whether a field is the key of a total."""
    return name == total_key(alias_of(name))


def alias_of(name: str) -> str:
    """The alias in an internal name; empty without one."""
    alias, mark, _ = name.partition(MARK)
    return alias if mark else ""


def column_of(name: str) -> str:
    """The column in an internal name; the name itself if it has no alias."""
    _, mark, column = name.partition(MARK)
    return column.removeprefix(MARK) if mark else name


def shown(name: str) -> str:
    """An internal name for people: ``c$userid`` → ``c.userid``."""
    alias = alias_of(name)
    return f"{alias}.{column_of(name)}" if alias else name
