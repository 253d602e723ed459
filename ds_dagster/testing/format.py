"""Case files → :class:`~ds_dagster.testing.case.Case`. Strict: unknown keys are refused with their line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean, fold
from ds_dagster.testing.case import (
    Advance,
    Case,
    Columns,
    Crash,
    CrashPoint,
    Expectation,
    ExpectedError,
    ExpectNow,
    Restart,
    Row,
    Send,
    SendTogether,
    SentRecord,
    Step,
    Wait,
)
from ds_dagster.testing.yaml_entries import Entry, read_yaml

SUFFIX = ".case.yaml"
INLINE = "sql"
"""File name in spans of SQL that is in the case file itself."""

_CASE = ("title", "sql", "files", "stores", "steps", "expect", "error")
_SEND = ("topic", "store", "rows", "file", "generate", "batches", "partition")
_SENT = ("rows", "file", "generate")
_RECORD = ("key", "value", "at", "partition")
_EXPECT = ("relation", "topic", "store", "rows", "records", "file", "ordered", "columns", "history")
_ERROR = ("condition", "line", "query")


def load_case(path: Path, root: Path | None = None) -> Case:
    """Read one case file and the data files it names.

    Args:
        path: of the case.
        root: spans show the file relative to it; without it, only the file's name.

    Raises:
        UserError: CASE_UNREADABLE, CASE_KEY_UNKNOWN, CASE_KEY_MISSING, CASE_KEY_TWICE, CASE_VALUE_INVALID,
            CASE_DATA_INVALID.
    """
    shown = path.relative_to(root).as_posix() if root and path.is_relative_to(root) else path.name
    entry = read_yaml(path, shown)
    parts = entry.mapping(_CASE, ("title",))
    return _checked(
        Case(
            path=path,
            title=parts["title"].text(),
            texts=_texts(parts, path.parent, entry),
            stores=_stores(parts.get("stores")),
            steps=tuple(_step(step, path.parent) for step in _list(parts, "steps")),
            expectations=_expectations(parts.get("expect"), path.parent),
            error=_error(parts["error"]) if "error" in parts else None,
        ),
        entry,
    )


def _list(parts: Mapping[str, Entry], key: str) -> list[Entry]:
    return parts[key].items() if key in parts else []


def _checked(case: Case, entry: Entry) -> Case:
    looks = any(isinstance(step, ExpectNow) for step in case.steps)
    if not (case.expectations or looks or case.error):
        raise error("CASE_KEY_MISSING", span=entry.span, place="the case", key="expect", example="[…] or error: {…}")
    if case.error and not case.error.query and (case.steps or case.expectations):
        raise error(
            "CASE_VALUE_INVALID", span=case.error.span, place="error", value="next to steps and expect",
            allowed="error alone (compiling fails), or with the query that fails while it runs",
        )  # fmt: skip
    before: Step | None = None
    for step in case.steps:
        if isinstance(step, Crash) and not isinstance(before, Send | SendTogether | Advance):
            where = "after send or advance"
            raise error("CASE_VALUE_INVALID", span=step.span, place="crash", value="here", allowed=where)
        before = step
    return case


def _texts(parts: Mapping[str, Entry], folder: Path, entry: Entry) -> tuple[tuple[str, str], ...]:
    if ("sql" in parts) == ("files" in parts):
        raise error("CASE_KEY_MISSING", span=entry.span, place="the case", key="sql", example="| … or files: […]")
    if "sql" in parts:
        return ((INLINE, parts["sql"].text()),)
    return tuple((name.text(), _read(folder / name.text(), name)) for name in parts["files"].items())


def _read(path: Path, entry: Entry) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise error("CASE_UNREADABLE", span=entry.span, file=entry.text(), reason=str(problem)) from problem


def _stores(entry: Entry | None) -> tuple[str, ...]:
    if entry is None:
        return ()
    if not isinstance(entry.value, Mapping):
        raise entry.invalid("store name: memory")
    for kind in entry.value.values():
        kind.choice("memory")
    return tuple(fold(name) for name in entry.value)


# --- steps ------------------------------------------------------------------------------------------------------------


def _step(entry: Entry, folder: Path) -> Step:
    parts = entry.mapping(tuple(STEPS))
    if len(parts) != 1:
        raise entry.invalid("exactly one of " + ", ".join(STEPS))
    ((kind, inside),) = parts.items()
    return STEPS[kind](inside, folder)


def _sends(entry: Entry, folder: Path) -> Send | SendTogether:
    if not isinstance(entry.value, list):
        return _send(entry, folder)
    sends = tuple(_send(item, folder) for item in entry.items())
    for send in sends:
        if send.batches > 1:
            where = "next to another topic"
            raise error("CASE_VALUE_INVALID", span=send.span, place="batches", value=where, allowed="one topic alone")
    return SendTogether(entry.span, sends)


def _send(entry: Entry, folder: Path) -> Send:
    parts = entry.mapping(_SEND, ("topic",))
    if len(parts.keys() & set(_SENT)) != 1:
        example = "[{value: …}] or file: … or generate: SELECT …"
        raise error("CASE_KEY_MISSING", span=entry.span, place="send", key="rows", example=example)
    partition = str(parts["partition"].plain()) if "partition" in parts else "0"
    records: tuple[SentRecord, ...] = ()
    if "rows" in parts:
        records = tuple(_record(row, partition) for row in parts["rows"].items())
    elif "file" in parts:
        records = _records_of_file(parts["file"], folder, partition)
    return Send(
        span=parts["generate"].span if "generate" in parts else entry.span,
        topic=parts["topic"].text(),
        records=records,
        store=fold(parts["store"].text()) if "store" in parts else "",
        batches=parts["batches"].whole(1) if "batches" in parts else 1,
        generate=parts["generate"].text() if "generate" in parts else "",
        partition=partition,
    )


def _record(entry: Entry, partition: str) -> SentRecord:
    parts = entry.mapping(_RECORD, ("value",))
    return SentRecord(
        key=parts["key"].plain() if "key" in parts else None,
        value=parts["value"].plain(),
        at=parts["at"].whole() if "at" in parts else None,
        partition=str(parts["partition"].plain()) if "partition" in parts else partition,
    )


def _records_of_file(entry: Entry, folder: Path, partition: str) -> tuple[SentRecord, ...]:
    records = []
    for number, row in enumerate(read_rows(folder / entry.text(), entry), 1):
        unknown = [key for key in row if key not in _RECORD]
        if unknown or "value" not in row:
            nearest = did_you_mean(unknown[0], _RECORD) if unknown else "value"
            reason = f"{unknown[0] if unknown else 'value'}: did you mean {nearest}?"
            raise error(
                "CASE_DATA_INVALID", span=entry.span, line=number, file=entry.text(), what="record", reason=reason
            )
        records.append(SentRecord(row.get("key"), row["value"], row.get("at"), str(row.get("partition", partition))))
    return tuple(records)


def read_rows(path: Path, entry: Entry) -> list[dict[str, Any]]:
    """Objects of a file of JSON lines; empty lines are skipped.

    Raises:
        UserError: CASE_UNREADABLE, CASE_DATA_INVALID.
    """
    return rows_of_text(_read(path, entry), entry.text(), entry.span)


def rows_of_text(text: str, file: str, span: Span) -> list[dict[str, Any]]:
    """Objects of JSON lines.

    Raises:
        UserError: CASE_DATA_INVALID.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as problem:
            reason = str(problem)
            raise error("CASE_DATA_INVALID", span=span, line=number, file=file, what="JSON", reason=reason) from problem
        if not isinstance(row, dict):
            raise error(
                "CASE_DATA_INVALID", span=span, line=number, file=file, what="JSON object", reason="another type"
            )
        rows.append(row)
    return rows


