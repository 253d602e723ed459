"""Records as lines of text and as JSON, and which of them have a key or are in a partition."""

from __future__ import annotations

import click
import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.cli.record_output import RecordLines, ShownRecord, moment_text
from ds_dagster.cli.times import Since

AT = 1_714_564_800_007  # 2024-05-01 12:00:00.007


def shown(partition: str, position: str, key: str | None, value: str | None, at: int = AT) -> ShownRecord:
    raw = RawRecord(partition, position, at, None if key is None else key.encode(), value and value.encode())
    return ShownRecord(raw, "null" if key is None else key, value or "null")


def test_columns_are_aligned_and_grow() -> None:
    lines = RecordLines("kafka")
    assert lines.line(shown("0", "9", "ann", '{"n":1}')).splitlines() == [
        "PARTITION  OFFSET  TIME (UTC)               KEY  VALUE",
        '0          9       2024-05-01 12:00:00.007  ann  {"n":1}',
    ]
    assert lines.line(shown("10", "12345678", "christina", None, -1)) == (
        "10         12345678  -                        christina  null"
    )
    assert lines.line(shown("0", "10", None, '{"n":2}')) == (
        '0          10        2024-05-01 12:00:00.007  null       {"n":2}'
    )


def test_a_record_cannot_rewrite_the_screen() -> None:
    lines = RecordLines("kafka")
    lines.line(shown("0", "1", "k", "v"))
    record = shown("0", "2", "\x1b[2Jann\n", "a\x1b]0;title\x07\r\nb\x00\x9b1A")
    assert lines.line(record) == (
        r"0          2       2024-05-01 12:00:00.007  \x1B[2Jann\n  a\x1B]0;title\x07\r\nb\x00\x9B1A"
    )
    assert record.document["value"] == "a\x1b]0;title\x07\r\nb\x00\x9b1A", "for programs it is exact"


def test_a_long_key_does_not_move_the_values_of_others() -> None:
    lines = RecordLines("other")
    assert lines.line(shown("f", "1", "k" * 99, "v")).splitlines()[0].startswith("PARTITION  POSITION  TIME (UTC)")
    assert len(lines.line(shown("f", "1", "k", "v"))) == 9 + 2 + 8 + 2 + 23 + 2 + 40 + 2 + 1


def test_kinesis_has_shards_and_sequence_numbers() -> None:
    header = RecordLines("kinesis").line(shown("shardId-000000000000", "495", "u", "{}")).splitlines()[0]
    assert header.split("  ")[0] == "SHARD" and "SEQUENCE NUMBER" in header


def test_json_has_the_same_fields() -> None:
    assert shown("0", "9", '{"id":1}', None).document == {
        "partition": "0", "position": "9", "timestamp": AT, "key": {"id": 1}, "value": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "text", "has"),
    [
        ("ann", "ann", True),
        ("ann", "an", False),
        ('"ann"', "ann", True),
        ('{"userid":"ann"}', "ann", True),
        ('{"userid":"ann"}', '{"userid": "ann"}', True),
        ('{"a":1,"b":2}', "1", False),
        ('{"a":1,"b":2}', '{"b": 2, "a": 1}', True),
        ("7", "7", True),
        ('{"id":7}', "7", True),
        ('{"id":1}', '{"id":true}', False),
        ('{"id":1}', '{"id":1.0}', False),
        ("1", "true", False),
        (None, "null", False),
    ],
)
def test_a_key_is_its_text_or_the_only_field(key: str | None, text: str, has: bool) -> None:
    assert shown("0", "0", key, "{}").has_key(text) is has


def test_a_shard_may_be_named_by_its_number() -> None:
    record = shown("shardId-000000000003", "0", None, "{}")
    assert record.is_in("3") and record.is_in("shardId-000000000003")
    assert not record.is_in("30") and not shown("13", "0", None, "{}").is_in("3")
    assert shown("3", "0", None, "{}").is_in("03"), "a partition is a number"


def test_since_is_a_duration_or_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: AT / 1000)
    since = Since()
    assert since.convert("1h", None, None) == AT - 3_600_000
    assert since.convert("2024-05-01T12:00:00.007", None, None) == AT
    assert since.convert("2024-05-01T14:00:00.007+02:00", None, None) == AT
    assert since.convert("2024-05-01", None, None) == AT - 12 * 3_600_000 - 7
    for long_ago in ("1960-01-01", "0001-01-01", "9999999999d", f"{10**30}d"):
        assert since.convert(long_ago, None, None) == 0, "stores know no time before 1970"
    with pytest.raises(click.BadParameter, match="neither a duration nor a moment"):
        since.convert("yesterday", None, None)


def test_a_record_without_a_time_has_a_dash() -> None:
    assert (moment_text(-1), moment_text(0)) == ("-", "1970-01-01 00:00:00.000")


def test_a_time_beyond_the_calendar_is_a_number() -> None:
    assert moment_text(AT * 1000) == f"{AT * 1000} ms", "a producer that stamps in microseconds"
