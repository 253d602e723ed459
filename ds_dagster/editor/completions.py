"""What may be written at a place: relations after FROM, columns of the sources, functions, properties, keywords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ds_dagster.catalog.declaring.stores import store_types
from ds_dagster.catalog.properties.spec import Place, PropertySpec, property_index
from ds_dagster.catalog.relation import Relation
from ds_dagster.editor.hovers import function_text, property_text, relation_text
from ds_dagster.editor.project import Snapshot
from ds_dagster.editor.words import Word, statement_at, words_of
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.sql.cursor import RESERVED
from ds_dagster.sql.generator import name_text
from ds_dagster.stores.registry import KINDS

CandidateKind = Literal["relation", "column", "function", "property", "store", "keyword", "value"]
BEFORE_RELATION = frozenset({"from", "join", "into"})
WINDOWS = frozenset({"tumble", "hop", "cumulate", "session"})
OPENINGS = (
    "CREATE STREAM", "CREATE CHANGELOG", "CREATE MATERIALIZED VIEW", "CREATE TABLE", "CREATE STORE", "CREATE DATABASE",
    "CREATE SCHEMA", "CREATE SCHEMA_REGISTRY", "CREATE SECRET", "CREATE DESCRIPTOR_SOURCE", "CREATE FUNCTION",
    "CREATE FUNCTION_SOURCE", "CREATE COMPUTE_POOL", "INSERT INTO", "BEGIN APPLICATION", "END APPLICATION",
    "USE DATABASE", "USE SCHEMA", "USE STORE",
)  # fmt: skip
"""First words of statements in files."""
PLACES: Mapping[tuple[str, ...], Place] = {
    ("create", "store"): "store",
    ("update", "store"): "store",
    ("create", "schema_registry"): "registry",
    ("create", "secret"): "secret",
    ("create", "descriptor_source"): "descriptor_source",
    ("create", "function_source"): "function_source",
    ("create", "function"): "function",
    ("create", "compute_pool"): "compute_pool",
}
"""First words of a statement → the place of its WITH clause."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One completion.

    Attributes:
        text: to insert.
        kind: of the thing.
        detail: short text beside it, such as a type.
        documentation: Markdown.
    """

    text: str
    kind: CandidateKind
    detail: str = ""
    documentation: str = ""


def candidates_at(snapshot: Snapshot, file: str, offset: int) -> tuple[Candidate, ...]:
    """What may be written at an offset of a file. Editors filter by the letters that are there already."""
    words = words_of(snapshot.texts.get(file, ""))
    if any(word.kind == "comment" and word.start < offset <= word.end for word in words):
        return ()
    statement = statement_at(words, offset)
    before = [word for word in statement if word.end <= offset or (word.kind == "text" and word.start < offset)]
    if before and before[-1].kind == "text" and not (before[-1].is_closed and before[-1].end <= offset):
        return tuple(_in_quotes(snapshot, statement, before[:-1]))
    if before and before[-1].is_name and before[-1].end == offset:
        before = before[:-1]
    return tuple(_outside(snapshot, statement, before))


def _outside(snapshot: Snapshot, statement: Sequence[Word], before: Sequence[Word]) -> Iterator[Candidate]:
    last = [word.value for word in before[-2:]]
    sources = tuple(_sources(snapshot, statement))
    if last[-1:] == ["."] and len(before) > 1:
        yield from _columns_of(relation for name, relation in sources if name == before[-2].value)
        yield from _relations(snapshot, before[-2].value)
    elif last and (last[-1] in BEFORE_RELATION or (last[-1] == "(" and last[0] in WINDOWS)):
        yield from _relations(snapshot)
        yield from (Candidate(name.upper(), "keyword") for name in sorted(WINDOWS) if last[-1] != "(")
    elif not before:
        yield from (Candidate(words, "keyword") for words in OPENINGS)
    else:
        yield from _columns_of(relation for _, relation in sources)
        yield from (
            Candidate(function.name, "function", function.kind, function_text(function))
            for function in FUNCTIONS.values()
        )
        yield from (Candidate(word.upper(), "keyword") for word in sorted(RESERVED))


def _relations(snapshot: Snapshot, schema: str = "") -> Iterator[Candidate]:
    """Relations by their shortest name; ``schema``: those of this schema alone."""
    if snapshot.loaded is None:
        return
    settings = snapshot.loaded.settings
    for name, relation in snapshot.loaded.catalog.relations.items():
        if schema and name.schema != schema:
            continue
        is_near = schema or (name.database, name.schema) == (settings.database, settings.schema)
        short = snapshot.relation((name.name,)) is relation
        text = name_text(name.name) if is_near or short else ".".join(map(name_text, name.parts))
        yield Candidate(text, "relation", relation.kind.replace("_", " "), relation_text(snapshot, relation))


def _columns_of(relations: Iterator[Relation]) -> Iterator[Candidate]:
    for relation in {relation.name: relation for relation in relations}.values():
        for column in relation.columns:
            yield Candidate(name_text(column.name), "column", f"{column.type}  {relation.name.name}")


def _sources(snapshot: Snapshot, statement: Sequence[Word]) -> Iterator[tuple[str, Relation]]:
    """(name or alias, relation) of the relations that a statement reads, as far as it is written."""
    place = 0
    while place < len(statement):
        word = statement[place]
        place += 1
        if word.value not in BEFORE_RELATION:
            continue
        if place + 1 < len(statement) and statement[place].value in WINDOWS and statement[place + 1].written == "(":
            place += 2
        path, place = _path_from(statement, place)
        relation = snapshot.relation(path) if path else None
        if relation is None:
            continue
        yield path[-1], relation
        place += place < len(statement) and statement[place].value == "as"
        if place < len(statement) and statement[place].is_name and statement[place].value not in RESERVED:
            yield statement[place].value, relation


def _path_from(statement: Sequence[Word], place: int) -> tuple[tuple[str, ...], int]:
    path: list[str] = []
    while place < len(statement) and statement[place].is_name:
        path.append(statement[place].value)
        if place + 1 >= len(statement) or statement[place + 1].written != ".":
            return tuple(path), place + 1
        place += 2
    return tuple(path), place


def _in_quotes(snapshot: Snapshot, statement: Sequence[Word], before: Sequence[Word]) -> Iterator[Candidate]:
    """Names of properties, or the values of one, inside of single quotes in a WITH clause."""
    is_value = bool(before) and before[-1].written == "="
    index = property_index(KINDS)
    if is_value and len(before) > 1:
        spec = index.find(before[-2].value.lower())
        if spec and spec.name == "type" and _place(statement, before) == "store":
            yield from (Candidate(name, "value") for name in store_types(KINDS))
        yield from _values(snapshot, spec) if spec else ()
        return
    if not any(word.value == "with" for word in before):
        return
    for name in index.names_at(_place(statement, before), None):
        spec = index.find(name) or next((family for family in index.prefixes if family.name == name), None)
        if spec is not None and not spec.not_yet:
            yield Candidate(name.removesuffix("*"), "property", spec.type, property_text(spec))


def _values(snapshot: Snapshot, spec: PropertySpec) -> Iterator[Candidate]:
    if spec.name == "store" and snapshot.loaded is not None:
        stores = snapshot.loaded.catalog.stores.values()
        yield from (Candidate(store.name, "store", store.kind) for store in stores if store.span.file in snapshot.texts)
    yield from (Candidate(choice, "value") for choice in spec.choices)


def _place(statement: Sequence[Word], before: Sequence[Word]) -> Place:
    """The place of the WITH clause in which the cursor is."""
    words = [word.value for word in before]
    head = PLACES.get(tuple(word.value for word in statement[:2]))
    if head is not None:
        return head
    opening = len(words) - 1 - words[::-1].index("with")
    if opening and words[opening - 1] == "query":
        return "query"
    if "from" in words[:opening]:
        return "source"
    is_select = any(word.value == "as" for word in statement) and any(word.value == "select" for word in statement)
    return "sink" if is_select else "relation"
