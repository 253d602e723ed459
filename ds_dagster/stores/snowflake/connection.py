"""Connections to Snowflake (snowflake-connector-python), and their exceptions as conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from ds_dagster.errors import DsError, error
from ds_dagster.redaction import redact
from ds_dagster.stores.snowflake.names import account_name

DOMAIN = "snowflakecomputing.com"
LOGIN_SECONDS = 20
CALL_SECONDS = 900
"""How long one statement may run, and how long the connector retries it when the network or the service fails: the
connector has one setting for both."""
CONTROL_SECONDS = 10
LONG_SECONDS = 6 * 3600
"""Timeout of the statement that publishes a full refresh, and the server's timeout of every statement."""
LOCK_SECONDS = 30
"""Longest wait for another transaction before a job reports it and retries. Snowflake ends a transaction whose client
is gone after five minutes, if it blocks others (https://docs.snowflake.com/en/sql-reference/transactions)."""
DETAIL_CHARACTERS = 400
APPLICATION = "ds_dagster"


@dataclass(frozen=True, slots=True)
class SnowflakeAddress:
    """Resolved settings of one store. Holds the login: never shown, never stored.

    ``call_seconds``: see :data:`CALL_SECONDS`.
    """

    store: str
    account_id: str
    region: str = ""
    url: str = ""
    username: str = ""
    warehouse: str = ""
    role: str = ""
    key_file: str = ""
    key_passphrase: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    oauth_token: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    call_seconds: int = CALL_SECONDS

    @classmethod
    def of(cls, store: str, settings: Mapping[str, str]) -> SnowflakeAddress:
        """The address in resolved options; ignores other options."""
        options: dict[str, Any] = {name: settings[name] for name in _SETTINGS if name in settings}
        return cls(store, **options)

    @property
    def account(self) -> str:
        """Name of the account for the connector, see :func:`account_name`."""
        return account_name(self.account_id, self.region)

    @property
    def shown(self) -> str:
        """Host, and port if the address has one."""
        return urlsplit(self.url).netloc.rpartition("@")[2] or f"{self.account}.{DOMAIN}"

    def client_arguments(self) -> dict[str, Any]:
        """Arguments of ``snowflake.connector.connect``, including secrets.

        Raises:
            UserError: STORE_KEY_INVALID.
        """
        arguments: dict[str, Any] = {
            "account": self.account,
            "application": APPLICATION,
            **self._host(),
            **self._login(),
        }
        plain = {"user": self.username, "warehouse": self.warehouse, "role": self.role}
        return arguments | {name: value for name, value in plain.items() if value}

    def connect(self, tag: str = "ds-dagster", seconds: int | None = None) -> Any:
        """A connection in autocommit.

        Args:
            tag: QUERY_TAG of its statements, seen in the account's query history.
            seconds: timeout, if it is shorter than ``call_seconds``.

        Raises:
            ExternalError: STORE_UNREACHABLE.
            UserError: STORE_LOGIN_REFUSED, STORE_ROLE_REFUSED, STORE_ACCOUNT_UNKNOWN, STORE_KEY_INVALID,
                STORE_DRIVER_MISSING.
        """
        connector = driver()
        session = {
            "QUERY_TAG": tag,
            "TIMEZONE": "UTC",
            "LOCK_TIMEOUT": LOCK_SECONDS,
            "STATEMENT_TIMEOUT_IN_SECONDS": LONG_SECONDS,
            "ABORT_DETACHED_QUERY": True,
            "TRANSACTION_ABORT_ON_ERROR": True,
        }
        patience = min(seconds or self.call_seconds, self.call_seconds)
        arguments = {
            **self.client_arguments(),
            "login_timeout": min(LOGIN_SECONDS, patience),
            "network_timeout": patience,
            "session_parameters": session,
            "autocommit": True,
        }
        try:
            return connector.connect(**arguments)
        except connector.errors.Error as problem:
            raise self.failure(problem, "connect") from None

    def failure(self, problem: Exception, action: str, table: str = "", epoch: int | None = None) -> DsError:
        """A driver's exception as a condition; its text without secrets and without values of rows."""
        code = int(getattr(problem, "errno", None) or 0)
        state = str(getattr(problem, "sqlstate", None) or "")
        text = _driver_message(problem)
        name = CODES.get(code) or next((name for prefix, name in STATES if state.startswith(prefix)), "")
        name = name or next((name for low, high, name in RANGES if low <= code <= high), "")
        name = next((condition for part, condition in TEXTS if part in text), "") or name or "STORE_CALL_FAILED"
        if name == "TARGET_REJECTS_ROWS":
            text = _VALUES.sub("'…'", text)
        return error(
            name,
            detail=text,
            store=self.store,
            address=self.shown,
            user=self.username or "(the token's user)",
            role=self.role or "(default role)",
            warehouse=self.warehouse or "(default warehouse)",
            action=action,
            table=table,
            epoch="(none)" if epoch is None else str(epoch),
            reason=text,
        )

    def _host(self) -> dict[str, Any]:
        if not self.url:
            return {}
        address = urlsplit(self.url)
        return {
            "host": address.hostname,
            "port": address.port or (443 if address.scheme == "https" else 80),
            "protocol": address.scheme,
        }

    def _login(self) -> dict[str, Any]:
        if self.key_file:
            key = load_key(self.store, self.key_file, self.key_passphrase)
            return {"authenticator": "SNOWFLAKE_JWT", "private_key": key}
        if self.oauth_token:
            return {"authenticator": "OAUTH", "token": self.oauth_token}
        if self.access_token:
            return {"authenticator": "PROGRAMMATIC_ACCESS_TOKEN", "token": self.access_token}
        return {"password": self.password}


