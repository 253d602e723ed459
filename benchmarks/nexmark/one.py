"""One query in a process of its own: compared, compared with a restart in the middle, and measured.

    python -m benchmarks.nexmark.one q4 --small DIR,EVENTS,PARTS --large DIR,EVENTS,PARTS

The comparisons are the first warm-up of the measured run, a run that is not counted the second. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from benchmarks.measure import MEGABYTE, children, cpu_seconds, say
from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.halves import second_half
from benchmarks.nexmark.queries import NAMES, Compiled, compiled
from benchmarks.nexmark.running import compare, measure
from ds_dagster.jars import driver_jars
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.spark.session import build_session

CORES, MEMORY = 2, "2g"
KILOBYTE = 1024


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark.one", description=__doc__)
    parser.add_argument("query", choices=NAMES)
    parser.add_argument("--small", type=_dataset, required=True)
    parser.add_argument("--large", type=_dataset)
    asked = parser.parse_args()
    with _folder() as folder:
        query = compiled(asked.query, folder)
        found = _run(query, asked.small, asked.large, folder)
    print(json.dumps(found), flush=True)
    return 0


def _dataset(text: str) -> Dataset:
    folder, count, parts, per_second = text.rsplit(",", 3)
    return Dataset(Path(folder), int(parts), int(count), int(per_second))


def _run(query: Compiled, small: Dataset, large: Dataset | None, folder: Path) -> dict[str, Any]:
    spark = _session(folder)
    try:
        found: dict[str, Any] = {"query": query.name, "rows": 0, "equal": True}
        for restart in (False, True):
            compared = compare(query, small, spark, folder, restart=restart)
            found |= {"rows": compared.rows, "equal": found["equal"] and compared.is_equal}
            if not compared.is_equal:
                say(f"{query.name}{' with a restart' if restart else ''}: {compared.text()}")
        if large is not None:
            measure(query, large, spark, folder)
            found |= _measured(query, large, spark, folder)
        return found
    finally:
        spark.stop()


def _measured(query: Compiled, large: Dataset, spark: SparkSession, folder: Path) -> dict[str, Any]:
    driver = children(cast(Any, spark.sparkContext._gateway).proc.pid)
    _forget_peaks(driver)
    begun = cpu_seconds(driver)
    speed = measure(query, large, spark, folder)
    return {
        "input_rows": speed.rows,
        "rows_per_s": round(speed.rows / speed.seconds),
        "second_half_rows_per_s": second_half(speed.marks, speed.rows, speed.seconds),
        "cpu_s": round(cpu_seconds(driver) - begun, 1),
        "peak_mb": round(_peak_megabytes(driver)),
    }


def _forget_peaks(pids: list[int]) -> None:
    """The kernel counts the most memory from here on."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _peak_megabytes(pids: list[int]) -> float:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * KILOBYTE / MEGABYTE


def _session(folder: Path) -> SparkSession:
    """As an engine has it, but smaller batches of small data want no more state partitions than there are cores."""
    settings = Settings(
        root=folder,
        sql=folder,
        state=folder,
        engine=EngineSettings(cores=CORES, memory=MEMORY),
        spark={
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.sql.streaming.numRecentProgressUpdates": "1000",  # one for each batch of a run
            "spark.log.level": "OFF",
        },
    )
    spark = build_session(settings, jars=driver_jars(), app_name="nexmark")
    spark.sparkContext.setLogLevel("OFF")
    return spark


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ds-nexmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
