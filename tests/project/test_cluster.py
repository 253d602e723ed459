"""What a Spark cluster cannot honour is known before a query starts."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.cli.explain import explain_level
from ds_dagster.errors import DsError
from ds_dagster.places.checkpoint_settings import CheckpointSettings
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import EngineSettings, Settings, load_settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM s (id BIGINT) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 1, 'topic.replicas' = 1);
CREATE STREAM copied WITH ('store' = 'k') AS SELECT id FROM s;
"""
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"
FILES = "CREATE STORE files WITH ('type' = S3, 'uris' = 'file:///data/in');"
ELSEWHERE = "spark://head:7077"
SHARED = ("/mnt/ds",)
FOLDER, POSTGRES, SETTING = "CLUSTER_NEEDS_SHARED_FOLDER", "CLUSTER_NEEDS_POSTGRES", "CLUSTER_SETTING_REFUSED"


def problems(sql: str = SQL, state: str = "/local/.ds", **engine: Any) -> list[tuple[str, str]]:
    """Conditions and messages of a project."""
    choices = {name: engine.pop(name) for name in ("journal", "spark", "checkpoints") if name in engine}
    settings = Settings(root=Path("/p"), sql=Path("/p/sql"), state=Path(state), store="k", **choices)
    project = compile_texts([("a.sql", sql)], replace(settings, engine=EngineSettings(**engine)))
    return [(problem.condition, problem.message) for problem in project.errors]


@pytest.mark.parametrize(
    ("engine", "guarantee"),
    [
        ({}, "(exactly once)"),
        ({"master": ELSEWHERE}, "(exactly once, by tasks in two phases)"),
        ({"master": ELSEWHERE, "kafka_writers": "driver"}, "(exactly once, by the driver)"),
    ],
)
def test_explain_tells_who_writes_to_kafka(engine: dict[str, str], guarantee: str) -> None:
    settings = Settings(root=Path("/p"), sql=Path("/p/sql"), state=Path("/mnt/ds"), store="k")
    settings = replace(settings, engine=EngineSettings(shared_folders=SHARED, **engine))  # type: ignore[arg-type]
    project = compile_texts([("a.sql", SQL)], settings)
    (query,) = project.queries.values()
    assert guarantee in explain_level(project, query.sink.name, "stages")["copied"]


@pytest.mark.parametrize("master", ["", "local[4]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077"])
def test_executors_of_this_host_need_nothing(master: str) -> None:
    assert not problems(SQL + VIEW + FILES, master=master)


@pytest.mark.parametrize("master", [ELSEWHERE, "yarn", "k8s://https://api:443", "spark://127.example.com:7077"])
def test_executors_elsewhere_need_the_state_folder(master: str) -> None:
    ((condition, message),) = problems(master=master, journal="${JOURNAL}")
    assert condition == FOLDER and "the setting state is /local/.ds" in message and master in message


def test_all_settings_are_named_at_once() -> None:
    assert [name for name, _ in problems(SQL + VIEW, master=ELSEWHERE)] == [FOLDER, POSTGRES, POSTGRES]


def test_a_folder_is_shared_by_the_users_word() -> None:
    server = {"master": ELSEWHERE, "shared_folders": SHARED, "journal": "${JOURNAL}"}
    assert not problems(state="/mnt/ds/state", **server)
    assert [name for name, _ in problems(state="/mnt/ds2", **server)] == [FOLDER]


def test_sqlite_is_refused_in_a_shared_folder() -> None:
    shared = {"state": "/mnt/ds", "master": ELSEWHERE, "shared_folders": SHARED}
    ((condition, message),) = problems(**shared)
    assert condition == POSTGRES and "the setting journal is sqlite" in message
    ((condition, message),) = problems(SQL + VIEW, **shared, journal="${JOURNAL}")
    assert condition == POSTGRES and "the setting views is sqlite" in message


def test_checkpoints_in_a_bucket_need_no_shared_folder() -> None:
    there = {"master": ELSEWHERE, "checkpoints": CheckpointSettings("s3://bucket/ds", "eu-central-1")}
    assert not problems(SQL + VIEW, **there), "journal and views are on a disk of the engine alone"
    shared = {"state": "/mnt/ds", "shared_folders": SHARED, **there}
    assert [name for name, _ in problems(SQL + VIEW, **shared)] == [POSTGRES, POSTGRES]
    changes = "CREATE STORE db WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h/d', 'postgres.username' = 'u',"
    changes += " 'postgres.password' = '${P}');"
    changes += "CREATE CHANGELOG c (id BIGINT, PRIMARY KEY(id)) WITH ('store' = 'db', 'postgresql.table.name' = 'c');"
    ((condition, message),) = problems(SQL + changes, **there)
    assert condition == FOLDER and "the first rows of store db" in message


def test_folders_of_stores_are_refused() -> None:
    shared = {"state": "/mnt/ds", "master": ELSEWHERE, "journal": "${JOURNAL}"}
    ((condition, message),) = problems(SQL + FILES, **shared, shared_folders=SHARED)
    assert condition == FOLDER and "the folder of store files is /data/in" in message
    assert not problems(SQL + FILES, **shared, shared_folders=(*SHARED, "/data"))


