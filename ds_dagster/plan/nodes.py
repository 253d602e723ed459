"""Plan nodes: frozen, checked when built, each knowing its fields, key, event time and changelog kind.

Expressions are sqlglot trees after binding (:class:`BoundExpression`): every column is ``exp.Column`` with one quoted
identifier, the *internal* name of a field of the node's input (scan fields are ``alias$column``), every function call
is ``exp.Anonymous`` whose ``this`` is a key of ``plan/functions.py``, everything else is one of the node classes
``plan/expressions.py`` lists. So a printer needs no scope.
"""

# ruff: noqa: D102 — properties of nodes are described once, in Node
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import is_
from typing import Literal, TypeVar

from sqlglot import exp

from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.starting import DataLoss, StartingPosition
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.datatypes import BIGINT, TIMESTAMP_LTZ, DataType
from ds_dagster.errors import error

ChangelogKind = Literal["append", "upsert", "weighted"]
WindowFunction = Literal["TUMBLE", "HOP", "CUMULATE", "SESSION"]
JoinKind = Literal["inner", "left", "full"]
BadRecords = Literal["terminate", "ignore"]
AggregateFunction = Literal[
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "VAR_POP",
    "VAR_SAMP",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "ARRAY_AGG",
    "FIRST_VALUE",
    "LAST_VALUE",
    "APPROX_COUNT_DISTINCT",
]
N = TypeVar("N", bound="Node")
METADATA_FIELD = "rowmetadata()"
"""Second part of the internal name of the field that holds what the store knows of a record."""
DEFAULT_RETENTION_MILLIS = 3_600_000


@dataclass(frozen=True, slots=True)
class Field:
    """One output column of a node: internal name, type, whether it may be NULL."""

    name: str
    type: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class BoundExpression:
    """A typed expression over the fields of a node's input."""

    tree: exp.Expression
    type: DataType
    nullable: bool = True

    def columns(self) -> frozenset[str]:
        """Internal names of the fields it reads."""
        tree = self.tree
        if isinstance(tree, exp.Column):
            return frozenset((tree.this.this,))
        found: set[str] = set()
        pending = [tree]
        while pending:
            node = pending.pop()
            if isinstance(node, exp.Column):
                found.add(node.this.this)
            else:
                pending.extend(node.iter_expressions())
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the internal name of the field it makes."""

    name: str
    expression: BoundExpression

    @property
    def field(self) -> Field:
        """The field it makes."""
        return Field(self.name, self.expression.type, self.expression.nullable)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate: ``argument`` None for COUNT(*); ``distinct``: each value once; ``filter`` a condition; ``order``
    what FIRST_VALUE and LAST_VALUE go by."""

    name: str
    function: AggregateFunction
    argument: BoundExpression | None
    type: DataType
    distinct: bool = False
    filter: BoundExpression | None = None
    nullable: bool = True
    order: BoundExpression | None = None

    @property
    def parts(self) -> tuple[BoundExpression, ...]:
        """The expressions it reads."""
        return tuple(part for part in (self.argument, self.filter, self.order) if part is not None)

    @property
    def field(self) -> Field:
        """The field it makes."""
        return Field(self.name, self.type, self.nullable)


@dataclass(frozen=True, slots=True)
class SourceTime:
    """Event time of one source.

    Attributes:
        column: internal name of the field that carries it, None = the record's own timestamp (arrival).
        format: of text timestamps in the value.
        lateness_millis: bound (``source.allow.latency.millis``); None = default: 500 ms where the broker stamps, 10 s
        otherwise.
        idle_millis: ``source.idle.timeout.millis``, default 10,000.
    """

    column: str | None = None
    format: Literal["sql", "iso8601"] = "sql"
    lateness_millis: int | None = None
    idle_millis: int = 10_000


