"""SQL type text ↔ :mod:`ds_dagster.datatypes`, and the type nodes of expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.datatypes import (
    MAX_DECIMAL_PRECISION,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    ScalarName,
    StructField,
    StructType,
    decimal,
)
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.sql.cursor import NOTHING_RESERVED, CursorParser
from ds_dagster.sql.hints.idioms import idiom
from ds_dagster.sql.hints.mistakes import UnreadableError

MAX_LENGTH = 2_147_483_647
MAX_TIME_PRECISION = 9
SCALARS: dict[str, ScalarName] = {
    "boolean": "BOOLEAN",
    "varchar": "VARCHAR",
    "string": "VARCHAR",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "decimal": "DECIMAL",
    "numeric": "DECIMAL",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_ltz": "TIMESTAMP_LTZ",
    "varbinary": "VARBINARY",
    "bytes": "VARBINARY",
}
NESTED = ("array", "map", "struct")
OF_OTHER_DIALECTS: dict[str, str] = {
    **dict.fromkeys(("text", "char", "character", "uuid", "json", "jsonb", "variant"), "VARCHAR"),
    **dict.fromkeys(("int8", "int64", "long", "bigserial"), "BIGINT"),
    **dict.fromkeys(("int4", "int32", "serial"), "INTEGER"),
    **dict.fromkeys(("int2", "int16", "short"), "SMALLINT"),
    **dict.fromkeys(("float8", "float64"), "DOUBLE"),
    **dict.fromkeys(("float4", "float32", "real"), "FLOAT"),
    **dict.fromkeys(("number", "money", "bignumeric"), "DECIMAL"),
    **dict.fromkeys(("timestamptz", "timestamp_tz"), "TIMESTAMP_LTZ"),
    **dict.fromkeys(("datetime", "timestamp_ntz"), "TIMESTAMP"),
    **dict.fromkeys(("bytea", "blob", "binary"), "VARBINARY"),
    **dict.fromkeys(("row", "object", "record"), "STRUCT"),
    "bool": "BOOLEAN",
}
"""Type name of another dialect → our type that holds its values."""
_DTYPES: dict[ScalarName, exp.DType] = {
    "BOOLEAN": exp.DType.BOOLEAN,
    "VARCHAR": exp.DType.VARCHAR,
    "TINYINT": exp.DType.TINYINT,
    "SMALLINT": exp.DType.SMALLINT,
    "INTEGER": exp.DType.INT,
    "BIGINT": exp.DType.BIGINT,
    "FLOAT": exp.DType.FLOAT,
    "DOUBLE": exp.DType.DOUBLE,
    "DECIMAL": exp.DType.DECIMAL,
    "DATE": exp.DType.DATE,
    "TIME": exp.DType.TIME,
    "TIMESTAMP": exp.DType.TIMESTAMP,
    "TIMESTAMP_LTZ": exp.DType.TIMESTAMPLTZ,
    "VARBINARY": exp.DType.VARBINARY,
}
_SCALARS_BY_DTYPE = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The largest count of numbers in parentheses after a scalar type, and the bounds of the first number."""

    most: int
    low: int
    high: int


_PARAMETERS: dict[ScalarName, _Parameters] = {
    "VARCHAR": _Parameters(1, 1, MAX_LENGTH),
    "VARBINARY": _Parameters(1, 1, MAX_LENGTH),
    "DECIMAL": _Parameters(2, 1, MAX_DECIMAL_PRECISION),
    "TIME": _Parameters(1, 0, MAX_TIME_PRECISION),
    "TIMESTAMP": _Parameters(1, 0, MAX_TIME_PRECISION),
    "TIMESTAMP_LTZ": _Parameters(1, 0, MAX_TIME_PRECISION),
}


