"""Entries of row logs, their selection, and files of repairs, without a broker; and each record goes back once."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.redriving import Put, RepairedRecord
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.upkeep import redriving
from ds_dagster.questions.upkeep.doubling import takers
from ds_dagster.questions.upkeep.left_out import LeftOut, entries, logs_of, readers_of
from ds_dagster.questions.upkeep.redriving import redrive, repairs, to_line, where
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.settings import Settings
from tests.questions.upkeep.left_out_records import Broker, failed, logged
from tests.runtime.fakes import FakeClock

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STREAM orders (id INTEGER, amount INTEGER, CONSTRAINT positive CHECK (amount > 0) ON VIOLATION QUARANTINE)
  WITH ('store' = 'k', 'topic' = 'orders', 'value.format' = 'json');
CREATE STREAM plain (id INTEGER) WITH ('store' = 'k', 'topic' = 'plain', 'value.format' = 'json');
CREATE STREAM ids WITH ('store' = 'k') AS
  SELECT id FROM orders WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG');
CREATE STREAM more WITH ('store' = 'k') AS
  SELECT id FROM orders WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG');
CREATE STREAM copies WITH ('store' = 'k') AS SELECT id FROM plain;
CREATE STREAM texts (id INTEGER, a VARCHAR, tags ARRAY<VARCHAR>)
  WITH ('store' = 'k', 'topic' = 'texts', 'value.format' = 'json');
CREATE STREAM numbers WITH ('store' = 'k') AS SELECT id, CAST(a AS INTEGER) AS n FROM texts
  QUERY WITH ('row.error.handling' = 'IGNORE_AND_LOG');
"""
WINDOWED = "SELECT window_start, window_end, SUM(CAST(a AS INTEGER)) AS n FROM {} GROUP BY window_start, window_end"
LATE = """
CREATE STREAM late (id INTEGER, late_query VARCHAR, record_store VARCHAR, record_entity VARCHAR,
  record_partition VARCHAR, record_offset VARCHAR, record_time TIMESTAMP_LTZ(3))
  WITH ('store' = 'k', 'topic' = 'late', 'value.format' = 'json');
CREATE STREAM nameless (id INTEGER, record_offset VARCHAR)
  WITH ('store' = 'k', 'topic' = 'nameless', 'value.format' = 'json');
CREATE STREAM times (id INTEGER, at BIGINT) WITH ('store' = 'k', 'topic' = 'times', 'value.format' = 'json');
CREATE STREAM stamps (id INTEGER, at BIGINT)
  WITH ('store' = 'k', 'topic' = 'stamps', 'value.format' = 'json', 'timestamp' = 'at');
CREATE STREAM named (record_time VARCHAR, at BIGINT)
  WITH ('store' = 'k', 'topic' = 'named', 'value.format' = 'json', 'timestamp' = 'at');
CREATE STREAM named_late (late_query VARCHAR, record_store VARCHAR, record_entity VARCHAR,
  record_partition VARCHAR, record_offset VARCHAR, record_time VARCHAR)
  WITH ('store' = 'k', 'topic' = 'named_late', 'value.format' = 'json');
CREATE CHANGELOG q WITH ('store' = 'k') AS SELECT window_start, window_end, COUNT(*) AS n
  FROM {}({}, SIZE 20 SECONDS{}) GROUP BY window_start, window_end QUERY WITH ('late.rows.relation' = '{}');
"""
CLOCK = FakeClock()
OTHER_READER = "CREATE STREAM others WITH ('store' = 'k') AS SELECT id FROM texts;"
ENTRY = LeftOut(
    "ids", "0", "7", 1_000, None, b'{"id": 1, "amount": -1}', "violates positive", by=frozenset({("ids", "broken")})
)
FAILED = replace(ENTRY, query="numbers", value=b'{"id": 7, "a": "x"}', by=frozenset({("numbers", "failed")}))


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[str], LoadedProject]:
    """Compiles SQL beside the one of all tests."""

    def compiles(more: str) -> LoadedProject:
        settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="k")
        loaded = compile_texts([("a.sql", SQL), ("b.sql", more)], settings)
        assert not loaded.errors, [problem.text() for problem in loaded.errors]
        return loaded

    return compiles


