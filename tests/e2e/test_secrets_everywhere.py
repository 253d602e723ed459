"""Every secret property of every kind of store, marked, through the whole product: commands, engine, Dagster, a step.

The servers behind most stores do not answer: what is under test is what the product says and keeps while it tries.
Afterwards no mark stands in any file besides those the test wrote it into, nor in an output, an event, a record, an
argument or the environment of a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ds_dagster import local
from ds_dagster.catalog.properties.table import PROPERTIES
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.spec import job_spec
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.processes import locks
from ds_dagster.settings import load_settings
from tests.e2e.feeding import ROOT, WAIT, until
from tests.engines import SHORT_LIVED

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
SECRETS = sorted(spec.name for spec in PROPERTIES if spec.secret)
MARK = "mrkd5e1c"
COMMAND = "import sys; from ds_dagster.cli.main import run; sys.exit(run(sys.argv[1:]))"
STEP = ROOT / "tests" / "engine" / "step_process.py"
CLOSED = "127.0.0.1:1"
SOURCES = f"""
CREATE SCHEMA_REGISTRY plain_sr WITH ('type' = CONFLUENT, 'uris' = 'http://{CLOSED}',
  'confluent.username' = 'u', 'confluent.password' = <confluent.password>);
CREATE SCHEMA_REGISTRY cloud_sr WITH ('type' = CONFLUENT_CLOUD, 'uris' = 'http://{CLOSED}',
  'confluent_cloud.key' = 'k', 'confluent_cloud.secret' = <confluent_cloud.secret>);
CREATE STORE src_sasl WITH ('type' = KAFKA, 'uris' = '{CLOSED}', 'tls.disabled' = TRUE,
  'kafka.sasl.hash_function' = PLAIN, 'kafka.sasl.username' = 'u', 'kafka.sasl.password' = <kafka.sasl.password>);
CREATE STORE src_oauth WITH ('type' = KAFKA, 'uris' = '{CLOSED}', 'tls.disabled' = TRUE,
  'kafka.sasl.hash_function' = OAUTHBEARER, 'kafka.sasl.oauth.token_endpoint_url' = 'http://{CLOSED}/token',
  'kafka.sasl.oauth.client_id' = 'c', 'kafka.sasl.oauth.client_secret' = <kafka.sasl.oauth.client_secret>);
CREATE STORE src_tls WITH ('type' = KAFKA, 'uris' = '{CLOSED}', 'tls.client.cert' = 'no certificate',
  'tls.client.key' = <tls.client.key>, 'tls.client.key_password' = <tls.client.key_password>);
CREATE STORE src_kinesis WITH ('type' = KINESIS, 'access_region' = 'us-east-1', 'uris' = 'http://{CLOSED}',
  'tls.disabled' = TRUE, 'aws.access_key_id' = 'me', 'aws.secret_access_key' = <aws.secret_access_key>,
  'aws.session_token' = <aws.session_token>);
CREATE STORE src_files WITH ('type' = S3, 'uris' = 's3://bucket/x', 'access_region' = 'us-east-1',
  'aws.access_key_id' = 'me', 'aws.secret_access_key' = <aws.secret_access_key>,
  'aws.iam_role_arn' = 'arn:aws:iam::123456789012:role/r', 'aws.iam_external_id' = <aws.iam_external_id>,
  'aws.endpoint_url' = 'http://{CLOSED}');
"""
SINKS = f"""
CREATE STORE to_pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://{CLOSED}/db', 'tls.disabled' = TRUE,
  'postgres.username' = 'u', 'postgres.password' = <postgres.password>);
CREATE STORE to_literal WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://{CLOSED}/db', 'tls.disabled' = TRUE,
  'postgres.username' = 'u', 'postgres.password' = literal);
CREATE STORE to_snow WITH ('type' = SNOWFLAKE, 'snowflake.account_id' = 'a', 'uris' = 'http://{CLOSED}',
  'tls.disabled' = TRUE, 'snowflake.warehouse_name' = 'W', 'snowflake.username' = 'u',
  'snowflake.password' = <snowflake.password>);
CREATE STORE to_snow_oauth WITH ('type' = SNOWFLAKE, 'snowflake.account_id' = 'a', 'uris' = 'http://{CLOSED}',
  'tls.disabled' = TRUE, 'snowflake.warehouse_name' = 'W', 'snowflake.username' = 'u',
  'snowflake.oauth_token' = <snowflake.oauth_token>);
CREATE STORE to_snow_pat WITH ('type' = SNOWFLAKE, 'snowflake.account_id' = 'a', 'uris' = 'http://{CLOSED}',
  'tls.disabled' = TRUE, 'snowflake.warehouse_name' = 'W', 'snowflake.username' = 'u',
  'snowflake.access_token' = <snowflake.access_token>);
CREATE STORE to_snow_key WITH ('type' = SNOWFLAKE, 'snowflake.account_id' = 'a', 'uris' = 'http://{CLOSED}',
  'tls.disabled' = TRUE, 'snowflake.warehouse_name' = 'W', 'snowflake.username' = 'u',
  'snowflake.client.key_file' = 'none.p8', 'snowflake.client.key_passphrase' = <snowflake.client.key_passphrase>);
