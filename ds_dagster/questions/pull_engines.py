"""The neutral tree of a question → text for an engine that has our types and most of our functions.

An engine is a table: its names of types, its form of each function and node. What means something else there, or is
not there, is not in the table and is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.datatypes import FLOATS, INTEGERS, DataType, Scalar
from ds_dagster.errors import DsError, error
from ds_dagster.plan.expressions import cast_type
from ds_dagster.questions.binding import SOURCE, Question
from ds_dagster.questions.pull_dialects import Lower, Tables, call, lowered, placed, string, type_of
from ds_dagster.sql.expressions import FieldAccess

Arguments = Sequence[exp.Expression]
Build = Callable[[Arguments], exp.Expression | str]
"""A function's arguments → its form, or why there is none for these."""
CastRule = Callable[[exp.Expression], exp.Expression]
SIZED = ("DECIMAL", "TIMESTAMP", "TIMESTAMP_LTZ", "TIME")
FAMILY_OF: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys(INTEGERS, "integer"), **dict.fromkeys(FLOATS, "float"), "VARCHAR": "text"}
)
"""Type → family of the tables of casts; others are named by their own name in lower case."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How one engine says what a question asks.

    Attributes:
        name: type of its stores, for messages.
        dialect: sqlglot's name of its SQL.
        types: scalar type → name there, without size.
        functions: function → its form.
        nodes: other nodes → their form.
        casts: (family of the source, family of the target) → the value made ready for the plain cast.
        refused_casts: those that give other results there.
        tries: TRY_CAST of a text to a type there; None: it has none.
        sized: whether times may be cast with a precision.
    """

    name: str
    dialect: str
    types: Mapping[str, str]
    functions: Mapping[str, Build]
    nodes: Mapping[type[exp.Expression], Lower]
    casts: Mapping[tuple[str, str], CastRule] = field(default_factory=lambda: MappingProxyType({}))
    refused_casts: frozenset[tuple[str, str]] = frozenset()
    tries: Callable[[exp.Expression, str], exp.Expression] | None = None
    sized: tuple[str, ...] = SIZED

    def tree(self, question: Question, tables: Tables) -> exp.Expression:
        """The question for this engine, to be printed in its dialect.

        Args:
            question: bound.
            tables: what each relation is called there, by :func:`~ds_dagster.questions.binding.table_name`.

        Raises:
            NotYetError: QUESTION_FUNCTION_NOT_THERE.
        """
        steps: dict[type[exp.Expression], Lower] = {
            exp.Anonymous: self._call,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Add: self._shift,
            exp.Sub: self._shift,
            FieldAccess: self._part,
            exp.Bracket: self._part,
            **self.nodes,
        }
        made = lowered(question.tree.copy(), steps)
        assert isinstance(made, exp.Select)
        return placed(replace(question, tree=made), tables)

    def text(self, question: Question, tables: Tables) -> str:
        """The same as text."""
        return self.tree(question, tables).sql(dialect=self.dialect)

    def refused(self, name: str) -> DsError:
        """The condition of something it does not have."""
        return error("QUESTION_FUNCTION_NOT_THERE", name=name, type=self.name)

    def as_type(self, value: exp.Expression, type_: DataType) -> exp.Expression:
        """A plain cast."""
        return exp.Cast(this=value, to=exp.DataType.build(self._type_text(type_), dialect=self.dialect))

    def _type_text(self, type_: DataType) -> str:
        if not isinstance(type_, Scalar):
            raise self.refused(f"CAST AS {type_}")
        name, sized = self.types[type_.name], type_.name in self.sized
        if not sized or type_.precision is None:
            return name
        sizes = f"{type_.precision},{type_.scale}" if type_.name == "DECIMAL" else str(type_.precision)
        return f"{name}({sizes})"

    def _call(self, node: exp.Expression) -> exp.Expression:
        build = self.functions.get(str(node.this))
        if build is None:
            raise self.refused(str(node.this))
        made = build(node.expressions)
        if isinstance(made, str):
            raise self.refused(f"{node.this} {made}")
        return made

    def _cast(self, node: exp.Expression) -> exp.Expression:
        source, target = node.meta.get(SOURCE), cast_type(node)
        pair = (family(source), family(target))
        if isinstance(node, exp.TryCast):
            if self.tries is None or pair[0] != "text":
                raise self.refused("TRY_CAST" if self.tries is None else f"TRY_CAST of {source}")
            return self.tries(node.this, self._type_text(target))
        if pair in self.refused_casts:
            raise self.refused(f"CAST of {source} AS {target}")
        made = self.as_type(self.casts.get(pair, _unchanged)(node.this), target)
        if pair == ("text", "text") and isinstance(target, Scalar) and target.length is not None:
            return call("LEFT", made, exp.Literal.number(target.length))
        return made

    def _part(self, node: exp.Expression) -> exp.Expression:
        raise self.refused("-> (a field)" if isinstance(node, FieldAccess) else "[] (an element)")

    def _shift(self, node: exp.Expression) -> exp.Expression:
        """``date ± INTERVAL`` stays a date."""
        type_ = type_of(node)
        if type_ == Scalar("DATE") and node.find(exp.Interval) is not None:
            return self.as_type(exp.Paren(this=node.copy()), type_)
        return node


