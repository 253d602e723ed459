"""The grammar of SELECT: sources, windows, joins, WITH, and the clauses around a query.

The grammar accepts ORDER BY and LIMIT everywhere. :mod:`ds_dagster.sql.lowering` then refuses them in queries that
never end; in ``ds query`` they are valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.cursor import RESERVED
from ds_dagster.sql.expressions import RelationRef, WindowRef
from ds_dagster.sql.grammar.group import GroupParser
from ds_dagster.sql.grammar.join import JoinParser
from ds_dagster.sql.grammar.match import MatchParser
from ds_dagster.sql.grammar.sets import ASKED_ONCE, END_CLAUSES, ROWS_OF_VALUES, SET_OPERATIONS
from ds_dagster.sql.grammar.window_forms import WINDOWS, WindowForm, window_words
from ds_dagster.sql.hints.mistakes import UnreadableError
from ds_dagster.sql.statements import Property, SelectBody, ValueKind, WrittenName

UNITS: dict[str, int] = {
    name: millis
    for unit, millis in (
        ("millisecond", 1),
        ("second", 1000),
        ("minute", 60_000),
        ("hour", 3_600_000),
        ("day", 86_400_000),
    )
    for name in (unit, unit + "s")
}
MOST_MILLIS = 100_000 * 86_400_000
"""The longest duration, in milliseconds; times in Spark end not far above it."""
_SHOWN_UNITS = "MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS"

_FIRST_OF_EACH = (
    "a rank of which one stays: SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM t) "
    "WHERE n = 1"
)
_REFUSED_SOURCES = frozenset({"lateral", "values"})
REFUSED_CLAUSES: dict[str, tuple[str, str, str]] = {
    "emit": ("EMIT_UNSUPPORTED", "clause", "EMIT"),
    "fetch": ("FETCH_UNSUPPORTED", "clause", "FETCH"),
    **{
        word: ("CLAUSE_UNSUPPORTED", "clause", word.upper())
        for word in (
            "for", "qualify", "tablesample", "pivot", "unpivot", "cluster", "sort", "distribute", "into",
            "connect", "settings", "lateral", "prewhere", "sample", "option",
        )
    },
}  # fmt: skip
_OTHER_WORDS = frozenset({"semi", "anti", "asof", "straight", "match_recognize", "window"})
_NO_ALIAS = RESERVED | frozenset(REFUSED_CLAUSES) | frozenset(SET_OPERATIONS) | _OTHER_WORDS


class QueryParser(JoinParser, MatchParser, GroupParser):
    """The grammar of SELECT."""

    def select_body(self) -> SelectBody:
        """A SELECT with ``PARTITION BY`` and ``QUERY WITH`` after it, in either order."""
        first = self._curr
        tree = self.query()
        partition: tuple[WrittenName, ...] = ()
        properties: tuple[Property, ...] = ()
        while not self.ended:
            if self.at_words("partition", "by"):
                self._once(bool(partition), "PARTITION BY")
                self._advance(2)
                partition = self._partition_columns()
            elif self.at_words("query", "with"):
                self._once(bool(properties), "QUERY WITH")
                self._advance()
                properties = self.with_properties()
            else:
                break
        return SelectBody(tree, self.span(first, self._prev), partition, properties)

    def _partition_columns(self) -> tuple[WrittenName, ...]:
        names = [self.written_name("a column's name")]
        while self.take_symbol(TokenType.COMMA):
            names.append(self.written_name("a column's name"))
        return tuple(names)

    def _once(self, present: bool, clause: str) -> None:
        if present:
            raise self.refuse("CLAUSE_TWICE", clause=clause)

    def _select_clauses(self) -> exp.Select:
        """``SELECT … FROM … [JOIN …] [WHERE] [GROUP BY] [HAVING] [ORDER BY] [LIMIT] [OFFSET]``."""
        first = self._curr
        self.need("select")
        if self.at_symbol(TokenType.HINT):
            raise self.refuse("HINT_UNSUPPORTED")
        tree = exp.Select()
        tree.update_positions(first)
        if self.take("distinct"):
            distinct = exp.Distinct()
            distinct.update_positions(self._prev)
            if self.at("on"):
                raise self.refuse("FORM_INSTEAD", written="DISTINCT ON", instead=_FIRST_OF_EACH)
            tree.set("distinct", distinct)
        else:
            self.take("all")
        tree.set("expressions", self.separated(self._projection))
        if self.take("from"):
            tree.set("from_", exp.From(this=self.source_reference()))
            tree.set("joins", self.joins(starred=any(map(_is_star, tree.expressions))))
            _turn_round(tree)
        elif self.ended or self.at_symbol(TokenType.R_PAREN) or self.at_any(_QUERY_CLAUSES):
            self._finite = True
        else:
            raise self._not_from()
        self._clauses(tree)
        return tree

    def _not_from(self) -> UnreadableError:
        if self.at("into"):
            return self.refuse("CLAUSE_UNSUPPORTED", clause="INTO")
        return self.expected("',' or FROM")

    def _clauses(self, tree: exp.Select) -> None:
        windows: dict[str, exp.Window] = {}
        for words, (argument, parse) in _CLAUSES.items():
            if argument == "order":
                windows = self.window_clause()
            if self.at(words[0]) and self._begins(words):
                self._finite |= argument in ASKED_ONCE
                tree.set(argument, parse(self))
        self.replace_names(tree, windows)
        if self._curr.token_type is TokenType.VAR:
            self._refuse_clause()

    def _refuse_clause(self) -> None:
        refused = REFUSED_CLAUSES.get(self._curr.text)
        if refused:
            condition, parameter, shown = refused
            params: dict[str, str] = {parameter: shown}
            raise self.refuse(condition, None, related=(), **params)

    def _projection(self) -> exp.Expression:
        if self.at_symbol(TokenType.STAR):
            return self.star()
        if self._relation_star():
            return self._qualified_star()
        this = self.expr()
        if self.take("as"):
            return exp.Alias(this=this, alias=self.identifier("a column's name after AS"))
        if self.at_alias():
            return exp.Alias(this=this, alias=self.identifier("a column's name"))
        return this

    def _relation_star(self) -> bool:
        names = (TokenType.VAR, TokenType.IDENTIFIER)
        return (
            self._curr.token_type in names
            and self.ahead().token_type is TokenType.DOT
            and self.ahead(2).token_type is TokenType.STAR
        )

    def _qualified_star(self) -> exp.Expression:
        relation = self.identifier("a relation's name")
        self._advance()
        return exp.Column(this=self.star(), table=relation)

    def at_alias(self) -> bool:
        """Whether a name without AS comes next."""
        token = self._curr
        if token.token_type is TokenType.IDENTIFIER:
            return True
        if token.token_type is not TokenType.VAR or token.text in _NO_ALIAS:
            return False
        if self.ahead().token_type is TokenType.NUMBER or self.at_words("advance", "by"):
            return False
        return not (token.text == "query" and self.ahead().text == "with")

    # sources

    def source_reference(self) -> exp.Expression:
        """A relation, a window over one, or a sub-select; always with an alias."""
        if self.at_symbol(TokenType.L_PAREN):
            return self._sub_select()
        token = self._curr
        if token.token_type is TokenType.VAR and self.ahead().token_type is TokenType.L_PAREN:
            form = WINDOWS.get(token.text)
            if form is None:
                raise self._not_a_source(token)
            return self._window(token, form)
        if self.at_any(_REFUSED_SOURCES):
            raise self.refuse("SOURCE_UNSUPPORTED", source=token.text.upper())
        return self._relation()

    def _not_a_source(self, token: Token) -> UnreadableError:
        written = f"{token.text.upper()}(…)"
        if token.text in ROWS_OF_VALUES:
            return self.refuse("FORM_INSTEAD", written=f"FROM {written}", instead=ROWS_OF_VALUES[token.text])
        return self.refuse("SOURCE_UNSUPPORTED", source=written)

    def _relation(self) -> exp.Expression:
        parts = [self.identifier("a relation's name")]
        while self.take_symbol(TokenType.DOT):
            if len(parts) == 3:
                raise self.refuse("NAME_TOO_MANY_PARTS", name="of the relation", count=4, limit=3)
            parts.append(self.identifier("a name after the dot"))
        if len(parts) == 1 and parts[0].name in self._named:
            return self._alias_and_properties(self.named_query(parts[0]), parts[0])
        node = RelationRef(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))
        return self._alias_and_properties(node, parts[-1])

    def _sub_select(self) -> exp.Expression:
        self._advance()
        query = self.query()
        self.need_symbol(TokenType.R_PAREN, "')'")
        self._sub_selects += 1
        unnamed = exp.to_identifier(f"_{self._sub_selects}")
        return self._alias_and_properties(exp.Subquery(this=query), unnamed)

    def _window(self, token: Token, form: WindowForm) -> exp.Expression:
        self._advance(2)
        with self.nested():
            inner = self.source_reference()
        size: int | None = None
        step: int | None = None
        while self._parts_left(form):
            if size is None and self.take(*form.size):
                size = self.duration()
            elif form.step and step is None and self.take(*form.step):
                step = self.duration()
            elif self.at("offset"):
                raise self.refuse("CLAUSE_UNSUPPORTED", clause=f"OFFSET of {token.text.upper()}")
            elif self.ahead().token_type in (TokenType.COMMA, TokenType.DOT):
                name, words = token.text.upper(), window_words(form, size, step)
                instead = f"{name}(relation, {words}): the time is that of the relation, 'timestamp' names its column"
                raise self.refuse("FORM_INSTEAD", written=f"a column of time in {name}", instead=instead)
            else:
                raise self.expected(window_words(form, size, step))
        if size is None or (form.step and step is None):
            raise self.expected("', " + window_words(form, size, step) + "'")
        self.need_symbol(TokenType.R_PAREN, "')'")
        node = WindowRef(this=inner, function=token.text.upper(), size_millis=size, step_millis=step)
        node.update_positions(token)
        return self._alias_and_properties(node, inner.args["alias"].this.copy())

    def _parts_left(self, form: WindowForm) -> bool:
        """Whether another duration comes next; a missing comma before it is refused."""
        if self.at_words(*form.size) or (form.step and self.at_words(*form.step)):
            word = self.found()
            raise self.refuse("SYNTAX_EXPECTED", expected="','", found=word, fix=f"write a comma before {word}")
        return self.take_symbol(TokenType.COMMA)

    def _alias_and_properties(self, node: exp.Expression, default: exp.Identifier) -> exp.Expression:
        alias = self.identifier("an alias") if self.take("as") or self.at_alias() else default.copy()
        node.set("alias", exp.TableAlias(this=alias, columns=self.columns_of_alias(node)))
        if self.at("with") and self.ahead().token_type is TokenType.L_PAREN:
            node.set("properties", list(self.with_properties()))
        if self.at("match_recognize"):
            return self._alias_and_properties(self.match(node), alias.copy())
        return node

    def duration(self, kind: TokenType = TokenType.NUMBER) -> int:
        """``n unit`` in milliseconds, above zero; ``kind``: type of the token that holds the number.

        Raises:
            UnreadableError: SYNTAX_EXPECTED, UNIT_UNKNOWN, DURATION_INVALID (also above ``MOST_MILLIS``).
        """
        token = self.need_symbol(kind, "a whole number")
        millis = UNITS.get(self._curr.text) if self._curr.token_type is TokenType.VAR else None
        if not token.text.isdecimal() or int(token.text) == 0 or millis is None:
            if millis is None:
                self.check_unit(UNITS)
            shown = token.text if self.ended else f"{token.text} {self.found()}"
            raise self.refuse("DURATION_INVALID", token, value=shown, units=_SHOWN_UNITS)
        if int(token.text) * millis > MOST_MILLIS:
            raise self.refuse("DURATION_INVALID", token, value=f"{token.text} {self.found()}", units=_SHOWN_UNITS)
        self._advance()
        return int(token.text) * millis

    # clauses

    def _where(self) -> exp.Expression:
        return exp.Where(this=self.expr())

    def _having(self) -> exp.Expression:
        return exp.Having(this=self.expr())

    # WITH

    def with_properties(self) -> tuple[Property, ...]:
        """``WITH ('name' = value, …)`` with names in lower case. If a name occurs twice, the first value is used and
        PROPERTY_DUPLICATE noted."""
        self.need("with")
        properties: dict[str, Property] = {}
        for item in self.listed(self._property):
            first = properties.setdefault(item.name, item)
            if first is not item:
                self._note_duplicate(first, item)
        return tuple(properties.values())

    def _note_duplicate(self, first: Property, second: Property) -> None:
        token = next(
            token for token in self._tokens if (token.line, token.col) == (second.span.line, second.span.column)
        )
        self.note("PROPERTY_DUPLICATE", token, related=(first.span,), name=f"'{second.name}'", other=first.span)

    def _property(self) -> Property:
        name = self._curr
        if name.token_type is not TokenType.STRING:
            if name.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
                raise self.refuse("PROPERTY_NAME_NOT_QUOTED", name=name.text)
            raise self.expected("a property name in quotes")
        if not name.text.strip():
            raise self.expected("a property name in quotes")
        self._advance()
        self.need_symbol(TokenType.EQ, "=")
        first = self._curr
        kind, value = self._property_value(name.text)
        return Property(name.text.lower(), value, kind, self.span(name), self.span(first, self._prev))

    def _property_value(self, name: str) -> tuple[ValueKind, Any]:
        token = self._curr
        negative = self.take_symbol(TokenType.DASH)
        number = self._curr
        if negative or number.token_type is TokenType.NUMBER:
            self.number()
            self._value_ends(name)
            return "number", _number(number.text, negative)
        parse = _VALUE_KINDS.get(token.token_type)
        if parse is None:
            raise self.expected("a value")
        if parse == "word" and not token.text.isidentifier():
            raise self.refuse("PROPERTY_VALUE_NOT_QUOTED", name=name)
        self._advance()
        self._value_ends(name)
        if parse == "word" and token.text in ("true", "false"):
            return "boolean", token.text == "true"
        return parse, self.source.text[token.start : token.end + 1] if parse == "word" else token.text

    def _value_ends(self, name: str) -> None:
        if self._curr.token_type in (TokenType.DASH, TokenType.DOT, TokenType.COLON, TokenType.SLASH):
            raise self.refuse("PROPERTY_VALUE_NOT_QUOTED", name=name)


def _is_star(item: exp.Expression) -> bool:
    return isinstance(item, exp.Star)


def _turn_round(tree: exp.Select) -> None:
    """Turn ``a RIGHT JOIN b`` into ``b LEFT JOIN a``."""
    first = next(iter(tree.args["joins"]), None)
    if first is not None and first.args.get("side") == "RIGHT":
        left, right = tree.args["from_"].this, first.this
        tree.args["from_"].set("this", right)
        first.set("this", left)
        first.set("side", "LEFT")


def _number(text: str, negative: bool) -> int | float:
    value = int(text) if text.isdecimal() else float(text)
    return -value if negative else value


_VALUE_KINDS: dict[TokenType, ValueKind] = {
    TokenType.STRING: "string",
    TokenType.VAR: "word",
    TokenType.IDENTIFIER: "identifier",
}
_CLAUSES: dict[tuple[str, ...], tuple[str, Callable[[QueryParser], exp.Expression | None]]] = {
    ("where",): ("where", QueryParser._where),
    ("group", "by"): ("group", QueryParser.group),
    ("having",): ("having", QueryParser._having),
    **END_CLAUSES,
}
_QUERY_CLAUSES = frozenset(words[0] for words in _CLAUSES) | frozenset(SET_OPERATIONS)