CREATE STORE to_delta WITH ('type' = DELTA, 'uris' = 's3://bucket/x', 'access_region' = 'us-east-1',
  'aws.access_key_id' = 'me', 'aws.secret_access_key' = <aws.secret_access_key>,
  'aws.session_token' = <aws.session_token>, 'aws.endpoint_url' = 'http://{CLOSED}');
CREATE STORE to_dbx WITH ('type' = DATABRICKS, 'uris' = 'http://{CLOSED}', 'tls.disabled' = TRUE,
  'databricks.warehouse_id' = 'w', 'databricks.app_token' = <databricks.app_token>,
  'databricks.cloud.s3.bucket' = 's3://bucket/y', 'aws.access_key_id' = 'me',
  'aws.secret_access_key' = <aws.secret_access_key>, 'aws.endpoint_url' = 'http://{CLOSED}');
CREATE STORE to_dbx_oauth WITH ('type' = DATABRICKS, 'uris' = 'http://{CLOSED}', 'tls.disabled' = TRUE,
  'databricks.warehouse_id' = 'w', 'databricks.client_id' = 'c',
  'databricks.client_secret' = <databricks.client_secret>,
  'databricks.cloud.s3.bucket' = 's3://bucket/z', 'aws.access_key_id' = 'me',
  'aws.secret_access_key' = <aws.secret_access_key>, 'aws.endpoint_url' = 'http://{CLOSED}');
"""


def mark(name: str) -> str:
    return f"{MARK}-{name.replace('.', '-').replace('_', '-')}"


def reference(position: int, name: str) -> str:
    """The three ways to name a secret, in turn."""
    plain = name.replace(".", "_")
    return ("'${ENV_" + plain.upper() + "}'", f"file_{plain}", "'${secret:env_" + plain + "}'")[position % 3]


def stores_of(text: str, prefix: str) -> list[str]:
    words = text.split()
    return [words[at + 2] for at, word in enumerate(words) if word == "CREATE" and words[at + 2].startswith(prefix)]


def statements(bootstrap: str) -> str:
    """Everything: secrets, stores, a relation and a query for each store."""
    text = SOURCES + SINKS
    declared = [f"CREATE SECRET literal WITH ('type' = generic_string, 'secret_string' = '{mark('literal')}');"]
    for position, name in enumerate(SECRETS):
        plain = name.replace(".", "_")
        text = text.replace(f"<{name}>", reference(position, name))
        declared += [
            f"CREATE SECRET file_{plain} WITH ('type' = file, 'secret_file' = 'given/{plain}');",
            f"CREATE SECRET env_{plain} WITH ('type' = environment, 'variable' = 'ENV_{plain.upper()}');",
        ]
    queries = [f"CREATE STORE live WITH ('type' = KAFKA, 'uris' = '{bootstrap}', 'tls.disabled' = TRUE);"]
    queries.append("CREATE STREAM rows (a VARCHAR) WITH ('store' = 'live', 'topic' = 'rows', 'topic.partitions' = 1);")
    for store in stores_of(SOURCES, "src_"):
        size = SIZES.get(store, ", 'topic.partitions' = 1")
        queries.append(f"CREATE STREAM of_{store} (a VARCHAR) WITH ('store' = '{store}', 'topic' = 't'{size});")
        queries.append(f"CREATE MATERIALIZED VIEW view_{store} AS SELECT a FROM of_{store};")
    for store in SINK_STORES:
        place = ", 'snowflake.db.name' = 'D'" if "snow" in store else ""
        queries.append(f"CREATE TABLE in_{store} WITH ('store' = '{store}'{place}) AS SELECT a FROM rows;")
    return "\n".join([*declared, text, *queries])


SIZES = {"src_kinesis": ", 'topic.shards' = 1", "src_files": ""}
SINK_STORES = stores_of(SINKS, "to_")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The project, with a Kafka that holds one record."""
    from confluent_kafka import Producer

    root, servers = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("servers")
    (root / "sql").mkdir()
    (root / "given").mkdir()
    for name in SECRETS:
        plain = name.replace(".", "_")
        (root / "given" / plain).write_text(mark(name) + "\n")
        (root / "given" / plain).chmod(0o600)
    variables = [f"ENV_{name.replace('.', '_').upper()}={mark(name)}\n" for name in SECRETS]
    (root / ".env").write_text("".join(variables))
    engine = '[engine]\ncores = 2\nmemory = "1g"\n[spark]\n"spark.sql.shuffle.partitions" = "1"\n'
    (root / "ds.toml").write_text('store = "live"\n' + engine + SHORT_LIVED)
    try:
        bootstrap = local.up(servers, only=("kafka",)).kafka
        (root / "sql" / "all.sql").write_text(statements(bootstrap))
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("rows", value=b'{"a": "x"}')
        assert producer.flush(60) == 0
        yield root
    finally:
        with suppress(Exception):
            stop_engine(load_settings(root), 60, kill=True)
        local.down(servers)


