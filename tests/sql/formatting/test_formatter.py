"""The layout of SQL files: as the repository's own files have it, once and for all, and without a change of meaning."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ds_dagster.errors import InternalError, ProjectError
from ds_dagster.sql.formatting import formatter
from ds_dagster.sql.formatting.formatter import formatted
from ds_dagster.sql.source import SourceText, split
from tests.tables import check_every

ROOT = Path(__file__).parents[3]
OWN = [*sorted((ROOT / "sql").glob("*.sql")), *sorted((ROOT / "ds_dagster/local/template_files/sql").glob("*.txt"))]
_CASE = re.compile(r"^-- (?:case:.*|prints:)\n", re.MULTILINE)
WRITTEN, LAID_OUT = (
    Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("written.sql", "laid_out.sql")
)


COMMENTS = ["-- c\n", " /* b */ ", "\n-- own\n", "\n\n", "\n  /* x\n y */\n", "-- c\n-- d\n", "/*a*//*b*/"]


def fixtures() -> Iterator[str]:
    """Every statement of the fixtures."""
    for path in sorted((ROOT / "tests" / "fixtures").rglob("*.sql")):
        for part in _CASE.split(path.read_text(encoding="utf-8")):
            if part.strip() and len(part) < 3000:
                yield part.replace("‸", "")


def test_the_layout() -> None:
    assert formatted("a.sql", WRITTEN) == LAID_OUT
    assert formatted("a.sql", LAID_OUT) == LAID_OUT


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_files_of_the_project_and_of_new_ones_have_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert formatted(path.name, text) == text


@pytest.mark.sweep
def test_every_statement_of_the_fixtures_is_laid_out_once_however_it_is_written() -> None:
    chance = random.Random(7)
    texts = list(fixtures())
    count = 0

    def check(text: str) -> None:
        nonlocal count
        try:
            once = formatted("a.sql", text)
        except ProjectError:
            return
        count += 1
        assert formatted("a.sql", once) == once
        if count % 10 == 0 and "--" not in text and "/*" not in text and "PATTERN" not in text.upper():
            assert formatted("a.sql", respaced(text, chance)) == once

    check_every(texts, check)
    assert count > 300, "most can be read"


@pytest.mark.sweep
def test_comments_anywhere_stay_where_they_are() -> None:
    chance = random.Random(11)
    texts = [commented(text, chance) for text in chance.sample(list(fixtures()), 150)]

    def check(text: str) -> None:
        try:
            once = formatted("a.sql", text)
        except ProjectError:
            return
        assert formatted("a.sql", once) == once

    check_every(texts, check)


def commented(text: str, chance: random.Random) -> str:
    """The same tokens with comments before some of them."""
    pieces, end = [], 0
    for piece in split(SourceText("a.sql", text)):
        for token in piece.tokens:
            comment = chance.choice(COMMENTS) if chance.random() < 0.1 else ""
            pieces.append(text[end : token.start] + comment + text[token.start : token.end + 1])
            end = token.end + 1
    return "".join(pieces) + text[end:]


def respaced(text: str, chance: random.Random) -> str:
    """The same tokens with other blanks between those that have some."""
    pieces, end = [], 0
    for piece in split(SourceText("a.sql", text)):
        for token in piece.tokens:
            gap = text[end : token.start]
            pieces += [chance.choice([" ", "\n", "  \n\t "]) if gap and not gap.strip() and end else gap]
            pieces.append(text[token.start : token.end + 1])
            end = token.end + 1
    return "".join(pieces) + text[end:]


def test_line_ends_and_the_mark_of_the_encoding_stay() -> None:
    assert formatted("a.sql", "\ufeffuse store k;\r\nuse\r\nstore m;\r\n") == "\ufeffUSE STORE k;\r\nUSE STORE m;\r\n"
    assert formatted("a.sql", "") == ""
    assert formatted("a.sql", "-- only a comment") == "-- only a comment\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("inner", ["\n", "\r\n"])
def test_line_ends_inside_of_texts_and_comments_stay(end: str, inner: str) -> None:
    value, comment = f"'x{inner}y'", f"/* a{inner}b */"
    laid_out = formatted("a.sql", f"{comment}{end}create stream a as select {value} as c from t; -- z{end}")
    assert laid_out == f"{comment}{end}CREATE STREAM a AS{end}  SELECT {value} AS c FROM t;  -- z{end}"
    assert formatted("a.sql", laid_out) == laid_out


def test_typographic_quotes_stay_as_they_are() -> None:
    text = "CREATE STORE k WITH ('type' = KAFKA, 'uris' = ’x:1’);"
    assert "’x:1’" in formatted("a.sql", text)


@pytest.mark.parametrize("text", ["SELEC 1;", "CREATE STREAM s AS SELECT 'a;", "CREATE STREAM s AS SELECT 1;"])
def test_a_file_with_mistakes_is_not_laid_out(text: str) -> None:
    with pytest.raises(ProjectError):
        formatted("a.sql", text)


@pytest.mark.parametrize(
    "wrong",
    [
        "CREATE STREAM s AS SELECT b FROM t;\n-- x\n",
        'CREATE STREAM s AS SELECT "A" FROM t;\n-- x\n',
        "-- x\nCREATE STREAM s AS SELECT a FROM t;\n",
        "CREATE STREAM s AS SELECT a FROM t; 'x",
    ],
    ids=["token", "quotes", "comment", "lexical"],
)
def test_a_layout_that_means_something_else_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatter, "_laid_out", lambda _: wrong)
    with pytest.raises(InternalError):
        formatted("a.sql", "CREATE STREAM s AS SELECT a FROM t;\n-- x\n")
