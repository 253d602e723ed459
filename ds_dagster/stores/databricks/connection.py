"""Connections to a Databricks SQL warehouse (databricks-sql-connector), and their exceptions as conditions."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit

from sqlglot import exp

from ds_dagster.errors import DsError, error
from ds_dagster.redaction import redact

ALLOWED_URIS = "'https://<workspace>.cloud.databricks.com'"
DIALECT = "databricks"
LOAD_SECONDS = 600
"""Timeout of a statement of a load."""
LOAD_ATTEMPTS = 6
"""Most attempts of one call of a load, about a minute in all; if a warehouse takes longer to start, the next start of
the job reaches it."""
CONTROL_SECONDS, CONTROL_ATTEMPTS = 20, 2
TOKEN_SECONDS = 20
EARLY_SECONDS = 60
"""How long before its end an OAuth token is renewed."""
DETAIL_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class WorkspaceAddress:
    """Resolved settings of one store. Holds token or secret: never shown, never stored.

    Attributes:
        url: ``https://host`` (``http`` only with TLS off).
        port: of the workspace, empty for the scheme's own.
        app_token: personal access token; else ``client_id`` and ``client_secret`` of a service principal.
    """

    store: str
    url: str
    warehouse_id: str
    port: str = ""
    tls_disabled: str = "false"
    app_token: str = field(default="", repr=False)
    client_id: str = ""
    client_secret: str = field(default="", repr=False)

    @classmethod
    def of(cls, store: str, settings: Mapping[str, str]) -> WorkspaceAddress:
        """The address in resolved options; ignores other options.

        Raises:
            UserError: PROPERTY_INVALID.
        """
        address = cls(store, **{name: settings[name] for name in _SETTINGS if name in settings})
        if not is_workspace_url(address.url, tls=address.tls_disabled != "true"):
            raise error("PROPERTY_INVALID", name="uris", value=address.shown, allowed=ALLOWED_URIS)
        return address

    @property
    def shown(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc.rpartition("@")[2] or self.url

    @property
    def base(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        port = self.port or (str(parts.port) if parts.port else "")
        return f"{parts.scheme}://{parts.hostname}" + (f":{port}" if port else "")

    def client_arguments(self, seconds: int = LOAD_SECONDS) -> dict[str, Any]:
        """Arguments of ``databricks.sql.connect``, including the token or login. ``seconds``: timeout of a call, and of
        its retries. No usage data is sent to the vendor."""
        parts = urlsplit(self.base)
        path = f"/sql/1.0/warehouses/{self.warehouse_id}"
        login: dict[str, Any] = {"access_token": self.app_token}
        if not self.app_token:
            login = {"credentials_provider": ServicePrincipal(self)}
        plain = {"_connection_uri": f"{self.base}{path}"} if parts.scheme == "http" else {}
        return {
            "server_hostname": parts.hostname,
            "http_path": path,
            "_port": parts.port or (80 if plain else 443),
            "_socket_timeout": seconds,
            "_retry_stop_after_attempts_duration": seconds,
            "_retry_stop_after_attempts_count": CONTROL_ATTEMPTS if seconds <= CONTROL_SECONDS else LOAD_ATTEMPTS,
            "enable_telemetry": False,
            "user_agent_entry": "ds-dagster",
            "session_configuration": {"timezone": "UTC"},
            **login,
            **plain,
        }

    def rows(self, statement: exp.Expr, action: str, table: str = "", seconds: int = LOAD_SECONDS) -> list[Any]:
        """Run one statement in its own session; returns rows with an attribute per column.

        Raises:
            UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED, TARGET_SCHEMA_MISSING, TARGET_DATABASE_MISSING,
                DATABRICKS_WAREHOUSE_MISSING, STORE_DRIVER_MISSING. ExternalError: STORE_UNREACHABLE, STORE_CALL_FAILED.
        """
        with closing(self.session(seconds)) as session:
            return session.run(statement.sql(dialect=DIALECT), action, table)

    def session(self, seconds: int = LOAD_SECONDS) -> WorkspaceSession:
        """A session for several statements; connects at the first one."""
        return WorkspaceSession(self, seconds)

    def location(self, name: Sequence[str], seconds: int = LOAD_SECONDS) -> str | None:
        """Folder of the files of a registered table, None if there is no table of this name."""
        statement = exp.Describe(this=table_of(name), style="DETAIL")
        try:
            rows = self.rows(statement, "look for the table", ".".join(name), seconds)
        except DsError as problem:
            if problem.condition == "ENTITY_MISSING":
                return None
            raise
        return str(rows[0].location)

    def register(self, name: Sequence[str], location: str) -> None:
        """Register the files of a Delta table under a name, if it does not exist."""
        properties = [
            exp.FileFormatProperty(this=exp.var("DELTA")),
            exp.LocationProperty(this=exp.Literal.string(location)),
        ]
        statement = exp.Create(
            this=table_of(name), kind="TABLE", exists=True, properties=exp.Properties(expressions=properties)
        )
        self.rows(statement, "register the table", ".".join(name))

    def driver(self) -> Any:
        """The module ``databricks.sql``.

        Raises:
            UserError: STORE_DRIVER_MISSING.
        """
        try:
            from databricks import sql
        except ImportError as problem:
            raise error("STORE_DRIVER_MISSING", type="DATABRICKS", package="databricks-sql-connector") from problem
        return sql

    def failure(self, problem: Exception, action: str, table: str = "", epoch: int | None = None) -> DsError:
        """A driver's exception as a condition; its text without tokens and quoted rows."""
        context = getattr(problem, "context", None) or {}
        whole = redact(" ".join(f"{problem} {context.get('original-exception', '')}".split()))
        whole = whole.partition(_ROWS)[0]
        code = context.get("http-code")
        name = STATUSES.get(code) or next((name for part, name in TEXTS if part in whole), "")
        if not name:
            name = "STORE_CALL_FAILED" if isinstance(problem, self.driver().exc.ServerOperationError) else UNREACHABLE
        schema = table.rpartition(".")[0]
        return error(
            name,
            detail=whole[:DETAIL_CHARACTERS],
            store=self.store,
            address=self.shown,
            user=self.client_id or "the token's owner",
            action=action,
            table=table,
            entity=table,
            schema=schema,
            database=schema.partition(".")[0],
            warehouse=self.warehouse_id,
            reason=whole[:DETAIL_CHARACTERS],
            missing="its location",
            epoch="(none)" if epoch is None else str(epoch),
            relation=table,
        )


