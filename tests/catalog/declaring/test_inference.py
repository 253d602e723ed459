"""What CREATE … AS leaves out, and what WITH after a source decides."""

# ruff: noqa: E501 - SQL in tables reads better on one line

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.declaring.declared import Declared
from ds_dagster.catalog.declaring.inference import resolve_query_properties, resolve_source
from ds_dagster.catalog.reading.starting import StartingPoint
from ds_dagster.catalog.shared_entities import shared_entities
from ds_dagster.diagnostics import Span
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import Property
from ds_dagster.stores.memory.kind import Memory
from ds_dagster.stores.registry import KINDS, by_name

Infer = Callable[..., Any]
SELECT = "AS SELECT url, uid AS n FROM clicks"
HERE = Span("q.sql", 3, 7)


def properties(**values: Any) -> list[Property]:
    return [Property(name.replace("_", "."), value, "string", HERE, HERE) for name, value in values.items()]


def conditions(found: Sequence[Any]) -> list[str]:
    return [diagnostic.condition for diagnostic in found]


def test_everything_from_the_left_most_source(inferred: Infer) -> None:
    sink, found = inferred(f"CREATE STREAM s {SELECT};")
    assert not found
    assert (sink.store, sink.entity, sink.value_format, sink.key.format, sink.declared) == (
        "k",
        "s",
        "json",
        "none",
        False,
    )
    assert sink.like == ("k", "clicks")
    plan = KINDS["KAFKA"].entity_plan(sink)
    assert dict(plan.counts) == {"topic.partitions": 3}
    assert dict(plan.settings) == {
        "retention.ms": "1000", "message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"
    }  # fmt: skip
    assert plan.stated == frozenset(), "inferred counts do not bind an existing topic"


def test_another_store_of_the_same_kind_takes_over_the_sizes(inferred: Infer) -> None:
    sink, found = inferred(f"CREATE STREAM s WITH ('store'=k2) {SELECT};")
    assert not found
    assert (sink.store, sink.option("topic.partitions"), sink.like) == ("k2", 3, ("k", "clicks"))


def test_written_wins(inferred: Infer) -> None:
    text = f"CREATE STREAM s WITH ('topic.partitions'=7,'kafka.topic.cleanup.policy'='compact','topic'='T') {SELECT};"
    sink, found = inferred(text)
    assert not found
    plan = KINDS["KAFKA"].entity_plan(sink)
    assert (plan.name, plan.counts["topic.partitions"], plan.stated) == ("T", 7, frozenset({"topic.partitions"}))
    assert plan.settings["cleanup.policy"] == "compact"


def test_kinesis_to_kafka_has_to_say_sizes(inferred: Infer) -> None:
    sink, found = inferred("CREATE STREAM s AS SELECT * FROM views;", left="views")
    assert sink is None
    assert conditions(found) == ["COUNT_NOT_INFERRED"] * 2
    assert "views stands on KINESIS, the sink on KAFKA" in found[0].message
    text = "CREATE STREAM s WITH ('topic.partitions'=1,'topic.replicas'=1) AS SELECT * FROM views;"
    assert inferred(text, left="views")[0].like is None


def test_kinesis_to_kinesis_copies_shards(inferred: Infer) -> None:
    sink, found = inferred("CREATE STREAM s WITH ('store'=kin) AS SELECT * FROM views;", left="views")
    assert not found
    assert KINDS["KINESIS"].entity_plan(sink).like == ("kin", "views")


def test_a_changelog_is_compacted_and_keyed(inferred: Infer) -> None:
    sink, found = inferred(f"CREATE CHANGELOG s {SELECT} GROUP BY url;", key=["url"])
    assert not found
    assert (sink.primary_key, sink.key.format, sink.key.columns) == (("url",), "json", ("url",))
    assert [column.nullable for column in sink.columns] == [True, True]
    assert sink.option("primary.key.nullable") is True  # a group whose key is NULL is a group
    assert KINDS["KAFKA"].entity_plan(sink).settings["cleanup.policy"] == "compact"


def test_views_stand_in_the_embedded_store(inferred: Infer) -> None:
    sink, found = inferred(f"CREATE MATERIALIZED VIEW s {SELECT} GROUP BY url;", key=["url"])
    assert not found
    assert (sink.store, sink.entity, sink.primary_key, sink.columns[0].nullable) == (
        "sqlite",
        "db.public.s",
        ("url",),
        True,
    )


