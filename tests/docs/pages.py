"""The pages people read, and what stands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: language, text, and the line it begins on."""

    page: str
    language: str
    text: str
    line: int

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
        for match in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
            if match[2] in languages:
                line = text.count("\n", 0, match.start()) + 2
                found.append(Block(page, match[2], match[3], line))
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