def family(type_: DataType | None) -> str:
    """What casts of a type have in common; empty where it is not known or nested."""
    if not isinstance(type_, Scalar):
        return ""
    return FAMILY_OF.get(type_.name, type_.name.lower())


def native(name: str) -> Build:
    """The function of that name, arguments as they are."""
    return lambda arguments: call(name, *arguments)


def strict(name: str) -> Build:
    """NULL when any argument is NULL, for an engine that skips them."""

    def made(arguments: Arguments) -> exp.Expression:
        nulls = exp.or_(*[exp.Is(this=a.copy(), expression=exp.Null()) for a in arguments])
        return exp.Case(ifs=[exp.If(this=nulls, true=exp.Null())], default=call(name, *arguments))

    return made


def concatenated(arguments: Arguments) -> exp.Expression:
    """``a || b``: NULL when one of them is."""
    joined = arguments[0]
    for argument in arguments[1:]:
        joined = exp.DPipe(this=joined, expression=argument)
    return exp.Paren(this=joined)


def swapped(name: str) -> Build:
    """POSITION(part, text) for an engine that wants the text first."""
    return lambda arguments: call(name, arguments[1], arguments[0])


def substring(name: str) -> Build:
    """From a literal position of at least 1; elsewhere engines differ."""

    def made(arguments: Arguments) -> exp.Expression | str:
        start = arguments[1]
        if not isinstance(start, exp.Literal) or not str(start.this).isdecimal() or int(start.this) < 1:
            return "from a position that is not a number of at least 1"
        return call(name, *arguments)

    return made


def splitted(array: str) -> Build:
    """SPLIT_INDEX by an engine's function that makes an array of the parts: NULL outside; an empty text has one part,
    itself."""

    def made(arguments: Arguments) -> exp.Expression:
        text, separator, position = arguments
        place = exp.Paren(this=exp.Add(this=position, expression=exp.Literal.number(1)))
        part = exp.Bracket(this=exp.Paren(this=call(array, text, separator)), expressions=[place], offset=1)
        is_empty = exp.and_(
            exp.EQ(this=text.copy(), expression=string("")),
            exp.EQ(this=position.copy(), expression=exp.Literal.number(0)),
        )
        return exp.Case(ifs=[exp.If(this=is_empty, true=string(""))], default=part)

    return made


def literal_of(argument: exp.Expression) -> str | None:
    """The text of a literal, None for anything else."""
    return str(argument.this) if isinstance(argument, exp.Literal) and argument.is_string else None


def _unchanged(value: exp.Expression) -> exp.Expression:
    return value