class TypeParser(CursorParser):
    """The grammar of types."""

    def data_type(self) -> DataType:
        """``VARCHAR(20)``, ``ARRAY<T>``, ``MAP<K, V>``, ``STRUCT<a T, …>`` …"""
        token = self._curr
        if token.token_type is not TokenType.VAR:
            raise self.expected("a type")
        nested = _NESTED_PARSERS.get(token.text)
        if nested and self.ahead().token_type is TokenType.LT:
            self._advance(2)
            with self.nested():
                return nested(self)
        scalar = SCALARS.get(token.text)
        if scalar is None:
            shown = f"{token.text.upper()}<…>" if nested else token.text.upper()
            if nested:
                self._advance()
                raise self.expected("<")
            nearest = OF_OTHER_DIALECTS.get(token.text) or did_you_mean(token.text, [*SCALARS, *NESTED]).upper()
            raise self.refuse("TYPE_UNKNOWN", name=shown, nearest=nearest)
        self._advance()
        return self._scalar(scalar, token)

    def column_type(self) -> DataType:
        """The type of a column. An unknown type is noted as a mistake, VARCHAR is returned, and reading continues with
        the next column."""
        begin = self._index
        try:
            return self.data_type()
        except UnreadableError as refused:
            is_about_type = refused.mistake.condition in ("TYPE_UNKNOWN", "TYPE_PARAMETER_INVALID", "MAP_KEY_TYPE")
            if not is_about_type or idiom(self._tokens):  # another dialect: one hint for the whole statement
                raise
            self.notes.append(refused.mistake)
            self._retreat(begin)
            self._skip_to_next_column()
            return VARCHAR

    def _skip_to_next_column(self) -> None:
        depth = 0
        while not self.ended and (depth > 0 or self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN)):
            text = self._curr.text
            depth += text.count("(") + text.count("<") - text.count(")") - text.count(">")
            self._advance()

    def _scalar(self, name: ScalarName, token: Token) -> Scalar:
        numbers = self._type_numbers(name)
        if name == "DECIMAL":
            precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
            if scale > precision:
                raise self.refuse(
                    "TYPE_PARAMETER_INVALID", token, name="DECIMAL", value=f"scale {scale}", allowed=f"0 to {precision}"
                )
            return decimal(precision, scale)
        if name in ("VARCHAR", "VARBINARY"):
            return Scalar(name, length=numbers[0] if numbers else None)
        return Scalar(name, precision=numbers[0] if numbers else None)

    def _type_numbers(self, name: ScalarName) -> tuple[int, ...]:
        allowed = _PARAMETERS.get(name)
        if not self.at_symbol(TokenType.L_PAREN):
            return ()
        if allowed is None:
            raise self.refuse("TYPE_PARAMETER_INVALID", name=name, value="(", allowed="no parameter")
        tokens = self.listed(lambda: self.need_symbol(TokenType.NUMBER, "a number"))
        if len(tokens) > allowed.most:
            raise self.refuse(
                "TYPE_PARAMETER_INVALID",
                tokens[-1],
                name=name,
                value=f"{len(tokens)} numbers",
                allowed=f"{allowed.most}",
            )
        first = tokens[0]
        if not all(token.text.isdecimal() for token in tokens) or not allowed.low <= int(first.text) <= allowed.high:
            raise self.refuse(
                "TYPE_PARAMETER_INVALID",
                first,
                name=name,
                value=first.text,
                allowed=f"whole numbers from {allowed.low} to {allowed.high}",
            )
        return tuple(int(token.text) for token in tokens)

    def _array(self) -> DataType:
        element = self.data_type()
        self.need_symbol(TokenType.GT, "'>'")
        return ArrayType(element)

    def _map(self) -> DataType:
        token = self._curr
        key = self.data_type()
        if not isinstance(key, Scalar):
            raise self.refuse("MAP_KEY_TYPE", token, type=key)
        self.need_symbol(TokenType.COMMA, "','")
        value = self.data_type()
        self.need_symbol(TokenType.GT, "'>'")
        return MapType(key, value)

    def _struct(self) -> DataType:
        fields: list[StructField] = []
        while True:
            token = self.name_token("a field's name", NOTHING_RESERVED)
            name = self.folded(token)
            twice = next((field for field in fields if field.name == name), None)
            if twice:
                raise self.refuse("COLUMN_DEFINED_TWICE", token, name=name, other="the same STRUCT")
            fields.append(StructField(name, self.data_type()))
            if not self.take_symbol(TokenType.COMMA):
                break
        self.need_symbol(TokenType.GT, "',' or '>'")
        return StructType(tuple(fields))


_NESTED_PARSERS: dict[str, Callable[[TypeParser], DataType]] = {
    "array": TypeParser._array,
    "map": TypeParser._map,
    "struct": TypeParser._struct,
}


def type_node(type_: DataType) -> exp.DataType:
    """The sqlglot node of a type, as in CAST."""
    if isinstance(type_, Scalar):
        numbers = [number for number in (type_.length, type_.precision, type_.scale) if number is not None]
        return exp.DataType(
            this=_DTYPES[type_.name],
            expressions=[exp.DataTypeParam(this=exp.Literal.number(number)) for number in numbers],
            nested=False,
        )
    if isinstance(type_, ArrayType):
        return exp.DataType(this=exp.DType.ARRAY, expressions=[type_node(type_.element)], nested=True)
    if isinstance(type_, MapType):
        return exp.DataType(this=exp.DType.MAP, expressions=[type_node(type_.key), type_node(type_.value)], nested=True)
    fields = [
        exp.ColumnDef(this=exp.to_identifier(field.name, quoted=True), kind=type_node(field.type))
        for field in type_.fields
    ]
    return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)


def type_of_node(node: exp.DataType) -> DataType:
    """The type of a node made by :func:`type_node`.

    Raises:
        InternalError: the node has a type the dialect does not know.
    """
    parts = node.expressions
    if node.this == exp.DType.ARRAY:
        return ArrayType(type_of_node(parts[0]))
    if node.this == exp.DType.MAP:
        return MapType(type_of_node(parts[0]), type_of_node(parts[1]))
    if node.this == exp.DType.STRUCT:
        return StructType(tuple(StructField(part.this.name, type_of_node(part.args["kind"])) for part in parts))
    name = _SCALARS_BY_DTYPE.get(node.this)
    if name is None:
        raise error("INTERNAL", where="a type node", detail=repr(node))
    numbers = [int(part.this.this) for part in parts]
    if name == "DECIMAL":
        return decimal(*numbers)
    if name in ("VARCHAR", "VARBINARY"):
        return Scalar(name, length=numbers[0] if numbers else None)
    return Scalar(name, precision=numbers[0] if numbers else None)


def cast_node(tree: exp.Expression, source: DataType | None, target: DataType, *, safe: bool = False) -> exp.Expression:
    """CAST (``safe``: TRY_CAST) of a bound tree. The node stores the source type too (None: NULL without a type), since
    the meaning of the cast depends on it."""
    from_ = None if source is None else type_node(source)
    return (exp.TryCast if safe else exp.Cast)(this=tree, to=type_node(target), source=from_)