@pytest.fixture
def project(compiled: Callable[[str], LoadedProject]) -> LoadedProject:
    return compiled("")


def relation(project: LoadedProject, name: str) -> Any:
    return next(r for r in project.catalog.relations.values() if r.name.name == name)


def test_logs_are_the_quarantine_and_those_of_the_readers(project: LoadedProject) -> None:
    logs = logs_of(project, relation(project, "orders"))
    assert [log.relation.entity for log in logs] == ["orders_quarantine", "orders_bad_records"]


@pytest.mark.parametrize(("name", "reason"), [("plain", "no query keeps"), ("copies", "a query's results")])
def test_relations_without_entries_are_refused(name: str, reason: str, project: LoadedProject) -> None:
    with pytest.raises(DsError, match=reason) as caught:
        logs_of(project, relation(project, name))
    assert caught.value.condition == "REDRIVE_REFUSED"


def test_a_record_that_two_queries_logged_is_one_entry(project: LoadedProject, broker: Broker) -> None:
    broker.logs["orders_bad_records"] = [
        logged(1, b"\xff\x00", reason="not JSON"),
        logged(1, b"\xff\x00", reason="not JSON", query="more"),
        logged(2, b"{}", relation="default.public.others"),
    ]
    broker.logs["orders_quarantine"] = [logged(3, b'{"id": 3}', key=base64.b64encode(b"k").decode())]
    first, second = entries(project, relation(project, "orders")).records
    broken, undecodable = frozenset({("ids", "broken")}), frozenset({("ids", "undecodable"), ("more", "undecodable")})
    text = b'{"id": 3}'
    assert first == LeftOut("ids", "0", "3", 1_500, b"k", text, "violates positive", by=broken, came=text)
    bad = b"\xff\x00"
    assert second == LeftOut("ids", "0", "1", 1_500, None, bad, "not JSON", by=undecodable, came=bad)


def test_conditions_select_and_are_refused_by_name(tmp_path: Path) -> None:
    others = (ENTRY, replace(ENTRY, position="8", value=b"\xff"), replace(ENTRY, position="9", reason="violates x"))
    assert where(others, "") == others
    assert where(others, "reason = 'violates x' OR CAST(json(value) ->> 'amount' AS INTEGER) < 0") == (ENTRY, others[2])
    assert where(others, "value IS NULL") == (others[1],)
    assert where(others, "record_time < TIMESTAMP '1970-01-01 00:00:01'") == ()
    (tmp_path / "x.csv").write_text("a\n1\n")
    for wrong in ("nothing = 1", "reason LIKE", f"reason IN (SELECT a FROM '{tmp_path}/x.csv')"):
        with pytest.raises(DsError) as caught:
            where(others, wrong)
        assert caught.value.condition == "REDRIVE_WHERE_INVALID"


def test_a_file_of_repairs_is_read_as_it_was_written(tmp_path: Path) -> None:
    bytes_entry = replace(ENTRY, position="8", key=b"k", value=b"\xff\x00")
    file = tmp_path / "repairs.jsonl"
    file.write_text(f"{to_line(bytes_entry)}\n\n{to_line(ENTRY)}\n")
    assert repairs(file, [ENTRY, bytes_entry], "orders") == (bytes_entry, ENTRY)
    row = {**json.loads(to_line(ENTRY)), "value": {"id": 1, "amount": 2}}
    file.write_text(json.dumps(row))
    (repaired,) = repairs(file, [ENTRY, bytes_entry], "orders")
    assert (repaired.value, repaired.repaired, repaired.id) == (b'{"id": 1, "amount": 2}', True, ENTRY.id)


@pytest.mark.parametrize("value", ['{"a":"x\u2028y\x85z"}', '{"a":"x\x0c\x1c\ry"}', "", "ü"])
def test_what_was_exported_is_read_back(value: str, tmp_path: Path) -> None:
    """Whatever characters end a line elsewhere."""
    entry, file = replace(ENTRY, key=value.encode(), value=value.encode()), tmp_path / "repairs.jsonl"
    file.write_bytes(f"{to_line(entry)}\n{to_line(replace(entry, position='9'))}\n".encode())
    assert repairs(file, [entry, replace(entry, position="9")], "orders") == (entry, replace(entry, position="9"))


