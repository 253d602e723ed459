"""``ds redrive``: what it reports, exports, refuses and notes in the history, without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_dagster.catalog.entity import RawRecord
from tests.command_line import Ds
from tests.questions.upkeep.left_out_records import Broker, failed

SQL = """
CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM texts (id INTEGER, a VARCHAR) WITH ('store' = 'kafka', 'topic' = 'texts', 'value.format' = 'json',
  'topic.partitions' = 1, 'topic.replicas' = 1);
CREATE STREAM numbers AS SELECT id, CAST(a AS INTEGER) AS n FROM texts
  QUERY WITH ('row.error.handling' = 'IGNORE_AND_LOG');
"""


@pytest.fixture
def logs(project: Path, broker: Broker) -> Broker:
    """Two rows that failed, one of them without a record; another one whose record is gone."""
    (project / "sql" / "all.sql").write_text(SQL)
    place = {"relation": "d.public.texts", "query": "numbers", "store": "kafka"}
    nowhere = dict.fromkeys(("partition", "store", "entity", "record_time", "key"))
    broker.logs["numbers_row_errors"] = [failed(1, **place), failed(2, **place | nowhere), failed(3, **place)]
    broker.topic = {("0", "1"): RawRecord("0", "1", 1_500, b"k", b'{"id": 7, "a": "x"}')}
    return broker


def test_a_dry_run_shows_what_hinders_the_run(ds: Ds, logs: Broker) -> None:
    outcome = ds("redrive", "texts", "--dry-run", "--json")
    assert outcome.code == 0
    assert [entry["offset"] for entry in outcome.json["sent"]] == ["1", "3"]
    assert [problem["condition"] for problem in outcome.json["hindrances"]] == ["REDRIVE_RECORD_GONE"]
    assert outcome.json["without_record"] == {"numbers": 1}
    shown = ds("redrive", "texts", "--dry-run")
    assert "1 of the records to send are no longer in texts, the first is 0/3" in shown.err
    assert "1 rows that numbers left out do not name their record" in shown.err
    assert not logs.opened


def test_records_are_exported_repaired_and_sent_once(ds: Ds, logs: Broker, tmp_path: Path) -> None:
    file = tmp_path / "repairs.jsonl"
    assert ds("redrive", "texts", "--export", str(file)).code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["value"] is None, line["row"]) for line in lines] == [(n, '{"id":7,"a":"x"}') for n in (False, True)]
    file.write_text("".join(json.dumps({**line, "value": {"id": 7, "a": "1"}}) + "\n" for line in lines))
    outcome = ds("redrive", "texts", "--from", str(file), "--reason", "texts", "--json")
    assert [entry["repaired"] for entry in outcome.json["sent"]] == [True, True]
    assert [record.value for record in logs.sent_records] == [b'{"id": 7, "a": "1"}'] * 2
    again = ds("redrive", "texts", "--from", str(file), "--json")
    assert (again.json["sent"], again.json["sent_before"]) == ([], 2)


def test_a_file_that_cannot_be_written_is_named(ds: Ds, logs: Broker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = ds("redrive", "texts", "--export", str(tmp_path / "file" / "repairs.jsonl"))
    assert (outcome.code, "[RESULT_FILE_UNWRITABLE]" in outcome.err) == (1, True)


def test_records_that_another_query_took_need_consent(ds: Ds, logs: Broker, project: Path) -> None:
    with (project / "sql" / "all.sql").open("a") as sql:
        sql.write("CREATE STREAM others AS SELECT id FROM texts;")
    refused = ds("redrive", "texts", "--where", "\"offset\" = '1'", "--json")
    assert (refused.code, refused.conditions) == (1, ["REDRIVE_WOULD_DOUBLE"])
    sent = ds("redrive", "texts", "--where", "\"offset\" = '1'", "--allow", "duplicates", "--json")
    assert (sent.code, len(sent.json["sent"])) == (0, 1)