def test_tables_name_their_place(inferred: Infer) -> None:
    text = f"CREATE TABLE s WITH ('store'=pg,'postgresql.schema.name'='mart','refresh.mode'=FULL) {SELECT};"
    sink, found = inferred(text)
    assert not found
    assert (sink.entity, sink.option("refresh.mode")) == ("mart.s", "full")


@pytest.mark.parametrize(
    ("with_", "tail", "key", "condition"),
    [
        ("STREAM s", "", ["url"], "RELATION_KIND_MISMATCH"),
        ("CHANGELOG s", "", [], "RELATION_KIND_MISMATCH"),
        ("TABLE s", "", [], "STORE_CANNOT_HOLD"),
        ("MATERIALIZED VIEW s WITH ('store'=k)", "", [], "STORE_CANNOT_HOLD"),
        ("STREAM s WITH ('refresh.mode'=FULL)", "", [], "PROPERTY_OF_OTHER_KIND"),
        ("TABLE s WITH ('store'=pg,'retention.millis'=5)", "", [], "PROPERTY_OF_OTHER_KIND"),
        ("CHANGELOG s", "PARTITION BY url", ["url"], "PROPERTY_OF_OTHER_KIND"),
        ("CHANGELOG s", "", ["uid"], "PRIMARY_KEY_NOT_SELECTED"),
        ("STREAM s", "PARTITION BY nope", [], "KEY_COLUMN_UNKNOWN"),
        ("STREAM s WITH ('key.columns'='n')", "PARTITION BY url", [], "KEY_CONTRADICTS"),
        ("CHANGELOG s WITH ('key.columns'='n')", "", ["url"], "KEY_CONTRADICTS"),
        ("STREAM s WITH ('value.format'='primitive')", "", [], "VALUE_PRIMITIVE"),
        ("STREAM s WITH ('key.type'='VARCHAR')", "", [], "PROPERTY_MISPLACED"),
        ("STREAM s WITH ('store'=kin,'topic.shards'=1,'delivery'=exactly_once)", "", [], "DELIVERY_NOT_AVAILABLE"),
        ("STREAM s WITH ('store'=nope)", "", [], "UNKNOWN_STORE"),
        ("TABLE s WITH ('store'=pg,'refresh.mode'=sometimes)", "", [], "PROPERTY_INVALID"),
        ("TABLE s WITH ('store'=pg,'refresh.mode'=continuous,'execution'=step)", "", [], "REFRESH_CONTRADICTS"),
    ],
)
def test_refused(inferred: Infer, with_: str, tail: str, key: list[str], condition: str) -> None:
    sink, found = inferred(f"CREATE {with_} {SELECT} {tail};", key=key)
    assert sink is None
    assert condition in conditions(found), [d.text() for d in found]
    assert all(diagnostic.span is not None for diagnostic in found)


def test_partition_by_makes_the_key(inferred: Infer) -> None:
    sink, found = inferred(f"CREATE STREAM s WITH ('value.columns.exclude'='url') {SELECT} PARTITION BY url;")
    assert not found
    assert (sink.key.columns, sink.key.format, sink.key.exclude) == (("url",), "json", ("url",))


def test_delivery(inferred: Infer, declared: Callable[..., Declared]) -> None:
    store = declared("").stores["k"]
    for text, transactional, format_ in (
        (f"CREATE STREAM s {SELECT};", True, "ds-kafka"),
        (f"CREATE STREAM s WITH ('delivery'=at_least_once) {SELECT};", False, "kafka"),
    ):
        sink, _ = inferred(text)
        spec = KINDS["KAFKA"].write_spec(store, sink, "continuous")
        assert (spec.transactional, spec.format) == (transactional, format_)


def test_two_writers_of_one_entity(inferred: Infer) -> None:
    one, _ = inferred(f"CREATE STREAM s WITH ('topic'='t') {SELECT};")
    other, _ = inferred(f"CREATE STREAM r WITH ('topic'='t') {SELECT};")
    (found,) = shared_entities([one, other])
    assert found.condition == "ENTITY_SHARED"
    assert found.related == (one.span,)
    assert not shared_entities([one])


