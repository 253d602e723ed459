"""The text that an editor shows over a word: a relation, a column, a store, a function, or a property."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ds_dagster.catalog.properties.latency import mode_text
from ds_dagster.catalog.properties.spec import PropertySpec, property_index
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.editor.project import Snapshot
from ds_dagster.editor.words import Word, path_at, words_of
from ds_dagster.functions.function import Function
from ds_dagster.functions.table import ALIASES, FUNCTIONS
from ds_dagster.project.load import delivery_of, uri_of
from ds_dagster.sql.generator import name_text
from ds_dagster.stores.registry import KINDS


def hover_at(snapshot: Snapshot, file: str, offset: int) -> str:
    """Markdown about the word at an offset of a file; empty where there is nothing to say."""
    text = snapshot.texts.get(file, "")
    words = words_of(text)
    word = next((word for word in words if word.start <= offset < word.end), None)
    if word is None or word.kind in ("comment", "sign"):
        return ""
    if word.kind == "text":
        return _property(word.value) or _named(snapshot, (word.value,))
    is_call = next((other.written for other in words if other.start >= word.end), "") == "("
    path = tuple(part.value for part in path_at(words, offset))
    if is_call and len(path) == 1 and (shown := _call(snapshot, word)):
        return shown
    line = text.count("\n", 0, offset) + 1
    return _named(snapshot, path) or _column(snapshot, file, line, path[-1]) or _without_call(word)


def _call(snapshot: Snapshot, word: Word) -> str:
    function = function_named(word)
    if function is not None:
        return function_text(function)
    own = snapshot.loaded.catalog.functions.functions.get(word.value, ()) if snapshot.loaded else ()
    return "\n".join(["```sql", *(user.origin.text for user in own), "```"]) if own else ""


def function_named(word: Word) -> Function | None:
    """The function of a name as written."""
    name = word.written.upper()
    return FUNCTIONS.get(ALIASES.get(name, name))


def _without_call(word: Word) -> str:
    function = function_named(word)
    is_bare = function is not None and any(signature.least == 0 for signature in function.signatures)
    return function_text(function) if function is not None and is_bare else ""


def _named(snapshot: Snapshot, path: tuple[str, ...]) -> str:
    relation = snapshot.relation(path)
    if relation is not None and snapshot.loaded is not None:
        return relation_text(snapshot, relation)
    stores = snapshot.loaded.catalog.stores if snapshot.loaded else {}
    return _store(stores[path[0]]) if len(path) == 1 and path[0] in stores else ""


def relation_text(snapshot: Snapshot, relation: Relation) -> str:
    """A relation with its columns, its place and its queries."""
    project = snapshot.loaded
    assert project is not None
    kind = relation.kind.replace("_", " ").upper()
    lines = [f"{kind} {relation.name} ("]
    lines += [f"  {column_text(column)}," for column in relation.columns]
    keys = f"  PRIMARY KEY ({', '.join(map(name_text, relation.primary_key))})" if relation.primary_key else ""
    lines = [*lines, keys] if keys else [*lines[:-1], lines[-1].removesuffix(",")]
    facts = [f"store `{relation.store}`", f"`{relation.entity}`", f"format {relation.value_format}"]
    if relation.columns:
        facts.append(f"`{uri_of(project, relation)}`")
    if delivery := delivery_of(project, relation):
        facts.append(mode_text(relation) or delivery.replace("_", " "))
    time = f"`{relation.event_time.column}`" if relation.event_time.column else "the record's own"
    facts.append(f"event time: {time}")
    parts = ["\n".join(["```sql", *lines, ")", "```"])]
    if relation.origin.comment.description:
        parts.append(relation.origin.comment.description)
    parts.append(" · ".join(facts))
    if readers := project.downstream.get(relation.name, ()):
        parts.append("read by " + ", ".join(f"`{reader}`" for reader in readers))
    return "\n\n".join(parts)


def column_text(column: Column) -> str:
    """A column as in a declaration."""
    return f"{name_text(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}"


def _column(snapshot: Snapshot, file: str, line: int, name: str) -> str:
    part = snapshot.part_at(file, line)
    relations: Sequence[Relation] = (*part.inputs, part.sink) if part else _declared_at(snapshot, file, line)
    shown = [
        f"{column_text(column)}  -- {relation.name.name}"
        for relation in relations
        for column in relation.columns
        if column.name == name
    ]
    return "\n".join(["```sql", *shown, "```"]) if shown else ""


def _declared_at(snapshot: Snapshot, file: str, line: int) -> tuple[Relation, ...]:
    relations = snapshot.loaded.catalog.relations.values() if snapshot.loaded else ()
    return tuple(relation for relation in relations if relation.origin.span.has_line(file, line))


def _store(store: StoreDefinition) -> str:
    shown = [f"  '{name}' = {value.shown()}" for name, value in store.properties.items()]
    return "\n".join(["```sql", f"STORE {name_text(store.name)} ({store.kind})", *shown, "```"])


def function_text(function: Function) -> str:
    """A function with its signatures, its meaning and its examples."""
    names = ", ".join((function.name, *function.aliases))
    parts = ["\n".join(["```sql", *_signatures(function), "```"]), function.meaning]
    if function.examples:
        shown = [f"{example.call}  -- {example.gives}" for example in function.examples]
        parts.append("\n".join(["```sql", *shown, "```"]))
    if function.aliases:
        parts.append(f"names: {names}")
    return "\n\n".join(parts)


def _signatures(function: Function) -> Iterator[str]:
    for signature in function.signatures:
        result = f" → {signature.result}" if isinstance(signature.result, DataType) else ""
        yield f"{function.name}{signature}{result}"


def _property(name: str) -> str:
    spec = property_index(KINDS).find(name.lower())
    return property_text(spec) if spec else ""


def property_text(spec: PropertySpec) -> str:
    """A property with its type and its meaning."""
    choices = f": {', '.join(spec.choices)}" if spec.choices else ""
    parts = [f"**{spec.name}** ({spec.type}{choices})", spec.doc]
    if spec.aliases:
        parts.append("also " + ", ".join(f"`{alias}`" for alias in spec.aliases))
    if spec.not_yet:
        parts.append(f"refused for now: {spec.not_yet}")
    return "\n\n".join(parts)
