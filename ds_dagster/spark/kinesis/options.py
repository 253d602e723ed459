"""Options of the data source: flat strings in, one checked record out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ds_dagster.aws_session import AwsLogin
from ds_dagster.catalog.reading.starting import Offsets, parse_offsets
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean


@dataclass(frozen=True, slots=True)
class Connection:
    """Address of Kinesis and login. Without keys, botocore's default chain is used.

    Attributes:
        region: AWS region; needed for the signature, even with a local server.
        endpoint_url: replaces AWS's own endpoint; empty for AWS.
        profile, role_arn, external_id, sts_endpoint_url: see :class:`ds_dagster.aws_session.AwsLogin`.
    """

    region: str
    endpoint_url: str = ""
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    profile: str = ""
    role_arn: str = ""
    external_id: str = ""
    sts_endpoint_url: str = ""

    @property
    def login(self) -> AwsLogin:
        """The login for AWS."""
        return AwsLogin(
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            aws_session_token=self.session_token,
            profile_name=self.profile,
            role_arn=self.role_arn,
            external_id=self.external_id,
            sts_endpoint_url=self.sts_endpoint_url,
        )

    @property
    def place(self) -> str:
        """Endpoint or region, shown in errors."""
        return self.endpoint_url or self.region


@dataclass(frozen=True, slots=True)
class KinesisOptions:
    """Checked options of one source or sink.

    Attributes:
        stream: name of the stream.
        connection: see :class:`Connection`.
        starting_position: ``earliest``, ``latest``, ``timestamp`` or ``offsets``; only for a first start.
        starting_timestamp: epoch milliseconds, for position ``timestamp``.
        starting_offsets: number of a shard and sequence number of its first record, for position ``offsets``.
        max_records: most records of one batch.
        spool: folder on the driver for fetched records and notes; empty: a temporary folder.
        ship_records: small ranges of records are sent to tasks with their plan, for tasks on other machines than the
            spool.
        poll_seconds: pause between reads of a shard at its end. AWS allows five reads per second and shard.
        discovery_seconds: pause between requests for the list of shards; a closed shard triggers one at once.
        buffer_bytes: bytes of records fetched ahead, over all shards; one page per shard is always allowed.
        on_trimmed: ``fail`` or ``skip``, if unread records have passed the stream's retention.
        lanes: number of parallel requests of a sink task; a partition key stays in one lane.
        retry_seconds: how long a request is retried without any success.
    """

    stream: str
    connection: Connection
    starting_position: str = "earliest"
    starting_timestamp: int = 0
    starting_offsets: Offsets = ()
    max_records: int = 100_000
    spool: str = ""
    ship_records: bool = False
    poll_seconds: float = 0.2
    discovery_seconds: float = 10.0
    buffer_bytes: int = 64 * 1024 * 1024
    on_trimmed: str = "fail"
    lanes: int = 4
    retry_seconds: float = 60.0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> KinesisOptions:
        """Parse Spark's options. Keys are case-insensitive; unknown keys are refused, except :data:`IGNORED`.

        Raises:
            UserError: KINESIS_OPTION_INVALID or KINESIS_OPTION_UNKNOWN.
        """
        lowered = {key.lower(): value for key, value in options.items()}
        for key in lowered.keys() - OPTIONS.keys() - IGNORED:
            raise error("KINESIS_OPTION_UNKNOWN", name=key, nearest=did_you_mean(key, OPTIONS))
        values = {
            option.field: option.convert(name, lowered[name])
            for name, option in OPTIONS.items()
            if lowered.get(name, "") != ""
        }
        for name in ("stream", "region"):
            if not values.get(name):
                raise error("KINESIS_OPTION_INVALID", name=name, value="", allowed="a name; the option is required")
        connection = Connection(**{f.name: values.pop(f.name) for f in fields(Connection) if f.name in values})
        return cls(connection=connection, **values)


@dataclass(frozen=True, slots=True)
class _Option:
    field: str
    convert: Callable[[str, str], Any]


def _text(_: str, value: str) -> str:
    return value


def _choice(*allowed: str) -> Callable[[str, str], str]:
    def convert(name: str, value: str) -> str:
        if value.lower() not in allowed:
            raise error("KINESIS_OPTION_INVALID", name=name, value=value, allowed=allowed)
        return value.lower()

    return convert


def _whole(least: int) -> Callable[[str, str], int]:
    def convert(name: str, value: str) -> int:
        if not value.strip().isdecimal() or int(value) < least:
            raise error("KINESIS_OPTION_INVALID", name=name, value=value, allowed=f"a whole number, at least {least}")
        return int(value)

    return convert


def _offsets(name: str, value: str) -> Offsets:
    try:
        return parse_offsets(value)
    except ValueError:
        allowed = "pairs of a shard's number and a sequence number, such as 0:4959,1:4960"
        raise error("KINESIS_OPTION_INVALID", name=name, value=value, allowed=allowed) from None


def _truth(name: str, value: str) -> bool:
    return _choice("true", "false")(name, value) == "true"


def _seconds(least_millis: int) -> Callable[[str, str], float]:
    whole = _whole(least_millis)

    def convert(name: str, value: str) -> float:
        return whole(name, value) / 1000

    return convert


OPTIONS: Mapping[str, _Option] = {
    "stream": _Option("stream", _text),
    "region": _Option("region", _text),
    "endpoint_url": _Option("endpoint_url", _text),
    "access_key_id": _Option("access_key_id", _text),
    "secret_access_key": _Option("secret_access_key", _text),
    "session_token": _Option("session_token", _text),
    "profile": _Option("profile", _text),
    "role_arn": _Option("role_arn", _text),
    "external_id": _Option("external_id", _text),
    "sts_endpoint_url": _Option("sts_endpoint_url", _text),
    "starting.position": _Option("starting_position", _choice("earliest", "latest", "timestamp", "offsets")),
    "starting.timestamp": _Option("starting_timestamp", _whole(0)),
    "starting.offsets": _Option("starting_offsets", _offsets),
    "max.records.per.batch": _Option("max_records", _whole(1)),
    "spool": _Option("spool", _text),
    "ship.records": _Option("ship_records", _truth),
    "poll.interval.millis": _Option("poll_seconds", _seconds(1)),
    "discovery.interval.millis": _Option("discovery_seconds", _seconds(10)),
    "buffer.bytes": _Option("buffer_bytes", _whole(1)),
    "on.trimmed": _Option("on_trimmed", _choice("fail", "skip")),
    "send.lanes": _Option("lanes", _whole(1)),
    "retry.millis": _Option("retry_seconds", _seconds(1)),
}
IGNORED = frozenset({"checkpointlocation", "path", "queryname"})
"""Options that Spark itself adds to every writer."""
