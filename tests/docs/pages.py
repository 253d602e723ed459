"""The pages people read, and what stands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


FENCE = re.compile(r"^(?:<!-- refused: (\w+) -->\n)?( *)```(\w*)\n(.*?)^\2```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: language, text, the line it begins on, and the condition a comment in front of it names.

    ``<!-- refused: CONDITION -->`` in the line above says that the statement is shown because it is refused.
    """

    page: str
    language: str
    text: str
    line: int
    refused: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> dict[str, str]:
    """Path from the root → text of every Markdown page of the repository."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(found)}


def blocks(*languages: str) -> list[Block]:
    """Fenced blocks of these languages, in all pages."""
    found = []
    for page, text in pages().items():
        for match in FENCE.finditer(text):
            if match[3] in languages:
                line = text.count("\n", 0, match.start(3)) + 2
                found.append(Block(page, match[3], match[4], line, match[1] or ""))
    return found


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_code(text: str) -> Iterator[str]:
    """What stands in backticks outside of blocks."""
    yield from re.findall(r"`([^`\n]+)`", prose(text))


def command_lines(text: str) -> Iterator[str]:
    """Command lines of a shell block, without comments. In a block with prompts every other line is output."""
    prompted = any(line.startswith("$ ") for line in text.splitlines())
    for line in text.splitlines():
        command = line.removeprefix("$ ").split(" #")[0].strip()
        if command and not command.startswith("#") and (line.startswith("$ ") or not prompted):
            yield command
