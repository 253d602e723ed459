"""Case files: what they say, and that everything else is refused with its line."""

from __future__ import annotations

import pytest
import yaml

from ds_dagster.errors import DsError
from ds_dagster.testing import yaml_entries
from ds_dagster.testing.case import Advance, Crash, ExpectNow, Restart, Send, SendTogether, SentRecord
from ds_dagster.testing.format import load_case

HEAD = "title: t\nsql: SELECT 1;\nstores: {S: memory}\n"
SEND = HEAD + "steps:\n  - send:\n      topic: a\n"
CRASH = HEAD + "steps:\n  - crash: {at: before_commit}\n"


def test_every_key_of_the_format(write_case):
    case = load_case(
        write_case(
            HEAD
            + """
steps:
  - send:
      topic: a
      store: S
      partition: 3
      batches: 2
      rows: [{key: {k: 1}, at: 5, value: {x: 1.5, on: yes, d: 2024-01-01}}, {value: null}]
  - send: {topic: a, file: rows.jsonl}
  - advance: {to: -5}
  - restart: {}
  - send: {topic: a, rows: [{value: !!binary AAH/, partition: p}]}
  - crash: {at: after_commit}
  - expect: {relation: r, rows: []}
  - send: [{topic: a, rows: [{value: 1}]}, {topic: b, rows: []}]
expect:
  - {relation: a.b, ordered: true, columns: subset, history: true, rows: [{x: "1"}]}
  - {topic: t, records: [{value: "1", key: null}]}
  - {relation: r, file: golden/r.jsonl}
""",
            **{"rows.jsonl": '{"value": {"x": 1}, "at": 7}\n\n{"key": "k", "value": null, "partition": 4}\n'},
        )
    )
    assert case.stores == ("s",)
    first, from_file, advance, restart, binary, crash, look, together = case.steps
    assert isinstance(first, Send)
    assert (first.topic, first.store, first.batches) == ("a", "s", 2)
    # YAML's own dates and yes/no are texts here
    assert first.records == (
        SentRecord({"k": 1}, {"x": 1.5, "on": "yes", "d": "2024-01-01"}, 5, "3"),
        SentRecord(None, None, None, "3"),
    )
    assert isinstance(from_file, Send)
    assert from_file.records == (SentRecord(None, {"x": 1}, 7, "0"), SentRecord("k", None, None, "4"))
    assert isinstance(advance, Advance)
    assert advance.to == -5
    assert isinstance(restart, Restart)
    assert isinstance(binary, Send)
    assert binary.records == (SentRecord(None, b"\x00\x01\xff", None, "p"),)
    assert isinstance(crash, Crash)
    assert isinstance(together, SendTogether)
    assert [(send.topic, len(send.records)) for send in together.sends] == [("a", 1), ("b", 0)]
    assert crash.at == "after_commit"
    assert isinstance(look, ExpectNow)
    changes, raw, golden = case.expectations
    assert (changes.ordered, changes.columns, changes.history, changes.rows) == (True, "subset", True, ({"x": "1"},))
    assert (raw.topic, raw.columns) == ("t", "subset")
    assert golden.file is not None
    assert golden.file.name == "r.jsonl"


