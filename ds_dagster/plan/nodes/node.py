"""The base of plan nodes, and their parts: fields and typed expressions.

Expressions are sqlglot trees after binding (:class:`BoundExpression`): every column is ``exp.Column`` with one quoted
identifier, the *internal* name of a field of the node's input (scan fields are ``alias$column``), every function call
is ``exp.Anonymous`` whose ``this`` is a key of ``functions/table.py``, everything else is one of the node classes
``plan/expressions/binder.py`` lists. So a printer needs no scope.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import chain
from operator import is_
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import DataType
from ds_dagster.errors import error
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.names import QualifiedName
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper, ShapeScope

ChangelogKind = Literal["append", "upsert", "weighted"]


class Bounds(NamedTuple):
    """Names of the fields that hold the start and the end of a row's window."""

    start: str
    end: str


ColumnSource = tuple[QualifiedName, str]
"""A column of a relation."""
Sources = Mapping[str, tuple[ColumnSource, ...]]
"""Field → columns it is computed from, in reading order, each once."""
Names = frozenset[str]
"""Internal names of fields."""
Keeps = Literal["nothing", "rows", "results"]
"""The content of a step's state: rows of its inputs, or results computed from everything below."""
N = TypeVar("N", bound="Node")


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
        names: set[str] = set()
        pending = [tree]
        while pending:
            node = pending.pop()
            if isinstance(node, exp.Column):
                names.add(node.this.this)
            else:
                pending.extend(node.iter_expressions())
        return frozenset(names)


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the internal name of the field it makes."""

    name: str
    expression: BoundExpression

    @property
    def field(self) -> Field:
        """The field it makes."""
        return Field(self.name, self.expression.type, self.expression.nullable)


_DERIVED = (
    *("output", "names", "changelog", "key", "is_final", "only_grows", "is_stateful", "inputs"),
    *("untimed", "time_fields", "windows", "open_windows", "late_step", "settles", "is_refined"),
    *("is_ordered", "is_plain", "one_source", "is_bounded", "unrepeatable", "is_repeatable"),
)
"""Properties that follow from a node and the nodes below it: its output, its traits, and these nodes."""


def _once(name: str, compute: Callable[[Any], object]) -> property:
    """A property that is computed once per node."""

    def get(node: Node) -> object:
        cache = node._known
        if name not in cache:
            cache[name] = compute(node)
        return cache[name]

    get.__doc__ = compute.__doc__
    return property(get)


_WITH_STATE = ("keeps", "growth")
"""Members that a class with state has to define itself."""


@dataclass(frozen=True, slots=True)
class Node:
    """Base of all nodes. They never change, so :data:`_DERIVED` are computed once per node.

    Everything about a kind of node is in its class. Defining a class without one of the abstract methods, or a class
    with state without ``keeps`` and ``growth``, raises INTERNAL with the names that are missing.

    Attributes:
        is_base: the class is a base of nodes; plans do not hold it.
        keeps: see :data:`Keeps`.
        layout: number of the layout of its state, empty for the first one. Part of the state signature.
        one_by_one: it computes each row from one row below, and keeps nothing.
        asks_time: it reads the event time of the rows below.
        passes_time: its rows have the event time of the rows below.
        drops_late_rows: it drops each row that is older than the watermark (a window drops by its end).
        only_shows: it passes rows on whatever their values are.
        one_per_key: it gives at most one row per key and batch.
    """

    is_base: ClassVar[bool] = True
    keeps: ClassVar[Keeps] = "nothing"
    layout: ClassVar[tuple[int, ...]] = ()
    one_by_one: ClassVar[bool] = False
    asks_time: ClassVar[bool] = False
    passes_time: ClassVar[bool] = False
    drops_late_rows: ClassVar[bool] = False
    only_shows: ClassVar[bool] = False
    one_per_key: ClassVar[bool] = False
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __init_subclass__(cls) -> None:
        _compute_once(cls)
        missing = [name for name in dir(cls) if getattr(getattr(cls, name), "__isabstractmethod__", False)]
        if _says(cls, "is_stateful"):
            missing += [name for name in _WITH_STATE if not _says(cls, name)]
        if missing and not cls.__dict__.get("is_base"):
            raise error("INTERNAL", where=f"plan node {cls.__name__} does not say its {', '.join(missing)}")

    @property
    @abstractmethod
    def output(self) -> tuple[Field, ...]:
        """Fields in order."""

    @abstractmethod
    def shape(self, shaper: Shaper) -> Shape:
        """Its own part of the fingerprint and of state signatures: everything that decides which rows it gives, without
        its inputs. The shape of a plan that exists must never change."""

    @abstractmethod
    def about(self) -> str:
        """The text EXPLAIN shows after its name; may be empty."""

    @abstractmethod
    def lineage(self, below: Sources) -> Sources:
        """The columns its fields are computed from. ``below``: the columns of all fields of its inputs."""

    @abstractmethod
    def pruned(self, needed: Names) -> Node:
        """The same node, reading no more than its fields in ``needed`` require."""

    def growth(self) -> Iterator[str]:
        """Texts that name the state that grows with every record. See :mod:`ds_dagster.plan.checks.unbounded`."""
        return iter(())

    @property
    def changelog(self) -> ChangelogKind:
        """Whether rows are appended, replace one another by ``key``, or are added and retracted by weights."""
        return "append"

    @property
    def key(self) -> tuple[str, ...]:
        """Internal names of the fields rows are upserted by; empty for append."""
        return ()

    @property
    def is_final(self) -> bool:
        """Whether a row of the result is never replaced or deleted later: append rows, and closed windows."""
        return self.changelog == "append"

    @property
    def only_grows(self) -> bool:
        """Whether rows are only added: none is replaced or deleted."""
        if self.changelog != "weighted":
            return self.is_final
        return all(child.only_grows for child in self.inputs)

    @property
    def is_stateful(self) -> bool:
        """Whether this node itself keeps state in the checkpoint."""
        return False

    def takes_filters(self, names: Names) -> bool:  # noqa: ARG002
        """Whether Spark may move a condition over these fields below this step."""
        return False

    @property
    @abstractmethod
    def untimed(self) -> str:
        """Name of the step, here or below, that does not pass event time on; empty where rows have an event time."""

    @property
    def time_fields(self) -> Names:
        """Fields that hold the event time of its rows, unchanged."""
        return frozenset()

    @property
    def windows(self) -> tuple[Bounds, ...]:
        """The windows its rows are in, without sessions that have not ended. Flink: window attribute of a relation.

        A row with bounds arrives before the watermark passes the end, or at the moment it does, so a step above can
        close the same window again.
        """
        return ()

    @property
    def open_windows(self) -> tuple[Node, ...]:
        """The windows below that no aggregate has closed."""
        return tuple(chain.from_iterable(child.open_windows for child in self.inputs))

    @property
    def late_step(self) -> str:
        """Name of the step, here or below, whose rows wait for the watermark; empty if all rows are emitted at once."""
        return next((child.late_step for child in self.inputs if child.late_step), "")

    @property
    def settles(self) -> bool:
        """Whether some rows exist only because time has passed: matches, and rows of outer joins without a partner."""
        return any(child.settles for child in self.inputs)

    @property
    def is_refined(self) -> bool:
        """Whether a windowed aggregate, here or below, emits a group again with every change."""
        return any(child.is_refined for child in self.inputs)

    @property
    def is_ordered(self) -> bool:
        """Whether rows are in the order of their sources: no step, here or below, holds any back."""
        return not self.is_stateful and all(child.is_ordered for child in self.inputs)

    @property
    def one_source(self) -> bool:
        """Whether all rows come from one source."""
        return len(self.inputs) <= 1 and all(child.one_source for child in self.inputs)

    @property
    def is_plain(self) -> bool:
        """Whether everything from here down only reads and changes rows one by one."""
        return self.one_by_one and all(child.is_plain for child in self.inputs)

    @property
    def is_bounded(self) -> bool:
        """Whether no state, here or below, grows with every record."""
        return not any(True for _ in self.growth()) and all(child.is_bounded for child in self.inputs)

    @property
    def unrepeatable(self) -> tuple[str, ...]:
        """Its functions that give another value each time, such as RAND."""
        calls = (call for part in expressions_of(self) for call in part.tree.find_all(exp.Anonymous))
        return tuple(dict.fromkeys(name for call in calls if not FUNCTIONS[name := str(call.this)].deterministic))

    @property
    def is_repeatable(self) -> bool:
        """Whether the same rows of the sources give the same values again, here and below."""
        return not self.unrepeatable and all(child.is_repeatable for child in self.inputs)

    @property
    def waits_for_time(self) -> bool:
        """Whether it waits for the watermark itself."""
        return False

    @property
    def wait_millis(self) -> int:
        """Milliseconds the watermark has to pass the newest row until nothing waits here."""
        return 0

    @property
    def shared_name(self) -> str:
        """Name of a part of a plan that several sinks may share; empty for other nodes."""
        return ""

    def origin(self, name: str) -> tuple[Node, str]:
        """The node that computes a field, through steps that pass it on, and the field's name in it."""
        return self, name

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Direct inputs, left to right."""
        values = [getattr(self, name) for name in _input_names(type(self))]
        return tuple(chain.from_iterable(value if isinstance(value, tuple) else (value,) for value in values))

    def with_inputs(self: N, change: Callable[[Node], Node]) -> N:
        """A copy with each input (also each branch of a union) replaced by ``change(input)``; the node itself if no
        input changes."""
        changed: dict[str, Any] = {}
        for name in _input_names(type(self)):
            old = getattr(self, name)
            new = tuple(map(change, old)) if isinstance(old, tuple) else change(old)
            if new is not old and not (isinstance(new, tuple) and all(map(is_, new, old))):
                changed[name] = new
        return replace(self, **changed) if changed else self

    def whole_shape(self, scope: ShapeScope) -> Shape:
        """The shape of the node and everything below."""
        own = self.shape(Shaper(self.inputs, scope))
        return [type(self).__name__, own, [child.whole_shape(scope) for child in self.inputs]]

    def state_shape(self, scope: ShapeScope) -> Shape:
        """Its part of a state signature: the step and everything below, since kept rows have these columns and passed
        these filters, and a retraction must equal its row. With ``rows_by_type`` only the types of kept rows count."""
        if self.keeps == "rows" and scope.rows_by_type:
            types: Shape = [[str(f.type) for f in child.output] for child in self.inputs]
            return [type(self).__name__, self.shape(Shaper(self.inputs, scope)), types, *self.layout]
        return [type(self).__name__, self.kept_shape(scope), *self.layout]

    def kept_shape(self, scope: ShapeScope) -> Shape:
        """The shape of everything that decides about the content of its state."""
        return self.whole_shape(scope)

    def all_lineage(self) -> Sources:
        """The columns of relations its fields are computed from."""
        below: dict[str, tuple[ColumnSource, ...]] = {}
        for name, columns in chain.from_iterable(child.all_lineage().items() for child in self.inputs):
            below[name] = tuple(dict.fromkeys((*below.get(name, ()), *columns)))
        return self.lineage(below)

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, top down, left to right."""
        return chain((self,), *(child.walk() for child in self.inputs))

    @property
    def names(self) -> frozenset[str]:
        """Internal names of the fields of the result."""
        return frozenset(f.name for f in self.output)

    def has(self, name: str) -> bool:
        """Whether the result has a field of that internal name."""
        return name in self.names


