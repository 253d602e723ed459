"""Where things are: the statements of a file, the declaration of a name, the statements that use a relation."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types
from pygls.workspace import PositionCodec

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.editor.places import location_of, range_between, range_of
from ds_dagster.editor.project import Snapshot
from ds_dagster.editor.words import path_at, words_of


def symbols_of(snapshot: Snapshot, file: str, codec: PositionCodec) -> list[types.DocumentSymbol]:
    """The stores, relations and queries that a file declares, in its order; relations have their columns."""
    if snapshot.loaded is None:
        return []
    text, catalog = snapshot.texts.get(file, ""), snapshot.loaded.catalog
    symbols: list[types.DocumentSymbol] = []
    for store in catalog.stores.values():
        if store.span.file == file:
            spans = (store.origin.span, store.span)
            symbols.append(_symbol(store.name, store.kind, types.SymbolKind.Module, spans, text, codec))
    for relation in catalog.relations.values():
        if relation.span.file == file:
            symbols.append(_relation(relation, text, codec))
    for query in snapshot.loaded.queries.values():
        for part in query.parts:
            span = part.statement.origin.span
            if span.file == file and part.is_insert:
                detail = f"into {part.sink.name.name}"
                symbols.append(_symbol(part.name, detail, types.SymbolKind.Function, (span, span), text, codec))
    return sorted(symbols, key=lambda symbol: (symbol.range.start.line, symbol.range.start.character))


def _relation(relation: Relation, text: str, codec: PositionCodec) -> types.DocumentSymbol:
    detail = relation.kind.replace("_", " ")
    symbol = _symbol(
        relation.name.name, detail, types.SymbolKind.Class, (relation.origin.span, relation.span), text, codec
    )
    symbol.children = [
        types.DocumentSymbol(
            column.name, types.SymbolKind.Field, symbol.selection_range, symbol.selection_range, detail=str(column.type)
        )
        for column in relation.columns
    ]
    return symbol


def _symbol(
    name: str, detail: str, kind: types.SymbolKind, spans: tuple[Span, Span], text: str, codec: PositionCodec
) -> types.DocumentSymbol:
    statement, own = (range_of(span, text, codec) for span in spans)
    is_inside = (statement.start.line, statement.start.character) <= (own.start.line, own.start.character) and (
        own.end.line,
        own.end.character,
    ) <= (statement.end.line, statement.end.character)
    return types.DocumentSymbol(name, kind, statement, own if is_inside else statement, detail=detail)


def declaration_of(snapshot: Snapshot, file: str, offset: int, codec: PositionCodec) -> types.Location | None:
    """Where the relation or store is declared whose name is at an offset of a file."""
    span = _declared(snapshot, file, offset)
    return location_of(snapshot, span, codec) if span else None


def uses_of(snapshot: Snapshot, file: str, offset: int, codec: PositionCodec) -> list[types.Location]:
    """The places in queries that name the relation at an offset of a file."""
    relation = _relation_at(snapshot, file, offset)
    if relation is None or snapshot.loaded is None:
        return []
    uses = [location_of(snapshot, relation.span, codec)] if relation.span.file in snapshot.texts else []
    for name in snapshot.loaded.downstream.get(relation.name, ()):
        for part in snapshot.loaded.queries[name].parts:
            if any(other.name == relation.name for other in part.inputs):
                uses += _named_in(snapshot, part.statement.origin.span, relation, codec)
    return uses


def _named_in(snapshot: Snapshot, span: Span, relation: Relation, codec: PositionCodec) -> Iterator[types.Location]:
    text = snapshot.texts.get(span.file, "")
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: span.line - 1])) + span.column - 1
    end = sum(map(len, lines[: span.end_line or span.line]))
    for word in words_of(text):
        if word.is_name and word.value == relation.name.name and start <= word.start < end:
            address = (snapshot.root / span.file).as_uri()
            yield types.Location(address, range_between(text, word.start, word.end, codec))


def _declared(snapshot: Snapshot, file: str, offset: int) -> Span | None:
    relation = _relation_at(snapshot, file, offset)
    if relation is not None:
        return relation.span if relation.span.file in snapshot.texts else None
    name = _path(snapshot, file, offset)
    stores = snapshot.loaded.catalog.stores if snapshot.loaded else {}
    span = stores[name[0]].span if len(name) == 1 and name[0] in stores else None
    return span if span and span.file in snapshot.texts else None


def _relation_at(snapshot: Snapshot, file: str, offset: int) -> Relation | None:
    path = _path(snapshot, file, offset)
    return snapshot.relation(path) if path else None


def _path(snapshot: Snapshot, file: str, offset: int) -> tuple[str, ...]:
    words = words_of(snapshot.texts.get(file, ""))
    inside = next((word for word in words if word.kind == "text" and word.start < offset < word.end), None)
    return (inside.value,) if inside else tuple(part.value for part in path_at(words, offset))
