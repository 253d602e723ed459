"""Descriptor sources and what relations say about the schemas of their records, offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.project.load import LoadedProject, compile_slice, compile_texts, load_project, slice_of
from ds_dagster.settings import Settings, load_settings
from tests.protobuf_files import descriptor_set, proto_file

SHOP = proto_file(
    "shop.proto",
    {"Order": ["int64 id = 1", "string note = 2", "uint32 n = 3"], "Order.Item": ["string name = 1"]},
)  # fmt: skip
OTHER_VERSION = proto_file("v2.proto", {"Order": ["int64 id = 2"]}, package="v2")
OTHER = proto_file("other.proto", {"Order": ["int64 id = 1"], "Loop": ["Loop inner = 1"]})
NEEDY = proto_file("needy.proto", {"Needy": ["required int64 id = 1", "required int64 other = 2"]}, syntax="proto2")
KAFKA = "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'x');\nUSE STORE k;\n"
SOURCES = "CREATE DESCRIPTOR_SOURCE a WITH ('file' = '@shop.desc', 'description' = 'orders');\n"
BOTH = SOURCES + "CREATE DESCRIPTOR_SOURCE b WITH ('file' = 'sub/other.desc');\n"
COUNTS = "'topic.partitions' = 1, 'topic.replicas' = 1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sql").mkdir()
    (tmp_path / "shop.desc").write_bytes(descriptor_set(SHOP))
    (tmp_path / "sub" / "other.desc").write_bytes(descriptor_set(OTHER, OTHER_VERSION))
    (tmp_path / "needy.desc").write_bytes(descriptor_set(NEEDY))
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff")
    (tmp_path / "empty.desc").write_bytes(b"")
    return tmp_path


def project_of(folder: Path, sql: str) -> LoadedProject:
    settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds")
    return compile_texts([("a.sql", KAFKA + sql)], settings)


def sink(select: str, more: str = "'value.descriptor.name' = 'shop.Order', 'value.format' = 'protobuf'") -> str:
    source = "CREATE STREAM s (id BIGINT, note VARCHAR, n VARCHAR) WITH ('value.format' = 'json');\n"
    return f"{SOURCES}{source}CREATE STREAM d WITH ({more}, {COUNTS}) AS {select};"


REFUSED = [
    ("CREATE DESCRIPTOR_SOURCE a WITH ('description' = 'x');", "DESCRIPTOR_SOURCE_WITHOUT_FILE", "relative"),
    ("CREATE DESCRIPTOR_SOURCE a WITH ('file' = 'gone.desc');", "DESCRIPTOR_FILE_INVALID", "protoc"),
    ("CREATE DESCRIPTOR_SOURCE a WITH ('file' = 'bad.desc');", "DESCRIPTOR_FILE_INVALID", "protoc"),
    ("CREATE DESCRIPTOR_SOURCE a WITH ('file' = 'empty.desc');", "DESCRIPTOR_FILE_INVALID", "protoc"),
    ("CREATE DESCRIPTOR_SOURCE a WITH ('uris' = 'x');", "PROPERTY_MISPLACED", "CREATE STORE"),
    (SOURCES + SOURCES, "DUPLICATE_DESCRIPTOR_SOURCE", "rename"),
    (BOTH + "CREATE STREAM s WITH ('value.descriptor.name' = 'shop.Order');", "DESCRIPTOR_AMBIGUOUS", "before it"),
    (SOURCES + "CREATE STREAM s WITH ('value.descriptor.name' = 'shop.Oder');", "UNKNOWN_DESCRIPTOR", "shop.Order"),
    ("CREATE DESCRIPTOR_SOURCE a WITH ('file' = 'bad.desc');CREATE STREAM s (a BIGINT) WITH "
     "('value.descriptor.name' = 'x');", "DESCRIPTOR_SOURCE_REFUSED", "correct"),
    (SOURCES + "CREATE STREAM s (id BIGINT) WITH ('value.descriptor.name' = 'shop.Order', 'value.format' = 'json');",
     "DESCRIPTOR_WITHOUT_PROTOBUF", "'protobuf'"),
    (BOTH + "CREATE STREAM s WITH ('value.descriptor.name' = 'shop.Loop');", "SCHEMA_FIELD_WITHOUT_TYPE", "list"),
    (sink("SELECT id AS ids FROM s"), "PROTOBUF_FIELD_MISSING", "did you mean id"),
    (SOURCES + "CREATE STREAM s (id BIGINT, nota VARCHAR) WITH ('value.descriptor.name' = 'shop.Order');",
     "PROTOBUF_FIELD_MISSING", "did you mean note"),
    (sink("SELECT id, n FROM s"), "PROTOBUF_FIELD_TYPE", "CAST"),
    ("CREATE DESCRIPTOR_SOURCE n WITH ('file' = 'needy.desc');" + sink("SELECT id FROM s").replace(".Order", ".Needy"),
     "PROTOBUF_FIELD_REQUIRED", "select them"),
    ("CREATE STREAM s (id BIGINT) WITH ('value.format' = 'protobuf');", "PROTOBUF_NEEDS_SCHEMA", "DESCRIPTOR_SOURCE"),
    ("CREATE STREAM s (id BIGINT) WITH ('value.format' = 'json_schema');", "JSON_SCHEMA_NEEDS_REGISTRY", "'json'"),
    ("CREATE STORE i WITH ('type' = KINESIS, 'access_region' = 'x');" + SOURCES +
     "CREATE STREAM s WITH ('store' = i, 'value.descriptor.name' = 'shop.Order');", "PROPERTY_OF_OTHER_STORE", ""),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "condition", "hint"), REFUSED)
def test_refused(folder: Path, sql: str, condition: str, hint: str) -> None:
    errors = project_of(folder, sql).errors
    found = [one for one in errors if one.condition == condition]
    assert found, [one.text() for one in errors]
    assert hint in found[0].hint
    assert found[0].span is not None


def test_columns_and_the_slice(folder: Path) -> None:
    """A job carries its descriptor source by name; the file is the project's."""
    sql = (
        f"{BOTH}CREATE STREAM s WITH ('value.descriptor.name' = 'a.shop.Order');\n"
        f"CREATE STREAM d WITH ('value.format' = 'json', {COUNTS}) AS SELECT * FROM s;"
    )
    (folder / "sql" / "a.sql").write_text(KAFKA + sql)
    settings = load_settings(folder)
    project = load_project(folder, settings=settings)
    assert not project.diagnostics
    scanned = project.queries["d"].scans[0].relation
    assert [(c.name, str(c.type)) for c in scanned.columns] == [("id", "BIGINT"), ("note", "VARCHAR"), ("n", "BIGINT")]
    assert scanned.value_format == "protobuf"
    pieces = slice_of(project, project.queries["d"])
    assert [piece.text for piece in pieces if "DESCRIPTOR_SOURCE" in piece.text] == [
        "CREATE DESCRIPTOR_SOURCE a WITH ('file' = '@shop.desc')"
    ]
    alone = compile_slice(pieces, settings)
    assert not alone.errors, [one.text() for one in alone.errors]
    assert alone.queries["d"].fingerprint == project.queries["d"].fingerprint
    assert alone.queries["d"].scans[0].relation.value_descriptor == scanned.value_descriptor


