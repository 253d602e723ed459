"""Control of Kinesis streams through boto3: probe, describe, create, print."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

from ds_dagster.aws_session import AwsLogin, aws_client
from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult, RawRecord
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.catalog.reading.skew import ClockSkew
from ds_dagster.errors import DsError, error
from ds_dagster.kinesis_aggregates import open_aggregate, shown_position
from ds_dagster.stores.probing import probed

SHARDS, MODE, RETENTION = "topic.shards", "kinesis.stream.mode", "kinesis.stream.retention.hours"
ON_DEMAND, PROVISIONED, DEFAULT_HOURS = "on_demand", "provisioned", 24
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 10, 3
ACTIVE_SECONDS = 60.0
POLL_SECONDS = 0.25
LOGIN_CODES = (
    "UnrecognizedClientException",
    "InvalidSignatureException",
    "IncompleteSignature",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "MissingAuthenticationTokenException",
)
PERMISSION_CODES = ("AccessDeniedException", "AccessDenied")
REFUSAL_CODES = ("ValidationException", "InvalidArgumentException", "InvalidParameterException")


class KinesisAdmin:
    """See ``catalog.store.StoreAdmin``. A request is tried up to three times, each with timeouts of 5 s to connect and
    10 s to read.

    Args:
        store: name, for messages.
        settings: of :func:`ds_dagster.aws_session.aws_client`.
    """

    def __init__(self, store: str, settings: Mapping[str, str]) -> None:
        self.store = store
        self._settings = dict(settings)
        self._login = AwsLogin(**{name: value for name, value in settings.items() if name != "endpoint_url"})
        self._made: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"KinesisAdmin({self.store}, {self.address})"

    @property
    def address(self) -> str:
        """The store's endpoint, or the region's."""
        return self._settings.get("endpoint_url") or f"kinesis.{self._settings['region_name']}.amazonaws.com"

    def probe(self) -> ProbeResult:
        """Whether Kinesis answers and accepts the login."""

        def attempt() -> str:
            self._call("list streams", "list_streams", Limit=1)
            return f"Kinesis at {self.address}"

        return probed(attempt)

    def skew(self, entities: Sequence[str]) -> ClockSkew | None:  # noqa: ARG002, Kinesis stamps all of them
        """See ``catalog.reading.skew.TellsTime``: from the header ``Date`` of an answer, which has whole seconds."""
        began = time.time()
        answer = self._call("list streams", "list_streams", Limit=1)
        ended = time.time()
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        if date is None:
            return ClockSkew()
        stamp = parsedate_to_datetime(date).timestamp()
        return ClockSkew(began - stamp - 1.0, ended - stamp)

    def describe(self, entity: str) -> EntityFacts | None:
        """Open shards, mode and retention of a stream, None when it does not exist. Kinesis stamps records on arrival;
        the stream's identity is the time of its creation."""
        summary = self._summary(entity)
        if summary is None:
            return None
        shards = summary.get("OpenShardCount") or len(self._shards(entity, only_open=True))
        created = summary.get("StreamCreationTimestamp")
        return EntityFacts(
            entity,
            MappingProxyType({SHARDS: int(shards)}),
            MappingProxyType(_settings(summary)),
            record_time="broker",
            identity="" if created is None else f"{created.timestamp():.3f}",
        )

    def parts(self, entity: str) -> Sequence[str]:
        """See ``catalog.reading.parts.NamesParts``."""
        shards = [] if self._summary(entity) is None else self._shards(entity, only_open=False)
        return [shard["ShardId"] for shard in shards]

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Make sure that a stream exists, is active, and has the stated shards, mode and retention.

        Raises:
            UserError: ENTITY_MISSING, ENTITY_COUNT_DIFFERS, ENTITY_REFUSED. ExternalError: STORE_CALL_FAILED.
        """
        stream = self.describe(plan.name)
        if stream is None:
            new = self._completed(plan)
            self._create(new)
            self._keep(plan.name, int(new.settings.get(RETENTION, DEFAULT_HOURS)))
        self._await_active(plan.name)
        stream = self.describe(plan.name)
        if stream is None:
            raise error("STORE_CALL_FAILED", store=self.store, action=f"show the new stream {plan.name}")
        self._check_stated(plan, stream)
        return stream

    def _check_stated(self, plan: EntityPlan, stream: EntityFacts) -> None:
        """Compare with the declaration, except shards of an on-demand stream, which AWS changes at any time."""
        mode = stream.settings.get(MODE, PROVISIONED)
        compared: list[tuple[str, str | int, str | int]] = []
        if MODE in plan.stated:
            compared.append((MODE, mode, plan.settings[MODE]))
        if SHARDS in plan.stated and mode != ON_DEMAND:
            compared.append((SHARDS, stream.counts[SHARDS], plan.counts[SHARDS]))
        if RETENTION in plan.stated:
            hours, wanted_hours = (int(s.settings.get(RETENTION, DEFAULT_HOURS)) for s in (stream, plan))
            compared.append((RETENTION, min(hours, wanted_hours), wanted_hours))  # longer is as good
        for name, is_now, wanted in compared:
            if is_now != wanted:
                raise error(
                    "ENTITY_COUNT_DIFFERS",
                    entity=plan.name,
                    store=self.store,
                    name=name,
                    found=is_now,
                    relation=plan.used_by,
                    wanted=wanted,
                )

    def _completed(self, plan: EntityPlan) -> EntityPlan:
        if plan.like is not None and plan.like[0] == self.store:
            model = self.describe(plan.like[1])
            plan = plan.completed(model) if model is not None else plan
        if SHARDS not in plan.counts and plan.settings.get(MODE) != ON_DEMAND:
            raise error(
                "ENTITY_MISSING",
                entity=plan.name,
                store=self.store,
                reason="the number of shards is not given",
                missing=f"'{SHARDS}', or '{MODE}' = {ON_DEMAND},",
                relation=plan.used_by,
            )
        return plan

    def _create(self, plan: EntityPlan) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        action = f"create the stream {plan.name}"
        try:
            self._client().create_stream(StreamName=plan.name, **_capacity(plan))
        except ClientError as problem:
            code = problem.response["Error"]["Code"]
            if code == "ResourceInUseException":
                return
            if code in REFUSAL_CODES:
                detail = problem.response["Error"].get("Message", code)
                raise error(
                    "ENTITY_REFUSED", store=self.store, action=action, relation=plan.used_by, detail=detail
                ) from None
            raise self._refusal(problem, action) from None
        except BotoCoreError as problem:
            raise self._unreachable(problem, action) from None

    def _keep(self, entity: str, hours: int) -> None:
        """Set the retention of a new stream when it is active, if it is longer than the default."""
        if hours > DEFAULT_HOURS:
            self._await_active(entity)
            action = f"keep records of {entity} for {hours} hours"
            self._call(action, "increase_stream_retention_period", StreamName=entity, RetentionPeriodHours=hours)

    def _await_active(self, entity: str) -> None:
        ends = time.monotonic() + ACTIVE_SECONDS
        while time.monotonic() < ends:
            summary = self._summary(entity)
            if summary is not None and summary["StreamStatus"] in ("ACTIVE", "UPDATING"):
                return
            time.sleep(POLL_SECONDS)
        raise error("STORE_CALL_FAILED", store=self.store, action=f"make the stream {entity} active")

    def entities(self) -> Sequence[EntityFacts]:
        """All streams by name."""
        names: list[str] = []
        while True:
            more = {"ExclusiveStartStreamName": names[-1]} if names else {}
            answer = self._call("list streams", "list_streams", **more)
            names += answer["StreamNames"]
            if not answer.get("HasMoreStreams") or not answer["StreamNames"]:
                return [EntityFacts(name, record_time="broker") for name in sorted(names)]

    def records(
        self,
        entity: str,
        *,
        from_beginning: bool,
        limit: int | None,
        stopped: Callable[[], bool],
        since: int | None = None,
    ) -> Iterator[RawRecord]:
        """Records shard by shard as they arrive. With a limit, and from the beginning, also ends when every shard is
        read to its present end.

        Raises:
            UserError: ENTITY_ABSENT.
        """
        kind = "LATEST" if not from_beginning else "TRIM_HORIZON" if since is None else "AT_TIMESTAMP"
        iterators = self._iterators(entity, kind, since)
        count, ends = 0, limit is not None and from_beginning
        while iterators and not stopped():
            busy = False
            for shard in list(iterators):
                answer = self._call(f"read {entity}", "get_records", ShardIterator=iterators[shard], Limit=1000)
                for record in _records(shard, answer["Records"]):
                    yield record
                    count += 1
                    if limit is not None and count >= limit:
                        return
                busy = busy or bool(answer["Records"]) or answer.get("MillisBehindLatest", 0) > 0
                following = answer.get("NextShardIterator")
                iterators = {**iterators, shard: following} if following else _without(iterators, shard)
            if not busy:
                if ends:
                    return
                time.sleep(POLL_SECONDS)

    def _iterators(self, entity: str, kind: str, since: int | None = None) -> dict[str, str]:
        if self._summary(entity) is None:
            raise error("ENTITY_ABSENT", entity=entity, store=self.store)
        shards = [shard["ShardId"] for shard in self._shards(entity, only_open=kind == "LATEST")]
        moment = {} if since is None else {"Timestamp": since / 1000}
        place = {"StreamName": entity, "ShardIteratorType": kind, **moment}
        return {
            shard: self._call(f"read {entity}", "get_shard_iterator", ShardId=shard, **place)["ShardIterator"]
            for shard in shards
        }

    def end_reached(self, entity: str, positions: Mapping[str, str]) -> int:
        """Records after these sequence numbers, counted by reading (Kinesis has no offsets to subtract), from one
        request of at most 10,000 records per shard."""
        behind = 0
        for shard in self._shards(entity, only_open=False):
            name = shard["ShardId"]
            start = (
                {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": positions[name]}
                if name in positions
                else {"ShardIteratorType": "TRIM_HORIZON"}
            )
            iterator = self._call("read a shard", "get_shard_iterator", StreamName=entity, ShardId=name, **start)
            answer = self._call("read a shard", "get_records", ShardIterator=iterator["ShardIterator"], Limit=10_000)
            behind += sum(1 for _ in _records(name, answer["Records"]))
        return behind

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.kinesis.entities import KinesisEntities

        return KinesisEntities(self)

    def close(self) -> None:
        """Close the sockets."""
        for client in self._made.values():
            client.close()
        self._made = {}

    def _client(self, attempts: int = ATTEMPTS) -> Any:
        """A client that sends a request at most ``attempts`` times."""
        if attempts not in self._made:
            try:
                from botocore.config import Config
            except ImportError as problem:
                raise error("STORE_DRIVER_MISSING", type="KINESIS", package="boto3") from problem
            config = Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": attempts, "mode": "standard"},
            )
            self._made[attempts] = aws_client("kinesis", {**self._settings, "config": config})
        return self._made[attempts]

    def _call(self, action: str, method: str, **arguments: object) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client(), method)(**arguments)
        except ClientError as problem:
            raise self._refusal(problem, action) from None
        except BotoCoreError as problem:
            raise self._unreachable(problem, action) from None

    def _summary(self, entity: str) -> Mapping[str, Any] | None:
        from botocore.exceptions import BotoCoreError, ClientError

        action = f"describe the stream {entity}"
        try:
            answer = self._client().describe_stream_summary(StreamName=entity)
        except ClientError as problem:
            if problem.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise self._refusal(problem, action) from None
        except BotoCoreError as problem:
            raise self._unreachable(problem, action) from None
        summary: Mapping[str, Any] = answer["StreamDescriptionSummary"]
        return summary

    def _shards(self, entity: str, *, only_open: bool) -> list[Mapping[str, Any]]:
        shards: list[Mapping[str, Any]] = []
        arguments: dict[str, object] = {"StreamName": entity}
        while True:
            answer = self._call(f"list the shards of {entity}", "list_shards", **arguments)
            shards += answer["Shards"]
            if not answer.get("NextToken"):
                break
            arguments = {"NextToken": answer["NextToken"]}
        return [s for s in shards if not only_open or "EndingSequenceNumber" not in s["SequenceNumberRange"]]

    def _refusal(self, problem: Any, action: str) -> DsError:
        """The condition for an error that the service has answered."""
        code = problem.response["Error"]["Code"]
        detail = f"{code}: {problem.response['Error'].get('Message', '')}"
        user = self._login.user
        if problem.operation_name == "AssumeRole":
            return error("KINESIS_ROLE_REFUSED", role=self._login.role_arn, code=code, detail=detail)
        if code in LOGIN_CODES:
            return error("STORE_LOGIN_REFUSED", store=self.store, address=self.address, user=user, detail=detail)
        if code in PERMISSION_CODES:
            return error("STORE_PERMISSION_DENIED", store=self.store, user=user, action=action, detail=detail)
        return error("STORE_CALL_FAILED", store=self.store, action=action, detail=detail)

    def _unreachable(self, problem: Exception, action: str) -> DsError:
        """The condition for a missing answer, or missing credentials."""
        name, detail = type(problem).__name__, str(problem)
        if "Credentials" in name:
            return error("STORE_LOGIN_REFUSED", store=self.store, address=self.address, user="(no user)", detail=detail)
        if name in (
            "EndpointConnectionError",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "ConnectionClosedError",
            "SSLError",
            "ProxyConnectionError",
            "HTTPClientError",
        ):
            return error("STORE_UNREACHABLE", store=self.store, address=self.address, detail=detail)
        return error("STORE_CALL_FAILED", store=self.store, action=action, detail=detail)


def _settings(summary: Mapping[str, Any]) -> dict[str, str]:
    """Mode and retention of a stream, where they differ from the service's defaults."""
    mode = str(summary.get("StreamModeDetails", {}).get("StreamMode", PROVISIONED)).lower()
    hours = int(summary.get("RetentionPeriodHours") or DEFAULT_HOURS)
    settings = {} if mode == PROVISIONED else {MODE: mode}
    return settings if hours == DEFAULT_HOURS else {**settings, RETENTION: str(hours)}