REFUSED = {
    "unknown key": ("title: t\nsqll: x\n", "CASE_KEY_UNKNOWN", 2),
    "no title": ("sql: x\n", "CASE_KEY_MISSING", 1),
    "key twice": ("title: t\ntitle: u\n", "CASE_KEY_TWICE", 2),
    "no YAML": ("title: t\n  : [\n", "CASE_UNREADABLE", 2),
    "empty": ("", "CASE_UNREADABLE", 1),
    "neither sql nor files": ("title: t\nexpect: []\n", "CASE_KEY_MISSING", 1),
    "nothing expected": (HEAD, "CASE_KEY_MISSING", 1),
    "real store": ("title: t\nsql: x\nstores:\n  s: kafka\n", "CASE_VALUE_INVALID", 4),
    "unknown step": (HEAD + "steps:\n  - sleep: {}\nexpect: []\n", "CASE_KEY_UNKNOWN", 5),
    "two steps in one": (HEAD + "steps:\n  - restart: {}\n    advance: {to: 1}\n", "CASE_VALUE_INVALID", 5),
    "send without topic": (HEAD + "steps:\n  - send: {rows: []}\n", "CASE_KEY_MISSING", 5),
    "send without rows": (HEAD + "steps:\n  - send: {topic: a}\n", "CASE_KEY_MISSING", 5),
    "row without value": (SEND + "      rows:\n        - {key: 1}\n", "CASE_KEY_MISSING", 8),
    "time as text": (HEAD + "steps:\n  - advance: {to: soon}\n", "CASE_VALUE_INVALID", 5),
    "batches of several topics": (
        HEAD + "steps:\n  - send: [{topic: a, rows: [], batches: 2}]\n",
        "CASE_VALUE_INVALID",
        5,
    ),
    "no batches": (HEAD + "steps:\n  - send: {topic: a, rows: [], batches: 0}\n", "CASE_VALUE_INVALID", 5),
    "crash point": (HEAD + "steps:\n  - crash: {at: noon}\n", "CASE_VALUE_INVALID", 5),
    "crash without step": (CRASH + "expect: {relation: r, rows: []}\n", "CASE_VALUE_INVALID", 5),
    "restart with key": (HEAD + "steps:\n  - restart: {at: 1}\n", "CASE_KEY_UNKNOWN", 5),
    "expect without rows": (HEAD + "expect:\n  - {relation: r}\n", "CASE_KEY_MISSING", 5),
    "expect two things": (HEAD + "expect:\n  - {relation: r, topic: t, rows: []}\n", "CASE_KEY_MISSING", 5),
    "rows of a topic": (HEAD + "expect:\n  - {topic: t, rows: []}\n", "CASE_KEY_MISSING", 5),
    "columns": (HEAD + "expect:\n  - {relation: r, rows: [], columns: some}\n", "CASE_VALUE_INVALID", 5),
    "ordered": (HEAD + "expect:\n  - {relation: r, rows: [], ordered: 1}\n", "CASE_VALUE_INVALID", 5),
    "row no mapping": (HEAD + "expect:\n  - {relation: r, rows: [1]}\n", "CASE_VALUE_INVALID", 5),
    "subset with uneven rows": (
        HEAD + "expect:\n  - {relation: r, columns: subset, rows: [{a: 1}, {b: 1}]}\n", "CASE_VALUE_INVALID", 5
    ),
    "error beside steps": (HEAD + "steps:\n  - restart: {}\nerror: {condition: X}\n", "CASE_VALUE_INVALID", 6),
    "error without condition": (HEAD + "error: {line: 1}\n", "CASE_KEY_MISSING", 4),
    "missing SQL file": ("title: t\nfiles:\n  - none.sql\nexpect: []\n", "CASE_UNREADABLE", 3),
    "missing data file": (HEAD + "steps:\n  - send: {topic: a, file: none.jsonl}\n", "CASE_UNREADABLE", 5),
    "base64": (HEAD + "steps:\n  - send: {topic: a, rows: [{value: !!binary '*'}]}\n", "CASE_VALUE_INVALID", 5),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_line(write_case, name):
    text, condition, line = REFUSED[name]
    with pytest.raises(DsError) as caught:
        load_case(write_case(text))
    assert caught.value.condition == condition
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == ("a.case.yaml", line)


@pytest.mark.parametrize(
    ("content", "line"), [('{"value": 1}\n{"valeu": 2}\n', 2), ("[1]\n", 1), ("{\n", 1), ('{"key": 1}\n', 1)]
)
def test_data_file_refused_with_its_line(write_case, content, line):
    path = write_case(HEAD + "steps:\n  - send: {topic: a, file: rows.jsonl}\n", **{"rows.jsonl": content})
    with pytest.raises(DsError) as caught:
        load_case(path)
    assert caught.value.condition == "CASE_DATA_INVALID"
    assert caught.value.params["line"] == line


TRICKY = """\
title: "ümlaut ☃ 😀"
plain: [yes, 007, 1.5e3, ~, null, true, "true", '1', a b]
block: |
  SELECT 1;

  -- "quoted"
folded: >-
  one
  two
bytes: !!binary AAH/
nested: {a: {b: [{c: 1}, {"d": ''}]}, "é": {x: 1}}
"""


def test_libyaml_and_the_parser_in_python_read_the_same(tmp_path, monkeypatch):
    path, empty = tmp_path / "a.yaml", tmp_path / "b.yaml"
    path.write_text(TRICKY, encoding="utf-8")
    empty.write_text("{a: , b: 1}", encoding="utf-8")  # they differ in the column of what is not there
    found = []
    for loader in (yaml.BaseLoader, getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
        monkeypatch.setattr(yaml_entries, "_LOADER", loader)
        found.append(yaml_entries.read_yaml(path, "a.yaml"))
        assert yaml_entries.read_yaml(empty, "b.yaml").plain() == {"a": None, "b": 1}
    assert found[0] == found[1]
    plain = found[0].plain()["plain"]
    assert plain == ["yes", "007", 1500.0, None, None, True, "true", "1", "a b"]
