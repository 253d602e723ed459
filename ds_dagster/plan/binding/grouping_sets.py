"""GROUPING SETS, ROLLUP and CUBE: each row once per set, with the number of the set as one more group field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, INTEGER, ArrayType
from ds_dagster.plan.expressions.bound_trees import Typed, column
from ds_dagster.plan.expressions.field_names import alias_of, own_field
from ds_dagster.plan.nodes.node import BoundExpression, Field, Named, Node
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.weights import weighted


def calls_of_grouping(trees: Iterable[exp.Expression]) -> Iterator[exp.Anonymous]:
    """GROUPING(…) and GROUPING_ID(…) in expressions, not those of sub-selects."""
    for tree in trees:
        for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
            if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("GROUPING", "GROUPING_ID"):
                yield node


def written_group(tree: exp.Expression) -> exp.Expression:
    """What GROUP BY has for a bound group: without the sets that it is NULL in."""
    parts = tree.args["ifs"] if isinstance(tree, exp.Case) else []
    inside = parts[0].this if len(parts) == 1 else None
    is_partial = isinstance(inside, exp.In) and inside.this.name == own_field(alias_of(inside.this.name), "set")
    return parts[0].args["true"] if is_partial else tree


class GroupingSets:
    """The sets of one GROUP BY.

    A set's number has one bit per expression that is not in all sets, the first expression's the highest; it is 1 if
    the set does not group by the expression. So the number equals GROUPING_ID of these expressions.

    Args:
        group: GROUP BY with ``grouping_sets``.
        name: internal name of the field that holds the number.
    """

    def __init__(self, group: exp.Group, name: str) -> None:
        self.name = name
        written = group.expressions
        sets = [[written.index(tree) for tree in part.expressions] for part in group.args["grouping_sets"]]
        self._partial = [place for place in range(len(written)) if not all(place in part for part in sets)]
        self.partial = [written[place] for place in self._partial]
        self.numbers = [self._number(part) for part in sets]

    def _number(self, part: Sequence[int]) -> int:
        bits = ["0" if place in part else "1" for place in self._partial]
        return int("".join(bits), 2)

    def expanded(self, node: Node) -> Node:
        """Each row once per set."""
        if node.changelog == "upsert":
            node = weighted(node)
        numbers = exp.Array(expressions=[exp.Literal.number(number) for number in self.numbers])
        value = BoundExpression(numbers, ArrayType(INTEGER), nullable=False)
        return Unnest(node, value, (Field(self.name, INTEGER, nullable=False),))

    @property
    def key(self) -> Named:
        """The number as a group field."""
        return Named(self.name, BoundExpression(column(self.name), INTEGER, nullable=False))

    def partly(self, place: int, bound: BoundExpression) -> BoundExpression | None:
        """An expression that is NULL in the sets that do not group by it; None if all sets do."""
        if place not in self._partial:
            return None
        numbers = [number for number in self.numbers if not number & self._bit(place)]
        inside = exp.In(this=column(self.name), expressions=[exp.Literal.number(number) for number in numbers])
        tree = exp.Case(ifs=[exp.If(this=inside, true=bound.tree)])
        return BoundExpression(tree, bound.type, nullable=True)

    def _bit(self, place: int) -> int:
        return 1 << (len(self._partial) - 1 - self._partial.index(place)) if place in self._partial else 0

    def grouping(self, places: Sequence[int]) -> Typed:
        """GROUPING of the expressions at these places: one bit each, the first one the highest."""
        bits_by_number = {number: self._bits(number, places) for number in self.numbers}
        if all(number == bits for number, bits in bits_by_number.items()):
            return Typed(column(self.name), INTEGER, False)
        ifs = [
            exp.If(
                this=exp.EQ(this=column(self.name), expression=exp.Literal.number(number)),
                true=exp.Literal.number(bits),
            )
            for number, bits in bits_by_number.items()
        ]
        return Typed(exp.Case(ifs=ifs), BIGINT, False)

    def _bits(self, number: int, places: Sequence[int]) -> int:
        return int("".join("1" if number & self._bit(place) else "0" for place in places), 2)