def test_a_certificate_that_executors_open_is_refused() -> None:
    """Executors read streams; the driver writes tables."""
    shared = {"state": "/mnt/ds", "master": ELSEWHERE, "journal": "${JOURNAL}", "shared_folders": SHARED}
    kafka = SQL.replace("'127.0.0.1:1'", "'127.0.0.1:1', 'tls.ca_cert_file' = '{0}'")
    ((condition, message),) = problems(kafka.format("/etc/ca.pem"), **shared)
    assert condition == FOLDER and "tls.ca_cert_file of store k is /etc/ca.pem" in message
    assert not problems(kafka.format("/mnt/ds/ca.pem"), **shared)
    assert not problems(kafka.format("${CA_FILE}"), **shared)
    warehouse = (
        "CREATE STORE w WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h/d', 'tls.ca_cert_file' = '/etc/ca');"
    )
    assert FOLDER not in [name for name, _ in problems(SQL + warehouse, **shared)]


def test_a_jar_of_functions_is_refused_where_hosts_do_not_have_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "f.jar", "w") as jar:
        jar.writestr("acme/F.class", b"")
    functions = f"""CREATE FUNCTION_SOURCE code WITH ('file' = '{tmp_path / "f.jar"}');
CREATE FUNCTION f(v BIGINT) RETURNS BIGINT LANGUAGE JAVA WITH ('source.name' = code, 'class.name' = 'acme.F');"""
    shared = {"state": "/mnt/ds", "master": ELSEWHERE, "journal": "${JOURNAL}"}
    ((condition, message),) = problems(SQL + functions, **shared, shared_folders=SHARED)
    assert condition == FOLDER and "the jar of function f is" in message
    assert not problems(SQL + functions, **shared, shared_folders=(*SHARED, str(tmp_path)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.speculation", "true"),
        ("spark.dynamicAllocation.enabled", "TRUE"),
        ("spark.sql.adaptive.enabled", "true"),
        ("spark.submit.deployMode", "cluster"),
    ],
)
def test_spark_settings_that_break_guarantees(name: str, value: str) -> None:
    ((condition, message),) = problems(master="local-cluster[2,1,1024]", spark={name: value})
    assert condition == SETTING and f"{name} = {value}" in message
    assert not problems(master="local[2]", spark={name: value})


@pytest.mark.parametrize("master", ["spark://head", "spark//head:7077", "local[", "yarm", "k8s:/x", "mesos://h:1"])
def test_a_master_that_spark_cannot_read_is_refused(tmp_path: Path, master: str) -> None:
    (tmp_path / "ds.toml").write_text(f'[engine]\nmaster = "{master}"\n')
    with pytest.raises(DsError, match=r"engine\.master") as failure:
        load_settings(tmp_path)
    assert failure.value.condition == "SETTING_INVALID"


@pytest.mark.parametrize(
    "master",
    ["", "local", "local[*]", "local[4]", "local[2,4]", "local-cluster[2,1,1024]", "spark://[::1]:7077",
     "spark://a:1,b:2", "yarn", "k8s://https://api:443"],
)  # fmt: skip
def test_masters_of_spark_are_allowed(tmp_path: Path, master: str) -> None:
    (tmp_path / "ds.toml").write_text(f'[engine]\nmaster = "{master}"\n')
    assert load_settings(tmp_path).engine.master == master


@pytest.mark.parametrize(("name", "setting"), [("spark.master", "master"), ("spark.driver.memory", "memory")])
def test_what_the_engine_sets_is_not_set_for_spark(tmp_path: Path, name: str, setting: str) -> None:
    """It would win, and every check would look at another master than Spark's."""
    (tmp_path / "ds.toml").write_text(f'[spark]\n"{name}" = "spark://head:7077"\n')
    with pytest.raises(DsError, match=name) as failure:
        load_settings(tmp_path)
    assert failure.value.condition == "SETTING_INVALID"
    assert f"`{setting}` of [engine]" in str(failure.value)


@pytest.mark.parametrize("folders", ["[1]", '["relative"]', '"/mnt"'])
def test_settings_of_an_engine_elsewhere(tmp_path: Path, folders: str) -> None:
    (tmp_path / "ds.toml").write_text(f"[engine]\nshared_folders = {folders}\n")
    with pytest.raises(DsError) as failure:
        load_settings(tmp_path)
    assert failure.value.condition == "SETTING_INVALID"
    (tmp_path / "ds.toml").write_text('[engine]\nshared_folders = ["/mnt/ds"]\nbatch_megabytes = 0\n')
    with pytest.raises(DsError, match=r"engine\.batch_megabytes"):
        load_settings(tmp_path)
    (tmp_path / "ds.toml").write_text('[engine]\nkafka_writers = "executors"\n')
    with pytest.raises(DsError, match=r"engine\.kafka_writers"):
        load_settings(tmp_path)
    (tmp_path / "ds.toml").write_text('[engine]\nlog_url = "logs.example.com"\n')
    with pytest.raises(DsError, match=r"engine\.log_url"):
        load_settings(tmp_path)
    (tmp_path / "ds.toml").write_text('[engine]\nshared_folders = ["/mnt/ds"]\n')
    assert load_settings(tmp_path).engine.shared_folders == SHARED