def test_numbers_of_a_repaired_object_keep_their_digits(tmp_path: Path) -> None:
    value, file = '{"amount": 12345678901234567890.125, "rate": 1.10, "most": 1e400}', tmp_path / "repairs.jsonl"
    line = to_line(replace(ENTRY, value=b"?")).replace('"value": "?"', f'"value": {value}')
    file.write_text(f"\ufeff{line}\r\n", encoding="utf-8")
    (repaired,) = repairs(file, [ENTRY], "orders")
    assert repaired.value == value.encode()


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "repairs.jsonl"
    file.write_bytes(to_line(ENTRY).encode("utf-16"))
    with pytest.raises(DsError, match="REDRIVE_FILE_INVALID"):
        repairs(file, [ENTRY], "orders")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["no JSON"], "not valid JSON"),
        (["[]"], "not a JSON object"),
        ([json.dumps({**json.loads(to_line(ENTRY)), "offset": "99"})], "no log of the relation"),
        ([to_line(ENTRY), to_line(ENTRY)], "in the file twice"),
        ([json.dumps({**json.loads(to_line(ENTRY)), "value": {"base64": "?"}})], "Error"),
        ([json.dumps({**json.loads(to_line(ENTRY)), "value": {"base64": 5}})], "Error"),
        ([json.dumps({**json.loads(to_line(ENTRY)), "value": "\ud800"})], "surrogates"),
        ([json.dumps({**json.loads(to_line(ENTRY)), "value": {"n": float("nan")}})], "not valid JSON"),
    ],
)
def test_wrong_lines_are_refused_by_number(lines: list[str], reason: str, tmp_path: Path) -> None:
    file = tmp_path / "repairs.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(DsError, match=reason) as caught:
        repairs(file, [ENTRY], "orders")
    assert (caught.value.condition, caught.value.params["line"]) == ("REDRIVE_FILE_INVALID", len(lines))


def test_each_record_goes_back_once_whenever_it_breaks_off(
    project: LoadedProject, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redriving, "AT_ONCE", 2)
    orders = relation(project, "orders")
    selected = [replace(ENTRY, position=str(n)) for n in range(5)]
    assert len(redrive(project, orders, selected, {}, dry=True, clock=CLOCK).sent) == 5
    assert not broker.sent_records and not broker.opened  # a sender would end another one
    broker.fails_after = 4
    with pytest.raises(ConnectionError):
        redrive(project, orders, selected, {"by": "me"}, dry=False, clock=CLOCK)
    broker.fails_after = 10**9
    outcome = redrive(project, orders, selected, {"by": "me"}, dry=False, clock=CLOCK)
    assert (len(outcome.sent), len(outcome.before)) == (1, 4)
    assert [record.id for record in broker.sent_records] == [entry.id for entry in selected]
    assert json.loads(broker.sent_records[0].note)["by"] == "me"
    assert redrive(project, orders, selected, {}, dry=False, clock=CLOCK).sent == ()