_SETTINGS = (
    "account_id", "region", "url", "username", "warehouse", "role", "key_file", "key_passphrase", "password",
    "oauth_token", "access_token",
)  # fmt: skip

CODES: Mapping[int, str] = MappingProxyType(
    {
        625: "TARGET_LOCKED",
        390189: "STORE_ROLE_REFUSED",
        606: "STORE_WAREHOUSE_MISSING",
        90073: "STORE_WAREHOUSE_MISSING",
        3001: "STORE_PERMISSION_DENIED",
        2003: "STORE_PERMISSION_DENIED",
        2043: "STORE_PERMISSION_DENIED",
        290403: "STORE_ACCOUNT_UNKNOWN",
        290404: "STORE_ACCOUNT_UNKNOWN",
        253003: "STORE_UNREACHABLE",
        253012: "STORE_UNREACHABLE",
    }
)
"""Number of an error of Snowflake or its connector → condition: LOCK_TIMEOUT has passed, role, no active warehouse, its
credit limit, missing privilege, does not exist or not authorized (which Snowflake does not tell apart), no such
account, upload failed."""
STATES: tuple[tuple[str, str], ...] = (
    ("42501", "STORE_PERMISSION_DENIED"),
    ("28", "STORE_LOGIN_REFUSED"),
    ("22", "TARGET_REJECTS_ROWS"),
    ("23", "TARGET_REJECTS_ROWS"),
)
"""Beginning of an SQLSTATE → condition."""
RANGES: tuple[tuple[int, int, str], ...] = (
    (390103, 390104, "STORE_UNREACHABLE"),
    (390111, 390115, "STORE_UNREACHABLE"),
    (390100, 390999, "STORE_LOGIN_REFUSED"),
    (100000, 100999, "TARGET_REJECTS_ROWS"),
    (250000, 251999, "STORE_UNREACHABLE"),
    (290000, 290999, "STORE_UNREACHABLE"),
    (580000, 580999, "STORE_UNREACHABLE"),
)
"""Ranges of error numbers → condition, the first matching range counts; others are STORE_CALL_FAILED. 390103 to 390115:
the session has ended, a new one can be opened."""
TEXTS: tuple[tuple[str, str], ...] = (
    ("Verify the account name is correct", "STORE_ACCOUNT_UNKNOWN"),
    ("specified in the connect string does not exist or not authorized", "STORE_ROLE_REFUSED"),
    ("Incorrect username or password", "STORE_LOGIN_REFUSED"),
    ("JWT token is invalid", "STORE_LOGIN_REFUSED"),
    ("No active warehouse selected", "STORE_WAREHOUSE_MISSING"),
)
"""Part of a message → condition, before the error number, which is less precise."""
_VALUES = re.compile(r"'(?:[^']|'')*'")


def driver() -> Any:
    """The module ``snowflake.connector``.

    Raises:
        UserError: STORE_DRIVER_MISSING.
    """
    try:
        import snowflake.connector
    except ImportError as problem:
        raise error("STORE_DRIVER_MISSING", type="SNOWFLAKE", package="'ds-dagster[snowflake]'") from problem
    return snowflake.connector


def load_key(store: str, file: str, passphrase: str = "") -> bytes:
    """A private key in the form of the connector (PKCS 8, DER).

    Args:
        store: for messages.
        file: PEM text, encrypted or not.
        passphrase: of an encrypted file; empty without one.

    Raises:
        UserError: STORE_KEY_INVALID, STORE_DRIVER_MISSING.
    """
    driver()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    reason = "it is not an RSA key"
    try:
        data = Path(file).expanduser().read_bytes()
        key = serialization.load_pem_private_key(data, passphrase.encode() or None)
        if isinstance(key, RSAPrivateKey):
            return key.private_bytes(
                serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
    except OSError as problem:
        reason = problem.strerror or "it cannot be read"
    except TypeError:
        reason = "it is not encrypted, but a passphrase is given" if passphrase else "it is encrypted"
    except (ValueError, UnsupportedAlgorithm):
        reason = "it is not a valid private key in PEM, or the passphrase is wrong"
    raise error("STORE_KEY_INVALID", file=file, store=store, reason=reason)


def _driver_message(problem: Exception) -> str:
    """The driver's message on one line, without secrets."""
    text = str(getattr(problem, "raw_msg", None) or getattr(problem, "msg", None) or problem)
    return redact(" ".join(text.split()))[:DETAIL_CHARACTERS]
