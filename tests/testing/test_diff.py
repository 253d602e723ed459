"""Comparing rows: bags, order, subsets, and what a person is told."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pytest

from ds_dagster.diagnostics import Span
from ds_dagster.sql.script import parse_type
from ds_dagster.testing.case import Expectation
from ds_dagster.testing.diff import compare
from ds_dagster.testing.values import from_bytes, normal, to_bytes

PLAIN = Expectation(Span("c", 1), relation="r", rows=())
A, B = {"k": "a", "n": 1}, {"k": "b", "n": 2}


def test_equal_bags_in_any_order():
    assert compare(PLAIN, [A, B, A], [B, A, A], ()) == ""


@pytest.mark.parametrize("found", [[A, B, B], [A, A, B, B], [A, A], []])
def test_a_bag_counts(found):
    assert compare(PLAIN, [A, A, B], found, ()) != ""


def test_order_counts_where_it_is_asked_for():
    ordered = Expectation(Span("c", 1), relation="r", rows=(), ordered=True)
    assert compare(ordered, [A, B], [A, B], ()) == ""
    assert (
        compare(ordered, [A, B], [B, A], ()).splitlines()[0] == "  the first 0 of 2 expected rows are as expected; then"
    )


def test_order_is_no_reason_to_take_one_for_true():
    ordered = Expectation(Span("c", 1), relation="r", rows=(), ordered=True)
    assert compare(ordered, [A, {"k": 1}], [A, {"k": True}], ()).splitlines() == [
        "  the first 1 of 2 expected rows are as expected; then",
        '  - {"k": 1}',
        '  + {"k": true}',
    ]


def test_a_missing_column_is_not_null():
    assert compare(PLAIN, [{"k": "a"}], [{"k": "a", "n": None}], ()) == '  ~ k "a": n is null, expected not there'


def test_subset_looks_at_the_named_columns():
    subset = Expectation(Span("c", 1), relation="r", rows=(), columns="subset")
    assert compare(subset, [{"k": "a"}], [A], ()) == ""
    assert compare(subset, [{"k": "a"}], [B], ()) != ""
    assert compare(subset, [], [B], ()) != ""


def test_difference_by_key():
    told = compare(PLAIN, [A, B], [{"k": "a", "n": 9}, {"k": "c", "n": 2}], ("k",))
    assert told.splitlines() == [
        '  ~ k "a": n is 9, expected 1',
        '  - {"k": "b", "n": 2}',
        '  + {"k": "c", "n": 2}',
    ]


def test_a_long_difference_is_cut():
    told = compare(PLAIN, [], [{"n": n} for n in range(50)], ())
    assert len(told.splitlines()) == 21
    assert told.endswith("… 30 more")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (2.0, 2),
        (0.1 + 0.2, 0.3),
        (Decimal("1.50"), 1.5),
        (Decimal("7"), 7),
        (True, True),
        (2**63 - 1, 2**63 - 1),
        (datetime(2024, 2, 29, 1, 2, 3, 4000), "2024-02-29 01:02:03.004"),  # noqa: DTZ001, a local time is meant
        (datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=timezone.utc), "2024-02-29 01:02:03.000004Z"),
        (date(2024, 2, 29), "2024-02-29"),
        (b"\x00\x01\xff", "AAH/"),
        ({"a": [1.0, None]}, {"a": [1, None]}),
    ],
)
def test_one_form_for_equal_values(value, form):
    assert normal(value) == form
    assert type(normal(value)) is type(form)


def test_parts_of_records_travel_as_bytes():
    assert to_bytes({"a": "ä"}) == '{"a": "ä"}'.encode()
    assert to_bytes("plain") == b"plain"
    assert to_bytes(None) is None
    assert from_bytes(b'{"a": 1}') == {"a": 1}
    assert from_bytes(b"plain") == "plain"
    assert from_bytes(b"{broken") == "{broken"
    assert from_bytes(b"\xff") == b"\xff"


MONEY = {
    "n": parse_type("DECIMAL(38,2)"),
    "d": parse_type("DOUBLE"),
    "t": parse_type("TIMESTAMP_LTZ(3)"),
    "a": parse_type("ARRAY<STRUCT<n DECIMAL(38,2), d DOUBLE, t TIMESTAMP(3)>>"),
    "m": parse_type("MAP<VARCHAR, DECIMAL(20,2)>"),
}


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ({"n": 12345678901234.99}, {"n": Decimal("12345678901234.56")}, False),
        ({"n": 12345678901234.56}, {"n": Decimal("12345678901234.56")}, True),
        ({"n": "123456789012345678901234567890.12"}, {"n": Decimal("123456789012345678901234567890.12")}, True),
        ({"n": "123456789012345678901234567890.13"}, {"n": Decimal("123456789012345678901234567890.12")}, False),
        ({"n": 3}, {"n": Decimal("3.00")}, True),
        ({"n": None}, {"n": None}, True),
        ({"d": 0.3}, {"d": 0.1 + 0.2}, True),
        ({"t": "1970-01-01 00:00:10Z"}, {"t": "1970-01-01 00:00:10.000Z"}, True),
        ({"t": "1970-01-01T00:00:10+00:00"}, {"t": "1970-01-01 00:00:10.001Z"}, False),
        ({"t": "1970-01-01T02:00:10+02:00"}, {"t": "1970-01-01 02:00:10.000Z"}, False),
        ({"t": "1970-01-01T02:00:10+02:00"}, {"t": "1970-01-01 00:00:10.000Z"}, True),
        ({"a": [{"n": 12345678901234.99}]}, {"a": [{"n": Decimal("12345678901234.98")}]}, False),
        ({"a": [{"n": "12345678901234.99"}]}, {"a": [{"n": Decimal("12345678901234.99")}]}, True),
        (
            {"a": [{"d": 0.3, "t": "1970-01-01 00:00:10"}]},
            {"a": [{"d": 0.1 + 0.2, "t": "1970-01-01 00:00:10.000"}]},
            True,
        ),
        ({"m": {"k": 12345678901234.99}}, {"m": {"k": Decimal("12345678901234.98")}}, False),
    ],
)
def test_a_column_is_compared_by_its_type(expected, found, same):
    assert (compare(PLAIN, [expected], [found], (), MONEY) == "") == same


@pytest.mark.parametrize(("value", "text"), [(float("nan"), "NaN"), (float("-inf"), "-Infinity")])
def test_a_number_that_json_lacks_is_the_text_that_records_have(value, text):
    types = {"x": parse_type("DOUBLE"), "y": parse_type("ARRAY<DOUBLE>")}
    assert compare(PLAIN, [{"x": text, "y": [text]}], [{"x": value, "y": [value]}], (), types) == ""