class WorkspaceSession:
    """One session of the warehouse, for several statements; connects at the first one."""

    def __init__(self, address: WorkspaceAddress, seconds: int) -> None:
        self._address = address
        self._seconds = seconds
        self._connection: Any = None

    def run(
        self, text: str, action: str, table: str = "", stream: BinaryIO | None = None, epoch: int | None = None
    ) -> list[Any]:
        """Run one statement; returns rows with an attribute per column. ``stream``: the content for a PUT.

        Raises:
            DsError: see ``WorkspaceAddress.rows``.
        """
        module = self._address.driver()
        import urllib3.exceptions

        try:
            with self._connected(module).cursor() as cursor:
                if stream is not None or text.startswith("REMOVE "):
                    cursor.execute(text, input_stream=stream)  # the connector has consumed the stream
                    return []
                cursor.execute(text)
                return list(cursor.fetchall()) if cursor.description else []
        except (module.exc.Error, urllib3.exceptions.HTTPError, OSError) as problem:
            raise self._address.failure(problem, action, table, epoch) from None

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, module: Any) -> Any:
        if self._connection is None:
            arguments = self._address.client_arguments(self._seconds)
            if "credentials_provider" in arguments:
                arguments["credentials_provider"]()()  # the connector wraps the error of a refused login
            self._connection = module.connect(**arguments)
        return self._connection