def expressions_of(value: object) -> Iterator[BoundExpression]:
    """The bound expressions of a node, without the nodes below."""
    if isinstance(value, BoundExpression):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from expressions_of(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            inner = getattr(value, part.name)
            if not isinstance(inner, Node | Relation):
                yield from expressions_of(inner)


def _compute_once(kind: type) -> None:
    for name in _DERIVED:
        own = kind.__dict__.get(name)
        if isinstance(own, property) and own.fget is not None and not own.__isabstractmethod__:
            setattr(kind, name, _once(name, own.fget))


_compute_once(Node)


def _input_names(kind: type[Node]) -> tuple[str, ...]:
    """Names of the fields of a node class that hold its inputs, left to right."""
    if kind not in _INPUT_NAMES:
        _INPUT_NAMES[kind] = tuple(attribute.name for attribute in fields(kind) if attribute.type in _INPUTS)
    return _INPUT_NAMES[kind]


def _says(cls: type[Node], name: str) -> bool:
    """Whether a class, or a base of it other than :class:`Node`, defines the member itself."""
    return any(name in kind.__dict__ for kind in cls.__mro__ if kind not in Node.__mro__)


_INPUTS = ("Node", "tuple[Node, ...]")
"""Annotations of fields that hold inputs; they are text here."""
_INPUT_NAMES: dict[type[Node], tuple[str, ...]] = {}
"""Cache of :func:`_input_names`."""
