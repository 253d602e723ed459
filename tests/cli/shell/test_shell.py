"""The interactive shell on a terminal of its own: completion, statements over several lines, history, its ends."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from ds_dagster.cli.shell.output import SqlOutput
from ds_dagster.cli.shell.psql import as_statement, timing_after
from ds_dagster.cli.shell.session import Session
from ds_dagster.cli.shell.shell import SqlCompleter
from ds_dagster.settings import load_settings
from ds_dagster.sql.command_script import is_complete

SECONDS = 30.0
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>])")


@dataclass
class Terminal:
    """A process on a pseudo-terminal; what it shows is read until it shows what is waited for."""

    process: subprocess.Popen[bytes]
    master: int
    shown: str = ""
    seen: int = field(default=0)

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Text up to and with the next match."""
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            match = re.search(pattern, self.shown[self.seen :])
            if match:
                found = self.shown[self.seen : self.seen + match.end()]
                self.seen += match.end()
                return found
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.shown += _ESCAPES.sub("", os.read(self.master, 65536).decode("utf-8", "replace"))
                except OSError:
                    break
        raise AssertionError(f"{pattern!r} was not shown:\n{self.shown[self.seen :]}")


@pytest.fixture
def terminal(project: Path) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    command = [sys.executable, "-c", "from ds_dagster.cli.main import main; main()", "sql", "--project", str(project)]
    environment = {**os.environ, "TERM": "xterm", "DS_PROFILE": "none", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=project, env=environment, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(10)
        os.close(master)


@pytest.mark.servers
def test_a_statement_over_lines_completion_and_history(terminal: Terminal, project: Path) -> None:
    terminal.wait_for(r"d @ kafka>")
    terminal.send("LIST\r")
    terminal.wait_for(r"\.\.\.>")
    terminal.send("DATABASES;\r")
    assert "NAME" in terminal.wait_for(r"1 row")
    terminal.send("DESCRIBE QUERY vis\t")
    terminal.wait_for(r"visits")
    terminal.send(";\r")
    assert "d.public.visits" in terminal.wait_for(r"attempts\s+0")
    terminal.send("LIST NOTHING;\r")
    terminal.wait_for(r"LIST_UNKNOWN")
    terminal.send("\\d visits\r")
    terminal.wait_for(r"MATERIALIZED|materialized")
    terminal.send("USE STORE warehouse;\r")
    terminal.wait_for(r"d @ warehouse>")
    terminal.send("CREATE STREAM s (x INTEGER)\x03")
    terminal.wait_for(r"warehouse>")
    terminal.send("\\timing\r")
    terminal.wait_for(r"timing is on")
    terminal.send("SELECT 1 AS n;\r")
    terminal.wait_for(r"time: [\d.,]+ ms")
    terminal.send("\\timing off\r")
    terminal.wait_for(r"timing is off")
    terminal.send("exit\r")
    assert terminal.process.wait(SECONDS) == 0
    history = (project / ".ds" / "sql_history").read_text(encoding="utf-8")
    assert "+LIST\n+DATABASES;" in history
    assert (project / ".ds" / "sql_history").stat().st_mode & 0o077 == 0, "nobody else reads it"


@pytest.mark.servers
def test_end_of_input_leaves(terminal: Terminal) -> None:
    terminal.wait_for(r"d @ kafka>")
    terminal.send("\x04")
    assert terminal.process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "LIST"),
        ("de", "DESCRIBE"),
        ("LIST EN", "ENTITIES"),
        ("LIST STORES; DESCRIBE ENTITY cl", "clicks"),
        ("SELECT * FROM vi", "visits"),
        ("LIST ENTITIES IN STORE wa", "warehouse"),
        ("TERMINATE QUERY pa", "paid"),
        ("USE ", "STORE"),
        ("DESCRIBE vis", "visits"),
    ],
)
def test_what_is_offered(project: Path, text: str, expected: str) -> None:
    completer = SqlCompleter(Session(load_settings(project), SqlOutput()))
    found = [item.text for item in completer.get_completions(Document(text), CompleteEvent(completion_requested=True))]
    assert expected in found


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("LIST", False),
        ("LIST STORES;", True),
        ("LIST STORES; -- done", True),
        ("LIST STORES -- done;", False),
        ("SELECT ';", False),
        ("SELECT ';' FROM x", False),
        ("SELECT ';' FROM x ; ", True),
        ("/* ;", False),
        ("-- only a comment", True),
        ("BEGIN APPLICATION a INSERT INTO x SELECT * FROM y;", False),
        ("DESCRIBE BEGIN APPLICATION a INSERT INTO x SELECT * FROM y;", False),
        ("DESCRIBE BEGIN APPLICATION a INSERT INTO x SELECT * FROM y; END APPLICATION", False),
        ("DESCRIBE BEGIN APPLICATION a INSERT INTO x SELECT * FROM y; END APPLICATION;", True),
    ],
)
def test_when_enter_executes(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize("is_timed", [True, False])
def test_timing_is_switched_or_set(is_timed: bool) -> None:
    assert timing_after("\\timing", is_timed) is not is_timed
    assert timing_after("\\timing on", is_timed) is True
    assert timing_after("\\timing  off", is_timed) is False
    assert timing_after("\\timing maybe", is_timed) is None


@pytest.mark.parametrize(
    ("text", "statement"),
    [("\\d", "LIST RELATIONS;"), ("\\d visits", "DESCRIBE RELATION visits;"), ("\\dn;", "LIST SCHEMAS;")],
)
def test_commands_of_psql_are_statements(text: str, statement: str) -> None:
    assert as_statement(text) == statement


@pytest.mark.parametrize("text", ["LIST STORES;", "\\x", "\\dt visits", "SELECT '\\d' FROM t;"])
def test_any_other_text_stays(text: str) -> None:
    assert as_statement(text) == text
