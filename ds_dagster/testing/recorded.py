"""Real records as a test case: a repeatable sample of production, with columns masked."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import VARCHAR
from ds_dagster.errors import error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, slice_of
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.statements import CreateStore
from ds_dagster.testing.case import Send, SendTogether
from ds_dagster.testing.preview import Preview, Sampled, steps_of
from ds_dagster.testing.values import from_bytes

_DIGITS = 10


@dataclass(slots=True)
class Mask:
    """Replaces the values of columns by pseudonyms: equal values remain equal within one recording, so that joins and
    groups do not change. The values cannot be looked up, since the random salt is not kept.

    Attributes:
        columns: names of JSON members at the top level of keys and values.
        masked: columns masked so far.
    """

    columns: frozenset[str]
    masked: set[str] = field(default_factory=set)
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    def record(self, relation: Relation, record: RawRecord) -> RawRecord:
        """A record of a relation with masked columns.

        Raises:
            NotYetError: MASK_NOT_YET, for a masked column in a key that is not JSON if the column is not VARCHAR.
        """
        return replace(record, key=self._key(relation, record), value=self._object(record.value))

    def _key(self, relation: Relation, record: RawRecord) -> bytes | None:
        """A key is a JSON object, or the plain value of one column. A stream does not declare which column: a key that
        equals a masked value of the record is masked, too."""
        content, value = from_bytes(record.key), from_bytes(record.value)
        if content is None or isinstance(content, dict):
            return self._object(record.key)
        types = {column.name: column.type for column in relation.columns}
        names = self.columns & {*relation.key.columns, *relation.primary_key}
        if any(types[name] != VARCHAR for name in names):
            raise error("MASK_NOT_YET", relation=str(relation.name), columns=sorted(names))
        values = [value.get(name) for name in self.columns] if isinstance(value, dict) else []
        if not names and content not in values:
            return record.key
        self.masked |= names
        return str(self._value(content)).encode()

    def _object(self, part: bytes | None) -> bytes | None:
        content = from_bytes(part)
        names = self.columns & content.keys() if isinstance(content, dict) else frozenset()
        if not names:
            return part
        self.masked |= names
        values = {name: self._value(value) if name in names else value for name, value in content.items()}
        return json.dumps(values, ensure_ascii=False).encode()

    def _value(self, value: Any) -> Any:
        """A pseudonym: text and whole numbers keep their type, other values become NULL."""
        digest = hashlib.blake2b(json.dumps(value).encode(), key=self._salt).hexdigest()
        if isinstance(value, str):
            return f"masked-{digest[:_DIGITS]}"
        if isinstance(value, int) and not isinstance(value, bool):
            return int(digest, 16) % 10 ** min(len(str(abs(value))), _DIGITS)
        return None


def masked(samples: Sequence[Sampled], mask: Mask) -> tuple[Sampled, ...]:
    """The records with the values of the mask's columns replaced.

    Raises:
        UserError: MASK_UNKNOWN if a column is in no record.
        NotYetError: MASK_NOT_YET.
    """
    result = tuple(
        Sampled(sample.relation, tuple(mask.record(sample.relation, record) for record in sample.records))
        for sample in samples
    )
    missing = sorted(mask.columns - mask.masked)
    if missing and any(sample.records for sample in result):
        raise error("MASK_UNKNOWN", columns=missing)
    return result


def case_text(
    project: LoadedProject,
    query: BoundQuery,
    samples: Sequence[Sampled],
    previews: Sequence[Preview],
) -> str:
    """The case as YAML: the SQL that the query needs, the records as steps, the final rows of its relations."""
    statements = [
        piece.text for piece in slice_of(project, query) if not isinstance(parse_statement(piece.text), CreateStore)
    ]
    stores = {relation.store: "memory" for relation in (*query.inputs, *query.sinks, *query.logs)}
    content = {
        "title": f"{query.name} on recorded records",
        "sql": _Text("".join(f"{text};\n" for text in statements)),
        "stores": stores,
        "steps": [_step(step) for step in steps_of(samples)],
        "expect": [{"relation": str(preview.relation.name), "rows": list(preview.rows)} for preview in previews],
    }
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _step(step: Any) -> Mapping[str, Any]:
    if not isinstance(step, SendTogether):
        return {"advance": {"to": step.to}}
    return {"send": [_send(send) for send in step.sends]}


def _send(send: Send) -> Mapping[str, Any]:
    rows = [
        {"key": from_bytes(r.key), "value": from_bytes(r.value), "at": r.at, "partition": r.partition}
        for r in send.records
    ]
    return {"topic": send.topic, "store": send.store, "rows": rows}


class _Text(str):
    """Text that YAML shows in several lines."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002, PyYAML's signature
        """Write equal values out."""
        return True


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|"))
