"""The grammar of expressions: precedence climbing over sqlglot's nodes.

Stricter than sqlglot's grammar: ``BETWEEN 1 2``, a trailing comma and two adjacent texts are mistakes here. Every leaf
has its position. Operators from loose to tight: OR · AND · NOT · comparison, IS, IN, BETWEEN, LIKE · ``+ - ||`` ·
``* / %`` · unary sign · ``.`` ``->`` ``[ ]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.cursor import MAX_DEPTH, NOTHING_RESERVED, RESERVED
from ds_dagster.sql.expressions import CONNECTORS, FieldAccess, balanced, read_from
from ds_dagster.sql.grammar.call import CALL_PARSERS, placed
from ds_dagster.sql.grammar.literal import IS_VALUES, LiteralParser
from ds_dagster.sql.grammar.over import AND, COMPARISON, NOT, OR, PRODUCT, SUM
from ds_dagster.sql.grammar.similar import similar_pattern
from ds_dagster.sql.typetext import type_node


@dataclass(frozen=True, slots=True)
class Infix:
    """A binary operator: its precedence and the class of its node."""

    level: int
    node: type[exp.Expression]


INFIX_WORDS: dict[str, Infix] = {"or": Infix(OR, exp.Or), "and": Infix(AND, exp.And)}
INFIX_SYMBOLS: dict[TokenType, Infix] = {
    TokenType.EQ: Infix(COMPARISON, exp.EQ),
    TokenType.NEQ: Infix(COMPARISON, exp.NEQ),
    TokenType.LT: Infix(COMPARISON, exp.LT),
    TokenType.LTE: Infix(COMPARISON, exp.LTE),
    TokenType.GT: Infix(COMPARISON, exp.GT),
    TokenType.GTE: Infix(COMPARISON, exp.GTE),
    TokenType.PLUS: Infix(SUM, exp.Add),
    TokenType.DASH: Infix(SUM, exp.Sub),
    TokenType.DPIPE: Infix(SUM, exp.DPipe),
    TokenType.STAR: Infix(PRODUCT, exp.Mul),
    TokenType.SLASH: Infix(PRODUCT, exp.Div),
    TokenType.MOD: Infix(PRODUCT, exp.Mod),
}
PREDICATES = frozenset({"is", "in", "between", "like", "ilike", "similar", "not"})
WITHOUT_PARENTHESES = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
NOT_CALLED = (RESERVED - {"left", "right"}) | {"array"}
MAX_COLUMN_PARTS = 4
_JSON_KINDS = frozenset({"object", "array", "scalar"})
_SIMILAR = "REGEXP(text, CONCAT('^(', pattern, ')$')), with .* for % and . for _ in the pattern"
QUERY_WORDS = frozenset({"select", "with", "values"})
"""First words of a sub-select."""


def is_query_word(token: Token) -> bool:
    """Whether a sub-select begins with this token."""
    return token.token_type is TokenType.VAR and token.text in QUERY_WORDS


class ExpressionParser(LiteralParser):
    """The grammar of expressions."""

    def expr(self, level: int = OR) -> exp.Expression:
        """An expression whose operators bind at least as tightly as ``level``."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refuse("SYNTAX_TOO_DEEP", limit=MAX_DEPTH)
        left = self._negation() if level <= NOT and self.at("not") else self._unary()
        while True:
            infix = self._infix()
            if infix is None:
                if level <= COMPARISON and self.at_any(PREDICATES):
                    after = self._predicate(left)
                    if after is not None:
                        left = after
                        continue
                break
            if infix.level < level:
                break
            if infix.node in CONNECTORS:
                left = self._connected(left, infix)
                continue
            self._advance()
            right = self.expr(infix.level + 1)
            left = infix.node(this=left, expression=right)
            if infix.node is exp.Div:
                left.set("typed", True)
                left.set("safe", False)
        self._depth -= 1
        return left

    def _connected(self, first: exp.Expression, infix: Infix) -> exp.Expression:
        """All terms of one AND or OR, as a balanced tree."""
        terms = [first]
        while self._infix() == infix:
            self._advance()
            terms.append(self.expr(infix.level + 1))
        return balanced(infix.node, terms)

    def _infix(self) -> Infix | None:
        token = self._curr
        if token.token_type is TokenType.VAR:
            return INFIX_WORDS.get(token.text)
        return INFIX_SYMBOLS.get(token.token_type)

    def _negation(self) -> exp.Expression:
        self.need("not")
        return exp.Not(this=self.expr(NOT))

    def _predicate(self, left: exp.Expression) -> exp.Expression | None:
        """``IS …``, ``[NOT] IN (…)``, ``[NOT] BETWEEN a AND b``, ``[NOT] LIKE p``; None if NOT does not begin a
        predicate."""
        if self.take("is"):
            return self._is(left)
        negated = self.at("not")
        word = self.ahead().text if negated else self._curr.text
        parse = _PREDICATE_PARSERS.get(word)
        if parse is None or (negated and self.ahead().token_type is not TokenType.VAR):
            return None
        self._advance(2 if negated else 1)
        predicate = parse(self, left)
        return exp.Not(this=predicate) if negated else predicate

    def _is(self, left: exp.Expression) -> exp.Expression:
        negated = self.take("not")
        if self.take("distinct", "from"):
            node = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return node(this=left, expression=self.expr(SUM))
        for word, value in IS_VALUES.items():
            if self.take(word):
                predicate = exp.Is(this=left, expression=value())
                return exp.Not(this=predicate) if negated else predicate
        if self.take("json"):
            return self._is_json(left, negated)
        raise self.expected("NULL, TRUE, FALSE, JSON or DISTINCT FROM")

    def _is_json(self, left: exp.Expression, negated: bool) -> exp.Expression:
        """``IS [NOT] JSON`` becomes JSON_EXISTS of the root, ``$``."""
        if self.at_any(_JSON_KINDS):
            written = f"IS JSON {self._curr.text.upper()}"
            instead = "JSON_QUERY(text, '$') IS NOT NULL for objects and arrays, JSON_VALUE(text, '$') for scalars"
            raise self.refuse("FORM_INSTEAD", written=written, instead=instead)
        self.take("value")
        predicate = read_from("IS JSON", "JSON_EXISTS", left, exp.Literal.string("$"))
        return exp.Not(this=predicate) if negated else predicate

    def _in(self, left: exp.Expression) -> exp.Expression:
        if self.at_symbol(TokenType.L_PAREN) and is_query_word(self.ahead()):
            self._advance()
            query = self._inner_query()
            return exp.In(this=left, query=exp.Subquery(this=query))
        return exp.In(this=left, expressions=self.listed(self.expr))

    def _between(self, left: exp.Expression) -> exp.Expression:
        low = self.expr(SUM)
        self.need("and")
        return exp.Between(this=left, low=low, high=self.expr(SUM))

    def _like(self, left: exp.Expression) -> exp.Expression:
        kind = exp.ILike if self._prev.text == "ilike" else exp.Like
        like: exp.Expression = kind(this=left, expression=self.expr(SUM))
        if self.take("escape"):
            like = exp.Escape(this=like, expression=self._text_literal())
        return like

    def _similar(self, left: exp.Expression) -> exp.Expression:
        """``SIMILAR TO 'pattern' [ESCAPE 'c']`` becomes REGEXP; only literals can be translated, so others are
        refused."""
        self.need("to")
        token = self._curr
        if not self.at_symbol(TokenType.STRING):
            raise self.refuse("FORM_INSTEAD", written="SIMILAR TO of a pattern that is not a literal", instead=_SIMILAR)
        pattern, escape = str(self._text_literal().this), ""
        if self.take("escape"):
            escape = str(self._text_literal().this)
            if len(escape) != 1:
                written = f"SIMILAR TO … ESCAPE '{escape}'"
                raise self.refuse("FORM_INSTEAD", self._prev, written=written, instead="one character: ESCAPE '!'")
        try:
            regex = similar_pattern(pattern, escape)
        except ValueError as problem:
            written, instead = f"SIMILAR TO '{pattern}' ({problem})", "the whole pattern: SIMILAR TO '[a-z]%'"
            raise self.refuse("FORM_INSTEAD", token, written=written, instead=instead) from problem
        literal = placed(exp.Literal.string(regex), token)
        return placed(read_from("SIMILAR TO", "REGEXP", left, literal), token)

    def _unary(self) -> exp.Expression:
        if self.take_symbol(TokenType.DASH):
            with self.nested():
                return exp.Neg(this=self._unary())
        if self.take_symbol(TokenType.PLUS):
            with self.nested():
                return self._unary()
        return self._postfix(self._primary())

    def _postfix(self, this: exp.Expression) -> exp.Expression:
        for _ in range(MAX_DEPTH):
            if self.take_symbol(TokenType.ARROW):
                this = FieldAccess(this=this, expression=self.identifier("a field's name after ->", NOTHING_RESERVED))
            elif self.take_symbol(TokenType.L_BRACKET):
                this = exp.Bracket(this=this, expressions=[self.expr()])
                self.need_symbol(TokenType.R_BRACKET, "']'")
            elif self.take_symbol(TokenType.DCOLON):
                token = self._prev
                this = placed(exp.Cast(this=this, to=type_node(self.data_type())), token)
            elif self.at_words("at", "time", "zone"):
                token = self._curr
                self._advance(3)
                this = placed(read_from("AT TIME ZONE", "AT_TIME_ZONE", this, self._primary()), token)
            else:
                return this
        raise self.refuse("SYNTAX_TOO_DEEP", limit=MAX_DEPTH)

    def _primary(self) -> exp.Expression:
        token = self._curr
        kind = token.token_type
        if kind is TokenType.VAR:
            return self._word(token)
        if kind is TokenType.IDENTIFIER:
            return self._column()
        symbol = _SYMBOL_PARSERS.get(kind)
        if symbol is None:
            raise self.expected("an expression")
        return symbol(self)

    def _word(self, token: Token) -> exp.Expression:
        special = _WORD_PARSERS.get(token.text)
        next_kind = self.ahead().token_type
        if token.text == "$" and next_kind is TokenType.L_BRACE:
            raise self.refuse("ENVIRONMENT_REFERENCE_IN_QUERY", reference="${" + self.ahead(2).text.upper() + "}")
        if special:
            return special(self)
        literal = self.typed_literal()
        if literal is not None:
            return literal
        if next_kind is TokenType.L_PAREN and token.text not in NOT_CALLED:
            call = CALL_PARSERS.get(token.text)
            return call(self) if call else self._call(token)
        if next_kind is TokenType.L_BRACKET and token.text in _BRACKETED:
            return _BRACKETED[token.text](self)
        if token.text in WITHOUT_PARENTHESES:
            self._advance()
            return placed(exp.Anonymous(this=token.text.upper(), expressions=[]), token)
        if token.text in RESERVED:
            raise self.expected("an expression")
        return self._column()

    # leaves

    def identifier(self, role: str, reserved: frozenset[str] = RESERVED) -> exp.Identifier:
        """An identifier node with its position."""
        token = self.name_token(role, reserved)
        node = exp.Identifier(this=token.text, quoted=token.token_type is TokenType.IDENTIFIER)
        node.update_positions(token)
        return node

    def _column(self) -> exp.Expression:
        parts = [self.identifier("a column's name")]
        while self.at_symbol(TokenType.DOT):
            first = self._curr
            self._advance()
            if self.at_symbol(TokenType.STAR):
                raise self.refuse("SYNTAX_EXPECTED", expected="a column's name", found="*")
            if len(parts) == MAX_COLUMN_PARTS:
                raise self.refuse(
                    "NAME_TOO_MANY_PARTS", first, name="of the column", count=len(parts) + 1, limit=MAX_COLUMN_PARTS
                )
            parts.append(self.identifier("a name after the dot"))
        return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(parts), strict=False)))

    def _parentheses(self) -> exp.Expression:
        self._advance()
        if self.at_any(QUERY_WORDS):
            return exp.Subquery(this=self._inner_query())
        inner = self.expr()
        if self.at_symbol(TokenType.COMMA):
            raise self.refuse("CLAUSE_UNSUPPORTED", clause="row values (a, b)")
        self.need_symbol(TokenType.R_PAREN, "')'")
        return exp.Paren(this=inner)

    def _array_literal(self) -> exp.Expression:
        token = self.next_token()
        self._advance()
        items = [self.expr()]
        while self.take_symbol(TokenType.COMMA):
            items.append(self.expr())
        self.need_symbol(TokenType.R_BRACKET, "',' or ']'")
        return placed(exp.Array(expressions=items), token)

    def _map_literal(self) -> exp.Expression:
        """``MAP[key, value, …]`` is MAP_FROM_ARRAYS of the keys and the values."""
        token = self._curr
        items = self._array_literal().expressions
        if len(items) % 2:
            raise self.refuse("SYNTAX_EXPECTED", token, expected="a value for every key of MAP", found=len(items))
        sides = [exp.Array(expressions=items[::2]), exp.Array(expressions=items[1::2])]
        return placed(exp.Anonymous(this="MAP_FROM_ARRAYS", expressions=sides), token)

    # called by sqlglot (exp.condition, maybe_parse)

    def _parse_expression(self) -> exp.Expression:
        return self.expr()

    def _parse_assignment(self) -> exp.Expression:
        return self.expr()

    def _parse_disjunction(self) -> exp.Expression:
        return self.expr()


_PREDICATE_PARSERS: dict[str, Callable[[ExpressionParser, exp.Expression], exp.Expression]] = {
    "in": ExpressionParser._in,
    "between": ExpressionParser._between,
    "like": ExpressionParser._like,
    "ilike": ExpressionParser._like,
    "similar": ExpressionParser._similar,
}
_SYMBOL_PARSERS: dict[TokenType, Callable[[ExpressionParser], exp.Expression]] = {
    TokenType.STRING: ExpressionParser._text_literal,
    TokenType.NUMBER: ExpressionParser._number_literal,
    TokenType.L_PAREN: ExpressionParser._parentheses,
}
_WORD_PARSERS: dict[str, Callable[[ExpressionParser], exp.Expression]] = {
    "null": ExpressionParser._constant,
    "true": ExpressionParser._constant,
    "false": ExpressionParser._constant,
    "case": ExpressionParser._case,
    "cast": ExpressionParser._cast,
    "try_cast": ExpressionParser._cast,
    "exists": ExpressionParser._exists,
}
_BRACKETED: dict[str, Callable[[ExpressionParser], exp.Expression]] = {
    "array": ExpressionParser._array_literal,
    "map": ExpressionParser._map_literal,
}
