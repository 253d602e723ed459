"""The grammar of calls: functions, FILTER, OVER, and forms with words between the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.datatypes import VARCHAR
from ds_dagster.sql.expressions import AskedTree, FieldAccess, read_from, written_as
from ds_dagster.sql.grammar.over import SUM, OverParser
from ds_dagster.sql.typetext import type_node

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


class CallParser(OverParser):
    """Calls; :class:`~ds_dagster.sql.grammar.expression.ExpressionParser` has the operators."""

    def query(self) -> AskedTree:
        """A query; implemented in ``grammar/sets.py``."""
        raise NotImplementedError

    def _call(self, token: Token) -> exp.Expression:
        if not token.text.isidentifier():
            raise self.refuse("SYNTAX_UNEXPECTED", found=self.found())
        self._advance(2)
        arguments = self._arguments(token.text)
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        node = AGGREGATES.get(token.text)
        if node is None:
            call: exp.Expression = exp.Anonymous(this=token.text.upper(), expressions=arguments)
        elif len(arguments) != 1:
            name = token.text.upper()
            fix = "write COUNT(*)" if not arguments and node is exp.Count else f"write one argument of {name} there"
            expected = f"one argument of {name}"
            raise self.refuse("SYNTAX_EXPECTED", token, expected=expected, found=len(arguments), fix=fix)
        else:
            more = {"big_int": True} if node is exp.Count else {}
            call = written_as(token.text.upper(), node(this=arguments[0], **more))
        return self._behind_call(placed(call, token))

    def _arguments(self, function: str) -> list[exp.Expression]:
        if self.at_symbol(TokenType.R_PAREN):
            return []
        if function == "count" and self.at_symbol(TokenType.STAR):
            return [self.star()]
        distinct = self.take("distinct")
        arguments = [self.expr()]
        while self.take_symbol(TokenType.COMMA):
            arguments.append(self.expr())
        if self.at_words("order", "by"):
            raise self.refuse("FORM_INSTEAD", written="ORDER BY among the arguments of an aggregate", instead=_ORDERED)
        return [exp.Distinct(expressions=arguments)] if distinct else arguments

    def _within_group(self, call: exp.Anonymous) -> exp.Expression:
        """``PERCENTILE_CONT(part) WITHIN GROUP (ORDER BY value)`` becomes a call with the arguments value, part."""
        self.need_symbol(TokenType.L_PAREN, "(")
        token = self._curr
        (term, *others) = self.order_by().expressions
        if others or term.args.get("desc") or str(call.this) not in _WITHIN_GROUP:
            functions = ", ".join(_WITHIN_GROUP)
            form = f"one value, upwards, and one of {functions}: PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"
            raise self.refuse("FORM_INSTEAD", token, written="this form of WITHIN GROUP", instead=form)
        self.need_symbol(TokenType.R_PAREN, "')'")
        call.set("expressions", [term.this, *call.expressions])
        return call

    def _behind_call(self, call: exp.Expression) -> exp.Expression:
        if isinstance(call, exp.Anonymous) and self.take("within", "group"):
            call = self._within_group(call)
        if self.at("filter") and self.ahead().token_type is TokenType.L_PAREN:
            self._advance(2)
            self.need("where")
            call = exp.Filter(this=call, expression=exp.Where(this=self.expr()))
            self.need_symbol(TokenType.R_PAREN, "')'")
        return self.over(call) if self.at_over() else call

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
        name = token.text.upper()
        return placed(read_from(name, name, *arguments), token)

    def _rounding(self) -> exp.Expression:
        """``FLOOR(number)`` and ``FLOOR(time TO unit)``; CEIL and CEILING alike."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        value, name = self.expr(), token.text.upper()
        if self.take("to"):
            unit = self.name_token("a unit of time").text.upper()
            self.need_symbol(TokenType.R_PAREN, "')'")
            function = f"TIME_{name.removesuffix('ING')}"
            return placed(read_from(f"{name} TO", function, exp.Literal.string(unit), value), token)
        self.need_symbol(TokenType.R_PAREN, "TO or ')'")
        return placed(exp.Anonymous(this=name, expressions=[value]), token)

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
        return placed(read_from("DATE_TRUNC", "TIME_FLOOR", exp.Literal.string(name), value), token)

    def _json_value(self) -> exp.Expression:
        """``JSON_VALUE(text, path [RETURNING type] [{NULL | DEFAULT value} ON {EMPTY | ERROR}] …)``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments = self.separated(self.expr)
        call = exp.Anonymous(this="JSON_VALUE", expressions=arguments)
        call.update_positions(token)
        type_ = type_node(self.data_type()) if self.take("returning") else None
        instead: dict[str, exp.Expression | None] = {}
        while self.at_any(_JSON_BEHAVIORS):
            self._json_behavior(instead)
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        value = call if type_ is None else written_as("JSON_VALUE …", exp.TryCast(this=call, to=type_))
        if not any(instead.values()) or len(arguments) != 2:
            return value
        type_ = type_ or type_node(VARCHAR)
        typed = {on: exp.Cast(this=action or exp.Null(), to=type_.copy()) for on, action in instead.items()}
        return placed(_json_value_or(call, value, typed), token)

    def _json_behavior(self, instead: dict[str, exp.Expression | None]) -> None:
        """``NULL ON EMPTY``, ``DEFAULT value ON ERROR``; ``instead``: the clauses read so far."""
        token = self.next_token()
        if token.text == "error":
            form = "DEFAULT value ON ERROR: JSON_VALUE(text, path DEFAULT '?' ON ERROR)"
            raise self.refuse("FORM_INSTEAD", token, written="ERROR in JSON_VALUE", instead=form)
        value = self.expr() if token.text == "default" else None
        self.need("on")
        if not self.at("empty") and not self.at("error"):
            raise self.expected("EMPTY or ERROR")
        on = self.next_token().text
        if on in instead:
            raise self.refuse("CLAUSE_TWICE", token, clause=f"ON {on.upper()}")
        instead[on] = value

    def _json_query(self) -> exp.Expression:
        """``JSON_QUERY(text, path [WITHOUT WRAPPER] [NULL ON EMPTY] [NULL ON ERROR])``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments = self.separated(self.expr)
        if not (self.take("without", "array", "wrapper") or self.take("without", "wrapper")):
            for word, instead in _JSON_QUERY_FORMS.items():
                if self.at(word):
                    written = f"{word.upper()} in JSON_QUERY"
                    raise self.refuse("FORM_INSTEAD", self.next_token(), written=written, instead=instead)
        behaviors: dict[str, exp.Expression | None] = {}
        while self.at("null"):
            self._json_behavior(behaviors)
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        return placed(exp.Anonymous(this="JSON_QUERY", expressions=arguments), token)

    def _json_object(self) -> exp.Expression:
        """``JSON_OBJECT([KEY] name VALUE value, … [NULL|ABSENT ON NULL])`` or with commas; JSON_OBJECTAGG alike."""
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
        is_group = token.text == "json_objectagg"
        return placed(read_from("JSON_OBJECT", "JSON_OBJECTAGG" if is_group else name, *arguments), token)

    def _json_array(self) -> exp.Expression:
        """``JSON_ARRAY(value, … [NULL|ABSENT ON NULL])``."""
        token = self.next_token()
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments = self.separated(self.expr)
        name = "JSON_ARRAY_NULL" if self._on_null() == "null" else "JSON_ARRAY"
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        return placed(read_from("JSON_ARRAY", name, *arguments), token)

    def _on_null(self) -> str:
        """First word of ``NULL ON NULL`` or ``ABSENT ON NULL``; empty if neither is written."""
        return next((word for word in ("null", "absent") if self.take(word, "on", "null")), "")

    def _row(self) -> exp.Expression:
        """``STRUCT(value AS name, …)``, ROW alike. Without AS a column or a field gives its own name."""
        token = self.next_token()
        fields = self.listed(self._row_field)
        names = [field.alias for field in fields]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise self.refuse("COLUMN_DEFINED_TWICE", token, name=twice, other="the same STRUCT")
        return placed(exp.Struct(expressions=fields), token)

    def _row_field(self) -> exp.Expression:
        value = self.expr()
        if self.take("as"):
            return exp.Alias(this=value, alias=self.identifier("a field's name after AS"))
        if not isinstance(value, FieldAccess | exp.Column):
            raise self.expected("AS and the name of the field")
        name = value.expression if isinstance(value, FieldAccess) else value.this
        return exp.Alias(this=value, alias=name.copy())

    def _coalesce(self) -> exp.Expression:
        token = self.next_token()
        first, *rest = self.listed(self.expr)
        return placed(exp.Coalesce(this=first, expressions=rest), token)

    def star(self) -> exp.Expression:
        """``*``."""
        token = self.need_symbol(TokenType.STAR, "*")
        return placed(exp.Star(), token)

    def _inner_query(self) -> AskedTree:
        query = self.query()
        self.need_symbol(TokenType.R_PAREN, "')'")
        return query


