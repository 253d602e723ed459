"""The tutorial as its reader types it: commands, statements, files and answers of the page, in order, on a Kafka."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, ROOT
from tests.engines import SHORT_LIVED

PAGE = ROOT / "docs" / "tutorial" / "first-view.md"
NOT_TYPED = ("pip install",)
"""The wheel is installed by tests/test_packaging.py."""
SERVER = "dg dev"
"""Ends by Ctrl-C only; test_dagster_dev.py does what its reader then clicks."""
SECONDS = 240.0


class Reader:
    """Somebody with a shell, who reads the page from top to bottom."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.line = ""
        self.output = ""
        self.notes = ""
        self.file = Path()

    def types(self, block: str) -> None:
        for line in block.splitlines():
            if line.startswith(SERVER):
                self._serves(line)
            elif not line.startswith(NOT_TYPED):
                self.line = line
                self.output = self._run(line)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def _serves(self, line: str) -> None:
        """Dagster's UI comes up without a warning."""
        process = subprocess.Popen(
            ("timeout", str(int(SECONDS)), *line.split()),
            cwd=self.folder,
            env={name: value for name, value in self.environment.items() if name != "DAGSTER_HOME"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert process.stdout is not None
        shown = ""
        try:
            while (text := process.stdout.readline()) and "Serving dagster-webserver" not in text:
                shown += text
            assert text, shown
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=SECONDS)
        assert "Warning" not in shown, shown

    def _run(self, line: str) -> str:
        command = ("bash", "-c", f"{line}\nstatus=$?; pwd >&2; exit $status")
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        *notes, folder = done.stderr.splitlines()
        self.notes += "\n".join((*notes, ""))
        self.folder = Path(folder)
        return done.stdout

    def sees(self, answer: str) -> None:
        """The last command's answer becomes this one; a query needs a moment for a new record."""
        end = time.monotonic() + SECONDS
        while words(self.output) != words(answer):
            assert time.monotonic() < end, f"{self.line}\n{self.output}"
            time.sleep(1)  # a command of its own: more processor time than the record needs
            self.output = self._run(self.line)

    def writes(self, text: str) -> None:
        """Below what is in the file already."""
        with (self.folder / self.file).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


def words(text: str) -> list[str]:
    return text.split()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    somebody = Reader(tmp_path)
    yield somebody
    if (somebody.folder / "ds.toml").is_file():
        somebody.types("ds engine stop\nds down")


def test_a_reader_arrives_at_the_answers_of_the_page(reader: Reader) -> None:
    text, end, answer = PAGE.read_text(encoding="utf-8"), 0, ""
    for block in FENCE.finditer(text):
        prose, language, content = text[end : block.start()], block[3], block[4]
        end = block.end()
        if pasted := re.search(r"Paste it into a file `([^`]+)`", prose):
            reader.file = Path(pasted[1])
            assert "Add `'timestamp' = 'viewtime'` to its `WITH`" in prose
            reader.writes(answer.replace("WITH (", "WITH ('timestamp' = 'viewtime', "))
        if language == "sh":
            reader.types(content)
        elif language == "":
            reader.sees(content)
        elif "The answer is a statement" in prose:
            assert words(content) == words(reader.output)
            answer = content
        elif saved := re.search(r"Save this as `([^`]+)` and run `([^`]+)`", prose):
            reader.file = Path(saved[1])
            reader.writes(content)
            reader.types(saved[2])
        else:
            assert "Add this below it" in prose
            reader.writes(content)
        if "ds engine stop" in content:
            assert "ds: stopping page_counts; each ends its batch first\nds: page_counts: " in reader.notes
            assert "ds: page_counts: stopped\n" in reader.notes
            assert re.search(
                r"ds: engine (\w+): stopping, pid \d+; jobs end their batch first\nds: engine \1: stopped", reader.notes
            )
        if "ds init" in content:
            reader.file = Path("ds.toml")
            reader.writes(SHORT_LIVED)
