"""The suite of loaders on a real Snowflake account, and what only such a one can refuse. Opt-in: it needs variables of
the environment (those of ``NEEDED``, one of ``LOGINS``; where they apply DS_SNOWFLAKE_ROLE, _REGION, _URL and
_KEY_PASSPHRASE), a database in which schemas may be made, and a minute of a small warehouse."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.errors import DsError
from ds_dagster.stores.snowflake.connection import SnowflakeAddress
from tests.conformance import conftest, test_loaders
from tests.driven import Driven

NEEDED = ("DS_SNOWFLAKE_ACCOUNT", "DS_SNOWFLAKE_USER", "DS_SNOWFLAKE_WAREHOUSE", "DS_SNOWFLAKE_DATABASE")
LOGINS = ("DS_SNOWFLAKE_KEY_FILE", "DS_SNOWFLAKE_PASSWORD", "DS_SNOWFLAKE_ACCESS_TOKEN", "DS_SNOWFLAKE_OAUTH_TOKEN")
MISSING = [name for name in NEEDED if not os.environ.get(name)]
if not any(os.environ.get(name) for name in LOGINS):
    MISSING.append(" or ".join(LOGINS))

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.servers,
    pytest.mark.skipif(bool(MISSING), reason=f"no Snowflake account is named: set {', '.join(MISSING)}"),
]
globals().update({name: found for name, found in vars(test_loaders).items() if name.startswith("test_")})


@pytest.fixture
def address() -> SnowflakeAddress:
    given = {name: os.environ.get(f"DS_SNOWFLAKE_{name}", "") for name in ("REGION", "ROLE", "KEY_PASSPHRASE", "URL")}
    return SnowflakeAddress(
        store="account",
        account_id=os.environ["DS_SNOWFLAKE_ACCOUNT"],
        region=given["REGION"],
        url=given["URL"],
        username=os.environ["DS_SNOWFLAKE_USER"],
        warehouse=os.environ["DS_SNOWFLAKE_WAREHOUSE"],
        role=given["ROLE"],
        key_file=os.environ.get("DS_SNOWFLAKE_KEY_FILE", ""),
        key_passphrase=given["KEY_PASSPHRASE"],
        password=os.environ.get("DS_SNOWFLAKE_PASSWORD", ""),
        access_token=os.environ.get("DS_SNOWFLAKE_ACCESS_TOKEN", ""),
        oauth_token=os.environ.get("DS_SNOWFLAKE_OAUTH_TOKEN", ""),
    )


@pytest.fixture
def sink(address: SnowflakeAddress) -> Iterator[Any]:
    yield from conftest.closing(conftest.snowflake_sink(address, os.environ["DS_SNOWFLAKE_DATABASE"]))


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (
            {"password": "not-the-password", "key_file": "", "access_token": "", "oauth_token": ""},
            "STORE_LOGIN_REFUSED",
        ),
        ({"role": "DS_NO_SUCH_ROLE"}, "STORE_ROLE_REFUSED"),
        ({"warehouse": "DS_NO_SUCH_WAREHOUSE"}, "STORE_WAREHOUSE_MISSING"),
        ({"account_id": "ds-no-such-account", "region": ""}, "STORE_ACCOUNT_UNKNOWN"),
    ],
)
def test_what_an_account_refuses(
    address: SnowflakeAddress, sink: Any, batch: Any, change: dict[str, str], condition: str
) -> None:
    from ds_dagster.stores.snowflake.loader import SnowflakeLoader

    loader = Driven(SnowflakeLoader(replace(address, **change), sink.target(), SinkIdentity("test/j/q", 1)))
    with pytest.raises(DsError) as refused:
        loader.prepare()
        loader.load(batch([("./a", 1)]), 0)
    assert refused.value.condition == condition