@dataclass(frozen=True, slots=True)
class Node:
    """Base of all nodes."""

    @property
    def output(self) -> tuple[Field, ...]:
        """Fields in order."""
        raise NotImplementedError

    @property
    def changelog(self) -> ChangelogKind:
        """Whether rows are appended for good, replace one another by ``key``, or come and go with weights."""
        return "append"

    @property
    def key(self) -> tuple[str, ...]:
        """Internal names of the fields rows are upserted by; empty for append."""
        return ()

    @property
    def is_final(self) -> bool:
        """Whether a row that came out is never replaced or deleted later: append rows, and closed windows."""
        return self.changelog == "append"

    @property
    def is_stateful(self) -> bool:
        """Whether this node itself keeps state in the checkpoint."""
        return False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Direct inputs, left to right."""
        found = (getattr(self, name) for name in _input_names(type(self)))
        return tuple(chain.from_iterable(value if isinstance(value, tuple) else (value,) for value in found))

    def with_inputs(self: N, change: Callable[[Node], Node]) -> N:
        """The same node over what ``change`` makes of each input, branches of a union among them; the very same where
        nothing changes."""
        changed = {}
        for name in _input_names(type(self)):
            old = getattr(self, name)
            new = tuple(map(change, old)) if isinstance(old, tuple) else change(old)
            if new is not old and not (isinstance(new, tuple) and all(map(is_, new, old))):
                changed[name] = new
        return replace(self, **changed) if changed else self

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, top down, left to right."""
        yield self
        for child in self.inputs:
            yield from child.walk()

    def has(self, name: str) -> bool:
        """Whether a field of that internal name comes out."""
        return any(field.name == name for field in self.output)


def _input_names(kind: type[Node]) -> tuple[str, ...]:
    """Names of the fields of a node class that hold its inputs, left to right."""
    if kind not in _INPUT_NAMES:
        _INPUT_NAMES[kind] = tuple(field.name for field in fields(kind) if field.type in _INPUTS)
    return _INPUT_NAMES[kind]


_INPUTS = ("Node", "tuple[Node, ...]")
"""Annotations of fields that hold inputs; they are text here."""
_INPUT_NAMES: dict[type[Node], tuple[str, ...]] = {}
"""Node class → what :func:`_input_names` found."""


@dataclass(frozen=True, slots=True)
class Passing(Node):
    """Base of nodes whose rows are those of their input, all or some of them: they replace one another, come and go
    as they did."""

    input: Node

    @property
    def output(self) -> tuple[Field, ...]:
        return self.input.output

    @property
    def changelog(self) -> ChangelogKind:
        return self.input.changelog

    @property
    def is_final(self) -> bool:
        return self.input.is_final

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key


def require(node: Node, names: frozenset[str], what: str) -> None:
    """Fields that an expression reads come out of its input.

    Raises:
        InternalError: INTERNAL.
    """
    if not names:
        return
    known = [field.name for field in node.output]
    missing = sorted(names.difference(known))
    if missing:
        raise error("INTERNAL", where=f"{what}: fields {missing} are not in {known}")


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """Reads a relation. Fields are ``alias$column`` for the columns that are read, and ``alias$rowtime()`` where
    ``rowtime()`` is used (BIGINT, epoch milliseconds of the record's own timestamp).

    ``record_fields``: what else is read of a record, see ``plan/record_fields.py``.

    ``columns``: names of the columns the query needs, in the relation's order; None = all. Primary key, NOT NULL
    columns and the event-time column are always among them. Only these are decoded.

    ``source_name`` names the Spark source inside its checkpoint (letters, digits, underscore; unique in the query and
    stable under edits of the projection). A changelog scan yields upserts and deletes by ``key``. ``slot`` names the
    place its store keeps for this reader; empty: the job's own. ``log``: where bad records that are ignored are kept.
    """

    relation: Relation
    alias: str
    source_name: str
    time: SourceTime = SourceTime()
    starting_position: StartingPosition = "earliest"
    bad_records: BadRecords = "terminate"
    max_records_per_batch: int | None = None
    columns: tuple[str, ...] | None = None
    rowtime: bool = False
    starting_timestamp: int | None = None
    data_loss: DataLoss = "fail"
    record_fields: tuple[Field, ...] = ()
    slot: str = ""
    log: Relation | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        fields = tuple(Field(self.field_name(c.name), c.type, c.nullable) for c in self.read_columns)
        rowtime = (Field(self.rowtime_field, BIGINT, False),) if self.rowtime else ()
        return (*fields, *rowtime, *self.record_fields)

    @property
    def reading(self) -> ReadOptions:
        """What the store's ``read_spec`` wants to know."""
        has_metadata = any(field.name.endswith(METADATA_FIELD) for field in self.record_fields)
        return ReadOptions(
            self.starting_position,
            self.max_records_per_batch,
            self.starting_timestamp,
            self.data_loss,
            has_metadata,
            self.slot,
        )

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """Columns of the relation that are read."""
        if self.columns is None:
            return self.relation.columns
        kept = frozenset(self.columns)
        return tuple(column for column in self.relation.columns if column.name in kept)

    @property
    def rowtime_field(self) -> str:
        """Internal name of the record's own timestamp, a field only if ``rowtime`` is set."""
        return f"{self.alias}$rowtime()"

    @property
    def changelog(self) -> ChangelogKind:
        return "upsert" if self.relation.is_changelog else "append"

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.field_name(name) for name in self.relation.primary_key) if self.relation.is_changelog else ()

    def field_name(self, column: str) -> str:
        """Internal name of a column of the relation."""
        return f"{self.alias}${column}"


