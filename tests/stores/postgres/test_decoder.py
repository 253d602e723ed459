"""The decoder of pgoutput on random changes in random chunks, and texts of the server as values."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings

from ds_dagster.catalog.reading.slots import default_slot, slot_prefix, snapshot_slot
from ds_dagster.datatypes import BIGINT, BOOLEAN, DOUBLE, INTEGER, TIMESTAMP, VARBINARY, VARCHAR, ArrayType, decimal
from ds_dagster.errors import DsError
from ds_dagster.spark.postgres_cdc.columns import parse_array, typed
from ds_dagster.spark.postgres_cdc.jsontext import json_rows
from ds_dagster.spark.postgres_cdc.options import CdcOptions
from ds_dagster.spark.postgres_cdc.pgoutput import ChangeReader, SourceColumn, SourceTable
from ds_dagster.spark.postgres_cdc.position import LogPosition, lsn_number, lsn_text
from ds_dagster.spark.postgres_cdc.tuples import Tuples

UNCHANGED = object()
Value = Any


@dataclass(frozen=True)
class Change:
    op: str
    table: int
    new: tuple[Value, ...] | None = None
    old: tuple[Value, ...] | None = None
    old_is_key: bool = False


def relation(oid: int, columns: int) -> bytes:
    named = b"".join(b"\1" + f"c{i}".encode() + b"\0" + struct.pack(">Ii", 25, -1) for i in range(columns))
    return b"R" + struct.pack(">I", oid) + b"s\0" + f"t{oid}".encode() + b"\0d" + struct.pack(">H", columns) + named


def row(values: tuple[Value, ...]) -> bytes:
    made = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            made += b"n"
        elif value is UNCHANGED:
            made += b"u"
        else:
            text = value.encode()
            made += b"t" + struct.pack(">I", len(text)) + text
    return made


def message(change: Change) -> bytes:
    head = struct.pack(">I", change.table)
    old = (b"K" if change.old_is_key else b"O") + row(change.old) if change.old is not None else b""
    if change.op == "t":
        return b"T" + struct.pack(">IB", 1, 0) + head
    new = b"N" + row(change.new) if change.new is not None else b""
    return {"c": b"I", "u": b"U", "d": b"D"}[change.op] + head + old + new


texts = st.one_of(st.none(), st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12))
values = st.one_of(texts, st.just(UNCHANGED))
COLUMNS = {7: 2, 9: 3}


@st.composite
def changes(draw: st.DrawFn) -> Change:
    table = draw(st.sampled_from(sorted(COLUMNS)))
    width = COLUMNS[table]
    op = draw(st.sampled_from("cccuudt"))
    new = tuple(draw(values if op == "u" else texts) for _ in range(width)) if op in "cu" else None
    has_old = op == "d" or (op == "u" and draw(st.booleans()))
    old = tuple(draw(texts) for _ in range(width)) if has_old else None
    return Change(op, table, new, old, draw(st.booleans()))


transactions = st.lists(st.lists(changes(), min_size=1, max_size=6), min_size=1, max_size=6)


def encoded(batches: list[list[Change]]) -> tuple[list[bytes], list[tuple[int, int, Change]]]:
    """Messages as the server sends them, and (commit LSN, number in its transaction, change) of each change."""
    sent, expected, described = [], [], set()
    for number, batch in enumerate(batches):
        commit = 1000 + 100 * number
        sent.append(b"B" + struct.pack(">QqI", commit, number, 50 + number))
        for at, change in enumerate(batch):
            if change.table not in described:
                sent.append(relation(change.table, COLUMNS[change.table]))
                described.add(change.table)
            sent.append(message(change))
            expected.append((commit, at, change))
        sent.append(b"C" + struct.pack(">BQQq", 0, commit, commit + 50, number))
    return sent, expected


def shown(found: Any, at: int, which: str) -> tuple[Value, ...] | None:
    rows = getattr(found, which)
    if not rows.present[at]:
        return None
    return tuple(
        UNCHANGED if mask is not None and mask[at] else column[at].as_py()
        for column, mask in zip(rows.values, rows.unchanged, strict=True)
    )


def decoded(reader: ChangeReader, chunk: list[bytes]) -> list[tuple[int, int, Change]]:
    made = []
    for found in reader.read(pa.array(chunk, pa.binary())):
        for at in range(len(found)):
            old = shown(found, at, "old")
            change = Change(
                chr(found.op[at]), found.table.oid, shown(found, at, "new"), old, bool(found.old_is_key[at])
            )
            made.append((int(found.position[at]), int(found.commit[at]), int(found.sequence[at]), change))
    return [(commit, number, change) for _, commit, number, change in sorted(made, key=lambda one: one[0])]


def plain(found: list[tuple[int, int, Change]]) -> list[tuple[int, int, Change]]:
    """Whether an absent row was a key says nothing."""
    return [
        (commit, at, Change(c.op, c.table, c.new, c.old, c.old_is_key and c.old is not None)) for commit, at, c in found
    ]


@seed(20261121)
@settings(max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(transactions, st.lists(st.integers(0, 60), max_size=4), st.integers(0, 6), st.integers(0, 6))
def test_any_changes_in_any_chunks(batches, cuts, first, last) -> None:
    sent, expected = encoded(batches)
    start, end = 1000 + 100 * first, 1000 + 100 * last
    reader, found = ChangeReader(start, end), []
    edges = sorted({0, *(min(cut, len(sent)) for cut in cuts), len(sent)})
    for begin, stop in pairwise(edges):
        found += decoded(reader, sent[begin:stop])
    assert plain(found) == plain([one for one in expected if start <= one[0] < end])


def test_a_slice_of_an_array_is_read_as_what_it_shows() -> None:
    sent, expected = encoded([[Change("c", 7, ("a", "é"))]])
    chunk = pa.array([b"zzz", *sent], pa.binary()).slice(1)
    (found,) = ChangeReader(0, 2**62).read(chunk)
    assert found.new.values[1].to_pylist() == ["é"]
    large = pa.array(sent, pa.large_binary())
    (found,) = ChangeReader(0, 2**62).read(large)
    assert found.new.values[0].to_pylist() == [expected[0][2].new[0]]  # type: ignore[index]


@pytest.mark.parametrize(
    "broken",
    [
        [b"Z"],
        [b"B" + bytes(20), message(Change("c", 7, ("a", "b")))],
        [b"B" + bytes(20), relation(7, 3), message(Change("c", 7, ("a", "b")))],
        [b"B" + bytes(20), relation(7, 1), b"I" + struct.pack(">I", 7) + b"N" + struct.pack(">H", 1) + b"x"],
    ],
)
def test_what_the_protocol_does_not_know_is_refused(broken) -> None:
    with pytest.raises(DsError, match="CDC_MESSAGE_UNREADABLE"):
        ChangeReader(0, 2**62).read(pa.array(broken, pa.binary()))


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "oid", "type_", "expected", "bad"),
    [
        (["1", None, "-9223372036854775808", "9223372036854775808"], 20, BIGINT, [1, None, -(2**63), None], [3]),
        (["1.5", "1e3", "Infinity"], 701, DOUBLE, [1.5, 1000.0, float("inf")], []),
        (["t", "f", "true", None, "?"], 16, BOOLEAN, [True, False, True, None, None], [4]),
        (["\\x00ff", "\\x", None], 17, VARBINARY, [b"\0\xff", b"", None], []),
        (["é", None], 25, VARBINARY, ["é".encode(), None], []),
        (["ab  ", "cd"], 1042, VARCHAR, ["ab", "cd"], []),
        (["{1,NULL}", "{}", None, "{{1}}", "7"], 1007, ArrayType(INTEGER), [[1, None], [], None, None, None], [3, 4]),
        (["{{1,2},{3,4}}"], 1007, ArrayType(ArrayType(BIGINT)), [[[1, 2], [3, 4]]], []),
    ],
)
def test_texts_become_values(texts, oid, type_, expected, bad) -> None:
    made = typed(pa.array(texts, pa.string()), oid, type_)
    assert made.values.to_pylist() == expected
    assert ([] if made.bad is None else np.flatnonzero(made.bad).tolist()) == bad


def test_values_no_type_of_ours_holds_are_told() -> None:
    for type_, text in ((decimal(5, 2), "NaN"), (decimal(5, 2), "1.234"), (TIMESTAMP, "infinity"), (INTEGER, "x")):
        made = typed(pa.array(["0" if type_ == INTEGER else None, text], pa.string()), 0, type_)
        assert made.bad is not None and made.bad.tolist() == [False, True], (type_, text)


@seed(20261121)
@settings(max_examples=40, deadline=None, database=None)
@given(st.lists(texts, max_size=6))
def test_arrays_are_read_as_they_are_written(parts) -> None:
    def written(part: str | None) -> str:
        return "NULL" if part is None else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert parse_array("{" + ",".join(map(written, parts)) + "}") == parts


@pytest.mark.parametrize(
    ("texts", "element", "expected"),
    [
        (['{"{a}",b}', "{{1,2},{3,4}}"], VARCHAR, [["{a}", "b"], None]),
        (['{"{a}"}', "{{a},{b}}", '{{"{c}"}}'], ArrayType(VARCHAR), [None, [["a"], ["b"]], [["{c}"]]]),
    ],
)
def test_a_text_in_braces_is_not_an_inner_array(texts, element, expected) -> None:
    found = typed(pa.array(texts), 1009, ArrayType(element))
    assert found.values.to_pylist() == expected
    assert found.bad is not None and found.bad.tolist() == [value is None for value in expected]


@pytest.mark.parametrize(
    ("oid", "text", "expected"),
    [
        (199, '{"{\\"a\\": [1]}",NULL}', '["{\\"a\\": [1]}",null]'),
        (1009, '{"{a,b}",c}', '["{a,b}","c"]'),
        (1231, "{12345678901234567890.12,1.10}", "[12345678901234567890.12,1.10]"),
        (1231, "{123456789012345678901234567890}", "[123456789012345678901234567890]"),
        (1022, "{1e+20,NaN,-Infinity}", '[1e+20,"NaN","-Infinity"]'),
        (1007, "{{1,2},{-3,NULL}}", "[[1,2],[-3,null]]"),
    ],
)
def test_arrays_in_a_row_of_json_keep_their_elements(oid, text, expected) -> None:
    table = SourceTable(1, "s", "t", (SourceColumn("x", oid),))
    rows = Tuples(np.ones(1, bool), (pa.array([text]),), (None,))
    assert json_rows(table, rows).to_pylist() == [f'{{"x":{expected}}}']


@pytest.mark.parametrize(
    "place", [LogPosition(), LogPosition(begin="latest"), LogPosition(2**40 + 17), LogPosition(5, 2, 7)]
)
def test_positions_survive_their_json(place) -> None:
    assert LogPosition.parse(place.json("s.t")) == place


def test_positions_of_others_are_refused() -> None:
    assert lsn_text(lsn_number("16/B374D848")) == "16/B374D848"
    for offset in ({}, {"changes": {"0": {}}}, {"changes": {"0": {"lsn": "x"}}}):
        with pytest.raises(DsError, match="CDC_OFFSET_INVALID"):
            LogPosition.parse(offset)


GIVEN = {"connector": "m:C", "store": "pg", "tables": "s.t", "slot": "x", "columns": '{"type":"struct","fields":[]}'}


def test_options_are_checked() -> None:
    made = CdcOptions.parse({**GIVEN, "password": "hidden"})
    assert made.tables == (("s", "t"),) and "hidden" not in repr(made)
    for change in ({"tables": ""}, {"max.records.per.batch": "0"}, {"starting.position": "timestamp"}, {"striim": "1"}):
        with pytest.raises(DsError, match="CDC_OPTION_INVALID"):
            CdcOptions.parse({**GIVEN, **change})
    for name in ("", "Upper", "a-b", "x" * 64):
        with pytest.raises(DsError, match="CDC_SLOT_NAME_INVALID"):
            CdcOptions.parse({**GIVEN, "slot": name})


def test_a_jobs_own_slot_has_a_name_of_its_own() -> None:
    one = default_slot("dev.0123.some_query", "clicks")
    assert one == CdcOptions.parse({**GIVEN, "slot": "", "owner": "dev.0123.some_query/clicks"}).slot
    others = {default_slot("dev.0123.some_query", "users"), default_slot("dev.4567.some_query", "clicks")}
    assert one not in others and one.startswith(slot_prefix("dev.0123.other")) and len(one) <= 63


def test_copies_of_two_slots_never_share_a_name() -> None:
    """However long the names are, and whichever part of them differs."""
    slots = ["x" * 63, "x" * 62 + "y", "y" + "x" * 62, default_slot("dev.0.q", "a"), "s"]
    names = {snapshot_slot(slot) for slot in slots}
    assert len(names) == len(slots)
    assert all(CdcOptions.parse({**GIVEN, "slot": name}).slot == name for name in names)
