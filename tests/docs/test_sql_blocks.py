"""Every SQL block of every page compiles, or is refused with the condition that the page says."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from tests.docs.pages import Block, blocks
from tests.protobuf_files import proto_file

CONTEXT = (Path(__file__).parent / "context.sql").read_text(encoding="utf-8")
"""Stores and relations that pages speak of without showing their declaration."""
DEFINES = re.compile(
    r"CREATE\s+(?:STREAM|CHANGELOG|TABLE|MATERIALIZED VIEW|STORE|SCHEMA_REGISTRY|SECRET|FUNCTION|FUNCTION_SOURCE|"
    r"DESCRIPTOR_SOURCE|VIRTUAL STREAM|VIRTUAL CHANGELOG)\s+(?:IF NOT EXISTS\s+)?([\w.]+)",
    re.IGNORECASE,
)
KINDS = ("STREAM", "CHANGELOG", "MATERIALIZED VIEW")
RUN_ELSEWHERE = {"docs/how-to/add-a-store.md": "test_adding_a_store.py installs the page's own kind and runs it"}
"""Page → where its SQL is run instead."""
BLOCKS = [block for block in blocks("sql") if block.page not in RUN_ELSEWHERE]


def statements(text: str) -> list[str]:
    """Statements of a text of declarations; none of them holds a semicolon inside."""
    return [part.strip() + ";" for part in re.split(r";\s*$", text, flags=re.MULTILINE) if part.strip()]


def context(block: Block) -> str:
    """What a block may refer to: the shared declarations and the page's other blocks, less what it defines itself."""
    own = {name.lower() for name in DEFINES.findall(block.text)}
    others = [one.text for one in BLOCKS if one.page == block.page and one is not block and not one.refused]
    chosen: list[str] = []
    for statement in (found for text in (*others, CONTEXT) for found in statements(text)):
        names = {name.lower() for name in DEFINES.findall(statement)}
        if names and not names & own:
            own |= names
            chosen.append(statement)
    return "\n".join(chosen)


def compiled(text: str, around: str, folder: Path) -> list[str]:
    """Texts of the errors inside of ``text``, empty when it compiles."""
    settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="kafka")
    project = compile_texts([("page.sql", around), ("block.sql", text)], settings)
    return errors_of(project)


def errors_of(project: LoadedProject) -> list[str]:
    return [
        found.text()
        for found in project.diagnostics
        if found.severity == "error" and found.span is not None and found.span.file == "block.sql"
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's folder with the files that pages name."""
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "text.py").write_text("def slug(title): ...\n\n\ndef doubled(n): ...\n")
    for name in ("lib", "keys", "descriptors"):
        (tmp_path / name).mkdir()
    with zipfile.ZipFile(tmp_path / "lib" / "text.jar", "w") as jar:
        jar.writestr("com/acme/Slug.class", b"")
    messages = {"Order": ["int64 id = 1", "int64 amount = 2"], "LargeOrder": ["int64 id = 1", "int64 amount = 2"]}
    described = descriptor_pb2.FileDescriptorSet(file=[proto_file("shop.proto", messages, package="shop.v1")])
    (tmp_path / "shop.desc").write_bytes(described.SerializeToString())
    return tmp_path


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_compiles_or_is_refused_as_the_page_says(block: Block, folder: Path) -> None:
    around = context(block)
    if re.match(r"(--[^\n]*\n)*\s*(SELECT|WITH)\b", block.text):
        tried = [compiled(f"CREATE {kind} shown_here AS\n{block.text}", around, folder) for kind in KINDS]
        found = min(tried, key=len)
    else:
        found = compiled(block.text, around, folder)
    if block.refused:
        assert any(f"[{block.refused}]" in text for text in found), found
    else:
        assert not found, "\n".join(found)


def test_a_wrong_block_would_be_found(folder: Path) -> None:
    (wrong,) = compiled("CREATE STREAM s AS SELECT urll FROM clicks;", CONTEXT, folder)
    assert "UNKNOWN_COLUMN" in wrong
