"""Frozen records of statements that ``ds sql`` executes immediately; they are not part of a project's definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds_dagster.sql.statements import Origin, Property, Statement, WrittenName

QueryPart = Literal["", "metrics", "events", "state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListObjects:
    """LIST or SHOW things [IN place] [IN STORE s].

    Attributes:
        things: one of ``grammar.command.LISTABLE`` (``entities``, ``schemas``, …).
        place: path (for entities), database (for schemas) or schema (for relations); None lists all.
        store: store of the entities; None unless IN STORE is written.
    """

    origin: Origin
    things: str
    place: WrittenName | None = None
    store: WrittenName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStore:
    """DESCRIBE STORE name."""

    origin: Origin
    name: WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeRelation:
    """DESCRIBE RELATION [COLUMNS] name, DESCRIBE name."""

    origin: Origin
    name: WrittenName
    columns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuery:
    """DESCRIBE QUERY [METRICS | EVENTS | STATE] name."""

    origin: Origin
    name: WrittenName
    part: QueryPart = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeEntity:
    """DESCRIBE ENTITY path [IN STORE s]."""

    origin: Origin
    path: WrittenName
    store: WrittenName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStatement:
    """DESCRIBE CREATE …, DESCRIBE INSERT … or DESCRIBE BEGIN APPLICATION … END APPLICATION: describe the relations that
    the statement would create."""

    origin: Origin
    statement: Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintEntity:
    """PRINT {ENTITY | TOPIC} path [IN STORE s] [WITH ('from_beginning' [= TRUE], 'limit' = n)]."""

    origin: Origin
    path: WrittenName
    store: WrittenName | None = None
    from_beginning: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateEntity:
    """UPDATE ENTITY path [IN STORE s] WITH (…)."""

    origin: Origin
    path: WrittenName
    properties: tuple[Property, ...]
    store: WrittenName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEntity:
    """DROP ENTITY path [IN STORE s]."""

    origin: Origin
    path: WrittenName
    store: WrittenName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertIntoEntity:
    """INSERT INTO ENTITY path [IN STORE s] VALUE('json' | NULL) [WITH ('key' = '…')].

    Attributes:
        value: the JSON text; None for NULL, which deletes the key.
        key: text of the record's key, or None.
    """

    origin: Origin
    path: WrittenName
    value: str | None
    key: str | None = None
    store: WrittenName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateColumns:
    """GENERATE COLUMNS [FOR] ENTITY path [IN STORE s] [WITH ('samples' = n)]."""

    origin: Origin
    path: WrittenName
    store: WrittenName | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlQuery:
    """TERMINATE QUERY name, RESTART QUERY name."""

    origin: Origin
    verb: Literal["terminate", "restart"]
    name: WrittenName


Command = (
    ListObjects | DescribeStore | DescribeRelation | DescribeQuery | DescribeEntity | DescribeStatement | PrintEntity
    | UpdateEntity | DropEntity | InsertIntoEntity | GenerateColumns | ControlQuery
)  # fmt: skip