def test_another_message_is_another_meaning(folder: Path) -> None:
    sql = (
        "{0}CREATE STREAM s (id BIGINT) WITH ('value.descriptor.name' = '{1}.Order');\n"
        "CREATE STREAM d WITH ('value.format' = 'json', {2}) AS SELECT * FROM s;"
    )
    found = [project_of(folder, sql.format(BOTH, name, COUNTS)) for name in ("a.shop", "v2")]
    assert len({project.queries["d"].fingerprint for project in found}) == 2


def test_the_kept_project_sees_a_new_descriptor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ds_dagster.project.cache.WORTH_SECONDS", 0)
    (folder / "sql" / "a.sql").write_text(
        f"{KAFKA}{SOURCES}CREATE STREAM s WITH ('value.descriptor.name' = 'shop.Order');\n"
        f"CREATE STREAM d WITH ('value.format' = 'json', {COUNTS}) AS SELECT * FROM s;"
    )
    settings = load_settings(folder)

    def columns() -> list[str]:
        project = load_project(folder, settings=settings)
        assert not project.errors
        return [column.name for column in project.queries["d"].sink.columns]

    assert columns() == columns() == ["id", "note", "n"]
    newer = proto_file("shop.proto", {"Order": ["int64 id = 1", "string more = 9"]})
    (folder / "shop.desc").write_bytes(descriptor_set(newer))
    assert columns() == ["id", "more"]