def test_source_properties(declared: Callable[..., Declared]) -> None:
    clicks = declared("").relations[QualifiedName("db", "public", "clicks")]
    choices, found = resolve_source(
        clicks,
        properties(
            timestamp="event_time", starting_position="LATEST", source_allow_latency_millis="7", max_records_per_batch=9,
            source_deserialization_error_handling="IGNORE", source_idle_timeout_millis=11,
        ),
    )  # fmt: skip
    assert not found
    assert (choices.event_time.column, choices.start, choices.lateness_millis) == (
        "event_time",
        StartingPoint("latest"),
        7,
    )
    assert (choices.bad_records, choices.idle_millis) == ("ignore", 11)
    default, _ = resolve_source(clicks, [])
    assert (default.start.position, default.lateness_millis, default.idle_millis) == ("earliest", None, 10_000)
    _, wrong = resolve_source(
        clicks, properties(timestamp="url", topic="x", source_deserialization_error_handling="ignore_and_log")
    )
    assert sorted(conditions(wrong)) == ["PROPERTY_MISPLACED", "TIMESTAMP_COLUMN_TYPE"]
    assert all(diagnostic.span == HERE for diagnostic in wrong)


MOMENT = 1_767_225_600_000
AT = "'starting.position' = timestamp, 'starting.timestamp' ="
FROM = "'starting.position' = OFFSETS, 'starting.offsets' ="
NO_OFFSETS = (
    "''", "','", "'0'", "5", "TRUE", "'0:'", "':5'", "'0:5,'", "'0:5 1:6'", "'0:-1'", "'-1:0'", "'a:b'", "'0:1.5'",
    "'0:5:6'", "'0:5,0:6'", "'0:\u0663'", f"'{2**31}:0'", f"'0:{2**63}'",
)  # fmt: skip
STARTS: tuple[tuple[str, str, StartingPoint | str], ...] = (
    ("", "", StartingPoint()),
    ("", "'starting.position' = latest", StartingPoint("latest")),
    ("'starting.position' = 'latest'", "", StartingPoint("latest")),
    ("'starting.position' = 'latest'", "'starting.position' = 'earliest'", StartingPoint("earliest")),
    ("", f"{AT} {MOMENT}", StartingPoint("timestamp", MOMENT)),
    ("", f"{AT} '{MOMENT}'", StartingPoint("timestamp", MOMENT)),
    (f"{AT} '2026-01-01T00:00:00Z'", "", StartingPoint("timestamp", MOMENT)),
    (f"{AT} '2026-01-01 02:00:00.500+02:00'", "", StartingPoint("timestamp", MOMENT + 500)),
    (f"{AT} 5", "'starting.timestamp' = '2026-01-01'", StartingPoint("timestamp", MOMENT)),
    (f"{AT} 5", "'starting.position' = 'latest'", StartingPoint("latest")),
    ("", "'starting.position' = timestamp", "STARTING_POSITION_INCOMPLETE"),
    ("'starting.position' = timestamp", "", "STARTING_POSITION_INCOMPLETE"),
    ("", "'starting.timestamp' = 5", "STARTING_PROPERTY_UNUSED"),
    ("'starting.timestamp' = 5", "", "STARTING_PROPERTY_UNUSED"),
    ("", "'starting.position' = 'yesterday'", "PROPERTY_INVALID"),
    ("", f"{AT} 'yesterday'", "PROPERTY_INVALID"),
    ("", f"{AT} '1969-12-31'", "PROPERTY_INVALID"),
    ("", f"{FROM} '1:1180, 0 : 1200'", StartingPoint("offsets", offsets=((0, 1200), (1, 1180)))),
    (f"{FROM} '10:0,9:{2**63 - 1}'", "", StartingPoint("offsets", offsets=((9, 2**63 - 1), (10, 0)))),
    (f"{FROM} '0:5'", "'starting.offsets' = '1:6'", StartingPoint("offsets", offsets=((1, 6),))),
    (f"{FROM} '0:5'", "'starting.position' = offsets", StartingPoint("offsets", offsets=((0, 5),))),
    (f"{FROM} '0:5'", "'starting.position' = 'latest'", StartingPoint("latest")),
    (f"{AT} 5", f"{FROM} '0:5'", StartingPoint("offsets", offsets=((0, 5),))),
    (f"{FROM} '0:5'", f"{AT} 5", StartingPoint("timestamp", 5)),
    ("", "'starting.position' = offsets", "STARTING_POSITION_INCOMPLETE"),
    (f"{AT} 5", "'starting.position' = offsets", "STARTING_POSITION_INCOMPLETE"),
    ("'starting.position' = offsets, 'starting.timestamp' = 5", "", "STARTING_PROPERTY_UNUSED"),
    ("", "'starting.offsets' = '0:5'", "STARTING_PROPERTY_UNUSED"),
    ("", f"{AT} 5, 'starting.offsets' = '0:5'", "STARTING_PROPERTY_UNUSED"),
    ("", f"{FROM} '0:5', 'starting.timestamp' = 5", "STARTING_PROPERTY_UNUSED"),
    *(("", f"{FROM} {text}", "PROPERTY_INVALID") for text in NO_OFFSETS),
    ("", f"{FROM} '${{X}}'", "REFERENCE_NOT_HERE"),
    ("", "'source.data.loss' = 'warn'", "PROPERTY_INVALID"),
    ("", "'starting.positon' = latest", "UNKNOWN_PROPERTY"),
)


