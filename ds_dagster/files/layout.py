"""Names of files and folders: what is hidden, what a written file is called, columns that are in the path.

Folders of columns are written as Hive, Spark, DuckDB and Athena know them: ``region=EU/day=2024-01-31/…``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import quote, unquote

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""Replaces NULL in the name of a folder (Hive's word, which other readers know)."""
LEDGERS = "_ds_dagster"
"""Folder of the ledgers, next to the folders of entities, so that an entity's folder has data only."""
SUFFIXES: Mapping[str, str] = MappingProxyType({"json": ".jsonl", "csv": ".csv", "parquet": ".parquet"})
COMPRESSED: Mapping[str, str] = MappingProxyType({"gzip": ".gz", "zstd": ".zst"})
"""Compression of text files → suffix of their names. Parquet compresses inside the file."""
COMPRESSIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "json": ("none", "gzip", "zstd"),
        "csv": ("none", "gzip", "zstd"),
        "parquet": ("snappy", "none", "gzip", "zstd"),
    }
)
"""Format → compressions, the default first."""


def is_hidden(path: str) -> bool:
    """Whether readers skip a file: a part of its path begins with ``.`` or ``_``, except folders of columns
    (``_name=value``)."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))


def job_tag(job: str) -> str:
    """Short name of a job in names of files."""
    return hashlib.sha256(job.encode()).hexdigest()[:10]


def file_name(job: str, version: int, epoch: int, format_: str, compression: str) -> str:
    """``<job>-v1-0000000012.jsonl.gz``: the same for every attempt of a batch."""
    suffix = SUFFIXES[format_] + ("" if format_ == "parquet" else COMPRESSED.get(compression, ""))
    return f"{job_tag(job)}-v{version}-{epoch:010}{suffix}"


def ledger_name(job: str) -> str:
    """Path of a job's ledger, in which it notes its batches, below the store's address."""
    return f"{LEDGERS}/{job_tag(job)}.json"


def column_folders(names: Sequence[str], values: Sequence[object]) -> str:
    """``region=EU/day=2024-01-31`` for the values of partition columns."""
    return "/".join(f"{_safe(name)}={_value(value)}" for name, value in zip(names, values, strict=True))


def columns_of_path(path: str) -> dict[str, str | None]:
    """Column → value as text, from the folders in a path."""
    columns: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, sign, value = part.partition("=")
        if sign and name:
            columns[unquote(name)] = None if value == NULL_FOLDER else unquote(value)
    return columns


def _value(value: object) -> str:
    if value is None or value == "":  # as Hive: an empty text cannot be told from NULL in a path
        return NULL_FOLDER
    return _safe(("true" if value else "false") if isinstance(value, bool) else str(value))


def _safe(text: str) -> str:
    return quote(text, safe=" ,;@$+-()")
