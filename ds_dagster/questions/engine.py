"""DuckDB in this process: answers a question over Arrow tables with Arrow. It reads no file and loads no extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.datatypes import FLOATS, VARCHAR, ArrayType, DataType, MapType, StructField, StructType
from ds_dagster.errors import error
from ds_dagster.functions.question import named
from ds_dagster.questions.binding import Question
from ds_dagster.questions.duck_types import (
    INNER_NAMES,
    OF_INNER_NAMES,
    duck_identifier,
    duck_name,
    duck_type,
    name_of_identifier,
)
from ds_dagster.questions.lowering import Lowering

if TYPE_CHECKING:
    import pyarrow

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
}
FUNCTION_PREFIX = "ds_function_"
FAILED_IN_PYTHON = "executing the UDF: "


class QuestionEngine:
    """One connection to DuckDB; use it as a context manager, in one thread."""

    def __init__(self) -> None:
        self._connection: Any = _database().cursor()
        self._functions: list[str] = []

    def __enter__(self) -> QuestionEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and remove its functions, which all connections share."""
        for name in self._functions:
            self._connection.remove_function(name)
        self._connection.close()

    def computed(
        self,
        function: Callable[..., Any],
        arguments: Sequence[exp.Expression],
        types: Sequence[DataType],
        result: DataType,
        *,
        takes_nulls: bool,
        changes: bool = False,
    ) -> exp.Expression:
        """Register a Python function with DuckDB, and return a call of it.

        Args:
            function: the function; its arguments are passed to DuckDB as one struct, so their number is not limited.
            arguments: expressions of the arguments.
            types: types of the arguments.
            result: type of the result.
            takes_nulls: call the function with None; else any NULL gives NULL.
            changes: its result differs from call to call.
        """
        name = f"{FUNCTION_PREFIX}{next(_NUMBERS)}"
        places = [f"a{place}" for place in range(len(types))]

        def call(packed: dict[str, Any]) -> Any:
            values = [packed[place] for place in places]
            if not takes_nulls and None in values:
                return None
            return function(*values)

        shown = _shown_type(result)
        struct = ", ".join(f"{place} {duck_name(type_)}" for place, type_ in zip(places, types, strict=True))
        self._connection.create_function(
            name,
            call if shown == result else lambda packed: _shown(call(packed), result),
            [f"STRUCT({struct or 'a0 BOOLEAN'})"],
            duck_name(shown),
            null_handling="special",
            side_effects=changes,
        )
        self._functions.append(name)
        values: list[exp.Expr] = [
            exp.Cast(this=argument, to=duck_type(type_)) for argument, type_ in zip(arguments, types, strict=True)
        ]
        if not values:
            values.append(exp.true())
        pairs = [
            exp.PropertyEQ(this=exp.to_identifier(place), expression=value)
            for place, value in zip(places or ["a0"], values, strict=True)
        ]
        expression = named(name, exp.Struct(expressions=pairs))
        return expression if shown == result else exp.Cast(this=expression, to=duck_type(result))

    def prepare(self, question: Question) -> str:
        """A question as a statement of DuckDB.

        Raises:
            NotYetError: QUESTION_FUNCTION_NOT_THERE.
        """
        return Lowering(self).question(question).sql(dialect="duckdb")

    def answer(self, statement: str, tables: Mapping[str, pyarrow.Table]) -> pyarrow.Table:
        """The answer to a question.

        Args:
            statement: result of :meth:`prepare`.
            tables: rows of each relation, by the name of its table in the question's tree.

        Raises:
            UserError: QUESTION_FAILED.
        """
        import duckdb

        try:
            for name, table in tables.items():
                columns = [duck_identifier(column) for column in table.column_names]
                self._connection.register(duck_identifier(name), table.rename_columns(columns))
            answer: pyarrow.Table = self._connection.sql(statement).to_arrow_table()
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.Error as problem:
            raise error("QUESTION_FAILED", reason=_reason(problem)) from None
        return answer.rename_columns([name_of_identifier(column) for column in answer.column_names])


def _shown_type(type_: DataType) -> DataType:
    """A type with VARCHAR in place of floats: DuckDB converts a NaN of Python to NULL."""
    if isinstance(type_, ArrayType):
        return ArrayType(_shown_type(type_.element))
    if isinstance(type_, MapType):
        return MapType(_shown_type(type_.key), _shown_type(type_.value))
    if isinstance(type_, StructType):
        return StructType(tuple(StructField(field.name, _shown_type(field.type)) for field in type_.fields))
    return VARCHAR if type_.name in FLOATS else type_


def _shown(value: Any, type_: DataType) -> Any:
    """A value of a type as a value of :func:`_shown_type`, with all digits of its floats."""
    if value is None:
        return None
    if isinstance(type_, ArrayType):
        return [_shown(inner, type_.element) for inner in value]
    if isinstance(type_, MapType):
        return {_shown(key, type_.key): _shown(inner, type_.value) for key, inner in value.items()}
    if isinstance(type_, StructType):
        return {field.name: _shown(value[field.name], field.type) for field in type_.fields}
    return repr(float(value)) if type_.name in FLOATS else value


@cache
def _database() -> Any:
    """The empty database of this process. It is shared, since opening one is slow compared with a small question."""
    import duckdb

    database = duckdb.connect(":memory:", config=CONFIG)
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


_NUMBERS = count()
"""Numbers of functions: all connections share their names."""


def _reason(problem: Exception) -> str:
    """DuckDB's message with our names of types, without the kind of error and the statement."""
    message = str(problem).partition("\n\nLINE ")[0]
    if FAILED_IN_PYTHON in message:
        return message.partition(FAILED_IN_PYTHON)[2].partition(": ")[2].strip() or message
    text = message.partition("Error: ")[2].partition("\n")[0] or message.partition("\n")[0]
    return INNER_NAMES.sub(lambda match: OF_INNER_NAMES[match[0]], text)
