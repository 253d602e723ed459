"""Settings: where they come from, which wins, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.errors import DsError, ProjectError
from ds_dagster.project.load import load_project
from ds_dagster.settings import find_project, load_settings

FULL = """
[tool.ds-dagster]
sql = "statements"
database = "shop"
store = "from_file"
[tool.ds-dagster.engine]
cores = 4
[tool.ds-dagster.spark]
"spark.sql.shuffle.partitions" = 2
spark.ui.enabled = false
"""


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQL", "STATE", "DATABASE", "SCHEMA", "STORE", "VIEWS", "JOURNAL", "ENVIRONMENT", "PROFILE"):
        monkeypatch.delenv(f"DS_{name}", raising=False)


def write(folder: Path, text: str, file: str = "ds.toml") -> Path:
    (folder / file).write_text(text, encoding="utf-8")
    return folder


def test_a_folder_without_settings_gets_defaults(tmp_path: Path) -> None:
    found = load_settings(tmp_path)
    assert (found.sql, found.state) == (tmp_path / "sql", tmp_path / ".ds")
    assert (found.database, found.schema, found.views, found.environment) == ("default", "public", "sqlite", "dev")
    assert (found.engine.launcher, found.engine.cores) == ("local", 2)


def test_both_files_say_the_same(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    short = FULL.replace("[tool.ds-dagster.", "[").replace("[tool.ds-dagster]", "")
    first = load_settings(write(one, FULL, "pyproject.toml"))
    second = load_settings(write(two, short))
    assert (first.database, first.engine, dict(first.spark)) == (second.database, second.engine, dict(second.spark))
    assert first.sql == one / "statements"
    assert dict(first.spark) == {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}


def test_later_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, FULL, "pyproject.toml")
    assert load_settings(tmp_path).store == "from_file"
    monkeypatch.setenv("DS_STORE", "from_environment")
    assert load_settings(tmp_path).store == "from_environment"
    assert load_settings(tmp_path, store="from_argument").store == "from_argument"
    assert load_settings(tmp_path, store=None).store == "from_environment"


def test_the_nearest_project_upward_is_found(tmp_path: Path) -> None:
    write(tmp_path, "")
    below = tmp_path / "sql" / "deep"
    below.mkdir(parents=True)
    assert find_project(below) == tmp_path
    write(below, "[project]\nname = 'other'\n", "pyproject.toml")
    assert find_project(below) == tmp_path, "a pyproject.toml without our table is not a project of ours"


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(DsError) as refused:
        find_project(tmp_path)
    assert refused.value.condition == "PROJECT_NOT_FOUND"


@pytest.mark.parametrize(
    ("text", "condition", "part"),
    [
        ("databse = 'x'", "SETTING_UNKNOWN", "database"),
        ("[engine]\ncore = 1", "SETTING_UNKNOWN", "cores"),
        ("database = 1", "SETTING_INVALID", "a text in quotes"),
        ("engine = 1", "SETTING_INVALID", "[engine]"),
        ("[engine]\nlauncher = 'docker'", "SETTING_INVALID", "local, external"),
        ("[engine]\ncores = 0", "SETTING_INVALID", "≥ 1"),
        ("[engine]\ncores = '2'", "SETTING_INVALID", "a whole number"),
        ("[engine]\nmemory = '1.5g'", "SETTING_INVALID", "512m or 2g"),
        ("[engine]\nmemory = '2048'", "SETTING_INVALID", "512m or 2g"),
        ("[engine]\nmemory = 2", "SETTING_INVALID", "512m or 2g"),
        ("[engine]\nmaster = 2", "SETTING_INVALID", "a text in quotes"),
        ("spark = 1", "SETTING_INVALID", "[spark]"),
        ("[spark]\n'spark.sql.shuffle.partitions' = 'many'", "SETTING_INVALID", "≥ 1"),
        ("[spark]\n'spark.executor.instances' = 0", "SETTING_INVALID", "≥ 1"),
        ("[spark]\n'spark.executor.cores' = ''", "SETTING_INVALID", "≥ 1"),
        ("database = ", "SETTING_INVALID", "TOML"),
        ("state = 's3a://bucket/state'", "SETTING_INVALID", "file system"),
        ("sql = 3", "SETTING_INVALID", "a text in quotes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, condition: str, part: str) -> None:
    with pytest.raises(DsError) as refused:
        load_settings(write(tmp_path, text))
    assert refused.value.condition == condition
    assert part in str(refused.value)
    assert "ds.toml" in str(refused.value)


def test_the_overlay_is_read_and_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "")
    (tmp_path / ".ds").mkdir()
    write(tmp_path / ".ds", "[kinds.kafka]\nuris = 'localhost:1'\n[stores.s]\nuris = 'localhost:2'\n", "local.toml")
    found = load_settings(tmp_path).overlay
    assert (found.kinds["kafka"]["uris"], found.stores["s"]["uris"]) == ("localhost:1", "localhost:2")
    monkeypatch.setenv("DS_PROFILE", "none")
    assert load_settings(tmp_path).overlay.path == ""
    monkeypatch.setenv("DS_PROFILE", "staging.toml")
    with pytest.raises(DsError) as refused:
        load_settings(tmp_path)
    assert refused.value.condition == "SETTING_INVALID"
    write(tmp_path, "[kinds.kafka]\nuris = 'staging:9092'\n", "staging.toml")
    assert load_settings(tmp_path).overlay.kinds["kafka"]["uris"] == "staging:9092"


def test_a_strict_load_tells_all_mistakes_together(tmp_path: Path) -> None:
    write(tmp_path, "")
    (tmp_path / "sql").mkdir()
    write(tmp_path / "sql", "CREATE STREAM a (x BIGINT) WITH ('topik'='a');\nCREATE STRAEM b;\n", "a.sql")
    with pytest.raises(ProjectError) as refused:
        load_project(tmp_path, strict=True)
    assert refused.value.condition == "PROJECT_INVALID"
    found = refused.value.diagnostics
    assert {(d.condition, d.span.line) for d in found if d.span} == {
        ("UNKNOWN_PROPERTY", 1),
        ("NO_CURRENT_STORE", 1),
        ("CREATE_UNKNOWN", 2),
    }
    assert [d.text() for d in load_project(tmp_path).errors] == [d.text() for d in found]


BUCKET = {"url": "s3://a-bucket/some/prefix", "region": "eu-central-1"}
KEY = {"access_key_id": "${KEY}", "secret_access_key": "${SECRET}"}


def test_checkpoints_may_be_in_a_bucket(tmp_path: Path) -> None:
    found = load_settings(write(tmp_path, section({**BUCKET, **KEY}))).checkpoints
    assert (found.bucket, found.prefix, found.in_bucket) == ("a-bucket", "some/prefix", True)
    found = load_settings(
        write(tmp_path, section({"url": "s3a://bucket", "endpoint_url": "http://h:9000"}))
    ).checkpoints
    assert (found.bucket, found.prefix, found.region) == ("bucket", "", "")
    assert not load_settings(write(tmp_path, "")).checkpoints.in_bucket


@pytest.mark.parametrize(
    ("changes", "condition", "named"),
    [
        ({"url": ""}, "SETTING_INVALID", "checkpoints.url"),
        ({"url": "s3://a-bucket/with space"}, "SETTING_INVALID", "checkpoints.url"),
        ({"url": "gs://a-bucket"}, "SETTING_INVALID", "checkpoints.url"),
        ({"url": "s3://key:secret@a-bucket"}, "SETTING_INVALID", "checkpoints.url"),
        ({"region": ""}, "SETTING_INVALID", "checkpoints.region"),
        ({"endpoint_url": "h:9000"}, "SETTING_INVALID", "checkpoints.endpoint_url"),
        ({"access_key_id": "AKIA"}, "CHECKPOINT_KEY_WRITTEN", "access_key_id"),
        ({"secret_access_key": ""}, "SETTING_INVALID", "checkpoints.access_key_id"),
        ({"access_key_id": "", "secret_access_key": "", "session_token": "${T}"}, "SETTING_INVALID", "session_token"),
        ({"regoin": "x"}, "SETTING_UNKNOWN", "region"),
    ],
)
def test_a_bucket_that_cannot_work_is_refused(
    tmp_path: Path, changes: dict[str, str], condition: str, named: str
) -> None:
    with pytest.raises(DsError) as refused:
        load_settings(write(tmp_path, section({**BUCKET, **KEY, **changes})))
    assert refused.value.condition == condition and named in str(refused.value)
    assert "AKIA" not in str(refused.value)


def section(values: dict[str, str]) -> str:
    return "[checkpoints]\n" + "".join(f'{name} = "{text}"\n' for name, text in values.items())
