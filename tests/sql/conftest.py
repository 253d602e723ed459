"""Reads the SQL fixtures: blocks that begin with ``-- case: title``; a test asks for them by its argument's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDERS = {"parse_case": "parse"}


@dataclass(frozen=True)
class Case:
    """One block; ``expected`` is what stands behind ``-- prints:``."""

    file: str
    title: str
    sql: str
    expected: str

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def cases(folder: str) -> list[Case]:
    found = []
    for path in sorted((FIXTURES / folder).glob("*.sql")):
        for block in re.split(r"(?m)^-- case: ", path.read_text("utf-8"))[1:]:
            title, _, body = block.partition("\n")
            sql, _, expected = body.partition("-- prints:\n")
            found.append(Case(path.name, title.strip(), sql.rstrip("\n"), expected.strip()))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, folder in FOLDERS.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, cases(folder), ids=str)
