"""Plan node of ranks: the first rows of each partition."""

# ruff: noqa: D102 — methods of nodes are described once, in Node
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from sqlglot import exp

from ds_dagster.datatypes import BIGINT
from ds_dagster.errors import error
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.describing import by_text, forgets_text, text
from ds_dagster.plan.nodes.node import BoundExpression, ChangelogKind, Field, Keeps, Names, Node, Sources
from ds_dagster.plan.nodes.reading import columns_read, merged, plain_name, require
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.shaping import Shaper, forgets, places

RankFunction = Literal["ROW_NUMBER", "RANK", "DENSE_RANK"]


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of ORDER BY."""

    expression: BoundExpression
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class TopN(Node):
    """The rows of each partition whose rank in ``order`` is at most ``limit``, with weights. Rows that are equal in
    ``order`` are distinguished by their other fields.

    Attributes:
        input: rows with weights.
        rank: name of the field with the rank, in the output only if ``ranked``.
        limit: largest rank that is kept; 0 until a filter above sets it.
        key_names: the key of the rows: the fields of the partition with the rank, or the input's key.
        ttl_millis: see :mod:`ds_dagster.plan.nodes.delta`.
    """

    input: Node
    function: RankFunction
    partition: tuple[BoundExpression, ...]
    order: tuple[OrderTerm, ...]
    rank: str
    limit: int = 0
    key_names: tuple[str, ...] = ()
    ranked: bool = True
    ttl_millis: int = 0
    keeps: ClassVar[Keeps] = "results"

    def __post_init__(self) -> None:
        if self.input.changelog != "weighted":
            raise error("INTERNAL", where="ranks over rows without weights")
        require(self.input, columns_read(self._read()), "rank")

    @property
    def output(self) -> tuple[Field, ...]:
        rank = (Field(self.rank, BIGINT, nullable=False),) if self.ranked else ()
        return (*self.input.output, *rank)

    @property
    def changelog(self) -> ChangelogKind:
        return "weighted"

    @property
    def key(self) -> tuple[str, ...]:
        return self.key_names

    @property
    def is_stateful(self) -> bool:
        return not self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether all rows of a partition come in one batch: they are groups of a closed window, and the partition is
        within one window. Then nothing is kept."""
        return any(_is_window_end(self.input, expression) for expression in self.partition)

    @property
    def only_grows(self) -> bool:
        return self.is_whole

    @property
    def untimed(self) -> str:
        """A row may be added again, when a later one is retracted."""
        return "a ranking"

    def _read(self) -> tuple[BoundExpression, ...]:
        return (*self.partition, *(term.expression for term in self.order))

    def growth(self) -> Iterator[str]:
        """None: it keeps ``limit`` rows per partition, or all current rows of a changelog."""
        return iter(())

    def shape(self, shaper: Shaper) -> Shape:
        order = [[shaper.text(term.expression), term.descending, term.nulls_first] for term in self.order]
        key = places([name for name in self.key_names if self.has(name)], self.output)
        partition = shaper.texts(self.partition)
        return [self.function, self.limit, partition, order, self.ranked, key, *forgets(self.ttl_millis)]

    def about(self) -> str:
        order = ", ".join(f"{text(t.expression)}{' DESC' * t.descending}" for t in self.order)
        rows = "these rows" if self.input.only_grows else "all rows"
        state = (
            "keeps nothing, a window is complete" if self.is_whole else f"keeps {rows}{forgets_text(self.ttl_millis)}"
        )
        return f"{self.function} ≤ {self.limit}{by_text(self.partition)} in order of {order} · {state}"

    def lineage(self, below: Sources) -> Sources:
        return {**below, self.rank: merged(below, self._read())}

    def pruned(self, needed: Names) -> TopN:
        """Without the rank if it is not read above: then a row whose rank changes is not emitted again."""
        wanted = needed | frozenset(self.key_names)
        below = (wanted - {self.rank}) | columns_read(self._read())
        return replace(self, input=self.input.pruned(below), ranked=self.rank in wanted)

    @property
    def partition_names(self) -> tuple[str, ...] | None:
        """Fields of the partition, None if an expression of it is computed."""
        trees = [expression.tree for expression in self.partition]
        return tuple(tree.name for tree in trees) if all(isinstance(tree, exp.Column) for tree in trees) else None


def _is_window_end(node: Node, expression: BoundExpression) -> bool:
    """Whether an expression is the end of a closed window whose groups the rows are."""
    if not isinstance(expression.tree, exp.Column):
        return False
    below, name = node.origin(expression.tree.name)
    if not isinstance(below, Aggregate) or below.window is None or not below.is_final:
        return False
    ends = [group.name for group in below.group if plain_name(group.expression) == below.window.end]
    return name in ends