def placed(node: exp.Expression, token: Token) -> exp.Expression:
    """The node with the token's position."""
    node.update_positions(token)
    return node


def _json_value_or(call: exp.Anonymous, value: exp.Expression, instead: Mapping[str, exp.Expression]) -> exp.Expression:
    """A CASE for JSON_VALUE with replacements: ON ERROR if the text is not JSON or the value does not have the type,
    ON EMPTY if the path finds nothing, ``null``, an object or an array."""

    def is_null(tree: exp.Expression) -> exp.Expression:
        return exp.Is(this=tree.copy(), expression=exp.Null())

    text, path = call.expressions
    error, empty = (instead.get(on) or exp.Null() for on in ("error", "empty"))
    is_json = read_from("JSON_VALUE DEFAULT", "IS_JSON", text.copy())
    unknown = exp.Or(this=is_null(text), expression=is_null(path))
    branches = [(unknown, exp.Null()), (exp.Not(this=is_json), error), (is_null(call), empty)]
    if value is not call:
        branches.append((is_null(value), error.copy()))
    ifs = [exp.If(this=test, true=result) for test, result in branches]
    return written_as("JSON_VALUE …", exp.Case(ifs=ifs, default=value))


_ORDERED = (
    "MIN_BY(x, y) for the first and MAX_BY(x, y) for the last by y, ARRAY_SORT(ARRAY_AGG(x)) for elements in order"
)
_WITHIN_GROUP = ("PERCENTILE_CONT", "PERCENTILE_DISC")
_JSON_QUERY_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "with": "'[' || JSON_QUERY(text, path) || ']'",
        "returning": "JSON_QUERY(text, path), and JSON_VALUE(…, '$[0]') for its elements",
        "empty": "COALESCE(JSON_QUERY(text, path), '[]')",
        "error": "COALESCE(JSON_QUERY(text, path), '[]'): a text that is not JSON gives NULL",
    }
)
"""First word of a clause of JSON_QUERY that is not in the dialect → what to write."""
_JSON_BEHAVIORS = frozenset({"null", "default", "error"})
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
    "struct": CallParser._row,
    "row": CallParser._row,
    "json_value": CallParser._json_value,
    "json_query": CallParser._json_query,
    "json_object": CallParser._json_object,
    "json_array": CallParser._json_array,
    "json_objectagg": CallParser._json_object,
}