def _capacity(plan: EntityPlan) -> dict[str, object]:
    """Arguments of CreateStream."""
    if plan.settings.get(MODE) == ON_DEMAND:
        return {"StreamModeDetails": {"StreamMode": ON_DEMAND.upper()}}
    return {"ShardCount": plan.counts[SHARDS]}


def _without(iterators: Mapping[str, str], shard: str) -> dict[str, str]:
    return {name: iterator for name, iterator in iterators.items() if name != shard}


def _records(shard: str, answer: Sequence[Mapping[str, Any]]) -> Iterator[RawRecord]:
    """Records of an answer, with the records inside an aggregate one by one; does not check their shard."""
    for raw in answer:
        inside = open_aggregate(raw["Data"])
        if inside is None:
            yield _record(shard, raw, raw["SequenceNumber"], raw["PartitionKey"], raw["Data"])
        for number, (key, data) in enumerate(inside or ()):
            yield _record(shard, raw, shown_position(raw["SequenceNumber"], number), key, data)


def _record(shard: str, raw: Mapping[str, Any], position: str, key: str, data: bytes) -> RawRecord:
    """A raw record; an empty record is a delete: its value is None."""
    return RawRecord(
        partition=shard,
        position=position,
        timestamp_millis=int(raw["ApproximateArrivalTimestamp"].timestamp() * 1000),
        key=key.encode(),
        value=data or None,
    )