def _advance(entry: Entry, _folder: Path) -> Advance:
    return Advance(entry.span, entry.mapping(("to",), ("to",))["to"].whole())


def _wait(entry: Entry, _folder: Path) -> Wait:
    return Wait(entry.span, entry.mapping(("millis",), ("millis",))["millis"].whole(1))


def _restart(entry: Entry, _folder: Path) -> Restart:
    entry.mapping(())
    return Restart(entry.span)


def _crash(entry: Entry, _folder: Path) -> Crash:
    at = entry.mapping(("at",), ("at",))["at"].choice("before_commit", "after_commit")
    return Crash(entry.span, cast("CrashPoint", at))


def _look(entry: Entry, folder: Path) -> ExpectNow:
    return ExpectNow(entry.span, _expectations(entry, folder))


STEPS: Mapping[str, Callable[[Entry, Path], Step]] = MappingProxyType(
    {"send": _sends, "advance": _advance, "wait": _wait, "restart": _restart, "crash": _crash, "expect": _look}
)
"""Key of a step → its reader."""


# --- expectations -----------------------------------------------------------------------------------------------------


def _expectations(entry: Entry | None, folder: Path) -> tuple[Expectation, ...]:
    if entry is None:
        return ()
    entries = entry.items() if isinstance(entry.value, list) else [entry]
    return tuple(_expectation(item, folder) for item in entries)


def _expectation(entry: Entry, folder: Path) -> Expectation:
    parts = entry.mapping(_EXPECT)
    if ("relation" in parts) == ("topic" in parts):
        raise error("CASE_KEY_MISSING", span=entry.span, place="expect", key="relation", example="… or topic: …")
    wanted = "records" if "topic" in parts else "rows"
    sections = [key for key in ("rows", "records", "file") if key in parts]
    if len(sections) != 1 or sections[0] not in (wanted, "file"):
        raise error("CASE_KEY_MISSING", span=entry.span, place="expect", key=wanted, example="[…] or file: …")
    expectation = Expectation(
        span=entry.span,
        relation=parts["relation"].text() if "relation" in parts else "",
        topic=parts["topic"].text() if "topic" in parts else "",
        store=fold(parts["store"].text()) if "store" in parts else "",
        rows=tuple(_row(row, wanted) for row in parts[wanted].items()) if wanted in parts else None,
        file=folder / parts["file"].text() if "file" in parts else None,
        ordered=parts["ordered"].truth() if "ordered" in parts else False,
        columns=cast("Columns", parts["columns"].choice("all", "subset")) if "columns" in parts else "all",
        history=parts["history"].truth() if "history" in parts else False,
    )
    if wanted == "records":
        expectation = replace(expectation, columns="subset")
    names = {frozenset(row) for row in expectation.rows or ()}
    if expectation.columns == "subset" and len(names) > 1:
        raise entry.invalid("rows that all name the same columns (only these are compared)")
    return expectation


def _row(entry: Entry, wanted: str) -> Row:
    if not isinstance(entry.value, Mapping):
        raise entry.invalid("a mapping of column: value")
    if wanted == "records":
        entry.mapping(_RECORD, ("value",))
    row: Row = entry.plain()
    return row


def _error(entry: Entry) -> ExpectedError:
    parts = entry.mapping(_ERROR, ("condition",))
    return ExpectedError(
        span=entry.span,
        condition=parts["condition"].text(),
        line=parts["line"].whole(1) if "line" in parts else None,
        query=parts["query"].text() if "query" in parts else "",
    )