@pytest.mark.parametrize(("relation", "source", "expected"), STARTS)
def test_starting_points(relation: str, source: str, expected: StartingPoint | str, tmp_path: Path) -> None:
    behind = f" WITH ({source})" if source else ""
    sql = (
        "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'h:9092');"
        "CREATE STREAM r (a VARCHAR) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 1, "
        f"'topic.replicas' = 1{relation and ', ' + relation});"
        f"CREATE STREAM s WITH ('store' = 'k') AS SELECT a FROM r{behind};"
    )
    project = compile_texts([("a.sql", sql)], Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds"))
    if isinstance(expected, str):
        assert expected in [d.condition for d in project.errors]
        assert all(d.span for d in project.errors)
        return
    assert not project.errors
    (scan,) = project.queries["s"].scans
    found = StartingPoint(scan.starting_position, scan.starting_timestamp, scan.starting_offsets)
    assert (found, project.queries["s"].scans[0].reading.starting_offsets) == (expected, expected.offsets)


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        ("'starting.position' = timestamp, 'starting.timestamp' = 5", "STARTING_POSITION_NOT_HERE"),
        (f"{FROM} '0:5'", "STARTING_POSITION_NOT_HERE"),
        ("'source.data.loss' = 'skip'", "DATA_LOSS_NOT_SKIPPED"),
    ],
)
def test_what_a_kind_cannot_do_is_refused(source: str, condition: str, tmp_path: Path) -> None:
    sql = (
        "CREATE STORE k WITH ('type' = LIMITED);"
        "CREATE STREAM r (a VARCHAR) WITH ('store' = 'k', 'value.format' = 'json');"
        f"CREATE STREAM s WITH ('store' = 'k') AS SELECT a FROM r WITH ({source});"
    )
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ds_dagster.project.load.KINDS", by_name((Limited(),)))
        project = compile_texts([("a.sql", sql)], settings)
    assert [(d.condition, d.span is not None) for d in project.errors] == [(condition, True)]


def test_numbers_of_kinesis_are_longer(tmp_path: Path) -> None:
    sql = (
        "CREATE STORE k WITH ('type' = KINESIS, 'access_region' = 'us-east-1');"
        "CREATE STREAM r (a VARCHAR) WITH ('store' = 'k', 'value.format' = 'json', 'topic.shards' = 1);"
        f"CREATE STREAM s WITH ('store' = 'k') AS SELECT a FROM r WITH ({FROM} '3:{10**129 - 1}');"
    )
    project = compile_texts([("a.sql", sql)], Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds"))
    assert not project.errors
    assert project.queries["s"].scans[0].starting_offsets == ((3, 10**129 - 1),)


class Limited(Memory):
    """A kind with none of them."""

    name = "LIMITED"
    capabilities = replace(Memory.capabilities, starting_positions=("earliest", "latest"), skips_lost_records=False)


def test_query_properties() -> None:
    choices, found = resolve_query_properties(
        properties(query_name="Fill", emit_mode="updates", temporal_join_mode="immediate")
    )
    assert not found
    assert (choices.name, choices.updates, choices.temporal_mode) == ("fill", True, "immediate")
    _, wrong = resolve_query_properties(properties(resume_from_query_id="q", queri_name="x"))
    assert conditions(wrong) == ["PROPERTY_NOT_YET", "UNKNOWN_PROPERTY"]
