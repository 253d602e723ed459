"""Rows of a file as JSON texts, one per row, so that every format is decoded, checked and refused as records are.

Row numbers begin with 0. A CSV row that does not fit, and a cell that is not a valid value of its column, are passed on
as they are: the decoder refuses them and names file and row.
"""

from __future__ import annotations

import base64
import codecs
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ds_dagster.errors import error
from ds_dagster.files.layout import columns_of_path

if TYPE_CHECKING:
    import pyarrow

Family = Literal["text", "whole", "number", "boolean", "nested"]
BLOCK_BYTES = 4 * 1024 * 1024
BATCH_ROWS = 20_000
WHOLE = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
Texts = list[bytes]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How files of an entity are read.

    Attributes:
        name: json (lines), csv or parquet.
        columns: name → family, in order.
        header: the first line of a CSV file names its columns; otherwise they are in the order of ``columns``.
        delimiter: of CSV cells.
    """

    name: str
    columns: Mapping[str, Family] = field(default_factory=lambda: MappingProxyType({}))
    header: bool = True
    delimiter: str = ","


def read_rows(source: Any, path: str, format_: FileFormat) -> Iterator[tuple[int, Texts]]:
    """Blocks of rows with the number of their first one.

    Args:
        source: Arrow's stream of the file's bytes (decompressed); for Parquet one that can be sought.
        path: below the entity; columns that the file lacks are taken from its folders.
        format_: of the file.

    Raises:
        UserError: FILE_UNREADABLE.
        OSError: the store failed.
    """
    import pyarrow

    try:
        yield from READERS[format_.name](source, columns_of_path(path), format_)
    except (pyarrow.ArrowException, UnicodeDecodeError, OverflowError, OSError) as problem:
        if isinstance(problem, OSError) and (problem.errno or "AWS Error" in str(problem)):
            raise  # a failure of the store; those of a decompressor or a reader have no number
        raise error("FILE_UNREADABLE", file=path, format=format_.name, reason=type(problem).__name__) from None


# --- JSON lines -------------------------------------------------------------------------------------------------------


def _json(source: Any, outside: Mapping[str, str | None], format_: FileFormat) -> Iterator[tuple[int, Texts]]:
    import orjson

    number = 0
    added = _fragments(outside, format_)
    inside = orjson.dumps(added)[1:-1]
    for lines in _lines(source):
        filled = [line for line in lines if line.strip()]
        yield number, [_with_columns(line, inside) for line in filled] if added else filled
        number += len(filled)


def _lines(source: Any) -> Iterator[Texts]:
    rest = b""
    while block := source.read(BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield lines
    yield [rest]


def _with_columns(line: bytes, inside: bytes) -> bytes:
    """A line with the columns of its folders added at its beginning. Of a field that is there twice the last counts, so
    the line's own fields win. The text of the line is not changed, so numbers keep all their digits.

    Args:
        line: of the file.
        inside: JSON of the columns, without braces.
    """
    opened, brace, rest = line.partition(b"{")
    if not brace or opened.removeprefix(codecs.BOM_UTF8).strip():
        return line
    is_empty = rest.lstrip().startswith(b"}")
    return b"".join((brace, inside, b"" if is_empty else b",", rest))


# --- CSV --------------------------------------------------------------------------------------------------------------


def _csv(source: Any, outside: Mapping[str, str | None], format_: FileFormat) -> Iterator[tuple[int, Texts]]:
    import pyarrow
    from pyarrow import csv

    wrong: list[tuple[int | None, bytes]] = []

    def note(row: Any) -> str:
        wrong.append((row.number, str(row.text).encode()))
        return "skip"

    names = list(format_.columns)
    try:
        reader = csv.open_csv(
            source,
            csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=None if format_.header else names),
            csv.ParseOptions(delimiter=format_.delimiter, newlines_in_values=True, invalid_row_handler=note),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()),
                include_columns=names,
                include_missing_columns=True,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pyarrow.ArrowInvalid as problem:
        if "Empty CSV file" in str(problem):
            return
        raise
    number = 0
    for batch in reader:
        texts = _cells(batch, outside, format_) + [text for _, text in wrong]
        wrong.clear()
        yield number, texts
        number += len(texts)
    if wrong:
        yield number, [text for _, text in wrong]


def _cells(batch: pyarrow.RecordBatch, outside: Mapping[str, str | None], format_: FileFormat) -> Texts:
    import orjson

    columns = {name: batch.column(name).to_pylist() for name in format_.columns}
    missing = [name for name in outside if name in columns and not any(c is not None for c in columns[name])]
    texts = {name: list(map(FAMILIES[family], columns[name])) for name, family in format_.columns.items()}
    for name in missing:
        texts[name] = [_fragments(outside, format_)[name]] * batch.num_rows
    names = tuple(texts)
    return [orjson.dumps(dict(zip(names, cells, strict=True))) for cells in zip(*texts.values(), strict=True)]


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _parquet(source: Any, outside: Mapping[str, str | None], format_: FileFormat) -> Iterator[tuple[int, Texts]]:
    import orjson
    from pyarrow import parquet

    file = parquet.ParquetFile(source)
    inside = [name for name in format_.columns if name in file.schema_arrow.names]
    added = {name: value for name, value in _fragments(outside, format_).items() if name not in inside}
    number = 0
    for batch in file.iter_batches(BATCH_ROWS, columns=inside):
        columns = [_plain(batch.column(name)) for name in inside]
        rows = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        yield number, [orjson.dumps({**added, **dict(zip(inside, row, strict=True))}, default=_other) for row in rows]
        number += batch.num_rows


def _plain(column: pyarrow.Array) -> list[Any]:
    """Values for orjson; those it would write wrongly are converted: NaN (it writes null), maps (arrays of pairs)."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_floating(kind) or pyarrow.types.is_nested(kind):
        return [_strict(value, kind) for value in column.to_pylist()]
    if pyarrow.types.is_timestamp(kind):  # to microseconds: Python has no finer ones
        column = column.cast(pyarrow.timestamp("us", kind.tz), safe=False)
    try:
        return list(column.to_pylist())
    except OverflowError:  # a year that Python does not have
        return list(column.cast(pyarrow.string()).to_pylist())