class ServicePrincipal:
    """Login of a service principal (OAuth machine to machine) in the shape that the connector expects: a call returns a
    function that returns headers. A token is used until :data:`EARLY_SECONDS` before its end."""

    def __init__(self, address: WorkspaceAddress) -> None:
        self._address = address
        self._token = ""
        self._until = 0.0
        self._lock = threading.Lock()

    def auth_type(self) -> str:
        """The vendor's name of this login."""
        return "oauth-m2m"

    def __call__(self) -> Callable[[], dict[str, str]]:
        """The function that returns headers."""
        return self._headers

    def _headers(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._until:
                answer = self._ask()
                self._token = str(answer["access_token"])
                self._until = time.monotonic() + float(answer.get("expires_in", 0)) - EARLY_SECONDS
            return {"Authorization": f"Bearer {self._token}"}

    def _ask(self) -> Mapping[str, Any]:
        """Request a token from the workspace.

        Raises:
            UserError: STORE_LOGIN_REFUSED. ExternalError: STORE_UNREACHABLE.
        """
        address = self._address
        pair = base64.b64encode(f"{address.client_id}:{address.client_secret}".encode()).decode()
        request = urllib.request.Request(
            f"{address.base}/oidc/v1/token",
            data=urlencode({"grant_type": "client_credentials", "scope": "all-apis"}).encode(),
            headers={"Authorization": f"Basic {pair}", "Content-Type": "application/x-www-form-urlencoded"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TOKEN_SECONDS) as answer:
                body: Mapping[str, Any] = json.loads(answer.read())
                return body
        except urllib.error.HTTPError as problem:
            problem.close()
            name = "STORE_LOGIN_REFUSED" if problem.code in (400, 401, 403) else UNREACHABLE
            raise self._failed(name, f"HTTP {problem.code}") from None
        except (OSError, ValueError) as problem:
            raise self._failed(UNREACHABLE, type(problem).__name__) from None

    def _failed(self, name: str, detail: str) -> DsError:
        address = self._address
        return error(name, store=address.store, address=address.shown, user=address.client_id, detail=detail)


def table_of(name: Sequence[str]) -> exp.Table:
    """``catalog.schema.table``, quoted."""
    catalog, schema, table = name
    return exp.table_(table, db=schema, catalog=catalog, quoted=True)


def is_workspace_url(url: str, *, tls: bool) -> bool:
    """Whether an address has the scheme for ``tls``, a host and no login; a path is not checked, and never used."""
    try:
        parts = urlsplit(url)
        port_is_number = parts.port is None or parts.port > 0
    except ValueError:
        return False
    scheme = "https" if tls else "http"
    return parts.scheme == scheme and bool(parts.hostname) and "@" not in parts.netloc and port_is_number


_SETTINGS = ("url", "warehouse_id", "port", "tls_disabled", "app_token", "client_id", "client_secret")
UNREACHABLE = "STORE_UNREACHABLE"
_ROWS = "violated by row with values"
STATUSES: Mapping[int | None, str] = {
    401: "STORE_LOGIN_REFUSED",
    403: "STORE_LOGIN_REFUSED",
    404: "DATABRICKS_WAREHOUSE_MISSING",
    429: UNREACHABLE,
    503: UNREACHABLE,
}
"""HTTP status of a call → condition; the reason why a statement is refused is in its message (:data:`TEXTS`)."""
TEXTS: tuple[tuple[str, str], ...] = (
    ("TABLE_OR_VIEW_NOT_FOUND", "ENTITY_MISSING"),
    ("SCHEMA_NOT_FOUND", "TARGET_SCHEMA_MISSING"),
    ("NO_SUCH_CATALOG", "TARGET_DATABASE_MISSING"),
    ("CATALOG_NOT_FOUND", "TARGET_DATABASE_MISSING"),
    ("EXTERNAL LOCATION", "DATABRICKS_LOCATION_REFUSED"),
    ("External Location", "DATABRICKS_LOCATION_REFUSED"),
    ("external location", "DATABRICKS_LOCATION_REFUSED"),
    ("LOCATION_OVERLAP", "DATABRICKS_LOCATION_REFUSED"),
    ("NO_PARENT_EXTERNAL_LOCATION", "DATABRICKS_LOCATION_REFUSED"),
    ("INSUFFICIENT_PERMISSIONS", "STORE_PERMISSION_DENIED"),
    ("PERMISSION_DENIED", "STORE_PERMISSION_DENIED"),
    ("Invalid access token", "STORE_LOGIN_REFUSED"),
    ("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "TARGET_REJECTS_ROWS"),
    ("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "TARGET_REJECTS_ROWS"),
)
"""Error class of Databricks SQL in a message → condition; other errors of a statement are STORE_CALL_FAILED, errors of
the connection STORE_UNREACHABLE."""
