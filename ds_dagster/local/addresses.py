"""Addresses of a project's local servers."""

from __future__ import annotations

from dataclasses import dataclass

REGION = "us-east-2"


@dataclass(frozen=True, slots=True)
class LocalAddresses:
    """Addresses of the servers a project has; empty for servers it does not have.

    Attributes:
        kafka: bootstrap servers, ``127.0.0.1:port``.
        kinesis: endpoint URL.
        postgres: ``postgresql://127.0.0.1:port/postgres``, without user and password.
        postgres_user: user to log in as.
        postgres_password_file: file of the password (mode 0600).
        snowflake: URL of the stand-in for Snowflake, which accepts any login.
        region: AWS region for Kinesis clients, which require one; any region works.
    """

    kafka: str = ""
    kinesis: str = ""
    postgres: str = ""
    postgres_user: str = ""
    postgres_password_file: str = ""
    snowflake: str = ""
    region: str = REGION

    def json(self) -> dict[str, dict[str, str]]:
        """The JSON that ``ds up --json`` prints: server → its addresses, without servers the project does not have.
        Never holds a secret."""
        table: dict[str, dict[str, str]] = {}
        if self.kafka:
            table["kafka"] = {"bootstrap.servers": self.kafka}
        if self.kinesis:
            table["kinesis"] = {"endpoint_url": self.kinesis, "region": self.region}
        if self.postgres:
            table["postgres"] = {
                "url": self.postgres.replace("://", f"://{self.postgres_user}@"),
                "password_file": self.postgres_password_file,
            }
        if self.snowflake:
            table["snowflake"] = {"url": self.snowflake}
        return table