def test_a_store_that_takes_no_records_is_refused(project: LoadedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = SimpleNamespace(operations=lambda: object(), close=lambda: None)
    monkeypatch.setattr(redriving, "store_admin", lambda *_: admin)
    with pytest.raises(DsError, match="does not accept records") as caught:
        redrive(project, relation(project, "orders"), [ENTRY], {}, dry=False, clock=CLOCK)
    assert caught.value.condition == "REDRIVE_REFUSED"


STREAMS = """
CREATE STORE n WITH ('type' = KINESIS, 'access_region' = 'eu-west-1');
CREATE STORE k2 WITH ('type' = KAFKA, 'uris' = 'localhost:9093');
CREATE STREAM events (id INTEGER) WITH ('store' = 'n', 'topic' = 'events', 'value.format' = 'json');
CREATE STREAM event_ids WITH ('store' = 'k', 'topic.partitions' = 1, 'topic.replicas' = 1) AS
  SELECT id FROM events WITH ('source.deserialization.error.handling' = 'IGNORE_AND_LOG',
    'source.deserialization.error.log.store' = 'k');
"""


class Shards:
    """A store without transactions that takes each record."""

    def __init__(self) -> None:
        self.taken: list[RepairedRecord] = []

    def operations(self) -> Shards:
        return self

    def portions(self, _entity: str, records: Sequence[RepairedRecord]) -> Iterator[Sequence[RepairedRecord]]:
        yield records

    def put(self, _entity: str, records: Sequence[RepairedRecord]) -> Put:
        self.taken += records
        return Put({record.id: "s-0/9" for record in records})

    def kept_seconds(self, _entity: str) -> float:
        return 86_400.0

    def close(self) -> None:
        return


class Notebook:
    """Notes in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, dict[str, str]] = {}
        self.name = ""

    def operations(self) -> Notebook:
        return self

    def noted(self, name: str) -> Mapping[str, str]:
        return self.texts.get(name, {})

    def notes(self, name: str, like: str) -> Notebook:
        assert like == "events_bad_records"
        self.name = name
        return self

    def read(self) -> Mapping[str, str]:
        return self.noted(self.name)

    def write(self, notes: Mapping[str, str]) -> None:
        self.texts.setdefault(self.name, {}).update(notes)

    def close(self) -> None:
        return


def test_records_of_a_store_without_transactions_have_their_notes_next_to_the_log(
    compiled: Callable[[str], LoadedProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, shards, notebook = compiled(STREAMS), Shards(), Notebook()
    monkeypatch.setattr(
        redriving, "store_admin", lambda _project, store, _resolve: shards if store == "n" else notebook
    )
    entry = replace(ENTRY, partition="shardId-0", by=frozenset({("event_ids", "undecodable")}))
    events = relation(project, "events")
    assert redrive(project, events, [entry], {}, dry=True, clock=CLOCK).sent == (entry,)
    assert not notebook.texts
    redrive(project, events, [entry], {"by": "me"}, dry=False, clock=CLOCK)
    assert redrive(project, events, [entry], {}, dry=True, clock=CLOCK).before == (entry,)
    assert redrive(project, events, [entry], {}, dry=False, clock=CLOCK).sent == ()
    assert [record.id for record in shards.taken] == [entry.id]
    note = json.loads(notebook.texts["n.events"][entry.id])
    assert (note["by"], note["state"], note["place"]) == ("me", "sent", "s-0/9")


def test_notes_need_one_place(compiled: Callable[[str], LoadedProject], monkeypatch: pytest.MonkeyPatch) -> None:
    second = STREAMS.partition("CREATE STREAM event_ids")[2].replace("log.store' = 'k'", "log.store' = 'k2'")
    project = compiled(f"{STREAMS} CREATE STREAM event_numbers {second}")
    monkeypatch.setattr(redriving, "store_admin", lambda *_: Shards())
    with pytest.raises(DsError, match="logs are in k, k2; notes") as caught:
        redrive(project, relation(project, "events"), [ENTRY], {}, dry=False, clock=CLOCK)
    assert caught.value.condition == "REDRIVE_REFUSED"


def test_a_repaired_record_goes_where_its_key_decides(project: LoadedProject, broker: Broker) -> None:
    moved = replace(ENTRY, position="8", key=b"k", repaired=True)
    redrive(project, relation(project, "orders"), [ENTRY, moved], {}, dry=False, clock=CLOCK)
    assert [(r.partition, r.timestamp_millis) for r in broker.sent_records] == [("0", 1_000), (None, 1_000)]


def test_a_row_that_failed_is_found_again_as_the_record_it_was_read_from(
    project: LoadedProject, broker: Broker
) -> None:
    texts = relation(project, "texts")
    assert [log.relation.entity for log in logs_of(project, texts)] == ["numbers_row_errors"]
    broker.logs["numbers_row_errors"] = [
        failed(1),
        failed(1, reason="DIVIDE_BY_ZERO"),  # another row of the record
        failed(2),  # its record is gone
        failed(3),  # another record is at its place
        failed(4, partition=None, store=None, entity=None, record_time=None, key=None),
        failed(5, entity="others"),
    ]
    record = b'{"id": 7, "a": "x", "more": 1}'
    broker.topic = {("0", "1"): RawRecord("0", "1", 1_500, b"k", record), ("0", "3"): RawRecord("0", "3", 9, None, b"")}
    known = entries(project, texts)
    first, gone, other = known.records
    assert (first.value, first.key, first.is_there, first.row) == (record, b"k", True, '{"id":7,"a":"x"}')
    assert [(e.position, e.value, e.is_there) for e in (gone, other)] == [("2", None, False), ("3", None, False)]
    assert known.without_record == {"numbers": 1}
    assert json.loads(to_line(first))["row"] == '{"id":7,"a":"x"}'


def test_records_that_are_gone_go_back_only_with_a_value_of_their_own(
    project: LoadedProject, broker: Broker, tmp_path: Path
) -> None:
    texts, file = relation(project, "texts"), tmp_path / "repairs.jsonl"
    gone = replace(FAILED, value=None, is_there=False, row='{"id":7,"a":"x"}')
    with pytest.raises(DsError) as caught:
        redrive(project, texts, [FAILED, gone], {}, dry=False, clock=CLOCK)
    assert (caught.value.condition, caught.value.params["count"]) == ("REDRIVE_RECORD_GONE", 1)
    assert not broker.sent_records and not broker.opened
    file.write_text(json.dumps({**json.loads(to_line(gone)), "value": {"id": 7, "a": "1"}}))
    redrive(project, texts, repairs(file, [gone], "texts"), {}, dry=False, clock=CLOCK)
    assert [record.value for record in broker.sent_records] == [b'{"id": 7, "a": "1"}']


def test_records_that_others_have_taken_go_back_by_consent_alone(
    compiled: Callable[[str], LoadedProject], broker: Broker
) -> None:
    project = compiled(OTHER_READER)
    texts = relation(project, "texts")
    (hindrance,) = redrive(project, texts, [FAILED], {}, dry=True, clock=CLOCK).hindrances
    assert (hindrance.condition, hindrance.params["queries"]) == ("REDRIVE_WOULD_DOUBLE", ["others"])
    with pytest.raises(DsError, match="others would take them twice"):
        redrive(project, texts, [FAILED], {}, dry=False, clock=CLOCK)
    assert not broker.sent_records and not broker.opened
    assert len(redrive(project, texts, [FAILED], {}, dry=False, clock=CLOCK, may_double=True).sent) == 1
    assert redrive(project, texts, [FAILED], {}, dry=False, clock=CLOCK).before == (
        FAILED,
    )  # nothing is left to refuse


@pytest.mark.parametrize(
    ("select", "queries"),
    [
        ("SELECT id, CAST(a AS INTEGER) AS n FROM texts", ()),
        ("SELECT t.id, CAST(x.tag AS INTEGER) AS n FROM texts t CROSS JOIN UNNEST(t.tags) AS x (tag)", ("q",)),
        ("SELECT id, CAST(a AS INTEGER) AS n FROM texts UNION ALL SELECT id, id AS n FROM texts", ("q",)),
        (WINDOWED.format("TUMBLE(texts, SIZE 2 SECONDS)"), ()),
        (WINDOWED.format("HOP(texts, SIZE 2 SECONDS, ADVANCE BY 1 SECOND)"), ("q",)),
    ],
)
def test_a_query_takes_a_part_of_a_record_that_is_several_rows(
    select: str, queries: tuple[str, ...], compiled: Callable[[str], LoadedProject]
) -> None:
    kind = "CHANGELOG" if "window" in select else "STREAM"
    sql = f"CREATE {kind} q WITH ('store' = 'k') AS {select} QUERY WITH ('row.error.handling' = 'IGNORE_AND_LOG');"
    project = compiled(sql)
    texts = relation(project, "texts")
    readers = tuple(query for query in readers_of(project, texts) if query.name == "q")
    assert takers(replace(FAILED, by=frozenset({("q", "failed")})), texts, readers) == queries


def test_a_renamed_query_has_not_taken_what_it_logged_under_its_former_name(
    project: LoadedProject, broker: Broker
) -> None:
    control = Control.open(project.settings, environment={})
    control.ensure(project, ["numbers"])
    with control.journal.write() as connection:
        job = rows.jobs(connection, ["numbers"])["numbers"]
        rows.delete_job(connection, job.name)
        rows.insert_jobs(connection, [replace(job, identity="figures@2")])
    control.journal.close()
    texts = relation(project, "texts")
    (log,) = logs_of(project, texts)
    broker.logs[log.relation.entity] = [failed(7, query="figures")]
    (entry,) = entries(project, texts).records
    assert (entry.query, entry.by) == ("numbers", frozenset({("numbers", "failed")}))
    assert takers(entry, texts, readers_of(project, texts)) == ()


HISTORY = (("figures", "sums"), ("sums", "numbers"))
"""The names of a chain of renames: former and next one."""


@pytest.mark.parametrize("version", [1, 2])
def test_each_name_of_a_chain_of_renames_is_that_of_the_query(
    project: LoadedProject, broker: Broker, version: int
) -> None:
    """Also after a version of the renamed query has taken over, whose checkpoint has the name of the version."""
    renamed(project, "numbers", *HISTORY, version=version)
    texts = relation(project, "texts")
    broker.logs["numbers_row_errors"] = [failed(n, query=name) for n, (name, _) in enumerate(HISTORY)]
    broker.logs["numbers_row_errors"] += [failed(7), failed(8, query="gone")]
    found = {
        entry.position: takers(entry, texts, readers_of(project, texts)) for entry in entries(project, texts).records
    }
    assert found == {"0": (), "1": (), "7": (), "8": ("numbers",)}


def test_a_former_name_of_two_queries_is_that_of_neither(
    compiled: Callable[[str], LoadedProject], broker: Broker
) -> None:
    project = compiled(OTHER_READER)
    renamed(project, "numbers", ("figures", "numbers"))
    renamed(project, "others", ("figures", "others"))
    texts = relation(project, "texts")
    broker.logs["numbers_row_errors"] = [failed(7, query="figures")]
    (entry,) = entries(project, texts).records
    assert takers(entry, texts, readers_of(project, texts)) == ("numbers", "others")


def renamed(project: LoadedProject, name: str, *history: tuple[str, str], version: int = 1) -> None:
    """A job of this name whose history has these renames."""
    control = Control.open(project.settings, environment={})
    control.ensure(project, [name])
    with control.journal.write() as connection:
        job = rows.jobs(connection, [name])[name]
        rows.delete_job(connection, job.name)
        identity = history[0][0]
        own = replace(job, identity=identity) if version == 1 else replace(job, version=version)
        kept = replace(job, name=f"{name}@1", query=name, identity=identity, role="kept")
        rows.insert_jobs(connection, [own] if version == 1 else [own, kept])
        rows.add_transitions(
            connection,
            [Transition(name, at, "desired", "", "", f"renamed from {old}") for at, (old, _) in enumerate(history)],
        )
    control.journal.close()


def test_records_that_cannot_be_decoded_may_be_taken_by_queries_that_read_less(
    compiled: Callable[[str], LoadedProject],
) -> None:
    project = compiled("CREATE STREAM amounts WITH ('store' = 'k') AS SELECT amount FROM orders;")
    orders = relation(project, "orders")
    readers = readers_of(project, orders)
    for value, expected in ((b"{", ()), (b'{"id": 1, "amount": "x"}', ()), (b'{"id": "x", "amount": 1}', ("amounts",))):
        entry = replace(ENTRY, by=frozenset({("ids", "undecodable"), ("more", "undecodable")}), came=value)
        assert takers(entry, orders, readers) == expected


def test_a_rule_of_the_relation_leaves_a_record_out_of_all_queries_but_those_of_other_relations(
    compiled: Callable[[str], LoadedProject],
) -> None:
    project = compiled(
        "CREATE STREAM raw (id INTEGER) WITH ('store' = 'k', 'topic' = 'orders', 'value.format' = 'json');"
        "CREATE STREAM raw_ids WITH ('store' = 'k') AS SELECT id FROM raw;"
    )
    orders = relation(project, "orders")
    assert takers(ENTRY, orders, readers_of(project, orders)) == ("raw_ids",)


def late(offset: int, **changes: Any) -> bytes:
    row = {"id": 7, "late_query": "q", "record_store": "k", "record_entity": "times", "record_partition": "0"}
    return json.dumps(
        row | {"record_offset": str(offset), "record_time": "1970-01-01 00:00:01.500Z"} | changes
    ).encode()


def test_a_late_row_is_found_again_and_goes_back_with_a_new_time(
    compiled: Callable[[str], LoadedProject], broker: Broker
) -> None:
    project = compiled(LATE.format("TUMBLE", "times", "", "late"))
    times = relation(project, "times")
    broker.logs["late"] = [
        late(1),
        late(2, late_query=None, record_partition=None, record_store=None),  # from before the columns were added
        late(3, record_entity="stamps", late_query="other"),
    ]
    broker.topic = {("0", "1"): RawRecord("0", "1", 1_500, b"k", b'{"id": 7}')}
    contents = entries(project, times)
    (entry,) = contents.records
    assert (entry.value, entry.reason, entry.by) == (b'{"id": 7}', "late for its window", frozenset({("q", "late")}))
    assert contents.without_record == {"late": 1}
    redrive(project, times, [entry], {}, dry=False, clock=CLOCK)
    assert [(r.partition, r.timestamp_millis, r.key) for r in broker.sent_records] == [("0", None, b"k")]


def test_a_row_late_by_a_column_goes_back_only_with_another_value(
    compiled: Callable[[str], LoadedProject], broker: Broker
) -> None:
    project = compiled(LATE.format("TUMBLE", "stamps", "", "late"))
    stamps = relation(project, "stamps")
    entry = replace(FAILED, query="q", by=frozenset({("q", "late")}))
    with pytest.raises(DsError, match="event time is the column at") as caught:
        redrive(project, stamps, [entry], {}, dry=False, clock=CLOCK)
    assert caught.value.condition == "REDRIVE_LATE_AGAIN"
    redrive(project, stamps, [replace(entry, value=b'{"at": 9}', repaired=True)], {}, dry=False, clock=CLOCK)
    assert [record.timestamp_millis for record in broker.sent_records] == [1_000]


def test_a_row_that_is_late_for_some_of_its_windows_is_in_the_others(
    compiled: Callable[[str], LoadedProject], broker: Broker
) -> None:
    project = compiled(LATE.format("HOP", "times", ", ADVANCE BY 10 SECONDS", "late"))
    entry = replace(FAILED, query="q", by=frozenset({("q", "late")}))
    (hindrance,) = redrive(project, relation(project, "times"), [entry], {}, dry=True, clock=CLOCK).hindrances
    assert (hindrance.condition, hindrance.params["queries"]) == ("REDRIVE_WOULD_DOUBLE", ["q"])
    assert not broker.opened


@pytest.mark.parametrize(("source", "log"), [("times", "nameless"), ("named", "named_late")])
def test_late_rows_without_their_place_are_refused(
    source: str, log: str, compiled: Callable[[str], LoadedProject], broker: Broker
) -> None:
    """Also where a column of the source has the name of one that would say it."""
    project = compiled(LATE.format("TUMBLE", source, "", log))
    with pytest.raises(DsError, match=f"{log} does not identify the records") as caught:
        entries(project, relation(project, source))
    assert caught.value.condition == "REDRIVE_REFUSED"
    assert not broker.sent_records


def test_rows_of_a_result_are_found_through_its_source(
    compiled: Callable[[str], LoadedProject], broker: Broker
) -> None:
    project = compiled(
        "CREATE STREAM filled (id INTEGER, CONSTRAINT small CHECK (id < 5) ON VIOLATION QUARANTINE)"
        "  WITH ('store' = 'k', 'topic' = 'filled', 'value.format' = 'json');"
        "INSERT INTO filled SELECT id FROM plain QUERY WITH ('query.name' = 'fill');"
    )
    row = {"relation": "default.public.filled", "query": "fill", "reason": "violates small"}
    nowhere = dict.fromkeys(("partition", "store", "entity", "record_time", "key"))
    broker.logs["filled_quarantine"] = [
        failed(1, **row, entity="plain"),
        failed(2, **row | nowhere),
    ]
    broker.topic = {("0", "1"): RawRecord("0", "1", 1_500, b"k", b'{"id": 7}')}
    of_result = entries(project, relation(project, "filled"))
    assert (of_result.records, of_result.without_record, of_result.elsewhere) == ((), {"fill": 1}, {"k.plain": 1})
    of_source = entries(project, relation(project, "plain"))
    (entry,) = of_source.records
    assert (entry.value, entry.by) == (b'{"id": 7}', frozenset({("fill", "failed")}))
    assert of_source.without_record == {"fill": 1}