@dataclass(frozen=True, slots=True)
class Filter(Passing):
    """Keeps rows whose condition is true. Over an upsert input a row that fails becomes a delete of its key
    (``emits_deletes``), unless its rows are final: then it is dropped, nothing was there to delete."""

    condition: BoundExpression

    def __post_init__(self) -> None:
        require(self.input, self.condition.columns(), "filter")

    @property
    def emits_deletes(self) -> bool:
        """Whether a row that fails must become a delete of its key; rows with weights go by their weights."""
        return self.input.changelog == "upsert" and not self.input.is_final


@dataclass(frozen=True, slots=True)
class Project(Node):
    """Computes columns. Over an upsert input the key fields must pass through unchanged (``key`` gives their new
    names)."""

    input: Node
    columns: tuple[Named, ...]
    key_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for named in self.columns:
            require(self.input, named.expression.columns(), f"projection {named.name}")

    @property
    def output(self) -> tuple[Field, ...]:
        return tuple(named.field for named in self.columns)

    @property
    def changelog(self) -> ChangelogKind:
        return self.input.changelog

    @property
    def is_final(self) -> bool:
        return self.input.is_final

    @property
    def key(self) -> tuple[str, ...]:
        return self.key_names


@dataclass(frozen=True, slots=True)
class LateRows:
    """Where rows that are too late for a window are kept.

    Attributes:
        relation: a stream that the project declares.
        fields: (its column, field of the window's input).
        tells: it has a column that says how late a row is.
    """

    relation: Relation
    fields: tuple[tuple[str, str], ...]
    tells: bool


@dataclass(frozen=True, slots=True)
class Window(Node):
    """Assigns rows to windows of event time: adds ``window_start`` and ``window_end`` (TIMESTAMP_LTZ), named
    ``alias$window_start`` and ``alias$window_end``. Windows hold their start and not their end; all but sessions are
    aligned to the epoch.

    Attributes:
        input, alias: rows, and the first part of the bounds' names.
        size_millis: length; of a session the gap that ends it.
        function: TUMBLE: one window per row. HOP: one begins every ``step_millis`` (there may be gaps between them).
            CUMULATE: all that begin at a multiple of the size and end at a multiple of ``step_millis``. SESSION: while
            rows of a group are no further apart than the gap; its bounds are known to the aggregate only.
        step_millis: of HOP and CUMULATE, else 0.
        late: where rows are kept for which it is closed, None for nowhere.
    """

    input: Node
    alias: str
    size_millis: int
    function: WindowFunction = "TUMBLE"
    step_millis: int = 0
    late: LateRows | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        bounds = (Field(self.start, TIMESTAMP_LTZ, False), Field(self.end, TIMESTAMP_LTZ, False))
        return (*self.input.output, *bounds)

    @property
    def start(self) -> str:
        """Internal name of the window's start."""
        return f"{self.alias}$window_start"

    @property
    def end(self) -> str:
        """Internal name of the window's end."""
        return f"{self.alias}$window_end"


