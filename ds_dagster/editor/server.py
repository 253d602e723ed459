"""The language server: pygls speaks the protocol, this module answers its requests from the newest compiled project.

A change is compiled a moment after the last keystroke, in a thread: a project of 1,000 relations takes seconds. Until
then, questions are answered from the result before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from ds_dagster.editor.completions import CandidateKind, candidates_at
from ds_dagster.editor.findings import findings_of
from ds_dagster.editor.hovers import hover_at
from ds_dagster.editor.places import offset_at, whole
from ds_dagster.editor.project import Snapshot, compiled, file_name, root_of
from ds_dagster.editor.symbols import declaration_of, symbols_of, uses_of
from ds_dagster.errors import DsError
from ds_dagster.sql.formatting.formatter import formatted
from ds_dagster.version import __version__

QUIET_SECONDS = 0.3
"""Time without a keystroke after which a project is compiled."""
ITEM_KINDS: Mapping[CandidateKind, types.CompletionItemKind] = {
    "relation": types.CompletionItemKind.Class,
    "column": types.CompletionItemKind.Field,
    "function": types.CompletionItemKind.Function,
    "property": types.CompletionItemKind.Property,
    "store": types.CompletionItemKind.Module,
    "keyword": types.CompletionItemKind.Keyword,
    "value": types.CompletionItemKind.Value,
}


@dataclass(slots=True)
class EditedProject:
    """A project with open files.

    Attributes:
        root: its folder.
        buffers: file → text of an open buffer.
        snapshot: the newest compiled state.
        reported: files whose mistakes the editor shows.
        waiting: the compilation that follows the last keystroke.
    """

    root: Path
    buffers: dict[str, str] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    reported: set[str] = field(default_factory=set)
    waiting: asyncio.Task[None] | None = None


class SqlServer(LanguageServer):
    """A language server for the SQL files of projects."""

    def __init__(self) -> None:
        super().__init__("ds-dagster", __version__)
        self.projects: dict[Path, EditedProject] = {}

    def place_of(self, uri: str) -> tuple[EditedProject, str] | None:
        """The project of a file and the file's name in it; None outside of projects."""
        path = path_of(uri)
        opened = next((p for p in self.projects.values() if file_name(p.root, path) in p.buffers), None)
        root = opened.root if opened else root_of(path)
        if root is None:
            return None
        project = self.projects.setdefault(root, EditedProject(root))
        return project, file_name(root, path)

    def current(self, uri: str) -> tuple[Snapshot, str] | None:
        """The compiled project of a file, with the newest texts of buffers, and the file's name; None outside of
        projects."""
        place = self.place_of(uri)
        if place is None:
            return None
        project, name = place
        snapshot = project.snapshot
        if snapshot is None:
            snapshot = project.snapshot = compiled(project.root, project.buffers)
        texts = {**snapshot.texts, **project.buffers}
        return Snapshot(snapshot.root, texts, snapshot.loaded, snapshot.diagnostics), name

    def changed(self, uri: str, text: str | None, pause: float = QUIET_SECONDS) -> None:
        """A buffer has a new text, or was closed (None): compile after a pause."""
        place = self.place_of(uri)
        if place is None:
            return
        project, name = place
        if text is None:
            project.buffers.pop(name, None)
        else:
            project.buffers[name] = text
        if project.waiting is not None:
            project.waiting.cancel()
        project.waiting = asyncio.ensure_future(self._compile(project, name, pause))

    async def _compile(self, project: EditedProject, name: str, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            project.snapshot = await asyncio.to_thread(compiled, project.root, dict(project.buffers))
        except Exception as problem:  # noqa: BLE001, the boundary: an exception that is not a condition is our bug
            text = f"ds-dagster failed at {name}: {type(problem).__name__}: {problem}"
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, text))
            return
        codec = self.workspace.position_codec
        findings = findings_of(project.snapshot, codec, otherwise=name)
        shown = {file for file, mistakes in findings.items() if mistakes}
        for file in sorted(shown | project.reported):
            uri = (project.root / file).as_uri()
            answer = types.PublishDiagnosticsParams(uri, findings.get(file, []))
            self.text_document_publish_diagnostics(answer)
        project.reported = shown

    def asked(self, uri: str, position: types.Position) -> tuple[tuple[Snapshot, str] | None, int]:
        """What :meth:`current` says about a file, and the offset of a position in its text."""
        source = self.workspace.get_text_document(uri).source
        return self.current(uri), offset_at(position, source, self.workspace.position_codec)


def path_of(uri: str) -> Path:
    """The file of a ``file:`` address."""
    return Path(unquote(urlsplit(uri).path))


def sql_server() -> SqlServer:
    """The server with all its requests."""
    server = SqlServer()
    _follow_buffers(server)
    _answer_questions(server)
    _offer_lists(server)
    return server


def _follow_buffers(server: SqlServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri, params.text_document.text, pause=0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.changed(uri, server.workspace.get_text_document(uri).source)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.changed(uri, server.workspace.get_text_document(uri).source, pause=0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.changed(params.text_document.uri, None, pause=0)


def _answer_questions(server: SqlServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        current, offset = server.asked(params.text_document.uri, params.position)
        text = hover_at(*current, offset) if current else ""
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> types.Location | None:
        current, offset = server.asked(params.text_document.uri, params.position)
        return declaration_of(*current, offset, server.workspace.position_codec) if current else None

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(params: types.ReferenceParams) -> list[types.Location]:
        current, offset = server.asked(params.text_document.uri, params.position)
        return uses_of(*current, offset, server.workspace.position_codec) if current else []

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", "'"]))
    def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        current, offset = server.asked(params.text_document.uri, params.position)
        candidates = candidates_at(*current, offset) if current else ()
        return [
            types.CompletionItem(
                label=candidate.text,
                kind=ITEM_KINDS[candidate.kind],
                detail=candidate.detail or None,
                documentation=types.MarkupContent(types.MarkupKind.Markdown, candidate.documentation)
                if candidate.documentation
                else None,
            )
            for candidate in candidates
        ]


def _offer_lists(server: SqlServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        current = server.current(params.text_document.uri)
        return symbols_of(*current, server.workspace.position_codec) if current else []

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        document = server.workspace.get_text_document(params.text_document.uri)
        try:
            text = formatted(document.filename or "", document.source)
        except DsError as problem:
            notice = types.ShowMessageParams(types.MessageType.Warning, f"not formatted: {problem}")
            server.window_show_message(notice)
            return []
        if text == document.source:
            return []
        return [types.TextEdit(whole(document.source, server.workspace.position_codec), text)]
