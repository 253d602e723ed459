"""``ds print`` of a part of an entity that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.cli.commands import data


class Topics(SimpleNamespace):
    def describe(self, entity: str) -> EntityFacts:
        return EntityFacts(entity, {"topic.partitions": 3})

    def records(self, *_: Any, **__: Any) -> Any:
        return iter(())

    def close(self) -> None:
        pass


class Streams(Topics):
    def parts(self, _: str) -> list[str]:
        return ["shardId-000000000000", "shardId-000000000004"]


@pytest.mark.parametrize(
    ("admin", "refused", "taken"),
    [
        (Topics(), {"3": "clicks has no partition 3", "-1": "0 to 2", "shardId-0": "0 to 2"}, ("0", "02")),
        (Streams(), {"2": "clicks has no shard 2", "x": "shardId-000000000000, shardId-000000000004"}, ("0", "04")),
    ],
)
def test_a_part_that_is_not_there_is_refused_with_those_there_are(
    ds, monkeypatch: pytest.MonkeyPatch, admin: Topics, refused: Mapping[str, str], taken: tuple[str, ...]
) -> None:
    monkeypatch.setattr(data, "store_admin", lambda *_: admin)
    for text, told in refused.items():
        found = ds("print", "clicks", "--shard", text, "--from-beginning", "--limit", "1")
        assert (found.code, "[PRINT_PARTITION_UNKNOWN]" in found.err, told in found.err) == (1, True, True), found.err
    for text in taken:
        assert ds("print", "clicks", "--shard", text, "--from-beginning", "--limit", "1").code == 0
