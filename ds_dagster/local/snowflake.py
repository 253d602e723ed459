"""A stand-in for Snowflake on this machine: fakesnow (DuckDB behind Snowflake's HTTP protocol), for the real connector.

It is installed from PyPI into an environment of its own in the cache, since it pins versions of sqlglot, DuckDB and the
connector that need not be this package's. Databases are in memory: they end with the server. It takes any user and any
password, has one transaction on one database, no MERGE inside a transaction, no roles and no warehouses. It sends NULL
of a TIMESTAMP type to the connector as 1970-01-01, since it packs timestamps into structs without their NULLs. The
table itself holds NULL.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.jars import Progress, cache_folder, file_lock
from ds_dagster.local.ports import HOST
from ds_dagster.local.processes import ServerCommand, StopStep, clean_environment
from ds_dagster.local.server import Home, ServerKind

REQUIREMENTS = (
    "fakesnow[server]==0.12.1",
    "snowflake-connector-python==4.8.1",
    "duckdb==2.0.0",
    "sqlglot==30.22.0",
)
"""Packages to install. The connector is pinned since fakesnow cannot be imported with 5.x."""
INSTALL_SECONDS = 600
ACCOUNT, USER, ANY_PASSWORD, WAREHOUSE = "fakesnow", "local", "local", "FAKESNOW_WAREHOUSE"
LOGIN_PATH = "/session/v1/login-request"
LOGIN_BODY = {"data": {"ACCOUNT_NAME": ACCOUNT, "LOGIN_NAME": USER, "PASSWORD": ANY_PASSWORD, "SESSION_PARAMETERS": {}}}


def installed_folder() -> Path:
    """Folder of the environment in the cache; its name changes with the pinned packages and with Python."""
    digest = hashlib.sha256("\n".join([*REQUIREMENTS, sys.version]).encode()).hexdigest()
    return cache_folder() / "fakesnow" / digest[:12]


def install(progress: Progress) -> Path:
    """Python of the environment, which is created if missing.

    Raises:
        ExternalError: SNOWFLAKE_SERVER_INSTALL_FAILED.
    """
    folder = installed_folder()
    complete = folder / "complete"
    if not complete.is_file():
        with file_lock(folder.parent / "install.lock"):
            if not complete.is_file():
                _install(folder, progress)
                complete.touch()
    return folder / "bin" / "python"


def _install(folder: Path, progress: Progress) -> None:
    progress("installing the local stand-in for Snowflake with pip")
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, *REQUIREMENTS]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired as problem:
            detail = f"no end after {INSTALL_SECONDS} s"
            raise error("SNOWFLAKE_SERVER_INSTALL_FAILED", detail=detail) from problem
        if done.returncode:
            detail = (done.stdout + done.stderr).strip()[-4000:]
            raise error("SNOWFLAKE_SERVER_INSTALL_FAILED", detail=detail)


def prepare(home: Home, progress: Progress) -> ServerCommand:
    """Install the server.

    Raises:
        ExternalError: SNOWFLAKE_SERVER_INSTALL_FAILED.
    """
    python = install(progress)
    home.data.mkdir(parents=True, exist_ok=True)
    argv = (str(python), "-m", "fakesnow", "--server", "--host", HOST, "--port", str(home.port))
    return ServerCommand(argv=argv, cwd=home.data, environment=clean_environment())


def ailment(home: Home) -> str | None:
    """None if a login succeeds, else why not."""
    connection = http.client.HTTPConnection(HOST, home.port, timeout=5)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", LOGIN_PATH, body=json.dumps(LOGIN_BODY), headers=headers)
        answer = json.loads(connection.getresponse().read())
        return None if answer.get("success") is True else "another server answers there, not Snowflake's API"
    except (OSError, ValueError, http.client.HTTPException) as problem:
        return str(problem) or type(problem).__name__
    finally:
        connection.close()


SERVER = ServerKind(
    name="snowflake",
    ports=("snowflake",),
    prepare=prepare,
    ailment=ailment,
    start_seconds=120.0,
    stop=(StopStep(signal.SIGINT, 10.0), StopStep(signal.SIGTERM, 5.0), StopStep(signal.SIGKILL, 5.0)),
)
