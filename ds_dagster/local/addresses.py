"""Where the local servers of a project answer."""

from __future__ import annotations

from dataclasses import dataclass

REGION = "us-east-2"


@dataclass(frozen=True, slots=True)
class LocalAddresses:
    """Addresses of the servers a project has; empty text for one it has not.

    Attributes:
        kafka: bootstrap servers, ``127.0.0.1:port``.
        kinesis: endpoint URL.
        postgres: ``postgresql://127.0.0.1:port/postgres``, without user and password.
        postgres_user: who logs in.
        postgres_password_file: where the password is (mode 0600).
        snowflake: URL of the stand-in for Snowflake, which takes any login.
        region: what Kinesis clients have to name; any region works.
    """

    kafka: str = ""
    kinesis: str = ""
    postgres: str = ""
    postgres_user: str = ""
    postgres_password_file: str = ""
    snowflake: str = ""
    region: str = REGION

    def json(self) -> dict[str, dict[str, str]]:
        """The shape ``ds up --json`` prints; a server that is not there is left out. Never holds a secret."""
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