@dataclass(frozen=True, slots=True)
class Windowed(Passing):
    """Rows that are in a window already, by a step below: ``start`` and ``end`` are the fields of its bounds. Time has
    not passed the end when a row arrives, or does so in the same moment."""

    start: str
    end: str

    def __post_init__(self) -> None:
        require(self.input, frozenset((self.start, self.end)), "window")


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """GROUP BY. With a Window below and both bounds in ``group``: one final row per group when time passes the
    window's end (``updates`` False), or refinements. Without: the last value of each changed group per batch. Upsert
    by ``group``."""

    input: Node
    group: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | Windowed | None = None
    updates: bool = False

    def __post_init__(self) -> None:
        if not self.input.is_final:
            raise error("INTERNAL", where="aggregate over rows that may go")
        for named in self.group:
            require(self.input, named.expression.columns(), f"group {named.name}")

    def with_inputs(self, change: Callable[[Node], Node]) -> Aggregate:
        """It names its window a second time: the one of the same bounds in what stands below it then."""
        made = super(Aggregate, self).with_inputs(change)
        if made is self or self.window is None:
            return made
        return replace(made, window=_window_of(made.input, self.window))

    @property
    def output(self) -> tuple[Field, ...]:
        return (*(named.field for named in self.group), *(call.field for call in self.calls))

    @property
    def changelog(self) -> ChangelogKind:
        return "upsert"

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(named.name for named in self.group)

    @property
    def is_final(self) -> bool:
        return self.window is not None and not self.updates

    @property
    def is_stateful(self) -> bool:
        return True


def _window_of(below: Node, old: Window | Windowed) -> Window | Windowed:
    bounds = (old.start, old.end)
    return next(n for n in below.walk() if isinstance(n, Window | Windowed) and (n.start, n.end) == bounds)


@dataclass(frozen=True, slots=True)
class IntervalJoin(Node):
    """Stream ⋈ stream: all pairs of keys equal and ``|left time − right time| ≤ within``. NULL keys match nothing.
    ``residual``: what else LEFT and FULL ask of a pair (INNER: a filter above)."""

    left: Node
    right: Node
    kind: JoinKind
    left_keys: tuple[BoundExpression, ...]
    right_keys: tuple[BoundExpression, ...]
    within_millis: int
    residual: BoundExpression | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return (*or_null(self.left, self.kind == "full"), *or_null(self.right, self.kind != "inner"))

    @property
    def is_stateful(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class TemporalJoin(Node):
    """Stream ⋈ changelog: each left row meets the right version valid at its event time. ``right`` is a scan of a
    changelog whose primary key is ``right_keys``; INNER drops rows without a version, LEFT keeps them with NULLs.
    ``residual``: what else LEFT asks of a version; one that fails counts as none (INNER: a filter above).
    Versions are kept for late rows for ``retention_millis`` (``temporal.join.retention.millis``, default one hour),
    the newest for ever."""

    left: Node
    right: Node
    kind: JoinKind
    left_keys: tuple[BoundExpression, ...]
    right_keys: tuple[BoundExpression, ...]
    immediate: bool = False
    retention_millis: int = DEFAULT_RETENTION_MILLIS
    residual: BoundExpression | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return (*self.left.output, *or_null(self.right, self.kind != "inner"))

    @property
    def is_stateful(self) -> bool:
        return True


def or_null(node: Node, may_be_absent: bool) -> tuple[Field, ...]:
    """A side's fields; all may be NULL where an outer join may give a row without it."""
    return tuple(Field(f.name, f.type, f.nullable or may_be_absent) for f in node.output)


@dataclass(frozen=True, slots=True)
class Sink(Node):
    """The root: writes its input into a relation. ``columns``: internal names in the order of the relation's
    columns."""

    input: Node
    relation: Relation
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        require(self.input, frozenset(self.columns), "sink")

    @property
    def output(self) -> tuple[Field, ...]:
        by_name = {field.name: field for field in self.input.output}
        return tuple(
            Field(column.name, by_name[name].type, by_name[name].nullable)
            for column, name in zip(self.relation.columns, self.columns, strict=True)
        )

    @property
    def changelog(self) -> ChangelogKind:
        return self.input.changelog

    @property
    def key(self) -> tuple[str, ...]:
        return self.relation.primary_key
