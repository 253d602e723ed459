"""Entity statements of a Kinesis store: streams, through the admin's boto3 client."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.entity import EntityPlan, RawRecord
from ds_dagster.catalog.entity_operations import EntityDescription, EntityNode, EntityPath, NewRecord
from ds_dagster.catalog.reading.extent import Landing
from ds_dagster.catalog.reading.starting import Offsets
from ds_dagster.catalog.redriving import Put, RepairedRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import error
from ds_dagster.stores.entity_common import json_value, not_found, path_invalid, record_invalid, shown_path
from ds_dagster.stores.kinesis import redriving
from ds_dagster.stores.kinesis.landings import landings
from ds_dagster.stores.kinesis.redriving import MAX_KEY_CHARACTERS
from ds_dagster.stores.kinesis.resharding import set_shards

if TYPE_CHECKING:
    from ds_dagster.stores.kinesis.admin import KinesisAdmin

SHARDS = "topic.shards"
SHAPE = 'one name: "stream"'
GONE_SECONDS = 60.0
POLL_SECONDS = 0.25


class KinesisEntities:
    """See ``catalog.entity_operations.EntityOperations``. Streams have no levels. Kinesis reports neither the number of
    records in a stream nor its newest sequence number."""

    follows = True

    def __init__(self, admin: KinesisAdmin) -> None:
        self._admin = admin
        self.store = admin.store

    def path_of(self, relation: Relation) -> EntityPath:
        """The stream."""
        return (relation.entity,)

    def children(self, path: EntityPath) -> Sequence[EntityNode]:
        """All streams."""
        if path:
            raise path_invalid(self.store, path, "empty: streams have no levels, leave IN out")
        return [EntityNode((facts.name,), "stream") for facts in self._admin.entities()]

    def describe(self, path: EntityPath) -> EntityDescription | None:
        """Open shards, retention and mode."""
        stream = self._stream(path)
        facts = self._admin.describe(stream)
        summary = self._admin._summary(stream) if facts is not None else None
        if facts is None or summary is None:
            return None
        summary_facts = {
            "retention.hours": summary.get("RetentionPeriodHours"),
            "mode": (summary.get("StreamModeDetails") or {}).get("StreamMode"),
            "status": summary.get("StreamStatus"),
        }
        settings = {
            **facts.settings,
            **{name: str(value) for name, value in summary_facts.items() if value is not None},
        }
        return EntityDescription((stream,), "stream", replace(facts, settings=MappingProxyType(settings)))

    def create(self, path: EntityPath, plan: EntityPlan) -> None:
        """Create a stream with the given shards; it is active when this returns."""
        stream = self._stream(path)
        if self._admin.describe(stream) is not None:
            raise error("ENTITY_EXISTS", store=self.store, entity=shown_path(path))
        self._admin.ensure(replace(plan, name=stream, used_by=plan.used_by or "CREATE ENTITY"))

    def update(self, path: EntityPath, plan: EntityPlan) -> None:
        """Change the number of shards; the service splits or merges them evenly."""
        stream = self._existing(path)
        wanted = plan.counts.get(SHARDS)
        if wanted is not None:
            set_shards(self._admin, stream, wanted)
            self._admin._await_active(stream)

    def drop(self, path: EntityPath) -> None:
        """Delete the stream with its registered fan-out consumers, and wait until it no longer exists."""
        stream = self._existing(path)
        action = f"delete the stream {stream}"
        self._admin._call(action, "delete_stream", StreamName=stream, EnforceConsumerDeletion=True)
        ends = time.monotonic() + GONE_SECONDS
        while time.monotonic() < ends:
            if self._admin._summary(stream) is None:
                return
            time.sleep(POLL_SECONDS)
        raise error("STORE_CALL_FAILED", store=self.store, action=action)

    def insert(self, path: EntityPath, record: NewRecord) -> str:
        """Write one record; without a key, its hash is the partition key. Returns ``shard/sequence number``."""
        stream = self._existing(path)
        if record.value is None and record.key is None:
            raise record_invalid(path, "NULL deletes a key, and there is none: write WITH ('key' = '…')")
        if record.value is not None:
            json_value(path, record.value)
        data = (record.value or "").encode()
        key = record.key if record.key is not None else hashlib.sha256(data).hexdigest()
        if not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise record_invalid(path, f"a partition key has 1 to {MAX_KEY_CHARACTERS} characters, not {len(key)}")
        put: dict[str, Any] = {"StreamName": stream, "PartitionKey": key, "Data": data}
        answer = self._admin._call(f"write into {stream}", "put_record", **put)
        return f"{answer['ShardId']}/{answer['SequenceNumber']}"

    def sample(self, path: EntityPath, limit: int) -> Sequence[RawRecord]:
        """The oldest retained records: Kinesis cannot be read backwards from its end."""
        stream = self._existing(path)
        records = self._admin.records(stream, from_beginning=True, limit=limit, stopped=lambda: False)
        return list(records)[:limit]

    def portions(self, entity: str, records: Sequence[RepairedRecord]) -> Iterator[Sequence[RepairedRecord]]:
        """See ``catalog.redriving.PutsRecords``."""
        return redriving.portions(entity, records)

    def put(self, entity: str, records: Sequence[RepairedRecord]) -> Put:
        """See ``catalog.redriving.PutsRecords``."""
        return redriving.put(self._admin, entity, records)

    def kept_seconds(self, entity: str) -> float:
        """See ``catalog.redriving.PutsRecords``."""
        summary = self._admin._summary(self._existing((entity,))) or {}
        return float(summary.get("RetentionPeriodHours") or 24) * 3600

    def find_records(self, entity: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], RawRecord]:
        """See ``catalog.redriving.FindsRecords``."""
        return redriving.find(self._admin, self._existing((entity,)), places)

    def landings(self, entity: str, offsets: Offsets) -> Mapping[int, Landing | None]:
        """See ``catalog.reading.extent.FindsOffsets``."""
        return landings(self._admin, self._existing((entity,)), offsets)

    def close(self) -> None:
        """Does nothing: the admin closes its clients."""

    def _stream(self, path: EntityPath) -> str:
        if not path:
            raise path_invalid(self.store, path, SHAPE)
        return ".".join(path)

    def _existing(self, path: EntityPath) -> str:
        stream = self._stream(path)
        if self._admin._summary(stream) is None:
            raise not_found(self.store, path, [facts.name for facts in self._admin.entities()])
        return stream
