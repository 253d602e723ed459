"""Connections to Postgres (psycopg2 for statements, ADBC for Arrow in bulk), and their exceptions as conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ds_dagster.errors import DsError, error
from ds_dagster.redaction import redact
from ds_dagster.stores.options import host_part

CONNECT_SECONDS = 10
CALL_MILLIS = 600_000
"""Timeout of one statement of a load; control calls set a shorter one."""
CONTROL_MILLIS = 10_000
LOCK_MILLIS = 60_000
"""Longest wait for a lock."""
_KEEPALIVE = {"tcp_user_timeout": 60_000, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""Parameters of libpq, in seconds (``tcp_user_timeout`` in milliseconds): a network that drops packets without a word
ends a call after a minute, not after the two hours of the system's own limit."""
DETAIL_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Resolved settings of one store. Holds the password: never shown, never stored."""

    store: str
    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    sslmode: str = ""
    sslrootcert: str = ""
    database: str = ""

    @classmethod
    def of(cls, store: str, settings: Mapping[str, str]) -> PostgresAddress:
        """The address in resolved options; ignores other options."""
        return cls(store, **{name: settings[name] for name in _SETTINGS if name in settings})

    @property
    def shown(self) -> str:
        """Host and port."""
        return host_part(self.url)

    def dsn(self, millis: int = CALL_MILLIS) -> str:
        """Connection text for libpq, including the password. ``millis``: timeout of statements, and of locks up to
        :data:`LOCK_MILLIS`."""
        from psycopg2.extensions import make_dsn

        return str(
            make_dsn(
                self.url,
                user=self.username or None,
                password=self.password or None,
                sslmode=self.sslmode or None,
                sslrootcert=self.sslrootcert or None,
                dbname=self.database or None,
                connect_timeout=CONNECT_SECONDS,
                **_KEEPALIVE,
                application_name="ds-dagster",
                options=f"-c timezone=UTC -c statement_timeout={millis} -c lock_timeout={min(millis, LOCK_MILLIS)}",
            )
        )

    def control(self, millis: int = CALL_MILLIS) -> Any:
        """A psycopg2 connection, not in autocommit.

        Raises:
            ExternalError: STORE_UNREACHABLE. UserError: STORE_LOGIN_REFUSED, TARGET_DATABASE_MISSING,
                STORE_DRIVER_MISSING.
        """
        try:
            import psycopg2
        except ImportError as problem:
            raise error("STORE_DRIVER_MISSING", type="POSTGRESQL", package="psycopg2-binary") from problem
        try:
            return psycopg2.connect(self.dsn(millis))
        except psycopg2.Error as problem:
            raise self.failure(problem, "connect") from None

    def bulk(self) -> Any:
        """An ADBC connection, not in autocommit; raises as :meth:`control`."""
        try:
            import adbc_driver_manager
            import adbc_driver_postgresql.dbapi as adbc
        except ImportError as problem:
            raise error("STORE_DRIVER_MISSING", type="POSTGRESQL", package="adbc-driver-postgresql") from problem
        try:
            return adbc.connect(self.dsn())
        except adbc_driver_manager.Error as problem:
            raise self.failure(problem, "connect") from None

    def failure(self, problem: Exception, action: str, table: str = "", epoch: int | None = None) -> DsError:
        """A driver's exception as a condition; its text without secrets and rows."""
        code = _code(problem)
        text = primary_text(problem)
        base: dict[str, Any] = {
            "store": self.store,
            "address": self.shown,
            "user": self.username or "(default user)",
            "action": action,
        }
        name = next((name for prefix, name in CODES if code and code.startswith(prefix)), "")
        if not table and name.startswith("TARGET_") and name != "TARGET_DATABASE_MISSING":
            name = ""
        if not code:
            name = next((name for part, name in TEXTS if part in text), "STORE_UNREACHABLE")
        more: dict[str, Any] = {
            "database": self.database or self.url.rpartition("/")[2],
            "what": f"the store {self.store}",
        }
        more |= {"table": table, "epoch": "(none)" if epoch is None else str(epoch), "reason": text}
        return error(name or "STORE_CALL_FAILED", detail=text, **base, **more)


_SETTINGS = ("url", "username", "password", "sslmode", "sslrootcert", "database")
CODES: tuple[tuple[str, str], ...] = (
    ("28", "STORE_LOGIN_REFUSED"),
    ("3D", "TARGET_DATABASE_MISSING"),
    ("42501", "STORE_PERMISSION_DENIED"),
    ("53100", "DISK_FULL"),
    ("08", "STORE_UNREACHABLE"),
    ("57P", "STORE_UNREACHABLE"),
    ("55P03", "TARGET_LOCKED"),
    ("40", "TARGET_LOCKED"),
    ("42P01", "TARGET_CHANGED"),
    ("42703", "TARGET_CHANGED"),
    ("42804", "TARGET_CHANGED"),
    ("22", "TARGET_REJECTS_ROWS"),
    ("23", "TARGET_REJECTS_ROWS"),
)
"""Prefix of an SQLSTATE → condition; others are STORE_CALL_FAILED."""
TEXTS: tuple[tuple[str, str], ...] = (
    ("password authentication failed", "STORE_LOGIN_REFUSED"),
    ("no password supplied", "STORE_LOGIN_REFUSED"),
    ("pg_hba.conf", "STORE_LOGIN_REFUSED"),
    ('role "', "STORE_LOGIN_REFUSED"),
    ('database "', "TARGET_DATABASE_MISSING"),
    ("does not exist in target table", "TARGET_CHANGED"),
    ('ERROR:  relation "', "TARGET_CHANGED"),
)
"""Part of a message → condition: libpq gives no code if it cannot connect, ADBC none if it compares columns itself.
Other messages without a code are STORE_UNREACHABLE."""


CONFLICTS = ("40001", "40P01")
"""Serialization failure, deadlock: the server rolled the transaction back in favor of others, and it can be repeated.
Source: https://www.postgresql.org/docs/current/mvcc-serialization-failure-handling.html."""


def is_conflict(problem: BaseException) -> bool:
    """Whether a driver's exception is one of :data:`CONFLICTS`: the same transaction may succeed when repeated."""
    return _code(problem) in CONFLICTS


def _code(problem: BaseException) -> str:
    """The SQLSTATE, empty if the exception has none."""
    return getattr(problem, "pgcode", None) or getattr(problem, "sqlstate", None) or ""


def primary_text(problem: Exception) -> str:
    """The first sentence of a message, without secrets: the rest of the server's message may quote rows."""
    diagnosis = getattr(problem, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    text = primary or str(problem).split("\nQuery was:")[0].split("\nDETAIL:")[0].strip()
    return redact(text)[:DETAIL_CHARACTERS]
