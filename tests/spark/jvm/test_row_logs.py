"""Row logs in a real topic: what a batch leaves out is there once, whatever fails when."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.errors import DsError
from ds_dagster.spark.faults import SPARK_ERRORS
from ds_dagster.spark.jvm import NO_REPLAY, operator_error
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from tests.spark.jvm.conftest import eventually
from tests.spark.jvm.test_jvm_sink import fill, ids, on_losing_disk, remove_batches, run, source, write

pytestmark = [pytest.mark.spark, pytest.mark.servers]
ROWS = 600
LOG = "kafka.bad"


def without_tens(lab: Any, frame: DataFrame) -> DataFrame:
    """Every tenth row goes into the log."""
    text = sf.col("value").cast("string")
    is_ten = sf.get_json_object(text, "$.id").cast("int") % 10 == 0
    return frame.where(sf.when(~is_ten, sf.lit(True)).otherwise(lab.operators.log_row(lab.job, LOG, text)))


def logged(lab: Any, broker: Any, topic: str, place: str = "") -> None:
    options = {
        "kafka.bootstrap.servers": broker.address,
        "topic": topic,
        "transactional.id": f"{lab.job}~{LOG}",
        "marker.group": f"{lab.job}-1~{LOG}",
    }
    lab.operators.remove_row_logs(lab.job)
    lab.operators.register_row_log(lab.job, LOG, options)
    place = place or str(lab.root / "sink")
    planned = checkpoint_tip(lab.spark, place).planned
    lab.operators.begin_row_logs(lab.job, place, planned.batch if planned else NO_REPLAY)


@pytest.mark.parametrize("fault", ["before-commit@0", "after-commit@1", "before-commit@2"])
def test_a_replayed_batch_is_logged_once(lab: Any, broker: Any, fault: str) -> None:
    origin, target, log = broker.topic(2), broker.topic(1), broker.topic(1)
    fill(broker, origin, 2)

    def attempt(**limits: str) -> Any:
        logged(lab, broker, log)
        frame = without_tens(lab, source(lab, broker, origin, **limits))
        return write(lab, broker, frame, target, row_log_job=lab.job)

    lab.operators.set_fault(fault)
    run(lab, attempt(maxOffsetsPerTrigger="160"), expect="injected fault")
    run(lab, attempt())
    tens = {number for number in range(ROWS) if number % 10 == 0}
    assert ids(broker, target) == Counter(set(range(ROWS)) - tens)
    assert Counter(json.loads(message.value())["id"] for message in broker.read(log)) == Counter(tens)
    assert broker.ends(log, "read_committed") == broker.ends(log, "read_uncommitted")
    lab.operators.remove_row_logs(lab.job)


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_power_failure_loses_and_doubles_no_logged_row(lab: Any, broker: Any, stride: int) -> None:
    """After every few steps on the disk of the checkpoint the power fails; log and sink are two transactions."""
    origin, target, log, disk = broker.topic(1), broker.topic(1), broker.topic(1), on_losing_disk(lab)
    place = f"losing:{disk.folder}/sink"
    fill(broker, origin, 1, first=0, count=30)

    def attempt() -> bool:
        try:
            logged(lab, broker, log, place)
            frame = without_tens(lab, source(lab, broker, origin, maxOffsetsPerTrigger="10"))
            query = write(lab, broker, frame, target, place, row_log_job=lab.job).trigger(availableNow=True).start()
            lab.queries.append(query)
            query.awaitTermination(120)
        except (DsError, *SPARK_ERRORS) as problem:
            assert disk.is_off, problem
        finally:
            lab.operators.release_transaction(lab.job)
        return not disk.is_off

    steps = failures = 0
    disk.power(steps)
    while not attempt():
        failures += 1
        disk.lose(names=failures % 2 == 1)
        steps += stride
        disk.power(steps)
    disk.power()
    tens = {number for number in range(30) if number % 10 == 0}
    assert failures >= 12 / stride
    assert ids(broker, target) == Counter(set(range(30)) - tens)
    assert Counter(json.loads(message.value())["id"] for message in broker.read(log)) == Counter(tens)
    lab.operators.remove_row_logs(lab.job)


def test_a_log_that_is_ahead_of_the_checkpoint_is_refused(lab: Any, broker: Any) -> None:
    origin, target, log = broker.topic(1), broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, count=20)

    def attempt() -> Any:
        logged(lab, broker, log)
        return write(lab, broker, without_tens(lab, source(lab, broker, origin)), target, row_log_job=lab.job)

    lab.operators.set_fault("before-commit@0")
    run(lab, attempt(), expect="injected fault")
    remove_batches(lab.root / "sink", 0)
    run(lab, attempt(), expect="CHECKPOINT_BEHIND_SINK")
    assert broker.read(target) == []
    lab.operators.remove_row_logs(lab.job)


def test_what_no_batch_left_out_opens_no_transaction(lab: Any, broker: Any) -> None:
    origin, target, log = broker.topic(1), broker.topic(1), broker.topic(1)
    fill(broker, origin, 1, first=1, count=9)
    logged(lab, broker, log)
    run(lab, write(lab, broker, without_tens(lab, source(lab, broker, origin)), target, row_log_job=lab.job))
    assert ids(broker, target) == Counter(range(1, 10))
    assert broker.ends(log, "read_uncommitted") == [0]
    lab.operators.remove_row_logs(lab.job)


def test_a_stage_that_is_computed_again_logs_once(lab: Any, tmp_path: Path) -> None:
    """As on a cluster when an executor dies after its part of a stage: what it kept for the next stage is gone."""
    lab.operators.register_row_log(lab.job, LOG, {})
    gate = tmp_path / "gate"

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        (tmp_path / f"task-{uuid.uuid4().hex}").touch()
        while not gate.exists():
            time.sleep(0.02)
        yield from batches

    is_odd, text = sf.col("id") % 2 == 1, sf.col("id").cast("string")
    left_out = lab.operators.log_row(lab.job, LOG, text)
    frame = lab.spark.range(0, ROWS, 1, 2).where(sf.when(~is_odd, sf.lit(True)).otherwise(left_out))
    with ThreadPoolExecutor(1) as thread:
        rows = thread.submit(frame.repartition(6).mapInArrow(wait, "id BIGINT").collect)
        eventually(lambda: len(list(tmp_path.glob("task-*"))) == 2)
        outputs = lab.spark._jvm.org.apache.spark.SparkEnv.get().mapOutputTracker()
        shuffles = outputs.shuffleStatuses().keysIterator()
        while shuffles.hasNext():
            outputs.unregisterAllMapAndMergeOutput(shuffles.next())
        gate.touch()
        assert sorted(row.id for row in rows.result()) == list(range(0, ROWS, 2))
    numbers = [int(bytes(row)) for row in lab.operators.take_logged_rows(lab.job, LOG, 0)]
    assert Counter(numbers) == Counter(range(1, ROWS, 2))
    lab.operators.remove_row_logs(lab.job)


def test_too_much_fails_the_batch(lab: Any, memory: Any) -> None:
    rows = memory()
    lab.spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false")
    lab.operators.register_row_log(lab.job, LOG, {})
    wide = sf.repeat(sf.col("value"), 40 << 20)
    frame = rows.frame().where(lab.operators.log_row(lab.job, LOG, wide))
    rows.add("x", "y")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(lab.root / "full")).start()
    lab.queries.append(query)
    with pytest.raises(Exception, match="ROW_LOG_FULL"):
        query.processAllAvailable()
    failure = operator_error(query.exception())
    assert failure is not None
    assert failure.condition == "ROW_LOG_FULL"
    lab.operators.remove_row_logs(lab.job)