def ds(root: Path, command: str, *arguments: str) -> str:
    """Both outputs of a command."""
    line = [sys.executable, "-c", COMMAND, command, "--project", str(root), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=WAIT)
    return done.stdout + done.stderr


def test_every_secret_property_is_here(project: Path) -> None:
    loaded = load_project(project)
    assert not loaded.errors, [problem.text() for problem in loaded.errors]
    connections = (*loaded.catalog.stores.values(), *loaded.catalog.registries.values())
    found = {name for one in connections for name, value in one.properties.items() if value.secret}
    assert found | {"secret_string"} == set(SECRETS), "give the new property a store in this file"


def test_no_mark_is_told_or_kept(project: Path, tmp_path: Path) -> None:
    loaded = load_project(project)
    told: dict[str, str] = {"records": records_of(loaded)}
    for command in (("check", "--json"), ("ls", "stores"), ("plan",), ("lineage",), ("explain", "in_to_pg")):
        told[" ".join(command)] = ds(project, *command)
    told["doctor"] = ds(project, "doctor", "--online", "--timeout", "20", "--json")
    for store in (*stores_of(SOURCES, "src_"), *SINK_STORES):
        assert f"store {store}" in told["doctor"], "probed"
    control = Control.open(load_settings(project))
    told["engine"] = run_jobs(control, loaded)
    for command in (("ps", "--json"), ("ps",), ("logs", "in_to_pg")):
        told[" ".join(command)] = ds(project, *command)
    told["processes"] = processes(control)
    stop_engine(control.settings, 60, kill=True)
    told["step"] = step(project)
    told["dagster"] = dagster(project, tmp_path / "home")
    assert not [name for name, text in told.items() if MARK in text], leaks(told)
    assert files_with_marks(project) == {".env", "sql/all.sql", *(f"given/{n.replace('.', '_')}" for n in SECRETS)}
    assert not files_with_marks(tmp_path / "home")


def leaks(told: Mapping[str, str]) -> list[str]:
    """What surrounds the marks that were found."""
    return [f"{name}: {text[max(0, text.find(MARK) - 200) :][:400]}" for name, text in told.items() if MARK in text]


def records_of(project: LoadedProject) -> str:
    """Records as they would be printed by a careless log, and what travels to the engine."""
    specs = [job_spec(project, query).to_json() for query in project.queries.values()]
    return "\n".join([repr(project), repr(project.catalog), *map(repr, project.catalog.secrets.values()), *specs])


def run_jobs(control: Control, project: LoadedProject) -> str:
    """Start everything; each job has to meet its store at least once."""
    views = [name for name in project.queries if name.startswith("view_")]
    control.ensure(project, views, "ensure", "tests")
    requests = [control.request_run(project, f"in_{store}", "tests") for store in SINK_STORES]
    control.ensure_engine(WAIT)
    for name in project.queries:
        until(lambda name=name: met(control, name), f"{name} met its store")
    history = [asdict(one) for name in project.queries for one in control.transitions(name)]
    return "\n".join(map(str, (*requests, *history, *(asdict(one) for one in control.statuses()))))


def met(control: Control, name: str) -> bool:
    """Whether the job has failed once; which condition says how."""
    failed = [one for one in control.transitions(name) if one.target in ("FAILED", "BACKING_OFF")]
    assert not {one.condition for one in failed} & {"INTERNAL", "SLICE_INVALID"}
    return bool(failed)


def processes(control: Control) -> str:
    """Arguments and environment of the engine's processes, arguments of all."""
    python = int(str(locks.holder(control.places.python_lock).get("pid", 0)))
    assert python
    children = subprocess.run(["pgrep", "-P", str(python)], capture_output=True, text=True, check=True).stdout.split()
    found = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    for pid in (python, *map(int, children)):
        for part in ("cmdline", "environ"):
            found += Path(f"/proc/{pid}/{part}").read_bytes().decode(errors="replace")
    return found


def step(root: Path) -> str:
    """A load in the step's own session."""
    line = [sys.executable, str(STEP), str(root), "in_to_literal"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=WAIT, env=environment)
    assert "STORE_UNREACHABLE" in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


def dagster(root: Path, home: Path) -> str:
    """Definitions, resources and a run that fails, on an instance with files."""
    import dagster as dg

    from ds_dagster.orchestration import DsProject, build_ds_definitions

    home.mkdir()
    definitions = build_ds_definitions(DsProject(root))
    resources: Mapping[str, Any] = definitions.resources or {}
    graph = definitions.resolve_asset_graph()
    shown = [repr(resources[name]) for name in resources]
    shown += [repr(dict(node.metadata)) for node in graph.asset_nodes]
    key = next(node.key for node in graph.asset_nodes if node.key.path[-1] == "view_src_tls")
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(asset_selection=[key], instance=instance, raise_on_error=False)
        shown += [repr(event) for event in result.all_events]
        shown += [str(entry) for entry in instance.all_logs(result.run_id)]
    stop_engine(load_settings(root), 60, kill=True)
    return "\n".join(shown)


def files_with_marks(root: Path) -> set[str]:
    wanted = MARK.encode()
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(root).as_posix() for path in files if wanted in path.read_bytes()}
