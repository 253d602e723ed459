"""Prints SELECT trees with sqlglot's generator; ``sql.printing`` prints whole statements.

Parse → print → parse gives the same records (except positions) for every statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from ds_dagster.sql.expressions import (
    ARITHMETIC,
    SKIPS,
    FieldAccess,
    MatchRef,
    PatternChoice,
    PatternRepeat,
    PatternSequence,
    PatternVariable,
    RelationRef,
    StreamJoin,
    UnnestRef,
    WindowRef,
    spine,
)
from ds_dagster.sql.statements import Property
from ds_dagster.sql.typetext import type_of_node

_UNITS = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1000), ("MILLISECOND", 1))
_WINDOW_WORDS = {
    "TUMBLE": ("SIZE", ""),
    "HOP": ("SIZE", "ADVANCE BY"),
    "CUMULATE": ("SIZE", "STEP"),
    "SESSION": ("GAP", ""),
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_QUANTIFIERS: dict[tuple[int, int | None], str] = {(0, None): "*", (1, None): "+", (0, 1): "?"}
_NEGATABLE = (exp.Is, exp.In, exp.Between, exp.Like, exp.ILike)


def duration_text(millis: int) -> str:
    """Milliseconds as text in the largest unit that divides them: ``300000`` → ``5 MINUTES``."""
    name, size = next((name, size) for name, size in _UNITS if millis % size == 0)
    count = millis // size
    return f"{count} {name}" + ("" if count == 1 else "S")


def property_text(item: Property) -> str:
    """``'name' = value``, with the value in the form in which it was written."""
    return f"{_quoted(item.name)} = {_VALUE_TEXTS[item.kind](item.value)}"


def properties_text(items: tuple[Property, ...] | list[Property]) -> str:
    """``WITH ('name' = value, …)``; empty if there are no properties."""
    return "WITH (" + ", ".join(map(property_text, items)) + ")" if items else ""


def name_text(part: str) -> str:
    """An identifier, quoted if it is reserved or not in plain lower case."""
    return part if is_plain(part) else '"' + part.replace('"', '""') + '"'


def is_plain(part: str) -> bool:
    """Whether a name without quotes is parsed as the same name."""
    return part.isidentifier() and part == part.lower() and part not in _words_to_quote()


def _words_to_quote() -> frozenset[str]:
    from ds_dagster.sql.cursor import (
        RESERVED,
    )  # the parser's table; importing it here keeps the dialect free of a cycle

    return RESERVED


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_VALUE_TEXTS: dict[str, Callable[[Any], str]] = {
    "string": lambda value: _quoted(str(value)),
    "number": str,
    "boolean": lambda value: str(value).upper(),
    "word": str,
    "identifier": lambda value: '"' + str(value).replace('"', '""') + '"',
}


class DeltaStreamGenerator(Generator):
    """sqlglot's generator with our nodes."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **Generator.TRANSFORMS,
        RelationRef: lambda self, node: self.relationref_sql(node),
        WindowRef: lambda self, node: self.windowref_sql(node),
        StreamJoin: lambda self, node: self.streamjoin_sql(node),
        MatchRef: lambda self, node: self.matchref_sql(node),
        PatternVariable: lambda self, node: self.sql(node, "this"),
        PatternSequence: lambda self, node: " ".join(self.pattern_part(part) for part in node.expressions),
        PatternChoice: lambda self, node: " | ".join(self.sql(part) for part in node.expressions),
        PatternRepeat: lambda self, node: self.patternrepeat_sql(node),
        UnnestRef: lambda self, node: self.unnestref_sql(node),
        FieldAccess: lambda self, node: self.fieldaccess_sql(node),
        exp.Subquery: lambda self, node: self.source_subquery_sql(node),
        exp.Not: lambda self, node: self.negation_sql(node),
        exp.Trim: lambda self, node: self.trim_sql(node),
        exp.Values: lambda self, node: f"VALUES {self.expressions(node, flat=True)}{self.last_clauses(node)}",
        exp.Array: lambda self, node: f"ARRAY[{self.expressions(node, flat=True)}]",
        exp.Group: lambda self, node: self.group_sql(node),
        exp.Interval: lambda self, node: f"INTERVAL {self.sql(node, 'this')} {self.sql(node, 'unit')}",
    }

    def relationref_sql(self, node: RelationRef) -> str:
        """``db.schema.name [AS alias] [WITH (…)]``."""
        parts = [self.sql(node, part) for part in ("catalog", "db", "this") if node.args.get(part)]
        same = node.this.name == node.alias
        return self._behind_source(".".join(parts), node, same)

    def windowref_sql(self, node: WindowRef) -> str:
        """``HOP(source, SIZE n unit, ADVANCE BY n unit) [AS alias] [WITH (…)]``."""
        function = str(node.args["function"])
        size_word, step_word = _WINDOW_WORDS[function]
        inner = node.this
        text = f"{function}({self.sql(inner)}, {size_word} {duration_text(node.args['size_millis'])}"
        if node.args.get("step_millis") is not None:
            text += f", {step_word} {duration_text(node.args['step_millis'])}"
        return self._behind_source(text + ")", node, inner.alias == node.alias)

    def source_subquery_sql(self, node: exp.Subquery) -> str:
        """``(SELECT …) [AS alias] [WITH (…)]``."""
        inner = f"({self.sql(node, 'this')})" if isinstance(node.this, exp.Values) else self.wrap(node.this)
        return self._behind_source(inner, node, not node.args.get("alias"))

    def matchref_sql(self, node: MatchRef) -> str:
        """``source MATCH_RECOGNIZE (…) [AS alias] [WITH (…)]``."""
        arguments = node.args
        partition = arguments.get("partition") or []
        variable = f" {self.sql(node, 'variable')}" if arguments.get("variable") else ""
        clauses = [
            f"PARTITION BY {', '.join(map(self.sql, partition))}" if partition else "",
            self.sql(node, "order").strip(),
            "MEASURES " + ", ".join(map(self.sql, arguments["measures"])),
            f"AFTER MATCH SKIP {' '.join(SKIPS[arguments['skip']]).upper()}{variable}",
            f"PATTERN ({self.sql(node, 'pattern')})",
            f"WITHIN {duration_text(arguments['within'])}" if arguments.get("within") is not None else "",
            "DEFINE " + ", ".join(self.definition(definition) for definition in arguments["definitions"]),
        ]
        text = f"{self.sql(node, 'this')} MATCH_RECOGNIZE ({' '.join(filter(None, clauses))})"
        return self._behind_source(text, node, node.this.alias == node.alias)

    def last_clauses(self, node: exp.Values) -> str:
        """ORDER BY, LIMIT and OFFSET of VALUES."""
        return "".join(self.sql(node, clause) for clause in ("order", "limit", "offset"))

    def definition(self, node: exp.Expr) -> str:
        """``variable AS condition``."""
        return f"{self.sql(node, 'alias')} AS {self.sql(node, 'this')}"

    def patternrepeat_sql(self, node: PatternRepeat) -> str:
        """``part`` with its quantifier."""
        least, most = node.args["least"], node.args.get("most")
        shown = _QUANTIFIERS.get((least, most)) or (
            f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
        )
        inner = node.this
        part = self.sql(inner) if isinstance(inner, PatternVariable) else f"({self.sql(inner)})"
        return part + shown + ("?" if node.args.get("reluctant") else "")

    def pattern_part(self, node: exp.Expr) -> str:
        """A part of a sequence; a choice or a sequence is put in parentheses."""
        return f"({self.sql(node)})" if isinstance(node, PatternChoice | PatternSequence) else self.sql(node)

    def _behind_source(self, text: str, node: exp.Expr, default_alias: bool) -> str:
        alias = "" if default_alias else " AS " + self.sql(node.args["alias"])
        properties = properties_text(node.args.get("properties") or [])
        return text + alias + (f" {properties}" if properties else "")

    def streamjoin_sql(self, node: StreamJoin) -> str:
        """``[LEFT|FULL] JOIN source [WITHIN n unit] ON condition``."""
        side = f"{node.args['side']} " if node.args.get("side") else ""
        if node.args.get("on") is None:
            return self.seg(f"CROSS JOIN {self.sql(node, 'this')}")
        within = f" WITHIN {duration_text(node.args['within'])}" if node.args.get("within") is not None else ""
        return self.seg(f"{side}JOIN {self.sql(node, 'this')}{within} ON {self.sql(node, 'on')}")

    def unnestref_sql(self, node: UnnestRef) -> str:
        """``UNNEST(value) [WITH ORDINALITY] AS alias [(column, …)]``."""
        number = " WITH ORDINALITY" if node.args.get("ordinality") else ""
        columns = ", ".join(self.sql(name) for name in node.args.get("columns") or ())
        alias = self.sql(node.args["alias"].this) + (f"({columns})" if columns else "")
        return f"UNNEST({self.sql(node, 'this')}){number} AS {alias}"

    def group_sql(self, expression: exp.Group) -> str:
        """``GROUP BY …`` or ``GROUP BY GROUPING SETS ((…), …)``."""
        sets = expression.args.get("grouping_sets")
        if not sets:
            return super().group_sql(expression)
        shown = ", ".join(f"({self.expressions(part, flat=True)})" for part in sets)
        return self.seg(f"GROUP BY GROUPING SETS ({shown})")

    def fieldaccess_sql(self, node: FieldAccess) -> str:
        """``struct->field``."""
        return f"{self.sql(node, 'this')}->{self.sql(node, 'expression')}"

    def trim_sql(self, expression: exp.Trim) -> str:
        """``TRIM(text)`` or ``TRIM([LEADING|TRAILING|BOTH] [characters] FROM text)``."""
        text = self.sql(expression, "this")
        before = [part for part in (expression.args.get("position"), self.sql(expression, "expression")) if part]
        return f"TRIM({' '.join([*before, 'FROM', text])})" if before else f"TRIM({text})"

    def negation_sql(self, node: exp.Not) -> str:
        """``a IS NOT NULL``, ``a NOT IN (…)``; otherwise ``NOT a``."""
        inner = node.this
        if not isinstance(inner, _NEGATABLE):
            return f"NOT {self.sql(inner)}"
        left = self.sql(inner, "this")
        text = self.sql(inner)
        behind = text[len(left) :].lstrip()
        return f"{left} IS NOT{behind.removeprefix('IS')}" if isinstance(inner, exp.Is) else f"{left} NOT {behind}"

    def datatype_sql(self, expression: exp.DataType) -> str:
        """The dialect's type text."""
        return str(type_of_node(expression))

    def binary(self, expression: exp.Expr, op: str) -> str:
        """``a op b``; a chain of arithmetic operators is printed without recursion on its left."""
        if not isinstance(expression, ARITHMETIC):
            return str(super().binary(expression, op))  # type: ignore[arg-type]
        first, rest = spine(expression)
        return " ".join([self.sql(first), *(f"{_ARITHMETIC[kind]} {self.sql(operand)}" for kind, operand in rest)])

    def mod_sql(self, expression: exp.Mod) -> str:
        """``a % b``; sqlglot's own method would add parentheses."""
        return self.binary(expression, "%")