def _strict(value: Any, kind: pyarrow.DataType) -> Any:
    import pyarrow

    if value is None:
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if pyarrow.types.is_map(kind):
        return {_map_key(key): _strict(inside, kind.item_type) for key, inside in value}
    if pyarrow.types.is_struct(kind):
        return {part.name: _strict(value[part.name], part.type) for part in kind}
    if isinstance(value, list):
        return [_strict(inside, kind.value_type) for inside in value]
    return value


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _map_key(key: Any) -> str:
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def _other(value: Any) -> Any:
    """JSON of values that orjson does not know: decimals keep their digits, bytes become base64, others (durations)
    text."""
    import decimal

    import orjson

    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


# --- texts of values --------------------------------------------------------------------------------------------------


def _fragments(outside: Mapping[str, str | None], format_: FileFormat) -> dict[str, Any]:
    return {name: FAMILIES[format_.columns[name]](value) for name, value in outside.items() if name in format_.columns}


def _whole(text: str | None) -> Any:
    return int(text) if text is not None and WHOLE.fullmatch(text.strip()) and len(text) < 19 else _number(text)


def _number(text: str | None) -> Any:
    import orjson

    if text is None or text in NOT_FINITE or not NUMBER.fullmatch(text.strip()):
        return text
    head, exponent_sign, exponent = text.strip().lower().partition("e")
    sign = "-" if head.startswith("-") else ""
    before, point, after = head.lstrip("+-").partition(".")
    digits = (before.lstrip("0") or "0") + (point + after if after else "")
    return orjson.Fragment(f"{sign}{digits}{exponent_sign}{exponent}")


def _boolean(text: str | None) -> Any:
    return text if text is None else BOOLEANS.get(text.strip().lower(), text)


def _nested(text: str | None) -> Any:
    import orjson

    if text is None:
        return None
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return orjson.Fragment(text)


def _text(text: str | None) -> Any:
    return text


BOOLEANS: Mapping[str, bool] = MappingProxyType({"true": True, "false": False})
FAMILIES: Mapping[Family, Callable[[str | None], Any]] = MappingProxyType(
    {"text": _text, "whole": _whole, "number": _number, "boolean": _boolean, "nested": _nested}
)
"""Family of a column → function from a cell's text to JSON; a text that is not a valid value stays text, which the
decoder refuses."""
READERS: Mapping[str, Callable[[Any, Mapping[str, str | None], FileFormat], Iterator[tuple[int, Texts]]]] = (
    MappingProxyType({"json": _json, "csv": _csv, "parquet": _parquet})
)


def columns_json(columns: Sequence[tuple[str, Family]]) -> str:
    """JSON of the columns, for an option of a source."""
    import json

    return json.dumps(columns)


def columns_of_json(text: str) -> Mapping[str, Family]:
    """The inverse of :func:`columns_json`."""
    import json

    return MappingProxyType(dict(json.loads(text)))
