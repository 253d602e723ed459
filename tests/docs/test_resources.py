"""The page about store resources, run as it stands: every asset on the real local server or its stand-in."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from ds_dagster import local
from tests.docs.pages import blocks
from tests.fixtures.lake import s3_bucket
from tests.fixtures.warehouse import TOKEN, workspace

pytestmark = [pytest.mark.servers, pytest.mark.slow]
PAGE = "docs/reference/resources.md"


def texts(language: str) -> str:
    return "\n\n".join(one.text for one in blocks(language) if one.page == PAGE)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page's definitions in a project on running servers, with what its assets read put there."""
    import deltalake
    import pyarrow

    root = tmp_path_factory.mktemp("page")
    (root / "sql").mkdir()
    (root / "ds.toml").write_text('store = "msk"\n')
    (root / "sql" / "stores.sql").write_text(texts("sql"))
    (root / "definitions.py").write_text(texts("python"))
    lake = root / "lake"
    deltalake.write_deltalake(str(lake / "greetings"), pyarrow.table({"text": ["hello"]}))
    with s3_bucket("tables") as bucket, workspace(bucket) as dbx, pytest.MonkeyPatch.context() as patched:
        values = {"LAKE_URL": lake.as_uri(), "DATABRICKS_URL": dbx.url, "DATABRICKS_TOKEN": TOKEN}
        for name, value in {
            **values,
            "KAFKA": "none:1",
            "SHOP_URL": "postgresql://none/x",
            "SHOP_PASSWORD": "none",
        }.items():
            patched.setenv(name, value)
        try:
            local.up(root / ".ds", only=("kafka", "kinesis", "postgres", "snowflake"))
            module = loaded(root / "definitions.py")
            put(module.defs)
            yield module
        finally:
            local.down(root / ".ds")


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_of_resources", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def put(defs: dg.Definitions) -> None:
    """The topic and the stream, made by the resources' own clients."""
    from confluent_kafka.admin import NewTopic

    resources = defs.resources or {}
    admin = resources["msk"].admin_client()  # in a name: it ends with its last reference
    admin.create_topics([NewTopic("greetings", 1, 1)])["greetings"].result(30)
    client = resources["clicks_kinesis"].client()
    client.create_stream(StreamName="greetings", ShardCount=1)
    client.get_waiter("stream_exists").wait(StreamName="greetings", WaiterConfig={"Delay": 1})
    client.close()


@pytest.mark.parametrize("kind", ["kafka", "kinesis", "postgres", "snowflake", "delta", "databricks"])
def test_an_asset_of_the_page(page: ModuleType, kind: str) -> None:
    job = page.defs.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(asset_selection=[dg.AssetKey(f"{kind}_greeting")], instance=instance)
        (found,) = result.asset_materializations_for_node(f"{kind}_greeting")
        assert found.metadata["text"].value == ("ana@shop.example" if kind == "databricks" else "hello")
        told = [str(event) for event in instance.all_logs(result.run_id)]
        run = instance.get_run_by_id(result.run_id)
        assert not [text for text in (*told, repr(run), json.dumps(run.run_config)) if TOKEN in text]


def test_every_store_answers(page: ModuleType) -> None:
    resources: dict[str, Any] = dict(page.defs.resources or {})
    for store in ("msk", "clicks_kinesis", "shop", "snow", "lake", "dbx"):
        found = resources[store].probe()
        assert found.ok, (store, found)
