"""A real editor's session: a client of the protocol talks to ``ds lsp`` over its standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from ds_dagster.cli.commands.project import lsp_command
from ds_dagster.errors import UserError
from tests.editor.conftest import CLICKS

SECONDS = 60.0
pytestmark = pytest.mark.sweep
Session = Callable[["Editor"], Awaitable[None]]
Talks = Callable[[Session], None]


class Editor(LanguageClient):
    """A client that keeps the mistakes and messages it was sent."""

    def __init__(self) -> None:
        super().__init__("test", "1")
        self.mistakes: dict[str, list[types.Diagnostic]] = {}
        self.messages: list[str] = []
        self.news = asyncio.Event()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.mistakes[params.uri] = list(params.diagnostics)
            self.news.set()

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def shown(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self.news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.wait_for(self.news.wait(), SECONDS)
            self.news.clear()

    def opened(self, path: Path, text: str) -> str:
        document = types.TextDocumentItem(path.as_uri(), "sql", 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(document))
        return path.as_uri()

    def typed(self, uri: str, version: int, text: str) -> None:
        document = types.VersionedTextDocumentIdentifier(version, uri)
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))


@pytest.fixture(scope="module")
def session() -> Iterator[Talks]:
    """Runs a conversation. A server takes a second to start: all conversations have one, each about a project of its
    own; the server ends with the editor."""
    editor, loop = Editor(), asyncio.new_event_loop()

    async def begin() -> None:
        await editor.start_io(sys.executable, "-c", "from ds_dagster.cli.main import main; main()", "lsp")
        await editor.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        editor.initialized(types.InitializedParams())

    async def end() -> None:
        await editor.shutdown_async(None)
        editor.exit(None)
        await editor.stop()

    def run(talk: Session) -> None:
        editor.messages.clear()
        loop.run_until_complete(talk(editor))

    loop.run_until_complete(begin())
    yield run
    loop.run_until_complete(end())
    loop.close()


def at(text: str, words: str) -> types.Position:
    """The position of the first of some words, in UTF-16 units."""
    before = text[: text.index(words)]
    line = before.count("\n")
    return types.Position(line, len(before.rpartition("\n")[2].encode("utf-16-le")) // 2)


def test_mistakes_appear_while_a_file_is_written_and_leave_again(session: Talks, root: Path) -> None:
    async def talk(editor: Editor) -> None:
        path = root / "sql" / "new.sql"
        wrong = "CREATE STREAM x AS SELECT '😀' AS smile, urll FROM clicks;"
        uri = editor.opened(path, wrong)
        await editor.until(lambda: bool(editor.mistakes.get(uri)))
        (mistake,) = editor.mistakes[uri]
        assert mistake.code == "UNKNOWN_COLUMN"
        assert "did you mean url" in mistake.message
        assert mistake.range == types.Range(at(wrong, "urll"), at(wrong, " FROM clicks"))
        assert not path.exists()
        editor.typed(uri, 2, wrong.replace("urll", "url"))
        await editor.until(lambda: not editor.mistakes[uri])

    session(talk)


def test_a_change_of_one_file_shows_what_it_breaks_in_another(session: Talks, root: Path) -> None:
    async def talk(editor: Editor) -> None:
        clicks = root / "sql" / "clicks.sql"
        reader = root / "sql" / "reader.sql"
        reader.write_text("CREATE STREAM r AS SELECT region FROM home;")
        uri = editor.opened(clicks, CLICKS)
        editor.typed(uri, 2, CLICKS.replace("u.region", "u.region AS place"))
        await editor.until(lambda: bool(editor.mistakes.get(reader.as_uri())))
        editor.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        await editor.until(lambda: not editor.mistakes[reader.as_uri()])

    session(talk)


def test_questions_of_an_editor(session: Talks, root: Path) -> None:
    async def talk(editor: Editor) -> None:
        text = "-- ünïcode 😀\nCREATE STREAM x AS SELECT  url FROM clicks;\n"
        uri = editor.opened(root / "sql" / "new.sql", text)
        place = types.TextDocumentIdentifier(uri), at(text, "clicks")
        hover = await editor.text_document_hover_async(types.HoverParams(*place))
        assert hover is not None
        assert "STREAM default.public.clicks" in str(hover.contents)
        found = await editor.text_document_definition_async(types.DefinitionParams(*place))
        assert isinstance(found, types.Location)
        assert (found.uri, found.range.start) == ((root / "sql" / "clicks.sql").as_uri(), at(CLICKS, "clicks (ts"))
        uses = await editor.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(include_declaration=True), *place)
        )
        assert {(use.uri.rpartition("/")[2], use.range.start.line) for use in uses or ()} == {
            ("clicks.sql", 1),
            ("clicks.sql", 5),
            ("new.sql", 1),
        }
        items = await editor.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier(uri), at(text, " url"))
        )
        assert isinstance(items, list)
        assert {"ts", "userid", "url"} <= {item.label for item in items}
        symbols = await editor.text_document_document_symbol_async(
            types.DocumentSymbolParams(types.TextDocumentIdentifier((root / "sql" / "clicks.sql").as_uri()))
        )
        assert [symbol.name for symbol in symbols or ()] == ["clicks", "users", "home"]
        edits = await editor.text_document_formatting_async(
            types.DocumentFormattingParams(types.TextDocumentIdentifier(uri), types.FormattingOptions(2, True))
        )
        assert [edit.new_text for edit in edits or ()] == [
            "-- ünïcode 😀\nCREATE STREAM x AS\n  SELECT url FROM clicks;\n"
        ]

    session(talk)


def test_a_file_that_does_not_parse_is_not_formatted_and_says_why(session: Talks, root: Path) -> None:
    async def talk(editor: Editor) -> None:
        uri = editor.opened(root / "sql" / "new.sql", "CREATE STREAM x AS SELCT url FROM clicks;")
        edits = await editor.text_document_formatting_async(
            types.DocumentFormattingParams(types.TextDocumentIdentifier(uri), types.FormattingOptions(2, True))
        )
        assert not edits
        await editor.until(lambda: any("not formatted" in message for message in editor.messages))

    session(talk)


def test_settings_that_are_wrong_are_told_at_the_open_file(session: Talks, root: Path) -> None:
    async def talk(editor: Editor) -> None:
        uri = editor.opened(root / "sql" / "stores.sql", (root / "sql" / "stores.sql").read_text())
        (root / "ds.toml").write_text("store = 1\n")
        editor.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
        await editor.until(lambda: bool(editor.mistakes.get(uri)))
        (root / "ds.toml").write_text('store = "k"\n')
        editor.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
        await editor.until(lambda: not editor.mistakes[uri])

    session(talk)


def test_without_the_package_it_says_which_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ds_dagster.editor.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    with pytest.raises(UserError) as refused:
        lsp_command.main([], standalone_mode=False)
    assert (refused.value.condition, refused.value.params["package"]) == ("EDITOR_PACKAGE_MISSING", "pygls")


def test_a_file_of_no_project_is_left_alone(session: Talks, tmp_path: Path) -> None:
    async def talk(editor: Editor) -> None:
        uri = editor.opened(tmp_path / "alone.sql", "SELCT 1;")
        place = types.TextDocumentIdentifier(uri), types.Position(0, 2)
        assert await editor.text_document_hover_async(types.HoverParams(*place)) is None
        assert uri not in editor.mistakes

    session(talk)
