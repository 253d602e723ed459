"""Entries of row logs, their selection, and files of repairs, without a broker; and each record goes back once."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.redriving import RepairedRecord
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.questions.upkeep import redriving
from ds_dagster.questions.upkeep.redriving import LeftOut, entries, logs_of, redrive, repairs, to_line, where
from ds_dagster.settings import Settings

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
"""
ENTRY = LeftOut("ids", "0", "7", 1_000, None, b'{"id": 1, "amount": -1}', "violates positive")


@pytest.fixture
def project(tmp_path: Path) -> LoadedProject:
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="k")
    loaded = compile_texts([("a.sql", SQL)], settings)
    assert not loaded.errors, [problem.text() for problem in loaded.errors]
    return loaded


def relation(project: LoadedProject, name: str) -> Any:
    return next(r for r in project.catalog.relations.values() if r.name.name == name)


def logged(offset: int, value: bytes, **changes: Any) -> bytes:
    row = {"query": "ids", "relation": "default.public.orders", "store": "k", "entity": "orders"}
    row |= {"partition": "0", "offset": str(offset), "record_time": "1970-01-01 00:00:01.500Z"}
    row |= {"value": base64.b64encode(value).decode(), "reason": "violates positive"}
    return json.dumps(row | changes).encode()


@dataclass
class Broker:
    """Logs in memory, and a topic whose notes live with its records."""

    logs: dict[str, list[bytes]] = field(default_factory=dict)
    sent_records: list[RepairedRecord] = field(default_factory=list)
    fails_after: int = 10**9
    opened: int = 0

    def describe(self, entity: str) -> object:
        return entity if entity in self.logs else None

    def records(self, entity: str, **_: Any) -> Iterator[RawRecord]:
        return (RawRecord("0", str(n), 0, None, value) for n, value in enumerate(self.logs[entity]))

    def operations(self) -> Broker:
        return self

    def redriven(self, _entity: str) -> frozenset[str]:
        return self.sent()

    def redriver(self, _entity: str) -> Broker:
        self.opened += 1
        return self

    def sent(self) -> frozenset[str]:
        return frozenset(record.id for record in self.sent_records)

    def send(self, records: Sequence[RepairedRecord]) -> None:
        if len(self.sent_records) >= self.fails_after:
            raise ConnectionError
        self.sent_records += records

    def close(self) -> None:
        return


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    double = Broker()
    monkeypatch.setattr(redriving, "store_admin", lambda *_: double)
    return double


def test_logs_are_the_quarantine_and_those_of_the_readers(project: LoadedProject) -> None:
    logs = logs_of(project, relation(project, "orders"))
    assert [log.entity for log in logs] == ["orders_quarantine", "orders_bad_records"]


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
    first, second = entries(project, relation(project, "orders"))
    assert first == LeftOut("ids", "0", "3", 1_500, b"k", b'{"id": 3}', "violates positive")
    assert second == LeftOut("ids", "0", "1", 1_500, None, b"\xff\x00", "not JSON")


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


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["no JSON"], "JSONDecodeError"),
        (["[]"], "TypeError"),
        ([json.dumps({**json.loads(to_line(ENTRY)), "offset": "99"})], "no log of the relation"),
        ([to_line(ENTRY), to_line(ENTRY)], "there twice"),
        ([json.dumps({**json.loads(to_line(ENTRY)), "value": {"base64": "?"}})], "Error"),
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
    assert len(redrive(project, orders, selected, {}, dry=True).sent) == 5
    assert not broker.sent_records and not broker.opened  # a sender would end another one
    broker.fails_after = 4
    with pytest.raises(ConnectionError):
        redrive(project, orders, selected, {"by": "me"}, dry=False)
    broker.fails_after = 10**9
    outcome = redrive(project, orders, selected, {"by": "me"}, dry=False)
    assert (len(outcome.sent), len(outcome.before)) == (1, 4)
    assert [record.id for record in broker.sent_records] == [entry.id for entry in selected]
    assert json.loads(broker.sent_records[0].note)["by"] == "me"
    assert redrive(project, orders, selected, {}, dry=False).sent == ()


def test_a_store_without_transactions_is_refused(project: LoadedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = SimpleNamespace(operations=lambda: object(), close=lambda: None)
    monkeypatch.setattr(redriving, "store_admin", lambda *_: admin)
    with pytest.raises(DsError, match="no transaction") as caught:
        redrive(project, relation(project, "orders"), [ENTRY], {}, dry=False)
    assert caught.value.condition == "REDRIVE_REFUSED"


def test_a_repaired_record_goes_where_its_key_decides(project: LoadedProject, broker: Broker) -> None:
    moved = replace(ENTRY, position="8", key=b"k", repaired=True)
    redrive(project, relation(project, "orders"), [ENTRY, moved], {}, dry=False)
    assert [(r.partition, r.timestamp_millis) for r in broker.sent_records] == [(0, 1_000), (None, 1_000)]
