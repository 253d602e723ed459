"""Databricks: what is declared, registered and refused. The workspace is a double that the vendor's own connector talks
to; see ``tests/fixtures/warehouse.py`` for what that does not prove."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import Tip
from ds_dagster.datatypes import BIGINT, VARCHAR
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, compile_texts, store_admin
from ds_dagster.settings import Settings
from ds_dagster.stores.databricks import warehouse
from ds_dagster.stores.databricks.admin import DatabricksAdmin
from ds_dagster.stores.databricks.connection import WorkspaceAddress
from ds_dagster.stores.databricks.loader import open_loader, open_warehouse_loader
from ds_dagster.stores.databricks.statements import DatabricksStatements
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.options import make_options
from ds_dagster.stores.registry import KINDS
from tests.driven import Driven
from tests.fixtures.lake import read_lake
from tests.fixtures.warehouse import CLIENT, SECRET, TOKEN, WAREHOUSE, RefusedError, Workspace, workspace

ADDRESS = "'uris' = 'https://dbc-1.cloud.databricks.com'"
LOGIN = "'databricks.app_token' = '${DBX}'"
STORE = f"{ADDRESS}, {LOGIN}, 'databricks.warehouse_id' = 'abc123', 'databricks.cloud.s3.bucket' = 'lake'"
STREAM = "CREATE STREAM events (k VARCHAR, n BIGINT) WITH ('store' = 'm', 'topic' = 'e', 'value.format' = 'json');"


def compiled(tmp_path: Path, dbx: str = STORE, more: str = "") -> LoadedProject:
    text = f"""CREATE STORE m WITH ('type' = MEMORY);
        CREATE STORE dbx WITH ('type' = DATABRICKS, {dbx});
        {STREAM}
        CREATE TABLE visits WITH ('store' = 'dbx'{more}) AS SELECT k, n FROM events;"""
    return compile_texts([("dbx.sql", text)], Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="m"))


def write_spec(project: LoadedProject) -> WriteSpec:
    query = project.queries["visits"]
    return KINDS["DATABRICKS"].write_spec(project.catalog.store("dbx"), query.sink, query.refresh)


def resolved(value: Any) -> str:
    if value.parts:
        return "".join(resolved(part) for part in value.parts)
    return ("true" if value.value else "false") if isinstance(value.value, bool) else str(value.value)


def refused(step: Any) -> DsError:
    with pytest.raises(DsError) as problem:
        step()
    return problem.value


# --- declared ---------------------------------------------------------------------------------------------------------


def test_names_and_place_of_a_table(tmp_path: Path) -> None:
    names = ", 'databricks.catalog.name' = 'C', 'databricks.schema.name' = 'S', 'databricks.table.name' = 'account'"
    spec = write_spec(compiled(tmp_path, more=names))
    assert spec.table is not None
    assert (spec.table.path, spec.entity, spec.delivery) == (("C", "S", "account"), "dbx.C.S.account", "exactly_once")
    assert resolved(spec.options["location"]) == "s3://lake/C/S/account"
    written = write_spec(compiled(tmp_path, more=", 'table.data.file.location' = 's3://other/account/'"))
    assert resolved(written.options["location"]) == "s3://other/account/"
    assert written.table is not None
    assert written.table.path == ("main", "default", "visits")
    project = compiled(tmp_path)
    uri = KINDS["DATABRICKS"].uri(project.catalog.store("dbx"), project.queries["visits"].sink)
    assert uri == "databricks://dbc-1.cloud.databricks.com/main.default.visits"
    assert "DBX" not in repr(WorkspaceAddress("dbx", "https://h", "w", app_token="DBX", client_secret="DBX"))


WAREHOUSE_ID = "'databricks.warehouse_id' = 'w'"


@pytest.mark.parametrize(
    ("dbx", "condition", "part"),
    [
        (f"{LOGIN}, {WAREHOUSE_ID}", "STORE_PROPERTY_MISSING", "uris"),
        (f"{ADDRESS}, {LOGIN}", "STORE_PROPERTY_MISSING", "databricks.warehouse_id"),
        (f"{ADDRESS}, {WAREHOUSE_ID}", "STORE_PROPERTY_MISSING", "databricks.app_token"),
        (f"{ADDRESS}, {WAREHOUSE_ID}, 'databricks.client_id' = 'c'", "STORE_PROPERTY_MISSING", "client_secret"),
        (f"{STORE}, 'databricks.client_id' = 'c'", "STORE_PROPERTY_MISSING", "client_secret"),
        (
            f"{STORE}, 'databricks.client_id' = 'c', 'databricks.client_secret' = '${{S}}'",
            "STORE_PROPERTIES_CONTRADICT",
            "each of them is a login",
        ),
        (f"'uris' = 'http://dbc-1', {LOGIN}, {WAREHOUSE_ID}", "PROPERTY_INVALID", "https://"),
        (f"'uris' = 'https://me:x@dbc-1', {LOGIN}, {WAREHOUSE_ID}", "PROPERTY_INVALID", "https://"),
        (f"{STORE}, 'databricks.mode' = 'managed'", "PROPERTY_INVALID", "delta, warehouse"),
        (f"{STORE}, 'databricks.mode' = 'warehouse'", "STORE_PROPERTIES_CONTRADICT", "databricks.cloud.s3.bucket"),
        (f"{STORE}, 'aws.access_key_id' = 'k'", "STORE_PROPERTY_MISSING", "aws.secret_access_key"),
        (f"{ADDRESS}, {LOGIN}, {WAREHOUSE_ID}, 'databricks.cloud.s3.bucket' = 'gs://b'", "PROPERTY_INVALID", "bucket"),
    ],
)
def test_stores_that_cannot_be(tmp_path: Path, dbx: str, condition: str, part: str) -> None:
    errors = compiled(tmp_path, dbx).errors
    assert condition in {problem.condition for problem in errors}
    assert part in " ".join(problem.text() for problem in errors)


def test_a_table_needs_a_place(tmp_path: Path) -> None:
    without = f"{ADDRESS}, {LOGIN}, {WAREHOUSE_ID}"
    assert [one.condition for one in compiled(tmp_path, without).errors] == ["STORE_PROPERTY_MISSING"]
    local = ", 'table.data.file.location' = 'file:///data/account'"
    assert [one.condition for one in compiled(tmp_path, more=local).errors] == ["PROPERTY_INVALID"]
    whole = ", 'table.data.file.location' = 's3://bucket'"
    assert [one.condition for one in compiled(tmp_path, more=whole).errors] == ["PROPERTY_INVALID"]


def test_a_table_is_no_stream(tmp_path: Path) -> None:
    project = compiled(tmp_path)
    store, sink = project.catalog.store("dbx"), project.queries["visits"].sink
    problem = refused(lambda: KINDS["DATABRICKS"].read_spec(store, sink, None, None))  # type: ignore[arg-type]
    assert problem.condition == "STORE_NOT_A_SOURCE"


def test_a_reference_is_looked_into_where_it_is_resolved(tmp_path: Path) -> None:
    project = compiled(tmp_path, STORE.replace("https://dbc-1.cloud.databricks.com", "${URL}"))
    assert not project.errors
    assert refused(lambda: store_admin(project, "dbx", lambda value: "http://h")).condition == "PROPERTY_INVALID"


@pytest.mark.parametrize("more", ["/", "/browse?o=1", "/sql/warehouses/w#overview", "?o=1"])
def test_a_pasted_address_of_a_page_connects_to_its_workspace(tmp_path: Path, more: str) -> None:
    host = "https://dbc-1.cloud.databricks.com"
    rest = {"warehouse_id": "w", "app_token": "t"}
    plain, pasted = (WorkspaceAddress.of("dbx", {"url": url, **rest}) for url in (host, host + more))
    assert pasted.client_arguments() == plain.client_arguments()
    assert (pasted.base, pasted.shown) == (plain.base, plain.shown)
    project = compiled(tmp_path, STORE.replace(host, host + more))
    assert not project.errors
    uri = KINDS["DATABRICKS"].uri(project.catalog.store("dbx"), project.queries["visits"].sink)
    assert uri == "databricks://dbc-1.cloud.databricks.com/main.default.visits"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databricks", None)
    problem = refused(WorkspaceAddress("dbx", "https://h", "w").driver)
    assert problem.condition == "STORE_DRIVER_MISSING"
    assert "pip install databricks-sql-connector" in problem.hint


# --- registered -------------------------------------------------------------------------------------------------------


@pytest.fixture
def dbx(s3_settings: Mapping[str, str]) -> Iterator[Workspace]:
    with workspace(s3_settings) as made:
        yield made


def written(made: Workspace, tmp_path: Path, name: str, more: str = "") -> WriteSpec:
    """The write spec of a table, all that connects taken from the double."""
    text = f"""'uris' = '{made.url}', 'tls.disabled' = TRUE, 'databricks.app_token' = '{TOKEN}',
        'databricks.warehouse_id' = '{WAREHOUSE}', 'databricks.cloud.s3.bucket' = 's3://lake/dbx',
        'aws.access_key_id' = '{made.bucket["access_key_id"]}',
        'aws.secret_access_key' = '{made.bucket["secret_access_key"]}',
        'aws.endpoint_url' = '{made.bucket["endpoint_url"]}'"""
    return write_spec(compiled(tmp_path, text, f", 'databricks.table.name' = '{name}'{more}"))


def loader_of(made: Workspace, tmp_path: Path, name: str, version: int = 1, more: str = "") -> Driven:
    return Driven(open_loader(written(made, tmp_path, name, more), SinkIdentity("j", version), resolved))


ROWS = pyarrow.table({"k": ["a", "b"], "n": [1, 2]})


@pytest.mark.servers
def test_a_table_is_registered_once_and_costs_nothing_after(dbx: Workspace, tmp_path: Path) -> None:
    loader = loader_of(dbx, tmp_path, "once")
    loader.prepare()
    assert dbx.tables == {"main.default.once": "s3://lake/dbx/main/default/once"}
    before = len(dbx.statements)
    loader.load(ROWS, 0)
    loader.load(ROWS, 1)
    assert loader.finish() == 4
    loader.close()
    assert len(dbx.statements) == before, "batches do not wake the warehouse"
    loader_of(dbx, tmp_path, "once", 2).prepare()
    created = [text for text in dbx.statements if text.startswith("CREATE")]
    assert created == [
        "CREATE TABLE IF NOT EXISTS `main`.`default`.`once` USING DELTA LOCATION 's3://lake/dbx/main/default/once'"
    ]
    admin = DatabricksAdmin("dbx", dbx.settings)
    assert [facts.name for facts in admin.entities()] == ["main.default.once"]
    facts = admin.describe("main.default.once")
    assert facts is not None
    assert facts.size == 4
    assert admin.describe("main.default.none") is None
    assert admin.ensure(EntityPlan("main.default.none")).size == 0
    assert admin.end_reached("x", {}) == 0
    assert refused(lambda: admin.records("x", from_beginning=True, limit=1, stopped=lambda: True)).condition == (
        "STORE_NOT_A_SOURCE"
    )


@pytest.mark.servers
def test_a_full_refresh_is_registered_when_it_is_complete(dbx: Workspace, tmp_path: Path) -> None:
    loader = loader_of(dbx, tmp_path, "whole", more=", 'refresh.mode' = 'full'")
    loader.prepare()
    loader.load(ROWS, 0)
    assert not dbx.tables
    assert loader.finish() == 2
    place = dbx.tables["main.default.whole"]
    assert len(read_lake(loader.files.address, place)) == 2


@pytest.mark.servers
def test_the_workspace_goes_away_between_files_and_name(dbx: Workspace, tmp_path: Path) -> None:
    """The next start of the job registers what the first one has written."""
    calls: list[int] = []

    def silent() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ConnectionResetError

    dbx.fault = silent
    problem = refused(loader_of(dbx, tmp_path, "late").prepare)
    assert (problem.condition, problem.fault.domain) == ("STORE_UNREACHABLE", "external")
    assert not dbx.tables
    again = loader_of(dbx, tmp_path, "late")
    again.prepare()
    again.load(ROWS, 0)
    assert len(read_lake(again.files.address, dbx.tables["main.default.late"])) == 2


@pytest.mark.servers
def test_a_name_that_leads_elsewhere(dbx: Workspace, tmp_path: Path) -> None:
    dbx.tables["main.default.taken"] = "s3://lake/somewhere/else"
    problem = refused(loader_of(dbx, tmp_path, "taken").prepare)
    assert problem.condition == "TARGET_DIFFERS"
    assert "its files are at s3://lake/somewhere/else, not at s3://lake/dbx/main/default/taken" in problem.message
    address = LakeAddress.of("dbx", {**dbx.bucket, "url": "s3://lake/dbx/main/default/taken"})
    assert address.table(address.root) is None, "nothing was written"
    dbx.tables["main.default.taken"] = "s3a://lake/dbx/main/default/taken/"
    loader_of(dbx, tmp_path, "taken").prepare()


@pytest.mark.servers
def test_what_a_workspace_refuses(dbx: Workspace, tmp_path: Path) -> None:
    missing = loader_of(dbx, tmp_path, "t1", more=", 'databricks.schema.name' = 'nope'")
    assert refused(missing.prepare).condition == "TARGET_SCHEMA_MISSING"
    dbx.may_create = False
    problem = refused(loader_of(dbx, tmp_path, "t2").prepare)
    assert (problem.condition, problem.fault.domain) == ("STORE_PERMISSION_DENIED", "user")
    dbx.may_create, dbx.locations = True, ("s3://covered/",)
    problem = refused(loader_of(dbx, tmp_path, "t3").prepare)
    assert problem.condition == "DATABRICKS_LOCATION_REFUSED"
    assert "s3://lake/dbx/main/default/t3" in problem.message
    assert "external location" in problem.hint


@pytest.mark.servers
def test_logins_and_warehouses(dbx: Workspace) -> None:
    principal = {name: value for name, value in dbx.settings.items() if name != "app_token"}
    principal |= {"client_id": CLIENT, "client_secret": SECRET}
    for settings in (dbx.settings, principal):
        answer = DatabricksAdmin("dbx", settings).probe()
        assert answer.ok, answer
        assert "ana@shop.example" in answer.message
    wrong = [
        ({**dbx.settings, "app_token": "marked-wrong"}, "STORE_LOGIN_REFUSED", "user"),
        ({**principal, "client_secret": "marked-wrong"}, "STORE_LOGIN_REFUSED", "user"),
        ({**dbx.settings, "warehouse_id": "other"}, "DATABRICKS_WAREHOUSE_MISSING", "user"),
        ({**dbx.settings, "workspace_url": "http://127.0.0.1:1"}, "STORE_UNREACHABLE", "external"),
        ({**principal, "workspace_url": "http://127.0.0.1:1"}, "STORE_UNREACHABLE", "external"),
    ]
    for settings, condition, domain in wrong:
        admin = DatabricksAdmin("dbx", settings)
        problem = refused(admin.entities)
        assert (problem.condition, problem.fault.domain) == (condition, domain)
        answer = admin.probe()
        assert not answer.ok
        assert answer.hint
        shown = f"{problem} {problem.detail} {problem.params} {answer} {admin} {admin.address}"
        assert "marked-wrong" not in shown


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("[NO_SUCH_CATALOG_EXCEPTION] Catalog 'c' was not found", "TARGET_DATABASE_MISSING"),
        ("[INSUFFICIENT_PERMISSIONS] User has no USE SCHEMA", "STORE_PERMISSION_DENIED"),
        ("[LOCATION_OVERLAP] the input path overlaps", "DATABRICKS_LOCATION_REFUSED"),
        ("[SOMETHING_NEW] …", "STORE_CALL_FAILED"),
    ],
)
def test_error_classes_of_statements(text: str, condition: str) -> None:
    address = WorkspaceAddress("dbx", "https://h", "w", app_token="marked-token")
    found = address.failure(address.driver().exc.ServerOperationError(text), "register the table", "c.s.t")
    assert found.condition == condition
    assert "{" not in found.message + found.hint


# --- mode warehouse ---------------------------------------------------------------------------------------------------

MODE = "'databricks.mode' = 'warehouse'"


def test_a_table_of_the_warehouse_needs_no_place(tmp_path: Path) -> None:
    by_warehouse = f"{ADDRESS}, {LOGIN}, {WAREHOUSE_ID}, {MODE}"
    spec = write_spec(compiled(tmp_path, by_warehouse))
    assert (spec.loader.rpartition(":")[2], spec.delivery) == ("open_warehouse_loader", "exactly_once")
    assert "location" not in spec.options
    written = ", 'table.data.file.location' = 's3://lake/visits'"
    (problem,) = compiled(tmp_path, by_warehouse, written).errors
    assert problem.condition == "STORE_PROPERTIES_CONTRADICT"


def warehouse_loader(made: Workspace, name: str, mode: str = "append", version: int = 1, **target: Any) -> Any:
    columns = (TableColumn("k", VARCHAR, "string", mode != "upsert"), TableColumn("n", BIGINT, "bigint"))
    key = ("k",) if mode == "upsert" else ()
    made_target = TableTarget(("main", "default", name), columns, key, mode, **{"refresh": "incremental", **target})
    spec = WriteSpec("batch", f"dbx.{name}", "exactly_once", options=make_options(made.settings), table=made_target)
    OPENED.append(Driven(open_warehouse_loader(spec, SinkIdentity("test/j/q", version), resolved)))
    return OPENED[-1]


OPENED: list[Any] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """A session nobody ends is ended by the connector, which is patient with a server that is gone."""
    yield
    while OPENED:
        OPENED.pop().close()


def rows_of(mode: str, *pairs: tuple[str, int], deleted: bool = False) -> pyarrow.Table:
    made = pyarrow.table({"k": [k for k, _ in pairs], "n": [n for _, n in pairs]})
    return made.append_column("__deleted", pyarrow.array([deleted] * len(pairs))) if mode == "upsert" else made


@pytest.mark.servers
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_cut_off_between_rows_and_ledger_is_loaded_once(dbx: Workspace, mode: str, version: int) -> None:
    """The rows are there, the ledger does not know it: the next attempt changes nothing and notes the batch."""
    name, batch = f"cut_{mode}_{version}", 2 - version
    first = warehouse_loader(dbx, name, mode)
    first.prepare()
    first.load(rows_of(mode, ("a", 1), ("b", 1)), 0)
    second = warehouse_loader(dbx, name, mode, version)
    second.prepare()
    dbx.fault = failing_at("INSERT INTO `main`.`default`.`ds_ledger`", dbx)
    problem = refused(lambda: second.load(rows_of(mode, ("a", 2)), batch))
    dbx.fault = None
    assert problem.condition in ("STORE_CALL_FAILED", "STORE_UNREACHABLE")
    again = warehouse_loader(dbx, name, mode, version)
    again.prepare()
    assert not again.load(rows_of(mode, ("a", 2)), batch).replayed
    assert again.load(rows_of(mode, ("a", 2)), batch).replayed
    found = sorted((row["k"], row["n"]) for row in dbx.managed.rows(f"main.default.{name}"))
    kept = {("append", 1): [("a", 1), ("a", 2), ("b", 1)], ("upsert", 1): [("a", 2), ("b", 1)]}
    assert found == kept.get((mode, version), [("a", 2)])
    assert not [path for path in dbx.volumes if path.endswith(".parquet")], "what was loaded is removed"


def failing_at(text: str, made: Workspace) -> Any:
    def fault() -> None:
        if made.statements[-1].startswith(text):
            raise RefusedError("the warehouse went away")

    return fault


@pytest.mark.servers
def test_publishing_again_changes_nothing(dbx: Workspace) -> None:
    loader = warehouse_loader(dbx, "published", refresh="full")
    loader.prepare()
    loader.load(rows_of("append", ("a", 1)), 0)
    dbx.fault = failing_at("INSERT INTO `main`.`default`.`ds_ledger`", dbx)
    refused(loader.finish)
    dbx.fault = None
    again = warehouse_loader(dbx, "published", refresh="full")
    again.prepare()
    assert again.load(rows_of("append", ("a", 1)), 0).replayed
    assert again.finish() == 1
    assert again.finish() == 1
    assert [row["n"] for row in dbx.managed.rows("main.default.published")] == [1]
    assert not [name for name in dbx.managed.columns if "__ds_new_" in name]


@pytest.mark.servers
def test_a_warehouse_that_refuses(dbx: Workspace) -> None:
    loader = warehouse_loader(dbx, "refusing")
    loader.prepare()
    row = "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated by row with values: secret-value"

    def violated() -> None:
        if dbx.statements[-1].startswith("COPY INTO"):
            raise RefusedError(row)

    dbx.fault = violated
    problem = refused(lambda: loader.load(rows_of("append", ("a", 1)), 0))
    dbx.fault = None
    assert (problem.condition, problem.params["epoch"]) == ("TARGET_REJECTS_ROWS", "0")
    assert "secret-value" not in str(problem)
    other = warehouse_loader(dbx, "refusing", "upsert")
    other.prepare()
    columns = (TableColumn("k", VARCHAR, "string"), TableColumn("n", VARCHAR, "string"))
    changed = replace(loader.target, columns=columns)
    loader.target = changed
    assert refused(loader.prepare).condition == "TARGET_DIFFERS"
    lost = warehouse_loader(dbx, "lost")
    lost.statements = DatabricksStatements(replace(lost.target, path=("main", "nowhere", "t")), lost.identity)
    assert refused(lost.prepare).condition == "TARGET_SCHEMA_MISSING"


@pytest.mark.servers
def test_a_ledger_of_an_earlier_package_is_taken_over(dbx: Workspace) -> None:
    """It knew batches by number alone."""
    loader = warehouse_loader(dbx, "older")
    loader.prepare()
    loader.load(rows_of("append", ("a", 1)), Tip(0, "aa"))
    for name in ("offsets", "ends"):
        dbx.managed.database.execute(f'ALTER TABLE "main.default.ds_ledger" DROP COLUMN {name}')
        del dbx.managed.columns["main.default.ds_ledger"][name]
    again = warehouse_loader(dbx, "older")
    again.prepare()
    assert again.load(rows_of("append", ("a", 9)), Tip(0, "bb")).replayed, "compared by number"
    again.load(rows_of("append", ("b", 1)), Tip(1, "cc"))
    assert refused(lambda: again.load(rows_of("append", ("b", 9)), Tip(1, "dd"))).condition == "CHECKPOINT_BEHIND_SINK"


@pytest.mark.servers
def test_old_batches_leave_the_ledger(dbx: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this job, table and version; the newest is still the one that is skipped."""
    monkeypatch.setattr(warehouse, "PRUNE_EVERY", 4)
    monkeypatch.setattr(warehouse, "KEPT_EPOCHS", 2)

    def kept(name: str) -> list[int]:
        query = f"SELECT epoch FROM \"main.default.ds_ledger\" WHERE target = '{name}' ORDER BY epoch"
        return [row[0] for row in dbx.managed.database.execute(query).fetchall()]

    loader, other = warehouse_loader(dbx, "pruned"), warehouse_loader(dbx, "another")
    for one in (other, loader):
        one.prepare()
        for batch in range(4):
            one.load(rows_of("append", ("a", batch)), batch)
    loader.load(rows_of("append", ("a", 4)), 4)
    assert (kept("pruned"), kept("another")) == ([3, 4], [0, 1, 2, 3])
    again = warehouse_loader(dbx, "pruned")
    again.prepare()
    assert again.load(rows_of("append", ("a", 4)), 4).replayed
    assert len(dbx.managed.rows("main.default.pruned")) == 5
