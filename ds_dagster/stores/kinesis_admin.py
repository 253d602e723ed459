"""Control of Kinesis streams through boto3: probe, describe, create, print."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.entity import EntityFacts, EntityPlan, ProbeResult, RawRecord
from ds_dagster.catalog.entity_operations import EntityOperations
from ds_dagster.errors import DsError, error

SHARDS = "topic.shards"
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
REFUSAL_CODES = (
    "ValidationException",
    "InvalidArgumentException",
    "LimitExceededException",
    "InvalidParameterException",
)


class KinesisAdmin:
    """See ``catalog.store.StoreAdmin``. Calls are tried three times and end within half a minute."""

    def __init__(self, store: str, settings: Mapping[str, str]) -> None:
        self.store = store
        self._settings = dict(settings)
        self._made: Any = None

    def __repr__(self) -> str:
        return f"KinesisAdmin({self.store}, {self.address})"

    @property
    def address(self) -> str:
        """Endpoint, or the region's own."""
        return self._settings.get("endpoint_url") or f"kinesis.{self._settings['region']}.amazonaws.com"

    def probe(self) -> ProbeResult:
        """Does it answer, may we log in."""
        began = time.monotonic()
        try:
            self._call("list streams", "list_streams", Limit=1)
        except DsError as problem:
            return ProbeResult(False, problem.message, int((time.monotonic() - began) * 1000), problem.hint)
        return ProbeResult(True, f"Kinesis at {self.address}", int((time.monotonic() - began) * 1000))

    def describe(self, entity: str) -> EntityFacts | None:
        """Open shards of a stream, None when it does not exist. Kinesis stamps records on arrival."""
        summary = self._summary(entity)
        if summary is None:
            return None
        shards = summary.get("OpenShardCount") or len(self._shards(entity, only_open=True))
        return EntityFacts(entity, MappingProxyType({SHARDS: int(shards)}), record_time="broker")

    def ensure(self, plan: EntityPlan) -> EntityFacts:
        """Make sure a stream exists with these shards and is active.

        Raises:
            UserError: ENTITY_MISSING, ENTITY_COUNT_DIFFERS, ENTITY_REFUSED. ExternalError: STORE_CALL_FAILED.
        """
        found = self.describe(plan.name)
        if found is None:
            self._create(self._completed(plan))
        self._await_active(plan.name)
        found = self.describe(plan.name)
        if found is None:
            raise error("STORE_CALL_FAILED", store=self.store, action=f"show the new stream {plan.name}")
        if SHARDS in plan.stated and found.counts[SHARDS] != plan.counts[SHARDS]:
            raise error(
                "ENTITY_COUNT_DIFFERS",
                entity=plan.name,
                store=self.store,
                name=SHARDS,
                found=found.counts[SHARDS],
                relation=plan.used_by,
                wanted=plan.counts[SHARDS],
            )
        return found

    def _completed(self, plan: EntityPlan) -> EntityPlan:
        if plan.like is not None and plan.like[0] == self.store:
            model = self.describe(plan.like[1])
            plan = plan.completed(model) if model is not None else plan
        if SHARDS not in plan.counts:
            raise error(
                "ENTITY_MISSING",
                entity=plan.name,
                store=self.store,
                reason="nobody said how many shards it shall have",
                missing=f"'{SHARDS}'",
                relation=plan.used_by,
            )
        return plan

    def _create(self, plan: EntityPlan) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        action = f"create the stream {plan.name}"
        try:
            self._client().create_stream(StreamName=plan.name, ShardCount=plan.counts[SHARDS])
        except ClientError as problem:
            code = problem.response["Error"]["Code"]
            if code == "ResourceInUseException":
                return
            if code in REFUSAL_CODES:
                detail = problem.response["Error"].get("Message", code)
                raise error(
                    "ENTITY_REFUSED", store=self.store, entity=plan.name, relation=plan.used_by, detail=detail
                ) from None
            raise self._refusal(problem, action) from None
        except BotoCoreError as problem:
            raise self._unreachable(problem, action) from None

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
        self, entity: str, *, from_beginning: bool, limit: int | None, stopped: Callable[[], bool]
    ) -> Iterator[RawRecord]:
        """Records shard by shard as they arrive; with a limit and from the beginning also ends where every shard is
        read.

        Raises:
            UserError: ENTITY_MISSING.
        """
        iterators = self._iterators(entity, "TRIM_HORIZON" if from_beginning else "LATEST")
        given, ends = 0, limit is not None and from_beginning
        while iterators and not stopped():
            busy = False
            for shard in list(iterators):
                answer = self._call(f"read {entity}", "get_records", ShardIterator=iterators[shard], Limit=1000)
                for raw in answer["Records"]:
                    yield _record(shard, raw)
                    given += 1
                    if limit is not None and given >= limit:
                        return
                busy = busy or bool(answer["Records"]) or answer.get("MillisBehindLatest", 0) > 0
                following = answer.get("NextShardIterator")
                iterators = {**iterators, shard: following} if following else _without(iterators, shard)
            if not busy:
                if ends:
                    return
                time.sleep(POLL_SECONDS)

    def _iterators(self, entity: str, kind: str) -> dict[str, str]:
        if self._summary(entity) is None:
            reason = "it can only be read once something has been written"
            raise error(
                "ENTITY_MISSING", entity=entity, store=self.store, reason=reason, missing=f"'{SHARDS}'", relation=entity
            )
        shards = [shard["ShardId"] for shard in self._shards(entity, only_open=kind == "LATEST")]
        return {
            shard: self._call(
                f"read {entity}", "get_shard_iterator", StreamName=entity, ShardId=shard, ShardIteratorType=kind
            )["ShardIterator"]
            for shard in shards
        }

    def end_reached(self, entity: str, positions: Mapping[str, str]) -> int:
        """Records behind these sequence numbers, counted by reading (Kinesis has no offsets to subtract); at most
        10,000 a
        shard."""
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
            behind += len(answer["Records"])
        return behind

    def operations(self) -> EntityOperations:
        """Entity statements."""
        from ds_dagster.stores.kinesis_entities import KinesisEntities

        return KinesisEntities(self)

    def close(self) -> None:
        """Close the sockets."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def _client(self) -> Any:
        if self._made is None:
            try:
                import boto3
                from botocore.config import Config
            except ImportError as problem:
                raise error("STORE_DRIVER_MISSING", type="KINESIS", package="boto3") from problem
            config = Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"max_attempts": ATTEMPTS, "mode": "standard"},
            )
            self._made = boto3.client(
                "kinesis",
                region_name=self._settings["region"],
                endpoint_url=self._settings.get("endpoint_url"),
                aws_access_key_id=self._settings.get("access_key_id"),
                aws_secret_access_key=self._settings.get("secret_access_key"),
                aws_session_token=self._settings.get("session_token"),
                config=config,
            )
        return self._made

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
        found: Mapping[str, Any] = answer["StreamDescriptionSummary"]
        return found

    def _shards(self, entity: str, *, only_open: bool) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        arguments: dict[str, object] = {"StreamName": entity}
        while True:
            answer = self._call(f"list the shards of {entity}", "list_shards", **arguments)
            found += answer["Shards"]
            if not answer.get("NextToken"):
                break
            arguments = {"NextToken": answer["NextToken"]}
        return [s for s in found if not only_open or "EndingSequenceNumber" not in s["SequenceNumberRange"]]

    def _refusal(self, problem: Any, action: str) -> DsError:
        """The service answered with an error."""
        code = problem.response["Error"]["Code"]
        detail = f"{code}: {problem.response['Error'].get('Message', '')}"
        user = self._settings.get("access_key_id", "(the machine's own role)")
        if code in LOGIN_CODES:
            return error("STORE_LOGIN_REFUSED", store=self.store, address=self.address, user=user, detail=detail)
        if code in PERMISSION_CODES:
            return error("STORE_PERMISSION_DENIED", store=self.store, user=user, action=action, detail=detail)
        return error("STORE_CALL_FAILED", store=self.store, action=action, detail=detail)

    def _unreachable(self, problem: Exception, action: str) -> DsError:
        """No answer, or no credentials to ask with."""
        name, detail = type(problem).__name__, str(problem)
        if "Credentials" in name:
            return error("STORE_LOGIN_REFUSED", store=self.store, address=self.address, user="(nobody)", detail=detail)
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


def _without(iterators: Mapping[str, str], shard: str) -> dict[str, str]:
    return {name: iterator for name, iterator in iterators.items() if name != shard}


def _record(shard: str, raw: Mapping[str, Any]) -> RawRecord:
    """An empty record is a delete: its value is shown as none."""
    return RawRecord(
        partition=shard,
        position=raw["SequenceNumber"],
        timestamp_millis=int(raw["ApproximateArrivalTimestamp"].timestamp() * 1000),
        key=raw["PartitionKey"].encode(),
        value=raw["Data"] or None,
    )
