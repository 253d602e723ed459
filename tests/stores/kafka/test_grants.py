"""What a user may not see is never taken for missing: each way to look at a topic names the grant."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.errors import DsError
from ds_dagster.stores.kafka.admin import KafkaAdmin

LOOKS: dict[str, Callable[[KafkaAdmin], object]] = {
    "describe": lambda admin: admin.describe("t"),
    "ensure": lambda admin: admin.ensure(EntityPlan("t")),
    "records": lambda admin: next(admin.records("t", from_beginning=True, limit=1, stopped=lambda: True)),
    "lag": lambda admin: admin.lag("t", {}),
    "end_reached": lambda admin: admin.end_reached("t", {}),
    "identity": lambda admin: admin.identity("t"),
}


def admin_told(code: int) -> KafkaAdmin:
    topic = SimpleNamespace(error=KafkaError(code), partitions={})

    class Told(KafkaAdmin):
        def _metadata(self, _topic: str | None = None) -> object:
            return SimpleNamespace(topics={"t": topic}, brokers={})

    return Told("k", {"bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize("look", sorted(LOOKS))
def test_a_missing_grant_is_named(look: str) -> None:
    with pytest.raises(DsError) as raised:
        LOOKS[look](admin_told(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert raised.value.condition == "STORE_PERMISSION_DENIED"
    assert "topic t" in raised.value.message


def test_a_missing_topic_is_missing() -> None:
    told = admin_told(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert (told.describe("t"), told.identity("t")) == (None, "")
    with pytest.raises(DsError, match="ENTITY_ABSENT"):
        LOOKS["records"](told)
