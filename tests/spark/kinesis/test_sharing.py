"""Several jobs on one stream: Kinesis answers five reads a second and shard, whoever asks."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from ds_dagster.spark.kinesis.pace import MOST_SECONDS, Pace
from ds_dagster.spark.kinesis.timing import RetryPolicy

READS_PER_SECOND = 5


class FiveReads:
    """A proxy's hook that refuses what is over five reads of a shard within a second, as Kinesis does."""

    def __init__(self) -> None:
        self.answered: dict[str, list[float]] = defaultdict(list)
        self.refused: list[float] = []
        self._shards: dict[str, str] = {}
        self._lock = threading.Lock()

    def __call__(self, operation, request, forward):
        if operation == "GetRecords" and self._is_over(request["ShardIterator"]):
            refusal = {"__type": "ProvisionedThroughputExceededException", "message": "Rate exceeded for shard"}
            return 400, refusal
        status, answer = forward(request)
        with self._lock:
            if operation == "GetShardIterator":
                self._shards[answer["ShardIterator"]] = request["ShardId"]
            if operation == "GetRecords" and answer.get("NextShardIterator"):
                self._shards[answer["NextShardIterator"]] = self._shards[request["ShardIterator"]]
        return status, answer

    def _is_over(self, iterator: str) -> bool:
        now = time.monotonic()
        with self._lock:
            recent = self.answered[self._shards[iterator]]
            if sum(moment > now - 1 for moment in recent) >= READS_PER_SECOND:
                self.refused.append(now)
                return True
            recent.append(now)
            return False


@pytest.mark.servers
def test_four_jobs_share_one_shard(stream, proxy, read_from, tools, tmp_path):
    proxy.hook = limit = FiveReads()
    jobs = [read_from(stream, proxy.url, poll_seconds=0.2, spool=str(tmp_path / str(n))) for n in range(4)]
    begun = time.monotonic()
    rounds = 0

    def everyone_has(count: int) -> Callable[[], bool]:
        def look() -> bool:
            for job in jobs:
                job.step()
            return all(len(job.rows) >= count for job in jobs)

        return look

    while time.monotonic() < begun + 8:
        stream.put(tools.numbered(20, keys=1, start=rounds * 20))
        rounds += 1
        tools.eventually(everyone_has(rounds * 20), "every job has every record")
    for job in jobs:
        assert [row[3] for row in job.rows] == [b"%08d" % i for i in range(rounds * 20)]
    (answered,) = limit.answered.values()
    late = time.monotonic() - 4
    answers, refusals = (sum(moment > late for moment in moments) for moments in (answered, limit.refused))
    print(f"last four seconds: {answers} answered, {refusals} refused")
    assert refusals < answers, "without sharing, three of four requests and all their repetitions would be refused"


def test_a_throttled_reader_slows_down_at_once_and_speeds_up_little_by_little():
    pace = Pace(0.2, lambda: 0.5)
    assert pace.after(throttled=False, at_end=False) == 0, "a backlog is read without pauses"
    assert pace.after(throttled=False, at_end=True) == 0.2
    waits = [pace.after(throttled=True, at_end=False) for _ in range(6)]
    assert waits[:3] == pytest.approx([0.2, 0.4, 0.8]) and waits[-1] == MOST_SECONDS
    faster = [pace.after(throttled=False, at_end=True) for _ in range(100)]
    assert all(after <= before * 1.01 for before, after in itertools.pairwise(faster))
    assert faster[-1] == 0.2 and sum(faster) < 60
    assert RetryPolicy().jitter() != RetryPolicy().jitter(), "readers are spread"
