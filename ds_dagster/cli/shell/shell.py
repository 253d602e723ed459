"""The interactive shell of ``ds sql``: history, completion, statements over several lines. prompt_toolkit edits the
lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent

from ds_dagster.cli.commands.sql import run_text
from ds_dagster.cli.output import note
from ds_dagster.cli.shell.psql import as_statement, timing_after
from ds_dagster.cli.shell.session import Session
from ds_dagster.errors import DsError
from ds_dagster.sql.command_script import is_complete
from ds_dagster.sql.generator import name_text
from ds_dagster.sql.grammar.command import LISTABLE, QUERY_PARTS

HISTORY = "sql_history"
GOODBYE = ("exit", "quit", r"\q")
HELP = ("help", "?", r"\h", r"\?")
HELP_TEXT = """\
LIST STORES | ENTITIES [IN path] [IN STORE s] | RELATIONS | QUERIES | FUNCTIONS | …;   DESCRIBE RELATION name;
DESCRIBE ENTITY path;   PRINT ENTITY path WITH ('from_beginning');   SELECT … FROM relation;
CREATE | UPDATE | DROP ENTITY path;   INSERT INTO ENTITY path VALUE('{"json": 1}');   GENERATE COLUMNS ENTITY path;
TERMINATE | RESTART QUERY name;   USE DATABASE | SCHEMA | STORE name;   DESCRIBE CREATE …;
\\timing [on | off] turns the time of each statement on or off.
A statement ends with ;   Ctrl-C cancels the input or the running statement, Ctrl-D or exit leaves."""
WORDS: tuple[str, ...] = (
    "LIST", "SHOW", "DESCRIBE", "PRINT", "SELECT", "CREATE", "UPDATE", "DROP", "INSERT INTO ENTITY", "GENERATE COLUMNS",
    "TERMINATE QUERY", "RESTART QUERY", "USE",
)  # fmt: skip
"""First words of statements."""
FOLLOWING: dict[str, tuple[str, ...]] = {
    "list": tuple(word.upper() for word in LISTABLE),
    "show": tuple(word.upper() for word in LISTABLE),
    "describe": ("ENTITY", "RELATION", "STORE", "QUERY", "CREATE", "INSERT INTO"),
    "print": ("ENTITY", "TOPIC"),
    "create": ("ENTITY",),
    "update": ("ENTITY",),
    "drop": ("ENTITY",),
    "columns": ("ENTITY",),
    "use": ("DATABASE", "SCHEMA", "STORE"),
    "query": tuple(part.upper() for part in QUERY_PARTS),
    "in": ("STORE",),
    "from": (),
}
"""Word → words that may follow it."""


class SqlCompleter(Completer):
    """Completes words of the grammar, and names of the project: relations, stores, entities of relations, queries."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Completions at the cursor."""
        word = document.get_word_before_cursor(WORD=True)
        before = document.text_before_cursor[: len(document.text_before_cursor) - len(word)]
        for candidate in self._candidates(before.rpartition(";")[2].lower().split()):
            if candidate.lower().startswith(word.lower()) and candidate != word:
                yield Completion(candidate, start_position=-len(word))

    def _candidates(self, words: list[str]) -> Iterator[str]:
        if not words:
            yield from WORDS
            return
        yield from FOLLOWING.get(words[-1], ())
        try:
            yield from self._names(words[-1])
        except DsError:
            return  # a project that does not load has no names; executing a statement reports why

    def _names(self, last: str) -> Iterator[str]:
        catalog = self._session.project().catalog
        if last == "store":
            yield from (name_text(name) for name in catalog.stores)
        elif last == "query":
            yield from (name_text(name) for name in self._session.project().queries)
        elif last in ("entity", "topic"):
            yield from dict.fromkeys(name_text(relation.entity) for relation in catalog.relations.values())
        elif last in ("from", "join", "relation", "columns", "describe", "into"):
            yield from (name_text(name.name) for name in catalog.relations)


def run_shell(session: Session) -> int:
    """Read and execute statements until Ctrl-D; mistakes are shown and do not end the shell. Returns the exit code."""
    note("statements end with ;  type help for a list, Ctrl-D to leave")
    prompts: PromptSession[str] = _prompts(session)
    while True:
        try:
            text = prompts.prompt(lambda: _prompt(session))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        word = text.strip().rstrip(";").lower()
        if word in GOODBYE:
            return 0
        if word in HELP:
            note(HELP_TEXT)
            continue
        if (is_timed := timing_after(word, session.is_timed)) is not None:
            session.is_timed = is_timed
            note(f"timing is {'on' if session.is_timed else 'off'}")
            continue
        try:
            run_text(session, "<input>", as_statement(text))
        except KeyboardInterrupt:
            continue


def _prompt(session: Session) -> str:
    store = session.context.store or session.settings.store
    database = session.context.database or session.settings.database
    return f"{database}{f' @ {store}' if store else ''}> "


def _prompts(session: Session) -> Any:
    history = session.settings.state / HISTORY
    history.parent.mkdir(parents=True, exist_ok=True)
    history.touch(mode=0o600)
    return PromptSession(
        history=_CarefulHistory(str(history)),
        completer=SqlCompleter(session),
        complete_while_typing=False,
        multiline=Condition(lambda: True),
        key_bindings=_keys(),
        prompt_continuation="...> ",
    )


class _CarefulHistory(FileHistory):
    """A history without statements that may contain secrets: those with INSERT INTO or a word such as ``password``."""

    def store_string(self, string: str) -> None:
        """Append a statement to the file, unless it may contain a secret."""
        if not any(word in string.lower() for word in ("secret", "password", "token", "passphrase", "insert into")):
            super().store_string(string)


def _is_command(text: str) -> bool:
    return timing_after(text.strip().lower(), False) is not None or as_statement(text) != text


def _keys() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        """Execute a complete statement, else insert a new line."""
        text = event.current_buffer.text
        if is_complete(text) or text.strip().lower() in (*GOODBYE, *HELP) or _is_command(text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    return bindings
