"""The grammar around SELECT: ``WITH``, set operations, parentheses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.cursor import RESERVED
from ds_dagster.sql.expressions import AskedTree
from ds_dagster.sql.grammar.expression import ExpressionParser

_SAME_COLUMNS = "the same columns in both SELECTs, in one order: SELECT a, b FROM s UNION ALL SELECT a, b FROM t"
_CHANGES_AS_ROWS = (
    "CREATE STREAM {name} (columns) WITH ('topic' = 'topic of the changelog', 'value.format' = 'json'), and select "
    'from it: a row for each upsert, none for a delete; ds query "SELECT * FROM {source}" shows both as they come'
)
SET_OPERATIONS: dict[str, tuple[int, type[exp.SetOperation]]] = {
    "union": (1, exp.Union),
    "except": (1, exp.Except),
    "intersect": (2, exp.Intersect),
}
"""Word → its precedence and the class of its node."""
_NUMBERS = (
    "a row for each number of a relation's row: FROM relation CROSS JOIN UNNEST(SPLIT(REPEAT(',', n - 1), ',')) WITH "
    "ORDINALITY AS t(e, i); constants in ds query: FROM (VALUES (1), (2)) AS t(i)"
)
ROWS_OF_VALUES: dict[str, str] = {
    "unnest": "it after a relation: FROM relation CROSS JOIN UNNEST(array) AS t(name); constants in ds query: FROM "
    "(VALUES (1), (2)) AS t(name)",
    **dict.fromkeys(("generate_series", "range", "sequence"), _NUMBERS),
}
"""Function that makes rows of values → what to write instead of it as the first source."""
MOST_NAMED_PARTS = 64
"""Largest number of sub-selects that names of WITH may expand to in one query; each is computed separately."""


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query named by WITH: its position, its tree, the number of its sub-selects, and the places that read it."""

    token: Token
    tree: AskedTree
    size: int
    readers: list[Token] = field(default_factory=list)


