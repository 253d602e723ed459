"""Changes the number of shards: by UpdateShardCount, or by single splits and merges if an API does not have that."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ds_dagster.errors import error

if TYPE_CHECKING:
    from ds_dagster.stores.kinesis.admin import KinesisAdmin

NOT_KNOWN = frozenset({"UnknownOperationException", "UnknownOperation", "NotImplemented"})
STEP_SECONDS, POLL_SECONDS = 60.0, 0.1
Shard = Mapping[str, Any]


def set_shards(admin: KinesisAdmin, stream: str, wanted: int) -> None:
    """Split or merge evenly until a stream has ``wanted`` open shards; UpdateShardCount returns before it is done.

    Raises:
        UserError, ExternalError: as other calls of the admin. STORE_CALL_FAILED if a single step takes over a minute.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    action = f"change the shards of {stream}"
    arguments = {"StreamName": stream, "TargetShardCount": wanted, "ScalingType": "UNIFORM_SCALING"}
    try:
        admin._client().update_shard_count(**arguments)
    except ClientError as problem:
        if problem.response["Error"]["Code"] not in NOT_KNOWN:
            raise admin._refusal(problem, action) from None
        _one_by_one(admin, stream, wanted, action)
    except BotoCoreError as problem:
        raise admin._unreachable(problem, action) from None


def _one_by_one(admin: KinesisAdmin, stream: str, wanted: int, action: str) -> None:
    while len(shards := _open(admin, stream)) != wanted:
        step = _split if len(shards) < wanted else _merge
        step(admin, stream, shards, action)
        ends = time.monotonic() + STEP_SECONDS
        while not _is_done(admin, stream, len(shards)):
            if time.monotonic() >= ends:
                raise error("STORE_CALL_FAILED", store=admin.store, action=action)
            time.sleep(POLL_SECONDS)


def _split(admin: KinesisAdmin, stream: str, shards: Sequence[Shard], action: str) -> None:
    """Split the widest shard in its middle."""
    widest = max(shards, key=_width)
    begin, end = _range(widest)
    middle = str((begin + end) // 2 + 1)
    admin._call(action, "split_shard", StreamName=stream, ShardToSplit=widest["ShardId"], NewStartingHashKey=middle)


def _merge(admin: KinesisAdmin, stream: str, shards: Sequence[Shard], action: str) -> None:
    """Merge the two neighbors with the smallest range together."""
    left, right = min(pairwise(shards), key=lambda pair: _width(pair[0]) + _width(pair[1]))
    ids = {"ShardToMerge": left["ShardId"], "AdjacentShardToMerge": right["ShardId"]}
    admin._call(action, "merge_shards", StreamName=stream, **ids)


def _is_done(admin: KinesisAdmin, stream: str, before: int) -> bool:
    summary = admin._summary(stream)
    is_active = summary is not None and summary["StreamStatus"] == "ACTIVE"
    return is_active and len(_open(admin, stream)) != before


def _open(admin: KinesisAdmin, stream: str) -> list[Shard]:
    return sorted(admin._shards(stream, only_open=True), key=_range)


def _range(shard: Shard) -> tuple[int, int]:
    hash_range = shard["HashKeyRange"]
    return int(hash_range["StartingHashKey"]), int(hash_range["EndingHashKey"])


def _width(shard: Shard) -> int:
    begin, end = _range(shard)
    return end - begin
