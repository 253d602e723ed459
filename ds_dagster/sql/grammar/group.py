"""The grammar of GROUP BY: expressions, ``ROLLUP``, ``CUBE``, ``GROUPING SETS`` and ``()``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from ds_dagster.sql.expressions import without_parentheses
from ds_dagster.sql.grammar.expression import ExpressionParser, is_query_word

GroupSet = tuple[exp.Expression, ...]
"""Expressions of one grouping set."""
MOST_SETS = 64
"""Largest number of grouping sets in one GROUP BY."""
_INSTEAD = "the sets that are needed, each once: GROUP BY GROUPING SETS ((a, b), (a), ())"
_CALLED = ("rollup", "cube")


class GroupParser(ExpressionParser):
    """GROUP BY, read as a list of grouping sets."""

    def group(self) -> exp.Expression | None:
        """The GROUP BY clause; None for ``GROUP BY ()``. Several sets are tuples in ``grouping_sets``; ``expressions``
        has the expressions of all sets, each once."""
        token = self._curr
        factors = [self._element()]
        while self.take_symbol(TokenType.COMMA):
            factors.append(self._element())
        sets = [_merged(parts) for parts in product(*factors)]
        if len(sets) > MOST_SETS:
            written = f"GROUP BY with {len(sets)} sets (at most {MOST_SETS})"
            raise self.refuse("FORM_INSTEAD", token, written=written, instead=_INSTEAD)
        expressions = _merged(sets)
        if len(sets) == 1:
            return exp.Group(expressions=list(expressions)) if expressions else None
        places = [frozenset(expressions.index(expression) for expression in group) for group in sets]
        twice = next((group for number, group in enumerate(places) if group in places[:number]), None)
        if twice is not None:
            shown = ", ".join(expressions[place].sql() for place in sorted(twice))
            raise self.refuse("FORM_INSTEAD", token, written=f"GROUP BY with the set ({shown}) twice", instead=_INSTEAD)
        tuples = [exp.Tuple(expressions=[expression.copy() for expression in group]) for group in sets]
        return exp.Group(expressions=list(expressions), grouping_sets=tuples)

    def _element(self) -> list[GroupSet]:
        """Grouping sets of one element of GROUP BY."""
        for word in _CALLED:
            if self.at(word) and self.ahead().token_type is TokenType.L_PAREN:
                self._advance()
                return _SETS[word](self.listed(self._composite))
        if self.take("grouping", "sets"):
            return [group for sets in self.listed(self._element) for group in sets]
        return [self._composite()]

    def _composite(self) -> GroupSet:
        """``expression``, ``(expression, …)`` or ``()``."""
        start = self._index
        if not is_query_word(self.ahead()) and self.take_symbol(TokenType.L_PAREN):
            if self.take_symbol(TokenType.R_PAREN):
                return ()
            items = self.separated(self.expr)
            if len(items) > 1:
                self.need_symbol(TokenType.R_PAREN, "',' or ')'")
                return tuple(items)
            self._retreat(start)
        return (without_parentheses(self.expr()),)


def _merged(parts: Iterable[GroupSet]) -> GroupSet:
    """All expressions in order, each once."""
    expressions: list[exp.Expression] = []
    for part in parts:
        expressions += [expression for expression in part if expression not in expressions]
    return tuple(expressions)


def _rollup(parts: list[GroupSet]) -> list[GroupSet]:
    return [_merged(parts[:count]) for count in range(len(parts), -1, -1)]


def _cube(parts: list[GroupSet]) -> list[GroupSet]:
    sizes = range(len(parts), -1, -1)
    return [_merged(chosen) for size in sizes for chosen in combinations(parts, size)]


_SETS = {"rollup": _rollup, "cube": _cube}