class SetOperationParser(ExpressionParser):
    """Queries made of SELECTs."""

    def query(self) -> AskedTree:
        """``[WITH name AS (query), …] select [UNION [ALL] select …] [ORDER BY] [LIMIT] [OFFSET]``."""
        self._depth += 1
        outer = self._named
        self._named = self._named_queries(outer)
        tree = self._set_operation(1)
        for name, named in self._named.items():
            if name not in outer and not named.readers:
                self.note("CTE_UNUSED", named.token, severity="warning", name=name)
        self._named = outer
        self._depth -= 1
        return tree

    def _named_queries(self, outer: dict[str, CommonTable]) -> dict[str, CommonTable]:
        """The names of WITH added to the outer names. A query of WITH can read earlier names, but not its own."""
        if not self.take("with"):
            return outer
        if self.at("recursive"):
            raise self.refuse("CLAUSE_UNSUPPORTED", clause="WITH RECURSIVE")
        own: set[str] = set()
        while True:
            token = self._curr
            name = self.identifier("a name after WITH").name
            if name in own:
                raise self.refuse("CTE_TWICE", token, name=name)
            if self.at_symbol(TokenType.L_PAREN):
                written = "a list of columns after a name of WITH"
                raise self.refuse(
                    "FORM_INSTEAD", written=written, instead="them inside: WITH t AS (SELECT a AS b FROM …)"
                )
            self.need("as")
            if self.at_words("changelog", "from"):
                source = self.ahead(2).text
                instead = _CHANGES_AS_ROWS.format(name=name, source=source)
                raise self.refuse("FORM_INSTEAD", written=f"WITH {name} AS changelog FROM {source}", instead=instead)
            self.need_symbol(TokenType.L_PAREN, "(")
            tree = self.query()
            self.need_symbol(TokenType.R_PAREN, "')'")
            own.add(name)
            self._named = {**self._named, name: CommonTable(token, tree, _size(tree))}
            if not self.take_symbol(TokenType.COMMA):
                return self._named

    def _set_operation(self, level: int) -> AskedTree:
        """Operands from left to right; INTERSECT binds tighter. Clauses after the last operand apply to the whole
        result."""
        left = self._operand()
        while self.at_any(SET_OPERATIONS) and SET_OPERATIONS[self._curr.text][0] >= level:
            own, node = SET_OPERATIONS[self._curr.text]
            token = self.next_token()
            misplaced = next((left.args[clause] for clause in ASKED_ONCE if left.args.get(clause)), None)
            if misplaced is not None and not isinstance(left, exp.Subquery):
                raise self.refuse("SYNTAX_UNEXPECTED", token, found=token.text.upper() + " after ORDER BY or LIMIT")
            distinct = not self.take("all")
            if distinct:
                self.take("distinct")
            if self.at("corresponding"):
                raise self.refuse("FORM_INSTEAD", written="CORRESPONDING", instead=_SAME_COLUMNS)
            right = self._set_operation(own + 1)
            left = node(this=left, expression=right, distinct=distinct)
            left.update_positions(token)
            for clause in ASKED_ONCE:
                if not isinstance(right, exp.Subquery) and right.args.get(clause):
                    left.set(clause, right.args[clause].pop())
        return left

    def _operand(self) -> AskedTree:
        if self.at("values"):
            return self._ended(self._values())
        if not self.at_symbol(TokenType.L_PAREN):
            return self._select_clauses()
        token = self.next_token()
        with self.nested():
            query = self.query()
        self.need_symbol(TokenType.R_PAREN, "')'")
        subquery = exp.Subquery(this=query)
        subquery.update_positions(token)
        return subquery

    def _values(self) -> exp.Values:
        """``VALUES (value, …), …``; rows with another number of values than the first are refused."""
        token = self.next_token()
        rows = self.separated(self._row_of_values)
        width = len(rows[0].expressions)
        values = exp.Values(expressions=rows)
        values.update_positions(token)
        self._finite = True
        for place, row in enumerate(rows, start=1):
            if len(row.expressions) != width:
                raise self.refuse("VALUES_ROW_WIDTH", token, row=place, count=len(row.expressions), first=width)
        return values

    def _ended(self, tree: exp.Values) -> exp.Values:
        """VALUES with ``[ORDER BY] [LIMIT] [OFFSET]``."""
        for words, (argument, parse) in END_CLAUSES.items():
            if self.at(words[0]) and self._begins(words):
                tree.set(argument, parse(self))
        return tree

    def _begins(self, words: tuple[str, ...]) -> bool:
        """Consume the words of a clause after its first was seen; a name may be spelled like it."""
        if words[0] in RESERVED:
            self.need(*words)
            return True
        return bool(self.take(*words))

    def _order(self) -> exp.Expression:
        return exp.Order(expressions=self.separated(self._ordered))

    def _limit(self) -> exp.Expression:
        return exp.Limit(expression=self._row_count())

    def _offset(self) -> exp.Expression:
        return exp.Offset(expression=self._row_count())

    def _row_count(self) -> exp.Expression:
        token = self.need_symbol(TokenType.NUMBER, "a whole number")
        if not token.text.isdecimal():
            raise self.refuse("SYNTAX_EXPECTED", token, expected="a whole number", found=token.text)
        count = exp.Literal.number(token.text)
        count.update_positions(token)
        return count

    def _row_of_values(self) -> exp.Tuple:
        return exp.Tuple(expressions=self.listed(self.expr))

    def _select_clauses(self) -> exp.Select:
        """One SELECT; implemented in ``grammar/query.py``."""
        raise NotImplementedError

    def columns_of_alias(self, node: exp.Expression) -> list[exp.Identifier] | None:
        """``(name, …)`` after the alias of VALUES; None if there is none. After other sub-selects it is refused."""
        if not isinstance(node, exp.Subquery) or not self.at_symbol(TokenType.L_PAREN):
            return None
        if not isinstance(node.this, exp.Values):
            written = "a list of columns after a sub-select"
            raise self.refuse("FORM_INSTEAD", written=written, instead="them inside: (SELECT a AS b FROM …) AS t")
        token = self._curr
        names = self.listed(lambda: self.identifier("a column's name"))
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise self.refuse("COLUMN_DEFINED_TWICE", token, name=twice.name, other="the same list")
        width = len(node.this.expressions[0].expressions)
        if len(names) != width:
            raise self.refuse("VALUES_COLUMNS", token, count=len(names), expected=width)
        return names

    def named_query(self, name: exp.Identifier) -> exp.Subquery:
        """A copy of the query that a name of WITH has."""
        named = self._named[name.name]
        self._sub_selects += named.size
        named.readers.append(self._prev)
        if self._sub_selects > MOST_NAMED_PARTS:
            raise self.refuse("CTE_TOO_LARGE", self._prev, limit=MOST_NAMED_PARTS)
        return exp.Subquery(this=named.tree.copy())


def _size(tree: AskedTree) -> int:
    return 1 + sum(1 for _ in tree.find_all(exp.Subquery))


END_CLAUSES: dict[tuple[str, ...], tuple[str, Callable[[Any], exp.Expression]]] = {
    ("order", "by"): ("order", SetOperationParser._order),
    ("limit",): ("limit", SetOperationParser._limit),
    ("offset",): ("offset", SetOperationParser._offset),
}
"""First words of a clause at the end of a query → argument of the node, and the method that reads the rest."""
ASKED_ONCE = frozenset(argument for argument, _ in END_CLAUSES.values())
"""Arguments of clauses that are only valid in ``ds query``; after a set operation they apply to its whole result."""
