"""Java options of drivers that live for tests: they are over before an optimizing compiler pays."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ds_dagster.settings import EngineSettings

JAVA_OPTIONS = " ".join(
    (
        # half the processor time; without the second compiler Java also keeps room for a fifth of the code only, and
        # throws away what it compiled as soon as that is full
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=240m",
        "-XX:+UseSerialGC",
        # the classes of a driver outgrow the first limit several times over, each time with a full collection
        "-XX:MetaspaceSize=256m",
    )
)
SESSION_HEAP = "2g"
SESSION_OPTIONS = f"-Duser.timezone=UTC {JAVA_OPTIONS} -Xmn768m"
"""The same for a session with this heap in which hundreds of small queries run. Nearly all that their batches make is
garbage: with the third of a smaller heap that Java gives it, to collect it takes a tenth of the processor time."""
MASTER = "DS_TEST_MASTER"
"""Environment variable: the Spark master of such sessions, ``local-cluster[2,1,1024]`` for executors of their own."""
_EXECUTORS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.instances": "2",
    "spark.executor.memory": "768m",
    "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {JAVA_OPTIONS}",
}


def session_engine() -> EngineSettings:
    """Engine of a session in which tests run: two local cores unless :data:`MASTER` names another one."""
    return EngineSettings(cores=2, memory=SESSION_HEAP, durable=False, master=os.environ.get(MASTER, ""))


def session_properties() -> Mapping[str, str]:
    """Spark properties of such a session."""
    of_executors = _EXECUTORS if session_engine().is_cluster else {}
    return {"spark.driver.extraJavaOptions": SESSION_OPTIONS, **of_executors}
