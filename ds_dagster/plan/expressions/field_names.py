"""Internal names of fields: made and taken apart here alone.

``alias$column`` is a column of a source under the source's internal alias. Aliases hold no ``$``, so the first one
ends the alias. Names that no column of a user can have stand behind it too: of what a record has beside its columns
(``alias$rowtime()``), and of what a step makes for itself (``alias$$count1``). A column that looks like one of these
gets another ``$`` in front. So two fields never have one name, whatever their columns are called.
"""

from __future__ import annotations

MARK = "$"


def internal_alias(written: str) -> str:
    """A written alias as the first part of internal names."""
    return written.replace(MARK, "_")


def field_name(alias: str, column: str) -> str:
    """Internal name of a column of the user."""
    looks_like_ours = column.startswith(MARK) or column.endswith("()")
    return f"{alias}{MARK}{MARK if looks_like_ours else ''}{column}"


def record_field(alias: str, name: str) -> str:
    """Internal name of what a record has beside its columns: ``rowtime()``."""
    return f"{alias}{MARK}{name}"


def own_field(alias: str, name: str) -> str:
    """Internal name of what a step makes for itself beside columns of the user; ``name``: a plain word."""
    return f"{alias}{MARK}{MARK}{name}"


def under(alias: str, name: str) -> str:
    """The same field under another alias."""
    return alias + name[len(alias_of(name)) :]


def total_key(alias: str) -> str:
    """Internal name of the constant that is the key of a total: of an aggregate of all rows."""
    return own_field(alias, "all")


def is_total_key(name: str) -> bool:
    """Whether a field is the key of a total."""
    return name == total_key(alias_of(name))


def alias_of(name: str) -> str:
    """The alias in an internal name; empty where there is none."""
    alias, mark, _ = name.partition(MARK)
    return alias if mark else ""


def column_of(name: str) -> str:
    """The column in an internal name; the name itself where it has no alias."""
    _, mark, column = name.partition(MARK)
    return column.removeprefix(MARK) if mark else name


def shown(name: str) -> str:
    """An internal name for people: ``c$userid`` → ``c.userid``."""
    alias = alias_of(name)
    return f"{alias}.{column_of(name)}" if alias else name
