"""How values become JSON: options of Spark's ``to_json``."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.datatypes import DataType, Scalar, StructType

TEXT_IN_JSON = ("TIMESTAMP", "TIMESTAMP_LTZ")
"""Types that travel as text."""
_PATTERNS = {"sql": "yyyy-MM-dd HH:mm:ss", "iso8601": "yyyy-MM-dd'T'HH:mm:ss"}


def json_options(types: Sequence[DataType], timestamp_format: str) -> dict[str, str]:
    """Options of ``to_json``: milliseconds, or microseconds where a type asks for more than three digits."""
    fraction = ".SSSSSS" if any(_precision(type_) > 3 for type_ in types) else ".SSS"
    pattern = _PATTERNS[timestamp_format] + fraction
    return {"ignoreNullFields": "false", "timestampFormat": pattern + "X", "timestampNTZFormat": pattern}


def _precision(type_: DataType) -> int:
    if isinstance(type_, Scalar):
        return (type_.precision or 3) if type_.name in TEXT_IN_JSON else 0
    if isinstance(type_, StructType):
        return max((_precision(f.type) for f in type_.fields), default=0)
    return max(_precision(getattr(type_, part)) for part in ("element", "key", "value") if hasattr(type_, part))
