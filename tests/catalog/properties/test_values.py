"""References, files, composed values; nothing secret is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.catalog.properties.values import PropertyValue, parse_properties, resolve
from ds_dagster.errors import DsError
from ds_dagster.redaction import Redactor, redact
from ds_dagster.stores.registry import KINDS


def test_parts_are_quoted_where_they_are_resolved() -> None:
    user, password = PropertyValue("u"), PropertyValue("${P}", secret=True, quoted=True)
    line = PropertyValue(
        "",
        secret=True,
        parts=(PropertyValue('user="'), user, PropertyValue('" password="'), password, PropertyValue('";')),
    )
    assert resolve(line, {"P": 'a"b\\c'}, "store k") == 'user="u" password="a\\"b\\\\c";'
    assert line.is_reference
    assert line.shown() == "********"


def test_a_missing_reference_is_named() -> None:
    with pytest.raises(DsError) as problem:
        resolve(PropertyValue("${NOPE}"), {}, "store k")
    assert problem.value.params == {"name": "NOPE", "used_by": "store k"}
    assert resolve(PropertyValue("${NOPE:-x}y"), {}, "store k") == "xy"


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for value in (PropertyValue("", file=str(path)), PropertyValue("", file=str(path), entry="a")):
        with pytest.raises(DsError, match="VALUE_FILE_UNREADABLE"):
            resolve(value, {}, "store k")
    path.write_text("a = ${A}\nb: 'two'\n")
    assert resolve(PropertyValue("", file=str(path), entry="a"), {"A": "one"}, "store k") == "one"
    assert resolve(PropertyValue("", file=str(path), entry="b"), {}, "store k") == "two"


def test_properties_files() -> None:
    assert parse_properties("! x=1\n# y=2\n A.b = c=d \n\n“q” : `r`\nnothing\n") == {"a.b": "c=d", "q": "r"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:s3cret@h/db", "postgresql://u:********@h/db"),
        ("password=s3cret host=h", "password=******** host=h"),
        ('required username="u" password="s3c\\"ret";', 'required username="u" password="********";'),
        ("'kinesis.secret_access_key': 's3cret', x", "'kinesis.secret_access_key': '********', x"),
        ("key AKIAIOSFODNN7EXAMPLE!", "key ********!"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_a_redactor_remembers() -> None:
    redactor = Redactor()
    redactor.remember("plain-words")
    redactor.remember("abc")
    assert redactor("say plain-words abc") == "say ******** abc"
    assert "plain-words" not in repr(redactor)


def test_kinds_agree_with_the_protocol() -> None:
    assert {"KAFKA", "CONFLUENT_KAFKA", "KINESIS", "POSTGRESQL", "SQLITE", "MEMORY", "SNOWFLAKE"} <= set(KINDS)
    for kind in KINDS.values():
        assert kind.capabilities.not_yet or kind.capabilities.dagster_kinds
        names = [spec.name for spec in (*kind.store_properties, *kind.relation_properties)]
        assert len(names) == len(set(names)), kind.name
