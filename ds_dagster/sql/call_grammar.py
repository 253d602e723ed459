"""The grammar of what looks like a function: calls, FILTER, OVER, and the forms with words between the arguments."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.expressions import QueryTree
from ds_dagster.sql.typetext import TypeParser, type_node

OR, AND, NOT, COMPARISON, SUM, PRODUCT = range(1, 7)
"""How tight operators bind."""
AGGREGATES: dict[str, type[exp.Expression]] = {
    "count": exp.Count,
    "sum": exp.Sum,
    "avg": exp.Avg,
    "min": exp.Min,
    "max": exp.Max,
    "var_pop": exp.VariancePop,
    "var_samp": exp.Variance,
    "variance": exp.Variance,
    "stddev_pop": exp.StddevPop,
    "stddev_samp": exp.StddevSamp,
    "stddev": exp.StddevSamp,
    "array_agg": exp.ArrayAgg,
    "collect": exp.ArrayAgg,
}


class CallParser(TypeParser):
    """Calls; the operators between them are of :class:`~ds_dagster.sql.expression_grammar.ExpressionParser`."""

    def expr(self, level: int = OR) -> exp.Expression:
        """An expression; the grammar of expressions has it."""
        raise NotImplementedError

    def query(self) -> QueryTree:
        """A SELECT; the grammar of queries has it."""
        raise NotImplementedError

    def _call(self, token: Token) -> exp.Expression:
        if not token.text.isidentifier():
            raise self.refuse("SYNTAX_UNEXPECTED", found=self.found())
        self._advance(2)
        arguments = self._arguments(token.text)
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        node = AGGREGATES.get(token.text)
        if node is None:
            made: exp.Expression = exp.Anonymous(this=token.text.upper(), expressions=arguments)
        elif len(arguments) != 1:
            raise self.refuse(
                "SYNTAX_EXPECTED", token, expected=f"one argument of {token.text.upper()}", found=len(arguments)
            )
        else:
            made = node(this=arguments[0], **({"big_int": True} if node is exp.Count else {}))
        return self._behind_call(placed(made, token))

    def _arguments(self, function: str) -> list[exp.Expression]:
        if self.at_symbol(TokenType.R_PAREN):
            return []
        if function == "count" and self.at_symbol(TokenType.STAR):
            return [self.star()]
        distinct = self.take("distinct")
        arguments = [self.expr()]
        while self.take_symbol(TokenType.COMMA):
            arguments.append(self.expr())
        return [exp.Distinct(expressions=arguments)] if distinct else arguments

    def _behind_call(self, call: exp.Expression) -> exp.Expression:
        if self.at("filter") and self.ahead().token_type is TokenType.L_PAREN:
            self._advance(2)
            self.need("where")
            call = exp.Filter(this=call, expression=exp.Where(this=self.expr()))
            self.need_symbol(TokenType.R_PAREN, "')'")
        if self.at("over") and self.ahead().token_type is TokenType.VAR and isinstance(call, exp.Func):
            raise self.refuse("FORM_INSTEAD", written="OVER name", instead="the window itself: OVER (PARTITION BY …)")
        if self.at("over") and self.ahead().token_type is TokenType.L_PAREN:
            call = self._over(call)
        return call

    def _over(self, call: exp.Expression) -> exp.Expression:
        over = self.next_token()
        self._advance()
        partition: list[exp.Expression] = []
        if self.take("partition", "by"):
            partition = self.separated(self.expr)
        order = self.order_by() if self.at("order") else None
        frame = self._frame() if self.at("rows") or self.at("range") else None
        self.need_symbol(TokenType.R_PAREN, "')'")
        return placed(exp.Window(this=call, partition_by=partition, order=order, spec=frame, over="OVER"), over)

    def _frame(self) -> exp.WindowSpec:
        """``{ROWS | RANGE} [BETWEEN] {UNBOUNDED | n | INTERVAL 'n' unit} PRECEDING [AND CURRENT ROW]``."""
        kind = self.next_token().text.upper()
        between = self.take("between")
        start: exp.Expression | str = "CURRENT ROW"
        if not self.take("current", "row"):
            start = "UNBOUNDED" if self.take("unbounded") else self.expr(SUM)
            self.need("preceding")
        if between:
            self.need("and", "current", "row")
        side = None if start == "CURRENT ROW" else "PRECEDING"
        return exp.WindowSpec(kind=kind, start=start, start_side=side, end="CURRENT ROW")

    def _case(self) -> exp.Expression:
        token = self.next_token()
        subject = None if self.at("when") else self.expr()
        branches = []
        while self.take("when"):
            condition = self.expr()
            self.need("then")
            branches.append(exp.If(this=condition, true=self.expr()))
        if not branches:
            raise self.expected("WHEN")
        default = self.expr() if self.take("else") else None
        self.need("end")
        return placed(exp.Case(this=subject, ifs=branches, default=default), token)

    def _cast(self) -> exp.Expression:
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        value = self.expr()
        self.need("as")
        type_ = type_node(self.data_type())
        self.need_symbol(TokenType.R_PAREN, "')'")
        node = exp.TryCast if token.text == "try_cast" else exp.Cast
        return placed(node(this=value, to=type_), token)

    def _exists(self) -> exp.Expression:
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        return placed(exp.Exists(this=self._inner_query()), token)

    def _extract(self) -> exp.Expression:
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        unit = self.name_token("a unit of time")
        self.need("from")
        value = self.expr()
        self.need_symbol(TokenType.R_PAREN, "')'")
        return placed(exp.Extract(this=exp.Var(this=unit.text.upper()), expression=value), token)

    def _trim(self) -> exp.Expression:
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        where = next((word for word in ("leading", "trailing", "both") if self.take(word)), None)
        removed = None if where and self.at("from") else self.expr()
        if self.take("from"):
            text = self.expr()
        elif removed is None or where:
            raise self.expected("FROM")
        else:
            text, removed = removed, None
        self.need_symbol(TokenType.R_PAREN, "')'")
        return placed(exp.Trim(this=text, expression=removed, position=where and where.upper()), token)

    def _position(self) -> exp.Expression:
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        needle = self.expr(SUM)
        if not self.take_symbol(TokenType.COMMA):
            self.need("in")
        text = self.expr(SUM)
        self.need_symbol(TokenType.R_PAREN, "')'")
        return placed(exp.Anonymous(this="POSITION", expressions=[needle, text]), token)

    def _of_unit(self) -> exp.Expression:
        """``TIMESTAMPDIFF(unit, …)``, ``TIMESTAMPADD(unit, …)``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        unit = exp.Literal.string(self.name_token("a unit of time").text.upper())
        arguments: list[exp.Expression] = [unit]
        while self.take_symbol(TokenType.COMMA):
            arguments.append(self.expr())
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        return placed(exp.Anonymous(this=token.text.upper(), expressions=arguments), token)

    def _rounding(self) -> exp.Expression:
        """``FLOOR(number)``, ``FLOOR(time TO unit)``, the same of CEIL."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        value, name = self.expr(), token.text.upper()
        arguments = [value]
        if self.take("to"):
            unit = self.name_token("a unit of time").text.upper()
            name, arguments = f"TIME_{name.removesuffix('ING')}", [exp.Literal.string(unit), value]
        self.need_symbol(TokenType.R_PAREN, "TO or ')'")
        return placed(exp.Anonymous(this=name, expressions=arguments), token)

    def _overlay(self) -> exp.Expression:
        """``OVERLAY(a PLACING b FROM p [FOR n])`` or with commas."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments = [self.expr()]
        if self.take("placing"):
            arguments.append(self.expr())
            self.need("from")
            arguments.append(self.expr())
            if self.take("for"):
                arguments.append(self.expr())
        while len(arguments) < 4 and self.take_symbol(TokenType.COMMA):
            arguments.append(self.expr())
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        return placed(exp.Anonymous(this="OVERLAY", expressions=arguments), token)

    def _substring(self) -> exp.Expression:
        """``SUBSTRING(text FROM start [FOR length])`` or with commas."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments = [self.expr()]
        if self.take("from"):
            arguments.append(self.expr())
            if self.take("for"):
                arguments.append(self.expr())
        while self.take_symbol(TokenType.COMMA):
            arguments.append(self.expr())
        self.need_symbol(TokenType.R_PAREN, "FROM, ',' or ')'")
        return placed(exp.Anonymous(this=token.text.upper(), expressions=arguments), token)

    def _date_trunc(self) -> exp.Expression:
        """``DATE_TRUNC('unit', time)`` is ``FLOOR(time TO unit)``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        unit = self.expr()
        self.need_symbol(TokenType.COMMA, "','")
        value = self.expr()
        self.need_symbol(TokenType.R_PAREN, "')'")
        name = str(unit.this).upper() if isinstance(unit, exp.Literal) and unit.is_string else ""
        if name not in _TRUNCATED_TO:
            instead = f"FLOOR(time TO unit) with one of {', '.join(_TRUNCATED_TO)}"
            raise self.refuse("FORM_INSTEAD", token, written="DATE_TRUNC of this unit", instead=instead)
        return placed(exp.Anonymous(this="TIME_FLOOR", expressions=[exp.Literal.string(name), value]), token)

    def _json_value(self) -> exp.Expression:
        """``JSON_VALUE(text, path [RETURNING type] [NULL ON EMPTY] [NULL ON ERROR])``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments = self.separated(self.expr)
        made = placed(exp.Anonymous(this="JSON_VALUE", expressions=arguments), token)
        if self.take("returning"):
            made = exp.TryCast(this=made, to=type_node(self.data_type()))
        for on in ("empty", "error"):
            if self.at("default") or self.at_words("error", "on"):
                instead = "COALESCE(JSON_VALUE(text, path), value): NULL stands for what is not there"
                raise self.refuse("FORM_INSTEAD", written="DEFAULT or ERROR in JSON_VALUE", instead=instead)
            self.take("null", "on", on)
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        return made

    def _json_object(self) -> exp.Expression:
        """``JSON_OBJECT([KEY] name VALUE value, … [NULL|ABSENT ON NULL])`` or with commas."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments: list[exp.Expression] = []
        while True:
            self.take("key")
            arguments.append(self.expr())
            if self.take("value"):
                arguments.append(self.expr())
            if not self.take_symbol(TokenType.COMMA):
                break
        name = "JSON_OBJECT_ABSENT" if self._on_null() == "absent" else "JSON_OBJECT"
        self.need_symbol(TokenType.R_PAREN, "VALUE, ',' or ')'")
        return placed(exp.Anonymous(this=name, expressions=arguments), token)

    def _json_array(self) -> exp.Expression:
        """``JSON_ARRAY(value, … [NULL|ABSENT ON NULL])``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments = self.separated(self.expr)
        name = "JSON_ARRAY_NULL" if self._on_null() == "null" else "JSON_ARRAY"
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        return placed(exp.Anonymous(this=name, expressions=arguments), token)

    def _on_null(self) -> str:
        """What NULL becomes, empty where nobody says."""
        return next((word for word in ("null", "absent") if self.take(word, "on", "null")), "")

    def _coalesce(self) -> exp.Expression:
        token = self.next_token()
        first, *rest = self.listed(self.expr)
        return placed(exp.Coalesce(this=first, expressions=rest), token)

    def star(self) -> exp.Expression:
        """``*``."""
        token = self.need_symbol(TokenType.STAR, "*")
        return placed(exp.Star(), token)

    def separated(self, item: Callable[[], exp.Expression]) -> list[exp.Expression]:
        """Items with commas between them, at least one."""
        items = [item()]
        while self.take_symbol(TokenType.COMMA):
            items.append(item())
        return items

    def order_by(self) -> exp.Order:
        """``ORDER BY e [ASC|DESC] [NULLS FIRST|LAST], …``."""
        self.need("order", "by")
        return exp.Order(expressions=self.separated(self._ordered))

    def _ordered(self) -> exp.Expression:
        this = self.expr()
        descending = self.take("desc")
        if not descending:
            self.take("asc")
        first = None
        if self.take("nulls", "first"):
            first = True
        elif self.take("nulls", "last"):
            first = False
        nulls_first = first if first is not None else not descending
        return exp.Ordered(this=this, desc=descending or None, nulls_first=nulls_first)

    def _inner_query(self) -> QueryTree:
        query = self.query()
        self.need_symbol(TokenType.R_PAREN, "')'")
        return query


def placed(node: exp.Expression, token: Token) -> exp.Expression:
    """The node with the token's position."""
    node.update_positions(token)
    return node


_TRUNCATED_TO = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
CALL_PARSERS: dict[str, Callable[[CallParser], exp.Expression]] = {
    "extract": CallParser._extract,
    "trim": CallParser._trim,
    "position": CallParser._position,
    "coalesce": CallParser._coalesce,
    "timestampdiff": CallParser._of_unit,
    "timestampadd": CallParser._of_unit,
    "floor": CallParser._rounding,
    "ceil": CallParser._rounding,
    "ceiling": CallParser._rounding,
    "overlay": CallParser._overlay,
    "substring": CallParser._substring,
    "date_trunc": CallParser._date_trunc,
    "json_value": CallParser._json_value,
    "json_object": CallParser._json_object,
    "json_array": CallParser._json_array,
}
